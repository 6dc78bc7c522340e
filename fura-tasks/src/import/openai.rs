//! Items with an OpenAI grader.

use std::collections::BTreeMap;
use std::io::BufRead;

use serde::Deserialize;

use super::columns::{answer_text, ask};
use super::{Imported, rows, task};
use crate::grader::{ExactSpec, Fold, GraderSpec, PatternSpec, WeightedPart, WeightedSpec};
use crate::task_file::TaskFileError;

const MOST_TOKENS: u32 = 256;

/// A grader in the JSON of OpenAI's reinforcement fine-tuning, as far as a program alone can run
/// it.
///
/// - `string_check` with `eq` is equality; with `like` and `ilike` it is that the output contains
///   the reference, with upper and lower case alike for `ilike`. `input` must be
///   `{{sample.output_text}}` and `reference` `{{item.COLUMN}}`.
/// - `multi` is the weighted mean of its graders, where `calculate_output` is a sum such as
///   `0.8 * exact + 0.2 * loose`. Weights are scaled so that they sum to 1.
///
/// Others (`python`, `score_model`, `label_model`, `text_similarity`, `endpoint`) and `ne` are
/// refused, with the reason.
///
/// ```
/// use fura_tasks::import::{OpenAiGrader, openai};
/// let grader: OpenAiGrader = serde_json::from_str(
///     r#"{"type":"string_check","name":"exact","operation":"eq",
///         "input":"{{sample.output_text}}","reference":"{{item.colour}}"}"#,
/// ).unwrap();
/// let item = r#"{"messages":[{"role":"user","content":"Sky?"}],"colour":"blue"}"#;
/// let imported = openai("items.jsonl", item.as_bytes(), &grader)?;
/// assert_eq!(imported.tasks[0].grade("blue").value(), Some(1.0));
/// # Ok::<(), fura_tasks::TaskFileError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum OpenAiGrader {
    /// Compares texts.
    StringCheck {
        /// Its name.
        #[serde(default)]
        name: String,
        /// A template for the output.
        input: String,
        /// A template for the reference.
        reference: String,
        /// `eq`, `ne`, `like` or `ilike`.
        operation: String,
    },
    /// Combines graders by a formula.
    Multi {
        /// Its name.
        #[serde(default)]
        name: String,
        /// The graders by their names.
        graders: BTreeMap<String, OpenAiGrader>,
        /// The formula.
        calculate_output: String,
    },
    /// Any other kind, which is refused.
    #[serde(other)]
    Other,
}

/// Imports items graded by an OpenAI grader: one JSON object a line, with `messages` (or `prompt`)
/// and the columns that the grader's templates name.
///
/// # Errors
///
/// When the file cannot be read or a line is not a JSON object. Where the grader itself cannot be
/// run, every row is left out with that reason.
pub fn openai(file: &str, reader: impl BufRead, grader: &OpenAiGrader) -> Result<Imported, TaskFileError> {
    let column = reference_column(grader);
    rows(file, reader, |mut row, line| {
        let column = column.as_ref().map_err(Clone::clone)?;
        let answer = row.remove(column).ok_or_else(|| format!("column `{column}`: missing"))?;
        let answer = answer_text(&answer)?;
        let grade = spec(grader, &answer)?;
        let ask = ask(&mut row)?;
        let mut task = task(format!("item-{line}"), ask, answer, grade, MOST_TOKENS);
        task.meta = row;
        Ok(task)
    })
}

/// The one column that all references are taken from.
fn reference_column(grader: &OpenAiGrader) -> Result<String, String> {
    match grader {
        OpenAiGrader::StringCheck { input, reference, .. } => {
            if template(input) != Some("sample.output_text") {
                return Err(format!("`input` is {input:?}, expected {{{{sample.output_text}}}}"));
            }
            let column = template(reference).and_then(|path| path.strip_prefix("item."));
            let column = column.filter(|column| !column.contains(['.', '[', ' ']));
            Ok(column
                .ok_or_else(|| format!("`reference` is {reference:?}, expected {{{{item.COLUMN}}}}"))?
                .to_owned())
        }
        OpenAiGrader::Multi { graders, .. } => {
            let mut columns = graders.values().map(reference_column);
            let first = columns.next().ok_or("`graders` is empty")??;
            for column in columns {
                if column? != first {
                    return Err("graders compare with several columns; a task here has one answer".to_owned());
                }
            }
            Ok(first)
        }
        OpenAiGrader::Other => {
            Err("only `string_check` and `multi` of such graders are run here; use an external grader"
                .to_owned())
        }
    }
}

/// The path of a template `{{ path }}`.
fn template(text: &str) -> Option<&str> {
    Some(text.trim().strip_prefix("{{")?.strip_suffix("}}")?.trim())
}

