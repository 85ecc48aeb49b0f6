//! What the reporters count.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::base::Amount;
use crate::evolution::{Effect, RunEvent, StepPlan};
use crate::task::JobType;

/// Running counts of a run.
#[derive(Debug)]
pub(super) struct Tally {
    started: Instant,
    limit: Amount,
    before: u64,
    pub(super) episodes: u64,
    pub(super) faults: u64,
    pub(super) steps: u64,
    pub(super) refused: u64,
    pub(super) simulated: bool,
    best: BTreeMap<JobType, f64>,
}

impl Tally {
    pub(super) fn new() -> Self {
        Self {
            started: Instant::now(),
            limit: Amount::default(),
            before: 0,
            episodes: 0,
            faults: 0,
            steps: 0,
            refused: 0,
            simulated: false,
            best: BTreeMap::new(),
        }
    }

    pub(super) fn take(&mut self, event: &RunEvent) {
        match event {
            RunEvent::Started { resumed_steps, limit, spent, job_types, simulated } => {
                self.started = Instant::now();
                self.limit = *limit;
                self.before = spent.episodes;
                self.episodes = spent.episodes;
                self.steps = *resumed_steps;
                self.simulated = *simulated;
                self.best = job_types.iter().map(|job_type| (job_type.clone(), 0.0)).collect();
            }
            RunEvent::EpisodeDone { result, .. } => match result {
                Ok(_) => self.episodes += 1,
                Err(_) => self.faults += 1,
            },
            RunEvent::StepCommitted { step, plan, refused, effects, .. } => {
                self.steps = step + 1;
                self.refused += u64::from(refused.is_some());
                for effect in effects {
                    if let Effect::NicheTaken { niche, mean, .. } = effect {
                        let best = self.best.entry(niche.job_type.clone()).or_insert(0.0);
                        *best = best.max(*mean);
                    }
                }
                let _: &StepPlan = plan;
            }
            RunEvent::Phase { .. } | RunEvent::Stopped { .. } => {}
        }
    }

    /// Episodes of the budget.
    pub(super) const fn limit(&self) -> u64 {
        self.limit.episodes
    }

    /// Episodes per second since the start of this process.
    pub(super) fn rate(&self) -> f64 {
        let played = self.episodes.saturating_sub(self.before);
        f64::from(u32::try_from(played).unwrap_or(u32::MAX)) / self.started.elapsed().as_secs_f64().max(0.001)
    }

    /// Time left if the rest of the budget goes as fast.
    pub(super) fn left(&self) -> Option<Duration> {
        let rest = self.limit.episodes.saturating_sub(self.episodes);
        let rate = self.rate();
        (rate > 0.0).then(|| Duration::from_secs_f64((f64::from(u32::try_from(rest).unwrap_or(u32::MAX)) / rate).min(1e9)))
    }

    /// Best mean score per job type on the search split.
    pub(super) fn best(&self) -> String {
        let parts: Vec<String> = self.best.iter().map(|(job_type, mean)| format!("{job_type} {mean:.2}")).collect();
        parts.join("  ")
    }

    /// Everything on one line.
    pub(super) fn line(&self) -> String {
        let left = self.left().map_or_else(|| "?".to_owned(), |left| format!("{}s", left.as_secs()));
        format!(
            "episodes {}/{} ({:.1}/s, {left} left)  steps {}  refused {}  faults {}  best {}{}",
            self.episodes,
            self.limit(),
            self.rate(),
            self.steps,
            self.refused,
            self.faults,
            self.best(),
            if self.simulated { "  (simulated)" } else { "" },
        )
    }
}
