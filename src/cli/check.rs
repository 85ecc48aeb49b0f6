//! `check`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};

use super::failure::{Failure, FailureKind};
use super::figures::{amount, amount_json, dollars, table};
use super::output::Output;
use super::{models, session};
use crate::base::Amount;
use crate::config::{self, Experiment, TaskCheck, Teacher};
use crate::evaluation::{Attempts, worst_episode};
use crate::evolution::{Baseline, comparison_episodes};
use crate::task::{JobType, Split};

/// Check an experiment and show its plan: tasks, seeds, how the budget is split, what an episode costs at worst. Spends nothing and asks nobody.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit code 2 when something is wrong. JSON keys: name, seed, teacher, rewriter, simulated, job_types [{job_type, skills, \
search, validate, sealed}], seeds [{template, harness, worst {tokens, usd}}], budget {search, comparison_and_baseline and total {episodes, \
tokens, usd; null is no limit}, comparison {episodes}, baseline {episodes}}, episodes_at_worst (how many the search's share of tokens and money covers if every one costs the most; null is no limit), \
sandbox {backend, processes, memory_mib, disk_mib, output_bytes, seconds}, task_check."
)]
pub(super) struct CheckArgs {
    /// The experiment file (TOML).
    #[arg(value_name = "EXPERIMENT")]
    experiment: PathBuf,
    /// Override the seed of the experiment.
    #[arg(long)]
    seed: Option<u64>,
    /// Write JSON.
    #[arg(long)]
    json: bool,
}

/// Tasks of one kind of work.
#[derive(Debug, Clone, Default)]
struct Work {
    skills: std::collections::BTreeSet<String>,
    search: usize,
    validate: usize,
    sealed: usize,
}

/// A seed and what an episode of it costs at worst.
struct SeedPlan {
    template: String,
    harness: String,
    worst: Amount,
}

/// What a run of the experiment would do.
struct Plan {
    experiment: Experiment,
    work: BTreeMap<JobType, Work>,
    seeds: Vec<SeedPlan>,
    /// Episodes of the comparison and of the baseline.
    report: [u64; 2],
    /// How many episodes the search's tokens and money cover at worst.
    at_worst: u64,
}

/// Checks an experiment.
pub(super) fn check(args: &CheckArgs, output: &Output) -> Result<(), Failure> {
    let experiment = config::load(&args.experiment, args.seed).map_err(|error| Failure::from_error(FailureKind::Input, &error))?;
    let plan = Plan::new(experiment)?;
    if plan.at_worst == 0 {
        output.note("warning: the search's share of tokens and money does not cover one episode at its worst, so that none will be played: raise `budget`, or lower `limits.tokens` of the harnesses");
    }
    if args.json { output.json(&plan.json()) } else { output.data(&plan.text()) }
}

impl Plan {
    fn new(experiment: Experiment) -> Result<Self, Failure> {
        let mut price = models::worst_price(&experiment.teacher)?;
        if let Some(rewriter) = &experiment.rewriter {
            price = price.max(models::worst_price(rewriter)?);
        }
        // What a search refuses is found here, before anything is made.
        session::search(&experiment, price)?;
        let mut work: BTreeMap<JobType, Work> = BTreeMap::new();
        for task in &experiment.tasks {
            let work = work.entry(task.job_type().clone()).or_default();
            work.skills.insert(task.body().skill.to_string());
            match task.split() {
                Split::Search => work.search += 1,
                Split::Validate => work.validate += 1,
                Split::Sealed => work.sealed += 1,
            }
        }
        let mut seeds = Vec::new();
        for seed in &experiment.seeds {
            let harness = seed.harness().map_err(|error| Failure::from_error(FailureKind::Input, &error))?;
            let worst = worst_episode(&harness, price, Attempts(experiment.attempts));
            seeds.push(SeedPlan { template: seed.template.clone(), harness: harness.id().to_string(), worst });
        }
        let job_types = u64::try_from(experiment.job_types.len()).unwrap_or(u64::MAX);
        let comparison = comparison_episodes(job_types, experiment.report_episodes);
        let baseline = match experiment.baseline {
            Baseline::Matched => experiment.report_limit.episodes.saturating_sub(comparison),
            Baseline::Off => 0,
        };
        let at_worst = covered(experiment.search.limit, seeds.iter().map(|seed| seed.worst));
        Ok(Self { experiment, work, seeds, report: [comparison, baseline], at_worst })
    }

