//! Contract C1 through the whole stack: the same bits alone and in a batch, in any chunks, waves and threads, on every
//! instruction set; with zero coordinates, the base.

use fura::core::estimator::{EsConfig, Estimator, Member, Sign};
use fura::core::layout::{Form, Layout, Scope};
use fura::question::Question;
use fura::reward::Reward;
use fura::scorer::{BEGINNING_BYTES, Scorer};
use fura::simd::Isa;
use fura::tasks::{TaskSet, TaskSource};
use fura::trainer::{Answers, RunPlan, Trainer};
use fura::turns::LayerTurn;
use fura_model::{
    Adapted, Base, Batch, Engine, KvCache, Members, Model, Plan, Population, Shared, Threads, Wanted,
    Workspace,
};
use fura_tests::mixed::{Alone, InAnswers, Mixed, coordinates, encode};
use fura_tests::tiny;
use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;

const PROMPTS: [&str; 4] = ["a", "the quick brown fox", "jumps over", "thirty-three bytes of plain text."];

fn workspace(model: &Model) -> (Workspace, KvCache) {
    let plan = Plan { rows: 256, sequences: 64, positions: 128 };
    (Workspace::new(model, plan), KvCache::new(model.config(), 1024))
}

/// Bits of the logits of the last position of each sequence of a batch (`==` on f32 cannot tell -0 from 0).
fn logits(
    engine: Engine<'_>,
    members: &dyn Members,
    batch: &Batch,
    state: &mut (Workspace, KvCache),
) -> Vec<Vec<u32>> {
    engine.forward(members, batch, Wanted::Last, &mut state.1, &mut state.0).unwrap();
    (0..batch.sequences())
        .map(|row| {
            let mut out = vec![0.0; engine.model().config().vocab];
            engine.logits(&mut state.0, row, &mut out);
            out.into_iter().map(f32::to_bits).collect()
        })
        .collect()
}

fn alone(engine: Engine<'_>, members: &dyn Members, member: u32, prompt: &[u32]) -> Vec<u32> {
    let mut batch = Batch::default();
    batch.push(member, prompt, 0, 0);
    logits(engine, members, &batch, &mut workspace(engine.model())).remove(0)
}

fn engines(model: &Model) -> Vec<Engine<'_>> {
    Isa::available().map(|isa| Engine::new(model, isa, Threads::Serial)).collect()
}

#[test]
fn a_sequence_does_not_depend_on_its_batch_or_on_the_instruction_set() {
    for block in [32, 24] {
        let (model, _folder) = tiny::open(1, block);
        let isa = Isa::scalar();
        let members = [
            None,
            Some(Adapted::new(&model, isa, &coordinates(&model, 1), model.layout())),
            Some(Adapted::new(&model, isa, &coordinates(&model, 2), model.layout())),
        ];
        let mixed = Mixed(&members);
        let mut reference: Option<Vec<Vec<u32>>> = None;
        for engine in engines(&model) {
            let mut batch = Batch::default();
            let mut expected = Vec::new();
            let mut base = 0;
            for k in 0..60u32 {
                let prompt = encode(&model, PROMPTS[k as usize % 4]);
                let member = k / 4 % 3;
                batch.push(member, &prompt, 0, base);
                base += prompt.len();
                expected.push((member, prompt));
                if batch.rows() > 220 {
                    break;
                }
            }
            let together = logits(engine, &mixed, &batch, &mut workspace(&model));
            for (got, (member, prompt)) in together.iter().zip(&expected) {
                assert_eq!(*got, alone(engine, &mixed, *member, prompt), "{:?}", engine.isa());
            }
            assert_ne!(together[0], together[4], "members 0 and 1 answer the same prompt differently");
            match &reference {
                Some(r) => assert_eq!(*r, together, "{:?}", engine.isa()),
                None => reference = Some(together),
            }
        }
    }
}

