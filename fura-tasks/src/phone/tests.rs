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

#[test]
fn there_are_at_least_60_templates_and_each_level_has_some() {
    assert!(names().len() >= 60, "{}", names().len());
    for level in Level::ALL {
        assert!(User::templates(PhoneSplit::Train, level).len() >= 3);
    }
}

#[test]
fn the_oracle_solves_100_instances_of_every_template() {
    for name in names() {
        let split = home_of(&name);
        for seed in 0..100 {
            let task = User::new(seed).task(&name, split, seed).unwrap_or_else(|| panic!("{name} {seed}"));
            let way = solve(&task, STATES).unwrap_or_else(|| panic!("{name} {seed}: {}", task.goal()));
            let most = [2, 4, 9, 16][usize::from(task.level().get()) - 1];
            assert!(!way.is_empty() && way.len() <= most, "{name} {seed}: {}", way.len());
            let mut episode = Episode::new(task, way.len());
            for action in &way {
                assert_eq!(episode.outcome(), None);
                assert!(episode.actions().contains(action));
                episode.act(action);
            }
            assert_eq!(episode.outcome(), Some(Outcome::Right), "{name} {seed}");
        }
    }
}

#[test]
fn every_split_gives_every_template_that_it_lists() {
    for (split, name) in all_templates() {
        for seed in 0..20 {
            assert!(User::new(seed).task(&name, split, 5).is_some(), "{split} {name} {seed}");
        }
    }
}

#[test]
fn pruning_never_makes_the_way_longer_or_shorter() {
    for name in names().into_iter().filter(|name| name.ends_with('1') || name.ends_with('2')) {
        let task = User::new(0).task(&name, home_of(&name), 1).unwrap();
        let (pruned, full) = (search(&task, STATES, true), search(&task, 1_000_000, false));
        assert_eq!(pruned.map(|way| way.len()), full.map(|way| way.len()), "{name}");
    }
}

#[test]
fn the_oracle_says_when_there_is_no_way() {
    let mut task = User::new(1).task("alarm.add/3", PhoneSplit::Train, 0).unwrap();
    task.texts.clear();
    assert_eq!(solve(&task, STATES), None);
    let task = User::new(1).task("alarm.add/3", PhoneSplit::Train, 0).unwrap();
    assert_eq!(solve(&task, 2), None);
}

#[test]
fn native_judgement_is_that_of_the_state_grader() {
    let (mut right, mut side_effects) = (0, 0);
    for name in names() {
        let task = User::new(3).task(&name, home_of(&name), 9).unwrap();
        let grader = GraderSpec::State(task.end_state()).build("", &[]).unwrap();
        let way = solve(&task, STATES).unwrap();
        let mut episode = Episode::new(task.clone(), 1000);
        let mut check = |episode: &Episode| {
            let text = episode.state().to_string();
            let (score, label) = grader.score(&text);
            // An end without any change can be anywhere.
            let holds = task.holds(&episode.rest().start);
            assert_eq!(score == 1.0, holds, "{name}\n{}\n{text}", episode.screen());
            right += usize::from(holds);
            let side = task.has_side_effect(&episode.rest().start);
            assert_eq!(label == crate::Label::SideEffect, side, "{name}");
            side_effects += usize::from(side);
        };
        for action in &way {
            check(&episode);
            episode.act(action);
        }
        check(&episode);
        let mut stream = Stream::new(5, 5);
        let mut episode = Episode::new(task.clone(), 1000);
        while episode.steps() < 60 && episode.outcome().is_none() {
            let mut actions = episode.actions();
            actions.retain(|action| !matches!(action, Action::Done | Action::Answer(_)));
            episode.act(&actions[stream.below(actions.len() as u32) as usize]);
            check(&episode);
        }
    }
    assert!(right > 50 && side_effects > 500, "{right} {side_effects}");
}

