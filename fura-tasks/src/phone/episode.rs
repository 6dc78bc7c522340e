//! A task being done, action by action.

use super::action::Action;
use super::device::{Device, View};
use super::grammar::grammar;
use super::screen::Screen;
use super::task::{End, PhoneTask, called, choices, state};

/// The latest actions that a prompt tells.
const PAST: usize = 2;

/// How an episode ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The end is as it should be, and nothing else changed.
    Right,
    /// Something that should have changed did not, or the answer is not the right one.
    Wrong,
    /// Something changed that should not have.
    SideEffect,
    /// The budget of actions was used up.
    OutOfSteps,
}

/// A task being done: the caller is given a prompt and legal answers, chooses one, and is given the next.
///
/// ```
/// use fura_tasks::phone::{Episode, Outcome, PhoneSplit, User, solve};
///
/// let task = User::new(7).task("contact.call/3", PhoneSplit::Train, 0).unwrap();
/// let best = solve(&task, 100_000).unwrap();
/// let mut episode = Episode::new(task, best.len());
/// for action in &best {
///     assert!(episode.prompt().starts_with("Task: "));
///     assert!(episode.choices().len() == episode.actions().len());
///     episode.act(action);
/// }
/// assert_eq!(episode.outcome(), Some(Outcome::Right));
/// ```
#[derive(Debug, Clone)]
pub struct Episode {
    task: PhoneTask,
    device: Device,
    /// What its screen shows.
    view: View,
    past: Vec<String>,
    steps: usize,
    budget: usize,
    outcome: Option<Outcome>,
}

impl Episode {
    /// A new episode of at most `budget` actions.
    #[must_use]
    pub fn new(task: PhoneTask, budget: usize) -> Self {
        let device = task.start.clone();
        let view = device.view();
        Self { task, device, view, past: Vec::new(), steps: 0, budget, outcome: None }
    }

    /// The budget that fits a task whose shortest solution has `optimal` actions: at level 1 just these, so that one
    /// wrong choice fails; above, time for detours.
    #[must_use]
    pub fn budget(task: &PhoneTask, optimal: usize) -> usize {
        if task.level.get() == 1 { optimal } else { 2 * optimal + 2 }
    }

    /// The task.
    #[must_use]
    pub fn task(&self) -> &PhoneTask {
        &self.task
    }

    /// Actions so far, impossible ones included.
    #[must_use]
    pub fn steps(&self) -> usize {
        self.steps
    }

    /// How it ended, if it has.
    #[must_use]
    pub fn outcome(&self) -> Option<Outcome> {
        self.outcome
    }

    /// Whether it ended as it should: the reward, 1 or 0, and the only one.
    #[must_use]
    pub fn succeeded(&self) -> bool {
        self.outcome == Some(Outcome::Right)
    }

    /// The screen, an element a line; the same text for the same state.
    #[must_use]
    pub fn screen(&self) -> String {
        let mut text = String::new();
        self.device.write(&self.view, &mut text);
        text
    }

    /// The state of the phone, for the `state` grader.
    #[must_use]
    pub fn state(&self) -> serde_json::Value {
        state(&self.device)
    }

    /// What the model reads: the goal, its latest actions, the screen.
    #[must_use]
    pub fn prompt(&self) -> String {
        let mut text = String::with_capacity(384);
        text.push_str("Task: ");
        text.extend(line_of_goal(&self.task.goal));
        text.push('\n');
        let past = &self.past[self.past.len().saturating_sub(PAST)..];
        for (i, action) in past.iter().enumerate() {
            text.push_str(if i == 0 { "Past: " } else { "; " });
            text.push_str(action);
        }
        text.push_str(if past.is_empty() { "" } else { "\n" });
        self.device.write(&self.view, &mut text);
        text.push_str("Do:");
        text
    }

    /// The actions that are legal for scored choice and random play; see [`choices`](Self::choices).
    #[must_use]
    pub fn actions(&self) -> Vec<Action> {
        self.task.actions(&self.device, &self.view)
    }

    /// The legal actions as answers to the prompt, in the order of [`actions`](Self::actions): each the label of what
    /// it touches where that is unambiguous, after a space and before a newline. All differ.
    #[must_use]
    pub fn choices(&self) -> Vec<String> {
        choices(&self.view, &self.actions())
    }

    /// The actions that are possible on the screen, as a grammar for decoding constrained to them: a space, then an
    /// action in its written form, for [`act_text`](Self::act_text). The notation is a part of llama.cpp's GBNF that
    /// `fura-model` reads.
    ///
    /// Texts are free here: the grammar has every [`actions`](Self::actions) of the screen, any other text in a field
    /// or as an answer, and `open` with every app. Texts with other characters than ASCII have at most 50 characters,
    /// and no escapes of control characters other than those with a letter.
    ///
    /// ```
    /// use fura_tasks::phone::{Episode, PhoneSplit, User};
    ///
    /// let task = User::new(7).task("way.quiet/1", PhoneSplit::Train, 0).unwrap();
    /// let grammar = Episode::new(task, 1).grammar();
    /// assert!(grammar.starts_with(r#"root ::= " " ("tap " ("0" | "1" |"#));
    /// ```
    #[must_use]
    pub fn grammar(&self) -> String {
        grammar(&self.view, self.device.screen == Screen::Home, self.task.end)
    }

    /// What is left to do, as a task that begins here; side effects so far still count against it.
    pub(super) fn rest(&self) -> PhoneTask {
        let mut rest = self.task.clone();
        rest.start.screen = self.device.screen;
        rest.start.top = self.device.top;
        rest.start.draft.clone_from(&self.device.draft);
        rest.start.data.clone_from(&self.device.data);
        rest
    }

    /// Does an action. An impossible one changes nothing but costs a step; after the end nothing happens.
    pub fn act(&mut self, action: &Action) -> Option<Outcome> {
        if self.outcome.is_some() {
            return self.outcome;
        }
        self.past.push(called(&self.view, action));
        self.steps += 1;
        self.device.act(&self.view, action);
        self.view = self.device.view();
        self.outcome = match action {
            Action::Done => Some(self.judge(self.task.end == End::Done)),
            Action::Answer(text) => Some(self.judge(self.task.answer.as_ref() == Some(text))),
            _ if self.task.end == End::Reached && self.task.holds(&self.device) => Some(Outcome::Right),
            _ if self.steps >= self.budget => Some(Outcome::OutOfSteps),
            _ => None,
        };
        self.outcome
    }

    /// An action given as text, by a model that writes freely. A text that is no action costs a step.
    pub fn act_text(&mut self, text: &str) -> Option<Outcome> {
        match text.trim().parse() {
            Ok(action) => self.act(&action),
            Err(_) if self.outcome.is_some() => self.outcome,
            Err(_) => {
                self.steps += 1;
                self.outcome = (self.steps >= self.budget).then_some(Outcome::OutOfSteps);
                self.outcome
            }
        }
    }

    fn judge(&self, ended_well: bool) -> Outcome {
        if self.task.has_side_effect(&self.device) {
            Outcome::SideEffect
        } else if ended_well && self.task.holds(&self.device) {
            Outcome::Right
        } else {
            Outcome::Wrong
        }
    }
}

/// A goal is one line however long; control characters become spaces.
fn line_of_goal(goal: &str) -> impl Iterator<Item = char> {
    goal.chars().map(|c| if c.is_control() { ' ' } else { c })
}
