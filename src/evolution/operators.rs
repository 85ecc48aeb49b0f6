//! Operators that need no model: each makes a child genome and says what it expects of the edit.

use rand::RngExt;
use rand::seq::IndexedRandom;
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};

use super::{Birth, Hypothesis, OperatorName, Refusal};
use crate::harness::{BlockLibrary, Domain, GenePath, Harness, HarnessError, Side, ToolGene, ToolName, crossover, diff, domain, perturb};

/// A child before it is compared with its parent.
#[derive(Debug, Clone, PartialEq)]
pub struct Offspring {
    /// The child.
    pub harness: Harness,
    /// What the operator expects.
    pub hypothesis: Hypothesis,
}

/// Draws before an operator gives up: rules between genes forbid some edits.
const TRIES: usize = 12;

/// Makes a child of `parent` (and `mate`, for a crossover) with `operator`.
///
/// # Errors
/// When no valid edit was found.
pub fn make(
    operator: OperatorName,
    parent: &Harness,
    mate: Option<&Harness>,
    library: &BlockLibrary,
    rng: &mut ChaCha8Rng,
) -> Result<Offspring, Refusal> {
    let mut last = "there is nothing to edit".to_owned();
    for _ in 0..TRIES {
        let made = match operator {
            OperatorName::Perturb => perturb_some(parent, library, rng),
            OperatorName::Toolswap => swap_tools(parent, rng),
            OperatorName::BlockSwap => swap_block(parent, library, rng),
            OperatorName::Crossover => cross(parent, mate, rng),
            OperatorName::Prune => prune(parent, rng),
            OperatorName::Rewrite => Err("a rewrite needs a model".to_owned()),
        };
        match made {
            Ok(offspring) if offspring.harness.id() != parent.id() => return Ok(offspring),
            Ok(_) => "the edit changes nothing".clone_into(&mut last),
            Err(reason) => last = reason,
        }
    }
    Err(if last == "the edit changes nothing" { Refusal::NoChange } else { Refusal::Invalid { reason: last } })
}

/// The record of a child, with its difference from `parent`.
///
/// # Errors
/// When it does not differ.
pub fn birth(parent: &Harness, offspring: Offspring) -> Result<(Birth, Harness), Refusal> {
    let Offspring { harness, hypothesis } = offspring;
    if harness.id() == parent.id() {
        return Err(Refusal::NoChange);
    }
    let diff = diff(parent.genome(), harness.genome()).map_err(|error| Refusal::Invalid { reason: error.to_string() })?;
    let birth = Birth { harness: harness.id(), genome: harness.genome().clone(), diff, hypothesis: Some(hypothesis) };
    Ok((birth, harness))
}

fn expect(text: String, fixes: &[&str], risks: &[&str]) -> Hypothesis {
    let own = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    Hypothesis { text, fixes: own(fixes), risks: own(risks) }
}

fn broken(error: &HarnessError) -> String {
    error.to_string()
}

/// One to three genes other than texts, moved a little.
fn perturb_some(parent: &Harness, library: &BlockLibrary, rng: &mut ChaCha8Rng) -> Result<Offspring, String> {
    let genes = parent.genome().genes().map_err(|error| broken(&error))?;
    let movable: Vec<&GenePath> =
        genes.keys().filter(|path| !matches!(domain(path), None | Some(Domain::Text { .. } | Domain::Script | Domain::Tool))).collect();
    let count = 1 + rng.random_range(0..3);
    let mut child = parent.clone();
    let mut moved = Vec::new();
    for _ in 0..count {
        let Some(path) = movable.choose(rng) else { break };
        let strength = 0.3 + 0.7 * rng.random::<f64>();
        if let Ok(next) = perturb(&child, path, strength, library, rng) {
            child = next;
            moved.push(path.as_str());
        }
    }
    if moved.is_empty() {
        return Err("no gene could be moved".to_owned());
    }
    moved.sort_unstable();
    moved.dedup();
    let text = format!("moving {} changes how often limits and policies bite", moved.join(", "));
    Ok(Offspring { harness: child, hypothesis: expect(text, &["limits that bite too early or too late"], &["cost per episode"]) })
}

