//! What the phone's owner is used to; only outcomes reveal it.

use super::app::{App, FOLDERS, REMINDERS, SETTINGS, SOUNDS};
use super::values::{MOODS, NAMES, PLAYLISTS, RELATIONS};
use crate::random::Stream;

/// What the owner wants when a request can be met by any of several settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Way {
    Quiet,
    Night,
    Online,
}

impl Way {
    const ALL: [Self; 3] = [Self::Quiet, Self::Night, Self::Online];

    pub(super) fn section(self) -> u8 {
        match self {
            Self::Online => 0,
            Self::Night => 1,
            Self::Quiet => 2,
        }
    }

    /// The settings that would do, the most obvious first; it is never the habit.
    pub(super) fn settings(self) -> [u8; 3] {
        match self {
            Self::Quiet => [12, 13, 14],
            Self::Night => [6, 7, 8],
            Self::Online => [0, 3, 4],
        }
    }
}

/// A user's habits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    pub(super) notes: App,
    pub(super) web: App,
    /// Whether people are called at work.
    pub(super) work: bool,
    pub(super) ways: [u8; 3],
    /// The contacts of [`RELATIONS`].
    pub(super) relations: [&'static str; 3],
    pub(super) reminder: &'static str,
    pub(super) sound: &'static str,
    pub(super) folder: &'static str,
    /// The playlists of [`MOODS`].
    pub(super) playlists: [&'static str; 2],
}

impl Profile {
    /// The user of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut stream = Stream::new(seed, 1 << 48);
        let mut names = NAMES;
        stream.shuffle(&mut names);
        let mut playlists = PLAYLISTS;
        stream.shuffle(&mut playlists);
        let mut coin = || stream.below(2) == 1;
        Self {
            notes: if coin() { App::Jotter } else { App::Notes },
            web: if coin() { App::Compass } else { App::Browser },
            work: coin(),
            ways: Way::ALL.map(|way| way.settings()[if coin() { 2 } else { 1 }]),
            relations: [names[0], names[1], names[2]],
            reminder: REMINDERS[1 + stream.below(4) as usize],
            sound: SOUNDS[stream.below(4) as usize],
            folder: FOLDERS[1 + stream.below(4) as usize],
            playlists: [playlists[0], playlists[1]],
        }
    }

    /// The habits by name: for reports, never for the model.
    #[must_use]
    pub fn describe(&self) -> Vec<(&'static str, &'static str)> {
        let mut all = vec![
            ("notes", self.notes.as_str()),
            ("web", self.web.as_str()),
            ("number", if self.work { "work" } else { "mobile" }),
            ("reminder", self.reminder),
            ("alarm tone", self.sound),
            ("folder", self.folder),
        ];
        all.extend(
            ["quiet", "night", "online"].into_iter().zip(self.ways.map(|s| SETTINGS[usize::from(s)].name)),
        );
        all.extend(RELATIONS.into_iter().zip(self.relations));
        all.extend(MOODS.into_iter().zip(self.playlists));
        all
    }

    pub(super) fn way(&self, way: Way) -> u8 {
        self.ways[way as usize]
    }
}
