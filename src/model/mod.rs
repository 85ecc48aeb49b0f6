//! Language models: one trait and its implementations.

mod language_model;

pub use language_model::{
    ChatReply, ChatRequest, LanguageModel, ModelError, ModelId, SamplingParams, StopReason, TokenLogprob, ToolChoice,
};