/// A tool more, a tool less, or one for another.
fn swap_tools(parent: &Harness, rng: &mut ChaCha8Rng) -> Result<Offspring, String> {
    let offered: Vec<ToolName> = parent.genome().tools.keys().copied().collect();
    let missing: Vec<ToolName> = ToolName::ALL.into_iter().filter(|tool| !offered.contains(tool)).collect();
    let kind = rng.random_range(0..3);
    let added = if kind == 1 { None } else { missing.choose(rng).copied() };
    let dropped = if kind == 0 { None } else { offered.choose(rng).copied() };
    let path = |tool: ToolName| GenePath::new("tools", tool.as_str());
    let mut assignments: Vec<(GenePath, Option<Value>)> = Vec::new();
    if let Some(tool) = added {
        let gene = serde_json::to_value(ToolGene::default()).map_err(|error| error.to_string())?;
        assignments.push((path(tool), Some(gene)));
        // The notes tool writes the scratchpad: alone it does nothing.
        if tool == ToolName::Notes {
            assignments.push((GenePath::new("memory", "scratchpad"), Some(json!("on"))));
        }
    }
    if let Some(tool) = dropped {
        assignments.push((path(tool), None));
        if tool == ToolName::Notes {
            assignments.push((GenePath::new("memory", "scratchpad"), Some(json!("off"))));
        }
    }
    let harness = parent.with_genes(assignments).map_err(|error| broken(&error))?;
    let name = |tool: Option<ToolName>| tool.map_or("nothing", ToolName::as_str);
    let text = format!("offering {} instead of {} fits the work better", name(added), name(dropped));
    Ok(Offspring { harness, hypothesis: expect(text, &["calls of tools that do not fit"], &["work that needed the tool that is gone"]) })
}

/// Another text of the library for a prompt block, or for a repair.
fn swap_block(parent: &Harness, library: &BlockLibrary, rng: &mut ChaCha8Rng) -> Result<Offspring, String> {
    let count = 1 + rng.random_range(0..2);
    let mut child = parent.clone();
    let mut swapped = Vec::new();
    for _ in 0..count {
        let Some(block) = library.blocks().choose(rng) else { return Err("the block library is empty".to_owned()) };
        let assignment = (block.gene.clone(), Some(Value::String(block.text.clone())));
        child = child.with_genes([assignment]).map_err(|error| broken(&error))?;
        swapped.push(format!("{} `{}` ({})", block.gene, block.name, block.summary));
    }
    let text = format!("taking {}", swapped.join(" and "));
    Ok(Offspring { harness: child, hypothesis: expect(text, &["failures the old text did not prevent"], &["what the old text prevented"]) })
}

/// Each gene from one of two parents, mostly from the first.
fn cross(parent: &Harness, mate: Option<&Harness>, rng: &mut ChaCha8Rng) -> Result<Offspring, String> {
    let Some(mate) = mate else { return Err("a crossover needs two parents".to_owned()) };
    let share = 0.2 + 0.4 * rng.random::<f64>();
    let harness = crossover(parent, mate, |_| if rng.random::<f64>() < share { Side::Second } else { Side::First })
        .map_err(|error| broken(&error))?;
    let text = format!("genes of {} bring what {} lacks", mate.id().short(), parent.id().short());
    Ok(Offspring { harness, hypothesis: expect(text, &["failures the second parent does not have"], &["genes that only work together"]) })
}

/// Something less: a prompt block, a tool, a script, or the rules of a fault class.
fn prune(parent: &Harness, rng: &mut ChaCha8Rng) -> Result<Offspring, String> {
    let genes = parent.genome().genes().map_err(|error| broken(&error))?;
    let removable: Vec<&GenePath> = genes
        .iter()
        .filter(|(path, value)| match domain(path) {
            Some(Domain::Text { .. }) => value.as_str().is_some_and(|text| !text.is_empty()),
            Some(Domain::RetryRules) => value.as_array().is_some_and(|rules| !rules.is_empty()),
            Some(Domain::Tool | Domain::Script) => true,
            _ => false,
        })
        .map(|(path, _)| path)
        .collect();
    let Some(path) = removable.choose(rng).copied() else { return Err("there is nothing to remove".to_owned()) };
    let harness = parent.with_genes([(path.clone(), None)]).map_err(|error| broken(&error))?;
    let text = format!("{path} does not pay for its place");
    Ok(Offspring { harness, hypothesis: expect(text, &["distraction and cost"], &["what it was there for"]) })
}
