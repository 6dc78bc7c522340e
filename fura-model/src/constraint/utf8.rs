//! Ranges of characters as sequences of byte ranges.

/// Calls `emit` with sequences of byte ranges that together match the UTF-8 encodings of the characters from `low` to
/// `high`, without the surrogates, which have none.
pub(super) fn sequences(low: u32, high: u32, emit: &mut impl FnMut(&[(u8, u8)])) {
    // Within each of these the encodings have one length.
    for (first, last) in [(0, 0x7f), (0x80, 0x7ff), (0x800, 0xd7ff), (0xe000, 0xffff), (0x1_0000, 0x10_ffff)]
    {
        let (low, high) = (low.max(first), high.min(last));
        if low <= high {
            split(low, high, emit);
        }
    }
}

/// Cuts a range until each part is all combinations of one byte range a place.
fn split(low: u32, high: u32, emit: &mut impl FnMut(&[(u8, u8)])) {
    // Continuation bytes carry six bits; from the last place to the first.
    for bits in [6, 12, 18] {
        let mask = (1u32 << bits) - 1;
        if high > 0x7f && low & !mask != high & !mask {
            if low & mask != 0 {
                split(low, low | mask, emit);
                split((low | mask) + 1, high, emit);
                return;
            }
            if high & mask != mask {
                split(low, (high & !mask) - 1, emit);
                split(high & !mask, high, emit);
                return;
            }
        }
    }
    let (from, to) = (encode(low), encode(high));
    let mut ranges = [(0, 0); 4];
    for (range, (a, b)) in ranges.iter_mut().zip(from.1.iter().zip(to.1)) {
        *range = (*a, b);
    }
    emit(&ranges[..from.0]);
}

/// Length and bytes of a character's encoding.
fn encode(character: u32) -> (usize, [u8; 4]) {
    let mut bytes = [0; 4];
    // Surrogates are not in any range that is cut.
    let n = char::from_u32(character).map_or(0, |c| c.encode_utf8(&mut bytes).len());
    (n, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_match_exactly_the_encodings_of_a_range() {
        for (low, high) in [
            (0, 0x10_ffff),
            (0x41, 0x5a),
            (0x7f, 0x80),
            (0x3b1, 0x3c9),
            (0x7fe, 0x803),
            (0xd7f0, 0xe010),
            (0x1f300, 0x1f64f),
            (0x20, 0x10_fffe),
        ] {
            let mut found = Vec::new();
            sequences(low, high, &mut |s| found.push(s.to_vec()));
            for c in (0..=0x10_ffff).filter_map(char::from_u32) {
                let mut buffer = [0; 4];
                let bytes = c.encode_utf8(&mut buffer).as_bytes();
                let matches = found
                    .iter()
                    .filter(|s| {
                        s.len() == bytes.len()
                            && s.iter().zip(bytes).all(|((a, b), byte)| (a..=b).contains(&byte))
                    })
                    .count();
                assert_eq!(
                    matches,
                    usize::from((low..=high).contains(&u32::from(c))),
                    "{c:?} in {low:x}..={high:x}"
                );
            }
            for s in &found {
                // No sequence matches bytes that are no character.
                let lead = s[0].0;
                let n = if lead < 0x80 { 1 } else { lead.leading_ones() as usize };
                assert_eq!(n, s.len());
                assert!(s[1..].iter().all(|(a, b)| *a >= 0x80 && *b <= 0xbf && a <= b));
            }
        }
    }
}
