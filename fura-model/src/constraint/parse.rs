//! Reads grammars.

use super::ConstraintError;
use super::expression::{Expression, Rule};
use std::collections::HashMap;

/// Parentheses in each other.
const MAX_GROUPS: usize = 64;
/// Largest count of a repetition; [`super::automaton`] bounds what they multiply to.
const MAX_COUNT: u32 = 10_000;

/// The rules of a grammar, `root` first.
pub(super) fn parse(text: &str) -> Result<Vec<Rule>, ConstraintError> {
    let mut p =
        Parser { text, at: 0, groups: 0, names: HashMap::new(), bodies: Vec::new(), mentions: Vec::new() };
    p.rule_number("root", 1);
    p.blank();
    while !p.rest().is_empty() {
        p.rule()?;
    }
    let mut rules = Vec::with_capacity(p.bodies.len());
    let mut names: Vec<(&str, usize)> = p.names.into_iter().collect();
    names.sort_unstable_by_key(|(_, number)| *number);
    for ((name, _), (body, line)) in names.into_iter().zip(p.bodies.into_iter().zip(p.mentions)) {
        let Some(body) = body else {
            return Err(ConstraintError::Syntax { line, problem: format!("there is no rule '{name}'") });
        };
        rules.push(Rule { name: name.to_owned(), body });
    }
    Ok(rules)
}

struct Parser<'t> {
    text: &'t str,
    at: usize,
    groups: usize,
    names: HashMap<&'t str, usize>,
    bodies: Vec<Option<Expression>>,
    /// Line on which each rule is mentioned first.
    mentions: Vec<usize>,
}

impl<'t> Parser<'t> {
    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn line(&self) -> usize {
        1 + self.text[..self.at].matches('\n').count()
    }

    fn error<T>(&self, problem: impl Into<String>) -> Result<T, ConstraintError> {
        Err(ConstraintError::Syntax { line: self.line(), problem: problem.into() })
    }

    /// Skips white space and comments.
    fn blank(&mut self) {
        loop {
            self.at += self.rest().len() - self.rest().trim_start().len();
            if !self.rest().starts_with('#') {
                return;
            }
            self.at += self.rest().find('\n').unwrap_or(self.rest().len());
        }
    }

    fn eat(&mut self, what: &str) -> bool {
        let found = self.rest().starts_with(what);
        if found {
            self.at += what.len();
        }
        found
    }

