//! Actions, screens and the answers to choose from.

use super::*;

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
    for name in ["phone:3", "phone:3/2", "phone:3/3", "phone:3/4"] {
        let source: Decisions = name.parse().unwrap();
        assert_eq!(source.describe(), format!("{name} v1"));
        let (train, heldout) = (source.train(2, 60), source.heldout(60));
        let levels: HashSet<_> = source.whole(PhoneSplit::Values, 60).iter().map(|t| t.level()).collect();
        assert_eq!(levels.len(), usize::from(source.level().get()));
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
    for bad in [
        "phone",
        "phone:",
        "phone:+1",
        "phone:1/0",
        "phone:1/5",
        "phone:1/02",
        "phone:1/",
        "phone:x",
        "phone:1/2/3",
        "habits:1",
    ] {
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
