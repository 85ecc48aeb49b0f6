//! Reinforcement learning of the student on verified episodes.
//!
//! A step plays groups of episodes, one task to a group, with the student as it is ([`Rollouts`], which the engine's own episode loop
//! implements), turns rewards into [`advantages`], and moves the weights along the gradient of [`PolicyLoss`]; or it learns the student's
//! own successes ([`Objective::Rejection`]). Tokens are learnt in the contexts they were drawn in, as ids: nothing is encoded twice.
//!
//! Left out: a value network, a reference policy, advantages of single steps, and play that goes on while weights move.

mod advantage;
mod event;
mod policy_loss;
mod recipe;
mod rollout;
mod sample;
mod selection;
mod training;

pub use advantage::{AdvantageScale, advantages, is_dead};
pub use event::{PlayFigures, RlEvent, UpdateFigures};
pub use policy_loss::{Normaliser, PolicyLoss, TokenLogprobs, TokenLoss};
pub use recipe::{GroupPlan, Objective, Rewards, RlRecipe, Truncated};
pub use rollout::{Group, Rollout, RolloutEnd, RolloutError, Rollouts, Turn};
pub use sample::{PolicySample, samples};
pub use training::{RlEnd, RlError, reinforce};

#[cfg(test)]
mod tests;
