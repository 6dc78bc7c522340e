//! The run log under interruption, damage and attack.

use std::path::Path;

use fura_core::estimator::{Adam, Coordinates, EsConfig};
use fura_core::fingerprint::Fingerprint;
use fura_core::layout::{Layout, Linear};
use fura_core::noise::Distribution;
use fura_core::runlog::{RunHeader, RunHistory, RunLog, RunLogError, replay};
use proptest::prelude::*;

fn header() -> RunHeader {
    let layout = Layout::new(4, [Linear::new("a", 3, 10), Linear::new("b", 3, 6)]).unwrap();
    let config = EsConfig { seed: 4, pairs: 2, momentum: 0.5, sigma: 0.1, ..EsConfig::default() };
    RunHeader::new(Fingerprint::of(b"model"), layout, config, "toy \"task\"")
}

fn rewards(t: usize) -> [f64; 4] {
    let t = t as f64;
    [0.1 * t, 0.3, if t == 2.0 { f64::NAN } else { -t }, 1.0 / (1.0 + t)]
}

/// A log of three generations with a note, and the ends of its records.
fn sample(directory: &Path) -> (Vec<u8>, Vec<usize>) {
    let path = directory.join("sample");
    let mut ends = Vec::new();
    let mut mark = || ends.push(std::fs::metadata(&path).unwrap().len() as usize);
    let mut log = RunLog::create(&path, &header()).unwrap();
    mark();
    for t in 0..3 {
        log.append_generation(&rewards(t)).unwrap();
        mark();
    }
    log.append_note(&[1, 2]).unwrap();
    mark();
    (std::fs::read(&path).unwrap(), ends)
}

fn read(bytes: &[u8]) -> Result<RunHistory, RunLogError> {
    RunLog::read(bytes, Path::new("test.furalog"))
}

fn bits(generations: &[Vec<f64>]) -> Vec<u64> {
    generations.iter().flatten().map(|r| r.to_bits()).collect()
}

#[test]
fn what_was_written_is_read_back_bit_for_bit() {
    let directory = tempfile::tempdir().unwrap();
    let (bytes, _) = sample(directory.path());
    let history = read(&bytes).unwrap();
    assert_eq!(history.header, header());
    let written: Vec<Vec<f64>> = (0..3).map(|t| rewards(t).to_vec()).collect();
    assert_eq!(bits(&history.generations), bits(&written));
    assert_eq!((history.notes[0].after, history.notes[0].json.as_str()), (3, "[1,2]"));
    assert_eq!((history.finished, history.torn_bytes), (false, 0));
}

/// Kill at any byte: the run resumes at its last whole record and ends with the same bits.
#[test]
fn a_run_killed_at_any_byte_continues_identically() {
    let directory = tempfile::tempdir().unwrap();
    let (bytes, ends) = sample(directory.path());
    let all: Vec<Vec<f64>> = (0..5).map(|t| rewards(t).to_vec()).collect();
    let uninterrupted = replay(&header(), &all).unwrap().final_coordinates();
    for cut in 0..=bytes.len() {
        let path = directory.path().join("cut");
        std::fs::write(&path, &bytes[..cut]).unwrap();
        let resumed = RunLog::resume(&path);
        if cut < ends[0] {
            assert!(matches!(resumed, Err(RunLogError::Damaged { .. })), "cut at {cut}");
            assert_eq!(std::fs::read(&path).unwrap(), bytes[..cut]);
            continue;
        }
        let (mut log, history) = resumed.unwrap();
        let kept = *ends.iter().rfind(|&&end| end <= cut).unwrap();
        assert_eq!(history.torn_bytes, (cut - kept) as u64);
        let whole = ends[1..4].iter().filter(|&&end| end <= cut).count();
        assert_eq!(history.generations.len(), whole);
        let mut es = replay(&history.header, &history.generations).unwrap();
        for t in whole..5 {
            log.append_generation(&rewards(t)).unwrap();
            es.tell(&rewards(t)).unwrap();
        }
        drop(log);
        assert_eq!(es.final_coordinates(), uninterrupted);
        let after = read(&std::fs::read(&path).unwrap()).unwrap();
        assert_eq!(bits(&after.generations), bits(&all));
        assert_eq!(after.torn_bytes, 0);
    }
}

#[test]
fn every_flipped_bit_is_noticed() {
    let directory = tempfile::tempdir().unwrap();
    let (bytes, ends) = sample(directory.path());
    let last = ends[ends.len() - 2];
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << bit;
            match read(&damaged) {
                Err(RunLogError::Damaged { offset, .. }) => {
                    // The record holding the byte, named by its start.
                    let start = ends.iter().rfind(|&&end| end <= at).copied().unwrap_or(8);
                    let start = if at < 8 { 0 } else { start };
                    assert!(at < last && offset == start as u64, "byte {at}, bit {bit}: {offset}");
                }
                // In the last record, damage and a torn write look the same.
                Ok(history) => {
                    assert!(at >= last, "byte {at}, bit {bit}");
                    assert_eq!(history.torn_bytes, (bytes.len() - last) as u64);
                }
                Err(other) => panic!("{other}"),
            }
        }
    }
}

