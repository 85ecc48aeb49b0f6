//! `status`.

use std::path::PathBuf;

use clap::Args;
use serde_json::{Map, Value, json};

use super::comparison_table;
use super::failure::Failure;
use super::figures::{amount, amount_json, time};
use super::output::Output;
use super::run_folder::{self, OpenedRun};
use crate::evolution::ComparisonRow;
use crate::store::Status;

const KEYS: &str = "JSON keys: folder, name, seed, model {name, fingerprint}, simulated, created_at, running, process, steps, refused, \
harnesses, niches, elites, scored, faults {boundary: count}, spent and limit {episodes, tokens, usd; null is no limit}, last_step_at, \
report [{job_type, split, role (seed, baseline, elite, other_elite), label, harness, rate, low, high, episodes, best_of, \
gain {mean, low, high; paired difference to the seed} or null, mean_steps, mean_tokens, mean_usd}] (empty before the run's end).";

/// Show where a run stands: spent, elites, faults, the final table once there is one. Works while the run goes on.
#[derive(Debug, Args)]
#[command(after_help = KEYS)]
pub(super) struct StatusArgs {
    /// The folder of the run.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Write JSON.
    #[arg(long)]
    json: bool,
}

/// Shows where a run stands.
pub(super) fn status(args: &StatusArgs, output: &Output) -> Result<(), Failure> {
    let run = run_folder::open(&args.folder, output)?;
    let status = run.reader.status().map_err(run.failed())?;
    let report = run.reader.report().map_err(run.failed())?;
    if args.json { output.json(&as_json(&run, &status, &report)) } else { output.data(&as_text(&run, &status, &report)) }
}

fn as_json(run: &OpenedRun<'_>, status: &Status, report: &[ComparisonRow]) -> Value {
    let experiment = run.experiment();
    let writer = run_folder::writer(run.folder);
    let faults: Map<String, Value> =
        status.faults.iter().map(|(boundary, count)| (format!("{boundary:?}").to_lowercase(), json!(count))).collect();
    json!({
        "folder": run.folder.display().to_string(),
        "name": experiment.as_ref().map(|experiment| &experiment.name),
        "seed": run.meta.seed,
        "model": {"name": run.meta.model.name, "fingerprint": run.meta.model.fingerprint},
        "simulated": run.meta.simulated,
        "created_at": time(run.meta.created_at),
        "running": writer.is_some(),
        "process": writer.and_then(|number| number.parse::<u32>().ok()),
        "steps": status.steps,
        "refused": status.refused,
        "harnesses": status.harnesses,
        "niches": status.niches,
        "elites": status.elites,
        "scored": status.scored,
        "faults": faults,
        "spent": amount_json(status.spent),
        "limit": experiment.map(|experiment| amount_json(experiment.limit())),
        "last_step_at": status.last_step_at.map(time),
        "report": report.iter().map(report_json).collect::<Vec<_>>(),
    })
}

fn report_json(row: &ComparisonRow) -> Value {
    json!({
        "job_type": row.job_type, "split": row.split, "role": row.role, "label": row.label, "harness": row.harness,
        "rate": row.rate.mean, "low": row.rate.low, "high": row.rate.high, "episodes": row.episodes, "best_of": row.best_of,
        "gain": row.gain,
        "mean_steps": row.mean_steps, "mean_tokens": row.mean_tokens, "mean_usd": row.mean_micro_usd / 1e6,
    })
}

fn as_text(run: &OpenedRun<'_>, status: &Status, report: &[ComparisonRow]) -> String {
    let experiment = run.experiment();
    let mut text = run.banner().to_owned();
    let mut line = |name: &str, value: String| text.push_str(&format!("{name:<10} {value}\n"));
    if let Some(experiment) = &experiment {
        line("name", experiment.name.clone());
    }
    line("model", format!("{}, seed {}", run.meta.model.name, run.meta.seed));
    line("created", time(run.meta.created_at));
    let state = match run_folder::writer(run.folder) {
        Some(process) => format!("running (process {process})"),
        None if report.is_empty() => format!("not finished; `harness-evo resume {}` goes on", run.folder.display()),
        None => "finished".to_owned(),
    };
    line("state", state);
    let last = status.last_step_at.map_or_else(String::new, |at| format!("; last step {}", time(at)));
    line("steps", format!("{}, of which {} proposals came to nothing{last}", status.steps, status.refused));
    line("harnesses", status.harnesses.to_string());
    line("niches", format!("{} filled, {} confirmed", status.niches, status.elites));
    line("episodes", format!("{} scored, with those of steps in flight", status.scored));
    let faults: Vec<String> = status.faults.iter().map(|(boundary, count)| format!("{boundary:?} {count}").to_lowercase()).collect();
    line("faults", if faults.is_empty() { "none".to_owned() } else { faults.join(", ") });
    line("spent", format!("{} (committed steps)", amount(status.spent)));
    if let Some(experiment) = experiment {
        line("budget", format!("{} (search and comparison)", amount(experiment.limit())));
    }
    if !report.is_empty() {
        text.push('\n');
        text.push_str(comparison_table::tables(report).trim_end());
        text.push('\n');
    }
    text
}
