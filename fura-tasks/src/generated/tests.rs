use super::*;
use crate::grader::GraderSpec;
use crate::stress::stress;
use crate::task_set::TaskSet;
use std::collections::{BTreeMap, BTreeSet, HashSet};

fn all() -> [Generated; 4] {
    ["countdown:7", "countdown:7/4", "calls:7", "extract:7"].map(|name| name.parse().unwrap())
}

/// Some tasks of every split.
fn tasks(source: &Generated, n: usize) -> Vec<Task> {
    [source.train(3, n), source.heldout(n), source.phrasings(n)].concat()
}

/// The prompt's requests with their answers, the examples first; the last has no answer.
fn requests(task: &Task) -> Vec<(&str, &str)> {
    let blocks = task.prompt.split("\n\n").filter(|block| block.contains('\n'));
    blocks
        .map(|block| {
            let (request, answer) = block.split_once('\n').unwrap();
            (request, answer.split_once(':').unwrap().1.trim())
        })
        .collect()
}

fn numbers_in(text: &str) -> Vec<u32> {
    let digits = text.split(|c: char| !c.is_ascii_digit()).filter(|part| !part.is_empty());
    digits.map(|part| part.parse().unwrap()).collect()
}

/// What a request asks for, found in the prompt alone: the answer, or for Countdown the numbers and the target.
fn asked(source: &Generated, request: &str, answer: &str) -> String {
    if !matches!(source.kind, Kind::Countdown(_)) {
        return answer.trim().to_owned();
    }
    let mut numbers = numbers_in(answer);
    numbers.sort_unstable();
    let mut left = numbers_in(request);
    for number in &numbers {
        let at = left.iter().position(|other| other == number).unwrap();
        left.remove(at);
    }
    format!("countdown {numbers:?} {}", left[0])
}

#[test]
fn golden_prompts_of_seed_7() {
    let show = |name: &str| {
        let task = &name.parse::<Generated>().unwrap().train(0, 1)[0];
        format!("{}|{}", task.prompt, task.answer)
    };
    assert_eq!(
        show("countdown:7"),
        "Use each number once with + - * /.\n\nCombine 13 and 21 into 273.\nExpression: 13 * 21\n\nCombine 17 and 14 into 238.\nExpression:| 14 * 17"
    );
    assert_eq!(
        show("calls:7"),
        "Functions: play(song) event(title, time) alarm(time) open(app)\n\nRequest: plan a picnic for 12:25\nCall: event(title=\"a picnic\", time=\"12:25\")\n\nRequest: I want to hear a lullaby\nCall: play(song=\"a lullaby\")\n\nRequest: I get up at 14:55, wake me\nCall:| alarm(time=\"14:55\")"
    );
    assert_eq!(
        show("extract:7"),
        "Message: my new number is 04106, Priya\nJSON: {\"name\":\"Priya\",\"number\":\"04106\"}\n\nMessage: 04231 is the number of Sam\nJSON:| {\"name\":\"Sam\",\"number\":\"04231\"}"
    );
}

#[test]
fn golden_hash_of_many_tasks() {
    let mut hasher = blake3::Hasher::new();
    for seed in [0, 7, u64::MAX] {
        for name in ["countdown:SEED", "countdown:SEED/3", "countdown:SEED/4", "calls:SEED", "extract:SEED"] {
            let source: Generated = name.replace("SEED", &seed.to_string()).parse().unwrap();
            for task in [source.train(u32::MAX, 50), tasks(&source, 50)].concat() {
                hasher.update(task.to_line().as_bytes());
            }
        }
    }
    assert_eq!(
        hasher.finalize().to_hex().as_str(),
        "8e51c03e0803dfdc81e802e191d3a43d0accc1531f8144626af9f7ef3fe3c51d"
    );
}

#[test]
fn tasks_written_as_lines_pass_their_own_test_and_read_back_equal() {
    for source in all() {
        let tasks = tasks(&source, 200);
        let lines: Vec<String> = tasks.iter().map(Task::to_line).collect();
        // Reading grades the answer, the good and the bad examples, and refuses an id that is there twice.
        let set = TaskSet::read("generated.jsonl", lines.join("\n").as_bytes()).unwrap();
        assert_eq!(set.tasks(), tasks);
    }
}

