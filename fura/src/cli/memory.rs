//! Private memory of this process, as the operating system counts it.

/// Largest private memory seen, sampled where [`Peak::sample`] is called.
#[derive(Default)]
pub(crate) struct Peak(Option<u64>);

impl Peak {
    pub(crate) fn sample(&mut self) {
        self.0 = self.0.max(private_bytes());
    }

    /// Bytes; `None` where the system does not tell.
    pub(crate) fn bytes(&self) -> Option<u64> {
        self.0
    }
}

/// Anonymous resident memory: what this process alone holds, without the memory-mapped model.
pub(crate) fn private_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("RssAnon:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}