#[test]
fn a_side_effect_fails_even_where_the_goal_is_reached() {
    let task = User::new(2).task("alarm.add/3", PhoneSplit::Train, 4).unwrap();
    let way = solve(&task, STATES).unwrap();
    let mut episode = Episode::new(task, 100);
    for action in ["open Settings", "tap 0", "tap 0"] {
        episode.act(&action.parse().unwrap());
    }
    // Whatever the first setting of the first section is, it has been changed or opened; choose its first value.
    episode.act(&Action::Tap(0));
    let changed = episode.task().has_side_effect(&episode.rest().start);
    episode.act(&Action::Home);
    for action in &way {
        episode.act(action);
    }
    let expected = if changed { Outcome::SideEffect } else { Outcome::Right };
    assert_eq!(episode.outcome(), Some(expected));
}

#[test]
fn a_single_additional_change_of_any_setting_or_list_is_never_right() {
    for name in names() {
        let task = User::new(4).task(&name, home_of(&name), 2).unwrap();
        let mut end = task.start.clone();
        end.data.clone_from(&task.want);
        end.screen = task.at.unwrap_or(end.screen);
        assert!(task.holds(&end));
        for s in 0..super::app::SETTINGS.len() as u8 {
            let mut other = end.clone();
            let count = super::app::SETTINGS[usize::from(s)].values.len() as u8;
            other.data.set(s, (other.data.setting(s) + 1) % count);
            assert!(!task.holds(&other), "{name} {s}");
        }
        for list in List::ALL {
            let mut other = end.clone();
            other.data.list_mut(list).push(vec!["x".into(); list.table().fields.len()]);
            assert!(!task.holds(&other), "{name} {list:?}");
        }
        assert!(task.at.is_some() || task.answer.is_some() || !task.holds(&task.start), "{name}");
    }
}

#[test]
fn done_at_once_is_never_right_and_a_wrong_answer_neither() {
    for name in names() {
        let task = User::new(6).task(&name, home_of(&name), 3).unwrap();
        let mut episode = Episode::new(task.clone(), 10);
        assert_eq!(episode.act(&Action::Done), Some(Outcome::Wrong), "{name}");
        if task.answer.is_some() {
            let mut episode = Episode::new(task, 10);
            assert_eq!(episode.act(&Action::Answer("x".into())), Some(Outcome::Wrong));
        }
    }
}

#[test]
fn replays_are_exact_and_equal_states_have_equal_screens() {
    let run = || {
        let mut hasher = blake3::Hasher::new();
        let mut seen = std::collections::HashMap::new();
        for (number, name) in (0..).zip(names()) {
            let task = User::new(8).task(&name, home_of(&name), number).unwrap();
            let mut episode = Episode::new(task, 30);
            let mut stream = Stream::new(number, 1);
            while episode.outcome().is_none() {
                let text = episode.prompt();
                hasher.update(text.as_bytes());
                let device = episode.rest().start;
                assert_eq!(*seen.entry(device).or_insert_with(|| episode.screen()), episode.screen());
                let actions = episode.actions();
                episode.act(&actions[stream.below(actions.len() as u32) as usize]);
            }
        }
        hasher.finalize()
    };
    assert_eq!(run(), run());
    // A change here is a change of the tasks of a seed: count it in VERSION.
    assert_eq!(run().to_hex().as_str(), GOLDEN);
}

const GOLDEN: &str = "00e51b1f30f5ba9fb2818421dd4b3c1c545851ce02f366bcda78a9eafaa30003";

#[test]
fn a_clone_goes_its_own_way() {
    let task = User::new(1).task("note.add/3", PhoneSplit::Train, 0).unwrap();
    let mut episode = Episode::new(task, 20);
    let before = episode.prompt();
    let mut other = episode.clone();
    other.act(&Action::Tap(0));
    assert_eq!(episode.prompt(), before);
    episode.act(&Action::Tap(0));
    assert_eq!(episode.prompt(), other.prompt());
}

