//! `lineage tree|show|diff|path|export`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};

use super::failure::{Failure, FailureKind};
use super::figures::{percent, range};
use super::output::Output;
use super::results_file;
use super::run_folder::{self, OpenedRun};
use crate::harness::{Harness, HarnessId, Template, describe, diff, differences, to_toml_named};
use crate::lineage::{JudgedHypothesis, Lineage, Node, Origin};
use crate::store::LeaderRow;

/// Look at how harnesses descend from each other. Harnesses are named by the first characters of their ids.
#[derive(Debug, Args)]
pub(super) struct LineageArgs {
    #[command(subcommand)]
    command: LineageCommand,
}

#[derive(Debug, Subcommand)]
enum LineageCommand {
    /// Draw the whole lineage as a tree, every harness under its first parent; `*` marks elites.
    Tree(TreeArgs),
    /// Show one harness: origin, difference to its parent, hypothesis and what became of it, scores.
    Show(ShowArgs),
    /// Show in which genes two harnesses differ.
    Diff(DiffArgs),
    /// Show the way from a seed to a harness, edit by edit.
    Path(PathArgs),
    /// Write the lineage for other programs.
    Export(ExportArgs),
}

#[derive(Debug, Args)]
struct TreeArgs {
    /// The folder of the run.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

#[derive(Debug, Args)]
#[command(after_help = "JSON keys: id, step, depth, made_by, template, parents, children, diff, hypothesis {text, fixes, risks}, \
judged {difference, low, high, pairs}, elite_of [niche], scores [{job_type, split, rank, mean_score, solved_rate, episodes, mean_steps, \
mean_tokens, mean_usd}], genome.")]
struct ShowArgs {
    /// The folder of the run.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// The harness: the start of its id.
    #[arg(value_name = "ID")]
    id: String,
    /// Write JSON.
    #[arg(long, conflicts_with = "toml")]
    json: bool,
    /// Write the harness as a template file, which can seed another run.
    #[arg(long)]
    toml: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "JSON keys: before, after, common_ancestor, differences [{kind, gene, ...}] with kind value {before, after}, \
lines {lines [{sign, text}]}, added {value} or removed {value}.")]
struct DiffArgs {
    /// The folder of the run.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// The one harness.
    #[arg(value_name = "A")]
    a: String,
    /// The other harness.
    #[arg(value_name = "B")]
    b: String,
    /// Write JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "JSON keys: path [{id, step, made_by, template, parents, diff, hypothesis, judged}], the seed first.")]
struct PathArgs {
    /// The folder of the run.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// The harness: the start of its id.
    #[arg(value_name = "ID")]
    id: String,
    /// Write JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct ExportArgs {
    /// The folder of the run.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// The format.
    #[arg(long, value_enum, default_value_t = LineageFormat::Json)]
    format: LineageFormat,
    /// The file to write; standard output by default.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum LineageFormat {
    /// Canonical JSON (`harness-evo/lineage/1`): the same lineage gives the same bytes.
    Json,
    /// Graphviz.
    Dot,
}

/// Looks at the lineage of a run.
pub(super) fn lineage(args: &LineageArgs, output: &Output) -> Result<(), Failure> {
    match &args.command {
        LineageCommand::Tree(args) => tree(args, output),
        LineageCommand::Show(args) => show(args, output),
        LineageCommand::Diff(args) => difference(args, output),
        LineageCommand::Path(args) => path(args, output),
        LineageCommand::Export(args) => export(args, output),
    }
}

fn read(run: &OpenedRun<'_>) -> Result<Lineage, Failure> {
    run.reader.lineage().map_err(run.failed())
}

/// The harness whose id starts with `prefix`, as it stands in the lineage.
fn find<'a>(run: &OpenedRun<'_>, lineage: &'a Lineage, prefix: &str) -> Result<&'a Node, Failure> {
    let id = run.reader.harness(prefix).map_err(run.failed())?.id;
    // The lineage may have been read a moment before the harness was committed.
    lineage
        .node(id)
        .ok_or_else(|| Failure::new(FailureKind::Run, format!("harness {id} is newer than the lineage that was read")).hint("repeat"))
}

fn elite_niches(run: &OpenedRun<'_>) -> Result<BTreeMap<HarnessId, BTreeSet<String>>, Failure> {
    let mut niches: BTreeMap<HarnessId, BTreeSet<String>> = BTreeMap::new();
    for row in run.reader.elites().map_err(run.failed())? {
        niches.entry(row.harness).or_default().insert(row.niche);
    }
    Ok(niches)
}

fn tree(args: &TreeArgs, output: &Output) -> Result<(), Failure> {
    let run = run_folder::open(&args.folder, output)?;
    let (lineage, elites) = (read(&run)?, elite_niches(&run)?);
    let lines = lineage.draw_tree(|row| {
        let node = row.node;
        let origin = match &node.origin {
            Origin::Seed { template } => format!("seed `{template}`"),
            Origin::Child { operator, .. } => operator.as_str().to_owned(),
        };
        let second = row.second_parent.map_or_else(String::new, |parent| format!(" with {}", parent.short()));
        let judged = node.judged.map_or_else(String::new, |judged| format!("  {:+.2}", judged.difference));
        let title = elites
            .get(&node.id)
            .map_or_else(String::new, |niches| format!("  * {}", niches.iter().map(String::as_str).collect::<Vec<_>>().join(", ")));
        format!("{}  {origin}{second}  step {}{judged}{title}", node.id.short(), node.step)
    });
    if lines.is_empty() {
        output.note("no harness is committed yet");
        return Ok(());
    }
    output.data(&lines.join("\n"))
}

fn show(args: &ShowArgs, output: &Output) -> Result<(), Failure> {
    let run = run_folder::open(&args.folder, output)?;
    let lineage = read(&run)?;
    let node = find(&run, &lineage, &args.id)?;
    if args.toml {
        return output.data(&as_template(node)?);
    }
    let scores: Vec<LeaderRow> = run.reader.leaderboard().map_err(run.failed())?.into_iter().filter(|row| row.harness == node.id).collect();
    let niches: BTreeSet<String> = elite_niches(&run)?.remove(&node.id).unwrap_or_default();
    if args.json {
        let mut value = node_json(node);
        value["depth"] = json!(node.depth);
        value["children"] = json!(lineage.children(node.id));
        value["elite_of"] = json!(niches);
        value["scores"] = scores.iter().map(score_json).collect();
        value["genome"] = json!(node.genome);
        return output.json(&value);
    }
    let mut text = run.banner().to_owned();
    text.push_str(&node_text(node));
    let children: Vec<String> = lineage.children(node.id).iter().map(HarnessId::short).collect();
    if !children.is_empty() {
        text.push_str(&format!("children: {}\n", children.join(" ")));
    }
    if !niches.is_empty() {
        text.push_str(&format!("elite of: {}\n", niches.into_iter().collect::<Vec<_>>().join(", ")));
    }
    for row in &scores {
        text.push_str(&format!(
            "{} ({}): rank {}, score {:.3}, solved {} of {} episodes, {:.1} steps, {:.0} tokens\n",
            row.job_type,
            row.split.as_str(),
            row.rank,
            row.mean_score,
            percent(row.solved_rate),
            row.episodes,
            row.mean_steps,
            row.mean_tokens
        ));
    }
    output.data(&text)
}

/// The harness as a template file named after its id.
fn as_template(node: &Node) -> Result<String, Failure> {
    let fail = |error: &dyn std::error::Error| Failure::from_error(FailureKind::Run, error);
    let harness = Harness::new(node.genome.clone()).map_err(|error| fail(&error))?;
    let description = format!("Harness {}, made by {} in step {}.", node.id, node.made_by(), node.step);
    to_toml_named(&Template { name: format!("h-{}", node.id.short()), description, harness }).map_err(|error| fail(&error))
}

fn score_json(row: &LeaderRow) -> Value {
    json!({
        "job_type": row.job_type, "split": row.split, "rank": row.rank, "mean_score": row.mean_score, "solved_rate": row.solved_rate,
        "episodes": row.episodes, "mean_steps": row.mean_steps, "mean_tokens": row.mean_tokens, "mean_usd": row.mean_micro_usd / 1e6,
    })
}

fn difference(args: &DiffArgs, output: &Output) -> Result<(), Failure> {
    let run = run_folder::open(&args.folder, output)?;
    let lineage = read(&run)?;
    let (a, b) = (find(&run, &lineage, &args.a)?, find(&run, &lineage, &args.b)?);
    let changes = diff(&a.genome, &b.genome).map_err(|error| Failure::from_error(FailureKind::Run, &error))?;
    let ancestor = lineage.common_ancestors(a.id, b.id).first().copied();
    if args.json {
        let value = json!({"before": a.id, "after": b.id, "common_ancestor": ancestor, "differences": differences(&changes)});
        return output.json(&value);
    }
    let nearest = ancestor.map_or_else(|| "none".to_owned(), |id| id.short());
    output.note(&format!("from {} to {}; nearest common ancestor: {nearest}", a.id.short(), b.id.short()));
    output.data(&if changes.is_empty() { "no gene differs".to_owned() } else { describe(&changes) })
}

fn path(args: &PathArgs, output: &Output) -> Result<(), Failure> {
    let run = run_folder::open(&args.folder, output)?;
    let lineage = read(&run)?;
    let id = find(&run, &lineage, &args.id)?.id;
    let path = lineage.path(id);
    if args.json {
        return output.json(&json!({"path": path.iter().map(|node| node_json(node)).collect::<Vec<_>>()}));
    }
    let texts: Vec<String> = path.iter().map(|node| node_text(node)).collect();
    output.data(&format!("{}{}", run.banner(), texts.join("\n")))
}

fn export(args: &ExportArgs, output: &Output) -> Result<(), Failure> {
    let run = run_folder::open(&args.folder, output)?;
    let lineage = read(&run)?;
    let bytes = match args.format {
        LineageFormat::Json => lineage.to_json().map_err(|error| Failure::from_error(FailureKind::Run, &error))?,
        LineageFormat::Dot => lineage.to_dot().into_bytes(),
    };
    results_file::write(args.out.as_deref(), &bytes, output)
}

fn node_json(node: &Node) -> Value {
    let (template, parents) = match &node.origin {
        Origin::Seed { template } => (Some(template.as_str()), &[][..]),
        Origin::Child { parents, .. } => (None, parents.as_slice()),
    };
    json!({
        "id": node.id, "step": node.step, "made_by": node.made_by(), "template": template, "parents": parents,
        "diff": differences(&node.diff), "hypothesis": node.hypothesis, "judged": node.judged,
    })
}

/// A harness in lines: origin, difference, hypothesis, judgement.
fn node_text(node: &Node) -> String {
    let mut text = match &node.origin {
        Origin::Seed { template } => format!("{}  seed `{template}`, step {}\n", node.id, node.step),
        Origin::Child { operator, parents } => {
            let parents: Vec<String> = parents.iter().map(HarnessId::short).collect();
            format!("{}  {} of {}, step {}\n", node.id, operator.as_str(), parents.join(" and "), node.step)
        }
    };
    if !node.diff.is_empty() {
        text.extend(describe(&node.diff).lines().map(|line| format!("  {line}\n")));
    }
    if let Some(hypothesis) = &node.hypothesis {
        text.push_str(&format!("hypothesis: {}\n", hypothesis.text));
        for (name, items) in [("fixes", &hypothesis.fixes), ("may break", &hypothesis.risks)] {
            if !items.is_empty() {
                text.push_str(&format!("  {name}: {}\n", items.join("; ")));
            }
        }
    }
    if let Some(JudgedHypothesis { difference, low, high, pairs }) = node.judged {
        text.push_str(&format!("against its parent: {:+.1} points ({}), {pairs} pairs\n", difference * 100.0, range(low, high)));
    }
    text
}
