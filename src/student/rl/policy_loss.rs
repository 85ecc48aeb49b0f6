//! The clipped surrogate loss of policy gradients, as a function of log-probabilities.
//!
//! Proximal policy optimisation's objective (Schulman et al. 2017) with the choices of GRPO (Shao et al. 2024), DAPO (Yu et al. 2025) and
//! Dr. GRPO (Liu et al. 2025). There is no penalty for leaving a reference policy.

/// Log-ratios are held within this, so that their exponentials stay finite.
const LARGEST_LOG_RATIO: f64 = 20.0;

/// The loss.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PolicyLoss {
    /// Ratios below one minus this gain nothing more.
    pub clip_low: f64,
    /// Ratios above one plus this gain nothing more; DAPO sets it higher than the other.
    pub clip_high: f64,
    /// The largest ratio that counts where the advantage is negative, whose loss is not bounded otherwise.
    pub ratio_bound: Option<f64>,
    /// The largest weight that makes up for tokens drawn from another distribution than training computes: truncated importance
    /// sampling. None weighs nothing.
    pub correction_bound: Option<f64>,
    /// What sums are divided by.
    pub normaliser: Normaliser,
}

/// What the sum of a step's token losses is divided by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Normaliser {
    /// Each rollout by its own tokens, then by the number of rollouts (GRPO).
    Rollout,
    /// All tokens of the step (DAPO): each token counts the same.
    Tokens,
    /// The number of rollouts times a number of tokens (Dr. GRPO): long rollouts weigh more, whatever the others do.
    Constant {
        /// The number of tokens.
        tokens: u32,
    },
}

/// The log-probabilities of one token that was drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TokenLogprobs {
    /// Now.
    pub new: f64,
    /// Before the weights moved.
    pub old: f64,
    /// When it was drawn.
    pub drawn: f64,
}

/// What a token adds to the loss, before the normaliser.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TokenLoss {
    /// The loss.
    pub loss: f64,
    /// Its derivative by the log-probability now.
    pub slope: f64,
    /// Whether its ratio is cut, so that it moves nothing.
    pub clipped: bool,
}

impl Default for PolicyLoss {
    fn default() -> Self {
        Self { clip_low: 0.2, clip_high: 0.28, ratio_bound: None, correction_bound: Some(2.0), normaliser: Normaliser::Tokens }
    }
}

impl PolicyLoss {
    /// Of one token with `advantage`.
    #[must_use]
    pub fn token(&self, logprobs: TokenLogprobs, advantage: f64) -> TokenLoss {
        let ratio = exp_bounded(logprobs.new - logprobs.old);
        let cut = ratio.clamp(1.0 - self.clip_low, 1.0 + self.clip_high);
        let bounded = self.ratio_bound.map_or(ratio, |bound| ratio.min(bound));
        let weight = self.correction_bound.map_or(1.0, |bound| exp_bounded(logprobs.old - logprobs.drawn).min(bound));
        // The lesser gain counts: what is cut moves nothing, and so does what the bound holds.
        let clipped = cut * advantage < bounded * advantage;
        let moves = !clipped && self.ratio_bound.is_none_or(|bound| ratio <= bound);
        TokenLoss {
            loss: -weight * (bounded * advantage).min(cut * advantage),
            slope: if moves { -weight * ratio * advantage } else { 0.0 },
            clipped: !moves && advantage != 0.0,
        }
    }

    /// Of each rollout what a token's loss is multiplied by, given how many tokens of each rollout are learnt.
    #[must_use]
    pub fn token_weights(&self, lengths: &[u64]) -> Vec<f64> {
        #[expect(clippy::cast_precision_loss, reason = "tokens of a step are far below 2^53")]
        let number = |count: u64| count.max(1) as f64;
        let rollouts = number(lengths.len() as u64);
        let all = number(lengths.iter().sum());
        let weight = |length: &u64| match self.normaliser {
            Normaliser::Rollout => 1.0 / (rollouts * number(*length)),
            Normaliser::Tokens => 1.0 / all,
            Normaliser::Constant { tokens } => 1.0 / (rollouts * number(u64::from(tokens))),
        };
        lengths.iter().map(weight).collect()
    }
}

