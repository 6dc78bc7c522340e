//! Every task can be done, in one way only.

use super::*;

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
