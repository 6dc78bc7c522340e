//! The output must be an arithmetic expression with a given value: the game of Countdown.

use serde::{Deserialize, Serialize};

use super::rational::Rational;
use super::{GraderError, Label};

/// Right when the output is one expression in the given numbers, each used exactly once, whose
/// exact value is the target:
/// `{"type":"expr","numbers":[3,7,8],"target":29,"ops":"+-*/"}`.
///
/// An expression is made of whole numbers in ASCII digits, the operators `+ - * /`, parentheses
/// and spaces; nothing else: no sign before a number, no power, no whole-number division, no
/// decimal point, no equals sign. `*` and `/` bind closer than `+` and `-`; operators of one kind
/// are evaluated from the left. Arithmetic is that of exact fractions, whose numerator and
/// denominator must stay below 10^18.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct ExprSpec {
    /// The numbers, at most 16.
    pub numbers: Vec<u32>,
    /// The value to reach.
    pub target: i64,
    /// The operators that may be used; all four by default.
    #[serde(default = "all_ops")]
    pub ops: String,
}

fn all_ops() -> String {
    "+-*/".to_owned()
}

impl ExprSpec {
    /// An expression in `numbers` with value `target`, with all four operators.
    #[must_use]
    pub fn new(numbers: Vec<u32>, target: i64) -> Self {
        Self { numbers, target, ops: all_ops() }
    }
}

const MOST_NUMBERS: usize = 16;

/// The longest expression, in bytes: 16 numbers, their operators and plenty of parentheses.
const LONGEST: usize = 1000;

/// The deepest nesting of parentheses.
const DEEPEST: usize = 50;

/// See [`ExprSpec`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Expr {
    /// The numbers, ascending.
    numbers: Vec<u32>,
    target: Rational,
    ops: Vec<u8>,
}

impl Expr {
    pub(super) fn new(spec: &ExprSpec) -> Result<Self, GraderError> {
        if spec.numbers.is_empty() || spec.numbers.len() > MOST_NUMBERS {
            let why = format!("{} numbers, expected 1 to {MOST_NUMBERS}", spec.numbers.len());
            return Err(GraderError::option("numbers", why));
        }
        if spec.ops.bytes().any(|op| !b"+-*/".contains(&op)) {
            let why = format!("{:?}, expected some of `+-*/`", super::error::beginning(&spec.ops));
            return Err(GraderError::option("ops", why));
        }
        let target = Rational::new(i128::from(spec.target), 1);
        let target = target.ok_or_else(|| GraderError::option("target", "expected at most 18 digits"))?;
        let mut numbers = spec.numbers.clone();
        numbers.sort_unstable();
        Ok(Self { numbers, target, ops: spec.ops.bytes().collect() })
    }

    pub(super) fn judge(&self, output: &str) -> Label {
        let output = output.trim();
        if output.is_empty() {
            return Label::Empty;
        }
        if output.len() > LONGEST {
            return Label::TooLong;
        }
        let mut parser =
            Parser { text: output.as_bytes(), at: 0, depth: 0, ops: &self.ops, used: Vec::new() };
        let value = match parser.expression() {
            Ok(value) => value,
            Err(label) => return label,
        };
        if parser.at < output.len() {
            return Label::Malformed;
        }
        parser.used.sort_unstable();
        match value {
            _ if parser.used != self.numbers => Label::WrongNumbers,
            None => Label::Undefined,
            Some(value) if value == self.target => Label::Right,
            Some(_) => Label::Wrong,
        }
    }
}

/// A recursive-descent parser that evaluates as it reads. A value is `None` when it is undefined;
/// the text is read to its end all the same, so that its syntax comes first.
struct Parser<'a> {
    text: &'a [u8],
    at: usize,
    depth: usize,
    ops: &'a [u8],
    used: Vec<u32>,
}

