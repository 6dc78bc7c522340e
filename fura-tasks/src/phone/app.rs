//! What the phone has: apps, settings and lists, as tables.

use std::fmt;

/// An app of the phone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)] // The names say it.
pub enum App {
    Settings,
    Clock,
    Contacts,
    Messages,
    Phone,
    Calendar,
    Notes,
    Jotter,
    Browser,
    Compass,
    Files,
    Music,
}

impl App {
    /// All apps; `Jotter` is the second notes app, `Compass` the second browser.
    pub const ALL: [Self; 12] = [
        Self::Settings,
        Self::Clock,
        Self::Contacts,
        Self::Messages,
        Self::Phone,
        Self::Calendar,
        Self::Notes,
        Self::Jotter,
        Self::Browser,
        Self::Compass,
        Self::Files,
        Self::Music,
    ];

    /// The name on the home screen.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Settings => "Settings",
            Self::Clock => "Clock",
            Self::Contacts => "Contacts",
            Self::Messages => "Messages",
            Self::Phone => "Phone",
            Self::Calendar => "Calendar",
            Self::Notes => "Notes",
            Self::Jotter => "Jotter",
            Self::Browser => "Browser",
            Self::Compass => "Compass",
            Self::Files => "Files",
            Self::Music => "Music",
        }
    }
}

impl fmt::Display for App {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A setting: its name, its values and the section of Settings that shows it.
#[derive(Debug)]
pub(super) struct Setting {
    pub(super) name: &'static str,
    pub(super) values: &'static [&'static str],
    pub(super) section: u8,
}

const fn setting(section: u8, name: &'static str, values: &'static [&'static str]) -> Setting {
    Setting { name, values, section }
}

const SWITCH: &[&str] = &["off", "on"];

/// The sections of Settings. The stopwatch is in none: Clock shows it.
pub(super) const SECTIONS: [&str; 4] = ["Network", "Display", "Sound", "System"];

/// The sounds of alarms and calls.
pub(super) const SOUNDS: &[&str] = &["Bell", "Waves", "Piano", "Rain"];

/// All settings, a section after the other.
pub(super) const SETTINGS: [Setting; 24] = [
    setting(0, "Wi-Fi", SWITCH),
    setting(0, "Bluetooth", SWITCH),
    setting(0, "Airplane mode", SWITCH),
    setting(0, "Mobile data", SWITCH),
    setting(0, "Hotspot", SWITCH),
    setting(0, "NFC", SWITCH),
    setting(1, "Dark mode", SWITCH),
    setting(1, "Night light", SWITCH),
    setting(1, "Low light", SWITCH),
    setting(1, "Auto-rotate", SWITCH),
    setting(1, "Brightness", &["low", "middle", "high", "full"]),
    setting(1, "Text size", &["small", "normal", "large", "huge"]),
    setting(2, "Do not disturb", SWITCH),
    setting(2, "Mute", SWITCH),
    setting(2, "Vibrate", SWITCH),
    setting(2, "Touch sounds", SWITCH),
    setting(2, "Ringtone", SOUNDS),
    setting(2, "Volume", &["silent", "quiet", "medium", "loud"]),
    setting(3, "Battery saver", SWITCH),
    setting(3, "Location", SWITCH),
    setting(3, "Updates", SWITCH),
    setting(3, "Screen lock", &["1 minute", "5 minutes", "10 minutes", "never"]),
    setting(3, "Language", &["English", "German", "French", "Spanish"]),
    setting(4, "Stopwatch", SWITCH),
];

/// Settings by their index in [`SETTINGS`]: those that airplane mode switches off, and others.
pub(super) const RADIOS: [u8; 2] = [0, 3];
pub(super) const AIRPLANE: u8 = 2;
pub(super) const STOPWATCH: u8 = 23;

/// A list of records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum List {
    Alarms,
    Timers,
    Contacts,
    Threads,
    Calls,
    Events,
    Notes,
    Jots,
    Tabs,
    Pages,
    Files,
    Playlists,
    Played,
}

