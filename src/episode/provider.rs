//! One request to the model with the harness's retries. Time lost to the endpoint is not charged to the agent.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::repair::Streak;
use super::stop::{EpisodeClock, Stop};
use crate::base::SeedTree;
use crate::harness::RetryRule;
use crate::model::{ChatReply, ChatRequest, LanguageModel, ModelError};
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
    let outcome = retried(&attempts, request, rules, seeds).await;
    clock.give_back(attempts.last_start().saturating_duration_since(began));
    outcome.map_err(|error| match error {
        ModelError::ContextLength { .. } => Stop::Ended(Ending::TokenLimit),
        ModelError::Transient { .. } | ModelError::Permanent { .. } => Stop::fault(Boundary::Provider, error),
    })
}

async fn retried(model: &dyn LanguageModel, request: &ChatRequest, rules: &[RetryRule], seeds: &SeedTree) -> Result<ChatReply, ModelError> {
    let mut streak = Streak::new(rules);
    let mut attempt = 0;
    loop {
        let error = match model.complete(request).await {
            Ok(reply) => return Ok(reply),
            Err(error) => error,
        };
        let ModelError::Transient { retry_after, .. } = &error else { return Err(error) };
        let asked = retry_after.unwrap_or_default();
        let Some(repair) = streak.fail().filter(|_| asked <= LONGEST_WAIT) else { return Err(error) };
        tokio::time::sleep(repair.delay(&seeds.index(attempt)).max(asked)).await;
        attempt += 1;
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
    fn id(&self) -> &crate::model::ModelId {
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
