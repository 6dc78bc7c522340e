//! `fura grade`: task files and their graders, without a model.

use super::Outcome;
use super::args::{Common, Grade, GradeCheck, GradeImport, GradeRun, GradeStress, ImportFormat};
use anyhow::{Context, Result, bail};
use fura_tasks::import::{self, OpenAiGrader};
use fura_tasks::{External, ExternalSpec, GraderSpec, Output, Request, Tally, Task, TaskSet, stress};
use serde_json::json;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

pub(crate) fn run(args: &Grade, common: &Common) -> Result<Outcome> {
    match args {
        Grade::Check(args) => check(args, common)?,
        Grade::Stress(args) => attack(args, common)?,
        Grade::Run(args) => grade(args, common)?,
        Grade::Import(args) => import(args, common)?,
    }
    Ok(Outcome::Done)
}

/// Reading a task file is the check: a task that fails its own test is an error.
fn check(args: &GradeCheck, common: &Common) -> Result<()> {
    let set = TaskSet::open(&args.tasks)?;
    let tasks = set.tasks();
    let count = |examples: fn(&Task) -> usize| tasks.iter().map(examples).sum::<usize>();
    let (good, bad) = (count(|task| task.good.len()), count(|task| task.bad.len()));
    let mut splits: BTreeMap<String, usize> = BTreeMap::new();
    let mut graders: BTreeMap<&str, usize> = BTreeMap::new();
    for task in tasks {
        *splits.entry(task.split.to_string()).or_default() += 1;
        *graders.entry(task.grade.kind()).or_default() += 1;
    }
    if common.json {
        println!(
            "{}",
            json!({"file": set.describe(), "tasks": tasks.len(), "splits": splits, "graders": graders, "good": good, "bad": bad})
        );
        return Ok(());
    }
    println!("tasks       {} ({})", tasks.len(), list(&splits));
    println!("graders     {}", list(&graders));
    println!(
        "self-test   passed: {} answers and {good} good examples score 1, {bad} bad ones less",
        tasks.len()
    );
    println!("file        {}", set.describe());
    Ok(())
}

fn attack(args: &GradeStress, common: &Common) -> Result<()> {
    let set = TaskSet::open(&args.tasks)?;
    let (mut tried, mut tasks, mut broken) = (0, 0, 0);
    for task in set.tasks().iter().take(args.limit.unwrap_or(usize::MAX)) {
        let found = stress(task)?;
        tried += found.tried;
        tasks += 1;
        broken += usize::from(found.is_broken());
        for finding in &found.findings {
            let output: String = finding.output.chars().take(60).collect();
            if common.json {
                println!(
                    "{}",
                    json!({"event": "finding", "task": task.id, "attack": finding.attack.as_str(), "score": finding.score, "label": finding.label, "output": output})
                );
            } else {
                println!(
                    "{:<16} {:<12} earns {:.3} ({}) with {output:?}",
                    task.id,
                    finding.attack.as_str(),
                    finding.score,
                    finding.label
                );
            }
        }
    }
    if common.json {
        println!("{}", json!({"tasks": tasks, "outputs": tried, "broken": broken}));
    } else {
        println!("{tried} outputs tried on {tasks} tasks");
    }
    if broken > 0 {
        bail!(
            "{}: {broken} of {tasks} graders give 1 to an attack; make them stricter, or gate what is only form",
            args.tasks.display()
        );
    }
    Ok(())
}

