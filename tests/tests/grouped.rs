//! Folders in the 4-bit groups of AWQ, GPTQ and MLX: their values, and what is refused. The values are those that the
//! packages' own code gives (`scripts/golden/grouped.py`).

use fura_model::{Model, ModelError};
use serde_json::{Value, json};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/grouped").join(name)
}

fn open(folder: &Path) -> Result<Model, ModelError> {
    let cache = tempfile::tempdir().unwrap();
    Model::open(folder, cache.path(), 32, &mut |_, _| ControlFlow::Continue(()))
}

/// Weights of all linears, and what the packages say they are.
fn both(name: &str, model: &Model) -> (Vec<f32>, Vec<f32>) {
    let bytes = std::fs::read(golden(&format!("{name}.values"))).unwrap();
    let theirs = bytes.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect();
    let mut ours = Vec::new();
    for (i, linear) in model.layout().linears().iter().enumerate() {
        let mut row = vec![0.0; linear.d_in];
        for r in 0..linear.d_out {
            model.linear(i).decode_row(r, &mut row);
            ours.extend_from_slice(&row);
        }
    }
    (ours, theirs)
}

#[test]
fn symmetric_groups_and_those_with_biases_keep_every_value() {
    for (name, format) in [("gptq_v2", "q4"), ("mlx", "q4min")] {
        let model = open(&golden(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
        let (ours, theirs) = both(name, &model);
        assert!(ours == theirs, "{name}");
        for (i, (matrix, _, packed, deviation)) in model.conversions().enumerate() {
            // MLX has the embedding in groups too.
            if i < 7 || name == "mlx" {
                assert_eq!((packed.name(), deviation.map(|d| d.max)), (format, Some(0.0)), "{name} {matrix}");
            }
        }
    }
}

/// `-z s` has up to 15 bits, f16 11: half a unit in the last place is 2^-11 of it at most.
#[test]
fn zero_points_move_values_by_the_rounding_of_their_product_at_most_and_the_report_says_by_how_much() {
    for name in ["awq", "gptq"] {
        let model = open(&golden(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
        let (ours, theirs) = both(name, &model);
        let mut reported = model.conversions().map(|(.., deviation)| deviation.unwrap().max);
        let mut at = 0;
        for linear in model.layout().linears() {
            let n = linear.d_out * linear.d_in;
            let (ours, theirs) = (&ours[at..at + n], &theirs[at..at + n]);
            at += n;
            let moved = |(o, t): (&f32, &f32)| (f64::from(*o) - f64::from(*t)).abs();
            let worst = ours.iter().zip(theirs).map(moved).fold(0.0, f64::max);
            // Scales are below 0.05, zero points at most 15.
            assert!(worst <= 0.05 * 15.0 / 2048.0, "{name} {}: {worst}", linear.name);
            // Values are sums in f32, of magnitudes below 1.
            let said = reported.next().unwrap();
            assert!((said - worst).abs() <= 2f64.powi(-23), "{name} {}: {worst}, said {said}", linear.name);
            assert!(said > 0.0);
        }
    }
}

/// A copy of a folder that may be damaged.
fn copy(name: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for file in std::fs::read_dir(golden(name)).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), folder.path().join(file.file_name())).unwrap();
    }
    folder
}

/// The message of the refusal of a folder with a changed configuration.
fn configured(name: &str, field: &str, value: Value) -> String {
    let folder = copy(name);
    let path = folder.path().join("config.json");
    let mut config: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    config[if name == "mlx" { "quantization" } else { "quantization_config" }][field] = value;
    std::fs::write(path, config.to_string()).unwrap();
    refusal(folder.path())
}

fn refusal(folder: &Path) -> String {
    let message = open(folder).expect_err("must be refused").to_string();
    assert!(!message.contains('\n'), "{message}");
    message
}

#[test]
fn unknown_variants_are_refused_by_name() {
    for (name, field, value) in [
        ("awq", "quant_method", json!("bitsandbytes")),
        ("awq", "version", json!("gemv")),
        ("awq", "bits", json!(8)),
        ("awq", "group_size", json!(16)),
        ("awq", "unheard_of", json!(1)),
        ("gptq", "desc_act", json!(true)),
        ("gptq", "checkpoint_format", json!("marlin")),
        ("gptq", "group_size", Value::Null),
        ("mlx", "bits", json!(6)),
        ("mlx", "mode", json!("mxfp4")),
        ("mlx", "group_size", json!(-1)),
        ("mlx", "model.layers.0.mlp.down_proj", json!({"bits": 8, "group_size": 32})),
    ] {
        let message = configured(name, field, value);
        assert!(message.contains("config.json: ") && message.contains(field), "{name} {field}: {message}");
    }
}

/// The message of the refusal of a folder whose tensor `name` was changed.
fn damaged(folder: &str, name: &str, change: impl FnOnce(&mut [u8])) -> String {
    let folder = copy(folder);
    let path = folder.path().join("model.safetensors");
    let mut bytes = std::fs::read(&path).unwrap();
    let n = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let header: Value = serde_json::from_slice(&bytes[8..8 + n]).unwrap();
    let at = |i: usize| 8 + n + header[name]["data_offsets"][i].as_u64().unwrap() as usize;
    change(&mut bytes[at(0)..at(1)]);
    std::fs::write(path, bytes).unwrap();
    refusal(folder.path())
}

#[test]
fn numbers_that_blocks_cannot_hold_are_refused_with_their_place() {
    // 2^-30: below what f16 has; the second group of row 1.
    let small = damaged("mlx", "model.layers.0.self_attn.q_proj.scales", |b| {
        b[6..8].copy_from_slice(&0x3080u16.to_le_bytes());
    });
    assert!(small.contains("'model.layers.0.self_attn.q_proj', row 1, group 1: a scale of"), "{small}");
    let nan = damaged("mlx", "model.layers.0.mlp.up_proj.biases", |b| b[..2].fill(0xff));
    assert!(nan.contains("'model.layers.0.mlp.up_proj', row 0, group 0: a bias of NaN"), "{nan}");
    let infinite = damaged("awq", "model.layers.0.mlp.up_proj.scales", |b| {
        b[4..6].copy_from_slice(&0x7c00u16.to_le_bytes());
    });
    assert!(infinite.contains("row 2, group 0: a scale of inf"), "{infinite}");
    // 64 outputs are 32 bytes of zero points for each group.
    let zero = damaged("gptq", "model.layers.0.mlp.up_proj.qzeros", |b| b[32 + 3] |= 0xf0);
    assert!(zero.contains("row 7, group 1: a zero point of 15 + 1"), "{zero}");
    let order = damaged("gptq", "model.layers.0.mlp.up_proj.g_idx", |b| b[0] = 1);
    assert!(order.contains("act-order"), "{order}");
}

#[test]
fn parts_that_do_not_fit_each_other_are_refused() {
    for (name, from, to, expected) in [
        ("awq", "q_proj.qzeros", "z_proj.qzeros", "one is missing"),
        ("mlx", "q_proj.biases", "q_proj.biazes", "tensor"),
        (
            "awq",
            "q_proj.scales\":{\"dtype\":\"F16\",\"shape\":[1,64]",
            "q_proj.scales\":{\"dtype\":\"F16\",\"shape\":[64,1]",
            "expected [1, 64]",
        ),
        ("gptq", "mlp.up_proj.", "mlp.xx_proj.", "module 'model.layers.0.mlp.xx_proj'"),
    ] {
        let folder = copy(name);
        let path = folder.path().join("model.safetensors");
        let bytes = std::fs::read(&path).unwrap();
        let n = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
        let header = std::str::from_utf8(&bytes[8..8 + n]).unwrap();
        assert!(header.contains(from), "{header}");
        // Of equal length.
        let changed = [&bytes[..8], header.replace(from, to).as_bytes(), &bytes[8 + n..]].concat();
        std::fs::write(path, changed).unwrap();
        let message = refusal(folder.path());
        assert!(message.contains(expected), "{name} {from}: {message}");
    }
}
