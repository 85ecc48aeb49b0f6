//! The student: a small model that learns from the engine's verified trajectories.
//!
//! Networks are written here for training and generation, on candle's tensors. candle-transformers is not used: its
//! decoders run on operations that cut gradients silently.

pub mod config;
mod ops;

pub mod network;
pub mod weights;

pub mod lora;
pub mod optimizer;
