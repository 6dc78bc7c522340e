//! The output head: logits of the final states that a pass leaves in its workspace.

use crate::forward::Engine;
use crate::workspace::{Lane, Workspace};
use fura_quant::{ActivationRows, PackedMatrix, TILE};
use fura_simd::elementwise::soft_cap;
use rayon::prelude::*;

/// Rows of the head that are computed together.
pub(crate) const HEAD_ROWS: usize = 12;

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
                let x = self.head_codes(&ws.h, &[*row], lane);
                let share = head.tiles().div_ceil(self.threads());
                if share == head.tiles() {
                    head.multiply(self.isa(), x, 0..share, out, vocab);
                } else {
                    out.par_chunks_mut(share * TILE).enumerate().for_each(|(i, out)| {
                        let tiles = i * share..i * share + out.len().div_ceil(TILE);
                        head.multiply(self.isa(), x, tiles, out, out.len());
                    });
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
            let x = self.head_codes(h, rows, lane);
            head.multiply(self.isa(), x, 0..head.tiles(), out, vocab);
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
        let x = self.head_codes(&ws.h, &[row], &mut ws.lanes[0]);
        for (token, out) in tokens.iter().zip(out.iter_mut()) {
            let tile = *token as usize / TILE;
            let mut lanes = [0.0; TILE];
            head.multiply(self.isa(), x, tile..tile + 1, &mut lanes, TILE);
            *out = lanes[*token as usize % TILE];
        }
        self.cap_logits(out);
    }

    fn cap_logits(&self, logits: &mut [f32]) {
        if let Some(cap) = self.model().config().variant.logit_cap {
            soft_cap(self.isa(), logits, cap);
        }
    }

    /// Codes of the final states of at most [`HEAD_ROWS`] wanted rows. The head is the one place where an activation's
    /// rounding reaches the logits unaveraged: codes of 16 bits take a sixth off the divergence from exact activations, and
    /// cost decoding of one stream nothing, since reading the head's weights dominates.
    fn head_codes<'a>(&self, h: &[f32], rows: &[usize], lane: &'a mut Lane) -> ActivationRows<'a, i16> {
        let d = self.model().config().d_model;
        let states = &mut lane.input.transformed.rows[..rows.len() * d];
        for (row, state) in rows.iter().zip(states.chunks_exact_mut(d)) {
            state.copy_from_slice(&h[row * d..(row + 1) * d]);
        }
        lane.head_codes.quantize(self.isa(), states, d);
        lane.head_codes.view()
    }
}
