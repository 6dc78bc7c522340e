//! Oracle and random policy on the phone, by level and split: the table in docs/src/phone.md.
//!
//! `cargo run --release -p fura-tasks --example phone_levels -- [INSTANCES]`
#![forbid(unsafe_code)]

use fura_tasks::phone::{Episode, Level, PhoneSplit, User, play_at_random, solve};
use fura_tasks::wilson95;

/// Random games for each instance.
const GAMES: u64 = 20;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let instances: u64 = std::env::args().nth(1).map_or(Ok(20), |text| text.parse())?;
    println!(
        "| level | split | templates | instances | solved | shortest: mean, longest | legal actions | random | prompt characters: mean, longest |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    for level in Level::ALL {
        for split in PhoneSplit::ALL {
            row(level, split, instances);
        }
    }
    Ok(())
}

fn row(level: Level, split: PhoneSplit, instances: u64) {
    let templates = User::templates(split, level);
    let (mut all, mut solved, mut steps, mut longest) = (0u64, 0u64, 0, 0);
    let (mut won, mut played, mut choices, mut prompts) = (0, 0, 0, 0);
    let (mut characters, mut most) = (0, 0);
    for name in &templates {
        for seed in 0..instances {
            let Some(task) = User::new(seed).task(name, split, seed) else { continue };
            all += 1;
            let Some(way) = solve(&task, 1_000_000) else { continue };
            solved += 1;
            steps += way.len();
            longest = longest.max(way.len());
            let mut episode = Episode::new(task.clone(), way.len());
            for action in &way {
                let length = episode.prompt().chars().count();
                prompts += 1;
                choices += episode.choices().len();
                characters += length;
                most = most.max(length);
                episode.act(action);
            }
            for game in 0..GAMES {
                let mut episode = Episode::new(task.clone(), Episode::budget(&task, way.len()));
                won += u64::from(play_at_random(&mut episode, seed * GAMES + game));
                played += 1;
            }
        }
    }
    let Some(random) = wilson95(won, played) else { return };
    println!(
        "| {} | {split} | {} | {all} | {solved} | {:.1}, {longest} | {:.1} | {:.1} % ({:.1}-{:.1}) | {:.0}, {most} |",
        level.get(),
        templates.len(),
        steps as f64 / solved.max(1) as f64,
        choices as f64 / prompts.max(1) as f64,
        100.0 * won as f64 / played as f64,
        100.0 * random.low,
        100.0 * random.high,
        characters as f64 / prompts.max(1) as f64,
    );
}