    /// The name at this place; empty if there is none.
    fn name(&self) -> &'t str {
        let rest = self.rest();
        let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '_'));
        &rest[..end.unwrap_or(rest.len())]
    }

    fn rule_number(&mut self, name: &'t str, line: usize) -> usize {
        let next = self.bodies.len();
        let number = *self.names.entry(name).or_insert(next);
        if number == next {
            self.bodies.push(None);
            self.mentions.push(line);
        }
        number
    }

    fn rule(&mut self) -> Result<(), ConstraintError> {
        let name = self.name();
        if name.is_empty() {
            return self.error("expected a rule, name ::= ...");
        }
        self.at += name.len();
        self.blank();
        if !self.eat("::=") {
            return self.error(format!("expected ::= after '{name}'"));
        }
        let number = self.rule_number(name, self.line());
        if self.bodies[number].is_some() {
            return self.error(format!("rule '{name}' is there twice"));
        }
        let body = self.choice()?;
        self.bodies[number] = Some(body);
        if !self.rest().is_empty() && self.name().is_empty() {
            let c = self.rest().chars().next().unwrap_or(' ');
            return self.error(format!("unexpected {c:?}"));
        }
        Ok(())
    }

    fn choice(&mut self) -> Result<Expression, ConstraintError> {
        let mut all = vec![self.sequence()?];
        while self.eat("|") {
            all.push(self.sequence()?);
        }
        Ok(if all.len() == 1 { all.remove(0) } else { Expression::Choice(all) })
    }

    fn sequence(&mut self) -> Result<Expression, ConstraintError> {
        let mut all = Vec::new();
        loop {
            self.blank();
            let Some(item) = self.item()? else { return Ok(Expression::Sequence(all)) };
            all.push(self.repeated(item)?);
        }
    }

    fn item(&mut self) -> Result<Option<Expression>, ConstraintError> {
        if self.eat("\"") {
            return self.literal().map(Some);
        }
        if self.eat("[") {
            return self.class().map(Some);
        }
        if self.eat(".") {
            return Ok(Some(Expression::Class(vec![(0, 0x10_ffff)])));
        }
        if self.eat("(") {
            self.groups += 1;
            if self.groups > MAX_GROUPS {
                return self.error(format!("more than {MAX_GROUPS} parentheses in each other"));
            }
            let inner = self.choice()?;
            if !self.eat(")") {
                return self.error("a parenthesis is not closed");
            }
            self.groups -= 1;
            return Ok(Some(inner));
        }
        let name = self.name();
        let start = self.at;
        self.at += name.len();
        self.blank();
        if name.is_empty() || self.rest().starts_with("::=") {
            // The next rule begins here.
            self.at = start;
            return Ok(None);
        }
        self.at = start + name.len();
        let line = self.line();
        Ok(Some(Expression::Rule(self.rule_number(name, line))))
    }

    fn repeated(&mut self, item: Expression) -> Result<Expression, ConstraintError> {
        let (least, most) = if self.eat("*") {
            (0, None)
        } else if self.eat("+") {
            (1, None)
        } else if self.eat("?") {
            (0, Some(1))
        } else if self.eat("{") {
            let least = self.count()?;
            let most = if !self.eat(",") {
                Some(least)
            } else if self.rest().starts_with('}') {
                None
            } else {
                Some(self.count()?)
            };
            if !self.eat("}") {
                return self.error("expected } after a count");
            }
            if most.is_some_and(|most| most < least) {
                return self.error("the larger count comes second");
            }
            (least, most)
        } else {
            return Ok(item);
        };
        // A second one would mean the same or be a mistake.
        if self.rest().starts_with(['*', '+', '?', '{']) {
            return self.error("two repetitions in a row; use parentheses");
        }
        Ok(Expression::Repeat { inner: Box::new(item), least, most })
    }

    fn count(&mut self) -> Result<u32, ConstraintError> {
        let rest = self.rest();
        let digits = &rest[..rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len())];
        match digits.parse::<u32>() {
            Ok(n) if n <= MAX_COUNT => {
                self.at += digits.len();
                Ok(n)
            }
            _ => self.error(format!("expected a count up to {MAX_COUNT}")),
        }
    }

    fn literal(&mut self) -> Result<Expression, ConstraintError> {
        let mut text = Vec::new();
        loop {
            match self.character("a text")? {
                ('"', false) => return Ok(Expression::Text(text)),
                (c, _) => text.extend(c.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
    }

    fn class(&mut self) -> Result<Expression, ConstraintError> {
        let negated = self.eat("^");
        let mut ranges = Vec::new();
        loop {
            let low = match self.character("a set")? {
                (']', false) => break,
                (c, _) => c,
            };
            let ranged = self.rest().starts_with('-') && !self.rest().starts_with("-]");
            if !ranged {
                ranges.push((u32::from(low), u32::from(low)));
                continue;
            }
            self.at += 1;
            let (high, _) = self.character("a set")?;
            if high < low {
                return self.error(format!("the range {low:?} to {high:?} is the wrong way round"));
            }
            ranges.push((u32::from(low), u32::from(high)));
        }
        ranges.sort_unstable();
        let mut merged: Vec<(u32, u32)> = Vec::new();
        for (low, high) in ranges {
            match merged.last_mut() {
                Some(last) if low <= last.1.saturating_add(1) => last.1 = last.1.max(high),
                _ => merged.push((low, high)),
            }
        }
        if negated {
            let mut next = 0;
            let mut others = Vec::new();
            for (low, high) in merged {
                if next < low {
                    others.push((next, low - 1));
                }
                next = high + 1;
            }
            if next <= 0x10_ffff {
                others.push((next, 0x10_ffff));
            }
            merged = others;
        }
        if merged.is_empty() {
            return self.error("a set without characters");
        }
        Ok(Expression::Class(merged))
    }

    /// The next character of a text or a set, and whether it was escaped.
    fn character(&mut self, what: &str) -> Result<(char, bool), ConstraintError> {
        let unclosed = |p: &Self| p.error(format!("{what} is not closed"));
        let Some(c) = self.rest().chars().next() else { return unclosed(self) };
        if c == '\n' {
            return unclosed(self);
        }
        self.at += c.len_utf8();
        if c != '\\' {
            return Ok((c, false));
        }
        let Some(escape) = self.rest().chars().next() else { return unclosed(self) };
        self.at += escape.len_utf8();
        let digits = match escape {
            'n' => return Ok(('\n', true)),
            'r' => return Ok(('\r', true)),
            't' => return Ok(('\t', true)),
            '\\' | '"' | ']' | '[' | '-' | '^' => return Ok((escape, true)),
            'x' => 2,
            'u' => 4,
            'U' => 8,
            other => return self.error(format!("unknown escape \\{other}")),
        };
        let code = self.rest().get(..digits).filter(|d| d.bytes().all(|b| b.is_ascii_hexdigit()));
        let c = code.and_then(|d| u32::from_str_radix(d, 16).ok()).and_then(char::from_u32);
        self.at += code.map_or(0, str::len);
        match c {
            Some(c) => Ok((c, true)),
            None => {
                self.error(format!("expected {digits} hexadecimal digits of a character after \\{escape}"))
            }
        }
    }
}
