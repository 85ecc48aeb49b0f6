//! One sample: token ids, and which of them are learnt.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::harness::HarnessId;
use crate::task::{JobType, TaskId};

/// Which part of the data a sample belongs to. All samples of a task are in one part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// Learnt from.
    Train,
    /// Only measured on.
    HeldOut,
}

/// A sample.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample {
    /// Its tokens.
    pub ids: Vec<u32>,
    /// The tokens that are learnt, in order: the assistant's replies with the tokens that end them.
    pub trained: Vec<Range<usize>>,
    /// Its part of the data.
    pub part: Part,
    /// The task it comes from.
    pub task: TaskId,
    /// The kind of work.
    pub job_type: JobType,
    /// The harness.
    pub harness: HarnessId,
    /// Blobs of its pictures, in the order of their placeholders.
    pub pictures: Vec<String>,
}

impl Sample {
    /// How many tokens are learnt.
    #[must_use]
    pub fn trained_tokens(&self) -> usize {
        self.trained.iter().map(Range::len).sum()
    }

    /// Names what is learnt, wherever it came from.
    pub(super) fn content_hash(&self) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new();
        let mut number = |value: usize| {
            hasher.update(&(value as u64).to_le_bytes());
        };
        number(self.ids.len());
        self.ids.iter().for_each(|id| number(*id as usize));
        for range in &self.trained {
            number(range.start);
            number(range.end);
        }
        for picture in &self.pictures {
            hasher.update(picture.as_bytes()).update(&[0]);
        }
        hasher.finalize()
    }
}
