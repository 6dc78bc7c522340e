//! Specialists and the models that they belong to: where they act, what they leave alone, and which files are refused.

use fura::core::estimator::{EsConfig, Estimator};
use fura::core::layout::{Layout, Linear};
use fura::core::specialist::{Provenance, Specialist};
use fura_model::gguf::{Gguf, GgufWriter, TensorKind};
use fura_model::{
    Adapted, Base, Batch, Engine, KvCache, Members, Model, Plan, Population, Threads, Wanted, Workspace,
};
use fura_simd::Isa;
use fura_tests::mixed::{Alone, coordinates};
use fura_tests::rewrite::rewrite;
use fura_tests::tiny;
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

const TOKENS: [u32; 9] = [3, 14, 15, 92, 65, 35, 89, 79, 32];

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/architectures").join(name)
}

fn open(file: &Path, block: usize) -> Model {
    let cache = tempfile::tempdir().unwrap();
    Model::open(file, cache.path(), block, &mut |_, _| ControlFlow::Continue(()))
        .unwrap_or_else(|e| panic!("{e}"))
}

fn open_bytes(bytes: &[u8], block: usize) -> Model {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("model.gguf");
    std::fs::write(&file, bytes).unwrap();
    open(&file, block)
}

/// Bits of the logits of the last position.
fn logits(model: &Model, members: &dyn Members) -> Vec<u32> {
    let plan = Plan { rows: TOKENS.len(), sequences: 1, positions: TOKENS.len() };
    let mut workspace = Workspace::new(model, plan);
    let mut cache = KvCache::new(model.config(), TOKENS.len());
    let mut batch = Batch::default();
    batch.push(0, &TOKENS, 0, 0);
    let engine = Engine::new(model, Isa::detect(), Threads::Serial);
    engine.forward(members, &batch, Wanted::Last, &mut cache, &mut workspace).unwrap();
    let mut out = vec![0.0; model.config().vocab];
    engine.logits(&mut workspace, 0, &mut out);
    out.into_iter().map(f32::to_bits).collect()
}

fn transforms(model: &Model, coordinates: &[f32]) -> Adapted {
    Adapted::new(model, Isa::detect(), coordinates, model.layout())
}

/// The model of `bytes` with the matrices of some linears all zero.
fn with_zeros(bytes: &[u8], zero: impl Fn(&str) -> bool) -> Vec<u8> {
    let gguf = Gguf::parse(bytes, Path::new("original.gguf")).unwrap();
    let mut writer: GgufWriter = rewrite(bytes, |_| true, |name| !zero(name));
    for t in gguf.tensors().iter().filter(|t| zero(&t.name)) {
        assert_eq!(t.kind, TensorKind::Q4_0, "{}", t.name);
        // A scale of zero: every weight is zero, whatever the codes.
        writer.tensor(&t.name, &t.dims, t.kind, vec![0; t.range.len()]);
    }
    writer.finish().unwrap()
}

/// `y = W T(x) + b`: where `W` is zero, `y` is the bias, whatever the coordinates. A scale of what the linear gives would
/// change it.
#[test]
fn a_specialist_acts_on_the_input_of_the_weights_and_leaves_biases_alone() {
    for file in ["qwen2.gguf", "llama-linear.gguf"] {
        let bytes = std::fs::read(golden(file)).unwrap();
        let biased: &[&str] = if file == "qwen2.gguf" {
            &["attn_q", "attn_k", "attn_v"]
        } else {
            &["attn_q", "attn_k", "attn_v", "attn_output"]
        };
        let is = |name: &str, suffix: &str| biased.iter().any(|b| name.ends_with(&format!(".{b}.{suffix}")));
        let whole = open_bytes(&bytes, 32);
        let zeros = open_bytes(&with_zeros(&bytes, |name| is(name, "weight")), 32);
        let coordinates = |model: &Model| -> Vec<f32> {
            let mut out = vec![0.0; model.layout().coordinates()];
            for (l, linear) in model.layout().linears().iter().enumerate() {
                if biased.iter().any(|b| linear.name.ends_with(b)) {
                    out[model.layout().range(l)].fill(0.5);
                }
            }
            assert!(out.contains(&0.5) && out.contains(&0.0));
            out
        };
        let bits = |model: &Model| {
            let specialist = transforms(model, &coordinates(model));
            (logits(model, &Base), logits(model, &specialist))
        };
        let (base, specialist) = bits(&zeros);
        assert_eq!(base, specialist, "{file}: only biases are left, and they are not scaled");
        let (base, specialist) = bits(&whole);
        assert_ne!(base, specialist, "{file}: with weights it acts");
        // The biases are worth something.
        let without = rewrite(&with_zeros(&bytes, |n| is(n, "weight")), |_| true, |n| !is(n, "bias"));
        assert_ne!(
            logits(&open_bytes(&without.finish().unwrap(), 32), &Base),
            logits(&zeros, &Base),
            "{file}"
        );
    }
}