fn grade(args: &GradeRun, common: &Common) -> Result<()> {
    let set = TaskSet::open(&args.tasks)?;
    let by_id: HashMap<&str, &Task> = set.tasks().iter().map(|task| (task.id.as_str(), task)).collect();
    let outputs = Output::read(&args.outputs.display().to_string(), open(&args.outputs)?)?;
    let mut requests = Vec::with_capacity(outputs.len());
    for output in &outputs {
        let Some(task) = by_id.get(output.id.as_str()) else {
            let id: String = output.id.chars().take(60).collect();
            bail!("{}: id {id:?} is no task of {}", args.outputs.display(), args.tasks.display());
        };
        requests.push(Request { task, output: &output.output });
    }
    let mut external = None;
    if !args.command.is_empty() {
        let mut spec = ExternalSpec::new(args.command.clone());
        spec.item_seconds = args.seconds;
        spec.batch_seconds = args.seconds * f64::from(args.batch);
        (spec.memory_bytes, spec.cpu_seconds) = (args.memory, args.cpu_seconds);
        external = Some(External::start(&spec)?);
    }
    let mut tally = Tally::default();
    for batch in requests.chunks(args.batch as usize) {
        let grades = match &mut external {
            Some(external) => external.grade(batch),
            None => batch.iter().map(|request| request.task.grade(request.output)).collect(),
        };
        for (request, grade) in batch.iter().zip(&grades) {
            tally.add(grade);
            if common.json {
                println!("{}", json!({"event": "grade", "id": request.task.id, "grade": grade}));
            }
        }
    }
    let labels: BTreeMap<&str, u64> =
        tally.labels.iter().map(|(label, count)| (label.as_str(), *count)).collect();
    if common.json {
        println!(
            "{}",
            json!({"scores": tally.scores, "mean": tally.mean(), "abstentions": tally.abstentions, "faults": tally.faults, "labels": labels})
        );
        return Ok(());
    }
    match tally.mean() {
        Some(mean) => println!("mean        {mean:.4} of {} scores", tally.scores),
        None => println!("mean        none: no output has a score"),
    }
    println!("no score    {} abstentions, {} faults", tally.abstentions, tally.faults);
    println!("labels      {}", list(&labels));
    Ok(())
}

fn import(args: &GradeImport, common: &Common) -> Result<()> {
    let name = args.file.display().to_string();
    let reader = open(&args.file)?;
    // The parser demands these for the formats that need them.
    let grader = args.grader.as_deref().unwrap_or_default();
    let imported = match args.format {
        ImportFormat::Gsm8k => import::gsm8k(&name, reader)?,
        ImportFormat::Bfcl => {
            let answers = args.answers.as_deref().context("--answers is missing")?;
            import::bfcl((&name, reader), (&answers.display().to_string(), open(answers)?))?
        }
        ImportFormat::Openai => {
            let grader: OpenAiGrader = serde_json::from_str(grader).context("--grader")?;
            import::openai(&name, reader, &grader)?
        }
        ImportFormat::Columns => {
            let grader: GraderSpec = serde_json::from_str(grader).context("--grader")?;
            import::columns(&name, reader, &grader)?
        }
    };
    let imported = imported.into_split(args.split.into());
    for skipped in &imported.skipped {
        eprintln!("{name}: line {}: left out: {}", skipped.line, skipped.why.replace('\n', " "));
    }
    if imported.tasks.is_empty() {
        bail!("{name}: no row could be imported; nothing was written");
    }
    let mut lines: Vec<String> = imported.tasks.iter().map(Task::to_line).collect();
    lines.push(String::new());
    std::fs::write(&args.out, lines.join("\n")).with_context(|| args.out.display().to_string())?;
    let (tasks, skipped) = (imported.tasks.len(), imported.skipped.len());
    if common.json {
        println!("{}", json!({"tasks": tasks, "skipped": skipped, "out": args.out.display().to_string()}));
    } else {
        println!("{}: {tasks} tasks written, {skipped} rows left out", args.out.display());
    }
    Ok(())
}

fn open(path: &Path) -> Result<BufReader<File>> {
    let file = File::open(path).with_context(|| format!("{}: check the path", path.display()))?;
    Ok(BufReader::new(file))
}

fn list<K: std::fmt::Display, V: std::fmt::Display>(counts: &BTreeMap<K, V>) -> String {
    counts.iter().map(|(name, count)| format!("{name} {count}")).collect::<Vec<_>>().join(", ")
}