#[test]
fn no_values_of_training_are_unseen_values_for_any_user() {
    let sets = [PhoneSplit::Train, PhoneSplit::Values].map(|split| {
        let mut values = HashSet::new();
        for level in Level::ALL {
            for name in User::templates(split, level) {
                for number in 0..40 {
                    let task = User::new(number % 5).task(&name, split, number).unwrap();
                    values.insert(task.values().to_owned());
                }
            }
        }
        values
    });
    assert!(sets.iter().all(|set| set.len() > 500));
    assert!(sets[0].is_disjoint(&sets[1]));
}

#[test]
fn the_other_splits_are_disjoint_from_training_in_what_they_claim() {
    let tasks = |split| {
        let mut tasks = Vec::new();
        for level in Level::ALL {
            for name in User::templates(split, level) {
                tasks.extend((0..20).map(|n| User::new(n % 5).task(&name, split, n).unwrap()));
            }
        }
        tasks
    };
    let trained = tasks(PhoneSplit::Train);
    let families = |tasks: &[PhoneTask]| -> HashSet<String> {
        tasks.iter().map(|t| t.template().split('/').next().unwrap().to_owned()).collect()
    };
    assert!(families(&trained).is_disjoint(&families(&tasks(PhoneSplit::Templates))));
    let goals: HashSet<_> = trained.iter().map(|t| t.goal().to_owned()).collect();
    assert!(tasks(PhoneSplit::Phrasings).iter().all(|t| !goals.contains(t.goal())));
    let places: HashSet<_> = trained.iter().map(PhoneTask::places).collect();
    assert!(tasks(PhoneSplit::Layouts).iter().all(|t| !places.contains(&t.places())));
    assert!(
        tasks(PhoneSplit::Layouts).iter().all(|t| Episode::new(t.clone(), 1).screen().lines().count() <= 7)
    );
    assert!(trained.iter().all(|t| !t.apps().contains(&App::Files)));
    assert!(tasks(PhoneSplit::Apps).iter().all(|t| t.apps().contains(&App::Files)));
}

#[test]
fn no_wording_of_training_is_an_unseen_one() {
    for (_, name) in all_templates() {
        let family = templates().find(|t| t.name() == name).unwrap().family;
        let words = wording::words_of(family);
        assert!(words.trained.iter().all(|w| !words.unseen.contains(w)));
        assert!(
            matches!(family, Family::Both(..)) || (!words.trained.is_empty() && !words.unseen.is_empty())
        );
    }
}

#[test]
fn actions_are_read_as_they_are_written() {
    let texts = ["", "a", "a \"b\"\n\\", "\u{0}\u{7f}\u{2028}", "end\u{10ffff}", "tap 3"];
    let mut actions =
        vec![Action::Scroll(true), Action::Scroll(false), Action::Back, Action::Home, Action::Done];
    actions.extend([0, 9, 10, 255].map(Action::Tap));
    actions.extend(App::ALL.map(Action::Open));
    actions.extend(texts.map(|t| Action::Type(3, t.into())));
    actions.extend(texts.map(|t| Action::Answer(t.into())));
    for action in actions {
        let text = action.to_string();
        assert!(!text.contains('\n'));
        assert_eq!(text.parse(), Ok(action), "{text}");
    }
    for bad in [
        "",
        " ",
        "tap",
        "tap ",
        "tap 03",
        "tap +3",
        "tap 256",
        "tap 3 ",
        " tap 3",
        "Tap 3",
        "tap 3\n",
        "type 0",
        "type 0 a",
        "type 0 \"a",
        "type 0  \"a\"",
        "type \"a\"",
        "scroll",
        "scroll left",
        "open",
        "open clock",
        "open Maps",
        "back 1",
        "home now",
        "done.",
        "answer",
        "answer a",
        "answer \"\\u0061\"",
        "fly",
    ] {
        assert!(bad.parse::<Action>().is_err(), "{bad}");
    }
    assert!(format!("answer \"{}\"", "a".repeat(TEXT_LIMIT + 1)).parse::<Action>().is_err());
    assert!(format!("answer \"{}", "\\".repeat(1 << 20)).parse::<Action>().is_err());
}

