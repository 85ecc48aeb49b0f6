//! The rewriting model: reads a digest of failed episodes, infers what went wrong most, and proposes an edit that is right with
//! a stated probability. What it knows of the harness and of the failures is what stands in the request.

use std::collections::BTreeMap;

use regex::Regex;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::base::SeedTree;
use crate::model::ChatRequest;
use crate::trajectory::{Message, Role};

/// How the rehearsal edits harnesses.
#[derive(Debug, Clone)]
pub(super) struct RewriteHabits {
    /// Tells a request to edit a harness from others.
    pub(super) marker: Regex,
    /// Tells a request to summarise a conversation.
    pub(super) summary_marker: Regex,
    /// Probability of the right edit.
    pub(super) skill: f64,
    /// Probability that a right edit fights a second class of failures too.
    pub(super) second: f64,
    pub(super) classes: Vec<FailureClass>,
    pub(super) blunders: Vec<Proposal>,
}

/// A class of failures, what it looks like, and what helps.
#[derive(Debug, Clone)]
pub(super) struct FailureClass {
    pub(super) name: String,
    /// Each match in the digest counts `weight`.
    pub(super) marks: Vec<Regex>,
    pub(super) weight: f64,
    /// What each repetition of the action before counts.
    pub(super) repeats: f64,
    /// Tried in order; one that changes nothing is passed over.
    pub(super) remedies: Vec<Proposal>,
}

/// An edit with what is expected of it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Proposal {
    hypothesis: String,
    #[serde(default)]
    risk: String,
    edits: Vec<EditRule>,
}

/// How one gene is changed.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct EditRule {
    gene: String,
    change: Change,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Change {
    /// Appends a text to a text gene that does not hold it.
    Append(String),
    /// Replaces the value.
    Set(Value),
    /// Multiplies a number, up to a bound.
    Scale { factor: f64, bound: u64 },
    /// Takes a tool or a script away.
    Drop,
}

/// The reply to a request to edit a harness; `None` when `request` is not one.
pub(super) fn reply(habits: &RewriteHabits, request: &ChatRequest) -> Option<String> {
    let text = user_text(request);
    if !habits.marker.is_match(&text) {
        return None;
    }
    let (genes, rest) = split_genes(&text);
    let root = SeedTree::new(request.tag.seed).child("rewrite").index(u64::from(request.tag.step));
    let skilled = root.child("skill").fraction() < habits.skill;
    let right = right_edits(habits, &root, &genes, &rest);
    let blunder = pick_from(&root.child("blunder"), &habits.blunders, &genes, &rest);
    let (classes, proposals, edits) = match (skilled || blunder.is_none(), right, blunder) {
        (true, Some((classes, proposals, edits)), _) => (classes, proposals, edits),
        (_, _, Some((proposal, edits))) => (Vec::new(), vec![proposal], edits),
        (_, _, None) => return Some("I see nothing to change.".to_owned()),
    };
    let hypothesis: Vec<&str> = proposals.iter().map(|proposal| proposal.hypothesis.as_str()).collect();
    let risks: Vec<&str> = proposals.iter().map(|proposal| proposal.risk.as_str()).filter(|risk| !risk.is_empty()).collect();
    let reply = json!({ "edits": edits, "hypothesis": { "text": hypothesis.join(" "), "fixes": classes, "risks": risks } });
    Some(format!("The failures have something in common.\n```json\n{}\n```", serde_json::to_string_pretty(&reply).ok()?))
}

type Right<'a> = (Vec<&'a str>, Vec<&'a Proposal>, Vec<Value>);

/// What helps against one class of the failures shown, drawn by how much speaks for it, and now and then against a second; `None`
/// when everything that helps is there already or was tried.
fn right_edits<'a>(habits: &'a RewriteHabits, root: &SeedTree, genes: &BTreeMap<String, Value>, digest: &str) -> Option<Right<'a>> {
    let mut open: Vec<(f64, &FailureClass, &Proposal, Vec<Value>)> = ranked_classes(habits, digest)
        .into_iter()
        .filter_map(|(score, class)| {
            let (remedy, edits) = class.remedies.iter().find_map(|remedy| Some((remedy, concrete(remedy, genes, digest)?)))?;
            Some((score, class, remedy, edits))
        })
        .collect();
    let mut right: Right<'a> = (Vec::new(), Vec::new(), Vec::new());
    let count = if root.child("second").fraction() < habits.second { 2 } else { 1 };
    for place in 0..count {
        let total: f64 = open.iter().map(|(score, ..)| score).sum();
        let mut draw = root.child("class").index(place).fraction() * total;
        let Some(chosen) = open.iter().position(|(score, ..)| {
            draw -= score;
            draw < 0.0
        }) else {
            break;
        };
        let (_, class, remedy, edits) = open.remove(chosen);
        // Two remedies may speak of the same gene: the second would undo the first.
        let fresh = |edit: &Value| right.2.iter().all(|known| known["gene"] != edit["gene"]);
        if edits.iter().all(fresh) {
            right.0.push(class.name.as_str());
            right.1.push(remedy);
            right.2.extend(edits);
        }
    }
    (!right.2.is_empty()).then_some(right)
}

