//! The trait every model implements.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::trajectory::{Message, RequestTag, ToolSchema, Usage};

/// What a model is: the name users know, and all that changes its replies (endpoint kind, weights, parameters), as one text.
/// Results are memoised under it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ModelId {
    /// For people.
    pub name: String,
    /// For memoisation; holds no secret.
    pub fingerprint: String,
}

/// How tokens are drawn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SamplingParams {
    /// 0 to 2.
    pub temperature: f64,
    /// Above 0, at most 1.
    pub top_p: f64,
    /// Tokens of the reply.
    pub max_output_tokens: u32,
    /// For endpoints that take one.
    pub seed: Option<u64>,
}

/// Whether the model has to call a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolChoice {
    /// It decides.
    Auto,
    /// No tools.
    None,
}

/// One request.
#[derive(Debug, Clone, PartialEq)]
pub struct ChatRequest {
    /// The conversation.
    pub messages: Vec<Message>,
    /// The tools on offer through the endpoint's own interface.
    pub tools: Vec<ToolSchema>,
    /// Whether one must be called.
    pub tool_choice: ToolChoice,
    /// How tokens are drawn.
    pub sampling: SamplingParams,
    /// Which episode and step it belongs to; never sent.
    pub tag: RequestTag,
}

/// Why a reply ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The model was done.
    Stop,
    /// It called tools.
    ToolCalls,
    /// The token limit of the reply.
    Length,
    /// The provider's filter.
    Filtered,
    /// Something the provider names otherwise.
    Other,
}

/// Log-probability of one sampled token.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TokenLogprob {
    /// The token's text, as the endpoint gives it.
    pub token: String,
    /// Natural logarithm of its probability.
    pub logprob: f64,
}

/// One reply.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChatReply {
    /// The assistant's message.
    pub message: Message,
    /// Tokens.
    pub usage: Usage,
    /// Why it ended.
    pub stop: StopReason,
    /// Where the server gives them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub logprobs: Vec<TokenLogprob>,
    /// Prompt token ids, where the server gives them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub prompt_token_ids: Vec<u32>,
    /// Completion token ids, where the server gives them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub completion_token_ids: Vec<u32>,
}

/// A request that got no reply. Every variant is a provider fault, never a score.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// May pass: 429, 5xx, a stall, a closed connection, half an answer.
    #[error("{message}")]
    Transient {
        /// What happened, without secrets.
        message: String,
        /// How long the endpoint asks to wait.
        retry_after: Option<Duration>,
    },
    /// Will not pass by itself: a wrong key, an unknown model, a request the endpoint refuses.
    #[error("{message}")]
    Permanent {
        /// What happened and what to do, without secrets.
        message: String,
    },
    /// The request is longer than the model's context.
    #[error("the request does not fit the model's context: {message}")]
    ContextLength {
        /// What the endpoint said.
        message: String,
    },
}

/// A language model.
#[async_trait::async_trait]
pub trait LanguageModel: Send + Sync {
    /// What it is.
    fn id(&self) -> &ModelId;

    /// Price in millionths of a US dollar per million prompt, cached prompt and completion tokens; zero where nothing is paid.
    fn price(&self) -> [u64; 3] {
        [0; 3]
    }

    /// Whether its replies are a simulation, which every report then says.
    fn simulated(&self) -> bool {
        false
    }

    /// One attempt at one request: no retry happens inside.
    ///
    /// # Errors
    /// See [`ModelError`].
    async fn complete(&self, request: &ChatRequest) -> Result<ChatReply, ModelError>;
}
