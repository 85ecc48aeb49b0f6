//! Workflows of the job type `code`: small Python projects, checked by tests the agent never sees.

mod add_flag;
mod add_function;
mod extract_function;
mod fix_config_loader;
mod fix_function;
mod handle_edge_case;
mod hidden;
mod rename_api;
mod repair_imports;
mod routines;
#[cfg(test)]
mod tests;
mod write_parser;

use super::Workflow;

/// The workflows.
pub(super) const WORKFLOWS: &[Workflow] = &[
    Workflow {
        skill: "fix-function",
        job_type: "code",
        summary: "find the one wrong function of a package from a long test log, fix it, note it",
        generate: fix_function::generate,
    },
    Workflow {
        skill: "add-function",
        job_type: "code",
        summary: "add a function with a stated signature and a documented error code, and export it",
        generate: add_function::generate,
    },
    Workflow {
        skill: "handle-edge-case",
        job_type: "code",
        summary: "make a function answer a named edge case as the conventions say",
        generate: handle_edge_case::generate,
    },
    Workflow {
        skill: "rename-api",
        job_type: "code",
        summary: "rename a function in code and configuration, with an alias that warns",
        generate: rename_api::generate,
    },
    Workflow {
        skill: "add-flag",
        job_type: "code",
        summary: "add an option with a documented default to a command-line program",
        generate: add_flag::generate,
    },
    Workflow {
        skill: "repair-imports",
        job_type: "code",
        summary: "break an import cycle by moving what both modules need",
        generate: repair_imports::generate,
    },
    Workflow {
        skill: "extract-function",
        job_type: "code",
        summary: "extract a repeated calculation into a function without changing behaviour",
        generate: extract_function::generate,
    },
    Workflow {
        skill: "write-parser",
        job_type: "code",
        summary: "write a parser for a described format, with errors that name the line",
        generate: write_parser::generate,
    },
    Workflow {
        skill: "fix-config-loader",
        job_type: "code",
        summary: "repair precedence, types and validation of a settings loader",
        generate: fix_config_loader::generate,
    },
];
