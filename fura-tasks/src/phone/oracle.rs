//! The shortest solution of a task, by breadth-first search; and random play.

use std::collections::HashMap;
use std::collections::VecDeque;

use super::action::Action;
use super::device::Device;
use super::episode::Episode;
use super::task::{End, PhoneTask};
use crate::random::Stream;

/// The shortest sequence of legal actions (those of [`Episode::choices`]) that solves the task, or `None` when there
/// is none, or none among the first `limit` states.
///
/// Legal texts are the task's own and legal answers what the screen shows, so the search is finite. It leaves out
/// states in which a setting or list is neither as at the start nor as at the end: getting there and back is never
/// shorter, as what a screen leads to does not depend on it (tested against the full search).
#[must_use]
pub fn solve(task: &PhoneTask, limit: usize) -> Option<Vec<Action>> {
    search(task, limit, true)
}

pub(super) fn search(task: &PhoneTask, limit: usize, prune: bool) -> Option<Vec<Action>> {
    let mut nodes: Vec<(usize, Option<Action>)> = vec![(0, None)];
    let mut seen: HashMap<Device, usize> = HashMap::from([(task.start.clone(), 0)]);
    let mut queue = VecDeque::from([task.start.clone()]);
    while let Some(device) = queue.pop_front() {
        let at = seen[&device];
        let view = device.view();
        for action in task.actions(&device, &view) {
            if matches!(action, Action::Done | Action::Answer(_)) {
                let right = match &action {
                    Action::Answer(text) => task.answer.as_ref() == Some(text),
                    _ => true,
                };
                if right && task.holds(&device) {
                    return Some(path(&nodes, at, action));
                }
                continue;
            }
            let mut next = device.clone();
            if !next.act(&view, &action) || seen.contains_key(&next) {
                continue;
            }
            if task.end == End::Reached && task.holds(&next) {
                return Some(path(&nodes, at, action));
            }
            if prune && !next.data.is_between(&task.start.data, &task.want) {
                continue;
            }
            if nodes.len() == limit {
                return None;
            }
            seen.insert(next.clone(), nodes.len());
            nodes.push((at, Some(action)));
            queue.push_back(next);
        }
    }
    None
}

/// The actions that lead to a node, and one more.
fn path(nodes: &[(usize, Option<Action>)], mut at: usize, last: Action) -> Vec<Action> {
    let mut actions = vec![last];
    while let (parent, Some(action)) = &nodes[at] {
        actions.push(action.clone());
        at = *parent;
    }
    actions.reverse();
    actions
}

/// Plays an episode to its end with legal actions drawn uniformly; whether it succeeds. The draws follow from `seed`.
pub fn play_at_random(episode: &mut Episode, seed: u64) -> bool {
    let mut stream = Stream::new(seed, 1 << 49);
    while episode.outcome().is_none() {
        let actions = episode.actions();
        // A screen always has a legal action: home, or the icons of the home screen.
        let Some(action) = actions.get(stream.below(actions.len() as u32) as usize) else { return false };
        let action = action.clone();
        episode.act(&action);
    }
    episode.succeeded()
}
