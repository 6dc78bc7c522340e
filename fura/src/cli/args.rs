//! The command line, as help text one can learn from.

use clap::{Args, Parser, Subcommand, ValueEnum};
use fura::core::layout::{Form, Scope};
use fura::model::tokenizer::PreTokenizer;
use fura::reward::Reward;
use fura::turns::LayerTurn;
use std::path::PathBuf;

#[derive(Parser)]
#[command(
    name = "fura",
    version,
    about = "Trains specialist LLMs on personal devices by forward passes alone",
    long_about = "Trains a specialist of a shared INT4 model from outcomes that a program checks, by forward passes \
                  alone. The model file is never changed; a specialist is a small file of its own.",
    after_help = "Exit codes: 0 done, 2 something in the input is wrong (nothing was written), 130 interrupted \
                  (training is saved; go on with --resume).\n\nEnvironment: FURA_CPU=scalar|avx2|avx512|neon|dotprod|i8mm \
                  forces an instruction set; results are the same bits."
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Args, Clone)]
pub(crate) struct Common {
    /// Print machine-readable JSON, one object a line; the last line is the result
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Threads to use [default: all cores]; results do not depend on it
    #[arg(long, global = true, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: Option<u16>,
    /// Folder for packs, the training-ready copies of models [default: $XDG_CACHE_HOME/fura or ~/.cache/fura]
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) cache: Option<PathBuf>,
    /// Pre-tokenizer, for a model file that names none or an unknown one that is known to split alike
    #[arg(long, global = true, value_name = "NAME", value_parser = pre_tokenizer)]
    pub(crate) pre: Option<PreTokenizer>,
}

fn pre_tokenizer(name: &str) -> Result<PreTokenizer, String> {
    PreTokenizer::from_name(name).ok_or_else(|| format!("expected one of {}", PreTokenizer::known()))
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Show what a model file holds and which kernels would run it
    Inspect(Inspect),
    /// Answer a prompt, or many, with the base model or a specialist
    Run(Run),
    /// Show what batch, context and members fit into a given memory, from the model's header alone
    Plan(PlanArgs),
    /// Measure tokens per second of reading prompts and of generating
    Bench(Bench),
    /// Train a specialist from checked outcomes
    Train(Train),
    /// Measure success on held-out tasks
    Eval(Eval),
    /// Rebuild a specialist from its run log alone, without the model
    Rebuild(Rebuild),
    /// Check, attack and run the graders of task files; no model is needed
    #[command(subcommand)]
    Grade(Grade),
}

#[derive(Subcommand)]
pub(crate) enum Grade {
    /// Read a task file, so that every task tests its own grader
    Check(GradeCheck),
    /// Attack the graders of a task file with outputs that should earn nothing
    Stress(GradeStress),
    /// Grade outputs, with the tasks' graders or another program
    Run(GradeRun),
    /// Make a task file of a file in another format
    Import(GradeImport),
}

#[derive(Args)]
pub(crate) struct GradeCheck {
    /// Task file (JSON Lines)
    pub(crate) tasks: PathBuf,
}

#[derive(Args)]
pub(crate) struct GradeStress {
    /// Task file (JSON Lines)
    pub(crate) tasks: PathBuf,
    /// Tasks to attack, from the beginning of the file [default: all]
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<usize>,
}

#[derive(Args)]
pub(crate) struct GradeRun {
    /// Task file (JSON Lines)
    pub(crate) tasks: PathBuf,
    /// Outputs, {"id":"TASK","output":"TEXT"} a line
    pub(crate) outputs: PathBuf,
    /// Seconds without an answer after which an external grader is given up
    #[arg(long, value_name = "S", default_value_t = 10.0)]
    pub(crate) seconds: f64,
    /// Outputs in a batch of an external grader
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub(crate) batch: u32,
    /// Most memory of an external grader's process, such as 500M or 2G (Linux) [default: no limit]
    #[arg(long, value_name = "SIZE", value_parser = super::plan::bytes)]
    pub(crate) memory: Option<u64>,
    /// Most seconds of processor time of an external grader's process (Linux) [default: no limit]
    #[arg(long, value_name = "N")]
    pub(crate) cpu_seconds: Option<u64>,
    /// External grader: a program and its arguments, which speaks JSON Lines [default: the tasks' own graders]
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}

