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
    // 2^64 - 5 and the like wrap around where 8 bytes more are added.
    for length in [u64::MAX, u64::MAX - 4, u64::MAX - 7, u64::MAX - 8, 1 << 63, 101 << 20] {
        let mut bytes = file(GOOD, 14);
        bytes[..8].copy_from_slice(&length.to_le_bytes());
        assert!(refused(&bytes).contains("header length"), "{length}");
        assert!(safetensors::SafeTensors::deserialize(&bytes).is_err(), "{length}");
    }
}

/// One file for each error that the format's own library names: it refuses the file so, and we do.
#[test]
fn every_error_of_the_reference_is_one_here() {
    use safetensors::SafeTensorError as Reference;
    let reference = |bytes: &[u8]| safetensors::SafeTensors::deserialize(bytes).unwrap_err();
    let changed = |from: &str, to: &str| {
        assert!(GOOD.contains(from), "{from}");
        file(&GOOD.replace(from, to), 14)
    };
    let with_length = |length: u64| {
        let mut bytes = file(GOOD, 14);
        bytes[..8].copy_from_slice(&length.to_le_bytes());
        bytes
    };
    let mut no_text = file(GOOD, 14);
    no_text[8 + 2] = 0xff;
    type Is = fn(&Reference) -> bool;
    let cases: [(Vec<u8>, Is); 9] = [
        (vec![0; 7], |e| matches!(e, Reference::HeaderTooSmall)),
        (with_length(100_000_001), |e| matches!(e, Reference::HeaderTooLarge)),
        (with_length(99_999_999), |e| matches!(e, Reference::InvalidHeaderLength)),
        (no_text, |e| matches!(e, Reference::InvalidHeader(_))),
        (changed("}}", "}"), |e| matches!(e, Reference::InvalidHeaderDeserialization(_))),
        (changed("[8,14]", "[9,15]"), |e| matches!(e, Reference::InvalidOffset(_))),
        (file(GOOD, 13), |e| matches!(e, Reference::MetadataIncompleteBuffer)),
        (changed("[1,3]", "[4294967296,4294967296]"), |e| matches!(e, Reference::ValidationOverflow)),
        (changed("[0,8]", "[0,4]"), |e| {
            matches!(e, Reference::TensorInvalidInfo | Reference::InvalidOffset(_))
        }),
    ];
    for (i, (bytes, is)) in cases.iter().enumerate() {
        let theirs = reference(bytes);
        assert!(is(&theirs), "case {i}: {theirs:?}");
        refused(bytes);
    }
    // Half a byte: a type that is read by nobody here.
    let nibbles = changed("\"BF16\",\"shape\":[1,3]", "\"F4\",\"shape\":[1,3]");
    assert!(matches!(reference(&nibbles), Reference::MisalignedSlice), "{:?}", reference(&nibbles));
    assert!(refused(&nibbles).contains("'F4' is unknown"));
}

/// The divisors of Llama 3.1 (factor 8) and 3.2 (factor 32) for heads of 64, by transformers 5.24.0 in f32: its plain
/// frequencies over its scaled ones (`scripts/golden/llama3_divisors.py`).
#[test]
fn divisors_are_those_of_llama_3() {
    let golden: serde_json::Value =
        serde_json::from_str(include_str!("../../../tests/golden/llama3_divisors.json")).unwrap();
    for case in golden.as_array().unwrap() {
        let members = case["rope"].as_object().unwrap().clone();
        let mut fields = super::fields::Fields::new(Path::new("config.json"), "rope_scaling.", members);
        let ours = super::config::llama3_divisors(&mut fields, 500_000.0, 64, 8192).unwrap();
        let theirs = case["divisors"].as_array().unwrap();
        assert_eq!((ours.len(), theirs.len()), (32, 32));
        for (ours, theirs) in ours.iter().zip(theirs) {
            let theirs = theirs.as_f64().unwrap();
            // Four roundings of f32 on their side, one on ours.
            assert!((f64::from(*ours) / theirs - 1.0).abs() < 5.0 * 2f64.powi(-24), "{ours} {theirs}");
        }
        // Not the reciprocal of the mean, which an early version of the formula gave.
        assert!(ours.windows(2).all(|pair| pair[0] <= pair[1]), "{ours:?}");
        assert_eq!((ours[0], ours[31]), (1.0, case["rope"]["factor"].as_f64().unwrap() as f32));
    }
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
