//! How a token is drawn from a network's output.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use super::GenerationError;

/// Candidates that are sorted first to find a nucleus; almost every nucleus is smaller.
const FIRST_HEAD: usize = 256;

/// How tokens are drawn, in the order in which `transformers` applies it: repetition penalty, temperature, top-k, top-p.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampling {
    temperature: f64,
    top_p: f64,
    top_k: Option<usize>,
    repetition_penalty: f64,
}

/// One token that was drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Drawn {
    /// The token.
    pub token: u32,
    /// Natural logarithm of its probability under the network's own distribution: no temperature, no penalty, nothing cut off. It is
    /// what training computes for the same token.
    pub logprob: f64,
}

#[derive(Clone, Copy)]
struct Candidate {
    weight: f64,
    token: u32,
}

impl Sampling {
    /// The most probable token, every time.
    #[must_use]
    pub const fn greedy() -> Self {
        Self { temperature: 0.0, top_p: 1.0, top_k: None, repetition_penalty: 1.0 }
    }

    /// From the network's own distribution.
    #[must_use]
    pub const fn plain() -> Self {
        Self { temperature: 1.0, ..Self::greedy() }
    }

    /// Draws at `temperature` (0 is greedy) from the smallest set of tokens that holds the share `top_p` of the probability.
    ///
    /// # Errors
    /// For a temperature that is negative or not finite, or a `top_p` outside `(0, 1]`.
    pub fn new(temperature: f64, top_p: f64) -> Result<Self, GenerationError> {
        if !(temperature.is_finite() && temperature >= 0.0) {
            return Err(wrong("the temperature", temperature, "a number of at least 0"));
        }
        if !(top_p > 0.0 && top_p <= 1.0) {
            return Err(wrong("top_p", top_p, "a number above 0, at most 1"));
        }
        Ok(Self { temperature, top_p, ..Self::greedy() })
    }

    /// The same, from the `top_k` most probable tokens only; `None` for all.
    ///
    /// # Errors
    /// For 0.
    pub fn with_top_k(self, top_k: Option<usize>) -> Result<Self, GenerationError> {
        match top_k {
            Some(0) => Err(wrong("top_k", 0.0, "at least 1")),
            top_k => Ok(Self { top_k, ..self }),
        }
    }

    /// The same, with the scores of tokens that stand in prompt or reply divided by `penalty` (multiplied where negative): the
    /// penalty of CTRL (Keskar et al. 2019). 1 changes nothing.
    ///
    /// # Errors
    /// For a penalty that is not positive and finite.
    pub fn with_repetition_penalty(self, penalty: f64) -> Result<Self, GenerationError> {
        if penalty.is_finite() && penalty > 0.0 {
            Ok(Self { repetition_penalty: penalty, ..self })
        } else {
            Err(wrong("the repetition penalty", penalty, "a positive number"))
        }
    }

    /// Whether it matters which tokens were seen before.
    #[must_use]
    pub fn looks_back(&self) -> bool {
        (self.repetition_penalty - 1.0).abs() > f64::EPSILON
    }

    /// Draws one of the first `choices` tokens; those behind are rows of the network that the vocabulary has no token for.
    /// `fraction` is the luck, in `[0, 1)`; `seen` are the tokens a repetition penalty is for.
    ///
    /// # Errors
    /// [`GenerationError::NotFinite`] where the logits are no distribution.
    pub fn draw(&self, logits: &[f32], choices: usize, seen: &BTreeSet<u32>, fraction: f64) -> Result<Drawn, GenerationError> {
        let scores: Vec<f64> = logits.iter().map(|logit| f64::from(*logit)).collect();
        let normaliser = log_sum(&scores)?;
        let chosen = self.choose(&scores[..choices.min(scores.len())], seen, fraction)?;
        let logit = scores.get(chosen as usize).copied().unwrap_or(f64::NEG_INFINITY);
        Ok(Drawn { token: chosen, logprob: logit - normaliser })
    }

    fn choose(&self, scores: &[f64], seen: &BTreeSet<u32>, fraction: f64) -> Result<u32, GenerationError> {
        let mut candidates: Vec<Candidate> =
            scores.iter().zip(0_u32..).map(|(score, token)| Candidate { weight: self.penalised(*score, token, seen), token }).collect();
        let best = candidates.iter().copied().min_by(before).ok_or(GenerationError::NotFinite)?;
        if !best.weight.is_finite() {
            return Err(GenerationError::NotFinite);
        }
        if self.temperature <= 0.0 {
            return Ok(best.token);
        }
        for candidate in &mut candidates {
            candidate.weight = ((candidate.weight - best.weight) / self.temperature).exp();
        }
        if let Some(top_k) = self.top_k.filter(|top_k| *top_k < candidates.len()) {
            candidates.select_nth_unstable_by(top_k, before);
            candidates.truncate(top_k);
        }
        if self.top_p < 1.0 {
            keep_nucleus(&mut candidates, self.top_p);
        }
        Ok(pick(&candidates, fraction).unwrap_or(best.token))
    }

