//! Contract C3: what is planned is what is allocated, and training takes what inference takes at the same batch. One test
//! in a binary of its own, since the counting allocator is process-wide.

use fura::answerer::Answerer;
use fura::core::estimator::EsConfig;
use fura::core::layout::{Form, Scope};
use fura::generation_shape::{AnswerShape, GenerationShape};
use fura::judge::Judge;
use fura::model::{Base, GenerationPlan, Model, Precision, Shared};
use fura::reward::Reward;
use fura::scorer::Scorer;
use fura::simd::Isa;
use fura::tasks::{TaskSet, TaskSource};
use fura::trainer::{Answers, RunPlan, Trainer};
use fura::writer::Writer;
use fura_tests::tiny;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is passed on to the system allocator unchanged; counting touches only atomics. `realloc` is left to
// the default, which goes through these two.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let live = LIVE.fetch_add(layout.size(), Ordering::SeqCst) + layout.size();
        PEAK.fetch_max(live, Ordering::SeqCst);
        // SAFETY: the caller's obligations are those of the system allocator.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Ordering::SeqCst);
        // SAFETY: `ptr` came from `System.alloc` with this layout.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The most that `f` held at once, beyond what there was before.
fn peak<T>(f: impl FnOnce() -> T) -> (usize, T) {
    let before = LIVE.load(Ordering::SeqCst);
    PEAK.store(before, Ordering::SeqCst);
    let result = f();
    (PEAK.load(Ordering::SeqCst) - before, result)
}

#[test]
fn memory_is_as_planned_and_that_of_training_as_that_of_inference() {
    let (model, folder) = tiny::open(1, 32);
    planned(&model);
    #[cfg(target_os = "linux")]
    {
        resident::a_plan_of_many_sequences_is_what_is_mapped(&model);
        resident::large_buffers_hold_what_was_written_and_give_all_of_it_back(&model);
        resident::a_generation_holds_what_was_planned(&model, &folder.path().join("resident.runlog"));
    }
    for threads in 1..=3 {
        for from_layer in 0..2 {
            let log = |kind: &str| folder.path().join(format!("{kind}{threads}{from_layer}.runlog"));
            let scope = Scope::Everywhere;
            let scored = Work { model: &model, threads, from_layer, scope, answers: Answers::Scored };
            let answer = AnswerShape::Scored { answers: 3, tokens: 2, wave_rows: WAVE_ROWS };
            let new = || Scorer::new(&model, Isa::detect(), threads, WAVE_ROWS);
            scored.measure(answer, new, &log("scored"));
            Work { scope: Scope::Answer, ..scored }.measure(answer, new, &log("ends"));
            let written = Work { answers: Answers::Written { temperature: 0.0 }, ..scored };
            let answer = AnswerShape::Written { tokens: 16 };
            let new = || Writer::new(&model, Isa::detect(), threads, Judge::Own, 0.0);
            written.measure(answer, new, &log("written"));
        }
    }
}

fn planned(model: &Model) {
    let config = model.config();
    for (sequences, positions) in [(1, 256), (8, 64), (12, 64)] {
        for precision in [Precision::Single, Precision::Half] {
            let plan = GenerationPlan::new(sequences, positions, precision, 2);
            let (measured, generator) = peak(|| plan.generator(model));
            drop(generator);
            let said = plan.bytes(config, model.layout().block());
            let share = measured as f64 / said as f64;
            println!("{sequences} x {positions}: {said} bytes planned, {measured} allocated");
            assert!(
                (share - 1.0).abs() <= 0.1,
                "{sequences} x {positions}: {said} planned, {measured} allocated"
            );
        }
    }
}

/// What the system counts, where it tells.
#[cfg(target_os = "linux")]
mod resident {
    use super::*;
    use fura::model::KvCache;

    /// Bytes beside all else that the process may hold: the allocator's own, and stacks.
    const SMALL: i64 = 1 << 20;

    fn private() -> i64 {
        status("RssAnon:")
    }

