//! What a training run by reinforcement does, as data.

use super::advantage::AdvantageScale;
use super::policy_loss::PolicyLoss;
use crate::student::network::{AdapterConfig, Checkpointing};
use crate::student::recipe::{Optimisation, SavingPlan};

/// Reinforcement learning on episodes that the student plays itself.
#[derive(Debug, Clone, PartialEq)]
pub struct RlRecipe {
    /// Names the run.
    pub name: String,
    /// The root of all that is drawn.
    pub seed: u64,
    /// Steps: rounds of play and update.
    pub steps: u64,
    /// What is played for a step.
    pub groups: GroupPlan,
    /// What is learnt from it.
    pub objective: Objective,
    /// Whether limits teach.
    pub truncated: Truncated,
    /// Which rewards count.
    pub rewards: Rewards,
    /// Times that the weights move after one round of play.
    pub updates: u32,
    /// Longest sample that is learnt, in tokens; a row of samples is as long.
    pub max_length: usize,
    /// How weights move.
    pub optimisation: Optimisation,
    /// Low-rank adapters; none trains every weight.
    pub adapters: Option<AdapterConfig>,
    /// What is kept for the backward pass.
    pub checkpointing: Checkpointing,
    /// When the state is saved.
    pub saving: SavingPlan,
}

/// What is played for a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupPlan {
    /// Groups, each of one task.
    pub count: usize,
    /// Members of a group.
    pub size: usize,
    /// How often groups that teach nothing are replaced by others (dynamic sampling, DAPO); what is still missing then is missing.
    pub replacements: u32,
}

/// What is learnt from rollouts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Objective {
    /// Raise what did better than its group and lower what did worse.
    PolicyGradient {
        /// From rewards to advantages.
        scale: AdvantageScale,
        /// From advantages to a loss.
        loss: PolicyLoss,
    },
    /// Supervised fine-tuning on the student's own successes (rejection sampling): at most so many of a group.
    Rejection {
        /// Successes of one group that are learnt, the first by number.
        per_group: usize,
    },
}

/// Whether rollouts teach that a limit cut off.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Truncated {
    /// Their rewards count in the group, their tokens are not learnt (overlong filtering, DAPO).
    #[default]
    Mask,
    /// Like all others.
    Learn,
}

/// Which rewards count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Rewards {
    /// Each rollout's own.
    #[default]
    Own,
    /// Those of its group in an order that is drawn: the control which shows what comes of an update that knows nothing.
    Shuffled,
}
