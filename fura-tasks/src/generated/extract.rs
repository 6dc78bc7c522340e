//! Extraction: a short message, and its facts as JSON.

use super::item::{Item, Wordings, object, one_of, time};
use crate::grader::{GraderSpec, JsonSpec, Schema, SchemaType};
use crate::habits::Slot;
use crate::random::Stream;

/// A kind of message.
pub(super) struct Message {
    name: &'static str,
    facts: &'static [(&'static str, Fact)],
    wordings: Wordings,
}

/// What a fact is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fact {
    /// One of a list of texts.
    Of(Slot),
    Day,
    Time,
    /// An integer.
    Count,
    Item,
    /// An integer.
    Euros,
    /// `paid` or `open`, a boolean.
    Paid,
    /// Digits that are a text.
    Number,
    From,
    To,
}

const DAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

const ITEMS: [&str; 12] = [
    "chairs", "lamps", "boxes", "plates", "bottles", "towels", "books", "candles", "cups", "tents", "maps",
    "keys",
];

// No city is in both, so that a trip always goes somewhere.
const FROM: [&str; 8] = ["Oslo", "Rome", "Paris", "Madrid", "Vienna", "Dublin", "Lisbon", "Berlin"];
const TO: [&str; 8] = ["Athens", "Prague", "Milan", "Geneva", "Munich", "London", "Warsaw", "Bergen"];

const fn message(
    name: &'static str,
    facts: &'static [(&'static str, Fact)],
    trained: &'static [&'static str],
    unseen: &'static [&'static str],
) -> Message {
    Message { name, facts, wordings: Wordings { trained, unseen } }
}

pub(super) const MESSAGES: [Message; 5] = [
    message(
        "meeting",
        &[
            ("what", Fact::Of(Slot::Event)),
            ("who", Fact::Of(Slot::Person)),
            ("day", Fact::Day),
            ("time", Fact::Time),
        ],
        &[
            "{0} with {1} on {2} at {3}",
            "{1} comes for {0} on {2}, {3}",
            "on {2} at {3} there is {0} with {1}",
            "{2}, {3}: {0} with {1}",
        ],
        &["{1} asked for {0}, {2} at {3}", "see you at {3} on {2} for {0}, {1}"],
    ),
    message(
        "order",
        &[("count", Fact::Count), ("item", Fact::Item), ("place", Fact::Of(Slot::Place))],
        &[
            "please bring {0} {1} to {2}",
            "we need {0} {1} at {2}",
            "{0} {1} for {2}",
            "send {0} of the {1} to {2}",
        ],
        &["{2} is short of {0} {1}", "could you drop {0} {1} at {2}?"],
    ),
    message(
        "bill",
        &[("to", Fact::Of(Slot::Person)), ("euros", Fact::Euros), ("paid", Fact::Paid)],
        &[
            "{1} euros for {0}, {2}",
            "bill from {0}: {1} euros, {2}",
            "the {1} euros of {0} are {2}",
            "{0} gets {1} euros ({2})",
        ],
        &["{2}: {1} euros to {0}", "I owed {0} {1} euros, that is {2}"],
    ),
    message(
        "contact",
        &[("name", Fact::Of(Slot::Person)), ("number", Fact::Number)],
        &[
            "{0} has the number {1}",
            "my new number is {1}, {0}",
            "reach {0} at {1}",
            "{1} is the number of {0}",
        ],
        &["dial {1} and ask for {0}", "{0} can be called at {1} from now on"],
    ),
    message(
        "trip",
        &[("from", Fact::From), ("to", Fact::To), ("time", Fact::Time)],
        &[
            "train from {0} to {1} at {2}",
            "I leave {0} at {2} for {1}",
            "to {1} from {0}, {2}",
            "at {2} the bus goes from {0} to {1}",
        ],
        &["{1} is where I go, from {0}, at {2}", "departure {0} {2}, next stop {1}"],
    ),
];

impl Fact {
    fn draw(self, stream: &mut Stream) -> String {
        match self {
            Self::Of(slot) => one_of(stream, slot.fillers()).to_owned(),
            Self::Day => one_of(stream, &DAYS).to_owned(),
            Self::Time => time(stream),
            Self::Count => (2 + stream.below(29)).to_string(),
            Self::Item => one_of(stream, &ITEMS).to_owned(),
            Self::Euros => (5 + stream.below(295)).to_string(),
            Self::Paid => one_of(stream, &["paid", "open"]).to_owned(),
            Self::Number => format!("0{:04}", stream.below(10_000)),
            Self::From => one_of(stream, &FROM).to_owned(),
            Self::To => one_of(stream, &TO).to_owned(),
        }
    }

    /// What was said, as JSON; no text here needs an escape.
    fn json(self, said: &str) -> String {
        match self {
            Self::Paid => (said == "paid").to_string(),
            Self::Count | Self::Euros => said.to_owned(),
            _ => format!("\"{said}\""),
        }
    }

    fn schema(self) -> Schema {
        let kind = match self {
            Self::Paid => SchemaType::Boolean,
            Self::Count | Self::Euros => SchemaType::Integer,
            _ => SchemaType::String,
        };
        let values = (self == Self::Day).then(|| DAYS.map(serde_json::Value::from).to_vec());
        Schema { kind: Some(kind), values, ..Schema::default() }
    }
}

impl Message {
    fn schema(&self) -> Schema {
        object(self.facts.iter().map(|(key, fact)| (*key, fact.schema())))
    }
}

pub(super) fn item(stream: &mut Stream, variant: usize, unseen: bool) -> Item {
    let message = &MESSAGES[variant];
    let said: Vec<String> = message.facts.iter().map(|(_, fact)| fact.draw(stream)).collect();
    let text = message.wordings.draw(stream, unseen, &said);
    let object = |values: Vec<String>| {
        let members = message.facts.iter().zip(values).map(|((key, _), value)| format!("\"{key}\":{value}"));
        format!("{{{}}}", members.collect::<Vec<_>>().join(","))
    };
    let facts = || message.facts.iter().zip(&said);
    let json = object(facts().map(|((_, fact), said)| fact.json(said)).collect());
    // All facts as texts, or as what a text looks like: some type is wrong.
    let texts = object(said.iter().map(|said| format!("\"{said}\"")).collect());
    let mut bad = vec![json.replacen(':', "", 1), json.replacen('}', ",\"x\":1}", 1)];
    bad.extend((texts != json).then_some(texts));
    let grade = JsonSpec { schema: Some(message.schema()), ..JsonSpec::default() };
    Item {
        request: format!("Message: {text}\nJSON:"),
        grade: GraderSpec::Json(grade),
        good: vec![json.replace(',', ", ")],
        bad,
        answer: format!(" {json}"),
        tag: message.name.to_owned(),
        key: json,
    }
}
