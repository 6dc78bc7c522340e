//! The state of a phone before anything is asked for.

use std::sync::Arc;

use super::app::{AIRPLANE, FOLDERS, List, SETTINGS, SOUNDS};
use super::data::Data;
use super::profile::Profile;
use super::values::{EVENTS, FILES, LABELS, MESSAGES, NAMES, PLAYLISTS, SITES};
use crate::habits::CHORES;
use crate::random::Stream;

/// A random phone, with the contacts and playlists that the user's habits name.
pub(super) fn random_phone(stream: &mut Stream, profile: &Profile) -> Data {
    let mut data = Data::new();
    for (s, setting) in (0..).zip(&SETTINGS) {
        data.set(s, stream.below(setting.values.len() as u32) as u8);
    }
    // Not in airplane mode with a radio on.
    if data.setting(0) + data.setting(3) > 0 {
        data.set(AIRPLANE, 0);
    }
    let mut names = NAMES.to_vec();
    stream.shuffle(&mut names);
    names.retain(|name| !profile.relations.contains(name));
    names.truncate(3);
    names.extend(profile.relations);
    stream.shuffle(&mut names);
    let number = |stream: &mut Stream| format!("0{:04}", stream.below(10_000));
    for name in &names {
        let (mobile, work, favourite) = (number(stream), number(stream), on_or_off(stream));
        push(&mut data, List::Contacts, &[name, &mobile, &work, favourite]);
    }
    for name in some(stream, &names, 4) {
        let message = some(stream, &MESSAGES, 1)[0];
        let muted = on_or_off(stream);
        push(&mut data, List::Threads, &[name, message, muted]);
    }
    for name in some(stream, &names, 3) {
        push(&mut data, List::Calls, &[name, "mobile"]);
    }
    for hour in some(stream, &["05", "06", "07", "08", "09", "10"], 3) {
        let time = format!("{hour}:{:02}", 5 * stream.below(12));
        let label = some(stream, &LABELS, 1)[0];
        let (on, tone) = (on_or_off(stream), some(stream, SOUNDS, 1)[0]);
        push(&mut data, List::Alarms, &[&time, label, on, tone]);
    }
    for minutes in some(stream, &["3", "10", "25", "45"], 2) {
        push(&mut data, List::Timers, &[minutes]);
    }
    for title in some(stream, &EVENTS, 4) {
        let time = format!("{:02}:{:02}", 8 + stream.below(12), 15 * stream.below(4));
        push(&mut data, List::Events, &[title, &time, "none"]);
    }
    let chores = some(stream, &CHORES, 6);
    let sites = some(stream, &SITES, 6);
    for (lists, values) in [([List::Notes, List::Jots], chores), ([List::Tabs, List::Pages], sites)] {
        for (i, value) in values.into_iter().enumerate() {
            let marked = on_or_off(stream);
            push(&mut data, lists[i % 2], &[value, marked]);
        }
    }
    for file in some(stream, &FILES, 5) {
        push(&mut data, List::Files, &[file, FOLDERS[0]]);
    }
    for playlist in some(stream, &PLAYLISTS, PLAYLISTS.len()) {
        push(&mut data, List::Playlists, &[playlist]);
    }
    data
}

fn on_or_off(stream: &mut Stream) -> &'static str {
    ["off", "on"][stream.below(2) as usize]
}

/// `n` different values in random order.
fn some<'a>(stream: &mut Stream, values: &[&'a str], n: usize) -> Vec<&'a str> {
    let mut all = values.to_vec();
    stream.shuffle(&mut all);
    all.truncate(n);
    all
}

fn push(data: &mut Data, list: List, fields: &[&str]) {
    data.list_mut(list).push(fields.iter().map(|field| Arc::from(*field)).collect());
}
