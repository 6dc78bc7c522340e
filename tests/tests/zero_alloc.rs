//! Contract C2: after warm-up a generation allocates nothing, on any thread, and neither does decoding. One test in a
//! binary of its own, since the counting allocator is process-wide.

use fura::core::estimator::EsConfig;
use fura::core::layout::{Form, Scope};
use fura::model::tokenizer::Specials;
use fura::model::{Base, Constraint, Engine, Event, Generator, Plan, Precision, Request, Sampling, Threads};
use fura::reward::Reward;
use fura::scorer::Scorer;
use fura::simd::Isa;
use fura::tasks::{TaskSet, TaskSource};
use fura::trainer::{Answers, RunPlan, Trainer};
use fura::turns::LayerTurn;
use fura_tests::tiny;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

struct Counting;

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is passed on to the system allocator unchanged; counting touches only an atomic.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's obligations are those of the system allocator.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: `ptr` came from `System.alloc` with this layout.
        unsafe { System.dealloc(ptr, layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.realloc(ptr, layout, new_size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// What the process has mapped, where the system tells: large buffers are maps of their own, past the allocator.
fn mapped() -> Option<String> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    status.lines().find(|line| line.starts_with("VmSize:")).map(str::to_owned)
}

#[test]
fn warm_passes_allocate_nothing() {
    training();
    decoding();
}

fn training() {
    let (model, folder) = tiny::open(1, 32);
    let set = TaskSet::read("tiny.jsonl", tiny::task_file().as_bytes()).unwrap();
    let source = TaskSource::File { set, seed: 1 };
    let cancel = AtomicBool::new(false);
    for (threads, scope) in (1..=3).flat_map(|n| [(n, Scope::Everywhere), (n, Scope::Answer)]) {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let plan = RunPlan {
            tasks: source.describe(),
            requests: 16,
            reward: Reward::LogExpected,
            answers: Answers::Scored,
            generations: 1000,
        };
        // All trained layers together, or layers that take turns with populations of their own.
        let turns = match threads {
            2 => ["0x2", "1x8", "1ax16"]
                .map(|t| t.parse::<LayerTurn>().unwrap().linears(&model, 0).unwrap())
                .to_vec(),
            _ => Vec::new(),
        };
        let config = EsConfig { seed: 1, pairs: 4, sigma: 0.1, turns, ..EsConfig::default() };
        let log = folder.path().join(format!("{threads}{scope:?}.runlog"));
        let form = if threads == 3 { Form::Factored } else { Form::Materialized };
        let layout = model.layout_from(threads % 2).with_scope(scope).with_form(form);
        let mut trainer = Trainer::create(&model, layout, plan, config, &log).unwrap();
        // So few that prompts are read in several groups.
        let mut scorer = Scorer::new(&model, Isa::detect(), threads, 64).with_beginning_bytes(40_000);
        let questions = trainer.questions(&scorer, &source).unwrap();
        let (warm, counted) = pool.install(|| {
            let mut step = || trainer.step(&mut scorer, &questions, &cancel).unwrap().unwrap();
            // Buffers and the pool's own queues reach their size; every thread has run a wave.
            for _ in 0..20 {
                step();
            }
            let maps = mapped();
            let before = ALLOCATIONS.load(Ordering::SeqCst);
            for _ in 0..20 {
                step();
            }
            let counted = ALLOCATIONS.load(Ordering::SeqCst) - before;
            assert_eq!(mapped(), maps, "{threads} threads, {scope:?}: maps in 20 generations");
            (before, counted)
        });
        assert!(warm > 0, "the allocator counts");
        assert_eq!(counted, 0, "{threads} threads, {scope:?}: allocations in 20 generations");
    }
}

/// Passes of requests that are past their first tokens: greedy, sampled in every way, and constrained.
fn decoding() {
    const REQUESTS: usize = 160;
    let (model, _folder) = tiny::open(2, 32);
    let prompt = model.tokenizer().encode("ab", Specials::Ignore).unwrap();
    // Every state of this one is seen at once; a new state may allocate.
    let constraint = Constraint::grammar(model.tokenizer(), "root ::= [a-p]*").unwrap();
    for threads in 1..=3 {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let plan = Plan { rows: 2 * REQUESTS, sequences: REQUESTS, positions: 64 };
        let mut generator = Generator::new(&model, plan, 64 * REQUESTS, Precision::Single);
        for i in 0..REQUESTS {
            let plain = Sampling::default();
            let sampling = [
                plain,
                Sampling { temperature: 1.0, ..plain },
                Sampling { temperature: 0.7, top_k: 9, ..plain },
                Sampling { temperature: 2.0, top_p: 0.8, min_p: 0.01, ..plain },
            ][i % 4];
            let sampling = Sampling { seed: i as u64, ..sampling };
            let constraint = (i % 3 == 0).then(|| constraint.clone());
            let request = Request { sampling, constraint, ..Request::new(prompt.clone(), 60) };
            generator.submit(request).unwrap();
        }
        let engine = Engine::new(&model, Isa::detect(), Threads::Pool);
        let mut tokens = 0;
        let mut steps = |n: usize| {
            for _ in 0..n {
                pool.install(|| {
                    let mut report =
                        |event: Event<'_>| tokens += usize::from(matches!(event, Event::Token { .. }));
                    assert!(generator.step(&engine, &Base, &mut report).unwrap());
                });
            }
        };
        steps(12);
        let maps = mapped();
        let before = ALLOCATIONS.load(Ordering::SeqCst);
        steps(20);
        let counted = ALLOCATIONS.load(Ordering::SeqCst) - before;
        assert_eq!(mapped(), maps, "{threads} threads: maps in 20 passes");
        assert!(tokens > 20 * REQUESTS / 2, "{tokens} tokens: too few sequences went on");
        assert_eq!(counted, 0, "{threads} threads: allocations in 20 passes");
    }
}
