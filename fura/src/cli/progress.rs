//! Progress with an estimate of the time left, on standard error.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A progress line. Hidden with `--json` and when standard error is not a terminal.
pub(crate) struct Progress(ProgressBar);

impl Progress {
    pub(crate) fn new(what: &'static str, total: u64, json: bool) -> Self {
        let target = if json { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
        let bar = ProgressBar::with_draw_target(Some(total), target);
        let style = ProgressStyle::with_template("{prefix} {bar:30} {pos}/{len} {elapsed} left {eta} {msg}");
        if let Ok(style) = style {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_prefix(what);
        Self(bar)
    }

    /// Where counting starts, so that the estimate does not credit this session with earlier work.
    pub(crate) fn start_at(&self, done: u64) {
        self.0.set_position(done);
        self.0.reset_eta();
    }

    pub(crate) fn set(&self, done: u64, message: &str) {
        self.0.set_position(done);
        self.0.set_message(message.to_owned());
    }

    pub(crate) fn clear(&self) {
        self.0.finish_and_clear();
    }
}
