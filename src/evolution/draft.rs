//! A decided step that waits to be carried out.

use std::sync::Arc;

use super::{Birth, Refusal, StepPlan};
use crate::evaluation::{EpisodeScore, Pairing};
use crate::harness::Harness;
use crate::task::{JobType, Split, TaskId};

/// A decided step.
#[derive(Debug, Clone)]
pub struct Draft {
    /// Its number.
    pub step: u64,
    /// What it sets out to do.
    pub plan: StepPlan,
    /// What is to be done.
    pub work: Work,
}

/// What is to be done.
#[derive(Debug, Clone)]
pub enum Work {
    /// Evaluates a harness that is known already.
    Evaluate {
        /// The harness.
        harness: Arc<Harness>,
        /// Its origin, if it is new.
        birth: Option<Box<Birth>>,
        /// Where it is evaluated.
        tracks: Vec<Track>,
    },
    /// Asks a model for an edit, then evaluates the child.
    Rewrite {
        /// What the model reads.
        brief: Box<RewriteBrief>,
        /// Where the child is evaluated.
        track: Track,
    },
    /// Nothing: the proposal is refused.
    Refuse(Refusal),
}

/// What a rewriting model reads, before the episodes are fetched.
#[derive(Debug, Clone)]
pub struct RewriteBrief {
    /// The harness to edit.
    pub parent: Arc<Harness>,
    /// The kind of work.
    pub job_type: JobType,
    /// Failed episodes of the parent, on the search split.
    pub failures: Vec<(TaskId, u64)>,
    /// Earlier edits for this job type that did not help.
    pub failed_edits: Vec<String>,
    /// Seed of the request.
    pub seed: u64,
    /// Tokens one episode of the child may cost at most: what was reserved.
    pub token_limit: u64,
}

/// One evaluation to be played: stage after stage, given up when it falls behind the rival.
#[derive(Debug, Clone)]
pub struct Track {
    /// The kind of work.
    pub job_type: JobType,
    /// The split.
    pub split: Split,
    /// All pairings of a complete evaluation.
    pub pairings: Vec<Pairing>,
    /// Number of pairings after each stage, ascending; the last is all of them.
    pub stages: Vec<usize>,
    /// The parent's scores on the same pairings; empty when nothing is to be given up.
    pub rival: Vec<EpisodeScore>,
}