#[derive(Args)]
pub(crate) struct GradeImport {
    /// Format of the file
    #[arg(value_enum)]
    pub(crate) format: ImportFormat,
    /// File to import (JSON Lines)
    pub(crate) file: PathBuf,
    /// Task file to write
    #[arg(long, value_name = "FILE")]
    pub(crate) out: PathBuf,
    /// Accepted answers (bfcl)
    #[arg(long, value_name = "FILE", required_if_eq("format", "bfcl"))]
    pub(crate) answers: Option<PathBuf>,
    /// Grader as JSON, one of ours (columns) or OpenAI's (openai)
    #[arg(long, value_name = "JSON", required_if_eq_any([("format", "columns"), ("format", "openai")]))]
    pub(crate) grader: Option<String>,
    /// What the tasks are for; files of several splits can be put together with cat
    #[arg(long, value_enum, default_value = "train")]
    pub(crate) split: ImportSplit,
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum ImportSplit {
    /// Training
    Train,
    /// Measuring
    Heldout,
    /// Measuring, in wordings that training does not have
    Phrasings,
}

impl From<ImportSplit> for fura::tasks::Split {
    fn from(split: ImportSplit) -> Self {
        match split {
            ImportSplit::Train => Self::Train,
            ImportSplit::Heldout => Self::Heldout,
            ImportSplit::Phrasings => Self::Phrasings,
        }
    }
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum ImportFormat {
    /// GSM8K: question, answer with ####
    Gsm8k,
    /// Berkeley Function Calling Leaderboard, simple and multiple
    Bfcl,
    /// Items with an OpenAI grader
    Openai,
    /// prompt or question, answer or solution or ground_truth (TRL, verifiers)
    Columns,
}

#[derive(Args)]
pub(crate) struct Inspect {
    /// GGUF file, or a folder with config.json, safetensors files and tokenizer.json
    #[arg(required_unless_present = "cpu")]
    pub(crate) model: Option<PathBuf>,
    /// Show the instruction sets of this machine and the one that would be used
    #[arg(long)]
    pub(crate) cpu: bool,
}

#[derive(Args)]
pub(crate) struct Run {
    /// GGUF file, or a folder with config.json, safetensors files and tokenizer.json
    pub(crate) model: PathBuf,
    /// What to say to the model; - reads prompts from standard input, one a line, and runs them as a batch
    pub(crate) prompt: String,
    /// Specialist file
    #[arg(long, value_name = "FILE")]
    pub(crate) specialist: Option<PathBuf>,
    /// Continue the prompt as plain text, without the chat template that the model's file brings
    #[arg(long)]
    pub(crate) raw: bool,
    /// System message, where there is a chat template [default: the template's own, if it has one]
    #[arg(long, value_name = "TEXT", conflicts_with = "raw")]
    pub(crate) system: Option<String>,
    /// Most tokens to generate
    #[arg(long, value_name = "N", default_value_t = 256)]
    pub(crate) max_tokens: usize,
    /// Text that ends the answer and is not part of it; can be given several times
    #[arg(long, value_name = "TEXT")]
    pub(crate) stop: Vec<String>,
    #[command(flatten)]
    pub(crate) sampling: SamplingArgs,
    /// Answer with exactly one of these texts, separated by commas
    #[arg(long, value_name = "A,B,C", value_delimiter = ',', conflicts_with = "grammar")]
    pub(crate) choices: Vec<String>,
    /// Answer with a text of this grammar: rules such as  root ::= "yes" | "no" | [0-9]{1,3}
    #[arg(long, value_name = "FILE")]
    pub(crate) grammar: Option<PathBuf>,
    /// Precision of cached keys and values; f16 takes half the memory and gives slightly other results
    #[arg(long, value_enum, value_name = "TYPE", default_value = "f32")]
    pub(crate) kv: KvType,
}

#[derive(Args)]
pub(crate) struct SamplingArgs {
    /// How freely tokens are drawn: 0 always takes the most likely one, 1 follows the model's probabilities
    #[arg(long, value_name = "T", default_value_t = 0.0, allow_negative_numbers = true)]
    pub(crate) temperature: f32,
    /// Draw among the N most likely tokens only; 0 for all
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) top_k: usize,
    /// Draw among the most likely tokens that together have this probability
    #[arg(long, value_name = "P", default_value_t = 1.0, allow_negative_numbers = true)]
    pub(crate) top_p: f32,
    /// Draw among tokens at least this times as likely as the most likely one
    #[arg(long, value_name = "P", default_value_t = 0.0, allow_negative_numbers = true)]
    pub(crate) min_p: f32,
    /// Seed of the draws; prompt number i of a batch, from 0, uses seed + i
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum KvType {
    /// 32 bits
    F32,
    /// 16 bits
    F16,
}

impl From<KvType> for fura::model::Precision {
    fn from(kv: KvType) -> Self {
        match kv {
            KvType::F32 => Self::Single,
            KvType::F16 => Self::Half,
        }
    }
}

#[derive(Args)]
pub(crate) struct PlanArgs {
    /// GGUF file or model folder; only headers are read
    pub(crate) model: PathBuf,
    /// Private memory to plan for, such as 500M or 2G, beside the memory-mapped model
    #[arg(long, value_name = "SIZE", default_value = "2G", value_parser = super::plan::bytes)]
    pub(crate) memory: u64,
    /// Tokens a sequence may have, prompt and answer [default: the model's context, at most 4096]
    #[arg(long, value_name = "N")]
    pub(crate) context: Option<usize>,
    /// Precision of cached keys and values
    #[arg(long, value_enum, value_name = "TYPE", default_value = "f32")]
    pub(crate) kv: KvType,
    /// Plan a generation of training with so many members, and inference at the same batch, instead of generating
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=1_048_576),
          conflicts_with_all = ["memory", "context", "kv"])]
    pub(crate) members: Option<u32>,
    /// Training: requests of a generation [default: 24, or 8 where answers are written or --scope is everywhere]
    #[arg(long, value_name = "N", requires = "members", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub(crate) requests: Option<u32>,
    /// Training: tokens of the longest prompt
    #[arg(long, value_name = "N", default_value_t = 128, requires = "members", value_parser = clap::value_parser!(u32).range(1..=1_048_576))]
    pub(crate) prompt: u32,
    /// Training: legal answers of a request, which are scored
    #[arg(long, value_name = "N", default_value_t = 16, requires = "members", value_parser = clap::value_parser!(u32).range(2..=65_536))]
    pub(crate) answers: u32,
    /// Training: tokens of the longest answer
    #[arg(long, value_name = "N", default_value_t = 16, requires = "members", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub(crate) tokens: u32,
    /// Training: members write their answers
    #[arg(long, requires = "members", conflicts_with = "answers")]
    pub(crate) written: bool,
    /// Training: first trained layer [default: that of fura train]
    #[arg(long, value_name = "L", requires = "members")]
    pub(crate) from_layer: Option<usize>,
    /// Training: tokens at which the specialist acts [default: that of fura train]
    #[arg(long, value_name = "SCOPE", requires = "members")]
    pub(crate) scope: Option<Scope>,
    /// Form in which specialists' transforms are computed: materialized, or factored, which keeps coordinates alone
    #[arg(long, value_name = "FORM", default_value_t)]
    pub(crate) form: Form,
}

