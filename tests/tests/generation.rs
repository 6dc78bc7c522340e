//! Many requests at once give what each gives alone, in any order, batch, cache and number of threads.

use fura::core::estimator::{EsConfig, Estimator};
use fura::core::layout::Scope;
use fura::simd::Isa;
use fura_model::{
    Adapted, Base, Batch, Completion, Constraint, Engine, Event, Finish, Generator, KvCache, Members, Model,
    Plan, Population, Precision, Request, Rollouts, Sampling, Threads, Wanted, Workspace, argmax,
};
use fura_tests::mixed::{InAnswers, Mixed, coordinates, encode};
use fura_tests::tiny;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

/// Requests of every kind: greedy and sampled, of three members, constrained, with stop strings, short and long.
fn requests(model: &Model) -> Vec<Request> {
    many_requests(model, 18)
}

fn many_requests(model: &Model, n: u64) -> Vec<Request> {
    let answers = Constraint::answers(model.tokenizer(), &["north", "nook", "é", "no"]).unwrap();
    let digits = Constraint::grammar(model.tokenizer(), "root ::= [0-9]{2,5} (\".\" [^a-z]+)?").unwrap();
    (0..n)
        .map(|i| {
            let tail = ["x", "and more of it", "", "the quick brown fox"][i as usize % 4];
            let mut r = Request::new(
                encode(model, &format!("what all prompts begin with {tail}")),
                1 + i as usize % 9,
            );
            r.member = (i % 3) as u32;
            if i % 2 == 1 {
                r.sampling = Sampling { temperature: 1.3, top_p: 0.95, seed: i, ..Sampling::default() };
            }
            match i % 5 {
                0 => r.constraint = Some(answers.clone()),
                1 => r.constraint = Some(digits.clone()),
                2 => r.stop = vec!["e".to_owned(), "q!".to_owned()],
                _ => {}
            }
            r
        })
        .collect()
}

fn generate(
    engine: Engine<'_>,
    members: &dyn Members,
    requests: Vec<Request>,
    plan: Plan,
    rows: usize,
    precision: Precision,
) -> Vec<Completion> {
    let mut generator = Generator::new(engine.model(), plan, rows, precision);
    engine.generate(members, requests, &mut generator).unwrap()
}

#[test]
fn a_batch_gives_what_each_request_gives_alone() {
    let (model, _folder) = tiny::open(11, 32);
    let members = [
        None,
        Some(Adapted::new(&model, Isa::scalar(), &coordinates(&model, 1), model.layout())),
        Some(Adapted::new(&model, Isa::scalar(), &coordinates(&model, 2), model.layout())),
    ];
    let mixed = Mixed(&members);
    a_batch_is_as_each_alone(&model, &mixed);
    a_batch_is_as_each_alone(&model, &InAnswers(&mixed));
}

fn a_batch_is_as_each_alone(model: &Model, mixed: &dyn Members) {
    for precision in [Precision::Single, Precision::Half] {
        let single = Plan { rows: 64, sequences: 1, positions: 128 };
        let scalar = Engine::new(model, Isa::scalar(), Threads::Serial);
        let alone: Vec<Completion> = requests(model)
            .into_iter()
            .map(|r| generate(scalar, mixed, vec![r], single, 128, precision).remove(0))
            .collect();
        assert!(
            alone.iter().any(|c| c.finish == Finish::Length)
                && alone.iter().any(|c| c.finish == Finish::Stop)
        );
        assert_ne!(alone[3].tokens, alone[4].tokens);
        for isa in Isa::available() {
            for (threads, rows, sequences, cache) in
                [(1, 1, 1, 128), (2, 7, 3, 200), (3, 32, 18, 2000), (1, 256, 5, 90), (2, 64, 13, 400)]
            {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
                let engine = Engine::new(model, isa, Threads::Pool);
                let plan = Plan { rows, sequences, positions: 128 };
                let run = |r| pool.install(|| generate(engine, mixed, r, plan, cache, precision));
                assert_eq!(run(requests(model)), alone, "{isa:?} {threads} {plan:?} {cache}");
                let mut backwards = requests(model);
                backwards.reverse();
                let mut got = run(backwards);
                got.reverse();
                assert_eq!(got, alone, "{isa:?} {threads} {plan:?} {cache}, backwards");
            }
        }
    }
}

