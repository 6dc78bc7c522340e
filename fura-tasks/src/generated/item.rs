//! A request with its answer, and how requests are worded.

use std::collections::BTreeMap;

use crate::grader::{GraderSpec, Schema, SchemaType};
use crate::random::Stream;

/// A request with its answer, before it has a prompt.
#[derive(Debug)]
pub(super) struct Item {
    /// What is asked for, without its wording: the division into splits is by this.
    pub(super) key: String,
    /// The end of the prompt, after which the answer comes.
    pub(super) request: String,
    pub(super) answer: String,
    pub(super) grade: GraderSpec,
    pub(super) good: Vec<String>,
    pub(super) bad: Vec<String>,
    pub(super) tag: String,
}

/// The wordings of a request; `{0}`, `{1}` and so on are its values.
#[derive(Debug)]
pub(super) struct Wordings {
    pub(super) trained: &'static [&'static str],
    pub(super) unseen: &'static [&'static str],
}

impl Wordings {
    /// A random wording with its values filled in.
    pub(super) fn draw(&self, stream: &mut Stream, unseen: bool, values: &[String]) -> String {
        let list = if unseen { self.unseen } else { self.trained };
        fill(one_of(stream, list), values)
    }
}

/// A wording with its values filled in; values hold no braces.
pub(super) fn fill(wording: &str, values: &[String]) -> String {
    let holes = values.iter().enumerate();
    holes.fold(wording.to_owned(), |text, (i, value)| text.replace(&format!("{{{i}}}"), value))
}

/// One of a list, which is not empty.
pub(super) fn one_of(stream: &mut Stream, list: &[&'static str]) -> &'static str {
    list[stream.below(list.len() as u32) as usize]
}

/// A time of day in steps of five minutes, from 05:00 to 22:55.
pub(super) fn time(stream: &mut Stream) -> String {
    format!("{:02}:{:02}", 5 + stream.below(18), 5 * stream.below(12))
}

/// The schema of objects with exactly these members.
pub(super) fn object(members: impl Iterator<Item = (&'static str, Schema)>) -> Schema {
    let properties: BTreeMap<String, Schema> =
        members.map(|(key, schema)| (key.to_owned(), schema)).collect();
    Schema {
        kind: Some(SchemaType::Object),
        required: properties.keys().cloned().collect(),
        properties,
        additional_properties: false,
        ..Schema::default()
    }
}