/// Sixty-four sequences of all lengths and three members in one pass, and then a token more of each in another: the bits of
/// each alone, whatever the instruction set and the number of threads.
#[test]
fn each_of_64_sequences_is_as_it_is_alone() {
    const SEQUENCES: usize = 64;
    let (model, _folder) = tiny::open(8, 32);
    let members = [
        None,
        Some(Adapted::new(&model, Isa::scalar(), &coordinates(&model, 1), model.layout())),
        Some(Adapted::new(&model, Isa::scalar(), &coordinates(&model, 2), model.layout())),
    ];
    let mixed = Mixed(&members);
    let plan = Plan { rows: 1024, sequences: SEQUENCES, positions: 64 };
    let text: Vec<u32> = encode(&model, &PROMPTS.concat());
    let sequences: Vec<(u32, &[u32])> =
        (0..SEQUENCES).map(|k| (k as u32 % 3, &text[k % 7..][..1 + 5 * k % 23])).collect();
    // Both passes of some of the sequences, which lie side by side in the cache.
    let run = |engine: Engine<'_>, sequences: &[(u32, &[u32])]| -> [Vec<Vec<u32>>; 2] {
        let mut state = (Workspace::new(&model, plan), KvCache::new(model.config(), 24 * sequences.len()));
        let (mut first, mut second) = (Batch::default(), Batch::default());
        for (k, (member, tokens)) in sequences.iter().enumerate() {
            first.push(*member, tokens, 0, 24 * k);
            second.push(*member, &[tokens[0]], tokens.len(), 24 * k);
        }
        [first, second].map(|batch| logits(engine, &mixed, &batch, &mut state))
    };
    let scalar = Engine::new(&model, Isa::scalar(), Threads::Serial);
    let mut alone = [Vec::new(), Vec::new()];
    for sequence in &sequences {
        let [first, second] = run(scalar, std::slice::from_ref(sequence));
        alone[0].extend(first);
        alone[1].extend(second);
    }
    assert!(
        alone.iter().all(|pass| pass.iter().collect::<BTreeSet<_>>().len() == SEQUENCES),
        "no two are alike"
    );
    for isa in Isa::available() {
        assert!(run(Engine::new(&model, isa, Threads::Serial), &sequences) == alone, "{isa:?}");
        for threads in [1, 2, 3, 7] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let together = pool.install(|| run(Engine::new(&model, isa, Threads::Pool), &sequences));
            assert!(together == alone, "{isa:?}, {threads} threads");
        }
    }
}

#[test]
fn chunks_and_a_warm_cache_change_nothing() {
    let (model, _folder) = tiny::open(2, 32);
    let members = [Some(Adapted::new(&model, Isa::scalar(), &coordinates(&model, 3), model.layout()))];
    let mixed = Mixed(&members);
    let prompt = encode(&model, PROMPTS[3]);
    for engine in engines(&model) {
        let whole = alone(engine, &mixed, 0, &prompt);
        for chunk in [1, 7, 32] {
            let mut state = workspace(&model);
            let mut past = 0;
            let mut last = Vec::new();
            for part in prompt.chunks(chunk) {
                let mut batch = Batch::default();
                batch.push(0, part, past, 500);
                past += part.len();
                last = logits(engine, &mixed, &batch, &mut state).remove(0);
            }
            assert_eq!(last, whole, "{:?} chunk {chunk}", engine.isa());
        }
    }
}

#[test]
fn zero_coordinates_are_the_base_and_switching_leaves_no_trace() {
    let (model, _folder) = tiny::open(3, 32);
    let prompt = encode(&model, PROMPTS[1]);
    let zero = vec![0.0; model.layout().coordinates()];
    for engine in engines(&model) {
        let base = alone(engine, &Base, 0, &prompt);
        let off = Adapted::new(&model, engine.isa(), &zero, model.layout());
        assert_eq!(alone(engine, &off, 0, &prompt), base);
        let on = Adapted::new(&model, engine.isa(), &coordinates(&model, 4), model.layout());
        let mut state = workspace(&model);
        let mut batch = Batch::default();
        batch.push(0, &prompt, 0, 0);
        let first = logits(engine, &on, &batch, &mut state);
        let second = logits(engine, &Base, &batch, &mut state);
        let third = logits(engine, &on, &batch, &mut state);
        assert_eq!(first, third);
        assert_eq!(second[0], base);
        assert_ne!(first[0], base);
    }
}

