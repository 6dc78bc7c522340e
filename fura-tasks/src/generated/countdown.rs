//! Arithmetic: an expression in given numbers, each used once, that makes a target.

use super::item::{Item, Wordings};
use crate::grader::{ExprSpec, GraderSpec};
use crate::random::Stream;

pub(super) const FEWEST: u8 = 2;
pub(super) const MOST: u8 = 4;

/// The head of every prompt.
pub(super) const RULE: &str = "Use each number once with + - * /.\n\n";

/// Numbers are from 2 to this; with 1, products and quotients would be no work.
const LARGEST: u32 = 25;

/// The largest target and value on the way.
const TOP: u32 = 999;

const WORDINGS: Wordings = Wordings {
    trained: &["Use {0} to make {1}.", "Make {1} from {0}.", "Combine {0} into {1}.", "Reach {1} with {0}."],
    unseen: &["What gives {1} if you take {0}?", "From {0}, get {1}.", "Your numbers are {0}; hit {1}."],
};

/// A random problem, solvable because it is made from its solution.
pub(super) fn item(stream: &mut Stream, variant: usize, unseen: bool) -> Item {
    let count = variant + usize::from(FEWEST);
    let (numbers, solution) = loop {
        if let Some(found) = problem(stream, count) {
            break found;
        }
    };
    let target = solution.value;
    let mut sorted = numbers.clone();
    sorted.sort_unstable();
    let written: Vec<String> = numbers.iter().map(u32::to_string).collect();
    let (last, others) = written.split_last().map_or(("", &[][..]), |(last, others)| (last.as_str(), others));
    let list = format!("{} and {last}", others.join(", "));
    let request = WORDINGS.draw(stream, unseen, &[list, target.to_string()]);
    Item {
        key: format!("countdown {sorted:?} {target}"),
        request: format!("{request}\nExpression:"),
        grade: GraderSpec::Expr(ExprSpec::new(numbers, i64::from(target))),
        good: vec![solution.text.replace(' ', "")],
        bad: vec![target.to_string(), format!("{} = {target}", solution.text), written.join(" + ") + " + 0"],
        answer: format!(" {}", solution.text),
        tag: format!("numbers{count}"),
    }
}

/// A part of a solution.
struct Term {
    value: u32,
    text: String,
    /// How strongly its last operation binds: sums 0, products 1, numbers 2.
    binds: u8,
}

impl Term {
    /// The text, in parentheses where it binds less than what is around it.
    fn within(&self, binds: u8) -> String {
        if self.binds < binds { format!("({})", self.text) } else { self.text.clone() }
    }
}

/// Numbers that differ, and two of them or of what they make combined at random until one value is left; `None` when
/// a value is no positive integer or too large.
fn problem(stream: &mut Stream, count: usize) -> Option<(Vec<u32>, Term)> {
    let mut numbers: Vec<u32> = (2..=LARGEST).collect();
    stream.shuffle(&mut numbers);
    numbers.truncate(count);
    let mut terms: Vec<Term> =
        numbers.iter().map(|&value| Term { value, text: value.to_string(), binds: 2 }).collect();
    loop {
        let left = terms.swap_remove(stream.below(terms.len() as u32) as usize);
        if terms.is_empty() {
            return Some((numbers, left));
        }
        let right = terms.swap_remove(stream.below(terms.len() as u32) as usize);
        terms.push(combined(stream.below(4), &left, &right)?);
    }
}

fn combined(operation: u32, a: &Term, b: &Term) -> Option<Term> {
    // How strongly the operation binds, and its right operand must.
    let (value, operator, binds, right) = match operation {
        0 => (a.value + b.value, '+', 0, 0),
        1 => (a.value.checked_sub(b.value).filter(|value| *value > 0)?, '-', 0, 1),
        2 => (a.value * b.value, '*', 1, 1),
        _ => (a.value.is_multiple_of(b.value).then(|| a.value / b.value)?, '/', 1, 2),
    };
    let text = format!("{} {operator} {}", a.within(binds), b.within(right));
    (value <= TOP).then_some(Term { value, text, binds })
}
