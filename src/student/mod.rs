//! The student: a small model that learns from the engine's verified trajectories.
//!
//! [`StudentTokenizer`] and [`ChatTemplate`] together are a [`ChatCodec`]: the one way from messages to token ids, in training and in
//! use. [`data`] makes training samples with it, [`network`] is the decoder, [`training`] fits it to the samples; [`generation`] draws
//! replies, and [`StudentModel`] makes a [`Student`] a [`crate::model::LanguageModel`].
//!
//! Networks are written here for training and generation, on candle's tensors. candle-transformers is not used: its
//! decoders run on operations that cut gradients silently.
//!
//! Gradients are taken layer by layer: no graph is deeper than one layer, and training runs on a thread of any stack.

pub mod config;
mod ops;

mod chat;
mod template;
mod tokenizer;

pub mod data;

pub mod network;
pub mod weights;

pub mod lora;
pub mod memory;
pub mod optimizer;

mod folder;
pub mod generation;
mod language_model;

pub mod nano;
pub mod recipe;
pub mod rl;
pub mod training;

pub use chat::{ChatCodec, CodecError, EncodedChat, EncodedPrompt};
pub use folder::{Student, StudentError};
pub use language_model::StudentModel;
pub use template::{ChatTemplate, GenerationPrompt, NANO_TEMPLATE, TemplateError};
pub use tokenizer::{AddedToken, StreamDecoder, StudentTokenizer, TokenizerError, Trust, VocabularySize};