#[test]
fn selected_logits_are_those_of_the_whole_head() {
    let (model, _folder) = tiny::open(4, 32);
    for engine in engines(&model) {
        let mut state = workspace(&model);
        let mut batch = Batch::default();
        batch.push(0, &encode(&model, PROMPTS[1]), 0, 0);
        let all = logits(engine, &Base, &batch, &mut state).remove(0);
        let tokens: Vec<u32> = (0..tiny::VOCAB as u32).rev().step_by(3).collect();
        let mut some = vec![0.0; tokens.len()];
        engine.logits_of(&mut state.0, 0, &tokens, &mut some);
        for (t, l) in tokens.iter().zip(some) {
            assert_eq!(l.to_bits(), all[*t as usize]);
        }
    }
}

/// Two specialists in factored form, side by side with one in the other form and the base: each as if it were alone, and a member of
/// a population is the specialist with its coordinates.
#[test]
fn forms_side_by_side_change_nothing() {
    let (model, _folder) = tiny::open(5, 32);
    let factored = model.layout().clone().with_form(Form::Factored);
    let config = EsConfig { seed: 9, pairs: 1, sigma: 0.1, ..EsConfig::default() };
    let estimator = Estimator::new(config, &factored).unwrap();
    let own = |sign| {
        let mut own = vec![0.0; factored.coordinates()];
        estimator.member_coordinates(Member { pair: 0, sign }, 0..own.len(), &mut own);
        own
    };
    let (plus, minus) = (own(Sign::Plus), own(Sign::Minus));
    let of = |layout: &Layout, own: &[f32]| Some(Adapted::new(&model, Isa::scalar(), own, layout));
    let members = [of(&factored, &plus), of(&factored, &minus), of(model.layout(), &plus), None];
    let prompts = PROMPTS.map(|prompt| encode(&model, prompt));
    let scalar = Engine::new(&model, Isa::scalar(), Threads::Serial);
    let expected = |member: u32, prompt: &[u32]| alone(scalar, &Mixed(&members), member, prompt);
    let sequences: Vec<(u32, &[u32])> =
        prompts.iter().flat_map(|prompt| (0..4).map(move |member| (member, &prompt[..]))).collect();
    for engine in engines(&model) {
        for (who, of) in [
            (&Mixed(&members) as &dyn Members, 4),
            (&Population::new(&estimator, &model, &factored, 0) as &dyn Members, 2),
        ] {
            let mut batch = Batch::default();
            let sequences: Vec<_> = sequences.iter().filter(|(member, _)| *member < of).collect();
            for (i, (member, prompt)) in sequences.iter().enumerate() {
                batch.push(*member, prompt, 0, 40 * i);
            }
            let found = logits(engine, who, &batch, &mut workspace(&model));
            for ((member, prompt), found) in sequences.iter().zip(found) {
                assert!(found == expected(*member, prompt), "{:?} of {of}, member {member}", engine.isa());
            }
        }
    }
    assert!(expected(0, &prompts[1]) != expected(2, &prompts[1]), "the forms round differently");
}

