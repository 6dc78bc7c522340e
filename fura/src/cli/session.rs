//! What most commands begin with: instruction set, threads, model, tasks, specialist.

use super::args::{AnswerArgs, AnswerKind, Common};
use super::progress::Progress;
use anyhow::{Context, Result, anyhow};
use fura::core::specialist::Specialist;
use fura::judge::Judge;
use fura::model::chat::{Message, Role};
use fura::model::tokenizer::PreTokenizer;
use fura::model::{Adapted, Model};
use fura::simd::Isa;
use fura::tasks::phone::Decisions;
use fura::tasks::{External, ExternalSpec, Generated, Habits, TaskSet, TaskSource};
use fura::trainer::Answers;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// Block size when nothing else says one: the quantization group.
pub(crate) const BLOCK: usize = 32;

pub(crate) struct Session {
    pub(crate) isa: Isa,
    pub(crate) pool: rayon::ThreadPool,
    cache: PathBuf,
    pre: Option<PreTokenizer>,
    json: bool,
}

impl Session {
    pub(crate) fn new(common: &Common) -> Result<Session> {
        let isa = match std::env::var("FURA_CPU") {
            Ok(name) => Isa::named(&name).context("environment variable FURA_CPU")?,
            Err(std::env::VarError::NotPresent) => Isa::detect(),
            Err(e) => return Err(anyhow!("environment variable FURA_CPU: {e}")),
        };
        let threads = match common.threads {
            Some(n) => usize::from(n),
            None => std::thread::available_parallelism().map_or(1, |n| n.get()),
        };
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .thread_name(|i| format!("fura-{i}"))
            .build()
            .context("starting threads")?;
        Ok(Session { isa, pool, cache: cache_folder(common)?, pre: common.pre, json: common.json })
    }

    pub(crate) fn threads(&self) -> usize {
        self.pool.current_num_threads()
    }

    /// Opens a model; its pack is made on first use, with progress, until `cancel` is set.
    pub(crate) fn model(&self, file: &Path, block: usize, cancel: &AtomicBool) -> Result<Model> {
        let mut bar: Option<Progress> = None;
        let mut progress = |done: usize, all: usize| {
            let bar = bar.get_or_insert_with(|| Progress::new("packing (once)", all as u64, self.json));
            bar.set(done as u64, "");
            if cancel.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let model =
            self.pool.install(|| Model::open_with(file, &self.cache, block, self.pre, &mut progress))?;
        if let Some(bar) = bar {
            bar.clear();
        }
        warn_of_two_beginnings(&model);
        Ok(model)
    }
}

/// Says so if the model's chat template begins a sequence twice: a fault of its file that costs quality and shows nowhere.
fn warn_of_two_beginnings(model: &Model) {
    let Some(template) = model.chat_template() else { return };
    let ids = template.encode(model.tokenizer(), &[Message { role: Role::User, content: "Hi" }], true);
    if ids.is_ok_and(|ids| model.tokenizer().begins_twice(&ids)) {
        eprintln!(
            "{}: its chat template writes the begin-of-sequence token twice; answers may be worse than with one",
            model.file().display()
        );
    }
}

fn cache_folder(common: &Common) -> Result<PathBuf> {
    if let Some(folder) = &common.cache {
        return Ok(folder.clone());
    }
    if let Some(folder) = std::env::var_os("XDG_CACHE_HOME").filter(|f| !f.is_empty()) {
        return Ok(PathBuf::from(folder).join("fura"));
    }
    let home = std::env::var_os("HOME").or_else(|| std::env::var_os("USERPROFILE"));
    let home = home.ok_or_else(|| anyhow!("no home folder is known; say where packs go with --cache DIR"))?;
    Ok(PathBuf::from(home).join(".cache").join("fura"))
}

/// A task file, or the name of a generated environment: see the help of `--tasks`.
pub(crate) fn tasks(spec: &str, seed: u64) -> Result<TaskSource> {
    if spec.starts_with("habits:") {
        return Ok(TaskSource::Habits(spec.parse::<Habits>().context("--tasks")?));
    }
    if spec.starts_with("phone:") {
        return Ok(TaskSource::Phone(spec.parse::<Decisions>().context("--tasks")?));
    }
    if Generated::is_name(spec) {
        return Ok(TaskSource::Generated(spec.parse::<Generated>().context("--tasks")?));
    }
    Ok(TaskSource::File { set: TaskSet::open(spec)?, seed })
}

/// Loads a specialist, checks that it belongs to this model, and makes its transforms.
pub(crate) fn specialist(session: &Session, path: &Path, model: &Model) -> Result<Adapted> {
    let specialist = Specialist::load(path)?;
    let first = model.first_layer(specialist.layout());
    let expected = first.map_or_else(|| model.layout().clone(), |l| model.layout_from(l));
    specialist
        .check_base(&model.fingerprint(), &expected)
        .with_context(|| format!("{} does not fit {}", path.display(), model.file().display()))?;
    // Without a first layer the layouts differ, which the check has refused.
    Ok(Adapted::new(model, session.isa, specialist.coordinates(), specialist.layout()))
}

/// The block size a specialist was trained with.
pub(crate) fn block_of(path: Option<&Path>) -> Result<usize> {
    match path {
        Some(path) => Ok(Specialist::load(path)?.layout().block()),
        None => Ok(BLOCK),
    }
}

/// Whether the tasks are to be answered by scoring or in writing.
pub(crate) fn answers(args: &AnswerArgs, source: &TaskSource) -> Answers {
    let lists = || source.train(0, 1).iter().chain(&source.heldout(1)).all(|t| !t.choices.is_empty());
    let written = match args.answers {
        Some(kind) => kind == AnswerKind::Written,
        None => !args.command.is_empty() || !lists(),
    };
    if written { Answers::Written { temperature: args.temperature } } else { Answers::Scored }
}

/// Who grades: the tasks' own graders, or the command that was given, which is started.
pub(crate) fn judge(args: &AnswerArgs) -> Result<Judge> {
    if args.command.is_empty() {
        return Ok(Judge::Own);
    }
    let mut spec = ExternalSpec::new(args.command.clone());
    spec.item_seconds = args.seconds;
    Ok(Judge::External(Box::new(External::start(&spec)?)))
}
