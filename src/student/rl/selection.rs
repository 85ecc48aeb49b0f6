//! What of the groups of a step is learnt, and how.

use rand::seq::SliceRandom as _;

use super::advantage::{advantages, is_dead};
use super::policy_loss::{PolicyLoss, TokenLogprobs, TokenLoss};
use super::recipe::{Objective, Rewards, Truncated};
use super::rollout::{Group, Rollout, RolloutEnd};
use super::sample::{PolicySample, samples};
use crate::base::SeedTree;

/// From here on a reward is the full one.
const FULL_REWARD: f64 = 1.0 - 1e-9;

/// Whether an episode with this reward solved its task.
pub(super) fn is_solved(reward: f64) -> bool {
    reward >= FULL_REWARD
}

/// A sample, and what is to become of its drawn tokens.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Lesson {
    pub(super) sample: PolicySample,
    /// How much better its rollout did than its group; one where successes are simply repeated.
    pub(super) advantage: f64,
    /// What the loss of each of its tokens is multiplied by.
    pub(super) weight: f64,
}

/// The lessons of a step.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Lessons {
    pub(super) lessons: Vec<Lesson>,
    /// Samples that are longer than a row.
    pub(super) overlong: u64,
}

/// How groups become lessons.
#[derive(Debug, Clone, Copy)]
pub(super) struct Choice<'a> {
    pub(super) objective: &'a Objective,
    pub(super) truncated: Truncated,
    pub(super) rewards: Rewards,
    /// Tokens of a row.
    pub(super) max_length: usize,
}

