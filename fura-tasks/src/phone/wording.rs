//! How goals are worded: those of training, and those that training never uses.

use super::app::List;
use super::family::Family;
use super::profile::Way;

/// The wordings of a family; `{0}` and `{1}` are its values.
pub(super) struct Words {
    pub(super) trained: &'static [&'static str],
    pub(super) unseen: &'static [&'static str],
}

const fn words(trained: &'static [&'static str], unseen: &'static [&'static str]) -> Words {
    Words { trained, unseen }
}

/// The wordings of a family that is not two.
pub(super) fn words_of(family: Family) -> Words {
    match family {
        Family::Open(_) => {
            words(&["open {0}", "go to {0}", "show me {0}"], &["take me to {0}", "launch {0}"])
        }
        Family::OpenNotes => words(
            &["I want to write down: {0}", "take a note to {0}", "I must not forget to {0}"],
            &["a memo, please: {0}", "let me jot down that I have to {0}"],
        ),
        Family::OpenWeb => words(
            &[
                "look something up online for {0}",
                "I want to search the web before {0}",
                "find a page about {0}",
            ],
            &["what does the internet say about {0}", "surf a little until {0}"],
        ),
        Family::Switch(_) | Family::Value(_) | Family::Way(_) | Family::Stopwatch => settings(family),
        Family::Flip(list) => match list {
            List::Alarms => words(
                &["turn {1} the {0} alarm", "switch the alarm at {0} {1}"],
                &["I want the alarm of {0} {1}"],
            ),
            List::Contacts => words(
                &["turn {1} favourite for {0}", "set the favourite mark of {0} to {1}"],
                &["make the favourite mark {1} for contact {0}"],
            ),
            List::Threads => words(
                &["turn mute {1} for {0}", "set muting of {0} to {1}"],
                &["messages from {0}: mute {1}"],
            ),
            List::Notes | List::Jots => words(
                &["turn the pin {1} for the note {0}", "set pinned to {1} for {0}"],
                &["the note {0} should have its pin {1}"],
            ),
            _ => words(
                &["turn the bookmark {1} for {0}", "set the bookmark of {0} to {1}"],
                &["the page {0} should have its bookmark {1}"],
            ),
        },
        Family::Delete(list) => match list {
            List::Alarms => {
                words(&["delete the {0} alarm", "remove the alarm at {0}"], &["drop the alarm of {0}"])
            }
            List::Timers => words(&["delete the {0} minute timer"], &["get rid of the timer of {0} minutes"]),
            List::Contacts => {
                words(&["delete the contact {0}", "remove {0} from contacts"], &["drop contact {0}"])
            }
            List::Events => {
                words(&["cancel {0}", "delete {0} from the calendar"], &["take {0} off my calendar"])
            }
            List::Files => words(&["delete the file {0}", "remove {0}"], &["get rid of the file {0}"]),
            List::Notes | List::Jots => words(&["delete the note {0}"], &["throw away the note {0}"]),
            _ => words(&["close the page {0}", "close {0}"], &["shut the page {0}"]),
        },
        Family::Add(list) => match list {
            List::Alarms => words(
                &["set an alarm for {0} with the label {1}", "wake me at {0}, label it {1}"],
                &["I need an alarm at {0} called {1}"],
            ),
            List::Timers => words(&["set a timer for {0} minutes"], &["count down {0} minutes"]),
            List::Events => words(
                &["put {0} at {1} in the calendar", "add the event {0} at {1}"],
                &["schedule {0} for {1}"],
            ),
            _ => words(
                &[
                    "add {0} with the number {1} to contacts",
                    "save {1} as the mobile number of a new contact {0}",
                ],
                &["new contact: {0}, {1}"],
            ),
        },
        Family::AddNote => words(
            &["note: {0}", "write down that I must {0}", "make a note: {0}"],
            &["remember this for me: {0}", "put this in a memo: {0}"],
        ),
        Family::Visit => {
            words(&["go to {0}", "open the page {0}", "visit {0}"], &["I want to see {0}", "load {0}"])
        }
        Family::AlarmTone => words(
            &["give the {0} alarm my usual tone", "set my kind of tone for the alarm at {0}"],
            &["the alarm of {0} should sound as I like it"],
        ),
        Family::Reminder => words(
            &["remind me of {0} as usual", "set my usual reminder for {0}"],
            &["I want to be reminded of {0} in time"],
        ),
        Family::Number => words(
            &["change the mobile number of {0} to {1}", "{0} has a new mobile number, {1}"],
            &["update the mobile of {0}, it is {1} now"],
        ),
        Family::Ask(List::Contacts, _) => words(
            &["what is the mobile number of {0}?", "tell me {0}'s mobile number"],
            &["which mobile has {0}?"],
        ),
        Family::Ask(List::Events, _) => {
            words(&["when is {0}?", "at what time is {0}?"], &["tell me when {0} begins"])
        }
        Family::Ask(..) => words(&["what did {0} write last?"], &["tell me the latest message of {0}"]),
        Family::Show => words(
            &["show the contact {0} for {1}", "I need the details of {0} before {1}"],
            &["let me see {0} because of {1}"],
        ),
        Family::ShowRelation(_) => words(
            &[
                "show my {0}'s contact for {1}",
                "I need my {0}'s details before {1}",
                "find my {0}, it is about {1}",
            ],
            &["where is my {0}? I ask because of {1}", "pull up my {0} to talk about {1}"],
        ),
        Family::Call => words(
            &["call {0} about {1}", "phone {0} before {1}", "ring {0} after {1}"],
            &["I want to talk to {0} about {1}", "get {0} on the line for {1}"],
        ),
        Family::CallRelation(_) => words(
            &["call my {0} about {1}", "phone my {0} before {1}", "ring my {0} after {1}"],
            &["I want to talk to my {0} about {1}", "get my {0} on the line for {1}"],
        ),
        Family::CallBack => words(&["call {0} back"], &["return the call of {0}"]),
        Family::Send => words(
            &["text {0}: {1}", "write to {0}: {1}", "tell {0} in a message: {1}"],
            &["let {0} know: {1}", "message for {0}: {1}"],
        ),
        Family::Move => words(&["move {0} to {1}", "put the file {0} into {1}"], &["{0} belongs in {1}"]),
        Family::PutAway => words(&["put {0} away", "file {0} where it belongs"], &["tidy up {0}"]),
        Family::Play => words(&["play {0} during {1}", "put {0} on for {1}"], &["I want to hear {0} at {1}"]),
        Family::PlayMood(_) => words(
            &["play my {0} music after {1}", "put on my {0} playlist before {1}"],
            &["I want my {0} songs after {1}"],
        ),
        Family::Both(..) => words(&[], &[]),
    }
}