/// There is no coordinate that an embedding could notice: neither it nor a tied head are in any layout.
#[test]
fn an_embedding_and_a_head_are_out_of_reach() {
    let model = open_bytes(&tiny::bytes(1), 32);
    assert!(model.config().tied);
    assert!(model.layout().linears().iter().all(|l| l.name.starts_with("blk.")));
    for name in ["output", "token_embd"] {
        let linear = Linear::new(name, tiny::VOCAB, tiny::D_MODEL);
        let linears = || model.layout().linears().iter().cloned();
        for layout in [Layout::new(32, [linear.clone()]), Layout::new(32, linears().chain([linear.clone()]))]
        {
            let layout = layout.unwrap();
            assert_eq!(model.first_layer(&layout), None);
            let coordinates = vec![0.1; layout.coordinates()];
            let theirs =
                Specialist::new(model.fingerprint(), layout, coordinates, Provenance::default()).unwrap();
            let error = theirs.check_base(&model.fingerprint(), model.layout()).unwrap_err().to_string();
            assert!(error.contains(&format!("linears only it has: \"{name}\"")), "{error}");
        }
    }
}

/// Both name sets are in the message, for a linear that the model lacks and for one that the specialist lacks.
#[test]
fn a_linear_that_one_of_them_lacks_is_named() {
    let model = open_bytes(&tiny::bytes(1), 32);
    let linears = model.layout().linears().iter().cloned().map(|mut l| {
        if l.name == "blk.1.ffn_up" {
            l.name = "blk.1.ffn_upp".to_owned();
        }
        l
    });
    let layout = Layout::new(32, linears).unwrap();
    let coordinates = vec![0.1; layout.coordinates()];
    let renamed = Specialist::new(model.fingerprint(), layout, coordinates, Provenance::default()).unwrap();
    let error = renamed.check_base(&model.fingerprint(), model.layout()).unwrap_err().to_string();
    assert!(error.contains("\"blk.1.ffn_upp\"") && error.contains("\"blk.1.ffn_up\""), "{error}");
}

/// The same shapes and names, other weights.
#[test]
fn a_specialist_of_equal_shapes_and_other_weights_is_refused_by_content() {
    let [one, other] = [1, 2].map(|seed| open_bytes(&tiny::bytes(seed), 32));
    assert_eq!(one.layout(), other.layout());
    let theirs = coordinates(&other, 1);
    let theirs =
        Specialist::new(other.fingerprint(), other.layout().clone(), theirs, Provenance::default()).unwrap();
    theirs.check_base(&other.fingerprint(), other.layout()).unwrap();
    let error = theirs.check_base(&one.fingerprint(), one.layout()).unwrap_err().to_string();
    assert!(error.contains(&one.fingerprint().to_string()), "{error}");
    assert!(error.contains(&other.fingerprint().to_string()), "{error}");
}

#[test]
fn a_saved_specialist_gives_the_logits_of_the_one_in_memory() {
    let model = open_bytes(&tiny::bytes(1), 24);
    let values = coordinates(&model, 1);
    let specialist =
        Specialist::new(model.fingerprint(), model.layout().clone(), values.clone(), Provenance::default())
            .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.fura");
    specialist.save(&path).unwrap();
    let loaded = Specialist::load(&path).unwrap();
    let of = |c: &[f32]| logits(&model, &transforms(&model, c));
    assert_eq!(of(loaded.coordinates()), of(&values));
    assert_ne!(of(loaded.coordinates()), logits(&model, &Base));
}

