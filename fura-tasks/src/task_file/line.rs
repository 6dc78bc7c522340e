//! One line of a task file.

use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};

use super::error::{Place, TaskFileError, shown};
use crate::grader::GraderSpec;
use crate::task::{Message, Role, Split, Task};

/// The only version of the format.
const VERSION: u32 = 1;
const MOST_TOKENS: u32 = 1 << 16;
const DEFAULT_TOKENS: u32 = 16;

/// Whether a line is a header: an object with the key `fura_tasks`.
pub(super) fn is_header(line: &str) -> bool {
    #[derive(Deserialize)]
    struct Probe {
        fura_tasks: Option<IgnoredAny>,
    }
    serde_json::from_str::<Probe>(line).is_ok_and(|probe| probe.fura_tasks.is_some())
}

/// What a task has when its line does not say.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Defaults {
    grade: Option<GraderSpec>,
    choices: Option<Vec<String>>,
    max_tokens: Option<u32>,
    stop: Option<Vec<String>>,
    split: Option<Split>,
    tags: Option<Vec<String>>,
}

impl Defaults {
    /// The defaults of a header line.
    pub(super) fn from_header(line: &str, place: Place<'_>) -> Result<Self, TaskFileError> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Header {
            fura_tasks: u32,
            #[serde(default)]
            defaults: Defaults,
        }
        let header: Header = parse(line, place)?;
        if header.fura_tasks != VERSION {
            let why = format!("version {}, expected {VERSION}; convert the file", header.fura_tasks);
            return Err(place.error(1, "fura_tasks", &why));
        }
        Ok(header.defaults)
    }
}

/// A task as its line writes it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawTask {
    id: String,
    #[serde(default)]
    prompt: String,
    #[serde(default)]
    messages: Vec<Message>,
    answer: String,
    grade: Option<GraderSpec>,
    choices: Option<Vec<String>>,
    max_tokens: Option<u32>,
    stop: Option<Vec<String>>,
    split: Option<Split>,
    #[serde(default)]
    good: Vec<String>,
    #[serde(default)]
    bad: Vec<String>,
    tags: Option<Vec<String>>,
    #[serde(default)]
    meta: serde_json::Map<String, serde_json::Value>,
}

impl RawTask {
    pub(super) fn parse(line: &str, place: Place<'_>) -> Result<Self, TaskFileError> {
        parse(line, place)
    }

    pub(super) fn with_defaults(self, defaults: &Defaults, place: Place<'_>) -> Result<Task, TaskFileError> {
        let choices = self.choices.or_else(|| defaults.choices.clone());
        if choices.as_ref().is_some_and(Vec::is_empty) {
            let why = "an empty list; list the legal answers, or leave the key out for free text";
            return Err(place.error(1, "choices", why));
        }
        let grade = self
            .grade
            .or_else(|| defaults.grade.clone())
            .ok_or_else(|| place.error(1, "grade", "missing; write it here or in the header's `defaults`"))?;
        Ok(Task {
            id: self.id,
            prompt: self.prompt,
            messages: self.messages,
            answer: self.answer,
            grade,
            choices: choices.unwrap_or_default(),
            max_tokens: self.max_tokens.or(defaults.max_tokens).unwrap_or(DEFAULT_TOKENS),
            stop: self.stop.or_else(|| defaults.stop.clone()).unwrap_or_default(),
            split: self.split.or(defaults.split).unwrap_or_default(),
            good: self.good,
            bad: self.bad,
            tags: self.tags.or_else(|| defaults.tags.clone()).unwrap_or_default(),
            meta: self.meta,
        })
    }
}

/// About how many bytes of memory a task takes.
pub(super) fn size(task: &Task) -> usize {
    // A text's own fields and its allocation, besides its bytes.
    const TEXT: usize = 48;
    // Of free JSON, a list of one-digit numbers takes the most memory for its text.
    const FOR_A_BYTE: usize = 16;
    let lists = [&task.choices, &task.stop, &task.good, &task.bad, &task.tags].map(Vec::as_slice);
    let turns = task.messages.iter().map(|message| &message.content);
    let texts = lists.into_iter().flatten().chain(turns).chain([&task.id, &task.prompt, &task.answer]);
    let texts: usize = texts.map(|text| text.len() + TEXT).sum();
    // They came from JSON, so that they can be written as JSON.
    let json = serde_json::to_string(&(&task.grade, &task.meta)).map_or(0, |text| text.len() * FOR_A_BYTE);
    texts + json + size_of::<Task>()
}

