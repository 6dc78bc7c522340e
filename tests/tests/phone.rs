//! The phone played by a model: with scored choice, and with grammars.

use fura::episodes::{Decoding, EpisodeSuccess, play};
use fura::model::{
    Base, Constraint, ConstraintState, Engine, Generator, Model, Plan, Precision, Request, Threads,
};
use fura::question::Question;
use fura::scorer::Scorer;
use fura::simd::Isa;
use fura_model::gguf::TensorKind;
use fura_model::tokenizer::Specials;
use fura_tasks::phone::{
    Action, Decisions, Episode, Level, PhoneSplit, PhoneTask, User, play_at_random, solve,
};
use fura_tests::mixed::encode;
use fura_tests::{rewrite, tiny};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::atomic::AtomicBool;

/// A tiny model with a long context whose embeddings, and so all logits, are 0: the same policy for every prompt. At
/// every byte at which legal answers part, each way is as likely as any.
fn indifferent() -> (Model, tempfile::TempDir) {
    let bytes = tiny::bytes(3);
    let mut writer =
        rewrite::rewrite(&bytes, |key| key != "llama.context_length", |tensor| tensor != "token_embd.weight");
    writer.kv("llama.context_length", 2048u32);
    let zeros = vec![0u8; tiny::D_MODEL / 32 * 34 * tiny::VOCAB];
    writer.tensor("token_embd.weight", &[tiny::D_MODEL, tiny::VOCAB], TensorKind::Q8_0, zeros);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("indifferent.gguf");
    std::fs::write(&file, writer.finish().unwrap()).unwrap();
    (Model::open(&file, folder.path(), 32, &mut |_, _| ControlFlow::Continue(())).unwrap(), folder)
}

/// The first of the most likely answers when every way at every parting is as likely as any: the log-probability is
/// minus the sum of the logarithms of the numbers of ways.
fn most_likely(answers: &[String]) -> usize {
    let log_probability = |answer: &String| -> f64 {
        let ways = (0..answer.len()).map(|at| {
            let beginning = &answer.as_bytes()[..at];
            let mut next: Vec<Option<&u8>> = answers
                .iter()
                .map(|other| other.as_bytes())
                .filter(|other| other.starts_with(beginning))
                .map(|other| other.get(at))
                .collect();
            next.sort_unstable();
            next.dedup();
            next.len()
        });
        ways.filter(|ways| *ways > 1).map(|ways| -(ways as f64).ln()).sum()
    };
    let all: Vec<f64> = answers.iter().map(log_probability).collect();
    let mut best = 0;
    for (i, p) in all.iter().enumerate() {
        // Equal products in another order may differ in the last bits.
        if *p > all[best] + 1e-9 {
            best = i;
        }
    }
    best
}

fn tasks() -> Vec<PhoneTask> {
    let mut tasks = "phone:3/2".parse::<Decisions>().unwrap().whole(PhoneSplit::Values, 24);
    for level in [Level::ALL[2], Level::ALL[3]] {
        let names = User::templates(PhoneSplit::Train, level);
        tasks.extend(
            names.iter().step_by(5).map(|name| User::new(1).task(name, PhoneSplit::Train, 0).unwrap()),
        );
    }
    tasks
}

#[test]
fn episodes_end_as_those_played_by_hand_with_the_same_policy() {
    let (model, _folder) = indifferent();
    let tasks = tasks();
    let (mut right, mut steps, mut optimal) = (0, 0, 0);
    for task in &tasks {
        let way = solve(task, 200_000).unwrap();
        let mut episode = Episode::new(task.clone(), Episode::budget(task, way.len()));
        while episode.outcome().is_none() {
            let action = episode.actions()[most_likely(&episode.choices())].clone();
            episode.act(&action);
        }
        right += usize::from(episode.succeeded());
        steps += episode.steps();
        optimal += way.len();
    }
    let n = tasks.len() as f64;
    for threads in [1, 2] {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let mut scorer = Scorer::new(&model, Isa::detect(), threads, 512);
        let played = pool
            .install(|| play(&mut scorer, &Base, &tasks, Decoding::Choice, &AtomicBool::new(false)))
            .unwrap()
            .unwrap();
        let played = EpisodeSuccess::of(&played);
        assert_eq!((played.n, played.success), (tasks.len(), right as f64 / n));
        assert_eq!((played.steps, played.optimal), (steps as f64 / n, optimal as f64 / n));
        assert!(played.low <= played.success && played.success <= played.high);
    }
    // Some are right and some are not, so both could have been got wrong.
    assert!(0 < right && right < tasks.len(), "{right} of {}", tasks.len());
}