#[test]
fn waves_and_threads_change_nothing() {
    let (model, _folder) = tiny::open(5, 32);
    let set = TaskSet::read("tiny.jsonl", tiny::task_file().as_bytes()).unwrap();
    let source = TaskSource::File { set, seed: 1 };
    let questions = Question::all(&model, &source.train(0, 11)).unwrap();
    let config = EsConfig { seed: 9, pairs: 3, sigma: 0.1, ..EsConfig::default() };
    let cancel = AtomicBool::new(false);
    let none = Shared::Layers(0);
    let mut of_kind = Vec::new();
    for (scope, form) in [
        (Scope::Everywhere, Form::Materialized),
        (Scope::Answer, Form::Materialized),
        (Scope::Everywhere, Form::Factored),
    ] {
        let layout = model.layout_from(1).with_scope(scope).with_form(form);
        let estimator = Estimator::new(config.clone(), &layout).unwrap();
        let members = Population::new(&estimator, &model, &layout, 1);
        let mut scorer = Scorer::new(&model, Isa::scalar(), 1, 100);
        let one = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        let reference: Vec<u64> = (0..6)
            .flat_map(|m| {
                let scores = one
                    .install(|| scorer.score(&Alone(&members, m), 1, none, &questions, &cancel))
                    .unwrap()
                    .unwrap();
                (0..questions.len())
                    .flat_map(|i| scores.answers(0, i).to_vec())
                    .map(f64::to_bits)
                    .collect::<Vec<_>>()
            })
            .collect();
        for isa in Isa::available() {
            for threads in 1..=3 {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
                // With the lower layer computed once for all members, and by each of them.
                let lower = Shared::Layers(1);
                // Prompts' beginnings one question at a time, a few, or all.
                let (one, few, all) = (0, 40_000, BEGINNING_BYTES);
                for (rows, shared, beginnings) in [
                    (1, none, few),
                    (40, lower, one),
                    (100, none, all),
                    (100, lower, few),
                    (4096, lower, all),
                    (4096, none, one),
                ] {
                    let mut scorer = Scorer::new(&model, isa, threads, rows).with_beginning_bytes(beginnings);
                    let scores = pool
                        .install(|| scorer.score(&members, 6, shared, &questions, &cancel))
                        .unwrap()
                        .unwrap();
                    let all: Vec<u64> = (0..6)
                        .flat_map(|m| (0..questions.len()).flat_map(move |i| scores.answers(m, i).to_vec()))
                        .map(f64::to_bits)
                        .collect();
                    assert_eq!(
                        reference, all,
                        "{isa:?} {threads} threads, waves of {rows}, {shared:?} shared, {beginnings} bytes, {scope:?}, {form:?}"
                    );
                }
            }
        }
        of_kind.push(reference);
    }
    assert_ne!(of_kind[0], of_kind[1], "prompts read by members are not those read by the base");
}

/// In a turn of the upper layer the members share the lower one at its present coordinates, not the base's.
#[test]
fn layers_below_a_turn_are_computed_once_with_their_coordinates() {
    for scope in [Scope::Everywhere, Scope::Answer] {
        layers_below_a_turn(scope);
    }
}

fn layers_below_a_turn(scope: Scope) {
    let (model, folder) = tiny::open(5, 32);
    let set = TaskSet::read("tiny.jsonl", tiny::task_file().as_bytes()).unwrap();
    let source = TaskSource::File { set, seed: 1 };
    let layout = model.layout_from(0).with_scope(scope);
    let turns = ["0x2", "1x3", "0ax2", "1ax3", "0-1ax2", "0-1x2"]
        .iter()
        .map(|text| text.parse::<LayerTurn>().unwrap().linears(&model, 0).unwrap())
        .collect();
    let config = EsConfig { seed: 9, sigma: 0.1, alpha: 0.3, turns, ..EsConfig::default() };
    let plan = RunPlan {
        tasks: source.describe(),
        requests: 5,
        reward: Reward::LogExpected,
        answers: Answers::Scored,
        generations: 6,
    };
    let log = folder.path().join("turns.runlog");
    let mut trainer = Trainer::create(&model, layout.clone(), plan, config.clone(), &log).unwrap();
    let mut reference = Estimator::new(config, &layout).unwrap();
    let mut scorer = Scorer::new(&model, Isa::detect(), 1, 100);
    let cancel = AtomicBool::new(false);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    for _ in 0..6 {
        let questions = trainer.questions(&scorer, &source).unwrap();
        pool.install(|| trainer.step(&mut scorer, &questions, &cancel)).unwrap().unwrap();
        let count = reference.ask().len();
        let rewards: Vec<f64> = {
            let members = Population::new(&reference, &model, &layout, 0);
            let scores = pool
                .install(|| scorer.score(&members, count, Shared::Layers(0), &questions, &cancel))
                .unwrap()
                .unwrap();
            let of = |m: usize| {
                let all = questions.iter().enumerate();
                all.map(|(i, q)| Reward::LogExpected.of(scores.answers(m, i), &q.rewards)).sum::<f64>()
            };
            (0..count).map(|m| of(m) / questions.len() as f64).collect()
        };
        reference.tell(&rewards).unwrap();
        assert_eq!(trainer.estimator().coordinates(), reference.coordinates());
    }
    assert!(reference.coordinates().iter().all(|c| *c != 0.0), "every layer had its turn");
}

