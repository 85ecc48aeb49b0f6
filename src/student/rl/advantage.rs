//! The rewards of a group as advantages of its members.

/// What is subtracted is the group's mean; this is what it is divided by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum AdvantageScale {
    /// Nothing (Dr. GRPO, Liu et al. 2025): groups that are nearly even do not weigh more.
    #[default]
    None,
    /// The group's standard deviation, that of a sample (n - 1), plus 1e-6 (GRPO, Shao et al. 2024).
    Deviation,
}

/// Of each member how much better it did than its group: one number per reward, which sum to zero.
#[must_use]
pub fn advantages(rewards: &[f64], scale: AdvantageScale) -> Vec<f64> {
    #[expect(clippy::cast_precision_loss, reason = "a group is small")]
    let count = rewards.len() as f64;
    let mean = rewards.iter().sum::<f64>() / count;
    let centred = rewards.iter().map(|reward| reward - mean);
    match scale {
        AdvantageScale::None => centred.collect(),
        AdvantageScale::Deviation => {
            let squares: f64 = centred.clone().map(|value| value * value).sum();
            let deviation = (squares / (count - 1.0).max(1.0)).sqrt();
            centred.map(|value| value / (deviation + 1e-6)).collect()
        }
    }
}

/// Whether a group teaches nothing: all its rewards are the same, and so every advantage is zero.
#[must_use]
pub fn is_dead(rewards: &[f64]) -> bool {
    rewards.iter().all(|reward| rewards.first().is_some_and(|first| (reward - first).abs() < 1e-9))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advantages_by_hand() {
        assert_eq!(advantages(&[1.0, 0.0, 0.0, 1.0], AdvantageScale::None), [0.5, -0.5, -0.5, 0.5]);
        // Mean 1/4, squares 9/16 + 3/16 = 3/4, deviation sqrt(3/4 / 3) = 1/2.
        let scaled = advantages(&[1.0, 0.0, 0.0, 0.0], AdvantageScale::Deviation);
        for (found, expected) in scaled.iter().zip([1.5, -0.5, -0.5, -0.5]) {
            assert!((found - expected).abs() < 1e-5, "{scaled:?}");
        }
    }

    #[test]
    fn a_group_of_equals_is_dead() {
        assert!(is_dead(&[0.3, 0.3, 0.3]) && is_dead(&[1.0]) && is_dead(&[]));
        assert!(!is_dead(&[0.0, 0.0, 0.1]));
        assert_eq!(advantages(&[0.0, 0.0], AdvantageScale::Deviation), [0.0, 0.0]);
    }
}
