//! Screens: a list of elements for every place in the phone.

use std::ops::Deref;
use std::sync::Arc;

use super::app::{App, List, SECTIONS, SETTINGS, STOPWATCH};
use super::device::Device;

/// A place in the phone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Screen {
    Home,
    Sections,
    Section(u8),
    /// The values of a setting.
    Values(u8),
    Clock,
    List(List),
    Item(List, u8),
    /// The values of a record's chosen field.
    Pick(List, u8),
    Form(List),
}

impl Screen {
    /// An app's first screen.
    pub(super) fn of(app: App) -> Self {
        Self::List(match app {
            App::Settings => return Self::Sections,
            App::Clock => return Self::Clock,
            App::Contacts => List::Contacts,
            App::Messages => List::Threads,
            App::Phone => List::Calls,
            App::Calendar => List::Events,
            App::Notes => List::Notes,
            App::Jotter => List::Jots,
            App::Browser => List::Tabs,
            App::Compass => List::Pages,
            App::Files => List::Files,
            App::Music => List::Playlists,
        })
    }

    /// The screen above.
    pub(super) fn parent(self) -> Self {
        match self {
            Self::Home | Self::Sections | Self::Clock => Self::Home,
            Self::Section(_) => Self::Sections,
            Self::Values(setting) => Self::Section(SETTINGS[usize::from(setting)].section),
            Self::List(List::Alarms | List::Timers) => Self::Clock,
            Self::List(_) => Self::Home,
            Self::Item(list, _) | Self::Form(list) => Self::List(list),
            Self::Pick(list, item) => Self::Item(list, item),
        }
    }
}

/// What a tap on an element does, or what its text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    Go(Screen),
    Toggle(u8),
    Set(u8, u8),
    Flip(List, u8, u8),
    Choose(List, u8, u8, &'static str),
    /// Add the record's name and a kind to a list.
    Log(List, u8, &'static str, List),
    Delete(List, u8),
    Save(List),
    Send(u8),
    /// A field of a record.
    Field(List, u8, u8),
    /// A field of the form.
    Draft(u8),
    Nothing,
}

/// A text on a screen: the phone's own or one of its owner's, copied neither way.
#[derive(Debug, Clone)]
pub(super) enum Text {
    Own(&'static str),
    Shared(Arc<str>),
}

impl Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Self::Own(text) => text,
            Self::Shared(text) => text,
        }
    }
}

impl From<&'static str> for Text {
    fn from(text: &'static str) -> Self {
        Self::Own(text)
    }
}

impl From<&Arc<str>> for Text {
    fn from(text: &Arc<str>) -> Self {
        Self::Shared(Arc::clone(text))
    }
}

/// An element of a screen.
#[derive(Debug, Clone)]
pub(super) struct Element {
    pub(super) label: Text,
    /// What it shows after its label.
    pub(super) value: Option<Text>,
    pub(super) effect: Effect,
}

impl Element {
    fn new(label: impl Into<Text>, effect: Effect) -> Self {
        Self { label: label.into(), value: None, effect }
    }

    fn showing(label: &'static str, value: impl Into<Text>, effect: Effect) -> Self {
        Self { label: label.into(), value: Some(value.into()), effect }
    }

    /// Whether it is typed into.
    pub(super) fn is_field(&self) -> bool {
        matches!(self.effect, Effect::Field(..) | Effect::Draft(_))
    }
}

