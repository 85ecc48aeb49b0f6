//! Whether an endpoint answers: for `doctor`, and before a run spends anything.

use std::sync::Arc;

use serde_json::Value;

use super::endpoint::{EndpointConfig, EndpointError, EndpointKind, connect};
use super::http::{Http, KeyHeader};
use super::{ChatRequest, ModelError, NoBlobs, SamplingParams, Secret, ToolChoice};
use crate::trajectory::{Message, RequestTag, Role};

/// The longest wait for the list of models, in milliseconds.
const LIST_MS: u64 = 15_000;

/// The longest wait for a reply of one token, in milliseconds: a server may load its weights at the first request.
const REPLY_MS: u64 = 60_000;

/// How an endpoint showed that it answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reachable {
    /// The model stands in the endpoint's list.
    Listed,
    /// The model replied to a request of one token.
    Replied,
}

impl std::fmt::Display for Reachable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Listed => "the endpoint lists the model",
            Self::Replied => "the model replied to a request of one token",
        })
    }
}

/// Asks for the list of models and, where that does not settle it, for a reply of one token. Both waits are bounded.
///
/// # Errors
/// When the configuration is wrong, or the model does not answer; the message says what to do.
pub async fn reachability(config: &EndpointConfig, api_key: Option<&Secret>) -> Result<Reachable, EndpointError> {
    let mut config = config.clone();
    let reply_ms = config.timeouts.first_byte_ms.min(REPLY_MS);
    config.timeouts.first_byte_ms = config.timeouts.first_byte_ms.min(LIST_MS);
    config.timeouts.total_ms = config.timeouts.total_ms.min(REPLY_MS);
    let (header, fixed): (_, &[_]) = match config.kind {
        EndpointKind::OpenAi => (KeyHeader::Bearer, &[]),
        EndpointKind::Anthropic => (KeyHeader::XApiKey, &[("anthropic-version", super::anthropic::VERSION)]),
    };
    let http = Http::new(&config, api_key.cloned(), header, fixed)?;
    // No list, a list under other names (aliases), or a hiccup: then a reply decides.
    if http.get("models").await.is_ok_and(|list| lists(&list, &config.model)) {
        return Ok(Reachable::Listed);
    }
    config.timeouts.first_byte_ms = reply_ms;
    let model = connect(&config, api_key.cloned(), Arc::new(NoBlobs))?;
    match model.complete(&probe()).await {
        Ok(_) => Ok(Reachable::Replied),
        Err(error) => Err(unusable(&config, &error)),
    }
}

fn probe() -> ChatRequest {
    ChatRequest {
        messages: vec![Message::text(Role::User, "Say yes.")],
        tools: Vec::new(),
        tool_choice: ToolChoice::None,
        sampling: SamplingParams { temperature: 1.0, top_p: 1.0, max_output_tokens: 1, seed: None },
        tag: RequestTag { task: None, seed: 0, step: 0 },
    }
}

fn lists(list: &Value, model: &str) -> bool {
    let entries = list.get("data").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    entries.iter().any(|entry| entry.get("id").and_then(Value::as_str) == Some(model))
}

fn unusable(config: &EndpointConfig, error: &ModelError) -> EndpointError {
    let hint = match error {
        ModelError::Transient { .. } => format!(
            "start the server, or correct `base_url` (now {}); `harness-evo doctor` repeats this check, and the rehearsal teacher needs no endpoint",
            config.base_url
        ),
        ModelError::Permanent { .. } => "correct the endpoint's entry in the experiment, then repeat".to_owned(),
        ModelError::ContextLength { .. } => {
            "the endpoint refuses even a request of three words: check the server's context setting".to_owned()
        }
    };
    EndpointError::Unusable { model: config.model.clone(), base_url: config.base_url.clone(), reason: error.to_string(), hint }
}
