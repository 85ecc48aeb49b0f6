//! What the journal keeps of a step: enough to replay the search from its beginning.

use serde::{Deserialize, Serialize};

use crate::archive::Niche;
use crate::base::Amount;
use crate::evaluation::EpisodeScore;
use crate::harness::HarnessId;
use crate::lineage::{Birth, JudgedHypothesis, OperatorName};
use crate::task::{JobType, Split};

/// What a step sets out to do. Decided from the state after an earlier commit, so it is the same on every replay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum StepPlan {
    /// Evaluates a seed harness on every job type.
    Seed {
        /// The seed.
        harness: HarnessId,
        /// The template it came from.
        template: String,
    },
    /// Makes a child and evaluates it on one job type.
    Child {
        /// How.
        operator: OperatorName,
        /// From whom, one or two.
        parents: Vec<HarnessId>,
        /// For which kind of work.
        job_type: JobType,
    },
    /// Evaluates a niche's holder on the validate split.
    Confirm {
        /// The holder.
        harness: HarnessId,
        /// Where.
        niche: Niche,
    },
}

/// What came of a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum StepResult {
    /// Something was evaluated.
    Evaluated {
        /// The new harness, for `Seed` and `Child`.
        birth: Option<Box<Birth>>,
        /// Episodes by harness, job type and split.
        evaluations: Vec<Evaluation>,
        /// What the step cost beside its episodes (requests of the operator).
        overhead: Amount,
    },
    /// No child came of it.
    Refused {
        /// Why.
        refusal: Refusal,
        /// What the step cost.
        overhead: Amount,
    },
}

/// Why a proposal was not evaluated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Refusal {
    /// The child is its parent.
    #[error("the edit changes nothing")]
    NoChange,
    /// The lineage has the child already.
    #[error("the lineage has {} already", harness.short())]
    Duplicate {
        /// The child.
        harness: HarnessId,
    },
    /// The operator produced something that is not a harness, or that breaks a rule for edits.
    #[error("not a valid edit: {reason}")]
    Invalid {
        /// What is wrong.
        reason: String,
    },
    /// The operator's model could not be reached or answered nonsense.
    #[error("the rewriting model failed: {reason}")]
    OperatorFault {
        /// What happened.
        reason: String,
    },
}

/// Episodes of one harness on one job type and split.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Evaluation {
    /// The harness.
    pub harness: HarnessId,
    /// The kind of work.
    pub job_type: JobType,
    /// The split the tasks are from.
    pub split: Split,
    /// Scored episodes, in the order of the evaluation schedule.
    pub episodes: Vec<EpisodeScore>,
    /// Episodes that stayed faulted after all attempts.
    pub faulted: u32,
    /// Attempts that faulted, whether or not a later one was scored.
    pub faulted_attempts: u32,
    /// What episodes that stayed faulted cost.
    #[serde(default)]
    pub lost: Amount,
}

/// What a committed step changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Effect {
    /// A niche has a new holder.
    NicheTaken {
        /// Which.
        niche: Niche,
        /// By whom.
        harness: HarnessId,
        /// From whom.
        previous: Option<HarnessId>,
        /// Mean score on the search split.
        mean: f64,
        /// Over how many episodes.
        episodes: u32,
    },
    /// A holder was confirmed on the validate split: it is an elite.
    EliteConfirmed {
        /// Where.
        niche: Niche,
        /// Who.
        harness: HarnessId,
        /// Solved share on the validate split.
        rate: f64,
        /// Lower end of its interval.
        low: f64,
        /// Upper end.
        high: f64,
        /// Over how many episodes.
        episodes: u32,
        /// Mean model replies per episode on the validate split.
        mean_steps: f64,
        /// Mean tokens per episode on the validate split.
        mean_tokens: f64,
        /// Mean price per episode in millionths of a US dollar.
        mean_micro_usd: f64,
    },
    /// A hypothesis met what happened.
    HypothesisJudged {
        /// The child.
        harness: HarnessId,
        /// The judgement.
        judged: JudgedHypothesis,
    },
}

/// A committed step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepRecord {
    /// Its number, from 0, without gaps.
    pub step: u64,
    /// What it set out to do.
    pub plan: StepPlan,
    /// What came of it.
    pub result: StepResult,
    /// What it changed.
    pub effects: Vec<Effect>,
    /// What the run has spent after it.
    pub spent: Amount,
}

/// The journal could not be written. The run stops.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the journal cannot be written: {0}")]
pub struct JournalError(pub String);

/// Where committed steps go. A step is durable against the death of this process when `commit` returns; its cost does not depend
/// on how many there are.
pub trait Journal: Send {
    /// Appends one step; steps come in order.
    ///
    /// # Errors
    /// When it cannot be written.
    fn commit(&mut self, record: &StepRecord) -> Result<(), JournalError>;
}