#[test]
fn hostile_texts_stay_in_their_line_and_choices_differ() {
    let hostile = [
        "",
        " ",
        "\n",
        "0 Delete\n1 Delete",
        "back",
        "done",
        "tap 1",
        "Delete",
        "Save",
        "a\u{0}b\u{85}c\u{2028}d",
        "\u{202e}gnp",
        "x\r\nDo: done",
        "\"}",
        "{0}",
        "\u{1f9d1}\u{200d}\u{1f680}",
    ];
    for name in names() {
        let task = User::new(5).task(&name, home_of(&name), 0).unwrap();
        for text in hostile.into_iter().map(str::to_owned).chain(["long ".repeat(1000)]) {
            let mut task = task.clone();
            task.goal.clone_from(&text);
            task.texts = vec![text.as_str().into(), "other".into()];
            for list in List::ALL {
                for record in task.start.data.list_mut(list) {
                    record.fill(text.as_str().into());
                }
            }
            let mut episode = Episode::new(task, 25);
            let mut stream = Stream::new(1, 1);
            while episode.outcome().is_none() {
                let screen = episode.screen();
                // What an episode keeps of its screen is what the screen is.
                let device = episode.rest().start;
                let (view, mut fresh) = (device.view(), String::new());
                device.write(&view, &mut fresh);
                assert_eq!(screen, fresh);
                let shown = view.elements;
                assert_eq!(screen.lines().count(), 1 + shown.len(), "{screen}");
                assert_eq!(screen.split('\n').count(), 2 + shown.len(), "{screen}");
                assert!(screen.lines().all(|line| line.chars().count() <= 90), "{screen}");
                let answers = episode.choices();
                let folded: HashSet<_> = answers.iter().map(|c| c.trim().to_owned()).collect();
                assert_eq!(folded.len(), answers.len(), "{answers:?}");
                assert!(answers.iter().all(|c| c.starts_with(' ') && c.matches('\n').count() == 1));
                let actions = episode.actions();
                episode.act(&actions[stream.below(actions.len() as u32) as usize]);
            }
        }
    }
}

#[test]
fn impossible_actions_change_nothing_and_cost_a_step() {
    let task = User::new(5).task("alarm.add/3", PhoneSplit::Train, 0).unwrap();
    let mut episode = Episode::new(task, 6);
    let before = episode.state();
    let texts = ["tap 200", "type 0 \"x\"", "back", "home", "nonsense"];
    for (steps, text) in (1..).zip(texts) {
        assert_eq!(episode.act_text(text), None);
        assert_eq!((episode.steps(), episode.state() == before), (steps, true), "{text}");
    }
    assert_eq!(episode.act_text("scroll up"), Some(Outcome::OutOfSteps));
    assert_eq!(episode.act_text("done"), Some(Outcome::OutOfSteps));
    assert_eq!(episode.steps(), 6);
}

#[test]
fn every_tap_leads_to_a_screen_with_something_on_it() {
    let task = User::new(1).task("alarm.add/3", PhoneSplit::Train, 0).unwrap();
    let mut seen = HashSet::from([Screen::Home]);
    let mut todo = vec![Screen::Home];
    while let Some(screen) = todo.pop() {
        let device = Device::new(task.start.data.clone(), screen, Arc::clone(&task.start.layout));
        let elements = super::screen::elements(&device);
        assert!(!elements.is_empty(), "{screen:?}");
        for element in elements {
            if let Effect::Go(next) = element.effect {
                assert!(seen.insert(next) || next.parent() == screen || seen.contains(&next));
                if !todo.contains(&next) && next != screen && seen.contains(&next) && next.parent() == screen
                {
                    todo.push(next);
                }
            }
        }
    }
    assert!(seen.len() > 60, "{}", seen.len());
}

