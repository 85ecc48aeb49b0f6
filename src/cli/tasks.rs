//! `tasks list|check|show`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::failure::{Failure, FailureKind};
use super::figures::table;
use super::output::Output;
use super::{run_folder, tasks_check};
use crate::config::{self, SandboxChoice};
use crate::forge::{TaskReport, workflows};
use crate::sandbox::{self, Policy};
use crate::store::DATABASE_FILE;
use crate::task::{Split, Task, read_task_file, read_task_folder, task_toml};

/// Look at tasks and prove them.
#[derive(Debug, Args)]
pub(super) struct TasksArgs {
    #[command(subcommand)]
    command: TasksCommand,
}

#[derive(Debug, Subcommand)]
enum TasksCommand {
    /// List tasks.
    List(ListArgs),
    /// Play every task's reference solution (must pass), nothing (must score 0) and broken solutions (must fail).
    Check(CheckArgs),
    /// Show one task as a task file.
    Show(ShowArgs),
}

/// Which of the tasks of a source.
#[derive(Debug, Args)]
pub(super) struct Selection {
    /// The built-in tasks.
    #[arg(long)]
    builtin: bool,
    /// Of this kind of work only.
    #[arg(long, value_name = "NAME")]
    job_type: Option<String>,
    /// Of this skill only.
    #[arg(long, value_name = "NAME")]
    skill: Option<String>,
    /// So many tasks of each skill at most; built-in workflows make 20 by default.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=2000))]
    per_workflow: Option<u64>,
}

#[derive(Debug, Args)]
#[command(after_help = "JSON keys: tasks [{id, job_type, skill, split, instruction}].")]
struct ListArgs {
    /// An experiment file, a folder of task files, a task file, or the folder of a run.
    #[arg(required_unless_present = "builtin", conflicts_with = "builtin")]
    source: Option<PathBuf>,
    #[command(flatten)]
    selection: Selection,
    /// Write JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Exit code 3 when a task is refused. JSON keys: skills [{job_type, skill, tasks, search, validate, sealed, refused, \
broken_solutions}], refused [{id, job_type, skill, problems}]."
)]
struct CheckArgs {
    /// An experiment file, a folder of task files, a task file, or the folder of a run.
    #[arg(required_unless_present = "builtin", conflicts_with = "builtin")]
    source: Option<PathBuf>,
    #[command(flatten)]
    selection: Selection,
    /// Write JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
#[command(allow_missing_positional = true, after_help = "JSON keys: id, split, and body as in the table `task` of run.db.")]
struct ShowArgs {
    /// An experiment file, a folder of task files, a task file, or the folder of a run; the built-in tasks by default.
    source: Option<PathBuf>,
    /// The task: the start of its id.
    #[arg(value_name = "ID")]
    id: String,
    #[command(flatten)]
    selection: Selection,
    /// Write JSON.
    #[arg(long)]
    json: bool,
}

/// Looks at tasks, or proves them.
pub(super) async fn tasks(args: &TasksArgs, output: &Output) -> Result<(), Failure> {
    match &args.command {
        TasksCommand::List(args) => list(args, output),
        TasksCommand::Check(args) => check(args, output).await,
        TasksCommand::Show(args) => show(args, output),
    }
}

/// Tasks, and the sandbox they are meant for.
pub(super) struct Selected {
    pub(super) tasks: Vec<Arc<Task>>,
    pub(super) sandbox: SandboxChoice,
}

impl Selection {
    /// The tasks of `source`, or the built-in ones, that are wanted.
    pub(super) fn select(&self, source: Option<&Path>, output: &Output) -> Result<Selected, Failure> {
        let mut selected = match source {
            Some(source) => read(source, output)?,
            None => Selected { tasks: self.built_in()?, sandbox: any_sandbox() },
        };
        let known: Vec<(String, String)> =
            selected.tasks.iter().map(|task| (task.job_type().to_string(), task.body().skill.to_string())).collect();
        let mut of_skill: BTreeMap<(String, String), u64> = BTreeMap::new();
        selected.tasks.retain(|task| {
            let place = (task.job_type().to_string(), task.body().skill.to_string());
            let wanted =
                self.job_type.as_ref().is_none_or(|name| *name == place.0) && self.skill.as_ref().is_none_or(|name| *name == place.1);
            let count = of_skill.entry(place).or_default();
            *count += u64::from(wanted);
            wanted && self.per_workflow.is_none_or(|most| *count <= most)
        });
        if selected.tasks.is_empty() {
            return Err(self.nothing(&known));
        }
        Ok(selected)
    }