/// Saving onto the path that it came from: whoever has the old file open, or mapped, which is the same file to the system,
/// keeps all of it, and nobody ever sees a part of the new one.
#[test]
fn a_specialist_may_be_saved_where_it_was_loaded_from() {
    use std::io::{Read, Seek, SeekFrom};
    let model = open_bytes(&tiny::bytes(1), 32);
    let of = |values| {
        Specialist::new(model.fingerprint(), model.layout().clone(), values, Provenance::default()).unwrap()
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.fura");
    of(coordinates(&model, 1)).save(&path).unwrap();
    let before = std::fs::read(&path).unwrap();
    let mut held = std::fs::File::open(&path).unwrap();
    let loaded = Specialist::load(&path).unwrap();
    let halved = loaded.scaled(0.5, loaded.provenance().clone()).unwrap();
    halved.save(&path).unwrap();
    assert_eq!(Specialist::load(&path).unwrap(), halved);
    let mut old = Vec::new();
    held.seek(SeekFrom::Start(0)).unwrap();
    held.read_to_end(&mut old).unwrap();
    assert_eq!(old, before, "the old file is whole for those who hold it");
    assert_ne!(std::fs::read(&path).unwrap(), before);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "no temporary file stays behind");
    // Onto itself, unchanged: the same bytes.
    halved.save(&path).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), halved.to_bytes());
}

/// Fused tensors are the linears that they hold, each with coordinates of its own for the one input; last blocks may be
/// shorter, and there are fewer key heads than query heads.
#[test]
fn shapes_that_do_not_divide_and_fused_tensors_have_coordinates() {
    for (file, block) in [("phi3.gguf", 32), ("phi3.gguf", 24), ("qwen3.gguf", 24), ("llama.gguf", 40)] {
        let model = open(&golden(file), block);
        let c = model.config();
        let shapes: Vec<(&str, usize, usize)> = model.layout().linears()[..7]
            .iter()
            .map(|l| (l.name.trim_start_matches("blk.0."), l.d_out, l.d_in))
            .collect();
        let (heads, keys) = (c.heads * c.head_dim, c.kv_heads * c.head_dim);
        assert!(keys < heads, "{file}");
        let expected = [
            ("attn_q", heads, c.d_model),
            ("attn_k", keys, c.d_model),
            ("attn_v", keys, c.d_model),
            ("attn_output", c.d_model, heads),
            ("ffn_gate", c.d_ff, c.d_model),
            ("ffn_up", c.d_ff, c.d_model),
            ("ffn_down", c.d_model, c.d_ff),
        ];
        assert_eq!(shapes, expected, "{file}");
        let base = logits(&model, &Base);
        assert_eq!(
            logits(&model, &transforms(&model, &vec![0.0; model.layout().coordinates()])),
            base,
            "{file}"
        );
        // Every channel of every linear has an effect, the last of a short block too.
        for l in 0..model.layout().linears().len() {
            let range = model.layout().range(l);
            for at in [range.start, range.end - 1] {
                let mut one = vec![0.0; model.layout().coordinates()];
                one[at] = 0.9;
                assert_ne!(
                    logits(&model, &transforms(&model, &one)),
                    base,
                    "{file} {block}: coordinate {at}"
                );
            }
        }
    }
}

/// Nothing is added to weights and taken off again, so nothing is left of a thousand members: not in what the base says and
/// not in the files that it comes from.
#[test]
fn a_thousand_members_leave_the_base_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("model.gguf");
    std::fs::write(&file, tiny::bytes(1)).unwrap();
    let model = Model::open(&file, folder.path(), 32, &mut |_, _| ControlFlow::Continue(())).unwrap();
    let hashes = || {
        let mut files: Vec<PathBuf> =
            std::fs::read_dir(folder.path()).unwrap().map(|f| f.unwrap().path()).collect();
        files.sort();
        files.iter().map(|f| blake3::hash(&std::fs::read(f).unwrap())).collect::<Vec<_>>()
    };
    let (files, base) = (hashes(), logits(&model, &Base));
    assert_eq!(files.len(), 2, "the model and its pack");
    let config = EsConfig { seed: 2, pairs: 500, sigma: 0.2, ..EsConfig::default() };
    let estimator = Estimator::new(config, model.layout()).unwrap();
    let population = Population::new(&estimator, &model, model.layout(), 0);
    let mut different = BTreeSet::new();
    for member in 0..1000 {
        different.insert(logits(&model, &Alone(&population, member)));
    }
    assert_eq!(different.len(), 1000);
    assert_eq!(logits(&model, &Base), base);
    assert_eq!(hashes(), files);
}
