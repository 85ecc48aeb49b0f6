//! Rollouts as samples: tokens in their contexts, with what they were drawn with.

use super::rollout::{Rollout, Turn};

/// Tokens that were read one after the other, and the drawn ones among them.
#[derive(Debug, Clone, PartialEq)]
pub struct PolicySample {
    /// The rollout it is part of: its place in the step.
    pub rollout: usize,
    /// Its tokens.
    pub ids: Vec<u32>,
    /// For each token the logarithm of its probability when it was drawn; none for what was given.
    pub drawn: Vec<Option<f64>>,
}

impl PolicySample {
    /// How many of its tokens are learnt: the drawn ones, but for a first token, which nothing stands before.
    #[must_use]
    pub fn learnt_tokens(&self) -> u64 {
        self.drawn.iter().skip(1).flatten().count() as u64
    }

    fn of(rollout: usize, turn: &Turn) -> Self {
        let mut sample = Self { rollout, ids: Vec::new(), drawn: Vec::new() };
        sample.append(turn);
        sample
    }

    /// Whether `turn` goes on from this sample: its request begins with all of it.
    fn continues_in(&self, turn: &Turn) -> bool {
        turn.prompt.starts_with(&self.ids)
    }

    fn append(&mut self, turn: &Turn) {
        self.ids.extend(turn.prompt.get(self.ids.len()..).unwrap_or_default());
        self.drawn.resize(self.ids.len(), None);
        self.ids.extend(&turn.reply);
        self.drawn.extend(turn.logprobs.iter().copied().map(Some));
        self.drawn.resize(self.ids.len(), None);
    }
}

/// The samples of `rollout`, which is number `place` of its step. As long as each request repeats the last request and reply, one sample
/// holds them all; where the harness forgot something, or a reply reads otherwise as text than it was drawn, another begins: no token is
/// learnt in a context that it was not drawn in.
#[must_use]
pub fn samples(rollout: &Rollout, place: usize) -> Vec<PolicySample> {
    let mut samples: Vec<PolicySample> = Vec::new();
    for turn in &rollout.turns {
        match samples.last_mut() {
            Some(sample) if sample.continues_in(turn) => sample.append(turn),
            _ => samples.push(PolicySample::of(place, turn)),
        }
    }
    samples
}

#[cfg(test)]
mod tests {
    use super::super::rollout::RolloutEnd;
    use super::*;

    fn turn(prompt: &[u32], reply: &[u32]) -> Turn {
        let logprobs = reply.iter().map(|token| -f64::from(*token)).collect();
        Turn { prompt: prompt.to_vec(), reply: reply.to_vec(), logprobs }
    }

    #[test]
    fn turns_that_go_on_share_a_sample_and_others_do_not() {
        let turns = vec![turn(&[1, 2], &[3, 4]), turn(&[1, 2, 3, 4, 5], &[6]), turn(&[1, 2, 9, 5], &[7])];
        let rollout = Rollout { seed: 0, turns, end: RolloutEnd::Faulted };
        let samples = samples(&rollout, 8);
        assert_eq!(samples.len(), 2);
        assert_eq!(samples[0].ids, [1, 2, 3, 4, 5, 6]);
        assert_eq!(samples[0].drawn, [None, None, Some(-3.0), Some(-4.0), None, Some(-6.0)]);
        assert_eq!(samples[1].ids, [1, 2, 9, 5, 7]);
        assert_eq!(samples[1].drawn, [None, None, None, None, Some(-7.0)]);
        assert!(samples.iter().all(|sample| sample.rollout == 8));
        assert_eq!(samples[0].learnt_tokens() + samples[1].learnt_tokens(), 4);
    }
}
