//! Language models: one trait and its implementations.

mod language_model;
mod scripted;

pub use language_model::{
    ChatReply, ChatRequest, LanguageModel, ModelError, ModelId, SamplingParams, StopReason, TokenLogprob, ToolChoice,
};
pub use scripted::{ProtocolError, ScriptedModel, ScriptedTurn, check_protocol};
