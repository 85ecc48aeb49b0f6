//! Retries of a request that got no reply: the only place where a model is asked twice.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::{ChatReply, ChatRequest, LanguageModel, ModelError};
use crate::base::SeedTree;

/// What is done about transient faults.
#[derive(Debug, Clone, PartialEq)]
pub struct RetryPolicy {
    /// Used in order, each until its attempts are spent; after the last the fault stands.
    pub stages: Vec<RetryStage>,
    /// The longest wait an endpoint may ask for; one that asks for more is not waited for, and the fault stands.
    pub longest_wait: Duration,
}

/// Some attempts with one way to wait before each.
#[derive(Debug, Clone, PartialEq)]
pub struct RetryStage {
    /// How many.
    pub attempts: u32,
    /// How the wait grows within the stage.
    pub growth: Growth,
    /// The first wait.
    pub delay: Duration,
    /// The longest wait of the stage's own; an endpoint may ask for more.
    pub cap: Duration,
    /// Share of the wait that is drawn at random, 0 to 1: the wait lies between `(1 - jitter)` and 1 times its full length.
    pub jitter: f64,
}

/// How a wait grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Growth {
    /// Not at all.
    Fixed,
    /// Twice the last.
    Exponential,
}

/// A reply and what it took.
#[derive(Debug, Clone, PartialEq)]
pub struct Completed {
    /// The reply.
    pub reply: ChatReply,
    /// The attempts before it, in order.
    pub failures: Vec<FailedAttempt>,
}

/// An attempt that got no reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedAttempt {
    /// What happened, without secrets.
    pub message: String,
    /// The wait after it; zero after the last.
    pub waited: Duration,
}

/// No reply.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RetryError {
    /// The token was triggered; an attempt in flight was dropped.
    #[error("cancelled")]
    Cancelled,
    /// The last attempt's error, which stands.
    #[error("{error} (attempt {})", failures.len())]
    Failed {
        /// The error.
        error: ModelError,
        /// All attempts, the last included.
        failures: Vec<FailedAttempt>,
    },
}

/// Asks `model` until it replies, the fault will not pass, or `policy` is spent. Waits are drawn from `seeds`, a node that belongs to
/// this request alone, by the number of the attempt.
///
/// # Errors
/// See [`RetryError`].
pub async fn complete_with_retry(
    model: &dyn LanguageModel,
    request: &ChatRequest,
    policy: &RetryPolicy,
    seeds: &SeedTree,
    cancel: &CancellationToken,
) -> Result<Completed, RetryError> {
    let mut waits = policy.waits(seeds);
    let mut failures = Vec::new();
    loop {
        let outcome = tokio::select! {
            biased;
            () = cancel.cancelled() => return Err(RetryError::Cancelled),
            outcome = model.complete(request) => outcome,
        };
        let error = match outcome {
            Ok(reply) => return Ok(Completed { reply, failures }),
            Err(error) => error,
        };
        let message = error.to_string();
        let Some(wait) = next_wait(&error, &mut waits, policy.longest_wait) else {
            failures.push(FailedAttempt { message, waited: Duration::ZERO });
            return Err(RetryError::Failed { error, failures });
        };
        tracing::debug!(attempt = failures.len() + 1, wait_ms = wait.as_millis(), "the model failed, asking again: {message}");
        failures.push(FailedAttempt { message, waited: wait });
        tokio::select! {
            biased;
            () = cancel.cancelled() => return Err(RetryError::Cancelled),
            () = tokio::time::sleep(wait) => {}
        }
    }
}

/// The wait before the next attempt, if there is to be one.
fn next_wait(error: &ModelError, waits: &mut impl Iterator<Item = Duration>, longest: Duration) -> Option<Duration> {
    let ModelError::Transient { retry_after, .. } = error else { return None };
    let own = waits.next()?;
    let asked = retry_after.unwrap_or(Duration::ZERO);
    (asked <= longest).then(|| own.max(asked))
}

impl RetryPolicy {
    /// The waits before the second, third, ... attempt.
    fn waits(&self, seeds: &SeedTree) -> impl Iterator<Item = Duration> {
        let seeds = seeds.child("retry");
        self.stages
            .iter()
            .flat_map(|stage| (0..stage.attempts).map(move |nth| (stage, nth)))
            .zip(0..)
            .map(move |((stage, nth), attempt)| stage.wait(nth, seeds.index(attempt).fraction()))
    }
}

impl RetryStage {
    /// The wait before the stage's attempt number `nth`, from 0; `draw` is in `[0, 1)`.
    pub(crate) fn wait(&self, nth: u32, draw: f64) -> Duration {
        let full = match self.growth {
            Growth::Fixed => self.delay,
            Growth::Exponential => self.delay.saturating_mul(2_u32.checked_pow(nth).unwrap_or(u32::MAX)),
        };
        let full = full.min(self.cap);
        // A policy that is not from a validated harness may hold anything: NaN becomes no jitter.
        let jitter = if self.jitter.is_nan() { 0.0 } else { self.jitter.clamp(0.0, 1.0) };
        full.mul_f64(1.0 - jitter * draw)
    }
}

#[cfg(test)]
#[path = "retry_tests.rs"]
mod tests;
