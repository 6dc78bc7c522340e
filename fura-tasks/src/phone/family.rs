//! Families of goals: how the phone, the goal's values and the end follow from random draws.

use std::sync::Arc;

use super::app::{App, FOLDERS, List, SECTIONS, SETTINGS, STOPWATCH};
use super::data::{Data, Record};
use super::device::Device;
use super::layout::Layout;
use super::profile::{Profile, Way};
use super::screen::Screen;
use super::start::random_phone;
use super::values::{EVENTS, LABELS, MESSAGES, MOODS, NAMES, RELATIONS, SITES};
use crate::habits::CHORES;
use crate::random::Stream;

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    Open(App),
    OpenNotes,
    OpenWeb,
    /// Switch a setting of a section.
    Switch(u8),
    Way(Way),
    /// Choose a value of a setting.
    Value(u8),
    Stopwatch,
    /// Switch a field of a record.
    Flip(List),
    Delete(List),
    /// Fill in the form of a new record.
    Add(List),
    AddNote,
    Visit,
    AlarmTone,
    Reminder,
    Number,
    Ask(List, u8),
    Show,
    ShowRelation(u8),
    Call,
    CallRelation(u8),
    CallBack,
    Send,
    Move,
    PutAway,
    Play,
    PlayMood(u8),
    /// Two things, one after the other.
    Both(&'static Family, &'static Family),
}

/// A goal in the making.
pub(super) struct Draft<'a> {
    pub(super) stream: Stream,
    pub(super) profile: &'a Profile,
    pub(super) layout: Arc<Layout>,
    pub(super) start: Data,
    pub(super) want: Data,
    pub(super) at: Option<Screen>,
    pub(super) answer: Option<Arc<str>>,
    pub(super) texts: Vec<Arc<str>>,
    /// Where the (last) decision is.
    pub(super) screen: Screen,
    /// What fills the wording's holes, one list for each part of the goal.
    pub(super) holes: Vec<Vec<String>>,
}

impl<'a> Draft<'a> {
    /// A random phone of a user.
    pub(super) fn new(mut stream: Stream, profile: &'a Profile, layout: Arc<Layout>) -> Self {
        let start = random_phone(&mut stream, profile);
        let want = start.clone();
        Self {
            stream,
            profile,
            layout,
            start,
            want,
            at: None,
            answer: None,
            texts: Vec::new(),
            screen: Screen::Home,
            holes: Vec::new(),
        }
    }

