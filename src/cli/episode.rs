//! `episode list|show`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::failure::{Failure, FailureKind};
use super::figures::{dollars, percent, table, time};
use super::output::Output;
use super::run_folder;
use crate::store::{EpisodeEnd, EpisodeFilter, EpisodeRow, OutcomeFilter};
use crate::task::JobType;
use crate::trajectory::{ContentPart, Message, Outcome, Role, Trajectory};

/// Look at single episodes.
#[derive(Debug, Args)]
pub(super) struct EpisodeArgs {
    #[command(subcommand)]
    command: EpisodeCommand,
}

#[derive(Debug, Subcommand)]
enum EpisodeCommand {
    /// List episodes, the newest first.
    List(ListArgs),
    /// Show one episode, message by message, with the verdict and its evidence.
    Show(ShowArgs),
}

const KEYS: &str = "JSON keys: episodes [{id, harness, task, job_type, skill, split, seed, attempt, outcome, score, ending, boundary, fault, \
steps, tokens, usd, total_ms, model_ms, tools_ms, sandbox_ms, check_ms, created_at}].";

#[derive(Debug, Args)]
#[command(after_help = KEYS)]
struct ListArgs {
    /// The folder of the run.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Of this harness: the start of its id.
    #[arg(long, value_name = "ID")]
    harness: Option<String>,
    /// Of this task: the start of its id.
    #[arg(long, value_name = "ID")]
    task: Option<String>,
    /// Of this kind of work.
    #[arg(long, value_name = "NAME")]
    job_type: Option<String>,
    /// Solved ones only.
    #[arg(long, group = "outcome")]
    passed: bool,
    /// Scored ones that were not solved.
    #[arg(long, group = "outcome")]
    failed: bool,
    /// Faults only: attempts that say nothing about the harness.
    #[arg(long, group = "outcome")]
    faulted: bool,
    /// At most so many; 0 lists all.
    #[arg(long, default_value_t = 50)]
    limit: u32,
    /// Write JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
#[command(
    after_help = "JSON keys: episode (as in `episode list --json`), trajectory {harness, model, task, seed, tools, messages, usage, outcome}."
)]
struct ShowArgs {
    /// The folder of the run.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// The episode's number, as `episode list` shows it.
    #[arg(value_name = "ID")]
    id: i64,
    /// Write JSON.
    #[arg(long)]
    json: bool,
}

/// Looks at episodes of a run.
pub(super) fn episode(args: &EpisodeArgs, output: &Output) -> Result<(), Failure> {
    match &args.command {
        EpisodeCommand::List(args) => list(args, output),
        EpisodeCommand::Show(args) => show(args, output),
    }
}

fn list(args: &ListArgs, output: &Output) -> Result<(), Failure> {
    let run = run_folder::open(&args.folder, output)?;
    let job_type = args.job_type.as_deref().map(JobType::new).transpose();
    let filter = EpisodeFilter {
        harness: args.harness.as_deref().map(|prefix| run.reader.harness(prefix)).transpose().map_err(run.failed())?.map(|found| found.id),
        job_type: job_type.map_err(|error| Failure::from_error(FailureKind::Input, &error))?,
        split: None,
        task: args.task.as_deref().map(|prefix| run.reader.task_id(prefix)).transpose().map_err(run.failed())?,
        outcome: match (args.passed, args.failed, args.faulted) {
            (true, ..) => OutcomeFilter::Passed,
            (_, true, _) => OutcomeFilter::Failed,
            (.., true) => OutcomeFilter::Faulted,
            _ => OutcomeFilter::Any,
        },
        limit: (args.limit > 0).then_some(args.limit),
    };
    let episodes = run.reader.episodes(&filter).map_err(run.failed())?;
    if args.json {
        return output.json(&json!({"episodes": episodes.iter().map(row_json).collect::<Vec<_>>()}));
    }
    if episodes.is_empty() {
        output.note("no episode matches");
        return Ok(());
    }
    output.data(&as_table(&episodes))?;
    if u32::try_from(episodes.len()).is_ok_and(|count| count == args.limit) {
        output.note(&format!("the newest {}; --limit 0 lists all", args.limit));
    }
    Ok(())
}

fn as_table(episodes: &[EpisodeRow]) -> String {
    let header = ["id", "harness", "job type", "skill", "split", "task", "result", "steps", "tokens", "seconds"];
    let rows = episodes.iter().map(|row| {
        let (job_type, skill) = row.work.clone().unwrap_or_default();
        #[expect(clippy::cast_precision_loss, reason = "milliseconds of one episode")]
        let seconds = row.timing.total_ms as f64 / 1000.0;
        vec![
            row.id.to_string(),
            row.harness.short(),
            job_type,
            skill,
            row.split.as_str().to_owned(),
            row.task.short(),
            result(&row.ended),
            row.steps.to_string(),
            row.tokens.to_string(),
            format!("{seconds:.1}"),
        ]
    });
    table(&header, 7, rows)
}

