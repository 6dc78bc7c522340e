use super::*;
use std::collections::{BTreeMap, HashSet};

fn requests(tasks: &[Task]) -> impl Iterator<Item = &str> {
    tasks.iter().map(|task| task.prompt.lines().nth(1).unwrap())
}

#[test]
fn golden_prompts_of_seed_7() {
    let user = Habits::new(7);
    let show = |task: &Task| format!("{}|{}", task.prompt, task.answer);
    assert_eq!(
        user.train(0, 2).iter().map(show).collect::<Vec<_>>(),
        [
            "Apps: Notes, Keep, Lens, Music, Journal, Camera\nRequest: make a note about the recipe and Oscar\nOpen:| Journal",
            "Apps: Messenger, Browser, Schedule, Music, YouTube, Radio\nRequest: play a lullaby while I drive\nOpen:| Radio",
        ]
    );
    assert_eq!(
        user.heldout(1).iter().map(show).collect::<Vec<_>>(),
        [
            "Apps: Yahoo, Music, Safari, Journal, Outlook, Mail\nRequest: answer the email from Ben about the exam\nOpen:| Outlook",
        ]
    );
    assert_eq!(
        user.phrasings(1).iter().map(show).collect::<Vec<_>>(),
        [
            "Apps: YouTube, Lens, Camera, Signal, Instagram, Calendar\nRequest: I want a selfie with the old tower and Tom\nOpen:| Lens",
        ]
    );
}

#[test]
fn golden_hash_of_many_tasks() {
    let mut hasher = blake3::Hasher::new();
    for seed in [0, 7, u64::MAX] {
        let user = Habits::new(seed);
        for generation in [0, 1, u32::MAX] {
            for task in user.train(generation, 200) {
                hasher.update(task.prompt.as_bytes()).update(task.answer.as_bytes());
            }
        }
        for task in user.heldout(200).iter().chain(&user.phrasings(200)) {
            hasher.update(task.prompt.as_bytes()).update(task.answer.as_bytes());
        }
    }
    assert_eq!(
        hasher.finalize().to_hex().as_str(),
        "8216aae4e83cea780b535dc1ba7ca8309c26f2a8aaa7df7b8070abe7904f2ecd"
    );
}

#[test]
fn no_heldout_request_occurs_in_200_generations() {
    let user = Habits::new(3);
    let mut trained = HashSet::new();
    for generation in 0..200 {
        trained.extend(requests(&user.train(generation, 64)).map(str::to_owned));
    }
    let (heldout, unseen) = (user.heldout(2048), user.phrasings(2048));
    for request in requests(&heldout).chain(requests(&unseen)) {
        assert!(!trained.contains(request), "{request}");
    }
    // Training has seen most of what it can, so the check above could have failed.
    assert!(trained.len() > 5000, "{}", trained.len());
}

#[test]
fn no_request_of_any_wording_is_on_both_sides() {
    for intent in Intent::ALL {
        let mut stream = Stream::new(1, 0);
        for _ in 0..500 {
            assert!(!is_heldout(&request(&mut stream, intent, Split::Train)));
            assert!(is_heldout(&request(&mut stream, intent, Split::Heldout)));
        }
    }
}

#[test]
fn the_habit_is_never_the_obvious_app() {
    for seed in 0..1000 {
        for (intent, app) in Habits::new(seed).profile() {
            assert!(intent.apps()[1..].contains(&app), "{seed} {intent} {app}");
        }
    }
}

#[test]
fn users_differ_in_half_of_the_intents() {
    // Mean of 8 * 2000 differences that are fair coins: within 4 standard deviations,
    // 4 * sqrt(16000) / 2 = 253, of 8000.
    let differences: usize = (0..2000u64)
        .map(|seed| {
            let (a, b) = (Habits::new(2 * seed).profile(), Habits::new(2 * seed + 1).profile());
            a.iter().zip(&b).filter(|(x, y)| x != y).count()
        })
        .sum();
    assert!(differences.abs_diff(8000) <= 253, "{differences}");
}