    fn penalised(&self, score: f64, token: u32, seen: &BTreeSet<u32>) -> f64 {
        if !self.looks_back() || !seen.contains(&token) {
            score
        } else if score > 0.0 {
            score / self.repetition_penalty
        } else {
            score * self.repetition_penalty
        }
    }
}

fn wrong(name: &'static str, found: f64, expected: &'static str) -> GenerationError {
    GenerationError::Sampling { name, found: found.to_string(), expected }
}

/// The heavier first; of equals the lower token.
fn before(a: &Candidate, b: &Candidate) -> Ordering {
    b.weight.total_cmp(&a.weight).then(a.token.cmp(&b.token))
}

/// The logarithm of the sum of exponentials.
fn log_sum(scores: &[f64]) -> Result<f64, GenerationError> {
    let best = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = scores.iter().map(|score| (score - best).exp()).sum();
    let normaliser = best + sum.ln();
    if normaliser.is_finite() { Ok(normaliser) } else { Err(GenerationError::NotFinite) }
}

/// Keeps the fewest candidates, heaviest first, whose weights sum up to the share `top_p` of all.
fn keep_nucleus(candidates: &mut Vec<Candidate>, top_p: f64) {
    let wanted = top_p * candidates.iter().map(|candidate| candidate.weight).sum::<f64>();
    let mut head = FIRST_HEAD;
    loop {
        let size = head.min(candidates.len());
        if size < candidates.len() {
            candidates.select_nth_unstable_by(size, before);
        }
        candidates[..size].sort_unstable_by(before);
        let mut sum = 0.0;
        let reached = candidates[..size].iter().position(|candidate| {
            sum += candidate.weight;
            sum >= wanted
        });
        match reached {
            Some(last) => return candidates.truncate(last + 1),
            // Rounding may leave the whole sum just below what is wanted.
            None if size == candidates.len() => return,
            None => head *= 8,
        }
    }
}