/// What a list is like: what its records hold and what can be done with one.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) app: App,
    /// The name on the screen.
    pub(super) title: &'static str,
    /// Key in the end state.
    pub(super) key: &'static str,
    pub(super) fields: &'static [&'static str],
    /// A new record before its form is filled in.
    pub(super) new: &'static [&'static str],
    /// The first fields that the form of a new record asks for; without a form, 0.
    pub(super) form: usize,
    /// Fields that are typed on a record's screen.
    pub(super) typed: &'static [u8],
    /// Fields that are switched between off and on.
    pub(super) switches: &'static [u8],
    /// A field chosen from a list of values.
    pub(super) picked: Option<(u8, &'static [&'static str])>,
    /// Actions that add a record, the name and the kind, to a list.
    pub(super) verbs: &'static [(&'static str, &'static str, List)],
    pub(super) deletes: bool,
}

const PLAIN: Table = Table {
    app: App::Clock,
    title: "",
    key: "",
    fields: &[],
    new: &[],
    form: 0,
    typed: &[],
    switches: &[],
    picked: None,
    verbs: &[],
    deletes: true,
};

const TABLES: [Table; 13] = [
    Table {
        title: "Alarms",
        key: "alarms",
        fields: &["Time", "Label", "Active", "Tone"],
        new: &["", "", "on", "Bell"],
        form: 2,
        switches: &[2],
        picked: Some((3, SOUNDS)),
        ..PLAIN
    },
    Table { title: "Timers", key: "timers", fields: &["Minutes"], new: &[""], form: 1, ..PLAIN },
    Table {
        app: App::Contacts,
        title: "Contacts",
        key: "contacts",
        fields: &["Name", "Mobile", "Work", "Favourite"],
        new: &["", "", "", "off"],
        form: 2,
        typed: &[1, 2],
        switches: &[3],
        verbs: &[("Ring mobile", "mobile", List::Calls), ("Call work", "work", List::Calls)],
        ..PLAIN
    },
    Table {
        app: App::Messages,
        title: "Messages",
        key: "threads",
        fields: &["Name", "Message", "Muted"],
        switches: &[2],
        ..PLAIN
    },
    Table {
        app: App::Phone,
        title: "Calls",
        key: "calls",
        fields: &["Name", "Kind"],
        verbs: &[("Call back", "mobile", List::Calls)],
        ..PLAIN
    },
    Table {
        app: App::Calendar,
        title: "Calendar",
        key: "events",
        fields: &["Title", "Time", "Reminder"],
        new: &["", "", "none"],
        form: 2,
        picked: Some((2, REMINDERS)),
        ..PLAIN
    },
    Table { app: App::Notes, title: "Notes", key: "notes", ..NOTE },
    Table { app: App::Jotter, title: "Jotter", key: "jots", ..NOTE },
    Table { app: App::Browser, title: "Browser", key: "tabs", ..TAB },
    Table { app: App::Compass, title: "Compass", key: "pages", ..TAB },
    Table {
        app: App::Files,
        title: "Files",
        key: "files",
        fields: &["Name", "Folder"],
        picked: Some((1, FOLDERS)),
        ..PLAIN
    },
    Table {
        app: App::Music,
        title: "Music",
        key: "playlists",
        fields: &["Name"],
        verbs: &[("Play", "play", List::Played)],
        deletes: false,
        ..PLAIN
    },
    Table {
        app: App::Music,
        title: "Played",
        key: "played",
        fields: &["Name", "Kind"],
        deletes: false,
        ..PLAIN
    },
];

const NOTE: Table =
    Table { fields: &["Text", "Pinned"], new: &["", "off"], form: 1, switches: &[1], ..PLAIN };

const TAB: Table =
    Table { fields: &["Address", "Bookmark"], new: &["", "off"], form: 1, switches: &[1], ..PLAIN };

/// When an event's reminder comes.
pub(super) const REMINDERS: &[&str] = &["none", "5 minutes", "15 minutes", "1 hour", "1 day"];

/// Where a file may be.
pub(super) const FOLDERS: &[&str] = &["Downloads", "Archive", "Backup", "Papers", "Shared"];

impl List {
    pub(super) const ALL: [Self; 13] = [
        Self::Alarms,
        Self::Timers,
        Self::Contacts,
        Self::Threads,
        Self::Calls,
        Self::Events,
        Self::Notes,
        Self::Jots,
        Self::Tabs,
        Self::Pages,
        Self::Files,
        Self::Playlists,
        Self::Played,
    ];

    pub(super) fn table(self) -> &'static Table {
        &TABLES[self as usize]
    }
}
