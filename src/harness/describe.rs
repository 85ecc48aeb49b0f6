//! The difference of two genomes for people and for scripts: numbers as `20 -> 40`, texts as lines, tools and rules as what they are.

use serde::Serialize;
use serde_json::Value;
use similar::{ChangeTag, TextDiff};

use super::{Domain, GeneChange, GenePath, domain};

/// How one gene differs.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum GeneDifference {
    /// A number or a name, of a gene or of a part of one (`tools.bash.timeout_seconds`).
    Value {
        /// Which.
        gene: String,
        /// Before.
        before: Value,
        /// After.
        after: Value,
    },
    /// A text, or a list of retry rules with one rule a line.
    Lines {
        /// Which.
        gene: String,
        /// The lines of both, in order.
        lines: Vec<DiffLine>,
    },
    /// A tool or a script that was not there.
    Added {
        /// Which.
        gene: String,
        /// What it is now.
        value: Value,
    },
    /// A tool or a script that is no longer there.
    Removed {
        /// Which.
        gene: String,
        /// What it was.
        value: Value,
    },
}

/// One line of a text that changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DiffLine {
    /// Whether it stayed.
    pub sign: DiffSign,
    /// The line, without its end.
    pub text: String,
}

/// Whether a line stayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DiffSign {
    /// In both.
    Kept,
    /// Only before.
    Removed,
    /// Only after.
    Added,
}

/// What the changes mean, gene by gene. A tool of which two parts changed gives two differences.
#[must_use]
pub fn differences(changes: &[GeneChange]) -> Vec<GeneDifference> {
    changes.iter().flat_map(difference).collect()
}

/// The changes as text, one paragraph of lines per difference:
///
/// ```text
/// limits.steps: 20 -> 40
/// prompt.routing:
///     Use the shell.
///   - Prefer the GUI.
/// tools.python: added
/// ```
#[must_use]
pub fn describe(changes: &[GeneChange]) -> String {
    differences(changes).iter().map(GeneDifference::text).collect::<Vec<_>>().join("\n")
}

impl GeneDifference {
    fn text(&self) -> String {
        match self {
            Self::Value { gene, before, after } => format!("{gene}: {} -> {}", bare(before), bare(after)),
            Self::Added { gene, .. } => format!("{gene}: added"),
            Self::Removed { gene, .. } => format!("{gene}: removed"),
            Self::Lines { gene, lines } => {
                let mut out = format!("{gene}:");
                for line in lines {
                    let sign = match line.sign {
                        DiffSign::Kept => ' ',
                        DiffSign::Removed => '-',
                        DiffSign::Added => '+',
                    };
                    out.push_str(format!("\n  {sign} {}", line.text).trim_end());
                }
                out
            }
        }
    }
}

fn difference(change: &GeneChange) -> Vec<GeneDifference> {
    let gene = change.path.to_string();
    match (&change.before, &change.after) {
        (None, None) => Vec::new(),
        (None, Some(value)) => vec![GeneDifference::Added { gene, value: value.clone() }],
        (Some(value), None) => vec![GeneDifference::Removed { gene, value: value.clone() }],
        (Some(before), Some(after)) => both(&change.path, before, after),
    }
}

fn both(path: &GenePath, before: &Value, after: &Value) -> Vec<GeneDifference> {
    let gene = path.to_string();
    match domain(path) {
        Some(Domain::RetryRules) => vec![GeneDifference::Lines { gene, lines: lines(&rules(before), &rules(after)) }],
        Some(Domain::Tool) => ["description", "timeout_seconds"]
            .into_iter()
            .filter_map(|part| Some((part, before.get(part)?, after.get(part)?)))
            .filter(|(_, before, after)| before != after)
            .map(|(part, before, after)| texts_or_values(format!("{gene}.{part}"), before, after))
            .collect(),
        _ => vec![texts_or_values(gene, before, after)],
    }
}

fn texts_or_values(gene: String, before: &Value, after: &Value) -> GeneDifference {
    let is_text = gene.starts_with("prompt.") || gene.starts_with("provisioning.") || gene.ends_with(".description");
    match (before.as_str(), after.as_str()) {
        (Some(before), Some(after)) if is_text => GeneDifference::Lines { gene, lines: lines(before, after) },
        _ => GeneDifference::Value { gene, before: before.clone(), after: after.clone() },
    }
}

fn lines(before: &str, after: &str) -> Vec<DiffLine> {
    TextDiff::from_lines(before, after)
        .iter_all_changes()
        .map(|change| DiffLine {
            sign: match change.tag() {
                ChangeTag::Equal => DiffSign::Kept,
                ChangeTag::Delete => DiffSign::Removed,
                ChangeTag::Insert => DiffSign::Added,
            },
            text: change.value().trim_end_matches('\n').to_owned(),
        })
        .collect()
}

/// One rule a line: `2 x exponential, 500 to 20000 ms, jitter 0.5: repair text`.
fn rules(value: &Value) -> String {
    let line = |rule: &Value| {
        let part = |key: &str| rule.get(key).map_or_else(String::new, bare);
        let repair = part("repair").replace('\n', " ");
        let tail = if repair.is_empty() { String::new() } else { format!(": {repair}") };
        format!(
            "{} x {}, {} to {} ms, jitter {}{tail}\n",
            part("attempts"),
            part("backoff"),
            part("delay_ms"),
            part("cap_ms"),
            part("jitter")
        )
    };
    value.as_array().map_or_else(String::new, |rules| rules.iter().map(line).collect())
}

/// A text without its quotes, anything else as JSON.
fn bare(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