    fn built_in(&self) -> Result<Vec<Arc<Task>>, Failure> {
        let mut tasks = Vec::new();
        for workflow in workflows() {
            let wanted = self.job_type.as_ref().is_none_or(|name| name == workflow.job_type)
                && self.skill.as_ref().is_none_or(|name| name == workflow.skill);
            for index in (0..self.per_workflow.unwrap_or(20)).filter(|_| wanted) {
                let task = workflow.task(index).map_err(|error| Failure::from_error(FailureKind::Other, &error))?;
                tasks.push(Arc::new(task));
            }
        }
        Ok(tasks)
    }

    fn nothing(&self, known: &[(String, String)]) -> Failure {
        let failure = Failure::new(FailureKind::Input, "no task matches");
        let built_in = workflows();
        let all = known.iter().map(|(job_type, skill)| (job_type.as_str(), skill.as_str()));
        let all = all.chain(built_in.iter().filter(|_| known.is_empty()).map(|workflow| (workflow.job_type, workflow.skill)));
        let names: std::collections::BTreeSet<String> = all.map(|(job_type, skill)| format!("{job_type}/{skill}")).collect();
        failure.hint(format!("there are {}", names.into_iter().collect::<Vec<_>>().join(", ")))
    }
}

fn any_sandbox() -> SandboxChoice {
    SandboxChoice { backend: None, policy: Policy::default() }
}

/// The tasks of an experiment, a folder, a file, or a run.
fn read(source: &Path, output: &Output) -> Result<Selected, Failure> {
    let input = |error: &dyn std::error::Error| Failure::from_error(FailureKind::Input, error);
    if source.join(DATABASE_FILE).is_file() {
        let run = run_folder::open(source, output)?;
        let tasks = run.reader.tasks().map_err(run.failed())?;
        return Ok(Selected { tasks, sandbox: run.experiment().map_or_else(any_sandbox, |experiment| experiment.sandbox) });
    }
    if source.is_dir() {
        let tasks = read_task_folder(source).map_err(|error| input(&error))?;
        if tasks.is_empty() {
            let message = format!("{} holds neither task files (*.toml) nor a run", source.display());
            return Err(Failure::new(FailureKind::Input, message));
        }
        return Ok(Selected { tasks: tasks.into_iter().map(Arc::new).collect(), sandbox: any_sandbox() });
    }
    if is_task_file(source) {
        let task = read_task_file(source).map_err(|error| input(&error))?;
        return Ok(Selected { tasks: vec![Arc::new(task)], sandbox: any_sandbox() });
    }
    let experiment = config::load(source, None).map_err(|error| input(&error))?;
    Ok(Selected { tasks: experiment.tasks, sandbox: experiment.sandbox })
}

/// Task files have an instruction; experiments have none. What cannot be read is left to the reader of experiments to report.
fn is_task_file(path: &Path) -> bool {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().any(|line| line.strip_prefix("instruction").is_some_and(|rest| rest.trim_start().starts_with('=')))
}

fn list(args: &ListArgs, output: &Output) -> Result<(), Failure> {
    let tasks = args.selection.select(args.source.as_deref(), output)?.tasks;
    if args.json {
        return output.json(&json!({"tasks": tasks.iter().map(|task| row_json(task)).collect::<Vec<_>>()}));
    }
    let rows = tasks.iter().map(|task| {
        let first = task.body().instruction.trim().lines().next().unwrap_or_default();
        vec![
            task.id().short(),
            task.job_type().to_string(),
            task.body().skill.to_string(),
            task.split().as_str().to_owned(),
            crate::task::shorten(first, 70),
        ]
    });
    output.data(&table(&["id", "job type", "skill", "split", "instruction"], 5, rows))
}

fn row_json(task: &Task) -> Value {
    json!({
        "id": task.id(), "job_type": task.job_type(), "skill": task.body().skill, "split": task.split(),
        "instruction": task.body().instruction,
    })
}

fn show(args: &ShowArgs, output: &Output) -> Result<(), Failure> {
    let tasks = args.selection.select(args.source.as_deref(), output)?.tasks;
    let mut found: Vec<&Arc<Task>> = tasks.iter().filter(|task| task.id().to_string().starts_with(&args.id)).collect();
    found.dedup_by_key(|task| task.id());
    let task = match found.as_slice() {
        [only] => only,
        [] => {
            return Err(Failure::new(FailureKind::Input, format!("no task has an id that starts with `{}`", args.id))
                .hint("`tasks list` lists them"));
        }
        several => {
            let ids: Vec<String> = several.iter().take(8).map(|task| task.id().to_string()).collect();
            let message = format!("`{}` is the start of several task ids: {}", args.id, ids.join(", "));
            return Err(Failure::new(FailureKind::Input, message).hint("give more of its characters"));
        }
    };
    if args.json {
        return output.json(&json!({"id": task.id(), "split": task.split(), "body": task.body()}));
    }
    let text = task_toml(task).map_err(|error| Failure::from_error(FailureKind::Other, &error))?;
    output.data(&format!("# {}, {} split\n{text}", task.id(), task.split().as_str()))
}

async fn check(args: &CheckArgs, output: &Output) -> Result<(), Failure> {
    let Selected { tasks, sandbox: choice } = args.selection.select(args.source.as_deref(), output)?;
    let opened = sandbox::open(choice.backend).map_err(|error| {
        Failure::from_error(FailureKind::Environment, &error).hint("`harness-evo doctor` says what this machine offers")
    })?;
    if let Some(notice) = &opened.notice {
        output.note(notice);
    }
    output.note(&format!("proving {} tasks", tasks.len()));
    let reports = tasks_check::reports(&tasks, &opened.sandbox, &choice.policy, output).await?;
    let checked: Vec<(&Arc<Task>, &TaskReport)> = tasks.iter().zip(&reports).collect();
    let skills = by_skill(&checked);
    let refused: Vec<&(&Arc<Task>, &TaskReport)> = checked.iter().filter(|(_, report)| !report.accepted()).collect();
    if args.json {
        let refused: Vec<Value> = refused.iter().map(|(task, report)| refused_json(task, report)).collect();
        output.json(&json!({"skills": skills.iter().map(Tally::json).collect::<Vec<_>>(), "refused": refused}))?;
    } else {
        let header = ["job type", "skill", "tasks", "search", "validate", "sealed", "broken solutions", "refused"];
        let mut text = table(&header, 2, skills.iter().map(Tally::row));
        for (task, report) in &refused {
            for problem in &report.problems {
                text.push_str(&format!("{}/{} {}: {problem}\n", task.job_type(), task.body().skill, task.id().short()));
            }
        }
        output.data(&text)?;
    }
    if refused.is_empty() {
        return Ok(());
    }
    Err(Failure::new(FailureKind::Check, format!("{} of {} tasks are refused", refused.len(), tasks.len())))
}

fn refused_json(task: &Task, report: &TaskReport) -> Value {
    let problems: Vec<String> = report.problems.iter().map(ToString::to_string).collect();
    json!({"id": task.id(), "job_type": task.job_type(), "skill": task.body().skill, "problems": problems})
}

/// The tasks of one skill.
#[derive(Default)]
struct Tally {
    job_type: String,
    skill: String,
    tasks: usize,
    search: usize,
    validate: usize,
    sealed: usize,
    broken: usize,
    refused: usize,
}

fn by_skill(checked: &[(&Arc<Task>, &TaskReport)]) -> Vec<Tally> {
    let mut tallies: BTreeMap<(String, String), Tally> = BTreeMap::new();
    for (task, report) in checked {
        let (job_type, skill) = (task.job_type().to_string(), task.body().skill.to_string());
        let tally = tallies.entry((job_type.clone(), skill.clone())).or_insert_with(|| Tally { job_type, skill, ..Tally::default() });
        tally.tasks += 1;
        match task.split() {
            Split::Search => tally.search += 1,
            Split::Validate => tally.validate += 1,
            Split::Sealed => tally.sealed += 1,
        }
        tally.broken += report.variants;
        tally.refused += usize::from(!report.accepted());
    }
    tallies.into_values().collect()
}

impl Tally {
    fn json(&self) -> Value {
        json!({
            "job_type": self.job_type, "skill": self.skill, "tasks": self.tasks, "search": self.search, "validate": self.validate,
            "sealed": self.sealed, "refused": self.refused, "broken_solutions": self.broken,
        })
    }

    fn row(&self) -> Vec<String> {
        let counts = [self.tasks, self.search, self.validate, self.sealed, self.broken, self.refused];
        [self.job_type.clone(), self.skill.clone()].into_iter().chain(counts.iter().map(ToString::to_string)).collect()
    }
}
