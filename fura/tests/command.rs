//! The command as a stranger uses it: on the tiny model, as a process.

use fura_tests::tiny;
use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

struct Fixture {
    folder: tempfile::TempDir,
}

impl Fixture {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("tiny.gguf"), tiny::bytes(1)).unwrap();
        std::fs::write(folder.path().join("other.gguf"), tiny::bytes(2)).unwrap();
        std::fs::write(folder.path().join("tasks.jsonl"), tiny::task_file()).unwrap();
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, line: &str) -> Command {
        let mut c = Command::new(env!("CARGO_BIN_EXE_fura"));
        c.current_dir(self.folder.path()).args(["--cache", "packs"]).args(line.split_whitespace());
        c.env_remove("FURA_CPU").stdin(Stdio::null());
        c
    }

    fn run(&self, line: &str) -> Output {
        self.command(line).output().unwrap()
    }

    fn ok(&self, line: &str) -> String {
        let out = self.run(line);
        assert!(out.status.success(), "{line}: {}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).unwrap()
    }

    /// Runs what must be refused: exit code 2, one line on standard error.
    fn refused(&self, line: &str) -> String {
        let before = self.listing();
        let out = self.run(line);
        let error = String::from_utf8(out.stderr).unwrap();
        assert_eq!(out.status.code(), Some(2), "{line}: {error}");
        assert_eq!(error.trim_end().lines().count(), 1, "{line}: {error}");
        assert_eq!(self.listing(), before, "{line}: something was written");
        error
    }

    /// All files but the packs, which are a cache of the model and not of the command's work.
    fn listing(&self) -> Vec<PathBuf> {
        let mut all: Vec<PathBuf> =
            std::fs::read_dir(self.folder.path()).unwrap().map(|e| e.unwrap().path()).collect();
        all.retain(|p| !p.ends_with("packs"));
        all.sort();
        all
    }

    fn bytes(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap()
    }
}

const TRAIN: &str = "train tiny.gguf --tasks tasks.jsonl --generations 12 --pairs 4 --requests 6 --json";

/// The same, layers taking turns.
fn with_turns() -> String {
    TRAIN.replace("--pairs 4", "--from-layer 0 --turns 1x4,0x2,0-1x3")
}

#[test]
fn train_eval_run_inspect_and_rebuild() {
    let f = Fixture::new();
    let model = f.bytes("tiny.gguf");
    let out = f.ok(&format!("{TRAIN} --out s.fura"));
    let last: Value = serde_json::from_str(out.lines().last().unwrap()).unwrap();
    for who in ["base", "specialist"] {
        for set in ["heldout", "phrasings"] {
            for field in ["success", "n", "low", "high"] {
                assert!(last[who][set][field].is_number(), "{who}.{set}.{field} in {last}");
            }
        }
    }
    for field in ["generations", "tokens", "seconds", "specialist_bytes", "trainable_share"] {
        assert!(last[field].as_f64().unwrap() > 0.0, "{field} in {last}");
    }
    assert!(!last["peak_private_bytes"].is_null() || !cfg!(target_os = "linux"));
    assert_eq!(last["generations"], 12);
    assert_eq!(out.lines().filter(|l| l.contains("\"event\":\"generation\"")).count(), 12);
    assert_eq!(f.bytes("tiny.gguf"), model, "the model file is never changed");

    f.ok("rebuild s.fura.runlog --out rebuilt.fura");
    assert_eq!(f.bytes("rebuilt.fura"), f.bytes("s.fura"), "the log alone gives the same specialist");
    // A finished run can be asked for again: the same specialist and the same result, nothing trained.
    let (specialist, log) = (f.bytes("s.fura"), f.bytes("s.fura.runlog"));
    let again = f.ok(&format!("{TRAIN} --out s.fura --resume --seed 5"));
    let again: Value = serde_json::from_str(again.lines().last().unwrap()).unwrap();
    assert_eq!((&again["specialist"], &again["tokens"]), (&last["specialist"], &Value::from(0)));
    assert_eq!((f.bytes("s.fura"), f.bytes("s.fura.runlog")), (specialist, log));

    let eval: Value =
        serde_json::from_str(f.ok("eval tiny.gguf --tasks tasks.jsonl --specialist s.fura --json").trim())
            .unwrap();
    assert_eq!(eval["specialist"], last["specialist"]);
    let run = |extra: &str| -> Value {
        serde_json::from_str(f.ok(&format!("run tiny.gguf abc --max-tokens 8 --json {extra}")).trim())
            .unwrap()
    };
    assert_eq!(run("")["tokens"], run("--threads 3")["tokens"]);
    assert_eq!(run("--specialist s.fura")["tokens"], run("--specialist rebuilt.fura")["tokens"]);
    let inspect: Value = serde_json::from_str(f.ok("inspect tiny.gguf --json").trim()).unwrap();
    assert_eq!(inspect["coordinates"], 2 * (6 * 64 + 96));
}

