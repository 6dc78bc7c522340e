//! Contract C3: what is planned is what is allocated, and training takes what inference takes at the same batch. One test
//! in a binary of its own, since the counting allocator is process-wide.

use fura::core::estimator::EsConfig;
use fura::model::{Base, GenerationPlan, Model, Precision, Shared};
use fura::reward::Reward;
use fura::scorer::Scorer;
use fura::simd::Isa;
use fura::tasks::{TaskSet, TaskSource};
use fura::trainer::{Answers, RunPlan, Trainer};
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
    for threads in 1..=3 {
        trained(&model, threads, &folder.path().join(format!("{threads}.runlog")));
    }
}

fn planned(model: &Model) {
    let config = model.config();
    for (sequences, positions) in [(1, 256), (8, 64), (300, 100)] {
        for precision in [Precision::Single, Precision::Half] {
            let plan = GenerationPlan::new(sequences, positions, precision);
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

fn trained(model: &Model, threads: usize, log: &std::path::Path) {
    let set = TaskSet::read("tiny.jsonl", tiny::task_file().as_bytes()).unwrap();
    let source = TaskSource::File { set, seed: 1 };
    let cancel = AtomicBool::new(false);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
    let plan = RunPlan {
        tasks: source.describe(),
        requests: 16,
        reward: Reward::LogExpected,
        answers: Answers::Scored,
        generations: 9,
    };
    let config = EsConfig { seed: 1, pairs: 16, sigma: 0.1, ..EsConfig::default() };
    let mut trainer = Trainer::create(model, model.layout_from(0), plan, config, log).unwrap();
    let questions = trainer.questions(&Scorer::new(model, Isa::detect(), threads, 256), &source).unwrap();
    let members = trainer.estimator().ask().len();
    // Each with a scorer of its own, in a pool that has run before.
    let infer = || {
        let mut scorer = Scorer::new(model, Isa::detect(), threads, 256);
        pool.install(|| {
            let scores = scorer.score(&Base, members, Shared::Layers(0), &questions, &cancel).unwrap();
            assert!(scores.is_some());
        });
    };
    infer();
    let (inference, ()) = peak(infer);
    let mut scorer = Scorer::new(model, Isa::detect(), threads, 256);
    let (training, _) = peak(|| pool.install(|| trainer.step(&mut scorer, &questions, &cancel).unwrap()));
    println!("{threads} threads: {inference} bytes of inference, {training} of training");
    assert!(training as f64 <= 1.05 * inference as f64, "{training} bytes, {inference} of inference");
}