#[test]
fn every_task_is_well_formed() {
    for source in all() {
        for task in tasks(&source, 200) {
            assert!(task.choices.is_empty() && task.messages.is_empty());
            assert_eq!(task.stop, ["\n"]);
            assert!((8..=40).contains(&task.max_tokens));
            assert!(task.prompt.ends_with(':') && task.prompt.len() < 420, "{}", task.prompt);
            assert!(task.answer.starts_with(' ') && task.answer == format!(" {}", task.answer.trim()));
            assert!(!task.answer.contains('\n'));
            assert!(!task.good.is_empty() && task.bad.len() >= 3);
            let requests = requests(&task);
            let (last, examples) = requests.split_last().unwrap();
            assert_eq!(examples.len(), if source.kind == Kind::Calls { 2 } else { 1 });
            assert_eq!(last.1, "");
            assert!(examples.iter().all(|example| *example.1 != *task.answer.trim()));
        }
    }
}

#[test]
fn countdown_asks_for_what_it_claims() {
    let source: Generated = "countdown:5/4".parse().unwrap();
    for task in tasks(&source, 300) {
        let GraderSpec::Expr(spec) = &task.grade else { panic!() };
        assert!((2..=4).contains(&spec.numbers.len()) && (1..=999).contains(&spec.target));
        assert_eq!(task.tags, [format!("numbers{}", spec.numbers.len())]);
        assert!(spec.numbers.iter().all(|number| (2..=25).contains(number)));
        assert_eq!(spec.numbers.iter().collect::<HashSet<_>>().len(), spec.numbers.len());
        // The request says just these numbers and the target.
        let (request, _) = requests(&task)[1];
        let mut said = numbers_in(request);
        let mut want: Vec<u32> = spec.numbers.iter().copied().chain([spec.target as u32]).collect();
        said.sort_unstable();
        want.sort_unstable();
        assert_eq!(said, want, "{request}");
    }
}

#[test]
fn all_values_of_an_answer_are_said_in_the_request() {
    let said_otherwise = ["True", "False", "true", "false"];
    for source in [Generated::calls(3), Generated::extract(3)] {
        for task in tasks(&source, 300) {
            let (request, _) = *requests(&task).last().unwrap();
            let values = task.answer.split(['=', ':', ',', '(', ')', '{', '}']).filter_map(|part| {
                let text = part.trim().trim_matches('"');
                (part.trim().starts_with('"') || part.trim().starts_with(|c: char| c.is_ascii_digit()))
                    .then_some(text)
            });
            let keys: Vec<&str> = task.answer.split('"').skip(1).step_by(2).collect();
            for value in values.filter(|value| !said_otherwise.contains(value)) {
                let is_key = source.kind == Kind::Extract
                    && keys.contains(&value)
                    && task.answer.contains(&format!("\"{value}\":"));
                assert!(is_key || request.contains(value), "{value:?} of {} in {request}", task.answer);
            }
        }
    }
}

#[test]
fn nothing_heldout_is_asked_for_or_shown_in_training() {
    for source in all() {
        let mut trained = HashSet::new();
        for generation in 0..60 {
            for task in source.train(generation, 64) {
                let requests = requests(&task);
                let (last, examples) = requests.split_last().unwrap();
                trained.insert(asked(&source, last.0, &task.answer));
                trained.extend(examples.iter().map(|(request, answer)| asked(&source, request, answer)));
            }
        }
        let other: Generated = source.name().replace(":7", ":8").parse().unwrap();
        for task in source.heldout(300).into_iter().chain(other.heldout(300)) {
            let requests = requests(&task);
            let (last, examples) = requests.split_last().unwrap();
            let asked_for = asked(&source, last.0, &task.answer);
            assert!(!trained.contains(&asked_for), "{asked_for}");
            // Not even the prompts of held-out tasks give away one of them.
            for (request, answer) in examples {
                assert!(!is_heldout(&asked(&source, request, answer)), "{request}");
            }
        }
        // Training has seen much of what it can, so the check above could have failed.
        assert!(trained.len() > 300, "{}", trained.len());
    }
}

#[test]
fn phrasings_are_never_a_wording_of_training() {
    for source in all() {
        let of = |tasks: Vec<Task>| -> HashSet<String> {
            tasks.iter().map(|task| requests(task).last().unwrap().0.to_owned()).collect()
        };
        let trained: HashSet<String> =
            (0..60).flat_map(|generation| of(source.train(generation, 64))).collect();
        assert_eq!(of(source.phrasings(500)).intersection(&trained).count(), 0);
        // Requests for the same things are there on both sides.
        let answers =
            |tasks: Vec<Task>| -> BTreeSet<String> { tasks.into_iter().map(|t| t.answer).collect() };
        let both = answers(source.phrasings(500));
        let trained: BTreeSet<String> = (0..60).flat_map(|g| answers(source.train(g, 64))).collect();
        assert!(both.intersection(&trained).next().is_some());
    }
}

