//! The search: propose, evaluate, admit, record.

mod event;
mod record;

pub use crate::lineage::{Birth, Hypothesis, JudgedHypothesis, OperatorName};
pub use event::RunEvent;
pub use record::{Effect, Evaluation, Journal, JournalError, Refusal, StepPlan, StepRecord, StepResult};
