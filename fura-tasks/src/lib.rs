//! Graders, task files and environments whose outcomes a program checks.
//!
//! A specialist is trained from outcomes alone, so everything that decides an outcome lives
//! here and is deterministic on every machine:
//!
//! - [`grader`]: turn a model's output into a [`Grade`]: a score in `[0, 1]`, an abstention,
//!   or a fault, which is never a number;
//! - [`output`]: files of outputs, to be graded;
//! - [`external`]: graders and environments that are other programs;
//! - [`tally`]: grades, counted and made into rewards;
//! - [`task`]: one prompt with the answer, the grader and the legal answers that belong to it;
//! - [`task_file`]: JSON Lines files of tasks that test themselves when they are read;
//! - [`task_set`]: the tasks of one file, with the string that identifies them exactly;
//! - [`habits`]: a generated environment, the hidden habits of a phone's owner;
//! - [`generated`]: generated environments answered in free text: arithmetic, function calls, JSON;
//! - [`phone`]: a generated environment, an offline phone with tasks of several steps;
//! - [`source`]: one way to draw training, held-out and rephrased tasks from any of them;
//! - [`import`]: task files of others, as tasks of ours;
//! - [`stress`](mod@stress): attacks on a task's grader, to find what it forgot;
//! - [`interval`]: the confidence interval to print next to a success rate.
//!
//! ```
//! use fura_tasks::{Habits, TaskSource};
//!
//! let source = TaskSource::Habits(Habits::new(7));
//! let batch = source.train(0, 8);
//! assert_eq!(batch.len(), 8);
//! let rewards = batch[0].rewards()?;
//! assert_eq!(rewards.len(), batch[0].choices.len());
//! assert_eq!(rewards.iter().sum::<f64>(), 1.0);
//! # Ok::<(), fura_tasks::GraderError>(())
//! ```

#![forbid(unsafe_code)]

pub mod external;
pub mod generated;
pub mod grader;
pub mod habits;
pub mod import;
pub mod interval;
pub mod output;
pub mod phone;
mod random;
pub mod source;
pub mod stress;
pub mod tally;
pub mod task;
pub mod task_file;
pub mod task_set;

pub use external::{
    Environment, EnvironmentFault, External, ExternalError, ExternalSpec, Observation, Request,
};
pub use generated::{Generated, GeneratedError};
pub use grader::{AnyGrader, Grade, Grader, GraderError, GraderSpec, Label};
pub use habits::{Habits, HabitsError};
pub use interval::{Interval, wilson95};
pub use output::Output;
pub use source::TaskSource;
pub use stress::{Attack, Finding, Stress, stress};
pub use tally::{OnFault, PairReward, Tally, pair_reward};
pub use task::{Message, Role, Split, Task};
pub use task_file::{LINE_LIMIT, TaskFileError};
pub use task_set::TaskSet;
