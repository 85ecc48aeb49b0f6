//! How a model's edit becomes a child: an interface, so that the search knows neither endpoints nor prompts.

use super::draft::RewriteBrief;
use super::{Birth, Refusal};
use crate::base::Amount;
use crate::evaluation::{EvaluationError, Evaluator};
use crate::harness::Harness;

/// What came of a rewrite.
#[derive(Debug)]
pub struct Rewritten {
    /// The child, or why there is none.
    pub child: Result<(Birth, Harness), Refusal>,
    /// What the request cost.
    pub overhead: Amount,
}

/// Edits harnesses from failed episodes.
#[async_trait::async_trait]
pub trait Rewriter: Send + Sync {
    /// Makes a child of `brief.parent`. The episodes are in the evaluator's log. A model that cannot be reached or answers
    /// nonsense is a refusal.
    ///
    /// # Errors
    /// When the log fails or the run is cancelled.
    async fn rewrite(&self, brief: &RewriteBrief, evaluator: &Evaluator) -> Result<Rewritten, EvaluationError>;
}
