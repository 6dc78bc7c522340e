//! The phone itself: what it remembers, where it is, and what actions do.

use std::borrow::Cow;
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

/// What a screen shows.
#[derive(Debug, Clone)]
pub(super) struct View {
    /// The elements that are shown.
    pub(super) elements: Vec<Element>,
    /// Whether there are elements below.
    below: bool,
    /// Whether there are elements above.
    above: bool,
}

impl View {
    /// The element with this index.
    pub(super) fn element(&self, index: u8) -> Option<&Element> {
        self.elements.get(usize::from(index))
    }

    /// Whether there are elements below and above.
    pub(super) fn scrolls(&self) -> (bool, bool) {
        (self.below, self.above)
    }
}

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

    /// What the screen shows. Whoever looks at it more than once keeps it until the next action.
    pub(super) fn view(&self) -> View {
        let mut elements = elements(self);
        let (top, page) = (usize::from(self.top), usize::from(self.layout.page));
        let below = elements.len() > top + page;
        elements.drain(..top.min(elements.len()));
        elements.truncate(page);
        View { elements, below, above: top > 0 }
    }

    /// The name of the screen.
    pub(super) fn title(&self) -> Cow<'static, str> {
        match self.screen {
            Screen::Home => "Home".into(),
            Screen::Sections => "Settings".into(),
            Screen::Section(section) => SECTIONS[usize::from(section)].into(),
            Screen::Values(s) => SETTINGS[usize::from(s)].name.into(),
            Screen::Clock => "Clock".into(),
            Screen::List(list) => list.table().title.into(),
            Screen::Form(list) => format!("{}/New", list.table().title).into(),
            Screen::Item(list, item) => {
                let name = self.data.list(list).get(usize::from(item)).map_or("", |record| &record[0]);
                format!("{}/{}", list.table().title, line(name)).into()
            }
            Screen::Pick(list, _) => {
                let field = list.table().picked.map_or("", |(f, _)| list.table().fields[usize::from(f)]);
                format!("{}/{field}", list.table().title).into()
            }
        }
    }

    /// Adds the screen as text: its name, then an element of what it shows a line.
    pub(super) fn write(&self, view: &View, out: &mut String) {
        // Writing to a string cannot fail.
        let _ = writeln!(out, "Screen: {}", self.title());
        for (i, element) in view.elements.iter().enumerate() {
            let _ = write!(out, "{i} ");
            out.push_str(&line(&element.label));
            if let Some(value) = &element.value {
                out.push_str(": ");
                out.push_str(if value.is_empty() { "_" } else { "" });
                out.push_str(&line(value));
            }
            out.push('\n');
        }
    }

    /// Does an action on what the screen shows; an impossible one changes nothing and is answered with `false`.
    pub(super) fn act(&mut self, view: &View, action: &Action) -> bool {
        match action {
            Action::Tap(n) => view.element(*n).is_some_and(|e| self.tap(e.effect)),
            Action::Type(n, text) => {
                text.len() <= TEXT_LIMIT && view.element(*n).is_some_and(|e| self.type_into(e.effect, text))
            }
            Action::Scroll(down) => {
                let (below, above) = view.scrolls();
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
pub(super) fn line(text: &str) -> Cow<'_, str> {
    if is_line(text) { Cow::Borrowed(text) } else { Cow::Owned(made_line(text)) }
}

/// Whether a text is part of a line as it is, as far as that can be seen at a glance: short, and of ASCII words with one
/// space between them.
fn is_line(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() <= SHOWN
        && bytes.iter().all(|byte| (b' '..0x7f).contains(byte))
        && !bytes.starts_with(b" ")
        && !bytes.ends_with(b" ")
        && !bytes.windows(2).any(|pair| pair == b"  ")
}

fn made_line(text: &str) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_text_that_is_a_line_at_a_glance_is_one(text in "[ -~]{0,45}|[a ]{0,8}|[a\\t\u{e9}\u{a0} ]{0,8}") {
            let made = made_line(&text);
            prop_assert_eq!(&line(&text), &made);
            prop_assert_eq!(&line(&made), &made);
            prop_assert!(!is_line(&text) || made == text);
        }
    }
}
