//! What ends an agent's turn, and the clock that may.

use std::time::Duration;

use tokio::time::Instant;

use crate::trajectory::{Boundary, Ending, Fault};

/// Why the agent's turn is over.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Stop {
    /// The agent's own doing, or a limit: the workspace is checked.
    Ended(Ending),
    /// Not the agent's doing: there is no score.
    Faulted(Fault),
}

impl Stop {
    pub(super) fn fault(boundary: Boundary, error: impl std::fmt::Display) -> Self {
        Self::Faulted(Fault { boundary, message: error.to_string() })
    }
}

/// The time of an episode. Time that an endpoint lost to failed attempts is given back: it is not the agent's.
#[derive(Debug, Clone, Copy)]
pub(super) struct EpisodeClock {
    deadline: Instant,
}

impl EpisodeClock {
    /// A clock that starts now.
    pub(super) fn new(seconds: u32) -> Self {
        Self { deadline: Instant::now() + Duration::from_secs(u64::from(seconds)) }
    }

    pub(super) fn remaining(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    pub(super) fn is_over(&self) -> bool {
        self.remaining().is_zero()
    }

    pub(super) fn give_back(&mut self, lost: Duration) {
        self.deadline += lost;
    }
}
