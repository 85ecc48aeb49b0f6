//! What the reporters count. Time is handed in, so that what is said depends on nothing else.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::base::Amount;
use crate::evolution::{AttemptEnd, Effect, RunEvent};
use crate::task::JobType;

/// Running counts of a run.
#[derive(Debug, Default)]
pub(super) struct Tally {
    limit: Amount,
    /// Of the budget, with what an earlier process spent.
    episodes: u64,
    /// By this process.
    played: u64,
    faults: u64,
    steps: u64,
    refused: u64,
    simulated: bool,
    best: BTreeMap<JobType, Best>,
}

/// The best of one job type that this process has seen.
#[derive(Debug, Clone, Copy, Default)]
struct Best {
    /// Mean score on the search split.
    search: Option<f64>,
    /// Solved share on the validate split and the lower end of its interval.
    elite: Option<(f64, f64)>,
}

impl Tally {
    pub(super) fn take(&mut self, event: &RunEvent) {
        match event {
            RunEvent::Started { resumed_steps, limit, spent, job_types, simulated } => {
                *self = Self {
                    limit: *limit,
                    episodes: spent.episodes,
                    steps: *resumed_steps,
                    simulated: *simulated,
                    best: job_types.iter().map(|job_type| (job_type.clone(), Best::default())).collect(),
                    ..Self::default()
                };
            }
            RunEvent::EpisodeDone { result: AttemptEnd::Score(_), .. } => {
                self.episodes += 1;
                self.played += 1;
            }
            RunEvent::EpisodeDone { result: AttemptEnd::Fault(_), .. } => self.faults += 1,
            RunEvent::StepCommitted { step, refused, effects, spent, .. } => {
                self.steps = step + 1;
                self.refused += u64::from(refused.is_some());
                // Episodes that an earlier process played for this step are counted with it; nobody tells of them.
                self.episodes = self.episodes.max(spent.episodes);
                effects.iter().for_each(|effect| self.take_effect(effect));
            }
            RunEvent::Phase { .. } | RunEvent::Stopped { .. } => {}
        }
    }

    fn take_effect(&mut self, effect: &Effect) {
        match effect {
            Effect::NicheTaken { niche, mean, .. } => {
                let best = self.best.entry(niche.job_type.clone()).or_default();
                best.search = Some(best.search.map_or(*mean, |held| held.max(*mean)));
            }
            Effect::EliteConfirmed { niche, rate, low, .. } => {
                let best = self.best.entry(niche.job_type.clone()).or_default();
                if best.elite.is_none_or(|(_, held)| *low >= held) {
                    best.elite = Some((*rate, *low));
                }
            }
            Effect::HypothesisJudged { .. } => {}
        }
    }

    /// Episodes of the budget.
    pub(super) const fn limit(&self) -> u64 {
        self.limit.episodes
    }

    /// Episodes done.
    pub(super) const fn episodes(&self) -> u64 {
        self.episodes
    }

    /// Episodes per second of this process.
    fn rate(&self, elapsed: Duration) -> f64 {
        as_float(self.played) / elapsed.as_secs_f64().max(0.001)
    }

    /// Time left if the rest of the budget goes as fast; `?` before anybody knows.
    fn left(&self, elapsed: Duration) -> String {
        let rest = self.limit.episodes.saturating_sub(self.episodes);
        let rate = self.rate(elapsed);
        if rate > 0.0 { duration(Duration::from_secs_f64((as_float(rest) / rate).min(1e9))) } else { "?".to_owned() }
    }

    /// Speed, time left, steps, faults, and the best per job type: mean score on the search split, and the share of validate tasks that the
    /// elite solves. What has happened so far only; a budget may stop a search before its episodes are played.
    pub(super) fn figures(&self, elapsed: Duration) -> String {
        let best: Vec<String> = self.best.iter().map(|(job_type, best)| format!("{job_type} {}", best.text())).collect();
        format!(
            "{:.1}/s, {} left | {} steps, {} refused, {} faults | best {}{}",
            self.rate(elapsed),
            self.left(elapsed),
            self.steps,
            self.refused,
            self.faults,
            best.join(", "),
            if self.simulated { " (simulated)" } else { "" },
        )
    }

    /// Everything on one line.
    pub(super) fn line(&self, elapsed: Duration) -> String {
        format!("{}/{} episodes, {}", self.episodes, self.limit(), self.figures(elapsed))
    }
}

impl Best {
    fn text(self) -> String {
        let search = self.search.map_or_else(|| "-".to_owned(), |mean| format!("{mean:.2}"));
        self.elite.map_or_else(|| search.clone(), |(rate, _)| format!("{search} (elite {:.0} %)", rate * 100.0))
    }
}

