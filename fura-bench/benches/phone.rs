//! The phone: an agent's step (act, then the next prompt and its legal answers), a whole episode, the oracle.
#![forbid(unsafe_code)]

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use fura::tasks::phone::{Action, Episode, PhoneSplit, PhoneTask, User, solve};
use std::hint::black_box;
use std::time::Duration;

/// A template of each level: a settings menu, a list of contacts, a form, two apps.
const TEMPLATES: [&str; 4] = ["way.quiet/1", "contact.call/2", "alarm.add/3", "both.cancel_message/4"];

/// States that the oracle looks at.
const STATES: usize = 1_000_000;

fn solved(template: &str) -> (PhoneTask, Vec<Action>) {
    let task = User::new(7).task(template, PhoneSplit::Train, 0).expect("the template exists");
    let way = solve(&task, STATES).expect("every task can be solved");
    (task, way)
}

/// The actions, and after each what the agent is given next.
fn play(episode: &mut Episode, way: &[Action]) {
    for action in way {
        black_box(episode.act(action));
        black_box(episode.prompt());
        black_box(episode.choices());
    }
}

fn phone(c: &mut Criterion) {
    let mut group = c.benchmark_group("phone");
    group.warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(2));
    for template in TEMPLATES {
        let (task, way) = solved(template);
        let new = || Episode::new(task.clone(), way.len());
        // A step of its own: the time for a step is that for an element.
        group.throughput(Throughput::Elements(way.len() as u64));
        group.bench_function(BenchmarkId::new("step", template), |b| {
            b.iter_batched_ref(new, |episode| play(episode, &way), BatchSize::SmallInput)
        });
        group.throughput(Throughput::Elements(1));
        group.bench_function(BenchmarkId::new("episode", template), |b| {
            b.iter(|| {
                let mut episode = new();
                black_box((episode.prompt(), episode.choices()));
                play(&mut episode, &way);
            })
        });
        group.bench_function(BenchmarkId::new("oracle", template), |b| b.iter(|| solve(&task, STATES)));
        let mut number = 0;
        group.bench_function(BenchmarkId::new("task", template), |b| {
            b.iter(|| {
                number += 1;
                User::new(7).task(template, PhoneSplit::Train, number)
            })
        });
    }
}

criterion_group!(benches, phone);
criterion_main!(benches);
