//! The next token of each of several sequences.

use super::Finish;
use super::slot::Slot;
use crate::buffer::Buffer;
use crate::forward::Engine;
use crate::logits::HEAD_ROWS;
use crate::model::Model;
use crate::sampling::Sampler;
use crate::workspace::Workspace;

/// Allowed tokens up to which only their own logits are computed.
const FEW: usize = 64;

/// Buffers of choices.
#[derive(Debug)]
pub(super) struct Chooser {
    sampler: Sampler,
    logits: Buffer<f32>,
    /// Rows of the head that are computed together.
    together: usize,
}

/// Called with the index of a sequence, the sequence, the token it took (none if that ended it), and why it ends, if
/// it does.
type Took<'c, 'm> = &'c mut dyn FnMut(usize, &mut Slot<'m>, Option<u32>, Option<Finish>);

impl Chooser {
    /// Buffers for up to `sequences` sequences at once.
    pub(super) fn new(model: &Model, sequences: usize) -> Self {
        let together = sequences.clamp(1, HEAD_ROWS);
        Self { sampler: Sampler::default(), logits: Buffer::new(together * model.config().vocab), together }
    }

    /// Chooses a token for each pair of a wanted row of the last pass and a slot.
    pub(super) fn choose<'m>(
        &mut self,
        engine: &Engine<'_>,
        ws: &mut Workspace,
        ready: &[(usize, usize)],
        slots: &mut [Slot<'m>],
        took: Took<'_, 'm>,
    ) {
        let vocab = engine.model().config().vocab;
        let tokenizer = engine.model().tokenizer();
        for ready in ready.chunks(self.together) {
            let mut rows = [0; HEAD_ROWS];
            let mut n = 0;
            for (row, i) in ready {
                if slots[*i].constraint.as_mut().is_none_or(|c| c.allowed().len() > FEW) {
                    rows[n] = *row;
                    n += 1;
                }
            }
            engine.logits_of_rows(ws, &rows[..n], &mut self.logits[..n * vocab]);
            let mut all = self.logits.chunks_exact(vocab);
            for (row, i) in ready {
                let slot = &mut slots[*i];
                let token = one(engine, ws, &mut self.sampler, *row, slot, &mut all);
                let finish = slot.take(token, tokenizer);
                took(*i, slot, token.filter(|t| !tokenizer.is_stop(*t)), finish);
            }
        }
    }
}

/// The next token of one sequence; `None` if there is none that may follow.
fn one<'l>(
    engine: &Engine<'_>,
    ws: &mut Workspace,
    sampler: &mut Sampler,
    row: usize,
    slot: &mut Slot<'_>,
    all: &mut impl Iterator<Item = &'l [f32]>,
) -> Option<u32> {
    let isa = engine.isa();
    let (sampling, step) = (slot.request.sampling, slot.step());
    let Some(c) = &mut slot.constraint else {
        let logits = all.next().unwrap_or_default().iter().copied();
        return sampler.choose(isa, &sampling, step, (0..).zip(logits));
    };
    let ends = if c.is_complete() { engine.model().tokenizer().stop_ids() } else { &[] };
    let allowed = c.allowed();
    if allowed.len() > FEW {
        let logits = all.next().unwrap_or_default();
        let logit = |t: &u32| (*t, logits[*t as usize]);
        return sampler.choose(
            isa,
            &sampling,
            step,
            merge(allowed.iter().map(logit), ends.iter().map(logit)),
        );
    }
    let mut logits = [0.0; FEW];
    let logits = &mut logits[..allowed.len()];
    engine.logits_of(ws, row, allowed, logits);
    let text = allowed.iter().copied().zip(logits.iter().copied());
    let ends = ends.iter().map(|t| {
        let mut logit = [0.0];
        engine.logits_of(ws, row, &[*t], &mut logit);
        (*t, logit[0])
    });
    sampler.choose(isa, &sampling, step, merge(text, ends))
}

/// Two ascending lists as one.
fn merge(
    a: impl Iterator<Item = (u32, f32)>,
    b: impl Iterator<Item = (u32, f32)>,
) -> impl Iterator<Item = (u32, f32)> {
    let (mut a, mut b) = (a.peekable(), b.peekable());
    std::iter::from_fn(move || match (a.peek(), b.peek()) {
        (Some(x), Some(y)) if y.0 < x.0 => b.next(),
        (Some(_), _) => a.next(),
        (None, _) => b.next(),
    })
}