/// The candidate in whose share of the weight `fraction` falls.
fn pick(candidates: &[Candidate], fraction: f64) -> Option<u32> {
    let target = fraction * candidates.iter().map(|candidate| candidate.weight).sum::<f64>();
    let mut sum = 0.0;
    let found = candidates.iter().find(|candidate| {
        sum += candidate.weight;
        sum > target
    });
    // Rounding may leave the target just above the sum.
    found.or_else(|| candidates.iter().rev().find(|candidate| candidate.weight > 0.0)).map(|candidate| candidate.token)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::SeedTree;

    /// Logits of the probabilities 0.5, 0.25, 0.125, 0.125, shifted by 3: a shift changes nothing.
    fn quarter() -> Vec<f32> {
        [0.5_f32, 0.25, 0.125, 0.125].iter().map(|p| p.ln() + 3.0).collect()
    }

    fn tokens(sampling: Sampling, logits: &[f32], fractions: &[f64]) -> Vec<u32> {
        fractions.iter().map(|fraction| sampling.draw(logits, logits.len(), &BTreeSet::new(), *fraction).unwrap().token).collect()
    }

    #[test]
    fn luck_falls_into_shares_of_the_probability() {
        let plain = Sampling::plain();
        // Shares end at 0.5, 0.75, 0.875, 1.
        assert_eq!(tokens(plain, &quarter(), &[0.0, 0.49, 0.51, 0.74, 0.76, 0.87, 0.88, 0.999]), [0, 0, 1, 1, 2, 2, 3, 3]);
        // At temperature 0.5 probabilities are squared: 16, 4, 1, 1 of 22; shares end at 0.727, 0.909, 0.955, 1.
        let cold = Sampling::new(0.5, 1.0).unwrap();
        assert_eq!(tokens(cold, &quarter(), &[0.72, 0.73, 0.90, 0.92, 0.96]), [0, 1, 1, 2, 3]);
        // Of two, 0.5 and 0.25: shares end at 2/3 and 1.
        let two = plain.with_top_k(Some(2)).unwrap();
        assert_eq!(tokens(two, &quarter(), &[0.66, 0.67, 0.999]), [0, 1, 1]);
        // 0.7 needs the first two tokens, 0.8 the first three, of equals the lower one.
        let nucleus = |top_p| Sampling::new(1.0, top_p).unwrap();
        assert_eq!(tokens(nucleus(0.7), &quarter(), &[0.66, 0.67, 0.999]), [0, 1, 1]);
        assert_eq!(tokens(nucleus(0.8), &quarter(), &[0.57, 0.58, 0.85, 0.86, 0.999]), [0, 1, 1, 2, 2]);
        assert_eq!(tokens(nucleus(0.01), &quarter(), &[0.0, 0.999]), [0, 0]);
        assert_eq!(tokens(Sampling::greedy(), &[1.0, 2.0, 2.0, 0.0], &[0.0, 0.999]), [1, 1]);
    }

    #[test]
    fn frequencies_follow_the_distribution() {
        let seeds = SeedTree::new(5);
        let n = 20_000_u32;
        let mut counts = [0_u32; 4];
        for index in 0..n {
            let drawn = Sampling::plain().draw(&quarter(), 4, &BTreeSet::new(), seeds.index(u64::from(index)).fraction());
            counts[drawn.unwrap().token as usize] += 1;
        }
        let chi: f64 = counts
            .iter()
            .zip([0.5, 0.25, 0.125, 0.125])
            .map(|(count, p)| (f64::from(*count) - p * f64::from(n)).powi(2) / (p * f64::from(n)))
            .sum();
        // Chi-square with 3 degrees of freedom is above 16.27 once in a thousand.
        assert!(chi < 16.27, "{chi} {counts:?}");
    }

    #[test]
    fn a_wide_nucleus_is_found_beyond_the_first_head() {
        // 1000 tokens alike: 0.9 of the probability is the first 900.
        let logits = vec![0.0_f32; 1000];
        let wide = Sampling::new(1.0, 0.9).unwrap();
        assert_eq!(tokens(wide, &logits, &[0.0, 0.9995]), [0, 899]);
    }

    #[test]
    fn log_probabilities_are_of_the_unmodified_distribution() {
        for sampling in [Sampling::greedy(), Sampling::new(0.3, 0.5).unwrap().with_repetition_penalty(2.0).unwrap()] {
            let drawn = sampling.draw(&quarter(), 4, &BTreeSet::new(), 0.0).unwrap();
            assert!((drawn.logprob - 0.5_f64.ln()).abs() < 1e-6, "{drawn:?}");
        }
        // A row that no token belongs to takes its share of the probability and is never drawn.
        let drawn = Sampling::greedy().draw(&[1.0, 1.0, 9.0], 2, &BTreeSet::new(), 0.0).unwrap();
        let expected = 1.0 - (2.0 * 1_f64.exp() + 9_f64.exp()).ln();
        assert!(drawn.token == 0 && (drawn.logprob - expected).abs() < 1e-9);
    }

    #[test]
    fn repetition_is_penalised() {
        let sampling = Sampling::greedy().with_repetition_penalty(2.0).unwrap();
        let draw = |logits: &[f32], seen: &[u32]| sampling.draw(logits, logits.len(), &seen.iter().copied().collect(), 0.0).unwrap().token;
        // 3 / 2 is below 2; -1 * 2 is below -1.5.
        assert_eq!((draw(&[3.0, 2.0], &[]), draw(&[3.0, 2.0], &[0])), (0, 1));
        assert_eq!((draw(&[-1.0, -1.5], &[]), draw(&[-1.0, -1.5], &[0])), (0, 1));
    }

    #[test]
    fn what_is_no_distribution_is_refused() {
        for logits in [&[f32::NAN, 0.0][..], &[f32::INFINITY, 0.0], &[f32::NEG_INFINITY], &[]] {
            let drawn = Sampling::greedy().draw(logits, 2, &BTreeSet::new(), 0.0);
            assert!(matches!(drawn, Err(GenerationError::NotFinite)), "{logits:?}: {drawn:?}");
        }
        assert!(Sampling::new(-0.1, 1.0).is_err() && Sampling::new(f64::NAN, 1.0).is_err());
        assert!(Sampling::new(1.0, 0.0).is_err() && Sampling::new(1.0, 1.01).is_err() && Sampling::new(1.0, f64::NAN).is_err());
        assert!(Sampling::greedy().with_top_k(Some(0)).is_err() && Sampling::greedy().with_repetition_penalty(0.0).is_err());
    }
}
