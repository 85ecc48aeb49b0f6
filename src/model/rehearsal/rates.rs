//! Mistakes and their rates.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::cues::{Concept, Strengths};
use super::parameters::RehearsalParameters;

/// A kind of mistake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mistake {
    /// Reaches for the GUI where a command would do.
    Channel,
    /// Calls a tool the task does not need.
    Distract,
    /// Leaves out a look at the initial state.
    SkipInspect,
    /// Leaves out a requirement.
    Forget,
    /// Guesses instead of looking closer at what it has not seen.
    Misread,
    /// Plays an act wrong.
    Slip,
    /// Writes the right thing in the wrong form.
    Format,
    /// Computes in the head.
    Mental,
    /// Writes a call that does not parse.
    Malformed,
    /// Repeats a call that failed, or gives up what it was for.
    Loop,
    /// Finishes without a look at the result.
    Unverified,
    /// Looks at the result and does not see what is wrong.
    Missed,
    /// Looks at the result without a list of what was asked, and changes what was right.
    Doubt,
    /// Finishes early because the steps run out.
    Hurry,
    /// Does something again because the history was dropped.
    Lost,
}

impl Mistake {
    /// All mistakes.
    pub const ALL: [Self; 15] = [
        Self::Channel,
        Self::Distract,
        Self::SkipInspect,
        Self::Forget,
        Self::Misread,
        Self::Slip,
        Self::Format,
        Self::Mental,
        Self::Malformed,
        Self::Loop,
        Self::Unverified,
        Self::Missed,
        Self::Doubt,
        Self::Hurry,
        Self::Lost,
    ];
}

/// No mistake is certain: an agent is never wrong with a higher probability than this.
const HIGHEST_RATE: f64 = 0.97;

/// Temperatures up to this one do no harm.
const CALM_TEMPERATURE: f64 = 0.3;

/// How the rate of one mistake comes about.
#[derive(Debug, Clone, Default)]
pub(super) struct MistakeRule {
    /// Rate of an agent that is told nothing.
    pub(super) base: f64,
    /// Share of the rate that full guidance takes away, per concept.
    pub(super) relief: BTreeMap<Concept, f64>,
    /// Growth of the rate under full guidance the other way.
    pub(super) harm: f64,
    /// Growth per degree of temperature above 0.3.
    pub(super) heat: f64,
    /// Growth per unit of load.
    pub(super) strain: f64,
}

/// What a job type is sensitive to.
#[derive(Debug, Clone, Default)]
pub(super) struct Profile {
    /// Factor on the rate of a mistake; 1 where it is missing.
    pub(super) rates: BTreeMap<Mistake, f64>,
    /// Factor on the strength of a concept; 1 where it is missing.
    pub(super) weights: BTreeMap<Concept, f64>,
    /// Tokens of the prompt beyond which it is a load.
    pub(super) prompt_threshold: f64,
    /// Load per 1000 tokens beyond it.
    pub(super) prompt_slope: f64,
    /// Load per offered tool that the solution does not need.
    pub(super) tool_slope: f64,
    /// Load under full guidance, per concept: advice that does not fit the work.
    pub(super) clutter: BTreeMap<Concept, f64>,
    /// Probability of a look after each change under full guidance, per concept.
    pub(super) fuss: BTreeMap<Concept, f64>,
}

impl Profile {
    fn weight(&self, concept: Concept) -> f64 {
        self.weights.get(&concept).copied().unwrap_or(1.0)
    }
}

/// What the rates depend on in one request.
pub(super) struct Situation<'a> {
    pub(super) parameters: &'a RehearsalParameters,
    pub(super) profile: &'a Profile,
    pub(super) strengths: Strengths,
    pub(super) temperature: f64,
    pub(super) prompt_tokens: f64,
    pub(super) needless_tools: usize,
}

impl Situation<'_> {
    /// How strongly this prompt speaks of `concept` to an agent with this kind of work.
    pub(super) fn strength(&self, concept: Concept) -> f64 {
        (self.strengths.of(concept) * self.profile.weight(concept)).clamp(-1.0, 1.0)
    }

    /// What prompt length, needless tools and advice that does not fit add up to.
    pub(super) fn load(&self) -> f64 {
        let beyond = (self.prompt_tokens - self.profile.prompt_threshold).max(0.0) / 1000.0;
        #[expect(clippy::cast_precision_loss, reason = "a handful of tools")]
        let tools = self.needless_tools as f64;
        let clutter: f64 = self.profile.clutter.iter().map(|(concept, share)| share * self.strengths.of(*concept).max(0.0)).sum();
        beyond * self.profile.prompt_slope + tools * self.profile.tool_slope + clutter
    }

    /// The rate of `mistake`.
    pub(super) fn rate(&self, mistake: Mistake) -> f64 {
        let Some(rule) = self.parameters.rules.get(&mistake) else { return 0.0 };
        let mut rate = rule.base * self.profile.rates.get(&mistake).copied().unwrap_or(1.0);
        for (concept, relief) in &rule.relief {
            let strength = self.strength(*concept);
            rate *= if strength >= 0.0 { 1.0 - relief * strength } else { 1.0 - rule.harm * strength };
        }
        rate *= 1.0 + rule.heat * (self.temperature - CALM_TEMPERATURE).max(0.0);
        rate *= 1.0 + rule.strain * self.load();
        rate.clamp(0.0, HIGHEST_RATE)
    }

    /// Probability of a look after a change.
    pub(super) fn fuss(&self) -> f64 {
        let sum: f64 = self.profile.fuss.iter().map(|(concept, share)| share * self.strength(*concept).max(0.0)).sum();
        sum.clamp(0.0, HIGHEST_RATE)
    }
}
