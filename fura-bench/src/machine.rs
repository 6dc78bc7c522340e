//! What a result file says about the machine it was measured on.

use fura_simd::Isa;
use serde_json::{Value, json};
use std::fs;

/// Processor, board, memory and instruction sets, as far as the system tells.
pub fn describe() -> Value {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    json!({
        "cpu": cpu(&info),
        // Boards name themselves in the device tree; the string ends with a zero byte.
        "board": fs::read_to_string("/proc/device-tree/model").ok().map(|m| m.trim_end_matches('\0').to_owned()),
        "architecture": std::env::consts::ARCH,
        "os": std::env::consts::OS,
        "cores": std::thread::available_parallelism().map_or(1, usize::from),
        "memory": fs::read_to_string("/proc/meminfo").ok().and_then(|m| field(&m, "MemTotal").map(str::to_owned)),
        "tiers": Isa::available().map(|isa| isa.tier().name()).collect::<Vec<_>>(),
        "fura": env!("CARGO_PKG_VERSION"),
    })
}

/// The model name; on ARM64, where Linux gives none, the distinct implementer and part numbers of the cores.
fn cpu(info: &str) -> Option<String> {
    if let Some(name) = field(info, "model name") {
        return Some(name.to_owned());
    }
    let mut cores = Vec::new();
    for core in info.split("\n\n") {
        if let (Some(implementer), Some(part)) = (field(core, "CPU implementer"), field(core, "CPU part")) {
            let name = format!("implementer {implementer} part {part}");
            if !cores.contains(&name) {
                cores.push(name);
            }
        }
    }
    if cores.is_empty() { None } else { Some(cores.join(", ")) }
}

/// The value of the first line `name : value`.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_are_named_by_model_or_by_part() {
        let x86 = "processor\t: 0\nmodel name\t: Some CPU @ 1 GHz\n\nprocessor\t: 1\nmodel name\t: Some CPU @ 1 GHz\n";
        assert_eq!(cpu(x86).unwrap(), "Some CPU @ 1 GHz");
        let core = |part| format!("processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: {part}\n\n");
        let board = core("0xd05") + &core("0xd05") + &core("0xd0b");
        assert_eq!(cpu(&board).unwrap(), "implementer 0x41 part 0xd05, implementer 0x41 part 0xd0b");
        assert_eq!(cpu(""), None);
    }
}
