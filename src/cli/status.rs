//! `status`.

use std::path::PathBuf;

use clap::Args;
use serde_json::{Map, Value, json};

use super::failure::Failure;
use super::figures::{amount, amount_json, percent, range, table, time, usd};
use super::output::Output;
use super::run_folder::{self, OpenedRun};
use crate::store::{ReportRow, Status};

const KEYS: &str = "JSON keys: folder, name, seed, model {name, fingerprint}, simulated, created_at, running, process, steps, refused, \
harnesses, niches, elites, scored, faults {boundary: count}, spent and limit {episodes, tokens, usd; null is no limit}, last_step_at, \
report [{job_type, split, role, harness, rate, low, high, episodes, mean_steps, mean_tokens, mean_usd}] (empty before the run's end).";

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

fn as_json(run: &OpenedRun<'_>, status: &Status, report: &[ReportRow]) -> Value {
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

fn report_json(row: &ReportRow) -> Value {
    json!({
        "job_type": row.job_type, "split": row.split, "role": row.role, "harness": row.harness,
        "rate": row.rate, "low": row.low, "high": row.high, "episodes": row.episodes,
        "mean_steps": row.mean_steps, "mean_tokens": row.mean_tokens, "mean_usd": row.mean_micro_usd / 1e6,
    })
}

fn as_text(run: &OpenedRun<'_>, status: &Status, report: &[ReportRow]) -> String {
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
        text.push_str(&report_table(report));
    }
    text
}

fn report_table(report: &[ReportRow]) -> String {
    let header = ["job type", "split", "", "harness", "solved", "95 % interval", "n", "steps", "tokens", "usd"];
    let rows = report.iter().map(|row| {
        vec![
            row.job_type.to_string(),
            row.split.as_str().to_owned(),
            row.role.as_str().to_owned(),
            row.harness.short(),
            percent(row.rate),
            range(row.low, row.high),
            row.episodes.to_string(),
            format!("{:.1}", row.mean_steps),
            format!("{:.0}", row.mean_tokens),
            usd(row.mean_micro_usd),
        ]
    });
    table(&header, 4, rows)
}
