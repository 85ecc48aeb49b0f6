//! Budgets: what may be spent, what is reserved, what was spent. Reservation comes first, so a limit is never overshot.

use serde::{Deserialize, Serialize};

/// What a budget limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Resource {
    /// Episodes started.
    Episodes,
    /// Prompt and completion tokens.
    Tokens,
    /// Millionths of a US dollar.
    MicroUsd,
}

impl std::fmt::Display for Resource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Episodes => "episodes",
            Self::Tokens => "tokens",
            Self::MicroUsd => "micro-dollars",
        })
    }
}

/// A quantity of every resource. `u64::MAX` as a limit means *no limit*.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Amount {
    /// Episodes.
    pub episodes: u64,
    /// Tokens, prompt and completion together.
    pub tokens: u64,
    /// Millionths of a US dollar.
    pub micro_usd: u64,
}

impl Amount {
    /// No limit on anything.
    pub const UNLIMITED: Self = Self { episodes: u64::MAX, tokens: u64::MAX, micro_usd: u64::MAX };

    /// Sum, saturating at "no limit".
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            episodes: self.episodes.saturating_add(other.episodes),
            tokens: self.tokens.saturating_add(other.tokens),
            micro_usd: self.micro_usd.saturating_add(other.micro_usd),
        }
    }

    /// Difference, not below zero.
    #[must_use]
    pub const fn minus(self, other: Self) -> Self {
        Self {
            episodes: self.episodes.saturating_sub(other.episodes),
            tokens: self.tokens.saturating_sub(other.tokens),
            micro_usd: self.micro_usd.saturating_sub(other.micro_usd),
        }
    }

    /// The same amount `n` times.
    #[must_use]
    pub const fn times(self, n: u64) -> Self {
        Self {
            episodes: self.episodes.saturating_mul(n),
            tokens: self.tokens.saturating_mul(n),
            micro_usd: self.micro_usd.saturating_mul(n),
        }
    }

    /// The first resource of which `self` holds more than `limit`, if any.
    #[must_use]
    pub const fn exceeds(&self, limit: &Self) -> Option<Resource> {
        if self.episodes > limit.episodes {
            Some(Resource::Episodes)
        } else if self.tokens > limit.tokens {
            Some(Resource::Tokens)
        } else if self.micro_usd > limit.micro_usd {
            Some(Resource::MicroUsd)
        } else {
            None
        }
    }
}

/// A budget operation that is not possible.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BudgetError {
    /// The reservation does not fit beside what is spent and reserved already.
    #[error("the budget of {limit} {resource} cannot hold {wanted} more: {spent} spent, {reserved} reserved")]
    Exhausted {
        /// What ran out.
        resource: Resource,
        /// Its limit.
        limit: u64,
        /// Spent so far.
        spent: u64,
        /// Reserved by work in flight.
        reserved: u64,
        /// What was asked for.
        wanted: u64,
    },
}

/// A budget with its reservations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ledger {
    limit: Amount,
    spent: Amount,
    reserved: Amount,
}

impl Ledger {
    /// A ledger with nothing spent.
    #[must_use]
    pub const fn new(limit: Amount) -> Self {
        Self { limit, spent: Amount { episodes: 0, tokens: 0, micro_usd: 0 }, reserved: Amount { episodes: 0, tokens: 0, micro_usd: 0 } }
    }

    /// The limit.
    #[must_use]
    pub const fn limit(&self) -> Amount {
        self.limit
    }

    /// What was spent.
    #[must_use]
    pub const fn spent(&self) -> Amount {
        self.spent
    }

    /// What is reserved by work that has not been settled.
    #[must_use]
    pub const fn reserved(&self) -> Amount {
        self.reserved
    }

    /// What could still be reserved.
    #[must_use]
    pub const fn left(&self) -> Amount {
        self.limit.minus(self.spent).minus(self.reserved)
    }

    /// Sets `amount` aside.
    ///
    /// # Errors
    /// When it does not fit; nothing is reserved then.
    pub fn reserve(&mut self, amount: Amount) -> Result<(), BudgetError> {
        let total = self.spent.plus(self.reserved).plus(amount);
        if let Some(resource) = total.exceeds(&self.limit) {
            return Err(exhausted(self, amount, resource));
        }
        self.reserved = self.reserved.plus(amount);
        Ok(())
    }

    /// Turns a reservation into what was really spent; the rest is free again.
    pub const fn settle(&mut self, reserved: Amount, spent: Amount) {
        self.reserved = self.reserved.minus(reserved);
        self.spent = self.spent.plus(spent);
    }
}

const fn pick(amount: &Amount, resource: Resource) -> u64 {
    match resource {
        Resource::Episodes => amount.episodes,
        Resource::Tokens => amount.tokens,
        Resource::MicroUsd => amount.micro_usd,
    }
}

const fn exhausted(ledger: &Ledger, wanted: Amount, resource: Resource) -> BudgetError {
    BudgetError::Exhausted {
        resource,
        limit: pick(&ledger.limit, resource),
        spent: pick(&ledger.spent, resource),
        reserved: pick(&ledger.reserved, resource),
        wanted: pick(&wanted, resource),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn episodes(n: u64) -> Amount {
        Amount { episodes: n, ..Amount::default() }
    }

    #[test]
    fn a_reservation_beyond_the_limit_is_refused_and_changes_nothing() {
        let mut ledger = Ledger::new(Amount { episodes: 10, ..Amount::UNLIMITED });
        ledger.reserve(episodes(6)).unwrap();
        assert!(matches!(ledger.reserve(episodes(5)), Err(BudgetError::Exhausted { resource: Resource::Episodes, wanted: 5, .. })));
        assert_eq!(ledger.left().episodes, 4);
        ledger.settle(episodes(6), episodes(2));
        ledger.reserve(episodes(8)).unwrap();
        assert_eq!(ledger.left().episodes, 0);
    }
}
