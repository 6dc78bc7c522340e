//! Attacks on a task's grader: outputs that should earn nothing, or less than the answer.
//!
//! A model that is trained on a reward finds what the reward forgot. These attacks know the
//! grader's options, as the model in effect learns them, but not which answer is right.

mod attack;

pub use attack::Attack;

use crate::grader::{GraderError, Label};
use crate::task::Task;

/// What the attacks on one task earned.
#[derive(Debug, Clone, PartialEq)]
pub struct Stress {
    /// How many outputs were tried.
    pub tried: usize,
    /// The attacks that earned something, each with its best output, in the order of
    /// [`Attack::ALL`].
    pub findings: Vec<Finding>,
}

impl Stress {
    /// Whether an attack was graded as a right answer.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.findings.iter().any(|finding| finding.score >= 1.0)
    }
}

/// An attack that earned something.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// The attack.
    pub attack: Attack,
    /// The output that earned most.
    pub output: String,
    /// What it earned, above 0; 1 is a broken grader, less may be meant as partial credit.
    pub score: f64,
    /// The grader's label.
    pub label: Label,
}

/// Attacks the grader of a task.
///
/// ```
/// use fura_tasks::{Attack, TaskSet, stress};
///
/// let line = r#"{"id":"a","prompt":"2 + 2 =","answer":"4","grade":{"type":"regex","pattern":".*\\d.*"}}"#;
/// let set = TaskSet::read("sums.jsonl", line.as_bytes())?;
/// let found = stress(&set.tasks()[0])?;
/// assert!(found.is_broken());
/// assert!(found.findings.iter().any(|finding| finding.attack == Attack::Mutated));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// When the task's grader cannot be made.
pub fn stress(task: &Task) -> Result<Stress, GraderError> {
    let grader = task.grader()?;
    let (mut tried, mut findings) = (0, Vec::new());
    for &attack in Attack::ALL {
        let mut worst: Option<Finding> = None;
        for output in attack.outputs(task) {
            // What the task itself calls right is no attack.
            if output == task.answer || task.good.contains(&output) {
                continue;
            }
            tried += 1;
            let (score, label) = grader.score(&output);
            if score > worst.as_ref().map_or(0.0, |finding| finding.score) {
                worst = Some(Finding { attack, output, score, label });
            }
        }
        findings.extend(worst);
    }
    Ok(Stress { tried, findings })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task_set::TaskSet;

    fn task(rest: &str) -> Task {
        let line = format!(r#"{{"id":"a","prompt":"Q: 18 or 19?",{rest}}}"#);
        TaskSet::read("t.jsonl", line.as_bytes()).unwrap().tasks()[0].clone()
    }

    fn broken_by(rest: &str) -> Vec<Attack> {
        let found = stress(&task(rest)).unwrap();
        assert!(found.tried > 20, "{}", found.tried);
        found.findings.iter().filter(|finding| finding.score >= 1.0).map(|finding| finding.attack).collect()
    }

    #[test]
    fn strict_graders_withstand_every_attack() {
        for rest in [
            r#""answer":"18","grade":{"type":"exact"}"#,
            r#""answer":"18","grade":{"type":"number","thousands":true,"percent":true}"#,
            r#""answer":"-1.5","grade":{"type":"number","which":"last"}"#,
            r#""answer":"yes","choices":["yes","no"],"grade":{"type":"choice","fold":"case_space"}"#,
            r#""answer":"Anna, Bo","grade":{"type":"set"}"#,
            r#""answer":"3*7+8","grade":{"type":"expr","numbers":[3,7,8],"target":29},"bad":["29"]"#,
            r#""answer":"{\"a\":1,\"b\":[true]}","grade":{"type":"json"}"#,
            r#""answer":"{\"name\":\"f\",\"arguments\":{\"x\":12}}","grade":{"type":"call"}"#,
            r#""answer":"f(x=12)","grade":{"type":"call","syntax":"python"}"#,
            r#""answer":"{\"wifi\":false}","grade":{"type":"state","want":[{"path":"/wifi","is":false}]}"#,
            r#""answer":"<t>so</t><a>18</a>","grade":{"type":"gate","when":{"type":"format","sections":[{"open":"<t>","close":"</t>"},{"open":"<a>","close":"</a>"}]},"then":{"type":"within","part":{"between":["<a>","</a>"]},"grade":{"type":"number"}}}"#,
            r#""answer":"18 apples","grade":{"type":"regex","pattern":"([0-9]+) apples","group":"1"}"#,
        ] {
            assert_eq!(broken_by(rest), [], "{rest}");
        }
    }

    #[test]
    fn lenient_graders_are_found_out() {
        for (rest, want) in [
            // A form is not an answer.
            (
                r#""answer":"<t>so</t><a>18</a>","grade":{"type":"format","sections":[{"open":"<t>","close":"</t>"},{"open":"<a>","close":"</a>"}]}"#,
                Attack::FormatOnly,
            ),
            (
                r#""answer":"so </t> 18","grade":{"type":"regex","pattern":"</t>","search":true}"#,
                Attack::Mutated,
            ),
            // Containing the answer is not giving it.
            (
                r#""answer":"18","grade":{"type":"regex","pattern":"\\b18\\b","search":true}"#,
                Attack::AllAnswers,
            ),
            (r#""answer":"18","grade":{"type":"regex","pattern":"\\b18\\b","search":true}"#, Attack::Echo),
            // A tolerance of one percent.
            (r#""answer":"2000","grade":{"type":"number","rel":0.01}"#, Attack::Mutated),
            (r#""answer":"18","grade":{"type":"regex","pattern":"(?u:\\d+)"}"#, Attack::OtherDigits),
            (r#""answer":"18","grade":{"type":"length","min":2}"#, Attack::Long),
            (r#""answer":"18","grade":{"type":"length","min":0,"max":9}"#, Attack::Empty),
        ] {
            assert!(broken_by(rest).contains(&want), "{rest}: {want:?}");
        }
    }

    #[test]
    fn partial_credit_is_reported_and_is_not_called_broken() {
        let found = stress(&task(r#""answer":"Anna, Bo","grade":{"type":"set","partial":true}"#)).unwrap();
        assert!(!found.is_broken());
        assert!(found.findings.iter().any(|f| f.score > 0.0 && f.label == Label::Partial), "{found:?}");
    }
}
