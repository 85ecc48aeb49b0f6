//! The search: propose, evaluate, admit, record.

mod event;
mod record;

pub use event::RunEvent;
pub use record::{
    Birth, Effect, Evaluation, Hypothesis, Journal, JournalError, JudgedHypothesis, OperatorName, Refusal, StepPlan, StepRecord, StepResult,
};
