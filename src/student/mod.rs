//! The student: a small model that learns from the engine's verified trajectories.
//!
//! Networks are written here for training and generation, on candle's tensors. candle-transformers is not used: its
//! decoders run on operations that cut gradients silently.
//!
//! Gradients are taken layer by layer: no graph is deeper than one layer, and training runs on a thread of any stack.

pub mod config;
mod ops;

pub mod network;
pub mod weights;

pub mod lora;
pub mod optimizer;
