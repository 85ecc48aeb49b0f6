//! A structured edit of a harness, as a rewriting model answers: parsed from its reply, checked, applied.

use std::collections::{BTreeMap, HashSet};

use serde::Deserialize;
use serde_json::Value;

use super::Hypothesis;
use crate::harness::{GenePath, Genome, Harness, HarnessError};
use crate::task::SearchTask;

/// Bytes of a reply that are looked at.
const REPLY_BYTES: usize = 256 * 1024;
/// Starts of JSON that are tried in one reply.
const CANDIDATES: usize = 32;
/// A run of this many characters in common with an instruction is no coincidence.
const OVERLAP: usize = 40;
/// Shorter file names are too common to mean anything.
const PATH_BYTES: usize = 6;

/// One gene that is set, or, with `None`, taken away.
#[derive(Debug, Clone, PartialEq)]
pub struct Assignment {
    /// Which gene.
    pub path: GenePath,
    /// Its new value; `None` takes a tool or a helper script away.
    pub value: Option<Value>,
}

/// An edit that is valid for the harness it was parsed for.
#[derive(Debug, Clone, PartialEq)]
pub struct Edit {
    /// The genes that change.
    pub assignments: Vec<Assignment>,
    /// What is expected of it.
    pub hypothesis: Hypothesis,
    /// The child.
    pub child: Harness,
}

/// A reply that is not an edit. None of these is the parent's fault: the proposal is refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum EditError {
    /// There is no JSON object with `edits` in the reply.
    #[error("the reply holds no JSON object with a list `edits`: {0}")]
    NoEdit(String),
    /// The list is too long.
    #[error("the edit changes {given} genes; at most {most} are allowed")]
    TooMany {
        /// How many there are.
        given: usize,
        /// How many are allowed.
        most: usize,
    },
    /// A gene that does not exist, or a value it cannot take away.
    #[error("`{gene}`: {reason}")]
    Gene {
        /// As written.
        gene: String,
        /// What is wrong and what is right.
        reason: String,
    },
    /// The edited genes are not a harness.
    #[error(transparent)]
    Harness(#[from] HarnessError),
    /// The child would be its parent.
    #[error("the edit changes nothing")]
    NoChange,
    /// The edit speaks of the tasks it was shown instead of their kind.
    #[error("`{gene}` repeats a text of a task (`{text}`); guidance must hold for tasks nobody has seen")]
    Leakage {
        /// The gene.
        gene: GenePath,
        /// What it repeats.
        text: String,
    },
}

/// Texts of tasks that no edit may repeat.
#[derive(Debug, Clone, Default)]
pub struct TaskTexts {
    /// Runs of [`OVERLAP`] characters of the instructions.
    runs: HashSet<Vec<char>>,
    /// File names.
    paths: Vec<String>,
}

#[derive(Deserialize)]
struct EditSpec {
    edits: Vec<AssignmentSpec>,
    #[serde(default)]
    hypothesis: HypothesisSpec,
}