impl Choice<'_> {
    /// Whether `group` teaches something under the objective. A whole group is looked at, faulted members apart: leaving single members
    /// out would favour one side.
    pub(super) fn teaches(&self, group: &Group) -> bool {
        let rewards = group.rewards();
        match self.objective {
            Objective::PolicyGradient { .. } => !is_dead(&rewards),
            Objective::Rejection { .. } => rewards.iter().any(|reward| is_solved(*reward)),
        }
    }

    /// What is learnt from `groups`; `seeds` are those of the step.
    pub(super) fn lessons(&self, groups: &[Group], seeds: &SeedTree) -> Lessons {
        let mut chosen = Vec::new();
        for (number, group) in (0_u64..).zip(groups) {
            chosen.extend(self.of_group(group, &seeds.child("rewards").index(number)));
        }
        let mut lessons = Lessons::default();
        let mut lengths = vec![0; chosen.len()];
        for (place, (rollout, advantage)) in chosen.iter().enumerate() {
            for sample in samples(rollout, place) {
                if sample.ids.len() > self.max_length {
                    lessons.overlong += 1;
                } else if sample.learnt_tokens() > 0 {
                    lengths[place] += sample.learnt_tokens();
                    lessons.lessons.push(Lesson { sample, advantage: *advantage, weight: 0.0 });
                }
            }
        }
        let weights = self.loss().token_weights(&lengths);
        for lesson in &mut lessons.lessons {
            lesson.weight = weights.get(lesson.sample.rollout).copied().unwrap_or(0.0);
        }
        // They count in the mean, but move nothing.
        lessons.lessons.retain(|lesson| lesson.advantage != 0.0);
        lessons
    }

    /// The loss of one token of a lesson, before its weight.
    pub(super) fn token(&self, logprobs: TokenLogprobs, advantage: f64) -> TokenLoss {
        match self.objective {
            Objective::PolicyGradient { loss, .. } => loss.token(logprobs, advantage),
            Objective::Rejection { .. } => TokenLoss { loss: -logprobs.new, slope: -1.0, clipped: false },
        }
    }

    fn loss(&self) -> PolicyLoss {
        match self.objective {
            Objective::PolicyGradient { loss, .. } => *loss,
            // Each token counts the same, as in supervised fine-tuning.
            Objective::Rejection { .. } => PolicyLoss::default(),
        }
    }

    fn of_group<'g>(&self, group: &'g Group, seeds: &SeedTree) -> Vec<(&'g Rollout, f64)> {
        let mut rewards = group.rewards();
        if self.rewards == Rewards::Shuffled {
            rewards.shuffle(&mut seeds.rng());
        }
        let rewarded = group.rollouts.iter().filter(|rollout| rollout.end.reward().is_some());
        let learnt = |rollout: &Rollout| self.truncated == Truncated::Learn || !matches!(rollout.end, RolloutEnd::Truncated { .. });
        match self.objective {
            Objective::PolicyGradient { scale, .. } => {
                let pairs = rewarded.zip(advantages(&rewards, *scale));
                pairs.filter(|(rollout, _)| learnt(rollout)).collect()
            }
            Objective::Rejection { per_group } => {
                let solved = rewarded.zip(rewards).filter(|(rollout, reward)| is_solved(*reward) && learnt(rollout));
                solved.map(|(rollout, _)| (rollout, 1.0)).take(*per_group).collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::advantage::AdvantageScale;
    use super::super::policy_loss::Normaliser;
    use super::super::rollout::Turn;
    use super::*;
    use crate::student::rl::tests::task;

    fn rollout(tokens: usize, end: RolloutEnd) -> Rollout {
        Rollout { seed: 0, turns: vec![Turn { prompt: vec![1], reply: vec![2; tokens], logprobs: vec![-1.0; tokens] }], end }
    }

    fn scored(tokens: usize, reward: f64) -> Rollout {
        rollout(tokens, RolloutEnd::Scored { reward })
    }

    fn gradient(normaliser: Normaliser) -> Objective {
        Objective::PolicyGradient { scale: AdvantageScale::None, loss: PolicyLoss { normaliser, ..PolicyLoss::default() } }
    }

    fn choice(objective: &Objective) -> Choice<'_> {
        Choice { objective, truncated: Truncated::Mask, rewards: Rewards::Own, max_length: 100 }
    }

    fn learnt(lessons: &Lessons) -> Vec<(usize, f64)> {
        lessons.lessons.iter().map(|lesson| (lesson.sample.ids.len() - 1, lesson.advantage)).collect()
    }

    #[test]
    fn limits_count_in_the_mean_and_teach_nothing_and_faults_are_not_there() {
        let rollouts = vec![
            scored(3, 1.0),
            rollout(9, RolloutEnd::Faulted),
            rollout(4, RolloutEnd::Truncated { reward: 0.0 }),
            scored(5, 0.5),
            scored(200, 0.1),
        ];
        let groups = [Group { task: task(), rollouts }];
        let objective = gradient(Normaliser::Tokens);
        // The mean of 1, 0, 0.5 and 0.1 is 0.4; the last is longer than a row.
        let lessons = choice(&objective).lessons(&groups, &SeedTree::new(0));
        assert_eq!(lessons.overlong, 1);
        let found = learnt(&lessons);
        assert_eq!(found.iter().map(|(tokens, _)| *tokens).collect::<Vec<_>>(), [3, 5]);
        assert!((found[0].1 - 0.6).abs() < 1e-12 && (found[1].1 - 0.1).abs() < 1e-12);
        assert!(lessons.lessons.iter().all(|lesson| (lesson.weight - 1.0 / 8.0).abs() < 1e-12));
        let all = Choice { truncated: Truncated::Learn, ..choice(&objective) }.lessons(&groups, &SeedTree::new(0));
        assert_eq!(learnt(&all).len(), 3);
    }

    #[test]
    fn equal_groups_are_dead_and_solved_ones_still_repeat() {
        let group = |rewards: [f64; 2]| Group { task: task(), rollouts: rewards.map(|reward| scored(2, reward)).to_vec() };
        let (gradient, rejection) = (gradient(Normaliser::Tokens), Objective::Rejection { per_group: 1 });
        let teaches = |objective, rewards| choice(objective).teaches(&group(rewards));
        assert!(!teaches(&gradient, [1.0, 1.0]) && !teaches(&gradient, [0.0, 0.0]) && teaches(&gradient, [0.5, 1.0]));
        assert!(teaches(&rejection, [1.0, 1.0]) && !teaches(&rejection, [0.0, 0.9]));
        let lessons = choice(&rejection).lessons(&[group([0.2, 1.0]), group([1.0, 1.0])], &SeedTree::new(0));
        assert_eq!(learnt(&lessons), [(2, 1.0), (2, 1.0)]);
        assert!(lessons.lessons.iter().all(|lesson| (lesson.weight - 0.25).abs() < 1e-12));
    }

    #[test]
    fn shuffled_rewards_are_the_same_rewards() {
        let rollouts: Vec<Rollout> = (1..=6).map(|tokens| scored(tokens, f64::from(u32::try_from(tokens).unwrap()) / 6.0)).collect();
        let groups = [Group { task: task(), rollouts }];
        let objective = gradient(Normaliser::Rollout);
        let own = learnt(&choice(&objective).lessons(&groups, &SeedTree::new(1)));
        let shuffled = learnt(&Choice { rewards: Rewards::Shuffled, ..choice(&objective) }.lessons(&groups, &SeedTree::new(1)));
        assert_ne!(own, shuffled);
        let sorted = |mut lessons: Vec<(usize, f64)>| {
            lessons.sort_by(|a, b| a.1.total_cmp(&b.1));
            lessons.into_iter().map(|(_, advantage)| (advantage * 1e9).round()).collect::<Vec<_>>()
        };
        assert_eq!(sorted(own), sorted(shuffled));
    }
}