/// Sixty-four requests of every kind side by side.
#[test]
fn each_of_64_requests_is_answered_as_it_is_alone() {
    let (model, _folder) = tiny::open(16, 32);
    let members = [
        None,
        Some(Adapted::new(&model, Isa::scalar(), &coordinates(&model, 1), model.layout())),
        Some(Adapted::new(&model, Isa::scalar(), &coordinates(&model, 2), model.layout())),
    ];
    let mixed = Mixed(&members);
    let requests = many_requests(&model, 64);
    let scalar = Engine::new(&model, Isa::scalar(), Threads::Serial);
    let single = Plan { rows: 64, sequences: 1, positions: 64 };
    let alone: Vec<Completion> = requests
        .iter()
        .map(|r| generate(scalar, &mixed, vec![r.clone()], single, 64, Precision::Single).remove(0))
        .collect();
    for (isa, threads) in Isa::available().zip([2, 3, 1, 2, 3]) {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let engine = Engine::new(&model, isa, Threads::Pool);
        let plan = Plan { rows: 256, sequences: 64, positions: 64 };
        let got =
            pool.install(|| generate(engine, &mixed, requests.clone(), plan, 64 * 64, Precision::Single));
        assert_eq!(got, alone, "{isa:?}, {threads} threads");
    }
}

/// What a generator did before leaves no trace: not the same request, not one of which it is a beginning, not another
/// member's.
#[test]
fn a_warm_generator_answers_as_a_cold_one() {
    let (model, _folder) = tiny::open(15, 32);
    let members = [
        None,
        Some(Adapted::new(&model, Isa::scalar(), &coordinates(&model, 1), model.layout())),
        Some(Adapted::new(&model, Isa::scalar(), &coordinates(&model, 2), model.layout())),
    ];
    let mixed = Mixed(&members);
    let short = encode(&model, "what all prompts begin with");
    let long = encode(&model, "what all prompts begin with, and then something");
    let sampling = Sampling { temperature: 20.0, seed: 5, ..Sampling::default() };
    let ask = |prompt: &[u32], member| Request { member, sampling, ..Request::new(prompt.to_vec(), 24) };
    let plan = Plan { rows: 32, sequences: 3, positions: 96 };
    for isa in Isa::available() {
        let engine = Engine::new(&model, isa, Threads::Serial);
        let cold = |r: Request| generate(engine, &mixed, vec![r], plan, 200, Precision::Single);
        let expected = [0, 1].map(|member| cold(ask(&short, member)));
        assert_ne!(expected[0], expected[1]);
        let mut generator = Generator::new(&model, plan, 200, Precision::Single);
        let mut warm = |r: Request| engine.generate(&mixed, vec![r], &mut generator).unwrap();
        assert_eq!(warm(ask(&long, 0)), cold(ask(&long, 0)), "{isa:?}");
        for round in 0..3 {
            for member in [0, 1] {
                assert_eq!(
                    warm(ask(&short, member)),
                    expected[member as usize],
                    "{isa:?}, {round}, {member}"
                );
            }
        }
    }
}

/// The plainest way to decode: one token after the other, each pass with what there is of the sequence.
fn greedily(engine: &Engine<'_>, prompt: &[u32], max_tokens: usize) -> (Vec<u32>, Finish) {
    let model = engine.model();
    let context = model.config().context;
    let plan = Plan { rows: context, sequences: 1, positions: context };
    let (mut ws, mut cache) = (Workspace::new(model, plan), KvCache::new(model.config(), context));
    let (mut all, mut logits) = (prompt.to_vec(), vec![0.0; model.config().vocab]);
    while all.len() - prompt.len() < max_tokens {
        if all.len() > context {
            return (all[prompt.len()..].to_vec(), Finish::ContextFull);
        }
        let mut batch = Batch::default();
        batch.push(0, &all, 0, 0);
        engine.forward(&Base, &batch, Wanted::Last, &mut cache, &mut ws).unwrap();
        engine.logits(&mut ws, 0, &mut logits);
        let token = argmax(&logits) as u32;
        if model.tokenizer().is_stop(token) {
            return (all[prompt.len()..].to_vec(), Finish::Stop);
        }
        all.push(token);
    }
    (all[prompt.len()..].to_vec(), Finish::Length)
}

