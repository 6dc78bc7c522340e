//! The specialist file: round trips, refusals, hostile bytes.

use std::path::Path;

use fura_core::fingerprint::Fingerprint;
use fura_core::layout::{BlockRule, Layout, Linear};
use fura_core::specialist::{Provenance, Specialist, SpecialistError};
use proptest::prelude::*;

fn layout() -> Layout {
    let linears = [Linear::new("z.first", 3, 5), Linear::new("a \"quoted\"\n", 2, 4)];
    Layout::new(2, linears).unwrap()
}

fn base() -> Fingerprint {
    Fingerprint::of(b"model")
}

fn specialist() -> Specialist {
    let coordinates = (0..9).map(|i| 0.1 * i as f32 - 0.4).collect();
    let provenance = Provenance { name: "phone".into(), task: "a task".into(), created_by: "test".into() };
    Specialist::new(base(), layout(), coordinates, provenance).unwrap()
}

fn read(bytes: &[u8]) -> Result<Specialist, SpecialistError> {
    Specialist::from_bytes(bytes, Path::new("test.safetensors"))
}

/// The file with its JSON header edited and its length field made right.
fn edited(edit: impl FnOnce(String) -> String) -> Vec<u8> {
    let bytes = specialist().to_bytes();
    let n = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let header = edit(String::from_utf8(bytes[8..8 + n].to_vec()).unwrap());
    let mut out = (header.len() as u64).to_le_bytes().to_vec();
    out.extend(header.as_bytes());
    out.extend(&bytes[8 + n..]);
    out
}

fn message(bytes: &[u8]) -> String {
    let text = read(bytes).unwrap_err().to_string();
    assert!(!text.contains('\n'), "{text}");
    text
}

#[test]
fn saving_and_loading_keep_everything() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("s.safetensors");
    std::fs::write(&path, "something older").unwrap();
    specialist().save(&path).unwrap();
    assert_eq!(Specialist::load(&path).unwrap(), specialist());
    assert_eq!(std::fs::read(&path).unwrap(), specialist().to_bytes());
    let left: Vec<_> = std::fs::read_dir(directory.path()).unwrap().collect();
    assert_eq!(left.len(), 1, "no temporary file stays behind");
}

#[test]
fn any_safetensors_reader_sees_one_tensor_per_linear() {
    let bytes = specialist().to_bytes();
    let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    assert_eq!(file.len(), 2);
    let tensor = file.tensor("z.first").unwrap();
    assert_eq!((tensor.dtype(), tensor.shape()), (safetensors::Dtype::F32, &[5][..]));
    assert_eq!(tensor.data()[..4], (-0.4f32).to_le_bytes());
    let header = u64::from_le_bytes(bytes[..8].try_into().unwrap());
    assert_eq!(header % 8, 0);
}

#[test]
fn only_the_very_base_is_accepted() {
    let s = specialist();
    s.check_base(&base(), &layout()).unwrap();
    let message = |fingerprint, layout: &Layout| {
        let text = s.check_base(&fingerprint, layout).unwrap_err().to_string();
        assert!(!text.contains('\n'), "{text}");
        text
    };
    let other = Fingerprint::of(b"other");
    let text = message(other, &layout());
    assert!(text.contains(&other.to_string()) && text.contains(&base().to_string()));
    let linears = || layout().linears().to_vec();
    let block = Layout::new(3, linears()).unwrap();
    assert!(message(base(), &block).contains("block size is 2"));
    let mut reversed = linears();
    reversed.reverse();
    assert!(message(base(), &Layout::new(2, reversed).unwrap()).contains("where this model lists"));
    let mut reshaped = linears();
    reshaped[0].d_out = 7;
    assert!(message(base(), &Layout::new(2, reshaped).unwrap()).contains("3 x 5"));
    let renamed = (0..9).map(|i| Linear::new(format!("m{i}"), 1, 1));
    let text = message(base(), &Layout::new(2, renamed).unwrap());
    assert!(text.contains("z.first") && text.contains("m3") && text.contains("5 more"));
    // Blocks that differ in one linear, though not in their largest size.
    let rules = |first| linears().into_iter().zip([BlockRule::Size(first), BlockRule::Size(2)]);
    let other = Layout::with_rules(rules(1)).unwrap();
    assert!(message(base(), &other).contains("are 2 wide in it, 1 in this model"));
    // A part of the model is no match either.
    let subset = Layout::new(2, linears().into_iter().take(1)).unwrap();
    assert!(message(base(), &subset).contains("quoted"));
}

