//! Workspace-level tests of fura.
