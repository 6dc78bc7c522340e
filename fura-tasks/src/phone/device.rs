//! The phone itself: what it remembers, where it is, and what actions do.

use std::fmt::Write as _;
use std::sync::Arc;

use super::action::{Action, TEXT_LIMIT};
use super::app::{AIRPLANE, List, RADIOS, SECTIONS, SETTINGS};
use super::data::Data;
use super::layout::Layout;
use super::screen::{Effect, Element, Screen, elements};

/// The longest label or value on a screen, in characters.
const SHOWN: usize = 40;

/// The most records of a list; a full one takes no more.
const MOST_RECORDS: usize = 64;

/// A phone in some state.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Device {
    pub(super) data: Data,
    pub(super) screen: Screen,
    /// The first element that is shown.
    pub(super) top: u8,
    /// The texts of the form on the screen.
    pub(super) draft: Vec<Arc<str>>,
    pub(super) layout: Arc<Layout>,
}

impl Device {
    pub(super) fn new(data: Data, screen: Screen, layout: Arc<Layout>) -> Self {
        let mut device = Self { data, screen, top: 0, draft: Vec::new(), layout };
        device.go(screen);
        device
    }

    /// The elements that the screen shows.
    pub(super) fn shown(&self) -> Vec<Element> {
        let mut all = elements(self);
        let page = usize::from(self.layout.page);
        all.drain(..usize::from(self.top).min(all.len()));
        all.truncate(page);
        all
    }

    /// Whether there are elements below and above.
    pub(super) fn scrolls(&self) -> (bool, bool) {
        let below = elements(self).len() > usize::from(self.top) + usize::from(self.layout.page);
        (below, self.top > 0)
    }

    /// The name of the screen.
    pub(super) fn title(&self) -> String {
        match self.screen {
            Screen::Home => "Home".to_owned(),
            Screen::Sections => "Settings".to_owned(),
            Screen::Section(section) => SECTIONS[usize::from(section)].to_owned(),
            Screen::Values(s) => SETTINGS[usize::from(s)].name.to_owned(),
            Screen::Clock => "Clock".to_owned(),
            Screen::List(list) => list.table().title.to_owned(),
            Screen::Form(list) => format!("{}/New", list.table().title),
            Screen::Item(list, item) => {
                let name = self.data.list(list).get(usize::from(item)).map_or("", |record| &record[0]);
                format!("{}/{}", list.table().title, line(name))
            }
            Screen::Pick(list, _) => {
                let field = list.table().picked.map_or("", |(f, _)| list.table().fields[usize::from(f)]);
                format!("{}/{field}", list.table().title)
            }
        }
    }

    /// The screen as text: its name, then an element a line.
    pub(super) fn text(&self) -> String {
        let mut out = String::with_capacity(256);
        // Writing to a string cannot fail.
        let _ = writeln!(out, "Screen: {}", self.title());
        for (i, element) in self.shown().iter().enumerate() {
            let _ = match &element.value {
                Some(value) if value.is_empty() => writeln!(out, "{i} {}: _", line(&element.label)),
                Some(value) => writeln!(out, "{i} {}: {}", line(&element.label), line(value)),
                None => writeln!(out, "{i} {}", line(&element.label)),
            };
        }
        out
    }

    /// Does an action; an impossible one changes nothing and is answered with `false`.
    pub(super) fn act(&mut self, action: &Action) -> bool {
        match action {
            Action::Tap(n) => self.shown().get(usize::from(*n)).is_some_and(|e| self.tap(e.effect)),
            Action::Type(n, text) => {
                text.len() <= TEXT_LIMIT
                    && self.shown().get(usize::from(*n)).is_some_and(|e| self.type_into(e.effect, text))
            }
            Action::Scroll(down) => {
                let (below, above) = self.scrolls();
                let page = self.layout.page;
                self.top = if *down { self.top.saturating_add(page) } else { self.top.saturating_sub(page) };
                let possible = if *down { below } else { above };
                if !possible {
                    self.top = if *down { self.top - page } else { 0 };
                }
                possible
            }
            Action::Open(app) => {
                self.go(Screen::of(*app));
                true
            }
            Action::Back => {
                let here = self.screen;
                self.go(here.parent());
                here != Screen::Home
            }
            Action::Home => {
                let here = self.screen;
                self.go(Screen::Home);
                here != Screen::Home
            }
            Action::Answer(_) | Action::Done => true,
        }
    }