    fn status(field: &str) -> i64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|l| l.strip_prefix(field)).unwrap();
        line.trim().strip_suffix("kB").unwrap().trim().parse::<i64>().unwrap() * 1024
    }

    /// Most of it is in large buffers, which the counting allocator does not see. What it sees may be mapped for it or be in
    /// its hands already.
    pub fn a_plan_of_many_sequences_is_what_is_mapped(model: &Model) {
        for precision in [Precision::Single, Precision::Half] {
            let plan = GenerationPlan::new(300, 100, precision, 2);
            let before = status("VmSize:");
            let (heap, generator) = peak(|| plan.generator(model));
            let mapped = status("VmSize:") - before;
            drop(generator);
            let said = plan.bytes(model.config(), model.layout().block());
            let [least, most, said] = [mapped as f64, (mapped + heap as i64) as f64, said as f64];
            println!("300 x 100: {said} bytes planned, {least} mapped, {most} with the heap's");
            assert!(least <= 1.1 * said && most >= 0.9 * said, "{said} planned, {least} to {most} mapped");
        }
    }

    /// Blocks of these sizes are what allocators keep for later, and clear when they give them again.
    pub fn large_buffers_hold_what_was_written_and_give_all_of_it_back(model: &Model) {
        let c = model.config();
        let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build().unwrap();
        pool.broadcast(|_| ());
        let before = private();
        let more = || private() - before;
        for megabytes in [30, 3, 24, 11, 30, 7, 17] {
            let rows = (megabytes << 20) / KvCache::bytes(c, 64, Precision::Single) as usize * 64;
            let bytes = KvCache::bytes(c, rows, Precision::Single) as i64;
            pool.install(|| {
                let untouched = KvCache::new(c, rows);
                assert!(more() < SMALL, "{bytes} bytes, not written to: {} more", more());
                // A copy is written.
                let written = untouched.clone();
                assert!((more() - bytes).abs() < SMALL, "{bytes} bytes, written: {} more", more());
                drop(untouched);
                assert_eq!(written.rows(), rows);
            });
            assert!(more() < SMALL, "{bytes} bytes, dropped: {} more", more());
        }
    }

    pub fn a_generation_holds_what_was_planned(model: &Model, log: &std::path::Path) {
        const ROWS: usize = 8192;
        let set = TaskSet::read("tiny.jsonl", tiny::task_file().as_bytes()).unwrap();
        let source = TaskSource::File { set, seed: 1 };
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        let (answers, reward) = (Answers::Scored, Reward::Expected);
        let plan = RunPlan { tasks: source.describe(), requests: 16, reward, answers, generations: 2 };
        let config = EsConfig { pairs: 64, ..EsConfig::default() };
        let mut scorer = Scorer::new(model, Isa::detect(), 1, ROWS);
        let mut trainer = Trainer::create(model, model.layout_from(0), plan, config.clone(), log).unwrap();
        let before = private();
        for _ in 0..2 {
            let questions = trainer.questions(&scorer, &source).unwrap();
            let (prompt, answer) = scorer.shape(&questions.iter().collect::<Vec<_>>());
            let shape = GenerationShape {
                members: 128,
                requests: questions.len(),
                prompt,
                answer,
                from_layer: 0,
                scope: Scope::Everywhere,
                form: Form::Materialized,
                shared: 0,
                threads: 1,
            };
            pool.install(|| trainer.step(&mut scorer, &questions, &AtomicBool::new(false)).unwrap());
            let said = shape.training_bytes(model.config(), model.layout().block(), &config);
            let took = private() - before;
            println!("a generation: {said} bytes planned, {took} resident");
            assert!((took as f64 / said as f64 - 1.0).abs() <= 0.1, "{said} planned, {took} resident");
        }
    }
}

const WAVE_ROWS: usize = 256;
const PAIRS: u32 = 8;

/// A generation on the tiny model.
#[derive(Clone, Copy)]
struct Work<'m> {
    model: &'m Model,
    threads: usize,
    from_layer: usize,
    scope: Scope,
    answers: Answers,
}

impl Work<'_> {
    /// What a generation takes, what its members' answers alone take, and what was planned.
    fn measure<A: Answerer + Send>(self, answer: AnswerShape, new: impl Fn() -> A, log: &std::path::Path)
    where
        A::Question: Sync,
    {
        let Work { model, threads, from_layer, scope, answers } = self;
        let layout = model.layout_from(from_layer).with_scope(scope);
        let set = TaskSet::read("tiny.jsonl", tiny::task_file().as_bytes()).unwrap();
        let source = TaskSource::File { set, seed: 1 };
        let cancel = AtomicBool::new(false);
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let reward = Reward::LogExpected;
        let plan = RunPlan { tasks: source.describe(), requests: 16, reward, answers, generations: 9 };
        let config = EsConfig { seed: 1, pairs: PAIRS, sigma: 0.1, ..EsConfig::default() };
        let questions = fura::trainer::training(&new(), &source, 0, &plan).unwrap();
        let members = 2 * PAIRS as usize;
        // Each with buffers of its own, in a pool that has run before.
        let infer = || {
            let (mut answerer, mut fitness) = (new(), Vec::new());
            pool.install(|| {
                answerer
                    .fitness(
                        &Base,
                        members,
                        Shared::Layers(from_layer),
                        &questions,
                        reward,
                        &mut fitness,
                        &cancel,
                    )
                    .unwrap()
            });
        };
        infer();
        let (inference, ()) = peak(infer);
        let mut answerer = new();
        let (training, ()) = peak(|| {
            let mut trainer = Trainer::create(model, layout, plan, config.clone(), log).unwrap();
            pool.install(|| trainer.step(&mut answerer, &questions, &cancel).unwrap());
        });
        let prompt =
            tiny::task_file().lines().filter(|l| l.contains("train")).map(prompt_bytes).max().unwrap();
        let shape = GenerationShape {
            members,
            requests: 16,
            prompt,
            answer,
            from_layer,
            scope,
            form: Form::Materialized,
            shared: from_layer,
            threads,
        };
        let said = shape.inference_bytes(model.config(), model.layout().block());
        let said_training = shape.training_bytes(model.config(), model.layout().block(), &config);
        println!(
            "{answers:?} {scope:?} from layer {from_layer}, {threads} threads: inference {inference} bytes, {said} planned; \
             training {training}, {said_training} planned"
        );
        if scope == Scope::Everywhere {
            assert!(training as f64 <= 1.05 * inference as f64, "{training} bytes, {inference} of inference");
        }
        for (said, measured) in [(said, inference), (said_training, training)] {
            let share = measured as f64 / said as f64;
            assert!((share - 1.0).abs() <= 0.1, "{said} bytes planned, {measured} allocated");
        }
    }
}

/// The tokenizer's tokens are bytes.
fn prompt_bytes(line: &str) -> usize {
    let prompt = line.split("\"prompt\":\"").nth(1).and_then(|rest| rest.split('"').next());
    prompt.unwrap_or_default().len()
}
