//! What a phone's owner wants to do, and the apps that can do it.

use std::fmt;

/// A purpose for which a phone's owner opens an app.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Intent {
    /// Write something down.
    Note,
    /// Send a text message.
    Message,
    /// Find the way.
    Navigate,
    /// Hear a piece of music.
    Music,
    /// Write or answer an email.
    Mail,
    /// Look something up.
    Web,
    /// Make an appointment.
    Calendar,
    /// Take a picture.
    Photo,
}

impl Intent {
    /// All intents, in the order of profiles.
    pub const ALL: [Self; 8] = [
        Self::Note,
        Self::Message,
        Self::Navigate,
        Self::Music,
        Self::Mail,
        Self::Web,
        Self::Calendar,
        Self::Photo,
    ];

    /// The intent's name, for example `navigate`: the tag of its tasks.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Message => "message",
            Self::Navigate => "navigate",
            Self::Music => "music",
            Self::Mail => "mail",
            Self::Web => "web",
            Self::Calendar => "calendar",
            Self::Photo => "photo",
        }
    }

    /// The three apps that can serve the intent, the most obvious first.
    ///
    /// No app serves two intents. With its leading space each of the 24 names is one token of
    /// the SmolLM2 vocabulary (49152 byte-level BPE tokens), and no two share a token, so the
    /// logit of one token is the score of one app.
    #[must_use]
    pub fn apps(self) -> [&'static str; 3] {
        match self {
            Self::Note => ["Notes", "Keep", "Journal"],
            Self::Message => ["Messages", "Signal", "Messenger"],
            Self::Navigate => ["Maps", "Atlas", "Transit"],
            Self::Music => ["Music", "Radio", "YouTube"],
            Self::Mail => ["Mail", "Outlook", "Yahoo"],
            Self::Web => ["Browser", "Firefox", "Safari"],
            Self::Calendar => ["Calendar", "Agenda", "Schedule"],
            Self::Photo => ["Camera", "Lens", "Instagram"],
        }
    }
}

impl fmt::Display for Intent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn all_24_apps_differ() {
        let apps: BTreeSet<_> = Intent::ALL.iter().flat_map(|intent| intent.apps()).collect();
        assert_eq!(apps.len(), 24);
    }
}
