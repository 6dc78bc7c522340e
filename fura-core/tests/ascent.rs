//! What momentum and Adam are worth on quadratics, each at its own best step size.
//!
//! `cargo test -p fura-core --test ascent -- --nocapture` prints the table below.
//! The band of the assertion was set after these numbers were seen: it guards the documented claim against a change
//! of the code, and is no independent evidence for it.

use fura_core::estimator::{Adam, EsConfig, Estimator};

const D: usize = 200;
const GENERATIONS: usize = 150;
const ALPHAS: [f32; 6] = [0.0025, 0.005, 0.01, 0.02, 0.04, 0.08];

/// Curvatures of `-1/2 sum_j h_j (c_j - a_j)^2`; the maximum is where every coordinate gains the same.
fn curvatures(condition: f64) -> Vec<f64> {
    (0..D).map(|j| libm::pow(condition, -(j as f64) / (D - 1) as f64)).collect()
}

/// Mean share of the initial loss that is left after training, over three seeds.
fn left(base: &EsConfig, condition: f64) -> f64 {
    let h = curvatures(condition);
    let maximum: Vec<f64> =
        h.iter().enumerate().map(|(j, h)| 0.1 * libm::sin(j as f64) / h.sqrt().max(0.2)).collect();
    let loss = |c: &[f32]| -> f64 {
        c.iter().zip(&h).zip(&maximum).map(|((&c, h), m)| 0.5 * h * (f64::from(c) - m).powi(2)).sum()
    };
    let one = |seed| {
        let mut es = Estimator::over(EsConfig { seed, ..base.clone() }, &[D]).unwrap();
        let mut c = vec![0.0; D];
        for _ in 0..GENERATIONS {
            let rewards: Vec<f64> = (es.ask().members())
                .map(|member| {
                    es.member_coordinates(member, 0..D, &mut c);
                    -loss(&c)
                })
                .collect();
            es.tell(&rewards).unwrap();
        }
        loss(es.coordinates()) / loss(&[0.0; D])
    };
    (1..=3).map(one).sum::<f64>() / 3.0
}

/// The best step size of each kind of step and the loss that is left.
fn table(condition: f64) -> [(f32, f64); 3] {
    let plain = EsConfig { pairs: 8, sigma: 0.02, ..EsConfig::default() };
    let kinds = [
        plain.clone(),
        EsConfig { momentum: 0.9, ..plain.clone() },
        EsConfig { adam: Some(Adam::default()), ..plain },
    ];
    kinds.map(|kind| {
        let factor = if kind.momentum > 0.0 { 0.1 } else { 1.0 }; // momentum sums ten steps
        let tried = ALPHAS.map(|alpha| {
            (alpha * factor, left(&EsConfig { alpha: alpha * factor, ..kind.clone() }, condition))
        });
        tried.into_iter().fold((0.0, f64::INFINITY), |best, one| if one.1 < best.1 { one } else { best })
    })
}

/// Measured (share of the loss left after 150 generations of 8 pairs in 200 dimensions, best of the step sizes):
///
/// | condition | plain | momentum 0.9 | Adam |
/// |---|---|---|---|
/// | 1 | 0.0113 | 0.0168 | 0.0206 |
/// | 30 | 0.0917 | 0.0819 | 0.0791 |
/// | 1000 | 0.0968 | 0.0948 | 0.0932 |
///
/// Plain steps are the best on the round bowl; where curvatures differ the others leave a few percent to a seventh
/// less. Adam is no preconditioner here: the estimate's noise, far larger than the gradient, is of equal size in
/// every coordinate, and so is what Adam divides by.
#[test]
fn what_they_are_worth() {
    println!("condition  plain              momentum 0.9       Adam");
    for condition in [1.0, 30.0, 1000.0] {
        let table = table(condition);
        let cells = table.map(|(alpha, left)| format!("{left:.4} (at {alpha:.4})"));
        println!("{condition:9}  {}", cells.join("    "));
        let [plain, momentum, adam] = table.map(|(_, left)| left);
        assert!(plain < 0.15 && momentum < 2.0 * plain && adam < 2.0 * plain, "all of them learn");
        // The claim of the documentation: none is worth more than a fifth of the loss.
        assert!(momentum > 0.8 * plain && adam > 0.8 * plain, "then the documentation undersells one");
    }
}