fn exp_bounded(log_ratio: f64) -> f64 {
    log_ratio.clamp(-LARGEST_LOG_RATIO, LARGEST_LOG_RATIO).exp()
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Deserialize)]
    struct Fixture {
        cases: Vec<Case>,
    }

    /// Logarithms of probabilities, rollout by rollout; the loss and its gradient as TRL gives them.
    #[derive(Deserialize)]
    struct Case {
        loss_type: String,
        delta: Option<f64>,
        clip: [f64; 2],
        tokens: u32,
        new: Vec<Vec<f64>>,
        old: Vec<Vec<f64>>,
        mask: Vec<Vec<u8>>,
        advantages: Vec<f64>,
        loss: f64,
        gradient: Vec<Vec<f64>>,
    }

    fn loss_of(case: &Case) -> PolicyLoss {
        let normaliser = match case.loss_type.as_str() {
            "grpo" => Normaliser::Rollout,
            "dapo" => Normaliser::Tokens,
            "dr_grpo" => Normaliser::Constant { tokens: case.tokens },
            other => panic!("{other}"),
        };
        PolicyLoss { clip_low: case.clip[0], clip_high: case.clip[1], ratio_bound: case.delta, correction_bound: None, normaliser }
    }

    #[test]
    fn loss_and_gradient_are_those_of_trl() {
        let fixture: Fixture = serde_json::from_str(include_str!("../../../tests/fixtures/student/policy_loss.json")).unwrap();
        assert_eq!(fixture.cases.len(), 6);
        for case in &fixture.cases {
            let loss = loss_of(case);
            let lengths: Vec<u64> = case.mask.iter().map(|mask| mask.iter().map(|learnt| u64::from(*learnt)).sum()).collect();
            let weights = loss.token_weights(&lengths);
            let (mut sum, mut clipped, mut moved) = (0.0, 0, 0);
            for (rollout, rollout_weight) in weights.iter().enumerate() {
                for token in 0..case.new[rollout].len() {
                    let learnt = case.mask[rollout][token] == 1;
                    let (new, old) = (case.new[rollout][token], case.old[rollout][token]);
                    let found = loss.token(TokenLogprobs { new, old, drawn: old }, case.advantages[rollout]);
                    let weight = if learnt { *rollout_weight } else { 0.0 };
                    sum += weight * found.loss;
                    clipped += u32::from(learnt && found.clipped);
                    moved += u32::from(learnt && !found.clipped);
                    let (found, expected) = (weight * found.slope, case.gradient[rollout][token]);
                    assert!((found - expected).abs() < 1e-7, "{}: {found} {expected}", case.loss_type);
                }
            }
            assert!(clipped > 0 && moved > 0, "the fixture reaches both sides");
            assert!((sum - case.loss).abs() < 1e-6, "{}: {sum} {}", case.loss_type, case.loss);
        }
    }

    #[test]
    fn a_weight_makes_up_for_another_distribution_but_is_bounded() {
        let loss = PolicyLoss { correction_bound: Some(2.0), ..PolicyLoss::default() };
        let token = |old: f64, drawn: f64| loss.token(TokenLogprobs { new: old, old, drawn }, 1.0);
        // Half as probable in training as it was when drawn: half the weight. Ten times: the bound.
        assert!((token(0.25_f64.ln(), 0.5_f64.ln()).slope + 0.5).abs() < 1e-12);
        assert!((token(0.5_f64.ln(), 0.05_f64.ln()).slope + 2.0).abs() < 1e-12);
        assert!(
            (PolicyLoss { correction_bound: None, ..loss }.token(TokenLogprobs { new: -1.0, old: -1.0, drawn: -9.0 }, 1.0).slope + 1.0)
                .abs()
                < 1e-12
        );
    }
}