#[test]
fn every_task_is_well_formed() {
    let user = Habits::new(11);
    let all = [user.train(5, 400), user.heldout(400), user.phrasings(400)].concat();
    let profile: BTreeMap<_, _> =
        user.profile().into_iter().map(|(intent, app)| (intent.as_str(), app)).collect();
    let ids: HashSet<_> = all.iter().map(|task| &task.id).collect();
    assert_eq!(ids.len(), all.len());
    for task in &all {
        let lines: Vec<_> = task.prompt.split('\n').collect();
        let [apps, request, "Open:"] = lines[..] else { panic!("{}", task.prompt) };
        let apps: Vec<_> = apps.strip_prefix("Apps: ").unwrap().split(", ").collect();
        let choices: Vec<_> = task.choices.iter().map(|c| c.strip_prefix(' ').unwrap()).collect();
        assert_eq!(apps, choices);
        assert_eq!(apps.iter().collect::<HashSet<_>>().len(), 6);
        assert!(request.starts_with("Request: "));
        assert!(lines.iter().all(|line| *line == line.trim()));
        assert_eq!(task.answer, format!(" {}", profile[task.tags[0].as_str()]));
        let rewards = task.rewards().unwrap();
        let want: Vec<_> = task.choices.iter().map(|c| if *c == task.answer { 1.0 } else { 0.0 }).collect();
        assert_eq!(rewards, want);
        assert_eq!(rewards.iter().sum::<f64>(), 1.0);
        let intent = Intent::ALL.into_iter().find(|i| i.as_str() == task.tags[0]).unwrap();
        assert!(intent.apps().iter().all(|app| apps.contains(app)));
    }
}

#[test]
fn blocks_of_eight_are_balanced_and_few_are_the_beginning_of_many() {
    let user = Habits::new(2);
    let many = user.train(9, 80);
    for block in many.chunks(8) {
        assert_eq!(block.iter().map(|task| &task.tags[0]).collect::<HashSet<_>>().len(), 8);
    }
    assert_eq!(user.train(9, 13), many[..13]);
    assert_eq!(user.train(9, 0), []);
}

#[test]
fn generations_and_users_are_fresh() {
    let user = Habits::new(4);
    assert_ne!(user.train(0, 8), user.train(1, 8));
    assert_ne!(user.train(0, 8), user.train(u32::MAX, 8));
    let prompts = |seed| Habits::new(seed).train(0, 8).into_iter().map(|t| t.prompt);
    assert!(prompts(4).ne(prompts(5)));
}

/// Pearson's chi-square of counts against equal expectations.
fn chi_square(counts: &[usize]) -> f64 {
    let expected = counts.iter().sum::<usize>() as f64 / counts.len() as f64;
    counts.iter().map(|&c| (c as f64 - expected).powi(2) / expected).sum()
}

#[test]
fn the_right_answer_is_anywhere() {
    let mut places = [0; 6];
    let mut obvious_places = [0; 6];
    for task in (0..20).flat_map(|generation| Habits::new(6).train(generation, 480)) {
        let place = |app: &str| task.choices.iter().position(|c| c == app).unwrap();
        places[place(&task.answer)] += 1;
        let intent = Intent::ALL.into_iter().find(|i| i.as_str() == task.tags[0]).unwrap();
        obvious_places[place(&format!(" {}", intent.apps()[0]))] += 1;
    }
    // 20.515: the 99.9 % quantile of chi-square with 5 degrees of freedom.
    for counts in [places, obvious_places] {
        assert!(chi_square(&counts) < 20.515, "{counts:?}");
    }
}

#[test]
fn names_of_users() {
    assert_eq!("habits:7".parse(), Ok(Habits::new(7)));
    assert_eq!("habits:18446744073709551615".parse(), Ok(Habits::new(u64::MAX)));
    for bad in [
        "habits",
        "habits:",
        "habits:+7",
        "habits:-1",
        "habits:7 ",
        "habits:1e3",
        "7",
        "habits:18446744073709551616",
        "Habits:7",
        "habits:\u{667}",
    ] {
        assert!(bad.parse::<Habits>().is_err(), "{bad}");
    }
}
