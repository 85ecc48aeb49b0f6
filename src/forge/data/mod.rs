//! Workflows of the job type `data`: tables, JSON and logs in, one exactly stated file out.

mod dedup_records;
mod group_totals;
mod join_files;
mod merge_settings;
mod normalise_records;
mod pivot_table;
mod reconcile_ledgers;
mod series_gaps;
#[cfg(test)]
mod tests;
mod top_ranking;

use super::Workflow;

/// The workflows.
pub(super) const WORKFLOWS: &[Workflow] = &[
    Workflow {
        skill: "group-totals",
        job_type: "data",
        summary: "sum a column per group, without the rows a note excludes, with a grand total",
        generate: group_totals::generate,
    },
    Workflow {
        skill: "join-files",
        job_type: "data",
        summary: "join JSON lines with CSV over keys written in two ways, and list what has no match",
        generate: join_files::generate,
    },
    Workflow {
        skill: "top-ranking",
        job_type: "data",
        summary: "correct, filter and rank JSON lines, keep the best, describe the result",
        generate: top_ranking::generate,
    },
    Workflow {
        skill: "pivot-table",
        job_type: "data",
        summary: "turn long rows into a table by month in business-year order, with sums on both sides",
        generate: pivot_table::generate,
    },
    Workflow {
        skill: "dedup-records",
        job_type: "data",
        summary: "keep one record per key by date and trust, and list what was removed",
        generate: dedup_records::generate,
    },
    Workflow {
        skill: "normalise-records",
        job_type: "data",
        summary: "bring dates, decimals and currencies into one form, and refuse impossible dates",
        generate: normalise_records::generate,
    },
    Workflow {
        skill: "merge-settings",
        job_type: "data",
        summary: "merge layers of JSON settings in a documented order, printed in a stated form",
        generate: merge_settings::generate,
    },
    Workflow {
        skill: "series-gaps",
        job_type: "data",
        summary: "find the unplanned gaps of a time series in a log, and its availability",
        generate: series_gaps::generate,
    },
    Workflow {
        skill: "reconcile-ledgers",
        job_type: "data",
        summary: "compare two ledgers within a documented tolerance, with control sums",
        generate: reconcile_ledgers::generate,
    },
];
