//! Writes the corpus: whole small files to begin with.

use fura_core::estimator::EsConfig;
use fura_core::fingerprint::Fingerprint;
use fura_core::layout::{Layout, Linear};
use fura_core::runlog::{RunHeader, RunLog};
use fura_core::specialist::Specialist;
use std::error::Error;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    let put = |target: &str, name: &str, bytes: &[u8]| {
        std::fs::create_dir_all(corpus.join(target))?;
        std::fs::write(corpus.join(target).join(name), bytes)
    };
    put("gguf", "tiny", &fura_fuzz::model())?;
    put("pack", "tiny", &fura_fuzz::Packed::new().bytes())?;
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden");
    for name in ["llama", "phi3", "gemma3"] {
        put("config", name, &std::fs::read(golden.join("folders").join(name).join("config.json"))?)?;
    }
    for name in ["awq", "gptq", "mlx"] {
        put("config", name, &std::fs::read(golden.join("grouped").join(name).join("config.json"))?)?;
    }
    put("tokenizer", "llama", &std::fs::read(golden.join("folders/llama/tokenizer.json"))?)?;
    put("safetensors", "llama", &std::fs::read(golden.join("folders/llama/model.safetensors"))?)?;
    for (name, text) in [
        ("loop", "{% for m in messages %}<|{{ m.role }}|>{{ m.content | trim }}<e>{% endfor %}"),
        ("macro", "{% macro f(x) %}{{ x | upper }}{% endmacro %}{% set ns = namespace(n=0) %}{{ f('a') ~ ns.n }}"),
        ("raise", "{% if messages[0].role != 'user' %}{{ raise_exception('no') }}{% else %}{{ 1 + 2 * 3 }}{% endif %}"),
    ] {
        put("chat_template", name, text.as_bytes())?;
    }
    for (name, text) in [
        ("list", "root ::= \"a\" | \"b\" [0-9]{1,3}\n"),
        ("json", "root ::= v\nv ::= \"{\" p (\",\" p)* \"}\" | [a-z]+ | \"\\u0041\"\np ::= [^\"\\n]? \":\" v\n"),
    ] {
        put("grammar", name, text.as_bytes())?;
    }
    let layout = Layout::new(4, [Linear::new("w", 8, 8)])?;
    let config = EsConfig { pairs: 1, ..EsConfig::default() };
    let header = RunHeader::new(Fingerprint::of(b"model"), layout, config, "seed");
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("run.runlog");
    let mut log = RunLog::create(&path, &header)?;
    log.append_generation(&[1.0, 0.0])?;
    log.append_generation(&[0.5, f64::NAN])?;
    log.finish()?;
    let bytes = std::fs::read(&path)?;
    put("run_log", "two", &bytes)?;
    put("specialist", "two", &Specialist::from_run_log(&RunLog::read(&bytes, &path)?)?.to_bytes())?;
    Ok(())
}
