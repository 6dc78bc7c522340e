//! Hostile headers of safetensors files.

use super::safetensors::parse;
use std::path::Path;

fn file(header: &str, data: usize) -> Vec<u8> {
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.resize(bytes.len() + data, 0);
    bytes
}

fn refused(bytes: &[u8]) -> String {
    let message = parse(bytes, Path::new("model.safetensors")).unwrap_err().to_string();
    assert!(message.starts_with("model.safetensors: ") && message.contains("byte"), "{message}");
    assert!(!message.contains('\n'), "{message}");
    message
}

const GOOD: &str = r#"{"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"BF16","shape":[1,3],"data_offsets":[8,14]}}"#;

#[test]
fn headers_that_contradict_themselves_or_the_file_are_refused() {
    let good = parse(&file(GOOD, 14), Path::new("m")).unwrap();
    let start = 8 + GOOD.len();
    assert_eq!((good[1].name.as_str(), good[1].range.clone()), ("b", start + 8..start + 14));
    for (from, to, expected) in [
        ("[8,14]", "[6,12]", "overlaps"),
        ("[0,8]", "[0,4]", "take 8 bytes"),
        ("[8,14]", "[9,15]", "the file has 14"),
        ("[8,14]", "[14,8]", "data from 14 to 8"),
        ("[1,3]", "[1,18446744073709551615]", "too large"),
        ("\"b\"", "\"a\"", "given twice"),
        ("BF16", "Q9", "unknown"),
        ("[1,3]", "[1,-3]", "invalid value"),
    ] {
        assert!(refused(&file(&GOOD.replace(from, to), 14)).contains(expected), "{from} {to}");
    }
    assert!(refused(&file(GOOD, 15)).contains("the file at"));
    assert!(refused(&[]).contains("header length"));
    assert!(refused(&u64::MAX.to_le_bytes()).contains("header length"));
}

/// Any byte of the header, any value: an error or tensors that lie in the file.
#[test]
fn damaged_headers_never_panic() {
    let good = file(GOOD, 14);
    for at in 0..good.len() - 14 {
        for value in [0, b'"', b'{', b'9', b']', 0xff, good[at] ^ 1] {
            let mut bytes = good.clone();
            bytes[at] = value;
            for bytes in [&bytes[..], &bytes[..at]] {
                if let Ok(tensors) = parse(bytes, Path::new("m")) {
                    assert!(tensors.iter().all(|t| t.range.end <= bytes.len()));
                }
            }
        }
    }
}

/// As the format's own library has it, which is asked too.
#[test]
fn padding_order_and_holes_of_a_header_are_judged_as_by_the_reference() {
    let swapped = r#"{"b":{"dtype":"BF16","shape":[1,3],"data_offsets":[8,14]},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}"#;
    let empty =
        GOOD.replace("\"b\":", "\"e\":{\"dtype\":\"F32\",\"shape\":[0,4],\"data_offsets\":[8,8]},\"b\":");
    for (header, data, is_good) in [
        (GOOD.to_owned() + "      ", 14, true),
        ("  ".to_owned() + GOOD, 14, true),
        (swapped.to_owned(), 14, true),
        (empty, 14, true),
        (GOOD.replace("[0,8]", "[8,16]").replace("[8,14]", "[16,22]"), 22, false),
        (GOOD.replace("[8,14]", "[12,18]"), 18, false),
        (GOOD.replace("[8,14]", "[0,6]"), 8, false),
        (GOOD.replace("\"a\"", "\"\u{e9}\""), 14, true),
    ] {
        let bytes = file(&header, data);
        assert_eq!(parse(&bytes, Path::new("m")).is_ok(), is_good, "{header}");
        assert_eq!(safetensors::SafeTensors::deserialize(&bytes).is_ok(), is_good, "{header}");
    }
    let mut bytes = file(&GOOD.replace("\"a\"", "\"zz\""), 14);
    let at = bytes.windows(2).position(|w| w == b"zz").unwrap();
    bytes[at] = 0xff;
    assert!(refused(&bytes).contains("model.safetensors"));
}