#[derive(Deserialize)]
struct AssignmentSpec {
    gene: String,
    // A missing value is not the same as null, which takes a tool away.
    value: Value,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct HypothesisSpec {
    text: String,
    fixes: Vec<String>,
    risks: Vec<String>,
}

impl Edit {
    /// Reads an edit of `parent` from a model's reply. White space, code fences and prose around the JSON are ignored.
    ///
    /// # Errors
    /// See [`EditError`].
    pub fn parse(reply: &str, parent: &Genome, most: usize, tasks: &TaskTexts) -> Result<Self, EditError> {
        let spec = find_spec(clip(reply, REPLY_BYTES))?;
        if spec.edits.len() > most {
            return Err(EditError::TooMany { given: spec.edits.len(), most });
        }
        let before = parent.genes()?;
        let mut after = before.clone();
        for edit in &spec.edits {
            let path = known_gene(edit, &before)?;
            match &edit.value {
                Value::Null => after.remove(&path),
                value => after.insert(path, value.clone()),
            };
        }
        let child = Harness::new(Genome::from_genes(&after)?)?;
        // Defaults and number forms are those of the genome, not of the reply.
        let settled = child.genome().genes()?;
        let assignments = changes(&before, &settled);
        if assignments.is_empty() {
            return Err(EditError::NoChange);
        }
        tasks.refuse_leaks(&assignments, &before)?;
        let HypothesisSpec { text, fixes, risks } = spec.hypothesis;
        Ok(Self { assignments, hypothesis: bounded(text, fixes, risks), child })
    }
}

impl TaskTexts {
    /// The texts of `tasks`.
    pub fn new<'a>(tasks: impl IntoIterator<Item = &'a SearchTask>) -> Self {
        let mut texts = Self::default();
        for task in tasks {
            let body = task.task().body();
            let instruction = plain(&body.instruction);
            texts.runs.extend(instruction.windows(OVERLAP).map(<[char]>::to_vec));
            let paths = body.files.iter().map(|(path, _)| path).filter(|path| path.len() >= PATH_BYTES);
            texts.paths.extend(paths.map(str::to_lowercase));
        }
        texts.paths.sort_unstable();
        texts.paths.dedup();
        texts
    }

    fn refuse_leaks(&self, assignments: &[Assignment], before: &BTreeMap<GenePath, Value>) -> Result<(), EditError> {
        for assignment in assignments {
            let Some(value) = &assignment.value else { continue };
            let old = before.get(&assignment.path).map(flat_text).unwrap_or_default();
            let new = flat_text(value);
            if let Some(text) = self.leak(&new, &old) {
                return Err(EditError::Leakage { gene: assignment.path.clone(), text });
            }
        }
        Ok(())
    }

    /// What `new` repeats of the tasks that `old` did not.
    fn leak(&self, new: &str, old: &str) -> Option<String> {
        let (text, known) = (plain(new), old.to_lowercase());
        let known_runs: String = plain(old).into_iter().collect();
        let run = text.windows(OVERLAP).find(|run| self.runs.contains(*run) && !known_runs.contains(&run.iter().collect::<String>()));
        let lower = new.to_lowercase();
        let path = || self.paths.iter().find(|path| names(&lower, path) && !names(&known, path)).cloned();
        run.map(|run| run.iter().collect()).or_else(path)
    }
}

/// Whether `text` holds `path` as a word of its own.
fn names(text: &str, path: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
    text.match_indices(path).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + path.len()..].chars().next();
        !before.is_some_and(part) && !after.is_some_and(part)
    })
}

/// Lower case, runs of white space as one blank.
fn plain(text: &str) -> Vec<char> {
    text.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase().chars().collect()
}

/// All texts inside a value.
fn flat_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(flat_text).collect::<Vec<_>>().join("\n"),
        Value::Object(map) => map.values().map(flat_text).collect::<Vec<_>>().join("\n"),
        _ => String::new(),
    }
}

fn bounded(text: String, fixes: Vec<String>, risks: Vec<String>) -> Hypothesis {
    let short = |list: Vec<String>| list.into_iter().take(8).map(|item| clip(&item, 400).to_owned()).collect();
    Hypothesis { text: clip(&text, 1000).to_owned(), fixes: short(fixes), risks: short(risks) }
}

