//! Where the fitness of a task has its slope and its curvature: perturbs one group of linears at a time, around the base
//! or around a specialist, and prints a table in Markdown.
//!
//! `cargo run --release -p fura-bench --example layer_slopes -- MODEL [SPECIALIST] [user=N] [phone=N/LEVEL] [only=TAG]
//! [from=LAYER] [by=layer|kind] [layers=N] [pairs=N] [questions=N] [sigma=X]`
//!
//! The questions are the habits of a user, or decisions on a user's phone, with `only` those of one template.
//!
//! For a group, pair `i` gives the antithetic difference `D_i = (f(c + sigma e_i) - f(c - sigma e_i)) / 2 sigma`, whose
//! mean square estimates the squared length of the gradient in that group, and the second difference
//! `(f(c + sigma e_i) + f(c - sigma e_i) - 2 f(c)) / sigma^2`, whose mean estimates the trace of the Hessian there. An
//! estimator's step gains in proportion to the first and loses in proportion to the second. "Ratio" is
//! `slope^2 / curvature`, the gain a direction promises for the noise it costs; "free" where nothing is lost.

use fura::core::layout::{Form, Layout, Scope};
use fura::core::noise::Noise;
use fura::core::specialist::Specialist;
use fura::model::{Adapted, Members, Model, Shared, Transform};
use fura::question::Question;
use fura::reward::Reward;
use fura::scorer::{Scorer, Scores, WAVE_ROWS};
use fura::simd::Isa;
use fura::tasks::phone::Decisions;
use fura::tasks::{Habits, TaskSource};
use std::ops::{ControlFlow, Range};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

/// Antithetic pairs around `centre`, in the linears of `group` only.
struct Pairs<'a> {
    layout: &'a Layout,
    centre: &'a [f32],
    group: &'a [Range<usize>],
    noise: Noise,
    sigma: f32,
    scope: Scope,
}

