//! The student: a small model that learns from the trajectories of elites.
//!
//! [`StudentTokenizer`] and [`ChatTemplate`] together are a [`ChatCodec`]: the one way from messages to token ids, in training and in
//! use. [`data`] makes training samples with it. Networks are written here for training and generation, on candle's tensors.
//! candle-transformers is not used: its decoders run on operations that cut gradients silently. [`generation`] draws replies, and
//! [`StudentModel`] makes a [`Student`] a [`crate::model::LanguageModel`].
//!
//! Gradients are taken layer by layer: no graph is deeper than one layer, and training runs on a thread of any stack.

pub mod config;
pub mod data;
pub mod generation;
pub mod lora;
pub mod network;
pub mod optimizer;
pub mod weights;

mod chat;
mod folder;
mod language_model;
mod ops;
mod template;
mod tokenizer;

pub use chat::{ChatCodec, CodecError, EncodedChat, EncodedPrompt};
pub use folder::{Student, StudentError};
pub use language_model::StudentModel;
pub use template::{ChatTemplate, GenerationPrompt, NANO_TEMPLATE, TemplateError};
pub use tokenizer::{AddedToken, StreamDecoder, StudentTokenizer, TokenizerError, Trust, VocabularySize};
