//! The table at the end of a run.

use std::path::Path;

use comfy_table::presets::UTF8_HORIZONTAL_ONLY;
use comfy_table::{CellAlignment, ContentArrangement, Table};

use crate::evaluation::Interval;
use crate::evolution::{Comparison, ComparisonRow, FinaleError, Role, Search};

/// The text `run` ends with: a table per job type, what the figures are, and what to do next.
pub(super) fn render(search: &Search, comparison: &Comparison, simulated: bool, folder: &Path) -> String {
    let mut text = String::new();
    if simulated {
        text.push_str("SIMULATED: the teacher is the built-in rehearsal; its scores say nothing about a real model.\n\n");
    }
    for job_type in &search.space().job_types {
        let rows: Vec<&ComparisonRow> = comparison.rows.iter().filter(|row| row.job_type == *job_type).collect();
        if !rows.is_empty() {
            text.push_str(&format!("{job_type} (validate split)\n{}\n\n", table(&rows)));
        }
    }
    text.push_str(&summary(search, comparison));
    text.push_str(&next(search, folder));
    text
}

fn table(rows: &[&ComparisonRow]) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_HORIZONTAL_ONLY).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(["", "harness", "solved", "95 % interval", "gain over seed", "n", "steps", "tokens", "usd"]);
    for row in rows {
        table.add_row([
            role(row),
            row.harness.short(),
            percent(row.rate.mean),
            range(&row.rate),
            row.gain.as_ref().map_or_else(String::new, gain),
            row.episodes.to_string(),
            format!("{:.1}", row.mean_steps),
            format!("{:.0}", row.mean_tokens),
            if row.mean_micro_usd > 0.0 { format!("{:.4}", row.mean_micro_usd / 1e6) } else { "0".to_owned() },
        ]);
    }
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn role(row: &ComparisonRow) -> String {
    match row.role {
        Role::Seed => format!("seed `{}`", row.label),
        Role::Elite => "elite".to_owned(),
        Role::OtherElite => format!("elite of {}", row.label),
        Role::Baseline => format!("seed, best of {} runs", row.best_of),
    }
}

fn percent(rate: f64) -> String {
    format!("{:.1} %", rate * 100.0)
}

fn range(interval: &Interval) -> String {
    format!("{:.1} to {:.1}", interval.low * 100.0, interval.high * 100.0)
}

fn gain(interval: &Interval) -> String {
    format!("{:+.1} ({:+.1} to {:+.1})", interval.mean * 100.0, interval.low * 100.0, interval.high * 100.0)
}

fn summary(search: &Search, comparison: &Comparison) -> String {
    let statistics = search.archive().statistics();
    let spent = search.ledger().spent().plus(comparison.spent);
    let mut text = format!(
        "{} steps, {} harnesses, {} of {} niches filled, {} confirmed; {} episodes, {} tokens, {:.2} usd.\n",
        search.committed(),
        search.population().len(),
        statistics.filled,
        statistics.niches,
        statistics.confirmed,
        spent.episodes,
        spent.tokens,
        usd(spent.micro_usd),
    );
    if let Some(FinaleError::Budget(error)) = &comparison.cut_short {
        text.push_str(&format!("The comparison is not complete: {error}.\n"));
    }
    if comparison.rows.iter().any(|row| row.role == Role::Baseline) {
        text.push_str(
            "The baseline re-runs the seed for as many episodes as the search spent on the job type and shows its luckiest run: what picking gives without any change.\n",
        );
    }
    text
}

#[expect(clippy::cast_precision_loss, reason = "money below 2^53 micro-dollars")]
fn usd(micro_usd: u64) -> f64 {
    micro_usd as f64 / 1e6
}

fn next(search: &Search, folder: &Path) -> String {
    let folder = folder.display();
    let elite = search.space().job_types.iter().find_map(|job_type| search.archive().elite_of(job_type));
    let mut text = "\nNext:\n".to_owned();
    text.push_str(&format!("  harness-evo elites {folder}\n"));
    if let Some((_, elite)) = elite {
        text.push_str(&format!("  harness-evo lineage path {folder} {}\n", elite.harness.short()));
    }
    text.push_str(&format!("  harness-evo export {folder} --format openai-jsonl --out elites.jsonl\n"));
    text.push_str(&format!("  sqlite3 {folder}/run.db 'select * from elites'\n"));
    text
}
