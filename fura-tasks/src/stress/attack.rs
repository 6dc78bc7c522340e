//! The attacks and their outputs.

use std::ops::Range;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::grader::{GraderSpec, OUTPUT_LIMIT, Part, Section};
use crate::task::Task;

/// A kind of output that should not earn what an answer earns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Attack {
    /// Nothing, or white space.
    Empty,
    /// The marks, keys and brackets that the grader asks for, without an answer.
    FormatOnly,
    /// Every legal answer, or the answer among others.
    AllAnswers,
    /// The answer with a digit, a character, a word or a sign changed.
    Mutated,
    /// The answer in digits of other scripts.
    OtherDigits,
    /// The prompt, repeated.
    Echo,
    /// Up to a megabyte of one thing.
    Long,
}

impl Attack {
    /// Every attack.
    pub const ALL: &'static [Self] = &[
        Self::Empty,
        Self::FormatOnly,
        Self::AllAnswers,
        Self::Mutated,
        Self::OtherDigits,
        Self::Echo,
        Self::Long,
    ];

    /// The attack as reports write it, for example `all_answers`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::FormatOnly => "format_only",
            Self::AllAnswers => "all_answers",
            Self::Mutated => "mutated",
            Self::OtherDigits => "other_digits",
            Self::Echo => "echo",
            Self::Long => "long",
        }
    }

    /// The outputs that the attack tries on a task.
    pub(super) fn outputs(self, task: &Task) -> Vec<String> {
        match self {
            Self::Empty => ["", " ", "\n\n", "\u{a0}", "\u{200b}"].map(str::to_owned).to_vec(),
            Self::FormatOnly => format_only(task),
            Self::AllAnswers => all_answers(task),
            Self::Mutated => in_the_part(task, mutated),
            Self::OtherDigits => in_the_part(task, other_digits),
            Self::Echo => echo(task),
            Self::Long => long(task),
        }
    }
}

/// What stands in for an answer: short, and right nowhere but by accident.
const FILLERS: [&str; 4] = ["", ".", "a", "none of these"];

fn format_only(task: &Task) -> Vec<String> {
    let mut out = Vec::new();
    for marks in marks(&task.grade) {
        for filler in FILLERS {
            let fill = |section: &Section| {
                let filler = if filler.is_empty() { String::new() } else { filler.repeat(section.min) };
                format!("{}{filler}{}", section.open, section.close)
            };
            out.push(marks.iter().map(fill).collect::<Vec<_>>().join("\n"));
        }
        // The marks that end sections alone, as after a prompt that began one.
        out.push(marks.iter().map(|section| section.close.as_str()).collect());
    }
    if let Ok(value) = serde_json::from_str::<Value>(&task.answer) {
        for leaf in [Value::Null, Value::from(0), Value::from(""), Value::from(true)] {
            let skeleton = with_leaves(&value, &leaf);
            // An answer of such leaves only is not attacked with itself.
            if skeleton != value {
                out.push(skeleton.to_string());
            }
        }
        out.extend(["{}", "[]", "null"].map(str::to_owned));
    }
    out.extend(
        ["()", "<answer></answer>", "<think></think>a", r"\boxed{}", "####", "```json\n```"]
            .map(str::to_owned),
    );
    out.retain(|output| *output != task.answer);
    out
}

/// The marks that a grader looks for, as sections, one list for each grader that has some.
fn marks(grade: &GraderSpec) -> Vec<Vec<Section>> {
    let section = |open: &str, close: &str| {
        let mut section = Section::default();
        (section.open, section.close, section.min) = (open.to_owned(), close.to_owned(), 1);
        section
    };
    match grade {
        GraderSpec::Format(spec) => vec![spec.sections.clone()],
        GraderSpec::Within(spec) => {
            let own = match &spec.part {
                Part::After(mark) => vec![vec![section(mark, "")]],
                Part::Between(open, close) => vec![vec![section(open, close)]],
                Part::Boxed => vec![vec![section(r"\boxed{", "}")]],
                _ => vec![],
            };
            own.into_iter().chain(marks(&spec.grade)).collect()
        }
        GraderSpec::All(spec) => spec.of.iter().flat_map(marks).collect(),
        GraderSpec::Any(spec) => spec.of.iter().flat_map(marks).collect(),
        GraderSpec::Weighted(spec) => spec.of.iter().flat_map(|part| marks(&part.grade)).collect(),
        GraderSpec::Gate(spec) => marks(&spec.when).into_iter().chain(marks(&spec.then)).collect(),
        _ => vec![],
    }
}

/// A value with another one in place of every leaf.
fn with_leaves(value: &Value, leaf: &Value) -> Value {
    match value {
        Value::Object(map) => {
            map.iter().map(|(key, value)| (key.clone(), with_leaves(value, leaf))).collect()
        }
        Value::Array(list) => list.iter().map(|value| with_leaves(value, leaf)).collect(),
        _ => leaf.clone(),
    }
}

