use std::sync::Mutex;

use tokio::time::Instant;

use super::*;
use crate::model::{ModelId, SamplingParams, StopReason, ToolChoice};
use crate::trajectory::{Message, RequestTag, Role, Usage};

/// Fails as told, then replies; keeps when it was asked.
struct Failing {
    id: ModelId,
    errors: Mutex<Vec<ModelError>>,
    asked: Mutex<Vec<Instant>>,
}

impl Failing {
    fn with(mut errors: Vec<ModelError>) -> Self {
        errors.reverse();
        let id = ModelId { name: "failing".to_owned(), fingerprint: "failing".to_owned() };
        Self { id, errors: Mutex::new(errors), asked: Mutex::default() }
    }

    /// Milliseconds between the attempts.
    fn gaps(&self) -> Vec<u128> {
        self.asked.lock().unwrap().windows(2).map(|pair| (pair[1] - pair[0]).as_millis()).collect()
    }
}

#[async_trait::async_trait]
impl LanguageModel for Failing {
    fn id(&self) -> &ModelId {
        &self.id
    }

    async fn complete(&self, _request: &ChatRequest) -> Result<ChatReply, ModelError> {
        self.asked.lock().unwrap().push(Instant::now());
        match self.errors.lock().unwrap().pop() {
            Some(error) => Err(error),
            None => Ok(reply()),
        }
    }
}

fn reply() -> ChatReply {
    ChatReply {
        message: Message::text(Role::Assistant, "hello"),
        usage: Usage::default(),
        stop: StopReason::Stop,
        logprobs: Vec::new(),
        prompt_token_ids: Vec::new(),
        completion_token_ids: Vec::new(),
    }
}

fn request() -> ChatRequest {
    ChatRequest {
        messages: vec![Message::text(Role::User, "hi")],
        tools: Vec::new(),
        tool_choice: ToolChoice::Auto,
        sampling: SamplingParams { temperature: 0.0, top_p: 1.0, max_output_tokens: 16, seed: None },
        tag: RequestTag { task: None, seed: 0, step: 0 },
    }
}

fn transient(retry_after: Option<Duration>) -> ModelError {
    ModelError::Transient { message: "busy".to_owned(), retry_after }
}

fn stage(attempts: u32, growth: Growth, delay_ms: u64, cap_ms: u64, jitter: f64) -> RetryStage {
    RetryStage { attempts, growth, delay: Duration::from_millis(delay_ms), cap: Duration::from_millis(cap_ms), jitter }
}

fn policy(stages: Vec<RetryStage>) -> RetryPolicy {
    RetryPolicy { stages, longest_wait: Duration::from_secs(120) }
}

async fn ask(model: &Failing, policy: &RetryPolicy) -> Result<Completed, RetryError> {
    complete_with_retry(model, &request(), policy, &SeedTree::new(1), &CancellationToken::new()).await
}

#[tokio::test(start_paused = true)]
async fn stages_follow_each_other_and_waits_double_up_to_the_cap() {
    let model = Failing::with(vec![transient(None); 6]);
    let policy = policy(vec![stage(4, Growth::Exponential, 100, 500, 0.0), stage(2, Growth::Fixed, 2000, 2000, 0.0)]);
    let done = ask(&model, &policy).await.unwrap();
    assert_eq!(model.gaps(), [100, 200, 400, 500, 2000, 2000]);
    assert_eq!(done.failures.len(), 6);
    assert_eq!(done.reply, reply());
}

#[tokio::test(start_paused = true)]
async fn the_fault_stands_when_the_policy_is_spent() {
    let model = Failing::with(vec![transient(None); 9]);
    let error = ask(&model, &policy(vec![stage(2, Growth::Fixed, 10, 10, 0.0)])).await.unwrap_err();
    let RetryError::Failed { error, failures } = error else { panic!("{error}") };
    assert_eq!(error, transient(None));
    // One attempt and two retries.
    assert_eq!(failures.len(), 3);
    assert_eq!(failures[2].waited, Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn what_will_not_pass_is_not_retried() {
    for error in [ModelError::Permanent { message: "wrong key".to_owned() }, ModelError::ContextLength { message: "9000".to_owned() }] {
        let model = Failing::with(vec![error.clone()]);
        let failed = ask(&model, &policy(vec![stage(5, Growth::Fixed, 10, 10, 0.0)])).await.unwrap_err();
        assert!(matches!(failed, RetryError::Failed { error: found, failures } if found == error && failures.len() == 1));
    }
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_may_ask_for_a_longer_wait_but_not_for_any() {
    let asks = |seconds| transient(Some(Duration::from_secs(seconds)));
    let policy = policy(vec![stage(3, Growth::Fixed, 1000, 1000, 0.0)]);
    let model = Failing::with(vec![asks(0), asks(30)]);
    ask(&model, &policy).await.unwrap();
    assert_eq!(model.gaps(), [1000, 30_000]);

    let model = Failing::with(vec![asks(121)]);
    assert!(matches!(ask(&model, &policy).await, Err(RetryError::Failed { .. })));
    assert!(model.gaps().is_empty());
}

#[tokio::test(start_paused = true)]
async fn cancelling_ends_a_wait_at_once() {
    let model = Failing::with(vec![transient(None)]);
    let cancel = CancellationToken::new();
    let (request, policy, seeds) = (request(), policy(vec![stage(1, Growth::Fixed, 60_000, 60_000, 0.0)]), SeedTree::new(1));
    let started = Instant::now();
    let (outcome, ()) = tokio::join!(complete_with_retry(&model, &request, &policy, &seeds, &cancel), async {
        tokio::time::sleep(Duration::from_millis(5)).await;
        cancel.cancel();
    });
    assert_eq!(outcome, Err(RetryError::Cancelled));
    assert_eq!(started.elapsed().as_millis(), 5);
}

#[test]
fn jitter_shortens_by_its_share_at_most_and_depends_on_the_seed_alone() {
    let policy = policy(vec![stage(10, Growth::Fixed, 1000, 1000, 0.4)]);
    let waits: Vec<Duration> = policy.waits(&SeedTree::new(3)).collect();
    assert_eq!(waits, policy.waits(&SeedTree::new(3)).collect::<Vec<_>>());
    assert_ne!(waits, policy.waits(&SeedTree::new(4)).collect::<Vec<_>>());
    assert!(waits.iter().all(|wait| (600..=1000).contains(&wait.as_millis())), "{waits:?}");
    assert!(waits.windows(2).any(|pair| pair[0] != pair[1]));
    assert_eq!(stage(1, Growth::Fixed, 1000, 1000, 0.5).wait(0, 0.5), Duration::from_millis(750));
}

#[test]
fn waits_stay_within_the_cap_however_many_attempts_there_were() {
    let stage = stage(u32::MAX, Growth::Exponential, 60_000, 600_000, f64::NAN);
    assert_eq!(stage.wait(200, 0.9), Duration::from_secs(600));
}