#[test]
fn both_sides_of_every_variant_are_filled() {
    for kind in [Kind::Countdown(4), Kind::Calls, Kind::Extract] {
        for variant in 0..kind.variants() {
            let mut stream = Stream::new(1, 0);
            let mut count = 0;
            let mut tag = String::new();
            for _ in 0..1000 {
                let item = match kind {
                    Kind::Countdown(_) => countdown::item(&mut stream, variant, false),
                    Kind::Calls => calls::item(&mut stream, variant, false),
                    Kind::Extract => extract::item(&mut stream, variant, false),
                };
                count += usize::from(is_heldout(&item.key));
                tag = item.tag;
            }
            assert!((50..=500).contains(&count), "{kind:?} {tag}: {count} of 1000");
        }
    }
}

#[test]
fn blocks_are_balanced_and_few_are_the_beginning_of_many() {
    for source in all() {
        let variants = source.kind.variants();
        let many = source.train(9, 8 * variants);
        for block in many.chunks(variants) {
            assert_eq!(block.iter().map(|task| &task.tags[0]).collect::<HashSet<_>>().len(), variants);
        }
        assert_eq!(source.train(9, 13.min(many.len())), many[..13.min(many.len())]);
        assert_eq!(source.train(9, 0), []);
    }
}

#[test]
fn generations_and_seeds_are_fresh() {
    for source in all() {
        assert_eq!(source.train(0, 8), source.train(0, 8));
        let prompts = |tasks: Vec<Task>| tasks.into_iter().map(|task| task.prompt).collect::<Vec<_>>();
        assert_ne!(prompts(source.train(0, 8)), prompts(source.train(1, 8)));
        assert_ne!(prompts(source.train(0, 8)), prompts(source.train(u32::MAX, 8)));
        let other: Generated = source.name().replace(":7", ":8").parse().unwrap();
        assert_ne!(prompts(source.train(0, 8)), prompts(other.train(0, 8)));
    }
}

#[test]
fn the_right_function_is_listed_anywhere_and_shown_half_of_the_time() {
    let (mut places, mut shown) = ([0; 4], 0);
    let tasks: Vec<Task> =
        (0..40).flat_map(|generation| Generated::calls(1).train(generation, 100)).collect();
    for task in &tasks {
        let list = task.prompt.lines().next().unwrap().strip_prefix("Functions: ").unwrap();
        let names: Vec<&str> = list.split(") ").map(|one| one.split('(').next().unwrap()).collect();
        assert_eq!(names.iter().collect::<HashSet<_>>().len(), 4);
        places[names.iter().position(|name| *name == task.tags[0]).unwrap()] += 1;
        let called = |(_, answer): &(&str, &str)| answer.split('(').next().unwrap() == task.tags[0];
        shown += usize::from(requests(task).iter().any(called));
    }
    // Of 4000 draws with probability 1/4 and 1/2: within 4 standard deviations, 110 and 127.
    assert!(places.iter().all(|count: &usize| count.abs_diff(1000) <= 110), "{places:?}");
    assert!(shown.abs_diff(2000) <= 127, "{shown}");
}

#[test]
fn attacks_earn_nothing() {
    for source in all() {
        let mut by_tag: BTreeMap<String, Task> = BTreeMap::new();
        for task in tasks(&source, 40) {
            by_tag.insert(format!("{} {}", task.split, task.tags[0]), task);
        }
        assert_eq!(by_tag.len(), 3 * source.kind.variants());
        for task in by_tag.values() {
            let found = stress(task).unwrap();
            assert!(found.tried > 30);
            assert_eq!(found.findings, [], "{}", task.prompt);
        }
    }
}

#[test]
fn names() {
    for name in ["countdown:0", "countdown:7/3", "countdown:7/4", "calls:18446744073709551615", "extract:1"] {
        assert!(Generated::is_name(name));
        assert_eq!(name.parse::<Generated>().unwrap().describe(), format!("{name} v1"));
    }
    assert_eq!("countdown:7/2".parse(), Generated::countdown(7, 2));
    assert_eq!("countdown:7".parse(), Generated::countdown(7, 2));
    assert!(Generated::countdown(7, 1).is_err() && Generated::countdown(7, 5).is_err());
    for bad in [
        "",
        "countdown",
        "countdown:",
        "countdown:/3",
        "countdown:7/1",
        "countdown:7/5",
        "countdown:7/",
        "countdown:7/03",
        "countdown:7/3/3",
        "countdown:+7",
        "countdown: 7",
        "Countdown:7",
        "calls:7/2",
        "calls:-1",
        "extract:1e3",
        "extract:18446744073709551616",
        "extract:\u{667}",
        "habits:7",
    ] {
        assert!(bad.parse::<Generated>().is_err(), "{bad}");
    }
    assert!(!Generated::is_name("calls.jsonl") && !Generated::is_name("folder/calls:1"));
}
