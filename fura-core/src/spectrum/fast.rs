//! faer's symmetric eigensolver, for wide blocks.
//!
//! Called as faer's own decomposition is in `linalg.rs`: sequentially, and on scaled matrices.

use faer::diag::DiagMut;
use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::evd::{ComputeEigenvectors, self_adjoint_evd, self_adjoint_evd_scratch};
use faer::{MatMut, MatRef, Par};

/// Workspace for matrices up to some size.
#[derive(Default)]
pub(super) struct FastSolver {
    scratch: Option<(usize, MemBuffer)>,
}

impl FastSolver {
    /// Eigenvalues (ascending) of the symmetric `n x n` matrix `g` to `values`, their unit
    /// eigenvectors to the rows of `frame`. Returns `false` where faer did not converge.
    ///
    /// Sequential, and allocates only when `n` exceeds every earlier call's.
    pub(super) fn diagonalize(
        &mut self,
        g: &mut [f64],
        frame: &mut [f64],
        values: &mut [f64],
        n: usize,
    ) -> bool {
        let need = self_adjoint_evd_scratch::<f64>(n, ComputeEigenvectors::Yes, Par::Seq, Default::default());
        let size = need.size_bytes();
        if self.scratch.as_ref().is_none_or(|(held, _)| *held < size) {
            self.scratch = Some((size, MemBuffer::new(need)));
        }
        let Some((_, buffer)) = &mut self.scratch else {
            return false;
        };
        // Divide and conquer loses digits far from unit scale. Powers of two scale exactly (squares
        // of f32 stay far from the subnormals of f64), so `g` is left as it came should the
        // canonical solver have to take over.
        let trace: f64 = (0..n).map(|k| g[k * n + k]).sum();
        let exponent = if trace > 0.0 { libm::ilogb(trace) } else { 0 };
        let (down, up) = (libm::scalbn(1.0, -exponent), libm::scalbn(1.0, exponent));
        g.iter_mut().for_each(|x| *x *= down);
        let result = self_adjoint_evd(
            MatRef::from_row_major_slice(g, n, n),
            DiagMut::from_slice_mut(&mut *values),
            // Column k of a column-major matrix is row k of ours.
            Some(MatMut::from_column_major_slice_mut(frame, n, n)),
            Par::Seq,
            MemStack::new(buffer),
            Default::default(),
        );
        g.iter_mut().for_each(|x| *x *= up);
        values.iter_mut().for_each(|value| *value *= up);
        result.is_ok()
    }
}
