//! Making directory entries survive a power cut.

use std::io;
use std::path::Path;

/// The directory `path` lies in.
pub(crate) fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Flushes the directory entry of `path` to the device.
#[cfg(unix)]
pub(crate) fn sync_entry(path: &Path) -> io::Result<()> {
    std::fs::File::open(parent(path))?.sync_all()
}

/// Elsewhere a directory cannot be opened and flushed; the system orders its own metadata.
#[cfg(not(unix))]
pub(crate) fn sync_entry(_path: &Path) -> io::Result<()> {
    Ok(())
}
