//! How requests are worded.

use super::filler::Slot::{
    self, Activity, Chore, Event, News, Person, Place, Query, Song, Subject, Time, Topic,
};
use super::intent::Intent;
use crate::random::Stream;

/// One of every `HELDOUT_SHARE` filled-in requests is never trained on.
const HELDOUT_SHARE: u8 = 4;

/// A wording with two holes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Phrasing {
    /// The text, with `{}` for each hole.
    text: &'static str,
    slots: [Slot; 2],
}

const fn p(text: &'static str, first: Slot, second: Slot) -> Phrasing {
    Phrasing { text, slots: [first, second] }
}

impl Phrasing {
    /// The wordings that training and held-out requests use.
    pub(super) fn trained(intent: Intent) -> &'static [Self; 6] {
        match intent {
            Intent::Note => {
                const {
                    &[
                        p("take a note: {} {}", Chore, Time),
                        p("note to self, {} {}", Chore, Time),
                        p("write down that I should {} {}", Chore, Time),
                        p("jot down an idea about {} for {}", Topic, Person),
                        p("make a note about {} and {}", Topic, Person),
                        p("save a note for {}: {}", Person, Chore),
                    ]
                }
            }
            Intent::Message => {
                const {
                    &[
                        p("text {} that {}", Person, News),
                        p("tell {} that {}", Person, News),
                        p("message {}: {}", Person, News),
                        p("let {} know that {}", Person, News),
                        p("send {} a text about {}", Person, Topic),
                        p("ask {} by text about {}", Person, Topic),
                    ]
                }
            }
            Intent::Navigate => {
                const {
                    &[
                        p("take me to {} {}", Place, Time),
                        p("navigate to {} with {}", Place, Person),
                        p("show the way to {} {}", Place, Time),
                        p("how do I get to {} {}", Place, Time),
                        p("find the fastest route to {} {}", Place, Time),
                        p("drive to {} to pick up {}", Place, Person),
                    ]
                }
            }
            Intent::Music => {
                const {
                    &[
                        p("play {} while I {}", Song, Activity),
                        p("put on {} for {}", Song, Person),
                        p("listen to {} {}", Song, Time),
                        p("I want to hear {} while I {}", Song, Activity),
                        p("start {} for {}", Song, Person),
                        p("queue up {} {}", Song, Time),
                    ]
                }
            }
            Intent::Mail => {
                const {
                    &[
                        p("email {} about {}", Person, Topic),
                        p("send an email to {} about {}", Person, Topic),
                        p("write {} an email that {}", Person, News),
                        p("answer the email from {} about {}", Person, Topic),
                        p("forward the email about {} to {}", Topic, Person),
                        p("email {} the files on {}", Person, Topic),
                    ]
                }
            }
            Intent::Web => {
                const {
                    &[
                        p("look up {} for {}", Query, Person),
                        p("search the web for {} near {}", Query, Place),
                        p("find {} online for {}", Query, Person),
                        p("open a page about {} for {}", Query, Person),
                        p("search online for {} near {}", Query, Place),
                        p("read about {} on the internet {}", Query, Time),
                    ]
                }
            }
            Intent::Calendar => {
                const {
                    &[
                        p("add {} with {} to my week", Event, Person),
                        p("book {} {}", Event, Time),
                        p("plan {} with {}", Event, Person),
                        p("set up {} {}", Event, Time),
                        p("put {} with {} in my diary", Event, Person),
                        p("move {} with {} to a later day", Event, Person),
                    ]
                }
            }
            Intent::Photo => {
                const {
                    &[
                        p("take a photo of {} with {}", Subject, Person),
                        p("take a picture of {} near {}", Subject, Place),
                        p("snap {} for {}", Subject, Person),
                        p("shoot a picture of {} for {}", Subject, Person),
                        p("get a photo of {} at {}", Subject, Place),
                        p("photograph {} with {}", Subject, Person),
                    ]
                }
            }
        }
    }

    /// The wordings that no training request uses.
    pub(super) fn unseen(intent: Intent) -> &'static [Self; 3] {
        match intent {
            Intent::Note => {
                const {
                    &[
                        p("write this down before I forget: {} {}", Chore, Time),
                        p("record a memo on {} for {}", Topic, Person),
                        p("put on my list: {} {}", Chore, Time),
                    ]
                }
            }
            Intent::Message => {
                const {
                    &[
                        p("ping {} that {}", Person, News),
                        p("shoot {} a quick text about {}", Person, Topic),
                        p("reply to {} that {}", Person, News),
                    ]
                }
            }
            Intent::Navigate => {
                const {
                    &[
                        p("guide me to {} {}", Place, Time),
                        p("directions to {} for {}", Place, Person),
                        p("I am lost, lead me to {} {}", Place, Time),
                    ]
                }
            }
            Intent::Music => {
                const {
                    &[
                        p("turn up {} while I {}", Song, Activity),
                        p("stream {} {}", Song, Time),
                        p("{} wants to dance to {}", Person, Song),
                    ]
                }
            }
            Intent::Mail => {
                const {
                    &[
                        p("check my inbox for news from {} about {}", Person, Topic),
                        p("draft an email telling {} that {}", Person, News),
                        p("copy {} on the email thread about {}", Person, Topic),
                    ]
                }
            }
            Intent::Web => {
                const {
                    &[
                        p("browse for {} near {}", Query, Place),
                        p("pull up a website on {} for {}", Query, Person),
                        p("what does the internet say about {} near {}", Query, Place),
                    ]
                }
            }
            Intent::Calendar => {
                const {
                    &[
                        p("pencil in {} {}", Event, Time),
                        p("when is {} with {}", Event, Person),
                        p("block some time for {} with {}", Event, Person),
                    ]
                }
            }
            Intent::Photo => {
                const {
                    &[
                        p("capture {} for {}", Subject, Person),
                        p("I want a selfie with {} and {}", Subject, Person),
                        p("grab a shot of {} near {}", Subject, Place),
                    ]
                }
            }
        }
    }

    /// The request with its holes filled.
    pub(super) fn fill(&self, fillers: [&str; 2]) -> String {
        let mut parts = self.text.split("{}");
        let mut out = parts.next().unwrap_or_default().to_owned();
        for (part, filler) in parts.zip(fillers) {
            out.push_str(filler);
            out.push_str(part);
        }
        out
    }

    /// A uniformly random filled-in request.
    pub(super) fn draw(&self, stream: &mut Stream) -> String {
        let [first, second] = self.slots.map(|slot| {
            let list = slot.fillers();
            list[stream.below(list.len() as u32) as usize]
        });
        self.fill([first, second])
    }
}