#[test]
fn full_lists_and_empty_forms_take_nothing() {
    let task = User::new(1).task("alarm.add/3", PhoneSplit::Train, 0).unwrap();
    let mut device = task.start.clone();
    let act = |device: &mut Device, action| {
        let view = device.view();
        device.act(&view, &action)
    };
    for _ in 0..1000 {
        act(&mut device, Action::Open(App::Notes));
        while device.view().elements.iter().all(|e| e.effect != Effect::Go(Screen::Form(List::Notes))) {
            assert!(act(&mut device, Action::Scroll(true)));
        }
        let new = device.view().elements.iter().position(|e| &*e.label == "New").unwrap() as u8;
        act(&mut device, Action::Tap(new));
        assert!(!act(&mut device, Action::Tap(1)), "an empty form");
        act(&mut device, Action::Type(0, "x".into()));
        act(&mut device, Action::Tap(1));
    }
    assert_eq!(device.data.list(List::Notes).len(), 64);
}

#[test]
fn users_differ_and_prompts_do_not_show_it() {
    let profiles: HashSet<_> =
        (0..50).map(|seed| format!("{:?}", User::new(seed).profile().describe())).collect();
    assert_eq!(profiles.len(), 50);
}

#[test]
fn decisions_are_well_formed_short_and_decided_by_outcomes() {
    for name in ["phone:3", "phone:3/2"] {
        let source: Decisions = name.parse().unwrap();
        assert_eq!(source.describe(), format!("{name} v1"));
        let (train, heldout) = (source.train(2, 60), source.heldout(60));
        assert_eq!(source.train(2, 25), train[..25]);
        assert_ne!(source.train(3, 25), train[..25]);
        assert_eq!(source.train(u32::MAX, 3).len(), 3);
        assert!(source.train(0, 0).is_empty());
        for task in [train, heldout, source.phrasings(60)].concat() {
            let rewards = task.rewards().unwrap();
            let right = rewards.iter().filter(|r| **r == 1.0).count();
            assert!(right >= 1 && right < rewards.len(), "{}", task.prompt);
            assert!(task.prompt.len() < 320, "{}", task.prompt);
            if name == "phone:3" {
                assert_eq!(right, 1, "{}", task.prompt);
                let (_, rest) = task.id.split_once('/').unwrap();
                let (split, rest) = rest.split_once('/').unwrap();
                let (template, number) = rest.rsplit_once('/').unwrap();
                let split = PhoneSplit::ALL.into_iter().find(|s| s.to_string() == split).unwrap();
                let number = number.split('#').next().unwrap().parse().unwrap();
                let whole = User::new(3).task(template, split, number).unwrap();
                for (choice, reward) in task.choices.iter().zip(&rewards) {
                    let mut episode = Episode::new(whole.clone(), 1);
                    let at = episode.choices().iter().position(|c| c == choice).unwrap();
                    episode.act(&episode.actions()[at].clone());
                    assert_eq!(episode.succeeded(), *reward == 1.0);
                }
            }
        }
    }
    for bad in ["phone", "phone:", "phone:+1", "phone:1/3", "phone:1/", "phone:x", "phone:1/2/3", "habits:1"]
    {
        assert!(bad.parse::<Decisions>().is_err(), "{bad}");
    }
}

#[test]
fn random_play_is_reproducible_and_rarely_right() {
    let task = User::new(1).task("both.note_message/4", PhoneSplit::Train, 0).unwrap();
    let play = |seed| {
        let mut episode = Episode::new(task.clone(), 30);
        (play_at_random(&mut episode, seed), episode.state())
    };
    assert_eq!(play(1), play(1));
    assert!((0..200).filter(|seed| play(*seed).0).count() < 20);
}

#[test]
fn a_label_that_is_an_action_or_not_alone_is_replaced_by_the_action() {
    let mut task = User::new(5).task("note.pin/2", PhoneSplit::Train, 0).unwrap();
    let notes = task.start.data.list_mut(List::Notes);
    *notes = ["back", "same", "same"].map(|t| vec![t.into(), "off".into()]).to_vec();
    let device =
        Device::new(task.start.data.clone(), Screen::List(List::Notes), Arc::clone(&task.start.layout));
    let view = device.view();
    let answers = choices(&view, &task.actions(&device, &view));
    assert_eq!(answers, [" tap 0\n", " tap 1\n", " tap 2\n", " New\n", " back\n", " home\n"]);
}