#[test]
fn written_actions_are_those_of_each_episode_alone() {
    let (model, _folder) = tiny::open(5, 32);
    let model_tasks = &tasks()[..6];
    let engine = Engine::new(&model, Isa::scalar(), Threads::Serial);
    for decoding in [Decoding::Grammar, Decoding::Free] {
        let mut scorer = Scorer::new(&model, Isa::detect(), 1, 512);
        let played = play(&mut scorer, &Base, model_tasks, decoding, &AtomicBool::new(false));
        let mut actions = 0;
        for (played, task) in played.unwrap().unwrap().iter().zip(model_tasks) {
            let mut alone = Episode::new(task.clone(), Episode::budget(task, played.shortest));
            while alone.outcome().is_none() {
                let mut request = Request::new(encode(&model, &alone.prompt()), 24);
                request.stop = vec!["\n".to_owned()];
                if decoding == Decoding::Grammar {
                    request.constraint =
                        Some(Constraint::grammar(model.tokenizer(), &alone.grammar()).unwrap());
                }
                let plan = Plan { rows: 64, sequences: 1, positions: 2048 };
                let mut generator = Generator::new(&model, plan, 2048, Precision::Single);
                let text = engine.generate(&Base, vec![request], &mut generator).unwrap().remove(0).text;
                actions += usize::from(text.trim().parse::<Action>().is_ok());
                alone.act_text(&text);
            }
            assert_eq!(played.episode.prompt(), alone.prompt(), "{decoding}");
            assert_eq!(played.episode.outcome(), alone.outcome(), "{decoding}");
        }
        // A tiny model never hits on an action by itself.
        assert_eq!(actions > 0, decoding == Decoding::Grammar, "{actions} actions, {decoding}");
    }
}

#[test]
fn no_tasks_are_no_success_and_a_cancelled_game_is_none() {
    let (model, _folder) = indifferent();
    let mut scorer = Scorer::new(&model, Isa::detect(), 1, 512);
    let none = play(&mut scorer, &Base, &[], Decoding::Choice, &AtomicBool::new(false)).unwrap().unwrap();
    let none = EpisodeSuccess::of(&none);
    assert_eq!((none.n, none.success, none.low, none.high), (0, 0.0, 0.0, 1.0));
    for decoding in [Decoding::Choice, Decoding::Grammar, Decoding::Free] {
        let played = play(&mut scorer, &Base, &tasks()[..2], decoding, &AtomicBool::new(true));
        assert!(played.unwrap().is_none());
    }
}

#[test]
fn a_question_of_a_prompt_is_that_of_the_task() {
    let (model, _folder) = tiny::open(5, 32);
    let task = &"phone:3".parse::<Decisions>().unwrap().train(0, 1)[0];
    let rewards = task.rewards().unwrap();
    let whole = Question::new(&model, task).unwrap();
    let parts = Question::of(&model, &task.prompt, &task.choices, rewards.clone()).unwrap();
    assert_eq!((&whole.prompt, &whole.tree, &whole.rewards), (&parts.prompt, &parts.tree, &parts.rewards));
    // The tiny vocabulary has a token for each byte.
    let bytes: Vec<u32> = model.tokenizer().encode(&task.prompt, Specials::Ignore).unwrap();
    assert_eq!((&parts.prompt, parts.prompt.len()), (&bytes, task.prompt.len()));
    assert_eq!(parts.rewards, rewards);
    assert!(parts.rows() > parts.prompt.len());
    for answers in [["a", "ab"], ["a", "a"], ["", "a"]] {
        let answers = answers.map(str::to_owned);
        assert!(Question::of(&model, "Do:", &answers, vec![1.0, 0.0]).is_err(), "{answers:?}");
    }
    let only = Question::of(&model, "Do:", &[" a".to_owned()], vec![1.0]).unwrap();
    assert_eq!(only.rows(), 0);
}

