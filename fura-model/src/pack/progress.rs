//! Who is told how far a pack is, and may end it.

use super::Callback;
use crate::error::ModelError;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// A caller's callback as the threads that make a pack share it.
pub(super) struct Progress<'a, 'c> {
    file: &'a Path,
    total: usize,
    /// Empty once it has ended the work.
    callback: Mutex<Option<&'a mut Callback<'c>>>,
}

impl<'a, 'c> Progress<'a, 'c> {
    pub(super) fn new(file: &'a Path, total: usize, callback: &'a mut Callback<'c>) -> Self {
        Self { file, total, callback: Mutex::new(Some(callback)) }
    }

    /// Tells that `done` matrices are done.
    ///
    /// # Errors
    /// [`ModelError::Interrupted`] if the caller wants no more of it.
    pub(super) fn report(&self, done: usize) -> Result<(), ModelError> {
        // A callback that panicked on another thread ends the work with that panic.
        let mut callback = self.callback.lock().unwrap_or_else(PoisonError::into_inner);
        let goes_on =
            callback.as_mut().is_some_and(|call| call(done, self.total) == ControlFlow::Continue(()));
        if !goes_on {
            *callback = None;
            return Err(ModelError::Interrupted { file: self.file.to_owned() });
        }
        Ok(())
    }
}
