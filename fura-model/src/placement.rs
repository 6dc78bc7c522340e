//! Where a batch's rows lie, checked against every capacity.

use crate::batch::Batch;
use crate::error::ModelError;
use crate::forward::Wanted;
use crate::workspace::{Row, Run, Workspace};

/// Lists all rows and the wanted ones with their runs, checking every capacity.
pub(crate) fn place_rows(
    batch: &Batch,
    wanted: Wanted,
    cache_rows: usize,
    ws: &mut Workspace,
) -> Result<(), ModelError> {
    let capacity = |what, asked, planned| {
        if asked <= planned { Ok(()) } else { Err(ModelError::Capacity { what, asked, planned }) }
    };
    capacity("rows of a batch", batch.rows(), ws.plan.rows)?;
    capacity("sequences of a batch", batch.sequences(), ws.plan.sequences)?;
    ws.all.clear();
    ws.all_runs.clear();
    ws.wanted.clear();
    ws.wanted_runs.clear();
    ws.wanted_index.clear();
    for (sequence, s) in batch.sequences.iter().enumerate() {
        capacity("positions of a sequence", s.past + s.len, ws.rope.positions())?;
        capacity("rows of the cache", s.store + s.len, cache_rows)?;
        for span in &batch.spans[s.spans.clone()] {
            capacity("rows of the cache", span.first + span.len, cache_rows)?;
        }
        capacity("spans of a sequence", s.spans.len(), ws.plan.sequences)?;
        let first = match wanted {
            Wanted::All => 0,
            Wanted::Last if !s.goes_on => s.len,
            Wanted::Last => s.len.saturating_sub(1),
        };
        extend(&mut ws.all_runs, s.member, ws.all.len(), s.len);
        if first < s.len {
            extend(&mut ws.wanted_runs, s.member, ws.wanted.len(), s.len - first);
        }
        for i in 0..s.len {
            let row = Row { position: s.past + i, store: s.store + i, sequence };
            if i >= first {
                ws.wanted.push(row);
                ws.wanted_index.push(ws.all.len());
            }
            ws.all.push(row);
        }
    }
    Ok(())
}

fn extend(runs: &mut Vec<Run>, member: u32, start: usize, len: usize) {
    match runs.last_mut() {
        Some(run) if run.member == member => run.end += len,
        _ => runs.push(Run { member, start, end: start + len }),
    }
}