fn all_answers(task: &Task) -> Vec<String> {
    // The answer among others, in the middle, since an attacker does not know which one it is.
    let others = match task.choices.is_empty() {
        true => mutated(&task.answer).into_iter().take(4).chain(task.bad.iter().take(4).cloned()).collect(),
        false => task.choices.iter().filter(|choice| **choice != task.answer).cloned().collect::<Vec<_>>(),
    };
    let (before, after) = others.split_at(others.len() / 2);
    let mut items = [before, std::slice::from_ref(&task.answer), after].concat();
    if items.len() < 2 {
        return vec![];
    }
    if before.is_empty() {
        // Neither first nor last, where a grader that takes either would be right to take it.
        items.insert(0, items[items.len() - 1].clone());
    }
    let mut out: Vec<String> = [" ", ", ", "\n", " or ", ""].iter().map(|sep| items.join(sep)).collect();
    out.push(format!("The answer is one of: {}.", items.join(", ")));
    // Numbers around it, where it is a small one.
    out.push((0..=100).map(|n: u32| n.to_string()).collect::<Vec<_>>().join(" "));
    out
}

/// Changes of the part of the answer that is graded.
fn in_the_part(task: &Task, change: fn(&str) -> Vec<String>) -> Vec<String> {
    let part = graded_part(&task.grade, &task.answer);
    let (head, tail) = (&task.answer[..part.start], &task.answer[part.end..]);
    change(&task.answer[part]).into_iter().map(|part| format!("{head}{part}{tail}")).collect()
}

/// The first part of the answer that a `within` grades; the whole answer without one.
fn graded_part(grade: &GraderSpec, answer: &str) -> Range<usize> {
    let whole = 0..answer.len();
    let first = |grades: &mut dyn Iterator<Item = &GraderSpec>| {
        grades.map(|grade| graded_part(grade, answer)).find(|part| *part != (0..answer.len()))
    };
    match grade {
        GraderSpec::Within(spec) => spec.part.range(answer, spec.which).ok(),
        GraderSpec::All(spec) => first(&mut spec.of.iter()),
        GraderSpec::Any(spec) => first(&mut spec.of.iter()),
        GraderSpec::Weighted(spec) => first(&mut spec.of.iter().map(|part| &part.grade)),
        GraderSpec::Gate(spec) => first(&mut [&*spec.then, &*spec.when].into_iter()),
        _ => None,
    }
    .unwrap_or(whole)
}

/// Texts that differ from an answer in what matters.
fn mutated(answer: &str) -> Vec<String> {
    let mut out = Vec::new();
    let chars: Vec<char> = answer.chars().take(2000).collect();
    let with = |at: usize, by: &str| -> String {
        chars[..at].iter().collect::<String>() + by + &chars[at + 1..].iter().collect::<String>()
    };
    let digits = chars.iter().enumerate().filter(|(_, c)| c.is_ascii_digit()).map(|(at, _)| at);
    // A digit more or less, except for zeros that may not matter.
    for at in digits.take(8) {
        let digit = chars[at].to_digit(10).unwrap_or(0);
        out.push(with(at, &((digit + 1) % 10).to_string()));
        let has_neighbour =
            chars.get(at + 1).is_some_and(char::is_ascii_digit) || (at > 0 && chars[at - 1].is_ascii_digit());
        if digit != 0 && has_neighbour {
            out.push(with(at, ""));
        }
    }
    let letters = chars.iter().enumerate().filter(|(_, c)| c.is_alphabetic()).map(|(at, _)| at);
    for at in letters.take(4) {
        let other = if chars[at] == 'q' { "z" } else { "q" };
        out.extend([with(at, other), with(at, "")]);
    }
    let words: Vec<&str> = answer.split_whitespace().collect();
    if words.len() > 1 {
        out.push(words[1..].join(" "));
        out.push(words[..words.len() - 1].join(" "));
    }
    let trimmed = answer.trim();
    if let Some(rest) = trimmed.strip_prefix('-') {
        out.push(rest.to_owned());
    } else if trimmed.starts_with(|c: char| c.is_ascii_digit()) {
        out.push(format!("-{trimmed}"));
    }
    // Twice in one piece. A value in brackets twice is the same value, given twice.
    if trimmed.starts_with(char::is_alphanumeric) && trimmed.ends_with(char::is_alphanumeric) {
        out.push(trimmed.repeat(2));
    }
    out
}

fn other_digits(answer: &str) -> Vec<String> {
    // Zero in Arabic-Indic, Devanagari, full width, mathematical bold.
    let zeros = ['\u{660}', '\u{966}', '\u{ff10}', '\u{1d7ce}'];
    if !answer.chars().any(|c| c.is_ascii_digit()) {
        return vec![];
    }
    let to = |zero: char| {
        let change = |c: char| match c.to_digit(10) {
            Some(digit) => char::from_u32(u32::from(zero) + digit).unwrap_or(c),
            None => c,
        };
        answer.chars().map(change).collect()
    };
    zeros.into_iter().map(to).collect()
}

fn echo(task: &Task) -> Vec<String> {
    let turns = task.messages.iter().map(|message| message.content.clone());
    let mut out: Vec<String> = turns.chain([task.prompt.clone()]).filter(|text| !text.is_empty()).collect();
    out.push(task.id.clone());
    out
}

fn long(task: &Task) -> Vec<String> {
    let fill = |unit: &str, bytes: usize| unit.repeat(bytes / unit.len().max(1));
    let units = ["a", "9", "(", "[", "{\"a\":", "1+", "\u{661}", "\\boxed{", "\n", "#### 1 "];
    let mut out: Vec<String> = units.iter().map(|unit| fill(unit, OUTPUT_LIMIT)).collect();
    out.push(fill("a", 1 << 20));
    if !task.answer.is_empty() {
        out.push(fill(&format!("{} ", task.answer), 1 << 20));
    }
    out
}