#[derive(Args)]
pub(crate) struct Bench {
    /// GGUF file, or a folder with config.json, safetensors files and tokenizer.json
    pub(crate) model: PathBuf,
    /// Tokens of a prompt that is read alone; 0 for none
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = clap::value_parser!(u32).range(0..=8192))]
    pub(crate) prompt: u32,
    /// Tokens generated in one sequence alone; 0 for none
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(0..=8192))]
    pub(crate) generate: u32,
    /// Batched runs: numbers of sequences side by side; 0 for none
    #[arg(long, value_name = "N,N,...", value_delimiter = ',', default_value = "1,2,4,8,16,32,64,128",
          value_parser = clap::value_parser!(u32).range(0..=1024))]
    pub(crate) sequences: Vec<u32>,
    /// Batched runs: tokens of each sequence's prompt
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=8192))]
    pub(crate) batched_prompt: u32,
    /// Batched runs: tokens generated after it
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=8192))]
    pub(crate) batched_generate: u32,
    /// Run the batched workloads also with so many perturbed members, and the scoring of a generation with and without
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=1024))]
    pub(crate) members: u32,
    /// First layer that members are perturbed in; scoring computes those below once for all
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) from_layer: usize,
    /// Form in which members' transforms are computed: materialized or factored
    #[arg(long, value_name = "FORM", default_value_t)]
    pub(crate) form: Form,
    /// Precision of cached keys and values
    #[arg(long, value_enum, value_name = "TYPE", default_value = "f32")]
    pub(crate) kv: KvType,
    /// Rounds; each runs every measurement once, and the median over rounds is shown
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) rounds: u32,
}

