//! Errors of training and evaluation.

/// What can go wrong between a task and a specialist.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FuraError {
    /// The model or its files.
    #[error(transparent)]
    Model(#[from] fura_model::ModelError),
    /// A constraint on what may be written.
    #[error(transparent)]
    Constraint(#[from] fura_model::ConstraintError),
    /// The tokenizer.
    #[error(transparent)]
    Tokenizer(#[from] fura_model::tokenizer::TokenizerError),
    /// A task's grader.
    #[error(transparent)]
    Grader(#[from] fura_tasks::grader::GraderError),
    /// The estimator or its configuration.
    #[error(transparent)]
    Estimator(#[from] fura_core::estimator::EstimatorError),
    /// The run log.
    #[error(transparent)]
    RunLog(#[from] fura_core::runlog::RunLogError),
    /// The specialist file.
    #[error(transparent)]
    Specialist(#[from] fura_core::specialist::SpecialistError),
    /// Scored choice needs legal answers.
    #[error("task '{task}': field 'choices' is empty; list the legal answers, or use --answers written")]
    NoChoices {
        /// Task id.
        task: String,
    },
    /// Listed answers continue a prompt; no chat template is applied.
    #[error(
        "task '{task}': field 'messages': answers to conversations are written, not chosen; use --answers written, \
         or write the conversation's text as 'prompt'"
    )]
    Conversation {
        /// Task id.
        task: String,
    },
    /// A conversation needs a chat template.
    #[error(
        "task '{task}': field 'messages': the model's file brings no chat template; write the conversation's text \
         as 'prompt'"
    )]
    NoTemplate {
        /// Task id.
        task: String,
    },
    /// A conversation that the model's chat template refuses.
    #[error("task '{task}': field 'messages': {source}")]
    Template {
        /// Task id.
        task: String,
        /// What the template said.
        source: fura_model::chat::ChatError,
    },
    /// A task source without tasks of a split.
    #[error("{tasks}: no task in split '{split}'; mark some tasks with it")]
    NoTasks {
        /// The task source.
        tasks: String,
        /// The split.
        split: &'static str,
    },
    /// A generation whose members all met a fault teaches nothing, and the next would not either.
    #[error(
        "every member of a generation met an answer that could not be graded: {fault}; mend the grader and go on with --resume"
    )]
    NothingGraded {
        /// Why the first could not.
        fault: String,
    },
    /// A run log that cannot be read.
    #[error("{log}: {source}")]
    ReadLog {
        /// The run log.
        log: String,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// A turn of layers that cannot be read or is not trained.
    #[error("turn '{turn}': expected {expected}")]
    Turn {
        /// As it was written.
        turn: String,
        /// What is allowed.
        expected: String,
    },
    /// A resumed run does not belong to what was asked.
    #[error("{log}: {field} is {found}, expected {expected}; resume with the same model and tasks")]
    OtherRun {
        /// The run log.
        log: String,
        /// What differs.
        field: &'static str,
        /// In the log.
        found: String,
        /// Asked for.
        expected: String,
    },
}
