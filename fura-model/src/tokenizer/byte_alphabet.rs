//! GPT-2's alphabet: one printable character for each of the 256 byte values.
//!
//! Vocabularies spell tokens in it, so that any bytes are readable text without spaces. Printable Latin-1
//! characters stand for themselves; the other 68 byte values, in order, are the characters from U+0100.
//! Source: `bytes_to_unicode` in `encoder.py` of `openai/gpt-2`.

/// The character of each byte value.
pub(super) fn alphabet() -> [char; 256] {
    let mut next = 0x100_u32;
    std::array::from_fn(|byte| {
        let byte = byte as u8;
        match byte {
            b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff => char::from(byte),
            _ => {
                next += 1;
                // 0x100 to 0x143, all of them characters.
                char::from_u32(next - 1).unwrap_or(char::REPLACEMENT_CHARACTER)
            }
        }
    })
}

/// The bytes that `text` spells in the alphabet; `None` if it holds any other character.
pub(super) fn decode(text: &str) -> Option<Vec<u8>> {
    text.chars().map(byte).collect()
}

fn byte(c: char) -> Option<u8> {
    match u32::from(c) {
        code @ (0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff) => u8::try_from(code).ok(),
        // The gaps, in order: 0x00-0x20, 0x7f-0xa0, 0xad.
        code @ 0x100..=0x120 => u8::try_from(code - 0x100).ok(),
        code @ 0x121..=0x142 => u8::try_from(code - 0x121 + 0x7f).ok(),
        0x143 => Some(0xad),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decode_inverts_the_alphabet() {
        for (byte, c) in (0..=u8::MAX).zip(alphabet()) {
            assert_eq!(decode(&c.to_string()), Some(vec![byte]));
        }
    }

    #[test]
    fn space_and_newline_have_their_well_known_letters() {
        assert_eq!((alphabet()[0x20], alphabet()[0x0a]), ('\u{120}', '\u{10a}'));
    }

    #[test]
    fn other_characters_are_not_in_the_alphabet() {
        for text in [" ", "\u{ad}", "\u{144}", "\u{4e2d}", "a b"] {
            assert_eq!(decode(text), None);
        }
    }
}
