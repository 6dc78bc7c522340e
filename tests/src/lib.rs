//! Shared parts of the workspace-level tests: an independent forward pass, small models and members.

pub mod forward;
pub mod mixed;
pub mod reference;
pub mod rewrite;
pub mod tiny;
