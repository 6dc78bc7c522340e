//! Function calls: a request to a phone, and the call that does it.

use super::item::{Item, Wordings, object, one_of, time};
use crate::grader::{CallSpec, GraderSpec, Schema, SchemaType, Syntax};
use crate::habits::Slot;
use crate::random::Stream;

/// Functions that a prompt lists, and examples of calls in it.
const LISTED: usize = 4;
const EXAMPLES: usize = 2;

/// A function of the phone.
pub(super) struct Function {
    name: &'static str,
    arguments: &'static [(&'static str, Argument)],
    wordings: Wordings,
}

/// What an argument is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Argument {
    /// One of a list of texts.
    Of(Slot),
    App,
    Setting,
    /// `on` or `off`, a boolean.
    Switch,
    Time,
    /// An integer.
    Minutes,
}

const APPS: [&str; 12] = [
    "Camera", "Maps", "Notes", "Weather", "Clock", "Music", "Files", "Mail", "Photos", "News", "Wallet",
    "Radio",
];

const SETTINGS: [&str; 8] = [
    "Bluetooth",
    "Wi-Fi",
    "dark mode",
    "vibration",
    "rotation",
    "battery saver",
    "location",
    "airplane mode",
];

const fn function(
    name: &'static str,
    arguments: &'static [(&'static str, Argument)],
    trained: &'static [&'static str],
    unseen: &'static [&'static str],
) -> Function {
    Function { name, arguments, wordings: Wordings { trained, unseen } }
}

pub(super) const FUNCTIONS: [Function; 10] = [
    function(
        "call",
        &[("name", Argument::Of(Slot::Person))],
        &["call {0}", "phone {0}", "ring {0} up", "dial the number of {0}"],
        &["get {0} on the line", "I want to talk to {0}"],
    ),
    function(
        "text",
        &[("name", Argument::Of(Slot::Person)), ("message", Argument::Of(Slot::News))],
        &["text {0} that {1}", "message {0}: {1}", "tell {0} that {1}", "write {0} that {1}"],
        &["let {0} know that {1}", "send this to {0}: {1}"],
    ),
    function(
        "alarm",
        &[("time", Argument::Time)],
        &["wake me at {0}", "set an alarm for {0}", "alarm at {0}", "I get up at {0}, wake me"],
        &["I have to be out of bed at {0}", "ring me awake at {0}"],
    ),
    function(
        "timer",
        &[("minutes", Argument::Minutes)],
        &["set a timer for {0} minutes", "count down {0} minutes", "start a {0} minute timer"],
        &["tell me when {0} minutes have passed", "{0} minutes on the kitchen clock"],
    ),
    function(
        "note",
        &[("body", Argument::Of(Slot::Chore))],
        &["note: {0}", "write down: {0}", "make a note to {0}", "take a note to {0}"],
        &["remember this: {0}", "jot down that I must {0}"],
    ),
    function(
        "event",
        &[("title", Argument::Of(Slot::Event)), ("time", Argument::Time)],
        &["add {0} at {1} to the calendar", "plan {0} for {1}", "put {0} at {1} in my diary"],
        &["pencil in {0} at {1}", "keep {1} free for {0}"],
    ),
    function(
        "switch",
        &[("setting", Argument::Setting), ("on", Argument::Switch)],
        &["turn {1} {0}", "switch {0} {1}", "set {0} to {1}"],
        &["I want {0} {1}", "{0} {1}, please"],
    ),
    function(
        "open",
        &[("app", Argument::App)],
        &["open {0}", "start {0}", "show me {0}", "go to {0}"],
        &["launch {0}", "bring up {0}"],
    ),
    function(
        "play",
        &[("song", Argument::Of(Slot::Song))],
        &["play {0}", "put on {0}", "I want to hear {0}", "listen to {0}"],
        &["stream {0}", "I am in the mood for {0}"],
    ),
    function(
        "route",
        &[("place", Argument::Of(Slot::Place))],
        &["take me to {0}", "show the way to {0}", "how do I get to {0}", "navigate to {0}"],
        &["directions to {0}", "guide me to {0}"],
    ),
];

impl Argument {
    fn draw(self, stream: &mut Stream) -> String {
        match self {
            Self::Of(slot) => one_of(stream, slot.fillers()).to_owned(),
            Self::App => one_of(stream, &APPS).to_owned(),
            Self::Setting => one_of(stream, &SETTINGS).to_owned(),
            Self::Switch => one_of(stream, &["on", "off"]).to_owned(),
            Self::Time => time(stream),
            Self::Minutes => (2 + stream.below(89)).to_string(),
        }
    }

    /// What was said, as a Python literal.
    fn literal(self, said: &str) -> String {
        match self {
            Self::Switch => if said == "on" { "True" } else { "False" }.to_owned(),
            Self::Minutes => said.to_owned(),
            _ => format!("\"{said}\""),
        }
    }

    fn schema(self) -> Schema {
        let kind = match self {
            Self::Switch => SchemaType::Boolean,
            Self::Minutes => SchemaType::Integer,
            _ => SchemaType::String,
        };
        Schema { kind: Some(kind), ..Schema::default() }
    }
}

impl Function {
    /// The function with the names of its arguments, as prompts list it.
    fn signature(&self) -> String {
        let names: Vec<&str> = self.arguments.iter().map(|(name, _)| *name).collect();
        format!("{}({})", self.name, names.join(", "))
    }

    fn parameters(&self) -> Schema {
        object(self.arguments.iter().map(|(name, of)| (*name, of.schema())))
    }
}

pub(super) fn item(stream: &mut Stream, variant: usize, unseen: bool) -> Item {
    let function = &FUNCTIONS[variant];
    let said: Vec<String> = function.arguments.iter().map(|(_, argument)| argument.draw(stream)).collect();
    let request = function.wordings.draw(stream, unseen, &said);
    let literals: Vec<(&str, String)> =
        function.arguments.iter().zip(&said).map(|((name, of), said)| (*name, of.literal(said))).collect();
    let named: Vec<String> = literals.iter().map(|(name, literal)| format!("{name}={literal}")).collect();
    let placed: Vec<&str> = literals.iter().map(|(_, literal)| literal.as_str()).collect();
    let call = format!("{}({})", function.name, named.join(", "));
    let parameters = Some(function.parameters());
    let grade = CallSpec { syntax: Syntax::Python, parameters, ..CallSpec::default() };
    Item {
        request: format!("Request: {request}\nCall:"),
        grade: GraderSpec::Call(grade),
        good: vec![call.replace('"', "'"), call.replace('=', " = ")],
        // Arguments without names, another function, two calls.
        bad: vec![
            format!("{}({})", function.name, placed.join(", ")),
            format!("do_{call}"),
            format!("{call}; {call}"),
        ],
        answer: format!(" {call}"),
        tag: function.name.to_owned(),
        key: call,
    }
}

/// The head of a prompt, which lists the right function among others, and those of the listed ones that have an
/// example, the right one as often as any.
pub(super) fn listed(stream: &mut Stream, variant: usize) -> (String, Vec<usize>) {
    let mut all: Vec<usize> = (0..FUNCTIONS.len()).filter(|other| *other != variant).collect();
    stream.shuffle(&mut all);
    all.truncate(LISTED - 1);
    all.push(variant);
    stream.shuffle(&mut all);
    let signatures: Vec<String> = all.iter().map(|&f| FUNCTIONS[f].signature()).collect();
    stream.shuffle(&mut all);
    all.truncate(EXAMPLES);
    (format!("Functions: {}\n\n", signatures.join(" ")), all)
}
