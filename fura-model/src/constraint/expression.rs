//! Grammars as they are written: expressions over characters.

/// What a part of a rule stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Expression {
    /// These bytes, one after the other.
    Text(Vec<u8>),
    /// One character of these ranges, which are sorted and apart.
    Class(Vec<(u32, u32)>),
    /// One after the other.
    Sequence(Vec<Expression>),
    /// One of these.
    Choice(Vec<Expression>),
    /// So many times, or more without end.
    Repeat { inner: Box<Expression>, least: u32, most: Option<u32> },
    /// The rule with this number.
    Rule(usize),
}

/// A rule; `root` is the first of a grammar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rule {
    pub(super) name: String,
    pub(super) body: Expression,
}