/// At most `bytes` bytes of `text`, cut between characters.
pub(super) fn clip(text: &str, bytes: usize) -> &str {
    let mut end = text.len().min(bytes);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// The first JSON object of the reply that is an edit.
fn find_spec(reply: &str) -> Result<EditSpec, EditError> {
    let mut reason = "there is no `{`".to_owned();
    let mut start = 0;
    for _ in 0..CANDIDATES {
        let Some(found) = reply[start..].find('{') else { break };
        start += found;
        let mut stream = serde_json::Deserializer::from_str(&reply[start..]).into_iter::<Value>();
        let step = match stream.next() {
            Some(Ok(value)) if value.get("edits").is_some() => {
                return serde_json::from_value(value).map_err(|error| EditError::NoEdit(error.to_string()));
            }
            // Another object: what stands inside it is not the answer.
            Some(Ok(_)) => stream.byte_offset(),
            Some(Err(error)) => {
                reason = error.to_string();
                1
            }
            None => 1,
        };
        start += step;
    }
    Err(EditError::NoEdit(reason))
}

fn known_gene(edit: &AssignmentSpec, genes: &BTreeMap<GenePath, Value>) -> Result<GenePath, EditError> {
    let refuse = |reason: String| Err(EditError::Gene { gene: clip(&edit.gene, 100).to_owned(), reason });
    let Ok(path) = edit.gene.parse::<GenePath>() else {
        return refuse("is not the address of a gene; expected `section.key`".to_owned());
    };
    let open = matches!(path.section(), "tools" | "provisioning");
    if edit.value.is_null() && !open {
        return refuse("cannot be taken away; only tools and helper scripts can".to_owned());
    }
    if !open && !genes.contains_key(&path) {
        let near = genes.keys().max_by(|a, b| {
            let likeness = |path: &GenePath| strsim::jaro_winkler(path.as_str(), &edit.gene);
            likeness(a).total_cmp(&likeness(b))
        });
        let hint = near.map(|path| format!("; the nearest is `{path}`")).unwrap_or_default();
        return refuse(format!("there is no such gene{hint}"));
    }
    Ok(path)
}

fn changes(before: &BTreeMap<GenePath, Value>, after: &BTreeMap<GenePath, Value>) -> Vec<Assignment> {
    let mut paths: Vec<&GenePath> = before.keys().chain(after.keys()).collect();
    paths.sort_unstable();
    paths.dedup();
    let changed = paths.into_iter().filter(|path| before.get(path) != after.get(path));
    changed.map(|path| Assignment { path: path.clone(), value: after.get(path).cloned() }).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::base::Snapshot;
    use crate::task::{
        Act, ActCall, ActRole, Check, CheckItem, JobType, Probe, SkillName, Split, SplitTasks, Stake, Task, TaskBody, TaskLimits,
    };

    fn parse(reply: &str) -> Result<Edit, EditError> {
        Edit::parse(reply, &Genome::offering([crate::harness::ToolName::Bash, crate::harness::ToolName::Finish]), 3, &TaskTexts::default())
    }

    #[test]
    fn an_edit_is_found_in_fences_and_prose() {
        let json = r#"{"edits":[{"gene":"limits.steps","value":31}],"hypothesis":{"text":"more room","fixes":["cut off"],"risks":[]}}"#;
        for reply in [json.to_owned(), format!("Here {{it}} is:\n```json\n{json}\n```\nGood luck {{}}"), format!("{{\"note\": 1}} {json}")]
        {
            let edit = parse(&reply).unwrap();
            assert_eq!(edit.child.genome().limits.steps, 31, "{reply}");
            assert_eq!(edit.hypothesis.text, "more room");
            assert_eq!(edit.assignments.len(), 1);
        }
    }

    #[test]
    fn tools_are_added_and_taken_away() {
        let edit = parse(r#"{"edits":[{"gene":"tools.bash","value":{}}]}"#).unwrap();
        let with_bash = edit.child.genome().clone();
        assert_eq!(with_bash.tools.len(), 1);
        let edit = Edit::parse(r#"{"edits":[{"gene":"tools.bash","value":null}]}"#, &with_bash, 3, &TaskTexts::default()).unwrap();
        assert!(edit.child.genome().tools.is_empty());
    }

    #[test]
    fn what_is_no_edit_is_refused() {
        assert!(matches!(parse("I would rather not."), Err(EditError::NoEdit(_))));
        assert!(matches!(parse(r#"{"edits":[{"gene":"limits.steps"}]}"#), Err(EditError::NoEdit(_))));
        assert!(matches!(parse(r#"{"edits":[{"gene":"limits.steps","value":"#), Err(EditError::NoEdit(_))));
        assert!(matches!(parse(r#"{"edits":[]}"#), Err(EditError::NoChange)));
        assert!(matches!(parse(r#"{"edits":[{"gene":"limits.steps","value":20}]}"#), Err(EditError::NoChange)));
        assert!(matches!(parse(r#"{"edits":[{"gene":"limits.steps","value":"many"}]}"#), Err(EditError::Harness(_))));
        assert!(matches!(parse(r#"{"edits":[{"gene":"limits.steps","value":null}]}"#), Err(EditError::Gene { .. })));
        match parse(r#"{"edits":[{"gene":"limits.step","value":5}]}"#).unwrap_err() {
            EditError::Gene { reason, .. } => assert!(reason.contains("limits.steps"), "{reason}"),
            other => panic!("{other}"),
        }
        let four: Vec<String> = (0..4).map(|i| format!(r#"{{"gene":"tools.t{i}","value":{{}}}}"#)).collect();
        assert!(matches!(parse(&format!(r#"{{"edits":[{}]}}"#, four.join(","))), Err(EditError::TooMany { given: 4, most: 3 })));
    }

    fn search_task() -> SearchTask {
        let mut files = Snapshot::new();
        files.insert_text("ledger/amber_q3.csv", "a\n").unwrap();
        let body = |salt: u32| TaskBody {
            job_type: JobType::new("data").unwrap(),
            skill: SkillName::new("sum").unwrap(),
            instruction: format!("Add up the amounts of ledger/amber_q3.csv per branch and write them to totals.csv ({salt})."),
            files: files.clone(),
            limits: TaskLimits::default(),
            check: Check {
                items: vec![CheckItem { name: "t".into(), stake: Stake::Credit, probe: Probe::FileExists { path: "totals.csv".into() } }],
            },
            solution: vec![Act { call: ActCall::Run { command: "true".into() }, role: ActRole::Work, evidence: None, slip: None }],
            broken: Vec::new(),
        };
        let task = (0..100).map(|salt| Task::new(body(salt)).unwrap()).find(|task| task.split() == Split::Search).unwrap();
        SplitTasks::new(vec![Arc::new(task)]).search.remove(0)
    }

    #[test]
    fn an_edit_that_speaks_of_a_task_is_refused() {
        let texts = TaskTexts::new([&search_task()]);
        let edit = |text: &str, parent: &Genome| {
            let value = serde_json::json!({ "edits": [{ "gene": "prompt.routing", "value": text }] });
            Edit::parse(&value.to_string(), parent, 3, &texts)
        };
        let empty = Genome::offering([crate::harness::ToolName::Bash, crate::harness::ToolName::Finish]);
        assert!(matches!(edit("Read ledger/amber_q3.csv first.", &empty), Err(EditError::Leakage { .. })));
        let copied = "If told to add up the  Amounts of ledgers: add up the amounts of ledger/amber_q3.csv per branch.";
        assert!(matches!(edit(copied, &empty), Err(EditError::Leakage { .. })));
        assert!(edit("Add up amounts per branch with a program; my_ledger/amber_q3.csv_old is another file.", &empty).is_ok());
        // What the parent says already is not the edit's doing.
        let mut parent = Genome::offering([crate::harness::ToolName::Bash, crate::harness::ToolName::Finish]);
        parent.prompt.routing = "Read ledger/amber_q3.csv first.".to_owned();
        assert!(edit("Read ledger/amber_q3.csv first. Then compute.", &parent).is_ok());
    }

    #[test]
    fn huge_and_deep_replies_are_bounded() {
        assert!(parse(&"{".repeat(1_000_000)).is_err());
        assert!(parse(&"[{\"a\":".repeat(100_000)).is_err());
    }
}
