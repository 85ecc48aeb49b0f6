//! The harness's retry table for the agent's own failures: which rule a failure falls under, and what the model is told.

use std::time::Duration;

use super::provider::stage;
use crate::base::SeedTree;
use crate::harness::RetryRule;

/// Failures of one class in a row, and the rules for them.
#[derive(Debug)]
pub(super) struct Streak<'a> {
    rules: &'a [RetryRule],
    failures: u32,
}

/// What the table says about one failure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Repair<'a> {
    rule: &'a RetryRule,
    /// How often the rule applied before, in a row.
    attempt: u32,
}

impl<'a> Streak<'a> {
    pub(super) const fn new(rules: &'a [RetryRule]) -> Self {
        Self { rules, failures: 0 }
    }

    /// Counts one more failure in a row. `None` when the attempts of all rules are spent: the failure stands.
    pub(super) fn fail(&mut self) -> Option<Repair<'a>> {
        let mut attempt = self.failures;
        self.failures = self.failures.saturating_add(1);
        for rule in self.rules {
            match attempt.checked_sub(rule.attempts) {
                None => return Some(Repair { rule, attempt }),
                Some(rest) => attempt = rest,
            }
        }
        None
    }

    /// Ends the row.
    pub(super) const fn reset(&mut self) {
        self.failures = 0;
    }

    /// Whether there is no rule at all: such failures are only observed.
    pub(super) const fn is_lenient(&self) -> bool {
        self.rules.is_empty()
    }
}

impl Repair<'_> {
    /// `message` with the rule's repair text after it.
    pub(super) fn explain(&self, message: &str) -> String {
        let repair = self.rule.repair.trim();
        if repair.is_empty() { message.to_owned() } else { format!("{}\n{repair}", message.trim_end_matches('\n')) }
    }

    /// How long to wait before the next request.
    pub(super) fn delay(&self, seeds: &SeedTree) -> Duration {
        stage(self.rule).wait(self.attempt, seeds.fraction())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(attempts: u32, repair: &str) -> RetryRule {
        RetryRule { attempts, repair: repair.to_owned(), ..RetryRule::default() }
    }

    #[test]
    fn rules_apply_in_order_until_their_attempts_are_spent() {
        let rules = [rule(2, "first"), rule(1, "second")];
        let mut streak = Streak::new(&rules);
        let said = |streak: &mut Streak<'_>| streak.fail().map(|repair| repair.explain("e\n"));
        assert_eq!(said(&mut streak).as_deref(), Some("e\nfirst"));
        assert_eq!(said(&mut streak).as_deref(), Some("e\nfirst"));
        assert_eq!(said(&mut streak).as_deref(), Some("e\nsecond"));
        assert_eq!(said(&mut streak), None);
        assert_eq!(said(&mut streak), None);
        streak.reset();
        assert_eq!(said(&mut streak).as_deref(), Some("e\nfirst"));
        assert_eq!(Streak::new(&[]).fail(), None);
    }
}