/// Checks a task's values, and its grader by the task's own examples.
pub(super) fn check(task: &Task, place: Place<'_>) -> Result<(), TaskFileError> {
    if task.id.trim().is_empty() {
        return Err(place.error(1, "id", "empty; write its text"));
    }
    check_prompt(task, place)?;
    if !(1..=MOST_TOKENS).contains(&task.max_tokens) {
        let why = format!("{}, expected 1 to {MOST_TOKENS}", task.max_tokens);
        return Err(place.error(1, "max_tokens", &why));
    }
    if task.stop.iter().any(String::is_empty) {
        return Err(place.error(1, "stop", "an empty text would end every output; remove it"));
    }
    check_choices(task, place)?;
    let grader = task.grader().map_err(|source| place.grader(&task.id, source))?;
    let good = task.good.iter().map(|text| ("good", text, true));
    let bad = task.bad.iter().map(|text| ("bad", text, false));
    for (field, text, right) in std::iter::once(("answer", &task.answer, true)).chain(good).chain(bad) {
        let (score, label) = grader.score(text);
        if (score == 1.0) != right {
            let want = if right { "1" } else { "below 1" };
            let why = format!(
                "scores {score} ({label}) under the task's own grader, expected {want}; \
                 correct it or `grade`: {text:?}"
            );
            return Err(place.error(1, field, &why));
        }
    }
    Ok(())
}

/// A prompt or a conversation that the model's turn comes after.
fn check_prompt(task: &Task, place: Place<'_>) -> Result<(), TaskFileError> {
    let Some(last) = task.messages.last() else {
        return match task.prompt.trim() {
            "" => Err(place.error(1, "prompt", "empty or missing; write its text, or `messages`")),
            _ => Ok(()),
        };
    };
    if !task.prompt.is_empty() {
        return Err(place.error(1, "messages", "there is a `prompt` too; remove one of them"));
    }
    if task.messages.iter().any(|message| message.content.trim().is_empty()) {
        return Err(place.error(1, "messages", "a `content` is empty; write its text or remove the turn"));
    }
    if task.messages.iter().skip(1).any(|message| message.role == Role::System) {
        return Err(place.error(1, "messages", "a `system` turn after the first; move it to the beginning"));
    }
    if last.role != Role::User {
        return Err(place.error(
            1,
            "messages",
            "the last turn is not the `user`'s, so the model is not to answer",
        ));
    }
    Ok(())
}

fn check_choices(task: &Task, place: Place<'_>) -> Result<(), TaskFileError> {
    let mut sorted: Vec<&String> = task.choices.iter().collect();
    sorted.sort_unstable();
    if sorted.first().is_some_and(|text| text.is_empty()) {
        return Err(place.error(1, "choices", "an entry is empty; write its text or remove it"));
    }
    if let Some(pair) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        let why = format!("an entry is there twice; remove one: {:?}", pair[0]);
        return Err(place.error(1, "choices", &why));
    }
    if !sorted.is_empty() && sorted.binary_search(&&task.answer).is_err() {
        let why = format!("not one of `choices`; write it exactly as there: {:?}", task.answer);
        return Err(place.error(1, "answer", &why));
    }
    Ok(())
}

/// A line as a value, or an error that names the key and the byte.
pub(crate) fn parse<T: DeserializeOwned>(line: &str, place: Place<'_>) -> Result<T, TaskFileError> {
    serde_json::from_str(line).map_err(|error| {
        let text = error.to_string();
        // The library's own position counts within the line only; ours names the file's line.
        let why = text.rsplit_once(" at line ").map_or(text.as_str(), |(why, _)| why);
        let byte = error.column().clamp(1, line.len().max(1));
        let field = key_at(line, byte);
        place.error(byte, field, &format!("{}; correct the line", shown(why, 200)))
    })
}

/// The last key of the line's object that is complete before byte `end`, or "" without one.
fn key_at(line: &str, end: usize) -> &str {
    let (mut depth, mut text_from, mut escaped) = (0usize, None, false);
    let (mut last_text, mut key) = ("", "");
    for (at, byte) in line.bytes().enumerate().take(end) {
        match (text_from, byte) {
            (Some(_), _) if escaped => escaped = false,
            (Some(_), b'\\') => escaped = true,
            (Some(from), b'"') => {
                last_text = &line[from..at];
                text_from = None;
            }
            (Some(_), _) => {}
            (None, b'"') => text_from = Some(at + 1),
            (None, b'{' | b'[') => depth += 1,
            (None, b'}' | b']') => depth = depth.saturating_sub(1),
            (None, b':') if depth == 1 => key = last_text,
            (None, b',') if depth == 1 => (key, last_text) = ("", ""),
            (None, _) => {}
        }
    }
    if key.is_empty() && depth == 1 { last_text } else { key }
}

#[cfg(test)]
mod tests {
    use super::key_at;

    #[test]
    fn the_key_at_a_byte_is_that_of_the_outer_object() {
        let line = r#"{"a":"x:\",y","b":{"c":[1,2]},"d":3}"#;
        let key = |needle: &str| key_at(line, line.find(needle).unwrap() + needle.len());
        assert_eq!(key("x:"), "a");
        assert_eq!(key("1,"), "b");
        assert_eq!(key(":3"), "d");
        assert_eq!(key("\"d\""), "d");
        assert_eq!(key_at(line, 1), "");
    }
}