#[derive(Args)]
pub(crate) struct Train {
    /// GGUF file, or a folder with config.json, safetensors files and tokenizer.json
    pub(crate) model: PathBuf,
    /// Task file (JSON Lines), or generated tasks: habits:SEED, phone:SEED or phone:SEED/LEVEL of a phone's user;
    /// countdown:SEED[/N], calls:SEED or extract:SEED, answered in free text
    #[arg(long, value_name = "TASKS")]
    pub(crate) tasks: String,
    /// Specialist to write; the run log is written beside it as FILE.runlog, a picture of the run as FILE.svg
    #[arg(long, value_name = "FILE")]
    pub(crate) out: PathBuf,
    /// Go on from the run log of an interrupted run; its settings are used, the ones given here are ignored
    #[arg(long)]
    pub(crate) resume: bool,
    /// Generations of the run [default: 150, or 400 where answers are written or --scope is everywhere]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) generations: Option<u32>,
    /// Layers that take turns, one turn a generation, each with its number of antithetic pairs; twice as many members
    /// answer the requests; 29a leaves that layer's attention alone [default: the top layer after attention, then all
    /// trained layers, such as 29ax512,12-29x96; with --scope everywhere each trained layer by itself, after a turn of the
    /// top one, such as 29x192,28x64,29x192,27x32; none where answers are written]
    #[arg(long, value_name = "LAYERxPAIRS", value_delimiter = ',')]
    pub(crate) turns: Option<Vec<LayerTurn>>,
    /// Instead of turns, perturb all trained layers together in every generation, with so many antithetic pairs
    #[arg(long, value_name = "N", conflicts_with = "turns", value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub(crate) pairs: Option<u32>,
    /// Requests that every member answers in a generation [default: 24, or 8 where answers are written or --scope is
    /// everywhere]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub(crate) requests: Option<u32>,
    /// Standard deviation of the perturbation, relative to the singular values [default: 0.2]
    #[arg(long, value_name = "X")]
    pub(crate) sigma: Option<f32>,
    /// Step size with 16 pairs or those of --pairs; turns scale it by the root of their share [default: 0.1]
    #[arg(long, value_name = "X")]
    pub(crate) alpha: Option<f32>,
    /// Share of the step size that is left at the end (linear decay) [default: 0.05]
    #[arg(long, value_name = "X")]
    pub(crate) final_alpha: Option<f32>,
    /// Share of the coordinates forgotten in a generation
    #[arg(long, value_name = "X", default_value_t = 0.0)]
    pub(crate) decay: f32,
    /// What is maximized where answers are scored [default: log-expected]; of written answers it is the mean score
    #[arg(long, value_enum)]
    pub(crate) reward: Option<RewardKind>,
    #[command(flatten)]
    pub(crate) answer: AnswerArgs,
    /// Input channels in a block
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) block: u16,
    /// First layer to train; those below stay the base's and are computed once for the whole population
    /// [default: the upper three fifths of the model, or the upper tenth where answers are written or --scope is
    /// everywhere]
    #[arg(long, value_name = "N")]
    pub(crate) from_layer: Option<usize>,
    /// Tokens at which the specialist acts: everywhere, or answer for a prompt's last token and what follows. The base
    /// then reads prompts for the whole population, so low layers cost little [default: answer, or everywhere where answers are written]
    #[arg(long, value_name = "SCOPE")]
    pub(crate) scope: Option<Scope>,
    /// Form in which the specialist's transforms are computed: materialized for many rows of a member, or factored for few, as
    /// in written answers of many members and specialists served side by side
    #[arg(long, value_name = "FORM", default_value_t)]
    pub(crate) form: Form,
    /// Seed of the perturbations
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,
    /// Held-out questions to evaluate on, of each kind
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) eval: u32,
}