/// Screens on random ways through every template, twelve actions at most.
fn screens(mut see: impl FnMut(&Episode)) {
    for level in Level::ALL {
        for (i, name) in User::templates(PhoneSplit::Train, level).iter().enumerate() {
            let task = User::new(2).task(name, PhoneSplit::Train, 1).unwrap();
            for steps in [0, 1, 2, 4, 7] {
                // A shorter random game is the beginning of a longer one.
                let mut game = Episode::new(task.clone(), steps.max(1));
                if steps > 0 {
                    play_at_random(&mut game, i as u64);
                }
                see(&game);
            }
        }
    }
}

fn takes(state: &mut ConstraintState, text: &str) -> bool {
    state.restart();
    // The tiny vocabulary has a token for each byte, with its number.
    text.bytes().all(|byte| state.advance(u32::from(byte))) && state.is_complete()
}

#[test]
fn a_screens_grammar_has_its_legal_actions_and_nothing_that_is_no_action() {
    let (model, _folder) = tiny::open(5, 32);
    let mut grammars: BTreeMap<String, ConstraintState> = BTreeMap::new();
    let (mut taken, mut written, mut longest, mut random) = (0, 0, 0, 1);
    screens(|episode| {
        let grammar = episode.grammar();
        let state = grammars
            .entry(grammar)
            .or_insert_with_key(|g| Constraint::grammar(model.tokenizer(), g).unwrap().start());
        let actions = episode.actions();
        for action in &actions {
            assert!(takes(state, &format!(" {action}")), "{action}\n{}", episode.screen());
            taken += 1;
        }
        assert!(takes(state, " open Clock"));
        for text in
            ["", " ", "tap 0", " tap 9", " tap 00", " type 9 \"a\"", " open Door", " tap 0\n", " done done"]
        {
            assert!(!takes(state, text), "{text}");
        }
        // Any text, long ones, and long ones of ASCII.
        for liked in
            [(|_| true) as fn(u32) -> bool, |token| token != QUOTE, |token| token != QUOTE && token < 128]
        {
            let text = any_text(state, &mut random, liked);
            let action: Action = text.strip_prefix(' ').unwrap().parse().unwrap();
            let same_kind = |other: &Action| match (&action, other) {
                (Action::Type(a, _), Action::Type(b, _)) => a == b,
                (Action::Answer(_), Action::Answer(_)) => true,
                (a, b) => a == b,
            };
            assert!(
                matches!(action, Action::Open(_) | Action::Answer(_) | Action::Type(..))
                    || actions.iter().any(same_kind),
                "{text}\n{}",
                episode.screen()
            );
            // A model's text does what the action does.
            let (mut by_text, mut by_action) = (episode.clone(), episode.clone());
            assert_eq!(by_text.act_text(&text), by_action.act(&action));
            assert_eq!(by_text.prompt(), by_action.prompt());
            written += 1;
            longest = longest.max(text.len());
        }
    });
    assert!(taken > 1000 && written > 500 && longest > 200, "{taken} {written} {longest}");
}

/// The token that ends a text.
const QUOTE: u32 = b'"' as u32;

/// A text of the grammar, chosen byte by byte at random among those that are liked, if there are such.
fn any_text(state: &mut ConstraintState, random: &mut u64, liked: impl Fn(u32) -> bool) -> String {
    state.restart();
    let mut bytes = Vec::new();
    while state.can_continue() {
        let mut allowed = state.allowed().to_vec();
        if allowed.iter().any(|token| liked(*token)) {
            allowed.retain(|token| liked(*token));
        }
        *random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let token = allowed[(*random >> 33) as usize % allowed.len()];
        assert!(state.advance(token));
        bytes.push(u8::try_from(token).unwrap());
        assert!(bytes.len() <= 420);
    }
    assert!(state.is_complete());
    String::from_utf8(bytes).unwrap()
}
