//! Workflows of the job type `shell`: chores at a terminal.
//!
//! Each task has a fact that stands in a document or a log, most of them too long to be seen whole through a narrow observation, and
//! constraints that are easy to forget.

mod compare_folders;
mod edit_config;
mod extract_incident;
mod fix_permissions;
mod merge_env;
mod move_large;
mod number_pictures;
mod parts;
mod repair_links;
mod rotate_logs;
mod sort_duplicates;

use super::Workflow;

/// The workflows.
pub(super) const WORKFLOWS: &[Workflow] = &[
    shell("compare-folders", "compare two trees, report and collect what changed", compare_folders::generate),
    shell("edit-config", "change keys of a long configuration file in the right sections only", edit_config::generate),
    shell("extract-incident", "count the errors of one incident in a long log", extract_incident::generate),
    shell("fix-permissions", "bring the modes of a deployed tree in order", fix_permissions::generate),
    shell("merge-env", "merge environment files by precedence", merge_env::generate),
    shell("move-large-files", "move files over a size limit, keeping their folders", move_large::generate),
    shell("number-pictures", "copy files under numbered names in numeric order", number_pictures::generate),
    shell("repair-links", "point symbolic links at the newest release that may run", repair_links::generate),
    shell("rotate-logs", "archive old logs but for those that have to stay", rotate_logs::generate),
    shell("sort-duplicates", "put duplicate files aside by the rank of their folders", sort_duplicates::generate),
];

const fn shell(
    skill: &'static str,
    summary: &'static str,
    generate: fn(&crate::base::SeedTree) -> Result<crate::task::TaskBody, super::ForgeError>,
) -> Workflow {
    Workflow { skill, job_type: "shell", summary, generate }
}