#[test]
fn threads_and_instruction_sets_give_the_same_specialist() {
    let f = Fixture::new();
    for form in ["materialized", "factored"] {
        let train = format!("{} --form {form}", with_turns());
        f.ok(&format!("{train} --out {form}.fura --threads 1"));
        for (k, isa) in fura::simd::Isa::available().enumerate() {
            let out = f
                .command(&format!("{train} --out {form}{k}.fura --threads {}", k + 1))
                .env("FURA_CPU", isa.tier().name())
                .output()
                .unwrap();
            assert!(out.status.success());
            assert_eq!(f.bytes(&format!("{form}{k}.fura")), f.bytes(&format!("{form}.fura")), "{isa:?}");
        }
        f.ok(&format!("rebuild {form}.fura.runlog --out rebuilt.fura"));
        assert_eq!(
            f.bytes("rebuilt.fura"),
            f.bytes(&format!("{form}.fura")),
            "the log alone gives the same specialist"
        );
        // Whoever runs it finds its form in it.
        f.ok(&format!("run tiny.gguf abc --max-tokens 4 --specialist {form}.fura"));
        let text = String::from_utf8_lossy(&f.bytes(&format!("{form}.fura"))).into_owned();
        assert_eq!(text.contains(r#"\"form\":\"factored\""#), form == "factored");
        std::fs::remove_file(f.path("rebuilt.fura")).unwrap();
    }
    assert_ne!(f.bytes("materialized.fura"), f.bytes("factored.fura"));
    let out = f.run("train tiny.gguf --tasks tasks.jsonl --out x.fura --form folded");
    assert_eq!(out.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&out.stderr).contains("materialized or factored"));
}

#[test]
fn killed_at_any_moment_a_run_resumes_to_the_same_bytes() {
    let f = Fixture::new();
    let train = with_turns().replace("--generations 12", "--generations 400");
    f.ok(&format!("{train} --out whole.fura"));
    let mut killed = 0;
    for k in 0..6u64 {
        let name = format!("k{k}.fura");
        let mut child = f.command(&format!("{train} --out {name}")).stdout(Stdio::null()).spawn().unwrap();
        let log = f.path(&format!("{name}.runlog"));
        while !log.exists() {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(7 * k * k));
        // SIGKILL on Unix: nothing of the process runs any more.
        child.kill().unwrap();
        killed += u32::from(!child.wait().unwrap().success());
        let out = f.run(&format!("{train} --out {name} --resume"));
        let error = String::from_utf8_lossy(&out.stderr).into_owned();
        if !out.status.success() {
            // Killed before the header was whole: the only state that cannot be resumed, and it says so.
            assert!(error.contains("runlog"), "{error}");
            std::fs::remove_file(&log).unwrap();
            f.ok(&format!("{train} --out {name}"));
        }
        assert_eq!(f.bytes(&name), f.bytes("whole.fura"), "after {k}: {error}");
    }
    assert!(killed > 0, "no run was still going when it was killed");
}

#[cfg(unix)]
#[test]
fn interrupted_it_saves_and_resumes_to_the_same_bytes() {
    let f = Fixture::new();
    let train = TRAIN.replace("--generations 12", "--generations 400");
    f.ok(&format!("{train} --out whole.fura"));
    let mut child = f
        .command(&format!("{train} --out s.fura"))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let log = f.path("s.fura.runlog");
    while std::fs::metadata(&log).map_or(0, |m| m.len()) < 6000 {
        assert!(child.try_wait().unwrap().is_none(), "the run ended too early");
        std::thread::sleep(Duration::from_millis(1));
    }
    let signal = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(signal.success());
    let out = child.wait_with_output().unwrap();
    assert_eq!(out.status.code(), Some(130), "{}", String::from_utf8_lossy(&out.stderr));
    assert!(f.path("s.fura").exists(), "what was learnt so far is saved");
    assert_ne!(f.bytes("s.fura"), f.bytes("whole.fura"));
    f.ok(&format!("{train} --out s.fura --resume"));
    assert_eq!(f.bytes("s.fura"), f.bytes("whole.fura"));
}

#[test]
fn bad_input_is_one_line_with_file_field_and_place_and_nothing_is_written() {
    let f = Fixture::new();
    f.ok(&format!("{TRAIN} --out s.fura"));
    let model = f.bytes("tiny.gguf");

    std::fs::write(f.path("short.gguf"), &model[..model.len() - 100]).unwrap();
    let e = f.refused(&format!("{} --out x.fura", TRAIN.replace("tiny.gguf", "short.gguf")));
    assert!(e.contains("short.gguf") && e.contains("tensor") && e.contains("byte"), "{e}");

    let mut magic = model.clone();
    magic[0] = b'X';
    std::fs::write(f.path("magic.gguf"), magic).unwrap();
    let e = f.refused("inspect magic.gguf");
    assert!(e.contains("magic.gguf") && e.contains("magic") && e.contains("byte 0"), "{e}");

    let e = f.refused("eval other.gguf --tasks tasks.jsonl --specialist s.fura");
    assert!(e.contains("s.fura") && e.contains("other.gguf") && e.contains("base"), "{e}");
    let e = f.refused("run other.gguf hello --specialist s.fura");
    assert!(e.contains("s.fura"), "{e}");

    let line = tiny::task_file().lines().next().unwrap().replace("\"id\"", "\"hint\":1,\"id\"");
    std::fs::write(f.path("bad.jsonl"), format!("{}{line}\n", tiny::task_file())).unwrap();
    let e = f.refused(&format!("{} --out x.fura", TRAIN.replace("tasks.jsonl", "bad.jsonl")));
    assert!(e.contains("bad.jsonl") && e.contains("hint") && e.contains("line 49"), "{e}");

    let e = f.refused(&format!("{TRAIN} --out s.fura"));
    assert!(e.contains("s.fura.runlog") && e.contains("--resume"), "{e}");
    let e = f.refused(&format!("{TRAIN} --out nowhere/x.fura"));
    assert!(e.contains("nowhere"), "{e}");
    let e = f.refused(&format!("{TRAIN} --out x.fura --resume"));
    assert!(e.contains("x.fura.runlog"), "{e}");
    let only_heldout: String =
        tiny::task_file().lines().filter(|l| !l.contains("train")).map(|l| format!("{l}\n")).collect();
    std::fs::write(f.path("heldout.jsonl"), only_heldout).unwrap();
    let e = f.refused(&format!("{} --out x.fura", TRAIN.replace("tasks.jsonl", "heldout.jsonl")));
    assert!(e.contains("heldout.jsonl") && e.contains("train"), "{e}");
    let e = f.refused(&format!("{TRAIN} --out x.fura --from-layer 2"));
    assert!(e.contains("from-layer"), "{e}");
    for turns in ["2x4", "0x4"] {
        let train = TRAIN.replace("--pairs 4", &format!("--from-layer 1 --turns {turns}"));
        let e = f.refused(&format!("{train} --out x.fura"));
        assert!(e.contains("--turns") && e.contains(turns) && e.contains("layers from 1 to 1"), "{e}");
    }
    let e = f.refused("inspect nowhere.gguf");
    assert_eq!(e.matches("No such file").count(), 1, "{e}");
    let e = f.refused(&format!("{TRAIN} --out x.fura --sigma nan"));
    assert!(e.contains("sigma"), "{e}");
    let e = f.refused(&format!("{} --out x.fura", TRAIN.replace("tasks.jsonl", "habits:many")));
    assert!(e.contains("habits"), "{e}");
    let e = f.refused(&format!("{} --out s.fura --resume", TRAIN.replace("tiny.gguf", "other.gguf")));
    assert!(e.contains("base model"), "{e}");

    let out = f.command("inspect --cpu").env("FURA_CPU", "mmx").output().unwrap();
    assert_eq!(out.status.code(), Some(2));
    assert!(String::from_utf8(out.stderr).unwrap().contains("scalar"));
}

#[test]
fn a_damaged_pack_is_named_and_says_what_to_do() {
    let f = Fixture::new();
    f.ok("inspect tiny.gguf");
    let pack = std::fs::read_dir(f.path("packs")).unwrap().next().unwrap().unwrap().path();
    let good = std::fs::read(&pack).unwrap();
    for (what, bytes) in [
        ("length", good[..good.len() - 1].to_vec()),
        ("header", [&good[..40], b"x", &good[41..]].concat()),
        ("magic", [b"X", &good[1..]].concat()),
        ("checksum", [&good[..good.len() - 5000], b"x", &good[good.len() - 4999..]].concat()),
    ] {
        std::fs::write(&pack, bytes).unwrap();
        let e = f.refused("inspect tiny.gguf");
        assert!(e.contains(what) && e.contains("delete"), "{what}: {e}");
    }
    std::fs::remove_file(&pack).unwrap();
    f.ok("inspect tiny.gguf");
    assert_eq!(std::fs::read(&pack).unwrap(), good, "a pack is a function of the model");
}

#[test]
fn run_samples_constrains_and_answers_batches() {
    let f = Fixture::new();
    let run = |line: &str| -> Value { serde_json::from_str(f.ok(&format!("{line} --json")).trim()).unwrap() };
    // The tiny model is sure of itself: at lower temperatures every seed draws the same.
    let hot = "run tiny.gguf abc --max-tokens 12 --temperature 40";
    assert_eq!(
        run(&format!("{hot} --seed 3"))["tokens"],
        run(&format!("{hot} --seed 3 --threads 3"))["tokens"]
    );
    assert_ne!(run(&format!("{hot} --seed 3"))["tokens"], run(&format!("{hot} --seed 4"))["tokens"]);
    assert_eq!(
        run(&format!("{hot} --top-k 1"))["tokens"],
        run("run tiny.gguf abc --max-tokens 12")["tokens"]
    );

    let chosen = run("run tiny.gguf abc --choices north,nook,x");
    assert!(["north", "nook", "x"].contains(&chosen["text"].as_str().unwrap()), "{chosen}");
    assert_eq!(chosen["finish"], "stop");
    std::fs::write(f.path("g.gbnf"), "root ::= \"n=\" [0-9]{3}\n").unwrap();
    let text = run("run tiny.gguf abc --grammar g.gbnf --temperature 3")["text"].as_str().unwrap().to_owned();
    assert!(text.len() == 5 && text.starts_with("n=") && text[2..].parse::<u32>().is_ok(), "{text}");

    // A batch from standard input: each line as it would be alone, in order, then the sum.
    std::fs::write(f.path("prompts.txt"), "abc\nsomething else\nabc\n").unwrap();
    let out = f
        .command("run tiny.gguf - --max-tokens 6 --json")
        .stdin(std::fs::File::open(f.path("prompts.txt")).unwrap())
        .output()
        .unwrap();
    assert!(out.status.success());
    let lines: Vec<Value> =
        String::from_utf8(out.stdout).unwrap().lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!((lines.len(), &lines[3]["prompts"]), (4, &Value::from(3)));
    assert_eq!(lines[0]["tokens"], run("run tiny.gguf abc --max-tokens 6")["tokens"]);
    assert_eq!(lines[0]["tokens"], lines[2]["tokens"]);

    for (line, what) in [
        ("run tiny.gguf abc --temperature -1", "temperature"),
        ("run tiny.gguf abc --top-p 2", "top_p"),
        ("run tiny.gguf abc --system be-kind", "chat template"),
        ("run tiny.gguf abc --grammar nowhere.gbnf", "nowhere.gbnf"),
        ("run tiny.gguf abc --grammar tasks.jsonl", "line 1"),
        ("plan tiny.gguf --memory 1K", "--kv f16"),
        ("plan tiny.gguf --context 257", "256"),
    ] {
        let e = f.refused(line);
        assert!(e.contains(what), "{line}: {e}");
    }
    let plan = run("plan tiny.gguf --memory 50M");
    assert!(plan["total_bytes"].as_u64().unwrap() <= 50_000_000 && plan["sequences"].as_u64().unwrap() > 1);
}

/// A grader that likes the first half of the alphabet, in another program.
const GRADER: &str = r#"
import json, sys
for line in sys.stdin:
    request = json.loads(line)
    text = request["output"]
    score = sum(c < "n" for c in text) / len(text) if text else 0
    print(json.dumps({"id": request["id"], "score": score}), flush=True)
"#;

/// Tasks without choices: the members write.
fn free_text() -> String {
    let line = |i: usize, split: &str| {
        format!(
            "{{\"id\":\"{split}{i}\",\"prompt\":\"say {i}:\",\"answer\":\"abc\",\"max_tokens\":6,\"stop\":[\"\\n\"],\
             \"grade\":{{\"type\":\"length\",\"min\":2,\"max\":5}},\"split\":\"{split}\"}}\n"
        )
    };
    (0..8).map(|i| line(i, "train")).chain((0..8).map(|i| line(i, "heldout"))).collect()
}

#[test]
fn written_answers_train_by_any_grader_and_resume_to_the_same_bytes() {
    let f = Fixture::new();
    std::fs::write(f.path("free.jsonl"), free_text()).unwrap();
    std::fs::write(f.path("grader.py"), GRADER).unwrap();
    std::fs::write(f.path("broken.py"), "import sys\nsys.exit(3)\n").unwrap();
    let train =
        "train tiny.gguf --tasks free.jsonl --generations 10 --pairs 4 --requests 3 --temperature 20 --json";
    // The tasks list no answers, so their own graders judge what is written.
    let own = f.ok(&format!("{train} --out own.fura --threads 1"));
    let external = f.ok(&format!("{train} --out a.fura --threads 1 -- python3 grader.py"));
    for out in [&own, &external] {
        let flat = out.lines().filter(|l| l.contains(r#""flat":true"#)).count();
        assert!(flat < 5, "{flat} of 10 generations taught nothing: {out}");
    }
    assert_ne!(f.bytes("own.fura"), f.bytes("a.fura"));
    for (k, isa) in fura::simd::Isa::available().enumerate() {
        let line = format!("{train} --out b{k}.fura --threads {} -- python3 grader.py", k + 1);
        let out = f.command(&line).env("FURA_CPU", isa.tier().name()).output().unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        assert_eq!(f.bytes(&format!("b{k}.fura")), f.bytes("a.fura"), "{isa:?}");
    }
    f.ok("rebuild a.fura.runlog --out rebuilt.fura");
    assert_eq!(f.bytes("rebuilt.fura"), f.bytes("a.fura"), "the rewards alone give the same specialist");
    let all: Value = serde_json::from_str(
        &f.ok("eval tiny.gguf --tasks free.jsonl --specialist a.fura --json -- python3 grader.py"),
    )
    .unwrap();
    assert_eq!(all["specialist"]["heldout"]["n"], 8);

    // A log that ends in the middle of a record, and then a grader that breaks: nothing is lost, nothing counts as zero.
    let log = f.bytes("a.fura.runlog");
    std::fs::write(f.path("c.fura.runlog"), &log[..log.len() - log.len() / 4]).unwrap();
    let broken = f.run(&format!("{train} --out c.fura --resume -- python3 broken.py"));
    let error = String::from_utf8_lossy(&broken.stderr).into_owned();
    assert_eq!(broken.status.code(), Some(2), "{error}");
    assert!(
        error.contains("every member of a generation met an answer that could not be graded")
            && error.contains("--resume"),
        "{error}"
    );
    f.ok(&format!("{train} --out c.fura --resume -- python3 grader.py"));
    assert_eq!(f.bytes("c.fura"), f.bytes("a.fura"));
}

#[test]
fn tasks_that_list_answers_can_be_answered_in_writing_too() {
    let f = Fixture::new();
    let scored = f.ok(&format!("{TRAIN} --out s.fura"));
    let written = f.ok(&format!("{TRAIN} --out w.fura --answers written"));
    let free = |out: &str| -> f64 {
        let last: Value = serde_json::from_str(out.lines().last().unwrap()).unwrap();
        last["base"]["heldout"]["free"].as_f64().unwrap()
    };
    assert_eq!(free(&scored), free(&written), "free text is the same text");
    std::fs::write(f.path("free.jsonl"), free_text()).unwrap();
    let error = f.refused("train tiny.gguf --tasks free.jsonl --out x.fura --answers scored");
    assert!(error.contains("'choices' is empty") && error.contains("--answers written"), "{error}");
}

#[test]
fn bench_has_the_workloads_and_the_fields_of_llama_cpps_programs() {
    let f = Fixture::new();
    let line = "bench tiny.gguf --prompt 40 --generate 5 --sequences 1,3 --batched-prompt 20 --batched-generate 4 \
                --members 6 --from-layer 1 --rounds 3 --threads 2 --json";
    let out: Value = serde_json::from_str(f.ok(line).trim()).unwrap();
    assert_eq!((&out["n_threads"], &out["rounds"]), (&Value::from(2), &Value::from(3)));
    // Three rates, the median one of them, and the average between the extremes.
    let check = |samples: &Value, median: &Value| {
        let mut all: Vec<f64> = samples.as_array().unwrap().iter().map(|r| r.as_f64().unwrap()).collect();
        all.sort_by(f64::total_cmp);
        assert_eq!(all.len(), 3);
        assert!(all[0] > 0.0 && median.as_f64().unwrap() == all[1], "{all:?}, {median}");
        all
    };
    let tests = out["tests"].as_array().unwrap();
    assert_eq!(tests.iter().map(|t| t["test"].as_str().unwrap()).collect::<Vec<_>>(), ["pp40", "tg5"]);
    for t in tests {
        let all = check(&t["samples_ts"], &t["median_ts"]);
        let average = t["avg_ts"].as_f64().unwrap();
        assert!(all[0] <= average && average <= all[2] && t["stddev_ts"].is_number(), "{t}");
        assert_eq!(
            t["n_prompt"].as_u64().unwrap() + t["n_gen"].as_u64().unwrap(),
            if t == &tests[0] { 40 } else { 5 }
        );
    }
    let batched = out["batched"].as_array().unwrap();
    let runs: Vec<_> =
        batched.iter().map(|b| (b["pl"].as_u64().unwrap(), b["members"].as_u64().unwrap())).collect();
    assert_eq!(runs, [(1, 0), (1, 6), (3, 0), (3, 6)]);
    for b in batched {
        let pl = b["pl"].as_f64().unwrap();
        assert_eq!(
            (&b["pp"], &b["tg"], &b["n_kv"]),
            (&Value::from(20), &Value::from(4), &Value::from(24 * pl as u64))
        );
        check(&b["samples_pp"], &b["speed_pp"]);
        check(&b["samples_tg"], &b["speed_tg"]);
        // A rate is tokens over time.
        for (rate, time, tokens) in
            [("speed_pp", "t_pp", 20.0), ("speed_tg", "t_tg", 4.0), ("speed", "t", 24.0)]
        {
            let product = b[rate].as_f64().unwrap() * b[time].as_f64().unwrap();
            assert!((product / (tokens * pl) - 1.0).abs() < 1e-9, "{rate} of {b}");
        }
    }
    let score = out["score"].as_array().unwrap();
    assert_eq!(score.iter().map(|s| s["perturbed"].as_bool().unwrap()).collect::<Vec<_>>(), [false, true]);
    score.iter().for_each(|s| drop(check(&s["samples"], &s["speed"])));

    let table = f.ok("bench tiny.gguf --prompt 40 --generate 0 --sequences 0 --rounds 1");
    assert!(table.contains("pp40") && !table.contains("tg"), "{table}");
    for (line, what) in [
        ("bench tiny.gguf --prompt 257", "256"),
        ("bench tiny.gguf --prompt 9 --generate 9 --batched-prompt 200 --batched-generate 57", "256"),
        ("bench tiny.gguf --prompt 0 --generate 0 --sequences 0", "nothing to measure"),
        ("bench tiny.gguf --prompt 9 --generate 9 --sequences 1 --from-layer 2", "--from-layer"),
    ] {
        let e = f.refused(line);
        assert!(e.contains(what), "{line}: {e}");
    }
}
