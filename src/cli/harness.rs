//! `harness check|render|diff|schema`.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde_json::json;

use super::failure::{Failure, FailureKind};
use super::output::Output;
use super::run_folder;
use crate::environment::tool_schemas;
use crate::episode::system_prompt;
use crate::harness::{CallForm, Harness, PromptContext, builtin, describe, diff, differences, json_schema, load};

/// Where the workspace lies in the default sandbox.
const WORKSPACE: &str = "/home/agent";

/// Check, render and compare harnesses. A harness is named by a template file, the name of a built-in template, or `DIR:ID` for one of a run.
#[derive(Debug, Args)]
pub(super) struct HarnessArgs {
    #[command(subcommand)]
    command: HarnessCommand,
}

#[derive(Debug, Subcommand)]
enum HarnessCommand {
    /// Check template files; exit code 2 when one is wrong.
    Check(CheckArgs),
    /// Show the system prompt and the tool schemas as a model would see them.
    Render(RenderArgs),
    /// Show in which genes two harnesses differ.
    Diff(DiffArgs),
    /// Write the JSON schema of template files, for editors.
    Schema,
}

#[derive(Debug, Args)]
struct CheckArgs {
    /// Template files.
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
}

#[derive(Debug, Args)]
#[command(
    after_help = "JSON keys: id, system, tools [{name, description, parameters}]; for calls written as text the schemas stand in `system` only."
)]
struct RenderArgs {
    /// A template file, a built-in template, or DIR:ID.
    #[arg(value_name = "HARNESS")]
    harness: String,
    /// The kind of work the prompt is rendered for.
    #[arg(long, value_name = "NAME", default_value = "shell")]
    job_type: String,
    /// Write JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "JSON keys: before, after, differences [{kind, gene, ...}], as `lineage diff --json`.")]
struct DiffArgs {
    /// A template file, a built-in template, or DIR:ID.
    #[arg(value_name = "A")]
    a: String,
    /// What it is compared with.
    #[arg(value_name = "B")]
    b: String,
    /// Write JSON.
    #[arg(long)]
    json: bool,
}

/// Checks, renders or compares harnesses.
pub(super) fn harness(args: &HarnessArgs, output: &Output) -> Result<(), Failure> {
    match &args.command {
        HarnessCommand::Check(args) => check(args, output),
        HarnessCommand::Render(args) => render(args, output),
        HarnessCommand::Diff(args) => difference(args, output),
        HarnessCommand::Schema => output.json(&json_schema()),
    }
}

fn check(args: &CheckArgs, output: &Output) -> Result<(), Failure> {
    let mut wrong = Vec::new();
    for file in &args.files {
        match load(file) {
            Ok(template) => output.data(&format!("{}: {} {}", file.display(), template.name, template.harness.id()))?,
            Err(error) => wrong.push(error),
        }
    }
    match wrong.as_slice() {
        [] => Ok(()),
        [only] => Err(Failure::from_error(FailureKind::Input, only)),
        several => {
            let mut failure = Failure::new(FailureKind::Input, format!("{} of {} templates are wrong", several.len(), args.files.len()));
            failure.causes = several.iter().map(ToString::to_string).collect();
            Err(failure)
        }
    }
}

/// The harness that `text` names.
pub(super) fn named(text: &str, output: &Output) -> Result<Harness, Failure> {
    let input = |error: &dyn std::error::Error| Failure::from_error(FailureKind::Input, error);
    let path = Path::new(text);
    if path.is_file() || path.extension().is_some_and(|extension| extension == "toml") {
        return Ok(load(path).map_err(|error| input(&error))?.harness);
    }
    let known = builtin().map_err(|error| input(&error))?;
    if let Some(template) = known.iter().find(|template| template.name == text) {
        return Ok(template.harness.clone());
    }
    if let Some((folder, prefix)) = text.rsplit_once(':') {
        let run = run_folder::open(Path::new(folder), output)?;
        let stored = run.reader.harness(prefix).map_err(run.failed())?;
        return Harness::new(stored.genome).map_err(|error| Failure::from_error(FailureKind::Run, &error));
    }
    let names: Vec<&str> = known.iter().map(|template| template.name.as_str()).collect();
    let message = format!("`{text}` is neither a template file, nor a built-in template, nor DIR:ID");
    Err(Failure::new(FailureKind::Input, message).hint(format!("built-in templates are {}", names.join(", "))))
}

fn render(args: &RenderArgs, output: &Output) -> Result<(), Failure> {
    let harness = named(&args.harness, output)?;
    let tools = tool_schemas(harness.genome());
    let context = PromptContext::of(harness.genome(), WORKSPACE, &args.job_type);
    let system = system_prompt(&harness, &context, &tools).map_err(|error| Failure::from_error(FailureKind::Input, &error))?;
    let native = harness.genome().protocol.calls == CallForm::Native;
    let tools = if native { tools } else { Vec::new() };
    if args.json {
        return output.json(&json!({"id": harness.id(), "system": system, "tools": tools}));
    }
    let mut text = format!("{system}\n");
    for tool in &tools {
        text.push_str(&format!("\n-- tool {}\n{}\n{:#}\n", tool.name, tool.description, tool.parameters));
    }
    output.data(&text)
}

fn difference(args: &DiffArgs, output: &Output) -> Result<(), Failure> {
    let (a, b) = (named(&args.a, output)?, named(&args.b, output)?);
    let changes = diff(a.genome(), b.genome()).map_err(|error| Failure::from_error(FailureKind::Input, &error))?;
    if args.json {
        return output.json(&json!({"before": a.id(), "after": b.id(), "differences": differences(&changes)}));
    }
    output.data(&if changes.is_empty() { "no gene differs".to_owned() } else { describe(&changes) })
}
