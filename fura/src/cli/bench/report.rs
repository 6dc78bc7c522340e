//! Rates, as a table or as JSON with the fields of llama-bench and llama-batched-bench.

use super::Case;
use super::workload::{ANSWERS, QUESTION_TOKENS, QUESTIONS, Work};
use crate::cli::args::Bench;
use serde_json::{Value, json};

pub(super) struct Setting<'a> {
    pub(super) args: &'a Bench,
    pub(super) cpu: &'static str,
    pub(super) threads: usize,
}

impl Setting<'_> {
    pub(super) fn print(&self, cases: &[Case], json: bool) {
        if json {
            println!("{}", self.json(cases));
            return;
        }
        println!(
            "kernels     {}, {} threads, {} rounds, tokens per second",
            self.cpu, self.threads, self.args.rounds
        );
        println!("{:<30}{:>10}{:>10}{:>10}", "", "median", "lowest", "highest");
        for case in cases {
            for (name, rates) in self.rates(case) {
                println!("{name:<30}{:>10.1}{:>10.1}{:>10.1}", rates.median, rates.low, rates.high);
            }
        }
    }

    /// Names and rates of what a case measured.
    fn rates(&self, case: &Case) -> Vec<(String, Rates)> {
        let rates = |part: usize, tokens: usize| Rates::new(case.samples.iter().map(|s| s[part]), tokens);
        match case.work {
            Work::Prompt(n) => vec![(format!("pp{n}"), rates(0, n))],
            Work::Generate(n) => vec![(format!("tg{n}"), rates(1, n))],
            Work::Batched { pp, tg, sequences, perturbed } => {
                let who = self.who(perturbed);
                vec![
                    (format!("pp{pp} x {sequences}{who}"), rates(0, pp * sequences)),
                    (format!("tg{tg} x {sequences}{who}"), rates(1, tg * sequences)),
                ]
            }
            Work::Score { perturbed } => vec![(
                format!("score{QUESTION_TOKENS} x {QUESTIONS}{}", self.who(perturbed)),
                rates(0, self.scored()),
            )],
        }
    }

    fn who(&self, perturbed: bool) -> String {
        if perturbed { format!(", {} members", self.args.members) } else { String::new() }
    }

    /// Tokens of prompts that scoring reads, of all members.
    fn scored(&self) -> usize {
        QUESTION_TOKENS * QUESTIONS * self.args.members as usize
    }

    fn json(&self, cases: &[Case]) -> Value {
        let (mut tests, mut batched, mut score) = (Vec::new(), Vec::new(), Vec::new());
        for case in cases {
            let names = self.rates(case);
            match case.work {
                Work::Prompt(_) | Work::Generate(_) => {
                    let (n_prompt, n_gen) = match case.work {
                        Work::Prompt(n) => (n, 0),
                        Work::Generate(n) => (0, n),
                        _ => (0, 0),
                    };
                    let (name, r) = &names[0];
                    tests.push(json!({
                        "test": name, "n_prompt": n_prompt, "n_gen": n_gen, "n_threads": self.threads,
                        "avg_ts": r.mean, "stddev_ts": r.deviation, "median_ts": r.median, "samples_ts": r.all,
                    }));
                }
                Work::Batched { pp, tg, sequences, perturbed } => {
                    let (read, made) = (&names[0].1, &names[1].1);
                    let (t_pp, t_tg) =
                        ((pp * sequences) as f64 / read.median, (tg * sequences) as f64 / made.median);
                    let all = ((pp + tg) * sequences) as f64;
                    batched.push(json!({
                        "pp": pp, "tg": tg, "pl": sequences, "n_kv": (pp + tg) * sequences,
                        "n_threads": self.threads, "members": if perturbed { self.args.members } else { 0 },
                        "t_pp": t_pp, "speed_pp": read.median, "t_tg": t_tg, "speed_tg": made.median,
                        "t": t_pp + t_tg, "speed": all / (t_pp + t_tg),
                        "samples_pp": read.all, "samples_tg": made.all,
                    }));
                }
                Work::Score { perturbed } => {
                    let r = &names[0].1;
                    score.push(json!({
                        "prompts": QUESTIONS, "prompt_tokens": QUESTION_TOKENS, "answers": ANSWERS.len(),
                        "members": self.args.members, "perturbed": perturbed, "n_threads": self.threads,
                        "speed": r.median, "samples": r.all,
                    }));
                }
            }
        }
        json!({
            "model_filename": self.args.model.display().to_string(), "cpu": self.cpu, "n_threads": self.threads,
            "rounds": self.args.rounds, "from_layer": self.args.from_layer,
            "tests": tests, "batched": batched, "score": score,
        })
    }
}

/// Tokens per second of every round.
struct Rates {
    all: Vec<f64>,
    mean: f64,
    deviation: f64,
    median: f64,
    low: f64,
    high: f64,
}

impl Rates {
    /// There is at least one round.
    fn new(seconds: impl Iterator<Item = f64>, tokens: usize) -> Self {
        let all: Vec<f64> = seconds.map(|s| tokens as f64 / s).collect();
        let n = all.len() as f64;
        let mean = all.iter().sum::<f64>() / n;
        let squares = all.iter().map(|r| (r - mean).powi(2)).sum::<f64>();
        let mut sorted = all.clone();
        sorted.sort_by(f64::total_cmp);
        Self {
            mean,
            deviation: (squares / (n - 1.0).max(1.0)).sqrt(),
            median: (sorted[(sorted.len() - 1) / 2] + sorted[sorted.len() / 2]) / 2.0,
            low: sorted[0],
            high: sorted[sorted.len() - 1],
            all,
        }
    }
}
