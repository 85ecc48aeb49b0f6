//! Rewrites by a language model: failed episodes in, a structured edit out.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::draft::RewriteBrief;
use super::edit::{Edit, TaskTexts};
use super::operators::{Offspring, birth};
use super::rewrite::{FailedEpisode, FailureDigest, RewriteBounds, RewritePrompt};
use super::rewriter::{Rewriter, Rewritten};
use super::{Birth, Refusal};
use crate::base::{Amount, SeedTree};
use crate::evaluation::{EvaluationError, Evaluator};
use crate::harness::Harness;
use crate::model::{ChatReply, Growth, LanguageModel, RetryError, RetryPolicy, RetryStage, SamplingParams, complete_with_retry, micro_usd};
use crate::task::{SearchTask, TaskId};

/// Tokens of one edit.
const EDIT_TOKENS: u32 = 4096;

/// A model that edits harnesses. It is shown tasks of the search split only: their type says so.
pub struct ModelRewriter {
    model: Arc<dyn LanguageModel>,
    tasks: BTreeMap<TaskId, SearchTask>,
    texts: TaskTexts,
    retry: RetryPolicy,
    cancel: CancellationToken,
}

impl ModelRewriter {
    /// A rewriter over the tasks of a search.
    #[must_use]
    pub fn new(model: Arc<dyn LanguageModel>, tasks: &[SearchTask], cancel: CancellationToken) -> Self {
        let texts = TaskTexts::new(tasks);
        let tasks = tasks.iter().map(|task| (task.task().id(), task.clone())).collect();
        let stage = RetryStage {
            attempts: 4,
            growth: Growth::Exponential,
            delay: Duration::from_millis(500),
            cap: Duration::from_secs(30),
            jitter: 0.5,
        };
        let retry = RetryPolicy { stages: vec![stage], longest_wait: Duration::from_secs(120) };
        Self { model, tasks, texts, retry, cancel }
    }

    async fn failures(&self, brief: &RewriteBrief, evaluator: &Evaluator) -> Result<Vec<FailedEpisode>, EvaluationError> {
        let mut episodes = Vec::new();
        for (task, seed) in &brief.failures {
            let key = evaluator.key(brief.parent.id(), *task, *seed);
            let trajectory = evaluator.log().trajectory(&key).await?;
            if let Some((task, trajectory)) = self.tasks.get(task).zip(trajectory) {
                episodes.extend(FailedEpisode::new(task, &trajectory));
            }
        }
        Ok(episodes)
    }

    fn child(&self, prompt: &RewritePrompt, reply: &ChatReply, parent: &Harness) -> Result<(Birth, Harness), Refusal> {
        let invalid = |reason: String| Refusal::Invalid { reason };
        let Edit { hypothesis, child, .. } =
            prompt.read(reply, parent.genome(), &self.texts).map_err(|error| invalid(error.to_string()))?;
        birth(parent, Offspring { harness: child, hypothesis })
    }
}

#[async_trait::async_trait]
impl Rewriter for ModelRewriter {
    async fn rewrite(&self, brief: &RewriteBrief, evaluator: &Evaluator) -> Result<Rewritten, EvaluationError> {
        let fault = |reason: String| Rewritten { child: Err(Refusal::OperatorFault { reason }), overhead: Amount::default() };
        let episodes = self.failures(brief, evaluator).await?;
        let digest = FailureDigest { genome: brief.parent.genome(), job_type: &brief.job_type, episodes, past: brief.failed_edits.clone() };
        let sampling = SamplingParams { temperature: 0.7, top_p: 1.0, max_output_tokens: EDIT_TOKENS, seed: Some(brief.seed) };
        let request = RewritePrompt::builtin(RewriteBounds::default())
            .and_then(|prompt| prompt.request(&digest, &sampling, brief.seed, 0).map(|request| (prompt, request)));
        let (prompt, request) = match request {
            Ok(built) => built,
            Err(error) => return Ok(fault(error.to_string())),
        };
        let seeds = SeedTree::new(brief.seed).child("retry");
        let completed = match complete_with_retry(self.model.as_ref(), &request, &self.retry, &seeds, &self.cancel).await {
            Ok(completed) => completed,
            Err(RetryError::Cancelled) => return Err(EvaluationError::Cancelled),
            Err(RetryError::Failed { error, .. }) => return Ok(fault(error.to_string())),
        };
        let usage = completed.reply.usage;
        let overhead = Amount { episodes: 0, tokens: usage.total(), micro_usd: micro_usd(self.model.price(), usage) };
        Ok(Rewritten { child: self.child(&prompt, &completed.reply, &brief.parent), overhead })
    }
}