    fn pick(&mut self, list: &[&'static str]) -> &'static str {
        list[self.stream.below(list.len() as u32) as usize]
    }

    /// A record of a list: its index and its fields.
    fn record(&mut self, list: List) -> (u8, Record) {
        let records = self.start.list(list);
        let i = self.stream.below(records.len() as u32);
        (i as u8, records[i as usize].clone())
    }

    /// The index of the record with this name. Phones are made with all names that profiles have.
    fn named(&self, list: List, name: &str) -> u8 {
        self.start.list(list).iter().position(|record| &*record[0] == name).unwrap_or(0) as u8
    }

    fn ask(&mut self, holes: &[&str]) {
        self.holes.push(holes.iter().map(|hole| (*hole).to_owned()).collect());
    }

    fn put(&mut self, list: List, item: u8, field: u8, value: &str) {
        self.want.list_mut(list)[usize::from(item)][usize::from(field)] = value.into();
    }

    fn add(&mut self, list: List, record: &[&str]) {
        self.want.list_mut(list).push(record.iter().map(|field| Arc::from(*field)).collect());
    }

    fn write(&mut self, texts: &[&str]) {
        self.texts.extend(texts.iter().map(|text| Arc::from(*text)));
    }

    fn time(&mut self) -> String {
        format!("{:02}:{:02}", 5 + self.stream.below(17), 5 * self.stream.below(12))
    }

    /// Adds a family's goal.
    pub(super) fn make(&mut self, family: Family) {
        match family {
            Family::Open(app) => self.open(app, &[app.as_str()]),
            Family::OpenNotes => {
                let chore = self.pick(&CHORES);
                self.open(self.profile.notes, &[chore]);
            }
            Family::OpenWeb => {
                let event = self.pick(&EVENTS);
                self.open(self.profile.web, &[event]);
            }
            Family::Switch(section) => {
                let own = |s: &u8| {
                    let setting = &SETTINGS[usize::from(*s)];
                    setting.section == section && setting.values.len() == 2
                };
                let own: Vec<u8> = (0..SETTINGS.len() as u8).filter(own).collect();
                let s = own[self.stream.below(own.len() as u32) as usize];
                let value = SETTINGS[usize::from(s)].values[1 - usize::from(self.start.setting(s))];
                self.ask(&[SETTINGS[usize::from(s)].name, value]);
                self.toggle(s, Screen::Section(section));
            }
            Family::Stopwatch => {
                let verb = if self.start.setting(STOPWATCH) == 0 { "start" } else { "stop" };
                self.ask(&[verb]);
                self.toggle(STOPWATCH, Screen::Clock);
            }
            Family::Way(way) => {
                let event = self.pick(&EVENTS);
                self.ask(&[event]);
                // Off to begin with, all of them, so that the state does not give the habit away.
                for s in way.settings() {
                    self.start.set(s, 0);
                    self.want.set(s, 0);
                }
                self.toggle(self.profile.way(way), Screen::Section(way.section()));
            }
            Family::Value(s) => {
                let setting = &SETTINGS[usize::from(s)];
                let count = setting.values.len() as u32;
                let value = (u32::from(self.start.setting(s)) + 1 + self.stream.below(count - 1)) % count;
                self.ask(&[setting.values[value as usize]]);
                self.want.set(s, value as u8);
                self.screen = Screen::Values(s);
            }
            Family::Flip(list) => {
                let field = list.table().switches[0];
                let (i, record) = self.record(list);
                let value = if &*record[usize::from(field)] == "on" { "off" } else { "on" };
                self.ask(&[&record[0], value]);
                self.put(list, i, field, value);
                self.screen = Screen::Item(list, i);
            }
            Family::Delete(list) => {
                let (i, record) = self.record(list);
                self.ask(&[&record[0]]);
                self.want.list_mut(list).remove(usize::from(i));
                self.screen = Screen::Item(list, i);
            }
            Family::Add(list) => self.form(list),
            Family::AddNote => {
                let chore = self.unused(List::Notes, List::Jots, &CHORES);
                self.ask(&[chore]);
                let list = if self.profile.notes == App::Notes { List::Notes } else { List::Jots };
                self.new_record(list, &[chore]);
            }
            Family::Visit => {
                let site = self.unused(List::Tabs, List::Pages, &SITES);
                self.ask(&[site]);
                let list = if self.profile.web == App::Browser { List::Tabs } else { List::Pages };
                self.new_record(list, &[site]);
            }
            Family::AlarmTone => {
                let (i, record) = self.record(List::Alarms);
                self.ask(&[&record[0]]);
                self.choose(List::Alarms, i, self.profile.sound);
            }
            Family::Reminder => {
                let (i, record) = self.record(List::Events);
                self.ask(&[&record[0]]);
                self.choose(List::Events, i, self.profile.reminder);
            }
            Family::Move => {
                let (i, record) = self.record(List::Files);
                let others: Vec<&str> = FOLDERS.iter().copied().filter(|f| *f != &*record[1]).collect();
                let folder = self.pick(&others);
                self.ask(&[&record[0], folder]);
                self.choose(List::Files, i, folder);
            }
            Family::PutAway => {
                let (i, record) = self.record(List::Files);
                self.ask(&[&record[0]]);
                self.choose(List::Files, i, self.profile.folder);
            }
            Family::Number => {
                let (i, record) = self.record(List::Contacts);
                let number = self.number();
                self.ask(&[&record[0], &number]);
                self.write(&[&number]);
                self.put(List::Contacts, i, 1, &number);
                self.screen = Screen::Item(List::Contacts, i);
            }
            Family::Ask(list, field) => {
                let (i, record) = self.record(list);
                self.ask(&[&record[0]]);
                self.answer = Some(Arc::clone(&record[usize::from(field)]));
                self.screen = Screen::Item(list, i);
            }
            Family::Show => {
                let (i, record) = self.record(List::Contacts);
                let event = self.pick(&EVENTS);
                self.ask(&[&record[0], event]);
                self.show(List::Contacts, i);
            }
            Family::ShowRelation(relation) => {
                let i = self.relation(relation);
                self.show(List::Contacts, i);
            }
            Family::Call => {
                let (i, record) = self.record(List::Contacts);
                let event = self.pick(&EVENTS);
                self.ask(&[&record[0], event]);
                self.call(i);
            }
            Family::CallRelation(relation) => {
                let i = self.relation(relation);
                self.call(i);
            }
            Family::CallBack => {
                let (i, record) = self.record(List::Calls);
                self.ask(&[&record[0]]);
                self.add(List::Calls, &[&record[0], "mobile"]);
                self.screen = Screen::Item(List::Calls, i);
            }
            Family::Send => {
                let (i, record) = self.record(List::Threads);
                let others: Vec<&str> = MESSAGES.iter().copied().filter(|m| *m != &*record[1]).collect();
                let message = self.pick(&others);
                self.ask(&[&record[0], message]);
                self.write(&[message]);
                self.put(List::Threads, i, 1, message);
                self.screen = Screen::Item(List::Threads, i);
            }
            Family::Play => {
                let (i, record) = self.record(List::Playlists);
                let event = self.pick(&EVENTS);
                self.ask(&[&record[0], event]);
                self.play(i);
            }
            Family::PlayMood(mood) => {
                let event = self.pick(&EVENTS);
                self.ask(&[MOODS[usize::from(mood)], event]);
                let i = self.named(List::Playlists, self.profile.playlists[usize::from(mood)]);
                self.play(i);
            }
            Family::Both(first, second) => {
                self.make(*first);
                self.make(*second);
            }
        }
    }

    fn open(&mut self, app: App, holes: &[&str]) {
        self.ask(holes);
        self.at = Some(Screen::of(app));
        self.screen = Screen::Home;
    }

    /// Toggles as the phone itself does, with what follows from it.
    fn toggle(&mut self, s: u8, screen: Screen) {
        let mut device = Device::new(self.want.clone(), screen, Arc::clone(&self.layout));
        device.toggle(s);
        self.want = device.data;
        self.screen = screen;
    }

    fn form(&mut self, list: List) {
        let (first, second) = match list {
            List::Alarms => (self.time(), self.pick(&LABELS).to_owned()),
            List::Timers => ((1 + self.stream.below(90)).to_string(), String::new()),
            List::Events => {
                let taken = self.start.list(List::Events).to_vec();
                let free: Vec<&str> =
                    EVENTS.iter().copied().filter(|e| taken.iter().all(|r| &*r[0] != *e)).collect();
                (self.pick(&free).to_owned(), self.time())
            }
            _ => (self.pick(&NAMES).to_owned(), self.number()),
        };
        let both = [first.as_str(), second.as_str()];
        let texts = &both[..list.table().form];
        self.ask(texts);
        self.new_record(list, texts);
    }

    /// Wants a new record with these texts in its form.
    fn new_record(&mut self, list: List, texts: &[&str]) {
        self.write(texts);
        let rest = &list.table().new[texts.len()..];
        self.add(list, &[texts, rest].concat());
        self.screen = Screen::Form(list);
    }

    /// One of the values that neither list has.
    fn unused(&mut self, a: List, b: List, values: &[&'static str]) -> &'static str {
        let has = |list: List, value: &str| self.start.list(list).iter().any(|r| &*r[0] == value);
        let free: Vec<&str> = values.iter().copied().filter(|v| !has(a, v) && !has(b, v)).collect();
        self.pick(&free)
    }

    /// Wants a value of the record's chosen field, which is another one to begin with.
    fn choose(&mut self, list: List, i: u8, value: &'static str) {
        let Some((field, values)) = list.table().picked else { return };
        let others: Vec<&str> = values.iter().copied().filter(|other| *other != value).collect();
        let before = self.pick(&others);
        self.start.list_mut(list)[usize::from(i)][usize::from(field)] = before.into();
        self.put(list, i, field, value);
        self.screen = Screen::Pick(list, i);
    }

    fn relation(&mut self, relation: u8) -> u8 {
        let event = self.pick(&EVENTS);
        self.ask(&[RELATIONS[usize::from(relation)], event]);
        self.named(List::Contacts, self.profile.relations[usize::from(relation)])
    }

    fn show(&mut self, list: List, i: u8) {
        self.at = Some(Screen::Item(list, i));
        self.screen = Screen::List(list);
    }

    fn call(&mut self, i: u8) {
        let name = Arc::clone(&self.start.list(List::Contacts)[usize::from(i)][0]);
        self.add(List::Calls, &[&name, if self.profile.work { "work" } else { "mobile" }]);
        self.screen = Screen::Item(List::Contacts, i);
    }

    fn play(&mut self, i: u8) {
        let name = Arc::clone(&self.start.list(List::Playlists)[usize::from(i)][0]);
        self.add(List::Played, &[&name, "play"]);
        self.screen = Screen::Item(List::Playlists, i);
    }

    fn number(&mut self) -> String {
        format!("0{:04}", self.stream.below(10_000))
    }
}

/// The section's name, for the names of templates.
pub(super) fn section(section: u8) -> String {
    SECTIONS[usize::from(section)].to_lowercase()
}
