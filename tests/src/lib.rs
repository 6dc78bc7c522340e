//! Shared parts of the workspace-level tests: an independent forward pass and small models.

pub mod forward;
pub mod reference;
pub mod rewrite;
pub mod tiny;