#[test]
fn records_out_of_place_are_damage() {
    let directory = tempfile::tempdir().unwrap();
    let (bytes, ends) = sample(directory.path());
    let record = |i: usize| &bytes[ends[i - 1]..ends[i]];
    for order in [&[2usize, 1, 3][..], &[2, 3, 4], &[1, 1, 2]] {
        let mut moved = bytes[..ends[0]].to_vec();
        order.iter().for_each(|&i| moved.extend(record(i)));
        // Each record is whole, but not in its place: never read as generations.
        match read(&moved) {
            Err(RunLogError::Damaged { .. }) => {}
            Ok(history) => assert!(history.torn_bytes > 0, "{order:?}"),
            Err(other) => panic!("{other}"),
        }
    }
}

#[test]
fn a_length_of_four_gigabytes_allocates_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let (mut bytes, ends) = sample(directory.path());
    bytes[8..12].copy_from_slice(&u32::MAX.to_le_bytes());
    assert!(matches!(read(&bytes), Err(RunLogError::Damaged { offset: 8, .. })));
    let (mut bytes, _) = (read_again(directory.path()), ());
    bytes.truncate(ends[3]);
    bytes[ends[2]..ends[2] + 4].copy_from_slice(&u32::MAX.to_le_bytes());
    assert_eq!(read(&bytes).unwrap().generations.len(), 2);
}

fn read_again(directory: &Path) -> Vec<u8> {
    std::fs::read(directory.join("sample")).unwrap()
}

/// Zeros after the last record, as a file system may leave after a power cut.
#[test]
fn a_tail_of_zeros_is_torn() {
    let directory = tempfile::tempdir().unwrap();
    let (mut bytes, _) = sample(directory.path());
    bytes.extend([0; 5000]);
    assert_eq!(read(&bytes).unwrap().torn_bytes, 5000);
}

#[test]
fn a_tail_made_to_look_like_records_ends_the_search() {
    let directory = tempfile::tempdir().unwrap();
    let (mut bytes, _) = sample(directory.path());
    bytes.push(9);
    // Every fifth offset claims a note of 64 KiB: unbounded, the search would hash 100 GB.
    let claim = [0u8, 0, 1, 0, 3];
    bytes.extend(claim.iter().cycle().take(1 << 23));
    assert!(matches!(read(&bytes), Err(RunLogError::Damaged { .. })));
}

#[test]
fn headers_that_do_not_fit_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let create = |name: &str, change: fn(&mut RunHeader)| {
        let mut header = header();
        change(&mut header);
        RunLog::create(directory.path().join(name), &header)
    };
    assert!(matches!(create("a", |h| h.format = 2), Err(RunLogError::Refused { .. })));
    assert!(matches!(create("b", |h| h.config.pairs = 0), Err(RunLogError::Refused { .. })));
    assert!(matches!(create("c", |h| h.config.linear_scales = vec![1.0]), Err(RunLogError::Refused { .. })));
    assert!(!directory.path().join("a").exists());
    assert!(read(b"FURALOG1").is_err());
    assert!(read(b"GGUF").is_err());
    assert!(read(b"").is_err());
}

/// Settings at their defaults that version 0.1.0 did not know are not written: it can read the log.
#[test]
fn a_header_of_known_settings_is_written_as_ever() {
    let json = serde_json::to_string(&EsConfig::default()).unwrap();
    let known = r#"{"seed":0,"pairs":16,"sigma":0.05,"alpha":0.02,"schedule":"constant","shaping":"z_score","spread_floor":1e-6,"decay":0.0,"momentum":0.0,"bound":0.9,"average_from":null}"#;
    assert_eq!(json, known);
    assert_eq!(serde_json::from_str::<EsConfig>(known).unwrap(), EsConfig::default());
    let config = EsConfig {
        linear_scales: vec![0.5, 2.0],
        noise: Distribution::Rademacher,
        coordinates: Coordinates::Absolute,
        adam: Some(Adam { beta2: 0.5, ..Adam::default() }),
        ..EsConfig::default()
    };
    let json = serde_json::to_string(&config).unwrap();
    let new = r#""average_from":null,"linear_scales":[0.5,2.0],"noise":"rademacher","coordinates":"absolute","adam":{"beta1":0.9,"beta2":0.5,"epsilon":1e-8}}"#;
    assert!(json.ends_with(new), "{json}");
    assert_eq!(serde_json::from_str::<EsConfig>(&json).unwrap(), config);
}

#[test]
fn nothing_is_overwritten_and_one_writer_at_a_time() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run");
    let mut log = RunLog::create(&path, &header()).unwrap();
    assert!(matches!(RunLog::create(&path, &header()), Err(RunLogError::Exists { .. })));
    assert!(matches!(RunLog::resume(&path), Err(RunLogError::Locked { .. })));
    assert!(matches!(log.append_generation(&[1.0]), Err(RunLogError::Refused { .. })));
    log.finish().unwrap();
    assert!(matches!(log.append_generation(&rewards(0)), Err(RunLogError::Refused { .. })));
    drop(log);
    let (mut log, history) = RunLog::resume(&path).unwrap();
    assert!(history.finished);
    assert!(matches!(log.append_note(&1), Err(RunLogError::Refused { .. })));
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = read(&bytes);
        bytes.splice(0..0, *b"FURALOG1");
        prop_assert!(read(&bytes).is_err());
    }
}
