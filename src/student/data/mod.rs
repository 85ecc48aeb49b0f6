//! Training data: from the episodes of elites to rows of token ids.
//!
//! [`EpisodeText`] is what is learnt from; [`DatasetBuilder`] makes a [`Dataset`] of [`Sample`]s with a [`DatasetReport`]; [`pack`]
//! and [`PackedRow`] put samples into rows of one length, [`bucketed`] into batches of similar length.
//!
//! Token ids are made here once. A [`Dataset`] is saved with them, and the hash of the tokenizer stands in the file: nothing is
//! tokenised again. Three things are kept apart in a row: which document a token belongs to (attention), which tokens are learnt
//! (loss), and where the row ends (padding).
//!
//! What a sample shows before a reply is what the model is sent before that reply when it is used: [`Contexts::Steps`] holds the
//! requests, which the episode room finds again from a transcript.

mod arguments;
mod batches;
mod build;
mod dataset;
mod error;
mod input;
mod instructions;
mod openai;
mod pack;
mod report;
mod row;
mod sample;

pub use batches::bucketed;
pub use build::{DataConfig, DatasetBuilder, FailedCalls, Learns, Overlong, Pictures};
pub use dataset::Dataset;
pub use error::DataError;
pub use input::{Contexts, EpisodeText, FailedReply, StepContext};
pub use instructions::shuffle_instructions;
pub use openai::episode_of_openai_line;
pub use pack::pack;
pub use report::{DatasetReport, DropReason, JobReport};
pub use row::PackedRow;
pub use sample::{Part, Sample};

#[cfg(test)]
mod tests;
