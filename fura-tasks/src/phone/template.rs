//! The templates: a family of goals and the level, which says how far the start is from the decision.

use super::app::{App, List, SETTINGS};
use super::family::{Family, section};
use super::profile::Way;

/// How much a task takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Level(u8);

impl Level {
    /// The four levels.
    pub const ALL: [Self; 4] = [Self(1), Self(2), Self(3), Self(4)];

    /// 1: one or two actions; 2: a few, from a screen nearby; 3: from the home screen; 4: several apps.
    #[must_use]
    pub fn get(self) -> u8 {
        self.0
    }
}

/// A template.
#[derive(Debug, Clone, Copy)]
pub(super) struct Template {
    pub(super) name: &'static str,
    pub(super) family: Family,
    pub(super) level: Level,
}

/// A family's name, its levels, and itself.
type Row = (&'static str, &'static [u8], Family);

const ROWS: &[Row] = &[
    ("open.settings", &[1], Family::Open(App::Settings)),
    ("open.clock", &[1], Family::Open(App::Clock)),
    ("open.contacts", &[1], Family::Open(App::Contacts)),
    ("open.messages", &[1], Family::Open(App::Messages)),
    ("open.phone", &[1], Family::Open(App::Phone)),
    ("open.calendar", &[1], Family::Open(App::Calendar)),
    ("open.music", &[1], Family::Open(App::Music)),
    ("open.files", &[1], Family::Open(App::Files)),
    ("open.note", &[1], Family::OpenNotes),
    ("open.web", &[1], Family::OpenWeb),
    ("switch.network", &[1, 2, 3], Family::Switch(0)),
    ("switch.display", &[1, 2, 3], Family::Switch(1)),
    ("switch.sound", &[1, 2, 3], Family::Switch(2)),
    ("switch.system", &[1, 2, 3], Family::Switch(3)),
    ("way.quiet", &[1, 2, 3], Family::Way(Way::Quiet)),
    ("way.night", &[1, 2, 3], Family::Way(Way::Night)),
    ("way.online", &[1, 2, 3], Family::Way(Way::Online)),
    ("value.brightness", &[1, 2], Family::Value(10)),
    ("value.text", &[1, 2], Family::Value(11)),
    ("value.ringtone", &[1, 2], Family::Value(16)),
    ("value.volume", &[1, 2], Family::Value(17)),
    ("value.lock", &[1, 2], Family::Value(21)),
    ("value.language", &[1, 2], Family::Value(22)),
    ("clock.stopwatch", &[2], Family::Stopwatch),
    ("alarm.switch", &[2, 3], Family::Flip(List::Alarms)),
    ("alarm.delete", &[2, 3], Family::Delete(List::Alarms)),
    ("alarm.tone", &[1, 2], Family::AlarmTone),
    ("alarm.add", &[3], Family::Add(List::Alarms)),
    ("timer.add", &[3], Family::Add(List::Timers)),
    ("timer.delete", &[2], Family::Delete(List::Timers)),
    ("contact.favourite", &[2, 3], Family::Flip(List::Contacts)),
    ("contact.delete", &[2], Family::Delete(List::Contacts)),
    ("contact.add", &[3], Family::Add(List::Contacts)),
    ("contact.number", &[3], Family::Number),
    ("contact.ask", &[3], Family::Ask(List::Contacts, 1)),
    ("contact.show", &[1], Family::Show),
    ("contact.sister", &[1], Family::ShowRelation(0)),
    ("contact.boss", &[1], Family::ShowRelation(1)),
    ("contact.doctor", &[1], Family::ShowRelation(2)),
    ("contact.call", &[1, 2, 3], Family::Call),
    ("contact.call_sister", &[2, 3], Family::CallRelation(0)),
    ("contact.call_boss", &[2, 3], Family::CallRelation(1)),
    ("message.send", &[3], Family::Send),
    ("message.ask", &[3], Family::Ask(List::Threads, 1)),
    ("message.mute", &[2], Family::Flip(List::Threads)),
    ("phone.back", &[2], Family::CallBack),
    ("event.add", &[3], Family::Add(List::Events)),
    ("event.delete", &[2], Family::Delete(List::Events)),
    ("event.reminder", &[1, 2], Family::Reminder),
    ("event.ask", &[3], Family::Ask(List::Events, 1)),
    ("note.add", &[3], Family::AddNote),
    ("note.pin", &[2], Family::Flip(List::Notes)),
    ("note.delete", &[2], Family::Delete(List::Notes)),
    ("web.visit", &[3], Family::Visit),
    ("web.close", &[2], Family::Delete(List::Tabs)),
    ("web.bookmark", &[2], Family::Flip(List::Tabs)),
    ("file.delete", &[2], Family::Delete(List::Files)),
    ("file.move", &[2, 3], Family::Move),
    ("file.away", &[1, 2], Family::PutAway),
    ("music.play", &[2], Family::Play),
    ("music.running", &[2], Family::PlayMood(0)),
    ("music.sleep", &[2], Family::PlayMood(1)),
    ("both.alarm_event", &[4], Family::Both(&Family::Add(List::Alarms), &Family::Add(List::Events))),
    ("both.note_message", &[4], Family::Both(&Family::AddNote, &Family::Send)),
    ("both.online_visit", &[4], Family::Both(&Family::Way(Way::Online), &Family::Visit)),
    ("both.quiet_event", &[4], Family::Both(&Family::Way(Way::Quiet), &Family::Add(List::Events))),
    ("both.cancel_message", &[4], Family::Both(&Family::Delete(List::Events), &Family::Send)),
    ("both.call_note", &[4], Family::Both(&Family::Call, &Family::AddNote)),
    ("both.file_message", &[4], Family::Both(&Family::Move, &Family::Send)),
    ("both.volume_play", &[4], Family::Both(&Family::Value(17), &Family::Play)),
    ("both.reminder_alarm", &[4], Family::Both(&Family::Reminder, &Family::Add(List::Alarms))),
    ("both.mute_stopwatch", &[4], Family::Both(&Family::Flip(List::Threads), &Family::Stopwatch)),
];

