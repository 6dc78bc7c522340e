//! The phone's actions, and the names of environments.

use fura_model::tokenizer::Specials;
use fura_model::{Constraint, ConstraintState};
use fura_tasks::phone::{Action, Decisions, Episode, PhoneSplit, User};
use fura_tasks::{Generated, Habits, TaskSource};

use super::texts::TOKENIZER;

thread_local! {
    /// Episodes at their beginning, with their grammars.
    static EPISODES: Vec<(Episode, ConstraintState)> = ["message.send/3", "contact.ask/3", "way.quiet/1"]
        .iter()
        .map(|name| {
            let task = User::new(3).task(name, PhoneSplit::Train, 0).expect("a task of the phone");
            let episode = Episode::new(task, 4);
            let grammar = TOKENIZER.with(|tokenizer| Constraint::grammar(tokenizer, &episode.grammar()));
            (episode, grammar.expect("the grammar of a screen").start())
        })
        .collect();
}

/// Actions of the phone: what is read is written back as it was; any text leaves an episode as sound as it was; a text of
/// the screen's grammar is an action.
pub fn phone(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    match text.parse::<Action>() {
        Ok(action) => assert_eq!(action.to_string(), text),
        Err(error) => assert!(!error.to_string().contains('\n')),
    }
    let ids = TOKENIZER.with(|tokenizer| {
        // A byte without a token is left out, and it is another text.
        let ids = tokenizer.encode(&text, Specials::Ignore).ok();
        ids.filter(|ids| tokenizer.decode(ids) == text.as_bytes())
    });
    EPISODES.with(|episodes| {
        for (episode, state) in episodes {
            let (mut episode, mut state) = (episode.clone(), state.clone());
            let is_allowed = ids.as_ref().is_some_and(|ids| ids.iter().all(|id| state.advance(*id)));
            let before = episode.state();
            for line in text.lines().take(6) {
                episode.act_text(line);
            }
            if text.lines().all(|line| line.trim().parse::<Action>().is_err()) {
                assert_eq!(episode.state(), before);
            }
            assert!(episode.steps() <= 4);
            assert_eq!(episode.choices().len(), episode.actions().len());
            assert!(episode.screen().lines().count() <= 9);
            if is_allowed && state.is_complete() {
                assert!(text.trim().parse::<Action>().is_ok(), "{text:?}");
            }
        }
    });
}

/// Names of environments: one that is read is written back as it was, and gives tasks.
pub fn name(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let (habits, phone, generated) =
        (text.parse::<Habits>(), text.parse::<Decisions>(), text.parse::<Generated>());
    // At most one of them reads a name.
    assert!(usize::from(habits.is_ok()) + usize::from(phone.is_ok()) + usize::from(generated.is_ok()) <= 1);
    let errors = [
        habits.as_ref().err().map(ToString::to_string),
        phone.as_ref().err().map(ToString::to_string),
        generated.as_ref().err().map(ToString::to_string),
    ];
    for error in errors.into_iter().flatten() {
        assert!(!error.contains('\n') && error.len() < 1000, "{error}");
    }
    let source = match (habits, phone, generated) {
        (Ok(habits), _, _) => TaskSource::Habits(habits),
        (_, Ok(phone), _) => TaskSource::Phone(phone),
        (_, _, Ok(generated)) => {
            assert!(Generated::is_name(text));
            TaskSource::Generated(generated)
        }
        _ => return,
    };
    let described = source.describe();
    let name = described.split(' ').next().unwrap_or_default();
    // Leading zeros of a seed, and a level or number that is the default, are left out.
    assert!(name.len() <= text.len(), "{text} {name}");
    assert_eq!(source.heldout(1).len(), 1);
}