    /// Shows a screen from its top, its form empty.
    fn go(&mut self, screen: Screen) {
        self.screen = screen;
        self.top = 0;
        self.draft.clear();
        let fields = match screen {
            Screen::Form(list) => list.table().form,
            Screen::Item(List::Threads, _) => 1,
            _ => 0,
        };
        self.draft.resize(fields, "".into());
    }

    fn tap(&mut self, effect: Effect) -> bool {
        match effect {
            Effect::Go(screen) => self.go(screen),
            Effect::Toggle(s) => self.toggle(s),
            Effect::Set(s, value) => {
                self.data.set(s, value);
                self.go(self.screen.parent());
            }
            Effect::Flip(list, item, field) => {
                let cell = &mut self.data.list_mut(list)[usize::from(item)][usize::from(field)];
                *cell = if &**cell == "on" { "off".into() } else { "on".into() };
            }
            Effect::Choose(list, item, field, value) => {
                self.data.list_mut(list)[usize::from(item)][usize::from(field)] = value.into();
                self.go(self.screen.parent());
            }
            Effect::Log(list, item, kind, log) => {
                let name = Arc::clone(&self.data.list(list)[usize::from(item)][0]);
                return self.add(log, vec![name, kind.into()]);
            }
            Effect::Delete(list, item) => {
                self.data.list_mut(list).remove(usize::from(item));
                self.go(Screen::List(list));
            }
            Effect::Save(list) => {
                if self.draft.iter().all(|text| text.is_empty()) {
                    return false;
                }
                let new = list.table().new.iter().skip(self.draft.len()).map(|text| Arc::from(*text));
                let record = self.draft.iter().cloned().chain(new).collect();
                if !self.add(list, record) {
                    return false;
                }
                self.go(Screen::List(list));
            }
            Effect::Send(item) => {
                if self.draft[0].is_empty() {
                    return false;
                }
                self.data.list_mut(List::Threads)[usize::from(item)][1] = Arc::clone(&self.draft[0]);
                self.draft[0] = "".into();
            }
            Effect::Field(..) | Effect::Draft(_) | Effect::Nothing => return false,
        }
        true
    }

    /// Switches a setting. Airplane mode switches Wi-Fi and mobile data off; either of them, switched on, ends it.
    pub(super) fn toggle(&mut self, s: u8) {
        let on = 1 - self.data.setting(s).min(1);
        self.data.set(s, on);
        if on == 1 {
            match s {
                AIRPLANE => RADIOS.into_iter().for_each(|radio| self.data.set(radio, 0)),
                _ if RADIOS.contains(&s) => self.data.set(AIRPLANE, 0),
                _ => {}
            }
        }
    }

    fn type_into(&mut self, effect: Effect, text: &Arc<str>) -> bool {
        match effect {
            Effect::Field(list, item, field) => {
                self.data.list_mut(list)[usize::from(item)][usize::from(field)] = Arc::clone(text);
            }
            Effect::Draft(field) => self.draft[usize::from(field)] = Arc::clone(text),
            _ => return false,
        }
        true
    }

    fn add(&mut self, list: List, record: Vec<Arc<str>>) -> bool {
        let records = self.data.list_mut(list);
        let free = records.len() < MOST_RECORDS;
        if free {
            records.push(record);
        }
        free
    }
}

/// A text as part of one line: runs of white space and control characters as one space, not too long.
pub(super) fn line(text: &str) -> String {
    let mut out = String::with_capacity(text.len().min(SHOWN));
    let blank = |c: char| c.is_control() || c.is_whitespace();
    for word in text.split(blank).filter(|word| !word.is_empty()) {
        let space = usize::from(!out.is_empty());
        let left = SHOWN.saturating_sub(out.chars().count() + space);
        if left == 0 {
            break;
        }
        if space > 0 {
            out.push(' ');
        }
        out.extend(word.chars().take(left));
    }
    out
}
