//! Language models: one trait and its implementations.
//!
//! An implementation makes one attempt per call. What failed is sorted by whether it may pass ([`ModelError`]), and [`complete_with_retry`]
//! is the only place that asks again. HTTP endpoints are plain data ([`EndpointConfig`]) until [`connect`] makes a client of them;
//! the key comes from the caller, is shown nowhere, and is removed from everything an endpoint echoes.

mod anthropic;
mod anthropic_wire;
mod blobs;
mod endpoint;
mod http;
mod language_model;
mod openai;
mod openai_reply;
mod openai_wire;
mod reachability;
mod recording;
mod refusal;
pub mod rehearsal;
mod retry;
mod retry_after;
mod scripted;
#[cfg(test)]
mod scripted_server;
mod secret;
mod usage;

pub use anthropic::Anthropic;
pub use blobs::{BlobError, Blobs, NoBlobs};
pub use endpoint::{EndpointConfig, EndpointError, EndpointKind, OutputLimitField, PastReasoning, Price, Timeouts, connect};
pub use language_model::{
    ChatReply, ChatRequest, LanguageModel, ModelError, ModelId, SamplingParams, StopReason, TokenLogprob, ToolChoice,
};
pub use openai::OpenAi;
pub use reachability::{Reachable, reachability};
pub use recording::{Recorder, RecordingError, Replayer};
pub use retry::{Completed, FailedAttempt, Growth, RetryError, RetryPolicy, RetryStage, complete_with_retry};
pub use scripted::{ProtocolError, ScriptedModel, ScriptedTurn, check_protocol};
pub use secret::{Secret, SecretError};
pub use usage::{BYTES_PER_TOKEN, estimate_message, estimate_request, estimate_tokens, micro_usd};
