//! Checksums put right, so that what lies behind them is reached.

/// A pack with right checksums of its header and its sections, as far as it has them.
pub fn check_pack(mut pack: Vec<u8>) -> Vec<u8> {
    let Some(length) = pack.get(12..16) else { return pack };
    let header = u32::from_le_bytes([length[0], length[1], length[2], length[3]]) as usize;
    let start = (16 + header + 32).next_multiple_of(64);
    if pack.len() < start + 32 {
        return pack;
    }
    let hash = blake3::hash(&pack[16..16 + header]);
    pack[16 + header..16 + header + 32].copy_from_slice(hash.as_bytes());
    let end = pack.len() - 32;
    let hash = blake3::hash(&pack[start..end]);
    pack[end..].copy_from_slice(hash.as_bytes());
    pack
}

/// A run log whose records have the right tags, as far as there are whole ones.
pub fn tag_run_log(mut log: Vec<u8>) -> Vec<u8> {
    let mut at = 8;
    let Some(magic) = log.get(..8) else { return log };
    let mut tag: Vec<u8> = magic.to_vec();
    while let Some(length) = log.get(at..at + 4) {
        let length = u32::from_le_bytes([length[0], length[1], length[2], length[3]]) as usize;
        let end = at.saturating_add(5).saturating_add(length);
        if end.saturating_add(8) > log.len() {
            break;
        }
        tag.extend_from_slice(&log[at..end]);
        tag = blake3::hash(&tag).as_bytes()[..8].to_vec();
        log[end..end + 8].copy_from_slice(&tag);
        at = end + 8;
    }
    log
}
