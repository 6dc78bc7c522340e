//! A generated environment: an offline phone made of structured state and short text screens.
//!
//! Twelve apps, two of them for notes and two for the web, keep settings and lists. A screen is a
//! list of at most eight elements; an [`Action`] taps, types, scrolls or goes elsewhere. A task has
//! a goal in words and one right end: the settings and lists that it changes have their wanted
//! values and *nothing else has changed*. [`solve`] proves that a task can be done and finds the
//! shortest way; [`Episode`] is a task being done, with a prompt and the legal answers at each step:
//!
//! ```text
//! Task: no noise during lunch
//! Screen: Sound
//! 0 Vibrate: off
//! 1 Ringtone: Bell
//! 2 Do not disturb: off
//! 3 Mute: off
//! 4 Volume: loud
//! 5 Touch sounds: on
//! Do:
//! ```
//!
//! A [`User`] has hidden habits (a [`Profile`]): which app is for notes, which number to call, who
//! the boss is. Goals leave them out and only outcomes reveal them.
//!
//! A template is a family of goals and a [`Level`]. Everything follows from the user's seed, the
//! template, the [`PhoneSplit`] and a number, the same on every machine.

mod action;
mod app;
mod data;
mod decision;
mod device;
mod episode;
mod family;
mod grammar;
mod layout;
mod oracle;
mod profile;
mod screen;
mod start;
mod task;
mod template;
mod values;
mod wording;

#[cfg(test)]
mod tests;

pub use action::{Action, ActionError, TEXT_LIMIT};
pub use app::App;
pub use decision::{Decisions, PhoneError};
pub use episode::{Episode, Outcome};
pub use oracle::{play_at_random, solve};
pub use profile::Profile;
pub use task::PhoneTask;
pub use template::Level;

use std::fmt;
use std::sync::Arc;

use crate::random::Stream;
use device::Device;
use family::{Draft, Family};
use layout::Layout;
use task::End;
use template::{Template, templates};

/// Counts every change after which a seed gives other tasks.
const VERSION: u32 = 1;

/// One in this many values is kept out of training.
const UNSEEN_SHARE: u8 = 4;

/// Draws of a task before its template is given up; half of all draws or more fit.
const MOST_DRAWS: u32 = 512;

/// What tasks have in common with those of training, and what they do not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PhoneSplit {
    /// Training.
    Train,
    /// The values in the goal never occur together in training.
    Values,
    /// The goal's wording never occurs in training.
    Phrasings,
    /// The family of goals never occurs in training.
    Templates,
    /// The order of icons and menus never occurs in training, and a screen shows six elements.
    Layouts,
    /// The app, Files, never occurs in training.
    Apps,
}

impl PhoneSplit {
    /// All splits.
    pub const ALL: [Self; 6] =
        [Self::Train, Self::Values, Self::Phrasings, Self::Templates, Self::Layouts, Self::Apps];

    fn has(self, family: Family) -> bool {
        let new_app = family.apps().contains(&App::Files);
        match self {
            Self::Apps => new_app,
            Self::Templates => family.is_kept_out() && !new_app,
            Self::Values => !family.is_kept_out() && !new_app && !family.is_fixed(),
            Self::Train | Self::Phrasings | Self::Layouts => !family.is_kept_out() && !new_app,
        }
    }
}

impl fmt::Display for PhoneSplit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Train => "train",
            Self::Values => "values",
            Self::Phrasings => "phrasings",
            Self::Templates => "templates",
            Self::Layouts => "layouts",
            Self::Apps => "apps",
        })
    }
}

/// The order of a home screen's icons.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Places([App; 12]);

/// A phone's owner, with hidden habits; see the [module](self).
///
/// ```
/// use fura_tasks::phone::{Episode, PhoneSplit, User, solve};
///
/// let user = User::new(7);
/// let task = user.task("way.quiet/1", PhoneSplit::Train, 0).unwrap();
/// assert_eq!(Some(task.clone()), user.task("way.quiet/1", PhoneSplit::Train, 0));
/// assert_eq!(solve(&task, 1000).unwrap().len(), 1);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    seed: u64,
    profile: Profile,
}