/// How members answer, and who grades what they write.
#[derive(Args)]
pub(crate) struct AnswerArgs {
    /// How tasks are answered [default: scored if they list answers, else written]
    #[arg(long, value_enum, value_name = "HOW")]
    pub(crate) answers: Option<AnswerKind>,
    /// How freely written answers are drawn: 0 always takes the most likely token, 1 follows the model's probabilities
    #[arg(long, value_name = "T", default_value_t = 0.0)]
    pub(crate) temperature: f32,
    /// Seconds without an answer after which an external grader is given up
    #[arg(long, value_name = "S", default_value_t = 10.0)]
    pub(crate) seconds: f64,
    /// External grader of written answers: a program and its arguments, which speaks JSON Lines [default: the tasks' own
    /// graders]
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum AnswerKind {
    /// By the probabilities of the answers that a task lists; nothing is generated
    Scored,
    /// In free text, which a grader judges
    Written,
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum RewardKind {
    /// Log of the exact expected reward
    LogExpected,
    /// Exact expected reward
    Expected,
    /// Reward of the most likely answer
    Greedy,
}

impl From<RewardKind> for Reward {
    fn from(kind: RewardKind) -> Reward {
        match kind {
            RewardKind::LogExpected => Reward::LogExpected,
            RewardKind::Expected => Reward::Expected,
            RewardKind::Greedy => Reward::Greedy,
        }
    }
}

#[derive(Args)]
pub(crate) struct Eval {
    /// GGUF file, or a folder with config.json, safetensors files and tokenizer.json
    pub(crate) model: PathBuf,
    /// Task file (JSON Lines), or generated tasks: habits:SEED, phone:SEED[/2], countdown:SEED[/N], calls:SEED or
    /// extract:SEED
    #[arg(long, value_name = "TASKS")]
    pub(crate) tasks: String,
    /// Specialist file [default: the base model]
    #[arg(long, value_name = "FILE")]
    pub(crate) specialist: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) answer: AnswerArgs,
    /// Held-out questions of each kind
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) eval: u32,
}

#[derive(Args)]
pub(crate) struct Rebuild {
    /// Run log
    pub(crate) log: PathBuf,
    /// Specialist to write
    #[arg(long, value_name = "FILE")]
    pub(crate) out: PathBuf,
}