/// Whether a request is on the held-out side of the division: by a hash of its text alone, so
/// that the sides share no text, for any user and any number of draws.
pub(super) fn is_heldout(request: &str) -> bool {
    blake3::hash(request.as_bytes()).as_bytes()[0].is_multiple_of(HELDOUT_SHARE)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::collections::{HashMap, HashSet};

    /// Every request that a phrasing can give.
    pub(crate) fn all(phrasing: &Phrasing) -> impl Iterator<Item = String> {
        let [first, second] = phrasing.slots.map(Slot::fillers);
        first.iter().flat_map(move |a| second.iter().map(move |b| phrasing.fill([a, b])))
    }

    fn both(intent: Intent) -> impl Iterator<Item = &'static Phrasing> {
        Phrasing::trained(intent).iter().chain(Phrasing::unseen(intent))
    }

    #[test]
    fn every_phrasing_has_two_holes_and_all_fillers_differ() {
        for phrasing in Intent::ALL.into_iter().flat_map(both) {
            assert_eq!(phrasing.text.matches("{}").count(), 2, "{}", phrasing.text);
            let requests: HashSet<_> = all(phrasing).collect();
            assert_eq!(requests.len(), 256, "{}", phrasing.text);
        }
    }

    #[test]
    fn both_sides_of_every_trained_phrasing_are_well_filled() {
        for phrasing in Intent::ALL.iter().flat_map(|&intent| Phrasing::trained(intent)) {
            let heldout = all(phrasing).filter(|request| is_heldout(request)).count();
            assert!((32..=96).contains(&heldout), "{heldout} of 256: {}", phrasing.text);
        }
    }

    #[test]
    fn a_request_has_one_intent_and_unseen_wordings_are_never_trained() {
        let mut seen: HashMap<String, &str> = HashMap::new();
        for phrasing in Intent::ALL.into_iter().flat_map(both) {
            for request in all(phrasing) {
                let other = seen.insert(request.clone(), phrasing.text);
                assert_eq!(other, None, "{request:?} is also given by {}", phrasing.text);
            }
        }
    }

    #[test]
    fn no_request_names_an_app() {
        let apps: HashSet<String> =
            Intent::ALL.iter().flat_map(|i| i.apps()).map(str::to_lowercase).collect();
        for request in Intent::ALL.into_iter().flat_map(both).flat_map(all) {
            let lower = request.to_lowercase();
            let named = lower.split(|c: char| !c.is_alphanumeric()).find(|w| apps.contains(*w));
            assert_eq!(named, None, "{request}");
            assert_eq!(request, request.trim());
            assert!(!request.contains('\n'));
        }
    }
}