/// All elements of the device's screen, shown or not.
pub(super) fn elements(device: &Device) -> Vec<Element> {
    match device.screen {
        Screen::Home => device
            .layout
            .home
            .iter()
            .map(|&app| Element::new(app.as_str(), Effect::Go(Screen::of(app))))
            .collect(),
        Screen::Sections => {
            let mut sections: Vec<u8> = (0..SECTIONS.len() as u8).collect();
            sections.sort_by_key(|&s| device.layout.rank(s));
            sections
                .into_iter()
                .map(|s| Element::new(SECTIONS[usize::from(s)], Effect::Go(Screen::Section(s))))
                .collect()
        }
        Screen::Section(section) => {
            let mut own: Vec<u8> =
                (0..SETTINGS.len() as u8).filter(|&s| SETTINGS[usize::from(s)].section == section).collect();
            own.sort_by_key(|&s| device.layout.rank(s));
            own.into_iter().map(|s| setting(device, s)).collect()
        }
        Screen::Values(s) => {
            let mut values: Vec<u8> = (0..SETTINGS[usize::from(s)].values.len() as u8).collect();
            values.sort_by_key(|&v| device.layout.rank(v));
            values
                .into_iter()
                .map(|v| Element::new(SETTINGS[usize::from(s)].values[usize::from(v)], Effect::Set(s, v)))
                .collect()
        }
        Screen::Clock => vec![
            Element::new("Alarms", Effect::Go(Screen::List(List::Alarms))),
            Element::new("Timers", Effect::Go(Screen::List(List::Timers))),
            setting(device, STOPWATCH),
        ],
        Screen::List(list) => records(device, list),
        Screen::Item(list, item) => record(device, list, item),
        Screen::Pick(list, item) => {
            let Some((field, values)) = list.table().picked else { return Vec::new() };
            let mut values: Vec<(usize, &'static str)> = values.iter().copied().enumerate().collect();
            values.sort_by_key(|(i, _)| device.layout.rank(*i as u8));
            values
                .into_iter()
                .map(|(_, value)| Element::new(value, Effect::Choose(list, item, field, value)))
                .collect()
        }
        Screen::Form(list) => {
            let mut all: Vec<Element> = device
                .draft
                .iter()
                .zip(list.table().fields)
                .enumerate()
                .map(|(i, (text, name))| Element::showing(name, text, Effect::Draft(i as u8)))
                .collect();
            all.push(Element::new("Save", Effect::Save(list)));
            all
        }
    }
}

fn setting(device: &Device, s: u8) -> Element {
    let setting = &SETTINGS[usize::from(s)];
    let value = setting.values[usize::from(device.data.setting(s))];
    let effect = if setting.values.len() == 2 { Effect::Toggle(s) } else { Effect::Go(Screen::Values(s)) };
    Element::showing(setting.name, value, effect)
}

fn records(device: &Device, list: List) -> Vec<Element> {
    let items = device.data.list(list).iter().enumerate();
    let mut all: Vec<Element> =
        items.map(|(i, record)| Element::new(&record[0], Effect::Go(Screen::Item(list, i as u8)))).collect();
    if list.table().form > 0 {
        all.push(Element::new("New", Effect::Go(Screen::Form(list))));
    }
    all
}

fn record(device: &Device, list: List, item: u8) -> Vec<Element> {
    let table = list.table();
    let Some(record) = device.data.list(list).get(usize::from(item)) else { return Vec::new() };
    let mut all = Vec::with_capacity(8);
    for (f, (name, value)) in (0u8..).zip(table.fields.iter().zip(record)) {
        let effect = if table.switches.contains(&f) {
            Effect::Flip(list, item, f)
        } else if table.picked.is_some_and(|(field, _)| field == f) {
            Effect::Go(Screen::Pick(list, item))
        } else if table.typed.contains(&f) {
            Effect::Field(list, item, f)
        } else {
            Effect::Nothing
        };
        all.push(Element::showing(name, value, effect));
    }
    if list == List::Threads {
        let draft = device.draft.first().map_or("".into(), Text::from);
        all.push(Element::showing("Reply", draft, Effect::Draft(0)));
        all.push(Element::new("Send", Effect::Send(item)));
    }
    for &(label, kind, log) in table.verbs {
        all.push(Element::new(label, Effect::Log(list, item, kind, log)));
    }
    if table.deletes {
        all.push(Element::new("Delete", Effect::Delete(list, item)));
    }
    all
}