fn as_float(count: u64) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

/// `45s`, `3m05s`, `2h07m`.
fn duration(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        _ => format!("{}h{:02}m", seconds / 3600, seconds % 3600 / 60),
    }
}

/// What an effect says to people, if anything: who was confirmed, where.
pub(super) fn confirmed(step: u64, effect: &Effect) -> Option<String> {
    let Effect::EliteConfirmed { niche, harness, rate, low, high, episodes, .. } = effect else { return None };
    Some(format!(
        "step {step}: elite {} in {niche}: {:.0} % solved ({:.0} to {:.0}, {episodes} episodes)",
        harness.short(),
        rate * 100.0,
        low * 100.0,
        high * 100.0
    ))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::archive::Niche;
    use crate::evolution::StepPlan;
    use crate::harness::HarnessId;
    use crate::task::{Split, TaskId};
    use crate::trajectory::{Boundary, Fault};

    fn job(name: &str) -> JobType {
        JobType::new(name).unwrap()
    }

    fn harness() -> HarnessId {
        HarnessId::from_hash(&blake3::hash(b"h"))
    }

    fn niche(name: &str) -> Niche {
        Niche { job_type: job(name), steps_bin: 1, tokens_bin: 2 }
    }

    pub(in crate::report) fn started(spent: u64) -> RunEvent {
        let amount = |episodes| Amount { episodes, ..Amount::default() };
        RunEvent::Started {
            resumed_steps: 3,
            limit: amount(100),
            spent: amount(spent),
            job_types: vec![job("data"), job("shell")],
            simulated: true,
        }
    }

    fn episode(result: Result<f64, Fault>) -> RunEvent {
        let task = TaskId::from_hash(&blake3::hash(b"t"));
        RunEvent::EpisodeDone { harness: harness(), job_type: job("shell"), split: Split::Search, task, result: result.into() }
    }

    fn committed(step: u64, spent: u64, effects: Vec<Effect>) -> RunEvent {
        RunEvent::StepCommitted {
            step,
            plan: StepPlan::Confirm { harness: harness(), niche: niche("shell") },
            refused: None,
            effects,
            spent: Amount { episodes: spent, ..Amount::default() },
        }
    }

    fn taken(mean: f64) -> Effect {
        Effect::NicheTaken { niche: niche("shell"), harness: harness(), previous: None, mean, episodes: 4 }
    }

    pub(in crate::report) fn crowned(rate: f64, low: f64) -> RunEvent {
        let effect = Effect::EliteConfirmed {
            niche: niche("shell"),
            harness: harness(),
            rate,
            low,
            high: 0.95,
            episodes: 30,
            mean_steps: 5.0,
            mean_tokens: 900.0,
            mean_micro_usd: 0.0,
        };
        committed(7, 0, vec![effect])
    }

    fn line(events: &[RunEvent], seconds: u64) -> String {
        let mut tally = Tally::default();
        events.iter().for_each(|event| tally.take(event));
        tally.line(Duration::from_secs(seconds))
    }

    #[test]
    fn a_resumed_run_counts_what_was_spent_but_is_only_as_fast_as_it_plays() {
        let fault = Fault { boundary: Boundary::Provider, message: "429".to_owned() };
        let mut events = vec![started(40), episode(Err(fault))];
        events.extend((0..10).map(|_| episode(Ok(1.0))));
        // 10 episodes in 20 s; the 50 that are left take 100 s.
        assert_eq!(
            line(&events, 20),
            "50/100 episodes, 0.5/s, 1m40s left | 3 steps, 0 refused, 1 faults | best data -, shell - (simulated)"
        );
    }

    #[test]
    fn episodes_an_earlier_process_played_for_an_open_step_are_counted_with_the_step() {
        let line = line(&[started(40), episode(Ok(0.0)), committed(3, 48, Vec::new())], 1);
        assert!(line.starts_with("48/100 episodes, 1.0/s, 52s left | 4 steps"), "{line}");
    }

    #[test]
    fn the_best_is_the_highest_mean_and_the_surest_elite() {
        let events =
            [started(0), committed(3, 4, vec![taken(0.75)]), committed(4, 8, vec![taken(0.5)]), crowned(0.8, 0.6), crowned(0.9, 0.5)];
        let line = line(&events, 1);
        assert!(line.ends_with("best data -, shell 0.75 (elite 80 %) (simulated)"), "{line}");
    }

    #[test]
    fn times_are_short() {
        let seconds = [0, 59, 60, 3599, 3600, 90_060];
        assert_eq!(seconds.map(|s| duration(Duration::from_secs(s))), ["0s", "59s", "1m00s", "59m59s", "1h00m", "25h01m"]);
    }
}
