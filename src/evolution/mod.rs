//! The search: propose, evaluate, admit, record.

mod decide;
mod draft;
mod driver;
mod edit;
mod event;
mod finale;
mod model_rewriter;
mod operators;
mod population;
mod record;
mod rewrite;
mod rewriter;
mod search;
mod settings;
#[cfg(test)]
mod tests;

pub use crate::lineage::{Birth, Hypothesis, JudgedHypothesis, OperatorName};
pub use decide::REWRITE_TOKENS;
pub use draft::{Draft, RewriteBrief, Track, Work};
pub use driver::{DriveEnd, DriveError, StopSignals, drive};
pub use edit::{Assignment, Edit, EditError, TaskTexts};
pub use event::{AttemptEnd, RunEvent};
pub use finale::{Baseline, Comparison, ComparisonRole, ComparisonRow, FinaleError, FinaleSettings, compare, comparison_episodes};
pub use model_rewriter::ModelRewriter;
pub use operators::{Offspring, birth, make};
pub use population::{Member, Population, pair, summarise};
pub use record::{Effect, Evaluation, Journal, JournalError, Refusal, StepPlan, StepRecord, StepResult};
pub use rewrite::{FailedEpisode, FailureDigest, RewriteBounds, RewriteError, RewritePrompt};
pub use rewriter::{Rewriter, Rewritten};
pub use search::{Phase, Search, SearchError, SearchSpace, elite};
pub use settings::SearchSettings;
