//! The search: propose, evaluate, admit, record.

mod edit;
mod event;
mod record;
mod rewrite;

pub use edit::{Assignment, Edit, EditError, TaskTexts};
pub use event::RunEvent;
pub use record::{
    Birth, Effect, Evaluation, Hypothesis, Journal, JournalError, JudgedHypothesis, OperatorName, Refusal, StepPlan, StepRecord, StepResult,
};
pub use rewrite::{FailedEpisode, FailureDigest, RewriteBounds, RewriteError, RewritePrompt};