    fn json(&self) -> Value {
        let experiment = &self.experiment;
        let work = |(job_type, work): (&JobType, &Work)| json!({"job_type": job_type, "skills": work.skills, "search": work.search, "validate": work.validate, "sealed": work.sealed});
        let seed = |seed: &SeedPlan| {
            let worst = json!({"tokens": seed.worst.tokens, "usd": dollars(seed.worst.micro_usd)});
            json!({"template": seed.template, "harness": seed.harness, "worst": worst})
        };
        let [comparison, baseline] = self.report;
        json!({
            "name": experiment.name,
            "seed": experiment.search.seed,
            "teacher": teacher(&experiment.teacher),
            "rewriter": experiment.rewriter.as_ref().map(teacher),
            "simulated": simulated(&experiment.teacher),
            "job_types": self.work.iter().map(work).collect::<Vec<_>>(),
            "seeds": self.seeds.iter().map(seed).collect::<Vec<_>>(),
            "budget": {
                "search": amount_json(experiment.search.limit),
                "comparison": {"episodes": comparison},
                "baseline": {"episodes": baseline},
                "comparison_and_baseline": amount_json(experiment.report_limit),
                "total": amount_json(experiment.limit()),
            },
            "episodes_at_worst": (self.at_worst != u64::MAX).then_some(self.at_worst),
            "sandbox": {
                "backend": experiment.sandbox.backend,
                "processes": experiment.sandbox.policy.processes,
                "memory_mib": experiment.sandbox.policy.memory_mib,
                "disk_mib": experiment.sandbox.policy.disk_mib,
                "output_bytes": experiment.sandbox.policy.output_bytes,
                "seconds": experiment.sandbox.policy.seconds,
            },
            "task_check": experiment.task_check,
        })
    }

    fn text(&self) -> String {
        let experiment = &self.experiment;
        let mut text = format!("{}, seed {}\n", experiment.name, experiment.search.seed);
        text.push_str(&format!("teacher  {}\n", teacher(&experiment.teacher)));
        let rewriter = experiment.rewriter.as_ref().map_or_else(|| "the teacher".to_owned(), teacher);
        text.push_str(&format!("rewriter {rewriter}\n\n"));
        let work = self.work.iter().map(|(job_type, work)| {
            let counts = [work.skills.len(), work.search, work.validate, work.sealed];
            std::iter::once(job_type.to_string()).chain(counts.iter().map(ToString::to_string)).collect()
        });
        text.push_str(&table(&["job type", "skills", "search tasks", "validate", "sealed"], 1, work));
        let seeds = self.seeds.iter().map(|seed| {
            let money = if seed.worst.micro_usd == 0 { "0".to_owned() } else { format!("{:.4}", dollars(seed.worst.micro_usd)) };
            vec![seed.template.clone(), seed.harness.get(..8).unwrap_or_default().to_owned(), seed.worst.tokens.to_string(), money]
        });
        text.push('\n');
        text.push_str(&table(&["seed harness", "id", "tokens of an episode at worst", "usd"], 2, seeds));
        text.push_str(&self.budget_text());
        text
    }

    fn budget_text(&self) -> String {
        let experiment = &self.experiment;
        let [comparison, baseline] = self.report;
        let mut text = format!("\nbudget   {}\n", amount(experiment.limit()));
        text.push_str(&format!("         search {}, confirmations on the validate split included\n", amount(experiment.search.limit)));
        text.push_str(&format!("         comparison {comparison} episodes, baseline {baseline} episodes\n"));
        if self.at_worst != u64::MAX {
            text.push_str(&format!(
                "         the search's tokens and money cover {} episodes if every one costs the most\n",
                self.at_worst
            ));
        }
        let backend =
            experiment.sandbox.backend.map_or_else(|| "the strongest that works".to_owned(), |kind| format!("{kind:?}").to_lowercase());
        text.push_str(&format!("sandbox  {backend}\n"));
        let proven = match experiment.task_check {
            TaskCheck::Off => "none",
            TaskCheck::Own => "those of the experiment's own folders",
            TaskCheck::All => "all",
        };
        text.push_str(&format!("tasks proven before the run: {proven}\n"));
        text
    }
}

/// How many episodes tokens and money of `limit` cover, whichever seed is played.
fn covered(limit: Amount, worst: impl Iterator<Item = Amount>) -> u64 {
    let share = |limit: u64, each: u64| if limit == u64::MAX { u64::MAX } else { limit.checked_div(each).unwrap_or(u64::MAX) };
    worst.map(|worst| share(limit.tokens, worst.tokens).min(share(limit.micro_usd, worst.micro_usd))).min().unwrap_or(0)
}

fn teacher(teacher: &Teacher) -> String {
    match teacher {
        Teacher::Rehearsal { parameters } => {
            let parameters = if parameters.is_some() { "its own parameters" } else { "built-in parameters" };
            format!("rehearsal, {parameters} (a simulation: its scores say nothing about a real model)")
        }
        Teacher::Endpoint { endpoint, recording } => {
            let recorded = recording.as_ref().map_or_else(String::new, |path| format!(", recorded to {path}"));
            format!("{} at {}{recorded}", endpoint.model, endpoint.base_url)
        }
        Teacher::Local { model } => format!("the weights in {model}"),
        Teacher::Replay { recording } => format!("replies recorded in {recording}"),
    }
}

const fn simulated(teacher: &Teacher) -> bool {
    matches!(teacher, Teacher::Rehearsal { .. })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scarcest_resource_and_the_dearest_seed_decide_what_is_covered() {
        let amount = |tokens, micro_usd| Amount { episodes: 1, tokens, micro_usd };
        let limit = Amount { episodes: 100, tokens: 1000, micro_usd: 500 };
        assert_eq!(covered(limit, [amount(100, 10), amount(50, 200)].into_iter()), 2);
        assert_eq!(covered(limit, [amount(100, 0)].into_iter()), 10);
        let free = Amount { episodes: 100, tokens: u64::MAX, micro_usd: u64::MAX };
        assert_eq!(covered(free, [amount(100, 10)].into_iter()), u64::MAX);
    }
}