#[test]
fn absurd_values_are_refused_by_name_and_index() {
    for bad in [f32::NAN, f32::INFINITY, 1.0, -1.0, 1e30] {
        let mut bytes = specialist().to_bytes();
        let at = bytes.len() - 8; // second to last: channel 2 of the second linear
        bytes[at..at + 4].copy_from_slice(&bad.to_le_bytes());
        match read(&bytes) {
            Err(SpecialistError::Value { tensor, index, .. }) => {
                assert_eq!((tensor.as_str(), index), ("a \"quoted\"\n", 2));
            }
            other => panic!("{bad}: {other:?}"),
        }
    }
    let short = Specialist::new(base(), layout(), vec![0.0; 8], Provenance::default());
    assert!(matches!(short, Err(SpecialistError::Length { found: 8, expected: 9 })));
}

#[test]
fn a_file_cut_anywhere_is_refused() {
    let bytes = specialist().to_bytes();
    for cut in 0..bytes.len() {
        assert!(matches!(read(&bytes[..cut]), Err(SpecialistError::Container { .. })), "{cut}");
    }
    assert!(matches!(read(&[&bytes[..], b"x"].concat()), Err(SpecialistError::Container { .. })));
}

#[test]
fn a_header_length_beyond_the_file_allocates_nothing() {
    for length in [1 << 26, u64::MAX, u64::MAX / 2, 99_999_999] {
        let mut bytes = specialist().to_bytes();
        bytes[..8].copy_from_slice(&length.to_le_bytes());
        assert!(matches!(read(&bytes), Err(SpecialistError::Container { .. })));
    }
}

#[test]
fn metadata_is_checked_field_by_field() {
    for (from, to, field) in [
        ("fura-specialist", "other", "format"),
        (r#""version":"1""#, r#""version":"2""#, "version"),
        (r#""block":"2""#, r#""block":"4""#, "block"),
        (r#""base":""#, r#""base":"x"#, "base"),
        (r#""name":"phone","#, "", "name"),
        (r#""layout_hash":""#, r#""layout_hash":"0"#, "layout_hash"),
        (r#"{\"block\":2"#, r#"{\"block\":0"#, "layout"),
        (r#"\"d_in\":5"#, r#"\"d_in\":99999999999999999999999"#, "layout"),
    ] {
        let bytes = edited(|header| {
            assert!(header.contains(from), "{from} in {header}");
            header.replacen(from, to, 1)
        });
        assert!(message(&bytes).contains(&format!("metadata {field:?}")), "{}", message(&bytes));
    }
}

#[test]
fn a_renamed_tensor_is_missing_and_both_sets_are_named() {
    let bytes = edited(|header| header.replacen(r#","z.first":"#, r#","z.other":"#, 1));
    let text = message(&bytes);
    assert!(text.contains("z.first") && text.contains("z.other"), "{text}");
}

#[test]
fn a_tensor_of_another_type_is_refused() {
    let bytes = edited(|header| header.replacen("\"F32\"", "\"I32\"", 1));
    assert!(message(&bytes).contains("I32"));
}

#[test]
fn a_tensor_without_a_linear_is_refused() {
    let extra = r#","extra":{"dtype":"F32","shape":[0],"data_offsets":[36,36]}}"#;
    let bytes = edited(|header| format!("{}{extra}", header.trim_end().strip_suffix('}').unwrap()));
    assert!(message(&bytes).contains("\"extra\""), "{}", message(&bytes));
}

/// A layout that claims 2^26 channels in a file of a few hundred bytes.
#[test]
fn a_layout_larger_than_the_file_allocates_nothing() {
    let huge = Layout::new(2, [Linear::new("z.first", 3, 1 << 26)]).unwrap();
    let bytes = edited(|header| {
        let old = serde_json::to_string(&layout().canonical()).unwrap();
        let new = serde_json::to_string(&huge.canonical()).unwrap();
        let header = header.replacen(&old, &new, 1);
        header.replacen(&layout().fingerprint().to_string(), &huge.fingerprint().to_string(), 1)
    });
    assert!(message(&bytes).contains("expected F32 [67108864]"), "{}", message(&bytes));
}

proptest! {
    #[test]
    fn arbitrary_damage_never_panics(
        at in 0usize..700, value: u8, tail in prop::collection::vec(any::<u8>(), 0..20),
    ) {
        let mut bytes = specialist().to_bytes();
        let at = at % bytes.len();
        bytes[at] = value;
        if let Ok(read) = read(&bytes) {
            prop_assert!(read.coordinates().iter().all(|c| c.abs() < 1.0));
        }
        let _ = read(&tail);
    }
}