#[test]
fn the_generator_is_greedy_as_the_plain_loop_is() {
    let (model, _folder) = tiny::open(12, 32);
    let engine = Engine::new(&model, Isa::detect(), Threads::Serial);
    let prompt = encode(&model, "a prompt of some length");
    let context = model.config().context;
    let plan = Plan { rows: 8, sequences: 1, positions: context };
    for max_tokens in [0, 1, 40, 1000] {
        let request = Request::new(prompt.clone(), max_tokens);
        let got = generate(engine, &Base, vec![request], plan, context, Precision::Single).remove(0);
        assert_eq!((got.tokens, got.finish), greedily(&engine, &prompt, max_tokens), "{max_tokens}");
    }
}

#[test]
fn prompts_at_the_edge_of_the_context_end_with_a_reason_or_an_error() {
    let (model, _folder) = tiny::open(13, 32);
    let engine = Engine::new(&model, Isa::detect(), Threads::Serial);
    let plan = Plan { rows: 16, sequences: 2, positions: 32 };
    for (n, tokens) in [(31, 2), (32, 1)] {
        let got = generate(engine, &Base, vec![Request::new(vec![97; n], 50)], plan, 64, Precision::Single)
            .remove(0);
        if got.finish != Finish::Stop {
            assert_eq!((got.tokens.len(), got.finish), (tokens, Finish::ContextFull));
        }
    }
    let mut generator = Generator::new(&model, plan, 64, Precision::Single);
    for (bad, what) in [
        (Request::new(vec![97; 33], 1), "prompt tokens"),
        (Request::new(Vec::new(), 1), "empty"),
        (Request::new(vec![9999], 1), "vocabulary"),
        (
            Request { sampling: Sampling { top_p: 2.0, ..Sampling::default() }, ..Request::new(vec![97], 1) },
            "top_p",
        ),
    ] {
        let error = generator.submit(bad).unwrap_err().to_string();
        assert!(error.contains(what), "{error}");
    }
    assert!(generator.is_idle());
}

#[test]
fn pieces_of_text_join_to_the_whole_and_never_hold_part_of_a_character_or_a_stop_string() {
    let (model, _folder) = tiny::open(14, 32);
    let engine = Engine::new(&model, Isa::detect(), Threads::Serial);
    let plan = Plan { rows: 64, sequences: 4, positions: 128 };
    let mut generator = Generator::new(&model, plan, 512, Precision::Single);
    // Characters of two to four bytes, one token a byte in this vocabulary.
    let grammar = Constraint::grammar(model.tokenizer(), "root ::= [é-öﬀ-ﬅ😀-🙏a]{20}").unwrap();
    for seed in 0..4 {
        let sampling = Sampling { temperature: 2.0, seed, ..Sampling::default() };
        let stop =
            if seed < 2 { vec!["aé".to_owned(), "öa".to_owned(), "a".to_owned()] } else { Vec::new() };
        let constraint = Some(grammar.clone());
        let r = Request { sampling, stop, constraint, ..Request::new(encode(&model, "emit"), 100) };
        generator.submit(r).unwrap();
    }
    let mut texts = vec![String::new(); 4];
    let mut done = 0;
    while generator
        .step(&engine, &Base, &mut |event| match event {
            Event::Token { request, text, .. } => texts[request].push_str(text),
            Event::Done { request, text, completion } => {
                texts[request].push_str(text);
                assert_eq!(texts[request], completion.text);
                assert!(!completion.text.contains('\u{fffd}'), "{}", completion.text);
                assert_eq!(completion.finish, Finish::Stop);
                if request < 2 {
                    assert!(!completion.text.contains('a'));
                } else {
                    assert_eq!(completion.text.chars().count(), 20);
                }
                done += 1;
            }
        })
        .unwrap()
    {}
    assert_eq!(done, 4);
}

