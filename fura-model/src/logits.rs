//! The output head: logits of the final states that a pass leaves in its workspace.

use crate::forward::Engine;
use crate::workspace::{Lane, Workspace};
use fura_quant::{ActivationRows, GROUP, PackedMatrix, TILE};
use fura_simd::elementwise::soft_cap;
use rayon::prelude::*;

/// Rows of the head that are computed together.
pub(crate) const HEAD_ROWS: usize = 12;
/// Numbers that are computed together: two for each of twelve tiles of that many rows, or of more tiles of fewer.
const PARTS: usize = 2 * HEAD_ROWS * 12 * TILE;

impl Engine<'_> {
    /// Logits over the vocabulary of wanted row `row` of the last pass.
    ///
    /// # Panics
    /// If there is no such row or `out` is not as long as the vocabulary.
    pub fn logits(&self, ws: &mut Workspace, row: usize, out: &mut [f32]) {
        self.logits_of_rows(ws, &[row], out);
    }

    /// Logits over the vocabulary of several wanted rows, one row of `out` after the other: the bits of
    /// [`Engine::logits`], the head's weights being read once for up to 12 rows.
    ///
    /// # Panics
    /// If there is no such row or `out` is not as long as all of their vocabularies.
    pub fn logits_of_rows(&self, ws: &mut Workspace, rows: &[usize], out: &mut [f32]) {
        let head = self.model().head();
        let vocab = head.d_out();
        assert_eq!(out.len(), rows.len() * vocab, "one logit for each token of the vocabulary and each row");
        assert!(rows.iter().all(|row| *row < ws.wanted.len()), "no such row in the last pass");
        ws.need_lanes(self.model(), self.threads());
        let lanes = &mut ws.lanes[..self.threads()];
        match rows {
            [row] => {
                let [lane, ..] = lanes else { return };
                self.quantize_twice(&ws.h, &[*row], lane);
                let x = lane.input.codes[0].view();
                let share = head.tiles().div_ceil(self.threads());
                if share == head.tiles() {
                    self.head_tiles(&head, x, 0, out);
                } else {
                    out.par_chunks_mut(share * TILE)
                        .enumerate()
                        .for_each(|(i, out)| self.head_tiles(&head, x, i * share, out));
                }
            }
            _ => self.head_rows(&head, &ws.h, rows, lanes, out),
        }
        self.cap_logits(out);
    }

    /// Logits of rows, which are split over threads.
    fn head_rows(
        &self,
        head: &PackedMatrix<'_>,
        h: &[f32],
        rows: &[usize],
        lanes: &mut [Lane],
        out: &mut [f32],
    ) {
        let vocab = head.d_out();
        if lanes.len() > 1 && rows.len() > 1 {
            let (left, right) = lanes.split_at_mut(lanes.len() / 2);
            let at = rows.len() * left.len() / (left.len() + right.len());
            let ((first, second), (out, rest)) = (rows.split_at(at), out.split_at_mut(at * vocab));
            rayon::join(
                || self.head_rows(head, h, first, left, out),
                || self.head_rows(head, h, second, right, rest),
            );
            return;
        }
        let [lane, ..] = lanes else { return };
        for (rows, out) in rows.chunks(HEAD_ROWS).zip(out.chunks_mut(HEAD_ROWS * vocab)) {
            self.quantize_twice(h, rows, lane);
            self.head_tiles(head, lane.input.codes[0].view(), 0, out);
        }
    }

    /// Logits of some tokens only, for wanted row `row`: the same bits as [`Engine::logits`] gives them.
    ///
    /// # Panics
    /// If there is no such row, a token is outside the vocabulary, or the lengths differ.
    pub fn logits_of(&self, ws: &mut Workspace, row: usize, tokens: &[u32], out: &mut [f32]) {
        assert_eq!(tokens.len(), out.len(), "one logit for each token");
        let head = self.model().head();
        assert!(row < ws.wanted.len(), "no such row in the last pass");
        let lane = &mut ws.lanes[0];
        self.quantize_twice(&ws.h, &[row], lane);
        for (token, out) in tokens.iter().zip(out.iter_mut()) {
            let tile = *token as usize / TILE;
            let mut lanes = [0.0; TILE];
            let width = TILE.min(head.d_out() - tile * TILE);
            self.head_tile(&head, lane.input.codes[0].view(), tile, &mut lanes[..width]);
            *out = lanes[*token as usize % TILE];
        }
        self.cap_logits(out);
    }

    fn cap_logits(&self, logits: &mut [f32]) {
        if let Some(cap) = self.model().config().variant.logit_cap {
            soft_cap(self.isa(), logits, cap);
        }
    }

    /// Codes of the final states of wanted rows, and after each row's those of what its codes leave over. The head is the
    /// one place where an activation's rounding reaches the logits unaveraged; a second int8 row costs decoding little,
    /// since reading the head's weights dominates, and takes a sixth off the divergence from exact activations.
    fn quantize_twice(&self, h: &[f32], rows: &[usize], lane: &mut Lane) {
        let d = self.model().config().d_model;
        let [codes, ..] = &mut lane.input.codes;
        let pairs = &mut lane.head_rows[..2 * rows.len() * d];
        for (row, pair) in rows.iter().zip(pairs.chunks_exact_mut(2 * d)) {
            let (state, rest) = pair.split_at_mut(d);
            state.copy_from_slice(&h[row * d..(row + 1) * d]);
            codes.quantize(self.isa(), state, d);
            for (g, (state, rest)) in state.chunks_exact(GROUP).zip(rest.chunks_exact_mut(GROUP)).enumerate()
            {
                let group = codes.view().group(0, g);
                for ((rest, x), code) in rest.iter_mut().zip(state).zip(&group.codes) {
                    *rest = x - group.scale * f32::from(*code);
                }
            }
        }
        codes.quantize(self.isa(), pairs, d);
    }

    /// Logits from tile `first` on, for each pair of rows of codes a row of `out`. Some tiles at a time, since a row's two
    /// parts have to be added.
    fn head_tiles(&self, head: &PackedMatrix<'_>, x: ActivationRows<'_>, first: usize, out: &mut [f32]) {
        let mut parts = [0.0; PARTS];
        let n = x.rows() / 2;
        let width = out.len() / n;
        let most = PARTS / (2 * n * TILE) * TILE;
        for start in (0..width).step_by(most) {
            let len = most.min(width - start);
            let tiles = first + start / TILE..first + (start + len).div_ceil(TILE);
            let parts = &mut parts[..2 * n * len];
            head.multiply(self.isa(), x, tiles, parts, len);
            for (out, parts) in out.chunks_exact_mut(width).zip(parts.chunks_exact(2 * len)) {
                let (codes, rest) = parts.split_at(len);
                for ((out, code), rest) in out[start..start + len].iter_mut().zip(codes).zip(rest) {
                    *out = code + rest;
                }
            }
        }
    }

    /// Logits of one tile and one row: those of the codes plus those of the rest.
    fn head_tile(&self, head: &PackedMatrix<'_>, x: ActivationRows<'_>, tile: usize, out: &mut [f32]) {
        let mut lanes = [0.0; 2 * TILE];
        head.multiply(self.isa(), x, tile..tile + 1, &mut lanes, TILE);
        for (i, out) in out.iter_mut().enumerate() {
            *out = lanes[i] + lanes[TILE + i];
        }
    }
}