fn spec(grader: &OpenAiGrader, answer: &str) -> Result<GraderSpec, String> {
    match grader {
        OpenAiGrader::StringCheck { operation, .. } => match operation.as_str() {
            "eq" => Ok(GraderSpec::Exact(ExactSpec::new(Fold::None))),
            "like" => Ok(contains(&regex::escape(answer))),
            "ilike" => Ok(contains(&format!("(?iu:{})", regex::escape(answer)))),
            other => {
                Err(format!("operation {other:?} has no right answer here; use `eq`, `like` or `ilike`"))
            }
        },
        OpenAiGrader::Multi { graders, calculate_output, .. } => {
            let mut of = Vec::new();
            for (weight, name) in terms(calculate_output)? {
                let grader = graders
                    .get(name)
                    .ok_or_else(|| format!("`calculate_output` names {name:?}, no grader"))?;
                of.push(WeightedPart { weight, grade: spec(grader, answer)? });
            }
            Ok(GraderSpec::Weighted(WeightedSpec { of }))
        }
        OpenAiGrader::Other => Err("not run here".to_owned()),
    }
}

fn contains(pattern: &str) -> GraderSpec {
    GraderSpec::Regex(PatternSpec { pattern: pattern.to_owned(), search: true, ..PatternSpec::default() })
}

/// The weights and names of a sum such as `0.8 * a + b * 0.2 + c`.
fn terms(formula: &str) -> Result<Vec<(f64, &str)>, String> {
    let terms: Option<Vec<_>> = formula.split('+').map(term).collect();
    terms.ok_or_else(|| {
        format!("`calculate_output` is {formula:?}, expected a sum such as `0.8 * a + 0.2 * b`")
    })
}

fn term(term: &str) -> Option<(f64, &str)> {
    let is_name = |text: &str| {
        text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    let parts: Vec<&str> = term.split('*').map(str::trim).collect();
    match parts[..] {
        [name] if is_name(name) => Some((1.0, name)),
        [weight, name] if is_name(name) => Some((weight.parse().ok()?, name)),
        [name, weight] if is_name(name) => Some((weight.parse().ok()?, name)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn import(grader: &str, item: &str) -> Imported {
        openai("i.jsonl", item.as_bytes(), &serde_json::from_str(grader).unwrap()).unwrap()
    }

    fn check(operation: &str) -> String {
        format!(
            r#"{{"type":"string_check","name":"c","operation":"{operation}","input":"{{{{ sample.output_text }}}}","reference":"{{{{item.gold}}}}"}}"#
        )
    }

    const ITEM: &str = r#"{"messages":[{"role":"user","content":"Sky?"}],"gold":"blue (R+)","n":1}"#;

    #[test]
    fn string_checks_are_exact_or_contain() {
        for (operation, output, want) in [
            ("eq", "blue (R+)", 1.0),
            ("eq", "Blue (R+)", 0.0),
            ("eq", "it is blue (R+)", 0.0),
            ("like", "it is blue (R+).", 1.0),
            ("like", "it is Blue (R+).", 0.0),
            ("ilike", "it is BLUE (r+).", 1.0),
            ("ilike", "blue", 0.0),
        ] {
            let imported = import(&check(operation), ITEM);
            assert_eq!(imported.tasks[0].grade(output).value(), Some(want), "{operation} {output}");
            assert_eq!(imported.tasks[0].meta["n"], 1);
        }
    }

    #[test]
    fn multi_is_a_weighted_mean() {
        let multi = format!(
            r#"{{"type":"multi","name":"m","graders":{{"a":{},"b":{}}},"calculate_output":"3 * a + b"}}"#,
            check("eq"),
            check("ilike")
        );
        let imported = import(&multi, ITEM);
        assert_eq!(imported.tasks[0].grade("blue (R+)").value(), Some(1.0));
        assert_eq!(imported.tasks[0].grade("BLUE (R+)").value(), Some(0.25));
    }

    #[test]
    fn what_cannot_be_run_is_left_out_with_a_reason() {
        for (grader, item, why) in [
            (r#"{"type":"python","source":"x"}"#.to_owned(), ITEM, "external grader"),
            (check("ne"), ITEM, "no right answer"),
            (check("eq").replace("item.gold", "item.a.b"), ITEM, "{{item.COLUMN}}"),
            (check("eq").replace("sample.output_text", "item.n"), ITEM, "{{sample.output_text}}"),
            (check("eq"), r#"{"gold":"blue"}"#, "none of the columns"),
            (check("eq"), r#"{"prompt":"Sky?"}"#, "column `gold`: missing"),
            (check("eq"), r#"{"prompt":"Sky?","gold":[1]}"#, "neither a text nor a number"),
            (check("eq"), r#"{"prompt":"Sky?","gold":""}"#, "field `answer`"),
        ] {
            let imported = import(&grader, item);
            assert_eq!(imported.tasks.len(), 0, "{grader}");
            assert!(imported.skipped[0].why.contains(why), "{:?}", imported.skipped[0]);
        }
    }
}
