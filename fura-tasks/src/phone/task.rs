//! One task on the phone: a goal, a start, and what the end must be.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::{Value, json};

use super::Places;
use super::action::Action;
use super::data::Data;
use super::device::{Device, View, line};
use super::screen::Screen;
use super::{App, Level};
use crate::grader::{Predicate, StateSpec};

/// How an episode ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// As soon as the goal is reached.
    Reached,
    /// When the agent says that it is done.
    Done,
    /// With an answer.
    Answer,
}

/// One task; the same one for the same template, user, split and number.
#[derive(Debug, Clone, PartialEq)]
pub struct PhoneTask {
    pub(super) id: String,
    pub(super) template: String,
    pub(super) level: Level,
    pub(super) apps: Vec<App>,
    pub(super) hidden: bool,
    pub(super) goal: String,
    /// What the goal's wording was filled with, by family: what "unseen values" means.
    pub(super) values: String,
    pub(super) start: Device,
    pub(super) want: Data,
    pub(super) at: Option<Screen>,
    pub(super) answer: Option<Arc<str>>,
    pub(super) texts: Vec<Arc<str>>,
    pub(super) end: End,
}

impl PhoneTask {
    /// A name that no other task of the user has.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The template's name.
    #[must_use]
    pub fn template(&self) -> &str {
        &self.template
    }

    /// The level.
    #[must_use]
    pub fn level(&self) -> Level {
        self.level
    }

    /// The apps that the task is about.
    #[must_use]
    pub fn apps(&self) -> &[App] {
        &self.apps
    }

    /// Whether a hidden habit decides what is right.
    #[must_use]
    pub fn is_hidden(&self) -> bool {
        self.hidden
    }

    /// What the user asks for.
    #[must_use]
    pub fn goal(&self) -> &str {
        &self.goal
    }

    /// The task's family and the values in its goal: tasks of the split `Values` share none with training.
    #[must_use]
    pub fn values(&self) -> &str {
        &self.values
    }

    /// The order of the home screen's icons.
    #[must_use]
    pub fn places(&self) -> Places {
        Places(self.start.layout.home)
    }

    /// The actions that make sense on a screen: every element that does something, every text of the task in every
    /// field, scrolling, back, home, and what can end the task. `open` is left out; it is possible everywhere.
    pub(super) fn actions(&self, device: &Device, view: &View) -> Vec<Action> {
        let mut all = Vec::with_capacity(16);
        for (n, element) in (0u8..).zip(&view.elements) {
            if element.is_field() {
                all.extend(self.texts.iter().map(|text| Action::Type(n, Arc::clone(text))));
            } else if element.effect != super::screen::Effect::Nothing {
                all.push(Action::Tap(n));
            }
            if let (End::Answer, Some(value)) = (self.end, &element.value) {
                let answer = Action::Answer(Arc::from(&**value));
                if !all.contains(&answer) {
                    all.push(answer);
                }
            }
        }
        let (below, above) = view.scrolls();
        all.extend(below.then_some(Action::Scroll(true)));
        all.extend(above.then_some(Action::Scroll(false)));
        if device.screen != Screen::Home {
            all.extend([Action::Back, Action::Home]);
        }
        all.extend((self.end == End::Done).then_some(Action::Done));
        all
    }

    /// Whether the phone is as it should be at the end; an answer is judged apart.
    pub(super) fn holds(&self, device: &Device) -> bool {
        self.at.is_none_or(|at| at == device.screen) && device.data == self.want
    }

    /// Whether something changed that the task does not change.
    pub(super) fn has_side_effect(&self, device: &Device) -> bool {
        device.data.has_side_effect(&self.start.data, &self.want)
    }

    /// The end as a grader of end states: the changes that must be there, and no other change outside the screen.
    /// [`Episode::state`](super::Episode::state) gives what it grades.
    ///
    /// ```
    /// use fura_tasks::phone::{Episode, PhoneSplit, User, solve};
    /// use fura_tasks::GraderSpec;
    ///
    /// let task = User::new(7).task("alarm.add/3", PhoneSplit::Train, 0).unwrap();
    /// let grader = GraderSpec::State(task.end_state()).build("", &[])?;
    /// let mut episode = Episode::new(task.clone(), 99);
    /// assert_eq!(grader.score(&episode.state().to_string()).0, 0.0);
    /// for action in solve(&task, 100_000).unwrap() {
    ///     episode.act(&action);
    /// }
    /// assert_eq!(grader.score(&episode.state().to_string()).0, 1.0);
    /// # Ok::<(), fura_tasks::GraderError>(())
    /// ```
    #[must_use]
    pub fn end_state(&self) -> StateSpec {
        let predicate =
            |(path, value): (String, Value)| Predicate { path, is: Some(value), ..Predicate::default() };
        let mut want: Vec<Predicate> =
            self.want.changes(&self.start.data).into_iter().map(predicate).collect();
        if let Some(at) = self.at {
            let mut end = self.start.clone();
            end.screen = at;
            want.push(predicate(("/screen".to_owned(), json!(end.title()))));
        }
        if want.is_empty() {
            want.push(Predicate { path: "/screen".to_owned(), exists: Some(true), ..Predicate::default() });
        }
        StateSpec { want, start: Some(state(&self.start)), allow: vec!["/screen".to_owned()], partial: false }
    }
}

/// A device as an end state.
pub(super) fn state(device: &Device) -> Value {
    let mut all = device.data.to_json();
    all.insert("screen".to_owned(), json!(device.title()));
    Value::Object(all)
}

/// What an action is called among the legal answers of a screen: the label of what it touches where that is unlike
/// all others, else its written form.
pub(super) fn choices(view: &View, actions: &[Action]) -> Vec<String> {
    let names: Vec<Option<Cow<'_, str>>> = actions.iter().map(|action| name(view, action)).collect();
    // A newline ends each, so that none is the beginning of another.
    (0..actions.len())
        .map(|i| match names[i].as_deref().filter(|name| is_usable(name, &names)) {
            Some(name) => [" ", name, "\n"].concat(),
            None => format!(" {}\n", actions[i]),
        })
        .collect()
}

/// What a single action is called by itself: as [`choices`] does, without others to be unlike.
pub(super) fn called(view: &View, action: &Action) -> String {
    match name(view, action).filter(|name| is_usable(name, &[])) {
        // Nothing typed leaves a space at the end.
        Some(name) => name.trim_end().to_owned(),
        None => action.to_string(),
    }
}

fn name<'a>(view: &'a View, action: &Action) -> Option<Cow<'a, str>> {
    match action {
        Action::Tap(n) => view.element(*n).map(|e| line(&e.label)),
        Action::Type(n, text) => {
            view.element(*n).map(|e| [&*line(&e.label), ": ", &*line(text)].concat().into())
        }
        _ => None,
    }
}

/// Whether a name stands for one action only.
fn is_usable(name: &str, names: &[Option<Cow<'_, str>>]) -> bool {
    let same = names.iter().flatten().filter(|other| *other == name).take(2).count();
    !name.is_empty() && same <= 1 && name.parse::<Action>().is_err()
}