/// A unit variant's name, as in JSON.
fn name(value: &impl serde::Serialize) -> String {
    serde_json::to_value(value).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}

fn result(ended: &EpisodeEnd) -> String {
    match ended {
        EpisodeEnd::Scored { score, ending } if *score >= 1.0 => format!("solved, {}", name(ending)),
        EpisodeEnd::Scored { score, ending } => format!("{score:.2}, {}", name(ending)),
        EpisodeEnd::Faulted { boundary, .. } => format!("fault: {}", name(boundary)),
    }
}

fn row_json(row: &EpisodeRow) -> Value {
    let (job_type, skill) = row.work.clone().unzip();
    let mut value = json!({
        "id": row.id, "harness": row.harness, "task": row.task, "job_type": job_type, "skill": skill, "split": row.split,
        "seed": row.seed, "attempt": row.attempt, "steps": row.steps, "tokens": row.tokens, "usd": row.micro_usd.map(dollars),
        "total_ms": row.timing.total_ms, "model_ms": row.timing.model_ms, "tools_ms": row.timing.tools_ms,
        "sandbox_ms": row.timing.sandbox_ms, "check_ms": row.timing.check_ms, "created_at": time(row.created_at),
        "outcome": "scored", "score": null, "ending": null, "boundary": null, "fault": null,
    });
    match &row.ended {
        EpisodeEnd::Scored { score, ending } => {
            value["score"] = json!(score);
            value["ending"] = json!(ending);
        }
        EpisodeEnd::Faulted { boundary, message } => {
            value["outcome"] = json!("faulted");
            value["boundary"] = json!(boundary);
            value["fault"] = json!(message);
        }
    }
    value
}

fn show(args: &ShowArgs, output: &Output) -> Result<(), Failure> {
    let run = run_folder::open(&args.folder, output)?;
    let row = run.reader.episode(args.id).map_err(run.failed())?;
    let trajectory = run.reader.trajectory(args.id).map_err(run.failed())?;
    if args.json {
        return output.json(&json!({"episode": row_json(&row), "trajectory": trajectory}));
    }
    output.data(&format!("{}{}", run.banner(), transcript(&row, &trajectory)))
}

fn transcript(row: &EpisodeRow, trajectory: &Trajectory) -> String {
    let (job_type, skill) = row.work.clone().unwrap_or_default();
    let mut text = format!("episode {}, attempt {}, {} split\n", row.id, row.attempt + 1, row.split.as_str());
    text.push_str(&format!("harness {}\ntask    {} ({job_type} {skill})\n", row.harness, row.task));
    text.push_str(&format!("model   {}, seed {}\n", trajectory.model, row.seed));
    let tools: Vec<&str> = trajectory.tools.iter().map(|tool| tool.name.as_str()).collect();
    text.push_str(&format!("tools   {}\n", tools.join(", ")));
    for message in &trajectory.messages {
        text.push_str(&message_text(message));
    }
    text.push_str(&format!("\n== {}\n", result(&row.ended)));
    match &trajectory.outcome {
        Outcome::Scored { verdict, .. } => {
            text.push_str(&format!("score {}\n", percent(verdict.score)));
            for item in &verdict.items {
                let mark = if item.passed { "passed" } else { "failed" };
                text.push_str(&format!("{mark}  {}: {}\n", item.name, item.evidence));
            }
        }
        Outcome::Faulted { fault } => text.push_str(&format!("{}\n", fault.message)),
    }
    let timing = row.timing;
    text.push_str(&format!(
        "{} replies, {} tokens; {} ms: model {}, tools {}, sandbox {}, check {}\n",
        row.steps, row.tokens, timing.total_ms, timing.model_ms, timing.tools_ms, timing.sandbox_ms, timing.check_ms
    ));
    text
}

fn message_text(message: &Message) -> String {
    let role = match message.role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
    };
    let answers = message.tool_call_id.as_ref().map_or_else(String::new, |id| format!(" ({id})"));
    let mut text = format!("\n-- {role}{answers}\n");
    if let Some(reasoning) = &message.reasoning {
        text.push_str(&format!("[thought] {reasoning}\n"));
    }
    for part in &message.content {
        match part {
            ContentPart::Text { text: said } if said.is_empty() => {}
            ContentPart::Text { text: said } => text.push_str(&format!("{}\n", said.trim_end_matches('\n'))),
            ContentPart::Image { blob, media_type } => text.push_str(&format!("[picture {media_type}, blob {blob}]\n")),
        }
    }
    for call in &message.tool_calls {
        text.push_str(&format!("[call {}] {} {}\n", call.id, call.name, call.arguments));
    }
    text
}
