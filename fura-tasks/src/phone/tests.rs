mod screens;
mod solutions;
mod splits;

use std::collections::{BTreeSet, HashSet};

use super::app::List;
use super::oracle::search;
use super::screen::{Effect, Screen};
use super::task::choices;
use super::*;
use crate::grader::GraderSpec;

const STATES: usize = 100_000;

/// Every template of every level and split, with its name.
fn all_templates() -> impl Iterator<Item = (PhoneSplit, String)> {
    PhoneSplit::ALL.into_iter().flat_map(|split| {
        Level::ALL
            .into_iter()
            .flat_map(move |level| User::templates(split, level).into_iter().map(move |name| (split, name)))
    })
}

/// A split that has the template.
fn home_of(template: &str) -> PhoneSplit {
    let splits = [PhoneSplit::Train, PhoneSplit::Templates, PhoneSplit::Apps];
    let level = |name: &str| Level::ALL[usize::from(name.as_bytes()[name.len() - 1] - b'1')];
    splits.into_iter().find(|s| User::templates(*s, level(template)).iter().any(|t| t == template)).unwrap()
}

fn names() -> BTreeSet<String> {
    all_templates().map(|(_, name)| name).collect()
}
