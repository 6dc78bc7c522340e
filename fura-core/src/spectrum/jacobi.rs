//! Cyclic Jacobi: the eigendecomposition whose bits depend on the matrix alone.
//!
//! Every operation is a plain `f64` `+ - * /` or `sqrt` in a fixed order (no fused multiply-add,
//! no reassociation, no library kernel), so IEEE 754 fixes each bit of the result.
//!
//! One rotation in the plane `(p, q)` annihilates `g_pq` (Golub & Van Loan, section 8.5):
//! `theta = (g_qq - g_pp) / (2 g_pq)`, `t = sign(theta) / (|theta| + sqrt(theta^2 + 1))`,
//! `c = 1 / sqrt(t^2 + 1)`, `s = t c`. Sweeps visit `p < q` row by row until no rotation is left
//! to do. Starting from the identity gives degenerate spectra a rule too: a pair that is already
//! diagonal is never rotated, so equal eigenvalues keep the coordinate axes they came with.

/// Sweeps after which convergence is given up. Blocks here need 4 to 12; the method converges
/// quadratically, so a block that needs 40 does not exist short of a defect.
const MAX_SWEEPS: usize = 40;

/// `2^-53`: an off-diagonal below this fraction of its diagonal pair cannot change the result.
const NEGLIGIBLE: f64 = 1.0 / 9_007_199_254_740_992.0;

/// Diagonalizes the symmetric `n x n` matrix `g` (both triangles given, row-major).
///
/// On success the diagonal of `g` holds the eigenvalues and row `k` of `frame` (`n x n`) the
/// unit eigenvector of `g[k][k]`. Returns `false` where the sweeps ran out.
pub(super) fn diagonalize(g: &mut [f64], frame: &mut [f64], n: usize) -> bool {
    frame.fill(0.0);
    for k in 0..n {
        frame[k * n + k] = 1.0;
    }
    let trace: f64 = (0..n).map(|k| g[k * n + k]).sum();
    // The Gram matrix itself carries errors of this order, so finer rotations resolve nothing;
    // without the floor a rank-deficient block would chase its own rounding noise.
    let floor = trace * NEGLIGIBLE / n as f64;
    for _ in 0..MAX_SWEEPS {
        let mut rotated = false;
        for p in 0..n {
            for q in p + 1..n {
                let (g_pp, g_pq, g_qq) = (g[p * n + p], g[p * n + q], g[q * n + q]);
                let off = g_pq.abs();
                if off <= floor || off <= NEGLIGIBLE * (g_pp.abs() * g_qq.abs()).sqrt() {
                    continue;
                }
                rotated = true;
                let theta = (g_qq - g_pp) / (2.0 * g_pq);
                let size = 1.0 / (theta.abs() + (theta * theta + 1.0).sqrt());
                let t = if theta < 0.0 { -size } else { size };
                let cos = 1.0 / (t * t + 1.0).sqrt();
                let sin = t * cos;
                let (row_p, row_q) = two_rows(g, p, q, n);
                rotate(row_p, row_q, cos, sin);
                // The 2 x 2 corner in closed form, which keeps the trace and the exact zero.
                row_p[p] = g_pp - t * g_pq;
                row_q[q] = g_qq + t * g_pq;
                row_p[q] = 0.0;
                row_q[p] = 0.0;
                for k in 0..n {
                    g[k * n + p] = g[p * n + k];
                    g[k * n + q] = g[q * n + k];
                }
                let (row_p, row_q) = two_rows(frame, p, q, n);
                rotate(row_p, row_q, cos, sin);
            }
        }
        if !rotated {
            return true;
        }
    }
    false
}

fn two_rows(matrix: &mut [f64], p: usize, q: usize, n: usize) -> (&mut [f64], &mut [f64]) {
    let (head, tail) = matrix.split_at_mut(q * n);
    (&mut head[p * n..p * n + n], &mut tail[..n])
}

fn rotate(row_p: &mut [f64], row_q: &mut [f64], cos: f64, sin: f64) {
    for (x, y) in row_p.iter_mut().zip(row_q) {
        (*x, *y) = (cos * *x - sin * *y, sin * *x + cos * *y);
    }
}