impl Members for Pairs<'_> {
    fn transform(&self, member: u32, linear: usize, scratch: &mut [f32]) -> Transform<'_> {
        let range = self.layout.range(linear);
        let centre = &self.centre[range.clone()];
        if !self.group.iter().any(|g| g.contains(&linear)) {
            scratch.copy_from_slice(centre);
            return Transform::Coordinates(Form::Materialized);
        }
        let sigma = if member.is_multiple_of(2) { self.sigma } else { -self.sigma };
        self.noise.fill(0, member / 2, range, scratch);
        for (x, c) in scratch.iter_mut().zip(centre) {
            *x = (c + sigma * *x).clamp(-0.95, 0.95);
        }
        Transform::Coordinates(Form::Materialized)
    }

    fn scope(&self) -> Scope {
        self.scope
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (settings, files): (Vec<&String>, Vec<&String>) = args.iter().partition(|a| a.contains('='));
    let setting = |name: &str, default: &str| -> String {
        let found = settings.iter().find_map(|s| s.strip_prefix(name)?.strip_prefix('='));
        found.unwrap_or(default).to_owned()
    };
    let path: PathBuf =
        files.first().ok_or("usage: layer_slopes MODEL [SPECIALIST] [NAME=VALUE ...]")?.into();
    let source = match setting("phone", "").as_str() {
        "" => TaskSource::Habits(Habits::new(setting("user", "101").parse()?)),
        user => TaskSource::Phone(format!("phone:{user}").parse::<Decisions>()?),
    };
    let only = setting("only", "");
    let group_layers: usize = setting("layers", "3").parse()?;
    let from: usize = setting("from", "0").parse()?;
    let by_kind = setting("by", "layer") == "kind";
    let pairs: usize = setting("pairs", "12").parse()?;
    let n: usize = setting("questions", "64").parse()?;
    let sigma: f32 = setting("sigma", "0.1").parse()?;

    let model = Model::open(&path, path.parent().unwrap_or(Path::new(".")), 32, &mut |_, _| {
        ControlFlow::Continue(())
    })?;
    let layout = model.layout();
    let mut scope = Scope::Everywhere;
    let mut centre = vec![0.0f32; layout.coordinates()];
    if let Some(file) = files.get(1) {
        let specialist = Specialist::load(file)?;
        scope = specialist.layout().scope();
        let start = centre.len() - specialist.coordinates().len();
        centre[start..].copy_from_slice(specialist.coordinates());
        let lowest = model.first_layer(specialist.layout()).ok_or("a specialist of another model")?;
        if lowest < from {
            return Err(format!("the specialist trains layer {lowest}: choose from={lowest} or lower").into());
        }
    }
    let isa = Isa::detect();
    let pool = rayon::ThreadPoolBuilder::new().build()?;
    let mut scorer = Scorer::new(&model, isa, pool.current_num_threads(), WAVE_ROWS);
    let cancel = AtomicBool::new(false);
    // Requests that no run of fewer than this many generations has seen.
    let mut tasks = Vec::new();
    let fresh = (1_000_000..1_001_000).flat_map(|generation| source.train(generation, n));
    tasks.extend(fresh.filter(|t| only.is_empty() || t.tags.contains(&only)).take(n));
    let questions = Question::all(&model, &tasks)?;
    let fitness = |scores: &Scores<'_>, member: usize| {
        let of = |(i, q): (usize, &Question)| Reward::LogExpected.of(scores.answers(member, i), &q.rewards);
        questions.iter().enumerate().map(of).sum::<f64>() / questions.len() as f64
    };
    let at_centre = {
        let member = Adapted::new(&model, isa, &centre, &layout.clone().with_scope(scope));
        fitness(
            &pool
                .install(|| scorer.score(&member, 1, Shared::Layers(0), &questions, &cancel))?
                .ok_or("cancelled")?,
            0,
        )
    };
    println!("Fitness {at_centre:.3} on {} requests; {pairs} pairs, sigma {sigma}.\n", questions.len());
    println!("| linears | coordinates | slope | curvature | ratio |");
    println!("|---|---|---|---|---|");
    for (name, group) in groups(&model, from, by_kind, group_layers) {
        let members = Pairs { layout, centre: &centre, group: &group, noise: Noise::new(7), sigma, scope };
        let scores =
            pool.install(|| scorer.score(&members, 2 * pairs, Shared::Layers(from), &questions, &cancel))?;
        let scores = scores.ok_or("cancelled")?;
        let (mut slope, mut curvature) = (0.0, 0.0);
        let sigma = f64::from(sigma);
        for i in 0..pairs {
            let (up, down) = (fitness(&scores, 2 * i), fitness(&scores, 2 * i + 1));
            slope += ((up - down) / (2.0 * sigma)).powi(2) / pairs as f64;
            curvature -= (up + down - 2.0 * at_centre) / (sigma * sigma) / pairs as f64;
        }
        let size: usize = group.iter().flat_map(Clone::clone).map(|l| layout.range(l).len()).sum();
        let ratio = if curvature > 0.0 { format!("{:.3}", slope / curvature) } else { "free".to_owned() };
        println!("| {name} | {size} | {:.3} | {curvature:.2} | {ratio} |", slope.sqrt());
    }
    Ok(())
}

/// The linears of each group: so many layers from the top down to `from`, or one kind of linear in all of them.
fn groups(
    model: &Model,
    from: usize,
    by_kind: bool,
    group_layers: usize,
) -> Vec<(String, Vec<Range<usize>>)> {
    let layers = model.config().layers;
    let total = model.layout().linears().len();
    let each = total / layers;
    if by_kind {
        let kinds = model.layout().linears()[..each].iter();
        let of = |(k, linear): (usize, &fura::core::layout::Linear)| {
            let name =
                linear.name.rsplit_once("0.").map_or(linear.name.as_str(), |(_, kind)| kind).to_owned();
            (name, (from..layers).map(|l| l * each + k..l * each + k + 1).collect())
        };
        return kinds.enumerate().map(of).collect();
    }
    (from..layers)
        .step_by(group_layers)
        .map(|first| {
            let end = (first + group_layers).min(layers);
            (format!("layers {first}-{}", end - 1), std::iter::once(first * each..end * each).collect())
        })
        .collect()
}
