#![doc = include_str!("../README.md")]
#![deny(unsafe_code)]

mod architecture;
mod attention;
mod batch;
mod cache;
pub mod chat;
mod choice;
mod config;
pub mod constraint;
mod error;
mod folder;
mod forward;
mod generate;
pub mod gguf;
mod grouped;
mod logits;
mod map;
mod members;
mod model;
mod pack;
mod plan;
mod rope;
mod sampling;
mod shared;
pub mod tokenizer;
mod vectors;
mod weights;
mod workspace;

pub use batch::{BASE, Batch, Sequence};
pub use cache::{KvCache, Precision};
pub use choice::{Branch, ChoiceTree};
pub use config::{Activation, ModelConfig, RopeScaling, Variant};
pub use constraint::{Constraint, ConstraintError, ConstraintState};
pub use error::ModelError;
pub use folder::FolderError;
pub use forward::{Engine, Threads, Wanted};
pub use generate::{Completion, Event, Finish, Generator, Request, RolloutPlan, Rollouts, argmax};
pub use members::{Base, Materialized, Members, Population, Transform};
pub use model::Model;
pub use plan::GenerationPlan;
pub use sampling::{Sampler, Sampling};
pub use shared::Shared;
pub use weights::Deviation;
pub use workspace::{Plan, Workspace};