fn user_text(request: &ChatRequest) -> String {
    let texts: Vec<String> = request.messages.iter().filter(|m| m.role == Role::User).map(Message::joined_text).collect();
    texts.join("\n")
}

/// The harness's genes (lines `section.key = JSON`) and all other lines.
fn split_genes(text: &str) -> (BTreeMap<String, Value>, String) {
    let mut genes = BTreeMap::new();
    let mut rest = String::new();
    for line in text.lines() {
        let gene = line
            .split_once(" = ")
            .filter(|(path, _)| path.contains('.') && path.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-')));
        match gene.and_then(|(path, value)| Some((path, serde_json::from_str(value).ok()?))) {
            Some((path, value)) => {
                genes.insert(path.to_owned(), value);
            }
            None => {
                rest.push_str(line);
                rest.push('\n');
            }
        }
    }
    (genes, rest)
}

/// The classes by what speaks for them, strongest first; those nothing speaks for are left out.
fn ranked_classes<'a>(habits: &'a RewriteHabits, digest: &str) -> Vec<(f64, &'a FailureClass)> {
    let repeats = repeated_actions(digest);
    let mut scored: Vec<(f64, &FailureClass)> = habits
        .classes
        .iter()
        .map(|class| {
            let matches: usize = class.marks.iter().map(|mark| mark.find_iter(digest).count()).sum();
            #[expect(clippy::cast_precision_loss, reason = "counts of lines")]
            let score = class.weight * matches as f64 + class.repeats * repeats as f64;
            (score, class)
        })
        .filter(|(score, _)| *score > 0.0)
        .collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0));
    scored
}

/// How many lines of actions say the same as the one before.
fn repeated_actions(digest: &str) -> usize {
    let calls: Vec<&str> = digest.lines().filter_map(|line| line.strip_prefix("- call: ")).collect();
    calls.windows(2).filter(|pair| pair[0] == pair[1]).count()
}

/// The edits of `proposal` for this harness; `None` when it would change nothing or failed before.
fn concrete(proposal: &Proposal, genes: &BTreeMap<String, Value>, digest: &str) -> Option<Vec<Value>> {
    // Tried by itself: what failed together with something else may still be right.
    let failed_before = digest.lines().any(|line| {
        let rest = line.strip_prefix("- tried: ").and_then(|tried| tried.strip_prefix(proposal.hypothesis.as_str()));
        rest.is_some_and(|rest| rest.trim_start().starts_with('('))
    });
    if failed_before {
        return None;
    }
    let edits: Vec<Value> = proposal.edits.iter().filter_map(|rule| rule.concrete(genes)).collect();
    if edits.is_empty() { None } else { Some(edits) }
}

impl EditRule {
    fn concrete(&self, genes: &BTreeMap<String, Value>) -> Option<Value> {
        let known = genes.get(&self.gene);
        let value = match &self.change {
            Change::Append(text) => {
                let old = known.and_then(Value::as_str).unwrap_or_default();
                if old.contains(text.as_str()) {
                    return None;
                }
                Value::String(if old.is_empty() { text.clone() } else { format!("{old}\n{text}") })
            }
            Change::Set(value) => value.clone(),
            Change::Scale { factor, bound } => {
                let old = known.and_then(Value::as_u64)?;
                #[expect(
                    clippy::cast_precision_loss,
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "bounded small numbers"
                )]
                let new = ((old as f64 * factor).round() as u64).min(*bound);
                Value::from(new.max(1))
            }
            Change::Drop => {
                known?;
                Value::Null
            }
        };
        (known != Some(&value)).then(|| json!({ "gene": self.gene, "value": value }))
    }
}

fn pick_from<'a>(
    node: &SeedTree,
    proposals: &'a [Proposal],
    genes: &BTreeMap<String, Value>,
    digest: &str,
) -> Option<(&'a Proposal, Vec<Value>)> {
    let open: Vec<(&Proposal, Vec<Value>)> = proposals.iter().filter_map(|p| Some((p, concrete(p, genes, digest)?))).collect();
    let place = usize::try_from(node.value() % (open.len().max(1) as u64)).ok()?;
    open.into_iter().nth(place)
}