/// Whatever they share: the layers below, the beginnings of their texts, a pass.
#[test]
fn rollouts_of_a_population_are_what_each_member_writes_alone() {
    let (model, _folder) = tiny::open(12, 32);
    let layers = model.config().layers;
    let cancel = AtomicBool::new(false);
    let everywhere = (0..layers).map(|shared| (shared, Scope::Everywhere));
    for (shared, scope) in everywhere.chain([(layers - 1, Scope::Answer)]) {
        let layout = model.layout_from(shared).with_scope(scope);
        let config = EsConfig { seed: 3, sigma: 0.2, pairs: 18, ..EsConfig::default() };
        let estimator = Estimator::new(config, &layout).unwrap();
        let members = Population::new(&estimator, &model, &layout, shared);
        let count = estimator.ask().len();
        let mut asked = requests(&model);
        asked.truncate(3);
        let drawn = Sampling { temperature: 20.0, seed: 5, ..Sampling::default() };
        asked.push(Request { sampling: drawn, ..Request::new(encode(&model, "z"), 30) });
        asked.push(Request::new(encode(&model, "none"), 0));
        let all: Vec<Request> = asked
            .iter()
            .flat_map(|r| (0..count).map(|m| Request { member: m as u32, ..r.clone() }))
            .collect();
        let engine = Engine::new(&model, Isa::scalar(), Threads::Serial);
        let plan = Plan { rows: 64, sequences: 16, positions: 128 };
        let alone = generate(engine, &members, all, plan, 2048, Precision::Single);
        // Of the long text of 30 tokens.
        let distinct = |tokens: usize| {
            let texts = alone[3 * count..4 * count].iter().map(|c| &c.tokens[..tokens.min(c.tokens.len())]);
            texts.collect::<BTreeSet<_>>().len()
        };
        let parted: Vec<usize> = (1..=30).map(distinct).collect();
        assert!(
            parted.iter().any(|n| 1 < *n && *n < count / 2),
            "members part one after the other: {parted:?}"
        );
        for (isa, threads) in Isa::available().zip([3, 1, 2, 3, 1]) {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let mut rollouts = Rollouts::new(&model, isa, threads);
            // Twice, since buffers are used again, with another prompt in between.
            for asked in [&asked[..], &asked[..1], &asked[..]] {
                let got = pool.install(|| rollouts.complete(&members, count, shared, asked, &cancel));
                let expected = &alone[..asked.len() * count];
                assert_eq!(
                    got.unwrap().unwrap(),
                    expected,
                    "{isa:?}, {threads} threads, {shared} shared, {scope:?}"
                );
            }
        }
    }
    let mut rollouts = Rollouts::new(&model, Isa::detect(), 1);
    let mut complete = |requests: &[Request]| rollouts.complete(&Base, 1, 0, requests, &cancel);
    assert_eq!(complete(&[]).unwrap(), Some(Vec::new()));
    assert!(complete(&[Request::new(Vec::new(), 1)]).is_err());
    assert!(complete(&[Request::new(vec![97; model.config().context + 1], 1)]).is_err());
    // As many tokens as there are, until the context is full.
    let full = complete(&[Request::new(vec![97; model.config().context - 2], usize::MAX)]).unwrap().unwrap();
    assert!(
        full[0].finish == Finish::Stop || (full[0].finish, full[0].tokens.len()) == (Finish::ContextFull, 3)
    );
    cancel.store(true, Ordering::Relaxed);
    assert_eq!(rollouts.complete(&Base, 1, 0, &[Request::new(vec![97], 5)], &cancel).unwrap(), None);
}