impl Parser<'_> {
    /// The next byte that is no space, not yet taken.
    fn peek(&mut self) -> Option<u8> {
        while self.text.get(self.at).is_some_and(|byte| matches!(byte, b' ' | b'\t')) {
            self.at += 1;
        }
        self.text.get(self.at).copied()
    }

    /// Takes one of two operators when it is next.
    fn operator(&mut self, either: [u8; 2]) -> Result<Option<u8>, Label> {
        match self.peek() {
            Some(op) if either.contains(&op) => {
                if !self.ops.contains(&op) {
                    return Err(Label::NotLegal);
                }
                self.at += 1;
                Ok(Some(op))
            }
            _ => Ok(None),
        }
    }

    /// `product {("+" | "-") product}`.
    fn expression(&mut self) -> Result<Option<Rational>, Label> {
        let mut sum = self.product()?;
        while let Some(op) = self.operator(*b"+-")? {
            let right = self.product()?;
            sum = sum.zip(right).and_then(|(a, b)| a.plus(if op == b'+' { b } else { b.negated() }));
        }
        Ok(sum)
    }

    /// `factor {("*" | "/") factor}`.
    fn product(&mut self) -> Result<Option<Rational>, Label> {
        let mut product = self.factor()?;
        while let Some(op) = self.operator(*b"*/")? {
            let right = self.factor()?;
            product =
                product.zip(right).and_then(|(a, b)| if op == b'*' { a.times(b) } else { a.divided(b) });
        }
        Ok(product)
    }

    /// `number | "(" expression ")"`.
    fn factor(&mut self) -> Result<Option<Rational>, Label> {
        match self.peek() {
            Some(b'(') => {
                self.depth += 1;
                if self.depth > DEEPEST {
                    return Err(Label::TooLong);
                }
                self.at += 1;
                let value = self.expression()?;
                if self.peek() != Some(b')') {
                    return Err(Label::Malformed);
                }
                self.at += 1;
                self.depth -= 1;
                Ok(value)
            }
            Some(b'0'..=b'9') => {
                let mut number = 0u32;
                while let Some(digit @ b'0'..=b'9') = self.text.get(self.at) {
                    let next = number.checked_mul(10).and_then(|n| n.checked_add(u32::from(digit - b'0')));
                    number = next.ok_or(Label::WrongNumbers)?;
                    self.at += 1;
                }
                self.used.push(number);
                Ok(Rational::new(i128::from(number), 1))
            }
            _ => Err(Label::Malformed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn judge(numbers: &[u32], target: i64, output: &str) -> Label {
        Expr::new(&ExprSpec::new(numbers.to_vec(), target)).unwrap().judge(output)
    }

    #[test]
    fn precedence_and_order_are_those_of_arithmetic() {
        for (output, value) in [
            ("8-3-2", 3),
            ("8-(3-2)", 7),
            ("2+3*8", 26),
            ("(2+3)*8", 40),
            (" ( ( 8 ) ) /2 * 3", 12),
            ("8*3/2", 12),
            ("2-3*8", -22),
        ] {
            let numbers = [2, 3, 8];
            assert_eq!(judge(&numbers, value, output), Label::Right, "{output}");
            assert_eq!(judge(&numbers, value + 1, output), Label::Wrong, "{output}");
        }
    }

    #[test]
    fn fractions_are_exact() {
        // 0.1 + 0.2 in disguise, and a classic that floats get wrong: 8 / (3 - 8/3) = 24.
        assert_eq!(judge(&[3, 3, 8, 8], 24, "8/(3-8/3)"), Label::Right);
        assert_eq!(judge(&[1, 3, 3], 1, "1/3*3"), Label::Right);
        assert_eq!(judge(&[7, 2], 3, "7/2"), Label::Wrong);
    }

    #[test]
    fn each_number_once() {
        for output in ["3*7", "3*7+8+8", "3*7+9", "29", "37-8", "3*7+8+0"] {
            assert_eq!(judge(&[3, 7, 8], 29, output), Label::WrongNumbers, "{output}");
        }
        assert_eq!(judge(&[4, 4], 8, "4+4"), Label::Right);
        assert_eq!(judge(&[4, 4], 4, "4"), Label::WrongNumbers);
    }

    #[test]
    fn nothing_but_an_expression() {
        for output in [
            "3*7+8=29",
            "-3+7",
            "3**7",
            "3//7",
            "3^7",
            "3.0*7+8",
            "3 7 8",
            "(3*7+8",
            "3*7+8)",
            "3*7+",
            "()",
            "3*7+8 # comment",
            "\u{663}*7+8",
            "3\u{d7}7+8",
            "3*7\n+8",
            "answer: 3*7+8",
            "3e1",
            "3(7)",
            "*3",
        ] {
            let label = judge(&[3, 7, 8], 29, output);
            assert_eq!(label, Label::Malformed, "{output}");
        }
        assert_eq!(judge(&[1], 1, " \n"), Label::Empty);
    }

    #[test]
    fn division_by_zero_and_large_values_are_undefined() {
        assert_eq!(judge(&[1, 2, 2], 1, "1/(2-2)"), Label::Undefined);
        assert_eq!(judge(&[0, 1, 2, 2], 0, "0*(1/(2-2))"), Label::Undefined);
        assert_eq!(judge(&[u32::MAX; 4], 1, "4294967295*4294967295*4294967295*4294967295"), Label::Undefined);
    }

    #[test]
    fn operators_can_be_fewer() {
        let spec = ExprSpec { ops: "+".to_owned(), ..ExprSpec::new(vec![3, 5], 8) };
        let grader = Expr::new(&spec).unwrap();
        assert_eq!(grader.judge("3+5"), Label::Right);
        assert_eq!(grader.judge("3*5"), Label::NotLegal);
    }

    #[test]
    fn length_and_depth_are_bounded() {
        let deep = |depth| format!("{}1{}", "(".repeat(depth), ")".repeat(depth));
        assert_eq!(judge(&[1], 1, &deep(DEEPEST)), Label::Right);
        assert_eq!(judge(&[1], 1, &deep(DEEPEST + 1)), Label::TooLong);
        assert_eq!(judge(&[1], 1, &"(1)".repeat(1000)), Label::TooLong);
        assert_eq!(judge(&[1], 1, &"9".repeat(900)), Label::WrongNumbers);
    }

    #[test]
    fn options_without_sense_are_errors() {
        for (spec, field) in [
            (ExprSpec::new(vec![], 1), "numbers"),
            (ExprSpec::new(vec![1; 17], 1), "numbers"),
            (ExprSpec::new(vec![1], i64::MAX), "target"),
            (ExprSpec { ops: "+^".to_owned(), ..ExprSpec::new(vec![1], 1) }, "ops"),
        ] {
            match Expr::new(&spec) {
                Err(GraderError::BadOption { field: got, .. }) => assert_eq!(got, field),
                other => panic!("{other:?}"),
            }
        }
    }

    /// A random expression, its value as an unreduced fraction (denominator 0 when undefined), and
    /// its numbers.
    fn tree() -> impl Strategy<Value = (String, (i128, i128), Vec<u32>)> {
        let leaf = (0u32..20).prop_map(|n| (n.to_string(), (i128::from(n), 1), vec![n]));
        leaf.prop_recursive(3, 8, 2, |inner| {
            (inner.clone(), prop::sample::select(vec!['+', '-', '*', '/']), inner).prop_map(|(a, op, b)| {
                let ((an, ad), (bn, bd)) = (a.1, b.1);
                let value = match op {
                    _ if ad == 0 || bd == 0 => (0, 0),
                    '+' => (an * bd + bn * ad, ad * bd),
                    '-' => (an * bd - bn * ad, ad * bd),
                    '*' => (an * bn, ad * bd),
                    _ => (an * bd, ad * bn),
                };
                (format!("({}) {op} ({})", a.0, b.0), value, [a.2, b.2].concat())
            })
        })
    }

    proptest! {
        #[test]
        fn agrees_with_fractions_that_are_never_reduced((text, (num, den), numbers) in tree()) {
            let label = judge(&numbers, 24, &text);
            let want = match den {
                0 => Label::Undefined,
                _ if num == 24 * den => Label::Right,
                _ => Label::Wrong,
            };
            prop_assert_eq!(label, want, "{}", text);
            if den != 0 && num % den == 0 {
                prop_assert_eq!(judge(&numbers, (num / den) as i64, &text), Label::Right);
            }
        }

        #[test]
        fn any_output_gets_a_label(output in "[0-9+*/() -]{0,60}") {
            let _ = judge(&[1, 2], 3, &output);
        }
    }
}
