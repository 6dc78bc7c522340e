//! When do coordinates not rotate anything? Exact criteria, for changes of any size.

use super::{BlockFrame, Matrix};

/// The overlap graph of a matrix's block directions, whose components decide what rotates.
///
/// Its nodes are the coordinates whose direction has an image, `W e_k != 0`. Two of them are joined if their images
/// are not orthogonal; those of one block are, where the directions are its singular vectors. With `G = W^T W`:
///
/// - `M` commutes with `G` exactly if `c` is constant on every connected component. Then `W' = W (I + M)` has the
///   singular vectors of `W`, and nothing rotates.
/// - If `W` has full column rank and `1 + c > 0`, the converse holds for changes of any size and for the left and
///   the right frame alone: other coordinates rotate both.
/// - For a wide `W` the left frame may stay where the right one moves. `W = [D_1 D_2]` with diagonal blocks is an
///   example: it keeps the left frame for all coordinates, although the graph joins the blocks.
///
/// *Proof of the first.* In the basis of the directions, `G` has the entries `(W e_k)^T (W e_l)` and `M` is
/// `diag(c)`, so the commutator's entry `(k, l)` is `(c_k - c_l)` times that.
/// *Of the second.* If the right frame stays, `X G X` commutes with `G` for `X = I + M`; the positive solution of
/// `X G X = H` is `G^(-1/2) (G^(1/2) H G^(1/2))^(1/2) G^(-1/2)`, which then commutes with `G` too. If the left
/// frame stays, `X^2` commutes with `G`, hence `X` does.
///
/// The graph of generic weights with two or more blocks is connected: only uniform scaling leaves them unrotated.
///
/// ```
/// use fura_core::rotation::{BlockFrame, Matrix, OverlapGraph};
/// // Columns 0 and 2 share a row, column 1 has one of its own. Blocks of one channel.
/// let w = Matrix::from_rows(3, 3, &[1.0, 0.0, 2.0, 0.0, 3.0, 0.0, 1.0, 0.0, 1.0]);
/// let frame = BlockFrame::spectral(&w, 1)?;
/// let graph = OverlapGraph::new(&w, &frame, 1e-9);
/// assert_eq!(graph.components(), 2);
/// assert!(graph.keeps_frames(&[0.1, 0.5, 0.1]));
/// assert!(!graph.keeps_frames(&[0.1, 0.5, 0.2]));
/// # Ok::<(), fura_core::rotation::RotationError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OverlapGraph {
    component: Vec<Option<usize>>,
    components: usize,
}

impl OverlapGraph {
    /// The graph of `w` and the directions of `frame`. Images shorter than `tolerance` times the longest count as
    /// zero; two images are joined if their cosine is above `tolerance` and above what rounding makes of zero.
    ///
    /// # Panics
    /// If `w` has not as many columns as the frame has channels.
    pub fn new(w: &Matrix, frame: &BlockFrame, tolerance: f64) -> Self {
        let images = frame.images(w);
        let products = &images.transpose() * &images;
        let n = frame.channels();
        let length: Vec<f64> = (0..n).map(|k| products[(k, k)].max(0.0).sqrt()).collect();
        let longest = length.iter().fold(0.0f64, |a, b| a.max(*b));
        let rounding = (w.rows() + w.columns()) as f64 * f64::EPSILON * longest;
        let is_node: Vec<bool> = length.iter().map(|l| *l > tolerance * longest).collect();
        let mut component = vec![None; n];
        let mut components = 0;
        let mut stack = Vec::new();
        for start in (0..n).filter(|k| is_node[*k]) {
            if component[start].is_some() {
                continue;
            }
            component[start] = Some(components);
            stack.push(start);
            while let Some(k) = stack.pop() {
                for l in 0..n {
                    let joined = products[(k, l)].abs()
                        > tolerance * length[k] * length[l] + rounding * (length[k] + length[l]);
                    if is_node[l] && component[l].is_none() && joined {
                        component[l] = Some(components);
                        stack.push(l);
                    }
                }
            }
            components += 1;
        }
        Self { component, components }
    }

    /// Number of connected components.
    pub fn components(&self) -> usize {
        self.components
    }

    /// The component of coordinate `k`; `None` if it has no effect, its direction having no image.
    ///
    /// # Panics
    /// If there is no such coordinate.
    pub fn component(&self, k: usize) -> Option<usize> {
        self.component[k]
    }

    /// Whether `c` is constant on every component, which keeps both frames.
    ///
    /// # Panics
    /// If there is not one coordinate for each channel.
    pub fn keeps_frames(&self, c: &[f64]) -> bool {
        assert_eq!(c.len(), self.component.len(), "number of coordinates");
        let mut value = vec![None; self.components];
        (self.component.iter().zip(c)).all(|(component, c)| match component {
            Some(component) => *value[*component].get_or_insert(*c) == *c,
            None => true,
        })
    }
}

/// Bounds of every singular value of `W (I + M)` (A. Ostrowski; R. Horn and C. Johnson, *Matrix Analysis*, 4.5.9):
/// `min |1 + c| sigma_i <= sigma_i' <= max |1 + c| sigma_i`. So no direction from outside can come to dominate, and
/// small singular values keep their scale.
///
/// ```
/// let bounds = fura_core::rotation::ostrowski(&[4.0, 1.0], &[0.5, -0.25, 0.0]);
/// assert_eq!(bounds, [(3.0, 6.0), (0.75, 1.5)]);
/// ```
pub fn ostrowski(s: &[f64], c: &[f64]) -> Vec<(f64, f64)> {
    let factor = |c: &f64| (1.0 + c).abs();
    let least = c.iter().map(factor).fold(f64::INFINITY, f64::min);
    let most = c.iter().map(factor).fold(0.0, f64::max);
    s.iter().map(|s| (least * s, most * s)).collect()
}
