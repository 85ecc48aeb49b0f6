//! The table at the end of a run.

use std::path::Path;

use super::figures::{dollars, percent, range, table, usd};
use crate::evaluation::Interval;
use crate::evolution::{Comparison, ComparisonRole, ComparisonRow, FinaleError, Search};
use crate::task::{JobType, Split};

/// The text `run` ends with: a table per job type, what the figures are, and what to do next.
pub(super) fn render(search: &Search, comparison: &Comparison, simulated: bool, folder: &Path) -> String {
    let mut text = String::new();
    if simulated {
        text.push_str("SIMULATED: the teacher is the built-in rehearsal; its scores say nothing about a real model.\n\n");
    }
    text.push_str(&tables(&comparison.rows));
    text.push_str(&summary(search, comparison));
    text.push_str(&next(search, folder));
    text
}

/// A table per job type and split, in the order in which they first come.
pub(super) fn tables(rows: &[ComparisonRow]) -> String {
    let mut parts: Vec<(&JobType, Split)> = Vec::new();
    for row in rows {
        if !parts.contains(&(&row.job_type, row.split)) {
            parts.push((&row.job_type, row.split));
        }
    }
    let part = |(job_type, split): (&JobType, Split)| {
        let rows: Vec<&ComparisonRow> = rows.iter().filter(|row| row.job_type == *job_type && row.split == split).collect();
        format!("{job_type} ({} split)\n{}\n", split.as_str(), part_table(&rows))
    };
    parts.into_iter().map(part).collect()
}

fn part_table(rows: &[&ComparisonRow]) -> String {
    let cells = rows.iter().map(|row| {
        vec![
            role(row),
            row.harness.short(),
            percent(row.rate.mean),
            range(row.rate.low, row.rate.high),
            row.gain.as_ref().map_or_else(String::new, gain),
            row.episodes.to_string(),
            format!("{:.1}", row.mean_steps),
            format!("{:.0}", row.mean_tokens),
            usd(row.mean_micro_usd),
        ]
    });
    table(&["", "harness", "solved", "interval", "gain over seed", "n", "steps", "tokens", "usd"], 2, cells)
}

fn role(row: &ComparisonRow) -> String {
    match row.role {
        ComparisonRole::Seed => format!("seed `{}`", row.label),
        ComparisonRole::Elite => "elite".to_owned(),
        ComparisonRole::OtherElite => format!("elite of {}", row.label),
        ComparisonRole::Baseline => format!("seed, best of {} runs", row.best_of),
    }
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
        dollars(spent.micro_usd),
    );
    text.push_str(&format!("Intervals cover with {:.0} %.\n", search.settings().confidence * 100.0));
    if let Some(FinaleError::Budget(error)) = &comparison.cut_short {
        text.push_str(&format!("The comparison is not complete: {error}.\n"));
    }
    if comparison.rows.iter().any(|row| row.role == ComparisonRole::Baseline) {
        text.push_str(
            "The baseline re-runs the seed for as many episodes as the search spent on the job type and shows its luckiest run: what picking gives without any change.\n",
        );
    }
    text
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
