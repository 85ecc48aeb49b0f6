//! What became of the episodes.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// Why a reply or an episode is not learnt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DropReason {
    /// It is longer than a sample may be.
    TooLong,
    /// Another sample has the same tokens.
    Duplicate,
    /// What the model was sent is not known.
    ContextLost,
    /// It has pictures, and the student sees none, or not so many.
    Pictures,
    /// The chat template or the tokenizer refuses it.
    NotEncoded,
    /// The episode has no reply.
    NoReply,
    /// Its call came to nothing; it stands in contexts only.
    FailedCall,
}

impl DropReason {
    const fn text(self) -> &'static str {
        match self {
            Self::TooLong => "longer than a sample may be",
            Self::Duplicate => "same tokens as another sample",
            Self::ContextLost => "what the model was sent is not known",
            Self::Pictures => "more pictures than the student takes",
            Self::NotEncoded => "refused by the chat template or the tokenizer",
            Self::NoReply => "no reply in the episode",
            Self::FailedCall => "its call came to nothing",
        }
    }
}

/// The figures of one job type.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobReport {
    /// Episodes that came in.
    pub episodes: usize,
    /// Samples for training.
    pub train: usize,
    /// Samples held out.
    pub held_out: usize,
    /// Tokens of all samples.
    pub tokens: usize,
    /// Those that are learnt.
    pub trained_tokens: usize,
    /// Replies that are learnt.
    pub replies: usize,
    /// Samples whose oldest exchanges were cut to make them fit.
    pub truncated: usize,
    /// What was left out, in replies; episodes without a reply count as one.
    pub dropped: BTreeMap<DropReason, usize>,
}

impl JobReport {
    pub(super) fn add(&mut self, other: &Self) {
        self.episodes += other.episodes;
        self.train += other.train;
        self.held_out += other.held_out;
        self.tokens += other.tokens;
        self.trained_tokens += other.trained_tokens;
        self.replies += other.replies;
        self.truncated += other.truncated;
        for (reason, count) in &other.dropped {
            *self.dropped.entry(*reason).or_default() += count;
        }
    }
}

/// The figures of a data set.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DatasetReport {
    /// By job type.
    pub job_types: BTreeMap<String, JobReport>,
    /// The first explanation of every reason, where there is more to say than its name.
    pub examples: BTreeMap<DropReason, String>,
    /// Pictures in all episodes.
    pub pictures: usize,
    /// Tokens a sample may have.
    pub max_length: usize,
}

impl DatasetReport {
    /// The sum over all job types.
    #[must_use]
    pub fn total(&self) -> JobReport {
        let mut total = JobReport::default();
        for one in self.job_types.values() {
            total.add(one);
        }
        total
    }
}

impl fmt::Display for DatasetReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<16} {:>8} {:>8} {:>8} {:>10} {:>10} {:>8} {:>9} {:>8}",
            "job type", "episodes", "train", "held out", "tokens", "learnt", "replies", "truncated", "dropped"
        )?;
        let line = |f: &mut fmt::Formatter<'_>, name: &str, one: &JobReport| {
            let dropped: usize = one.dropped.values().sum();
            writeln!(
                f,
                "{name:<16} {:>8} {:>8} {:>8} {:>10} {:>10} {:>8} {:>9} {dropped:>8}",
                one.episodes, one.train, one.held_out, one.tokens, one.trained_tokens, one.replies, one.truncated
            )
        };
        for (name, one) in &self.job_types {
            line(f, name, one)?;
        }
        let total = self.total();
        if self.job_types.len() != 1 {
            line(f, "all", &total)?;
        }
        for (reason, count) in &total.dropped {
            let example = self.examples.get(reason).map(|text| format!(", for example: {text}")).unwrap_or_default();
            writeln!(f, "{count} replies dropped: {}{example}", reason.text())?;
        }
        Ok(())
    }
}