impl User {
    /// The user of a seed. Other seeds are other users.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { seed, profile: Profile::new(seed) }
    }

    /// The seed.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The hidden habits: for reports, never for the model.
    #[must_use]
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// The names of the templates that a split has at a level, `FAMILY/LEVEL`.
    #[must_use]
    pub fn templates(split: PhoneSplit, level: Level) -> Vec<String> {
        let own = templates().filter(|t| t.level == level && split.has(t.family));
        own.map(|t| t.name()).collect()
    }

    /// The task of a template, a split and a number. `None` when there is no such template or the split does not
    /// have it.
    #[must_use]
    pub fn task(&self, template: &str, split: PhoneSplit, number: u64) -> Option<PhoneTask> {
        let template = templates().find(|t| t.name() == template).filter(|t| split.has(t.family))?;
        (0..MOST_DRAWS).find_map(|draw| self.draw(template, split, number, draw))
    }

    /// One draw; `None` when its values are on the other side of the division into splits, or the right app of a
    /// single decision is not on the screen.
    fn draw(&self, template: Template, split: PhoneSplit, number: u64, draw: u32) -> Option<PhoneTask> {
        let id = format!("phone:{}/{split}/{}/{number}", self.seed, template.name());
        let hash = blake3::hash(format!("{id}#{draw}").as_bytes());
        let mut stream = Stream::new(self.seed, u64::from_le_bytes(*hash.as_bytes().first_chunk()?));
        let layout = stream.below(layout::TRAINED)
            + if split == PhoneSplit::Layouts { layout::ALL - layout::TRAINED } else { 0 };
        let mut made = Draft::new(stream, &self.profile, Arc::new(Layout::new(layout)));
        made.make(template.family);
        let values = format!("{} {:?}", template.family.key(), made.holes);
        let unseen = !template.family.is_fixed() && is_unseen(&values);
        let fits = match split {
            PhoneSplit::Values => unseen,
            PhoneSplit::Train | PhoneSplit::Phrasings | PhoneSplit::Layouts => !unseen,
            PhoneSplit::Templates | PhoneSplit::Apps => true,
        };
        if !fits {
            return None;
        }
        let goal = word(&mut made.stream, template.family, split, &mut made.holes.iter());
        let from = match template.level.get() {
            1 => made.screen,
            2 => made.screen.parent(),
            _ => screen::Screen::Home,
        };
        let end = match (made.answer.is_some(), template.level.get()) {
            (true, _) => End::Answer,
            (false, 1 | 2) => End::Reached,
            (false, _) => End::Done,
        };
        let start = Device::new(made.start, from, made.layout);
        if matches!(template.family, Family::OpenNotes | Family::OpenWeb) {
            // Both apps that could be meant are there to choose from.
            let shown = &start.layout.home[..usize::from(start.layout.page)];
            if !template.family.apps().iter().all(|app| shown.contains(app)) {
                return None;
            }
        }
        Some(PhoneTask {
            id,
            template: template.name(),
            level: template.level,
            apps: template.family.apps(),
            hidden: template.is_hidden(),
            goal,
            values,
            start,
            want: made.want,
            at: made.at,
            answer: made.answer,
            texts: made.texts,
            end,
        })
    }
}

/// Whether values are kept out of training: by a hash of them alone, so for every user alike.
fn is_unseen(values: &str) -> bool {
    blake3::hash(values.as_bytes()).as_bytes()[0].is_multiple_of(UNSEEN_SHARE)
}

/// The goal in words.
fn word<'h>(
    stream: &mut Stream,
    family: Family,
    split: PhoneSplit,
    holes: &mut impl Iterator<Item = &'h Vec<String>>,
) -> String {
    if let Family::Both(first, second) = family {
        let first = word(stream, *first, split, holes);
        return format!("{first}, then {}", word(stream, *second, split, holes));
    }
    let words = wording::words_of(family);
    let list = if split == PhoneSplit::Phrasings { words.unseen } else { words.trained };
    let mut goal = list[stream.below(list.len() as u32) as usize].to_owned();
    for (i, value) in holes.next().into_iter().flatten().enumerate() {
        goal = goal.replace(&format!("{{{i}}}"), value);
    }
    goal
}
