//! The rotation theorem's numbers on a real model, against values computed independently (numpy, f64, from the
//! dequantized weights of the same file).

mod real_model;

use fura_core::layout::{BlockRule, Linear};
use fura_core::noise::Noise;
use fura_core::rotation::diagnostics::{
    left_residual, participation, principal_angles, spectral_shift, stable_rank,
};
use fura_core::rotation::expectation::{drift, drift_in_general_position};
use fura_core::rotation::perturbation::{block_coordinates, dense, low_rank};
use fura_core::rotation::{BlockFrame, Matrix, Svd};
use fura_model::Model;

fn weights(model: &Model, name: &str) -> Matrix {
    let packed = model.linear(model.layout().find(name).unwrap());
    let mut weights = vec![0.0; packed.d_out() * packed.d_in()];
    for (row, out) in weights.chunks_exact_mut(packed.d_in()).enumerate() {
        packed.decode_row(row, out);
    }
    Matrix::from_rows(packed.d_out(), packed.d_in(), &weights)
}

fn factor_pair(w: &Matrix) -> usize {
    BlockRule::FactorPair.block(&Linear::new("w", w.rows(), w.columns())).unwrap()
}

/// Whether `value` is `golden` to the digits that golden values are given with.
fn rounds_to(value: f64, golden: f64, digit: f64) {
    assert!((value - golden).abs() <= 0.501 * digit, "{value}, golden {golden}");
}

/// Stable rank over rank, participation of the leading vector times the width, and drift over tau: exact expectations,
/// so they must agree to the last digit given.
#[test]
fn first_order_values_of_real_matrices() {
    let model = real_model::open();
    for (name, stable, leading, expected_drift) in [
        ("blk.1.attn_q", 0.063, 13.6, 0.083),
        ("blk.14.attn_k", 0.168, 7.9, 0.089),
        ("blk.14.ffn_gate", 0.107, 29.8, 0.081),
        ("blk.14.ffn_down", 0.045, 40.9, 0.058),
        ("blk.28.attn_output", 0.065, 24.0, 0.098),
    ] {
        let w = weights(&model, name);
        let svd = Svd::thin(&w).unwrap();
        let ratios = participation(&BlockFrame::spectral(&w, factor_pair(&w)).unwrap().overlaps(&svd));
        let drift = drift(svd.s(), &ratios);
        eprintln!(
            "{name}: {:.4} {:.2} {drift:.4}",
            stable_rank(svd.s()) / svd.s().len() as f64,
            ratios[0] * w.columns() as f64
        );
        rounds_to(stable_rank(svd.s()) / svd.s().len() as f64, stable, 0.001);
        rounds_to(ratios[0] * w.columns() as f64, leading, if leading == 24.0 { 1.0 } else { 0.1 });
        rounds_to(drift, expected_drift, 0.001);
        // Real weights are near general position.
        let general = drift_in_general_position(w.columns());
        assert!((1.05..1.4).contains(&(drift / general)), "{name}: {}", drift / general);
    }
}

/// From channel scaling to SVF, the same expectations over block sizes; and no rotation for one block.
#[test]
fn drift_over_block_sizes() {
    let model = real_model::open();
    let w = weights(&model, "blk.14.attn_q");
    let svd = Svd::thin(&w).unwrap();
    for (block, golden) in
        [(576, 1.0), (288, 0.230), (144, 0.136), (72, 0.102), (24, 0.082), (8, 0.076), (1, 0.074)]
    {
        let frame = BlockFrame::spectral(&w, block).unwrap();
        let found = drift(svd.s(), &participation(&frame.overlaps(&svd)));
        eprintln!("{block}: {found:.4}");
        rounds_to(found, golden, 0.001);
        let change = block_coordinates(&w, &frame, 0.05 * w.norm(), &mut normals(1));
        let residual = left_residual(&svd, &(&w + &change));
        assert!(if block == 576 { residual < 1e-13 } else { residual > 1e-3 }, "{block}: {residual}");
    }
}

/// Drift and the turn of the leading eight left vectors at equal norm. The golden values are one random draw each, and
/// must not stand out from ours: within four of their standard deviations, on a logarithmic scale. (A small gap behind
/// the eighth value of `attn_k` spreads its angles over a factor of five.)
#[test]
fn families_at_equal_norm() {
    let model = real_model::open();
    for (name, count, drifts, angles) in [
        ("blk.14.attn_k", 24, [0.0044, 0.0030, 0.0032], [8.8, 3.1, 3.9]),
        ("blk.28.attn_q", 8, [0.0034, 0.0025, 0.0025], [6.6, 1.4, 1.4]),
    ] {
        let w = weights(&model, name);
        let svd = Svd::thin(&w).unwrap();
        let frame = BlockFrame::spectral(&w, factor_pair(&w)).unwrap();
        let norm = 0.05 * w.norm();
        for family in 0..3 {
            let draws: Vec<(f64, f64)> = (0..count)
                .map(|seed| {
                    let mut normal = normals(seed);
                    let change = match family {
                        0 => block_coordinates(&w, &frame, norm, &mut normal),
                        1 => dense(w.rows(), w.columns(), norm, &mut normal),
                        _ => low_rank(w.rows(), w.columns(), 16, norm, &mut normal),
                    };
                    let after = Svd::thin(&(&w + &change)).unwrap();
                    let angle = principal_angles(svd.u(), after.u(), 8).unwrap()[7];
                    (spectral_shift(svd.s(), after.s()), angle.to_degrees())
                })
                .collect();
            for (what, golden, values) in [
                ("drift", drifts[family], draws.iter().map(|d| d.0.ln()).collect::<Vec<_>>()),
                ("angle", angles[family], draws.iter().map(|d| d.1.ln()).collect()),
            ] {
                let mean = values.iter().sum::<f64>() / count as f64;
                let deviation =
                    (values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (count - 1) as f64).sqrt();
                eprintln!(
                    "{name} {family} {what}: {:.4} x/ {:.3}, golden {golden}",
                    mean.exp(),
                    deviation.exp()
                );
                // Golden values have two digits, half a digit of which is up to 5 %.
                assert!((f64::ln(golden) - mean).abs() < 4.0 * deviation + 0.05, "{name} {family} {what}");
            }
        }
    }
}

/// Standard normal numbers, the same on every machine.
fn normals(seed: u64) -> impl FnMut() -> f64 {
    let noise = Noise::new(seed);
    let mut values = vec![0.0; 1 << 19];
    noise.fill(0, 0, 0..values.len(), &mut values);
    let mut values = values.into_iter();
    move || f64::from(values.next().expect("enough for the matrices of these tests"))
}