/// All templates: one for each family and level.
pub(super) fn templates() -> impl Iterator<Item = Template> {
    ROWS.iter().flat_map(|&(name, levels, family)| {
        levels.iter().map(move |&level| Template { name, family, level: Level(level) })
    })
}

impl Template {
    pub(super) fn name(&self) -> String {
        format!("{}/{}", self.name, self.level.0)
    }

    pub(super) fn is_hidden(&self) -> bool {
        self.family.is_hidden()
    }
}

impl Family {
    /// Whether a hidden habit decides.
    pub(super) fn is_hidden(self) -> bool {
        match self {
            Self::OpenNotes
            | Self::OpenWeb
            | Self::Way(_)
            | Self::AddNote
            | Self::Visit
            | Self::AlarmTone
            | Self::Reminder
            | Self::ShowRelation(_)
            | Self::Call
            | Self::CallRelation(_)
            | Self::PutAway
            | Self::PlayMood(_) => true,
            Self::Both(a, b) => a.is_hidden() || b.is_hidden(),
            _ => false,
        }
    }

    /// Whether training never has the family, whatever the level or its values: the split `Templates`.
    pub(super) fn is_kept_out(self) -> bool {
        match self {
            Self::Flip(List::Threads | List::Tabs)
            | Self::Delete(List::Timers | List::Tabs)
            | Self::Value(22)
            | Self::CallBack
            | Self::ShowRelation(2)
            | Self::Reminder
            | Self::Ask(List::Events, _) => true,
            Self::Both(a, b) => a.is_kept_out() || b.is_kept_out(),
            _ => false,
        }
    }

    /// Whether the goal has so few values that a share of them to be kept out may be none or all.
    pub(super) fn is_fixed(self) -> bool {
        matches!(self, Self::Open(_) | Self::Stopwatch | Self::Value(_))
    }

    /// The apps that it is about.
    pub(super) fn apps(self) -> Vec<App> {
        match self {
            Self::Open(app) => vec![app],
            Self::OpenNotes | Self::AddNote => vec![App::Notes, App::Jotter],
            Self::OpenWeb | Self::Visit => vec![App::Browser, App::Compass],
            Self::Switch(_) | Self::Way(_) | Self::Value(_) => vec![App::Settings],
            Self::Stopwatch | Self::AlarmTone => vec![App::Clock],
            Self::Flip(list) | Self::Delete(list) | Self::Add(list) | Self::Ask(list, _) => {
                vec![list.table().app]
            }
            Self::Reminder => vec![App::Calendar],
            Self::Number | Self::Show | Self::ShowRelation(_) | Self::Call | Self::CallRelation(_) => {
                vec![App::Contacts]
            }
            Self::CallBack => vec![App::Phone],
            Self::Send => vec![App::Messages],
            Self::Move | Self::PutAway => vec![App::Files],
            Self::Play | Self::PlayMood(_) => vec![App::Music],
            Self::Both(a, b) => [a.apps(), b.apps()].concat(),
        }
    }

    /// What it is about in words, for the key of its values.
    pub(super) fn key(self) -> String {
        match self {
            Self::Switch(s) => format!("switch {}", section(s)),
            Self::Value(s) => format!("value {}", SETTINGS[usize::from(s)].name),
            other => format!("{other:?}"),
        }
    }
}
