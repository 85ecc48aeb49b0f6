//! One request to the model with the harness's retries. Time lost to the endpoint is not charged to the agent.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::stop::{EpisodeClock, Stop};
use crate::base::SeedTree;
use crate::harness::{Backoff, RetryRule};
use crate::model::{
    ChatReply, ChatRequest, Growth, LanguageModel, ModelError, ModelId, RetryError, RetryPolicy, RetryStage, complete_with_retry,
};
use crate::trajectory::{Boundary, Ending};

/// How long an attempt may go on beyond the end of the episode. Whoever answers later has stalled; whoever answers sooner was slow, and
/// what was paid for is kept.
const GRACE: Duration = Duration::from_secs(120);
/// The longest wait an endpoint may ask for.
const LONGEST_WAIT: Duration = Duration::from_secs(600);

/// Asks for a reply. Faults that may pass are retried by `rules`; the time of failed attempts and waits is given back to `clock`.
///
/// # Errors
/// A provider fault when the rules are spent or the fault will not pass; the end of the turn when the request exceeds the model's
/// context, which is the harness's doing.
pub(super) async fn ask(
    model: &dyn LanguageModel,
    request: &ChatRequest,
    rules: &[RetryRule],
    seeds: &SeedTree,
    clock: &mut EpisodeClock,
) -> Result<ChatReply, Stop> {
    let attempts = Attempts { model, limit: clock.remaining() + GRACE, last: Mutex::new(Instant::now()) };
    let began = Instant::now();
    // A cancelled episode is dropped as a whole, so the request needs no token of its own.
    let outcome = complete_with_retry(&attempts, request, &policy(rules), seeds, &CancellationToken::new()).await;
    clock.give_back(attempts.last_start().saturating_duration_since(began));
    match outcome {
        Ok(completed) => Ok(completed.reply),
        Err(RetryError::Failed { error: ModelError::ContextLength { .. }, .. }) => Err(Stop::Ended(Ending::TokenLimit)),
        Err(error) => Err(Stop::fault(Boundary::Provider, error)),
    }
}

/// The harness's rules as the model's room takes them.
fn policy(rules: &[RetryRule]) -> RetryPolicy {
    RetryPolicy { stages: rules.iter().map(stage).collect(), longest_wait: LONGEST_WAIT }
}

/// One rule of the harness, with the unit of its delays.
pub(super) fn stage(rule: &RetryRule) -> RetryStage {
    RetryStage {
        attempts: rule.attempts,
        growth: match rule.backoff {
            Backoff::Fixed => Growth::Fixed,
            Backoff::Exponential => Growth::Exponential,
        },
        delay: Duration::from_millis(u64::from(rule.delay_ms)),
        cap: Duration::from_millis(u64::from(rule.cap_ms)),
        jitter: rule.jitter,
    }
}

/// A model whose attempts are bounded and whose last attempt's start is known.
struct Attempts<'a> {
    model: &'a dyn LanguageModel,
    limit: Duration,
    last: Mutex<Instant>,
}

impl Attempts<'_> {
    fn last_start(&self) -> Instant {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait::async_trait]
impl LanguageModel for Attempts<'_> {
    fn id(&self) -> &ModelId {
        self.model.id()
    }

    async fn complete(&self, request: &ChatRequest) -> Result<ChatReply, ModelError> {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        match tokio::time::timeout(self.limit, self.model.complete(request)).await {
            Ok(outcome) => outcome,
            // The limit depends on the clock and is not told.
            Err(_) => Err(ModelError::Transient { message: "the endpoint did not answer in time".to_owned(), retry_after: None }),
        }
    }
}
