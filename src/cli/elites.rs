//! `elites`.

use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};

use super::failure::Failure;
use super::figures::{percent, range, table, usd};
use super::output::Output;
use super::run_folder;
use crate::store::EliteRow;

const KEYS: &str = "JSON keys: simulated, elites [{job_type, niche, harness_id, validate_rate, validate_low, validate_high, episodes, \
mean_steps, mean_tokens, mean_usd, search_mean, step}], by job type, the best first. The same columns are in the view `elites` of run.db.";

/// List the elites: the harnesses that hold a niche and were confirmed on the validate split.
#[derive(Debug, Args)]
#[command(after_help = KEYS)]
pub(super) struct ElitesArgs {
    /// The folder of the run.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Write JSON.
    #[arg(long)]
    json: bool,
}

/// Lists the elites.
pub(super) fn elites(args: &ElitesArgs, output: &Output) -> Result<(), Failure> {
    let run = run_folder::open(&args.folder, output)?;
    let elites = run.reader.elites().map_err(run.failed())?;
    if args.json {
        return output.json(&json!({"simulated": run.meta.simulated, "elites": elites.iter().map(as_json).collect::<Vec<_>>()}));
    }
    if elites.is_empty() {
        output.note("no niche is confirmed yet");
        return Ok(());
    }
    output.data(&format!("{}{}", run.banner(), as_table(&elites)))
}

fn as_json(row: &EliteRow) -> Value {
    json!({
        "job_type": row.job_type, "niche": row.niche, "harness_id": row.harness,
        "validate_rate": row.validate_rate, "validate_low": row.validate_low, "validate_high": row.validate_high,
        "episodes": row.episodes, "mean_steps": row.mean_steps, "mean_tokens": row.mean_tokens,
        "mean_usd": row.mean_micro_usd / 1e6, "search_mean": row.search_mean, "step": row.step,
    })
}

fn as_table(elites: &[EliteRow]) -> String {
    let header = ["niche", "harness", "solved (validate)", "95 % interval", "n", "score (search)", "steps", "tokens", "usd", "step"];
    let rows = elites.iter().map(|row| {
        vec![
            row.niche.clone(),
            row.harness.short(),
            percent(row.validate_rate),
            range(row.validate_low, row.validate_high),
            row.episodes.to_string(),
            format!("{:.3}", row.search_mean),
            format!("{:.1}", row.mean_steps),
            format!("{:.0}", row.mean_tokens),
            usd(row.mean_micro_usd),
            row.step.to_string(),
        ]
    });
    table(&header, 2, rows)
}
