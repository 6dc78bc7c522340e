//! The specialist file: round trips, refusals, hostile bytes.

use std::path::Path;

use fura_core::estimator::{Coordinates, EsConfig};
use fura_core::fingerprint::Fingerprint;
use fura_core::layout::{BlockRule, Form, Layout, Linear, Scope};
use fura_core::runlog::{RunHeader, RunHistory, replay, replay_absolute};
use fura_core::specialist::{Precision, Provenance, Specialist, SpecialistError};
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

/// Half precision: half the data, the nearest binary16 of every coordinate, and the same refusals.
#[test]
fn half_precision_files_hold_rounded_coordinates() {
    let exact = specialist();
    let bytes = exact.to_bytes_as(Precision::F16);
    let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    assert_eq!(file.tensor("z.first").unwrap().dtype(), safetensors::Dtype::F16);
    assert_eq!(file.tensor("z.first").unwrap().data().len(), 10);
    let rounded = read(&bytes).unwrap();
    for (rounded, exact) in rounded.coordinates().iter().zip(exact.coordinates()) {
        assert!((rounded - exact).abs() <= 2f32.powi(-11) * exact.abs() + 2f32.powi(-25));
    }
    assert_ne!(rounded, exact);
    // Rounding again changes nothing.
    assert_eq!(rounded.to_bytes_as(Precision::F16), bytes);
    assert_eq!(exact.to_bytes_as(Precision::F32), exact.to_bytes());
    // The largest coordinates stay coordinates.
    let edge = vec![1f32.next_down(), -1f32.next_down(), 0.0, -0.0, 1e-9, 6e-5, 0.5, -0.5, 0.25];
    let edge = Specialist::new(base(), layout(), edge, Provenance::default()).unwrap();
    let rounded = read(&edge.to_bytes_as(Precision::F16)).unwrap();
    let edge = 1.0 - 2f32.powi(-11);
    assert_eq!(rounded.coordinates()[..3], [edge, -edge, 0.0]);
    // One is refused, wherever it stands; so are tensors of different types.
    let mut bad = bytes.clone();
    let at = bad.len() - 4;
    bad[at..at + 2].copy_from_slice(&0x3c00u16.to_le_bytes());
    assert!(matches!(read(&bad), Err(SpecialistError::Value { index: 2, value: 1.0, .. })));
    let mixed = edited(|header| header.replacen("\"F32\",\"shape\":[4]", "\"F16\",\"shape\":[8]", 1));
    assert!(message(&mixed).contains("is F16 [8], expected F32 [4]"), "{}", message(&mixed));
    for cut in 0..bytes.len() {
        assert!(matches!(read(&bytes[..cut]), Err(SpecialistError::Container { .. })), "{cut}");
    }
}

