//! Intervals for rates and paired differences.

use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

/// An estimate with its interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// The point estimate.
    pub mean: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// Two-sided Wilson score interval of `successes` in `trials` at `confidence` (Wilson 1927, JASA 22:209). Without trials it is
/// everything: `[0, 1]` around one half.
#[must_use]
pub fn wilson(successes: u32, trials: u32, confidence: f64) -> Interval {
    if trials == 0 {
        return Interval { mean: 0.5, low: 0.0, high: 1.0 };
    }
    let z = normal_quantile(0.5 + confidence / 2.0);
    let n = f64::from(trials);
    let rate = f64::from(successes) / n;
    let centre = (rate + z * z / (2.0 * n)) / (1.0 + z * z / n);
    let half = z / (1.0 + z * z / n) * (rate * (1.0 - rate) / n + z * z / (4.0 * n * n)).sqrt();
    Interval { mean: rate, low: (centre - half).max(0.0), high: (centre + half).min(1.0) }
}

/// Two-sided Student interval of the mean of paired `differences`, each in `[-1, 1]`, at `confidence`. With fewer than two
/// pairs, or with pairs that are all alike, the spread is unknown: it is then taken as that of one further pair at the worst
/// end of the range, so that agreement on a few pairs is never certainty.
#[must_use]
pub fn paired_difference(differences: &[f64], confidence: f64) -> Interval {
    let n = differences.len();
    if n < 2 {
        return Interval { mean: differences.first().copied().unwrap_or(0.0), low: -1.0, high: 1.0 };
    }
    let count = as_f64(n);
    let mean = differences.iter().sum::<f64>() / count;
    let squares: f64 = differences.iter().map(|d| (d - mean).powi(2)).sum();
    // One pseudo-pair at distance 1 from the mean keeps the variance away from zero (a Bayesian prior of one observation).
    let variance = (squares + 1.0) / count;
    let half = student_quantile(0.5 + confidence / 2.0, count - 1.0) * (variance / count).sqrt();
    Interval { mean, low: (mean - half).max(-1.0), high: (mean + half).min(1.0) }
}

fn as_f64(n: usize) -> f64 {
    f64::from(u32::try_from(n).unwrap_or(u32::MAX))
}

fn normal_quantile(p: f64) -> f64 {
    Normal::standard().inverse_cdf(p)
}

fn student_quantile(p: f64, freedom: f64) -> f64 {
    StudentsT::new(0.0, 1.0, freedom).map_or(f64::INFINITY, |t| t.inverse_cdf(p))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wilson_agrees_with_a_published_example() {
        // Newcombe 1998 (Statistics in Medicine 17:857), table I: 81 of 263 gives 0.2553 to 0.3662; 15 of 148 gives 0.0624 to 0.1605.
        let a = wilson(81, 263, 0.95);
        assert!((a.low - 0.2553).abs() < 5e-5 && (a.high - 0.3662).abs() < 5e-5, "{a:?}");
        let b = wilson(15, 148, 0.95);
        assert!((b.low - 0.0624).abs() < 5e-5 && (b.high - 0.1605).abs() < 5e-5, "{b:?}");
    }

    #[test]
    fn wilson_stays_inside_the_unit_interval() {
        let none = wilson(0, 20, 0.95);
        assert!(none.low.abs() < 1e-12 && (none.high - 0.1611).abs() < 1e-4, "{none:?}");
        assert_eq!(wilson(0, 0, 0.95), Interval { mean: 0.5, low: 0.0, high: 1.0 });
    }

    #[test]
    fn a_paired_interval_by_hand() {
        // Four differences 1, 0, 1, 0: mean 0.5, squares 1, variance (1 + 1) / 4 = 0.5, error sqrt(0.125) = 0.35355,
        // t(0.975, 3) = 3.18245, half width 1.12517, clipped at 1.
        let interval = paired_difference(&[1.0, 0.0, 1.0, 0.0], 0.95);
        assert!((interval.mean - 0.5).abs() < 1e-12);
        assert!((interval.low - (0.5 - 1.125_17)).abs() < 1e-4, "{interval:?}");
        assert!((interval.high - 1.0).abs() < 1e-12);
    }

    #[test]
    fn agreement_on_few_pairs_is_not_certainty() {
        let interval = paired_difference(&[1.0, 1.0, 1.0], 0.95);
        assert!(interval.low < 0.0, "{interval:?}");
        assert_eq!(paired_difference(&[1.0], 0.95).low, -1.0);
    }
}
