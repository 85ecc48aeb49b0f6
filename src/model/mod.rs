//! Language models: one trait and its implementations.

mod language_model;
pub mod rehearsal;

pub use language_model::{
    ChatReply, ChatRequest, LanguageModel, ModelError, ModelId, SamplingParams, StopReason, TokenLogprob, ToolChoice,
};