fn settings(family: Family) -> Words {
    match family {
        Family::Switch(_) => {
            words(&["turn {1} {0}", "switch {0} {1}", "set {0} to {1}"], &["I want {0} {1}"])
        }
        Family::Stopwatch => words(&["{0} the stopwatch"], &["stopwatch: {0} it"]),
        Family::Way(Way::Quiet) => words(
            &["no noise during {0}", "keep the phone quiet for {0}", "I must not be interrupted in {0}"],
            &["silence, please, {0} begins", "let nothing ring while I am at {0}"],
        ),
        Family::Way(Way::Night) => words(
            &[
                "make the screen easy on my eyes after {0}",
                "the screen is too bright for {0}",
                "screen for the evening, after {0}",
            ],
            &["my eyes hurt since {0}, change the screen", "soften the screen until {0}"],
        ),
        Family::Way(Way::Online) => words(
            &["I need the internet for {0}", "get me online for {0}", "connect me before {0}"],
            &["there is no connection and {0} needs one", "bring the phone online until {0}"],
        ),
        Family::Value(10) => words(
            &["set the brightness to {0}", "make the screen brightness {0}"],
            &["I want {0} brightness"],
        ),
        Family::Value(11) => {
            words(&["set the text size to {0}", "make the text {0}"], &["I want {0} letters"])
        }
        Family::Value(16) => {
            words(&["set the ringtone to {0}", "ring with {0}"], &["I want to hear {0} when it rings"])
        }
        Family::Value(17) => words(&["set the volume to {0}", "make the volume {0}"], &["I want it {0}"]),
        Family::Value(21) => {
            words(&["set the screen lock to {0}", "lock the screen after {0}"], &["screen lock: {0}"])
        }
        _ => words(&["set the language to {0}", "speak {0}"], &["I want the phone in {0}"]),
    }
}
