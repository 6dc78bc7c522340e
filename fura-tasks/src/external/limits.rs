//! Limits of what a command may take from the machine.

use std::io;

use super::{ExternalError, ExternalSpec};

/// Sets the limits of a spec for a process that runs.
pub(super) fn set(process: u32, spec: &ExternalSpec) -> Result<(), ExternalError> {
    let limits = [
        ("memory_bytes", spec.memory_bytes, Limit::Memory),
        ("cpu_seconds", spec.cpu_seconds, Limit::Processor),
    ];
    for (field, value, limit) in limits {
        if let Some(value) = value {
            set_one(process, limit, value).map_err(|source| ExternalError::Resource { field, source })?;
        }
    }
    Ok(())
}

#[derive(Debug, Clone, Copy)]
enum Limit {
    Memory,
    Processor,
}

#[cfg(target_os = "linux")]
fn set_one(process: u32, limit: Limit, value: u64) -> io::Result<()> {
    use rustix::process::{Pid, Resource, Rlimit, prlimit};
    let resource = match limit {
        Limit::Memory => Resource::As,
        Limit::Processor => Resource::Cpu,
    };
    let pid = Pid::from_raw(process.cast_signed());
    // Without a process the call would limit this program itself.
    let pid = pid.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
    prlimit(Some(pid), resource, Rlimit { current: Some(value), maximum: Some(value) })?;
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn set_one(_: u32, _: Limit, _: u64) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