#[test]
fn probabilities_of_legal_answers_add_up_to_one_even_when_they_share_beginnings() {
    let (model, _folder) = tiny::open(6, 32);
    let line = r#"{"id":"x","prompt":"go","answer":"north;","choices":["north;","nook;","south;","nor;","x;"],"grade":{"type":"choice"}}"#;
    let set = TaskSet::read("tree.jsonl", line.as_bytes()).unwrap();
    let questions = Question::all(&model, &TaskSource::File { set, seed: 0 }.train(0, 1)).unwrap();
    assert_eq!(questions[0].tree.branches().len(), 3, "n/s/x, then o/r after 'no', then t/; after 'nor'");
    let mut scorer = Scorer::new(&model, Isa::detect(), 1, 64);
    let cancel = AtomicBool::new(false);
    let scores = scorer.score_base(&questions, &cancel).unwrap().unwrap();
    let sum: f64 = scores.answers(0, 0).iter().map(|p| p.exp()).sum();
    // Three softmaxes in f32 with f64 logarithms.
    assert!((sum - 1.0).abs() < 1e-5, "{sum}");
}

#[test]
fn a_tree_of_answers_scores_each_as_if_it_were_alone() {
    let (model, _folder) = tiny::open(7, 32);
    let line = r#"{"id":"x","prompt":"which way","answer":"north;","choices":["north;","nook;","south;","nor;","x;","nort!","noon"],"grade":{"type":"choice"}}"#;
    let set = TaskSet::read("tree.jsonl", line.as_bytes()).unwrap();
    let questions = Question::all(&model, &TaskSource::File { set, seed: 0 }.train(0, 1)).unwrap();
    let q = &questions[0];
    // n s x; o; r o; t ;; h !; k n: every byte of the tree but the leaves, once, after the prompt.
    assert_eq!(q.rows(), 9 + "no".len() + "r".len() + "t".len() + "o".len());
    let members = [
        Some(Adapted::new(&model, Isa::scalar(), &coordinates(&model, 5), model.layout())),
        Some(Adapted::new(&model, Isa::scalar(), &coordinates(&model, 6), model.layout())),
    ];
    let mixed = Mixed(&members);
    let cancel = AtomicBool::new(false);
    let beginning = q.prompt.len() - 1;
    for (isa, scope) in Isa::available().flat_map(|isa| [(isa, Scope::Everywhere), (isa, Scope::Answer)]) {
        let engine = Engine::new(&model, isa, Threads::Serial);
        let mut scorer = Scorer::new(&model, isa, 1, 64);
        let none = Shared::Layers(0);
        let scores = match scope {
            Scope::Everywhere => scorer.score(&mixed, 2, none, &questions, &cancel),
            Scope::Answer => scorer.score(&InAnswers(&mixed), 2, none, &questions, &cancel),
        };
        let scores = scores.unwrap().unwrap();
        for member in 0..2 {
            let mut expected = vec![0.0; q.tree.answers().len()];
            for branch in q.tree.branches() {
                let mut state = workspace(&model);
                let mut batch = Batch::default();
                let text = [&q.prompt[..], &branch.path].concat();
                let read = if scope == Scope::Answer { beginning } else { 0 };
                if read > 0 {
                    batch.push(0, &text[..read], 0, 0);
                    engine.forward(&Base, &batch, Wanted::Last, &mut state.1, &mut state.0).unwrap();
                    batch.clear();
                }
                batch.push(member, &text[read..], read, 0);
                engine.forward(&mixed, &batch, Wanted::Last, &mut state.1, &mut state.0).unwrap();
                let mut logits = vec![0.0; branch.tokens.len()];
                engine.logits_of(&mut state.0, 0, &branch.tokens, &mut logits);
                q.tree.accumulate(isa, branch, &logits, &mut expected);
            }
            assert_eq!(scores.answers(member as usize, 0), expected, "{isa:?} {scope:?}");
        }
    }
}