/// The file as the documentation says it, byte for byte.
#[test]
fn the_file_is_the_specified_one() {
    let written = specialist();
    let layout_text = r#"{\"block\":2,\"linears\":[{\"name\":\"z.first\",\"d_out\":3,\"d_in\":5},{\"name\":\"a \\\"quoted\\\"\\n\",\"d_out\":2,\"d_in\":4}]}"#;
    for (precision, dtype, width) in [(Precision::F32, "F32", 4), (Precision::F16, "F16", 2)] {
        let tensor = |start: usize, end: usize| {
            let (shape, start, end) = (end - start, width * start, width * end);
            format!(r#"{{"dtype":"{dtype}","shape":[{shape}],"data_offsets":[{start},{end}]}}"#)
        };
        let mut header = format!(
            r#"{{"__metadata__":{{"format":"fura-specialist","version":"1","base":"{}","block":"2","layout":"{layout_text}","layout_hash":"{}","name":"phone","task":"a task","created_by":"test"}},"z.first":{},"a \"quoted\"\n":{}}}"#,
            base(),
            layout().fingerprint(),
            tensor(0, 5),
            tensor(5, 9),
        );
        while header.len() % 8 != 0 {
            header.push(' ');
        }
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend(header.as_bytes());
        match precision {
            Precision::F32 => bytes.extend(written.coordinates().iter().flat_map(|c| c.to_le_bytes())),
            // -0.4, -0.3, -0.2, -0.1, 0, 0.1, 0.2, 0.3, 0.4 rounded to binary16; -0.3 and -0.1 carry the error
            // of 0.1 times a whole number minus 0.4 in f32, which is far below half a unit of binary16.
            Precision::F16 => {
                let halves: [u16; 9] =
                    [0xb666, 0xb4cd, 0xb266, 0xae66, 0x0000, 0x2e66, 0x3266, 0x34cd, 0x3666];
                bytes.extend(halves.iter().flat_map(|half| half.to_le_bytes()));
            }
        }
        assert_eq!(written.to_bytes_as(precision), bytes, "{precision:?}");
    }
}

fn named(name: &str, base: Fingerprint, layout: Layout, coordinates: Vec<f32>) -> Specialist {
    let provenance = Provenance { name: name.into(), ..Provenance::default() };
    Specialist::new(base, layout, coordinates, provenance).unwrap()
}

proptest! {
    #[test]
    fn arithmetic_is_that_of_coordinates(
        a in prop::collection::vec(-0.5f32..0.5, 9), b in prop::collection::vec(-0.5f32..0.5, 9),
        factor in -1.5f32..1.5,
    ) {
        let (x, y) = (named("a", base(), layout(), a.clone()), named("b", base(), layout(), b.clone()));
        let done = Provenance { name: "done".into(), ..Provenance::default() };
        let difference = x.difference(&y, done.clone()).unwrap();
        let scaled = x.scaled(factor, done.clone()).unwrap();
        let mean = Specialist::average(&[&x, &y, &y], done.clone()).unwrap();
        for j in 0..9 {
            prop_assert_eq!(difference.coordinates()[j], a[j] - b[j]);
            prop_assert_eq!(scaled.coordinates()[j], factor * a[j]);
            let sum = f64::from(a[j]) + f64::from(b[j]) + f64::from(b[j]);
            prop_assert_eq!(mean.coordinates()[j], (sum / 3.0) as f32);
        }
        for result in [difference, scaled, mean] {
            prop_assert_eq!(result.base(), base());
            prop_assert_eq!(result.layout(), &layout());
            prop_assert_eq!(&result.provenance().name, "done");
        }
        let alone = Specialist::average(&[&x], done.clone()).unwrap();
        prop_assert_eq!(alone.coordinates(), &a[..]);
        let nothing = x.difference(&x, done).unwrap();
        prop_assert!(nothing.coordinates().iter().all(|&c| c == 0.0));
    }
}

#[test]
fn specialists_of_different_models_do_not_mix() {
    let x = named("ours", base(), layout(), vec![0.5; 9]);
    let provenance = Provenance::default;
    let other_base = named("theirs", Fingerprint::of(b"other"), layout(), vec![0.5; 9]);
    let other_block =
        named("theirs", base(), Layout::new(3, layout().linears().to_vec()).unwrap(), vec![0.5; 9]);
    for other in [other_base, other_block] {
        for result in [x.difference(&other, provenance()), Specialist::average(&[&x, &other], provenance())] {
            let error = result.unwrap_err();
            let text = error.to_string();
            assert!(matches!(error, SpecialistError::Mismatch { .. }), "{text}");
            assert!(text.contains("ours") && text.contains("theirs") && !text.contains('\n'), "{text}");
        }
    }
    assert!(matches!(Specialist::average(&[], provenance()), Err(SpecialistError::Empty)));
    // Results are specialists too: nothing leaves (-1, 1), and no NaN enters.
    let minus = named("minus", base(), layout(), vec![-0.5; 9]);
    assert!(matches!(x.difference(&minus, provenance()), Err(SpecialistError::Value { value: 1.0, .. })));
    assert!(matches!(x.scaled(2.0, provenance()), Err(SpecialistError::Value { .. })));
    assert!(matches!(x.scaled(f32::NAN, provenance()), Err(SpecialistError::Value { .. })));
}

/// A specialist shipped as its run log alone is the one that training arrived at.
#[test]
fn a_scope_stays_with_its_specialist() {
    let own = layout().with_scope(Scope::Answer);
    let coordinates = specialist().coordinates().to_vec();
    let there = named("answers", base(), own.clone(), coordinates);
    let again = read(&there.to_bytes()).unwrap();
    assert_eq!((&again, again.layout().scope()), (&there, Scope::Answer));
    // It belongs to the same model; but its sum with one that acts elsewhere would mean nothing.
    again.check_base(&base(), &layout()).unwrap();
    let error = specialist().difference(&again, Provenance::default()).unwrap_err().to_string();
    assert!(error.contains("its scope is everywhere, that of the other answer"), "{error}");
    assert_eq!(again.scaled(0.5, Provenance::default()).unwrap().layout(), &own);
    let config = EsConfig { pairs: 1, ..EsConfig::default() };
    let header = RunHeader::new(base(), own, config, "toy");
    let (generations, notes) = (vec![vec![1.0, 0.0]], Vec::new());
    let history = RunHistory { header, generations, notes, finished: true, torn_bytes: 0 };
    assert_eq!(Specialist::from_run_log(&history).unwrap().layout().scope(), Scope::Answer);
}

#[test]
fn a_form_stays_with_its_specialist() {
    let own = layout().with_form(Form::Factored);
    let coordinates = specialist().coordinates().to_vec();
    let there = named("factored", base(), own.clone(), coordinates);
    let again = read(&there.to_bytes()).unwrap();
    assert_eq!((&again, again.layout().form()), (&there, Form::Factored));
    assert_ne!(own.fingerprint(), layout().fingerprint());
    again.check_base(&base(), &layout()).unwrap();
    let error = specialist().difference(&again, Provenance::default()).unwrap_err().to_string();
    assert!(error.contains("its form is materialized, that of the other factored"), "{error}");
    let unknown = own.canonical().replace("factored", "folded");
    assert!(serde_json::from_str::<fura_core::layout::Layout>(&unknown).is_err());
}

#[test]
fn a_run_log_is_a_specialist() {
    let config = EsConfig { seed: 8, pairs: 2, average_from: Some(1), ..EsConfig::default() };
    let history = |config: EsConfig| RunHistory {
        header: RunHeader::new(base(), layout(), config, "task"),
        generations: vec![
            vec![1.0, 0.0, 0.5, 0.25],
            vec![0.0, f64::NAN, 0.5, 0.25],
            vec![0.1, 0.2, 0.3, 0.5],
        ],
        notes: Vec::new(),
        finished: false,
        torn_bytes: 0,
    };
    let whole = history(config.clone());
    let specialist = Specialist::from_run_log(&whole).unwrap();
    let estimator = replay(&whole.header, &whole.generations).unwrap();
    assert_eq!(specialist.coordinates(), estimator.final_coordinates());
    assert_eq!((specialist.base(), specialist.layout()), (base(), &layout()));
    assert_eq!(specialist.provenance().task, "task");
    let mut bad = whole;
    bad.generations[1].pop();
    assert!(matches!(Specialist::from_run_log(&bad), Err(SpecialistError::Replay(_))));
    // Absolute coordinates need the singular values.
    let absolute = history(EsConfig { coordinates: Coordinates::Absolute, ..config });
    assert!(matches!(Specialist::from_run_log(&absolute), Err(SpecialistError::Replay(_))));
    let s = [2.0; 9];
    let estimator = replay_absolute(&absolute.header, &s, &absolute.generations).unwrap();
    for (half, whole) in estimator.final_coordinates().iter().zip(specialist.coordinates()) {
        assert_eq!(*half, whole / 2.0); // a power of two: exact
    }
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
