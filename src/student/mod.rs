//! The student: a small model that learns from the engine's verified trajectories.
//!
//! [`StudentTokenizer`] and [`ChatTemplate`] together are a [`ChatCodec`]: the one way from messages to token ids, in training and in
//! use. [`data`] makes training samples with it, [`network`] is the decoder, [`training`] fits it to the samples.
//!
//! Networks are written here for training and generation, on candle's tensors. candle-transformers is not used: its
//! decoders run on operations that cut gradients silently.

pub mod config;
mod ops;

mod chat;
mod template;
mod tokenizer;

pub mod data;

pub mod network;
pub mod weights;

pub mod lora;
pub mod optimizer;

mod folder;
pub mod nano;
pub mod recipe;
pub mod training;

pub use chat::{ChatCodec, CodecError, EncodedChat, EncodedPrompt};
pub use folder::{FolderError, Student, save_student};
pub use template::{ChatTemplate, GenerationPrompt, NANO_TEMPLATE, TemplateError};
pub use tokenizer::{AddedToken, StreamDecoder, StudentTokenizer, TokenizerError, Trust, VocabularySize};
