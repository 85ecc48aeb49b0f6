//! Guidance concepts, and how strongly a prompt speaks of each.

use std::collections::BTreeMap;

use regex::Regex;
use serde::{Deserialize, Serialize};

/// Something a prompt can guide an agent in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Concept {
    /// Shell and files rather than the GUI.
    Routing,
    /// List what was asked and tick it off.
    Requirements,
    /// Look at the result before finishing.
    Verify,
    /// Run tests or the program after a change.
    Tests,
    /// Find the cause of an error; do not repeat the call.
    Recovery,
    /// Output may be cut; look at the part that is needed.
    Truncation,
    /// Look at the files before changing them.
    Inspect,
    /// Exactly the format that was asked.
    ExactOutput,
    /// Short replies.
    Brevity,
    /// Compute with a program.
    Scripting,
}

impl Concept {
    /// All concepts.
    pub const ALL: [Self; 10] = [
        Self::Routing,
        Self::Requirements,
        Self::Verify,
        Self::Tests,
        Self::Recovery,
        Self::Truncation,
        Self::Inspect,
        Self::ExactOutput,
        Self::Brevity,
        Self::Scripting,
    ];
}

/// The expressions of one concept.
#[derive(Debug, Clone, Default)]
pub(super) struct CueSet {
    pub(super) favours: Vec<Regex>,
    pub(super) opposes: Vec<Regex>,
}

impl CueSet {
    /// From -1 (the text guides the other way) to 1. The first matching expression gives `first`, each further one the share
    /// `first` of what is missing.
    pub(super) fn strength(&self, text: &str, first: f64) -> f64 {
        let saturated = |set: &[Regex]| {
            let matches = set.iter().filter(|cue| cue.is_match(text)).count();
            1.0 - (1.0 - first).powi(i32::try_from(matches).unwrap_or(i32::MAX))
        };
        saturated(&self.favours) - saturated(&self.opposes)
    }
}

/// How strongly a prompt speaks of each concept.
#[derive(Debug, Clone, Default)]
pub(super) struct Strengths(BTreeMap<Concept, f64>);

impl Strengths {
    pub(super) fn read(cues: &BTreeMap<Concept, CueSet>, text: &str, first: f64) -> Self {
        Self(cues.iter().map(|(concept, set)| (*concept, set.strength(text, first))).collect())
    }

    /// From -1 to 1; 0 for a concept nothing speaks of.
    pub(super) fn of(&self, concept: Concept) -> f64 {
        self.0.get(&concept).copied().unwrap_or(0.0)
    }

    /// Takes the stronger of what is known and `strength`.
    pub(super) fn raise(&mut self, concept: Concept, strength: f64) {
        let known = self.0.entry(concept).or_insert(0.0);
        *known = known.max(strength);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strength_saturates_and_is_reduced_by_contradiction() {
        let regex = |text: &str| Regex::new(text).unwrap();
        let set = CueSet { favours: vec![regex("shell"), regex("terminal")], opposes: vec![regex("mouse")] };
        let close = |a: f64, b: f64| (a - b).abs() < 1e-12;
        assert!(close(set.strength("use the shell", 0.6), 0.6));
        assert!(close(set.strength("use the shell or terminal", 0.6), 0.84));
        assert!(close(set.strength("use the shell, terminal, mouse", 0.6), 0.24));
        assert!(close(set.strength("use the mouse", 0.6), -0.6));
        assert!(close(set.strength("", 0.6), 0.0));
    }
}
