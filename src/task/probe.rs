//! Deciding a probe from a snapshot alone. Links are never followed: a link where a file is asked for fails the probe.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Probe, TaskError};
use crate::base::{Entry, Snapshot};

/// Characters of a piece of evidence at most.
const EVIDENCE_CHARS: usize = 400;
/// Characters of a text quoted inside evidence at most.
const QUOTE_CHARS: usize = 80;
/// Bytes a compiled regular expression may take.
const REGEX_BYTES: usize = 1 << 20;

/// What a probe found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Whether the probe holds.
    pub holds: bool,
    /// What was seen, in at most a few hundred characters.
    pub evidence: String,
}

impl Finding {
    /// A finding whose evidence is cut to a bounded length.
    #[must_use]
    pub fn new(holds: bool, evidence: &str) -> Self {
        Self { holds, evidence: shorten(evidence, EVIDENCE_CHARS) }
    }
}

impl Probe {
    /// Decides the probe from `workspace`; `None` for a [`Probe::Command`], which needs a sandbox.
    #[must_use]
    pub fn evaluate(&self, workspace: &Snapshot) -> Option<Finding> {
        let result = match self {
            Self::FileExists { path } => content(workspace, path).map(|_| format!("`{path}` is a file")),
            Self::FileAbsent { path } => absent(workspace, path),
            Self::FileEquals { path, text: wanted } => text(workspace, path).and_then(|found| equal_texts(path, found, wanted)),
            Self::FileContains { path, text: wanted } => text(workspace, path).and_then(|found| {
                if found.contains(wanted.as_str()) {
                    Ok(format!("`{path}` holds {}", quote(wanted)))
                } else {
                    Err(format!("`{path}` does not hold {}", quote(wanted)))
                }
            }),
            Self::FileMatches { path, pattern } => text(workspace, path).and_then(|found| matches(path, found, pattern)),
            Self::JsonEquals { path, value } => text(workspace, path).and_then(|found| equal_json(path, found, value)),
            Self::LinesEqual { path, lines } => text(workspace, path).and_then(|found| equal_lines(path, found, lines)),
            Self::FileMode { path, mode } => file_mode(workspace, path, mode),
            Self::LinkEquals { path, target } => link(workspace, path, target),
            Self::Command { .. } => return None,
        };
        Some(match result {
            Ok(evidence) => Finding::new(true, &evidence),
            Err(evidence) => Finding::new(false, &evidence),
        })
    }

    /// The kind of probe, as a TOML key.
    const fn kind(&self) -> &'static str {
        match self {
            Self::FileExists { .. } => "file_exists",
            Self::FileAbsent { .. } => "file_absent",
            Self::FileEquals { .. } => "file_equals",
            Self::FileContains { .. } => "file_contains",
            Self::FileMatches { .. } => "file_matches",
            Self::JsonEquals { .. } => "json_equals",
            Self::LinesEqual { .. } => "lines_equal",
            Self::FileMode { .. } => "file_mode",
            Self::LinkEquals { .. } => "link_equals",
            Self::Command { .. } => "command",
        }
    }

    /// Refuses a probe that could never be decided: a path outside the workspace, a bad expression, a bad mode.
    pub(super) fn validate(&self, part: &str) -> Result<(), TaskError> {
        let fail = |key: &str, reason: String| Err(TaskError::Part { part: format!("{part}.{}.{key}", self.kind()), reason });
        let path = match self {
            Self::FileExists { path }
            | Self::FileAbsent { path }
            | Self::FileEquals { path, .. }
            | Self::FileContains { path, .. }
            | Self::FileMatches { path, .. }
            | Self::JsonEquals { path, .. }
            | Self::LinesEqual { path, .. }
            | Self::FileMode { path, .. }
            | Self::LinkEquals { path, .. } => path,
            Self::Command { command, .. } => {
                return if command.trim().is_empty() { fail("command", "is empty".to_owned()) } else { Ok(()) };
            }
        };
        if let Err(error) = Snapshot::check_path(path) {
            return fail("path", error.to_string());
        }
        match self {
            Self::FileMatches { pattern, .. } => match compile(pattern) {
                Ok(_) => Ok(()),
                Err(error) => fail("pattern", format!("is not a regular expression: {error}")),
            },
            Self::FileMode { mode, .. } if parse_mode(mode).is_none() => {
                fail("mode", format!("`{mode}` is not a mode; write octal digits, for example \"640\""))
            }
            _ => Ok(()),
        }
    }
}

/// Permission bits from octal digits (`640`, `0640` or `0o640`).
pub(super) fn parse_mode(digits: &str) -> Option<u32> {
    let digits = digits.strip_prefix("0o").unwrap_or(digits);
    let octal = (1..=5).contains(&digits.len()) && digits.bytes().all(|b| matches!(b, b'0'..=b'7'));
    if octal { u32::from_str_radix(digits, 8).ok().filter(|mode| *mode <= 0o7777) } else { None }
}

/// What is at a path, in a word.
fn kind(entry: Option<&Entry>) -> &'static str {
    match entry {
        None => "nothing",
        Some(Entry::File { .. } | Entry::Bytes { .. }) => "a file",
        Some(Entry::Folder { .. }) => "a folder",
        Some(Entry::Link { .. }) => "a symbolic link",
        Some(Entry::Other) => "neither a file nor a folder",
    }
}

fn content<'a>(workspace: &'a Snapshot, path: &str) -> Result<&'a Entry, String> {
    match workspace.get(path) {
        Some(entry @ (Entry::File { .. } | Entry::Bytes { .. })) => Ok(entry),
        other => Err(format!("`{path}` is {}, not a file", kind(other))),
    }
}

fn text<'a>(workspace: &'a Snapshot, path: &str) -> Result<&'a str, String> {
    match content(workspace, path)? {
        Entry::File { text, .. } => Ok(text),
        _ => Err(format!("`{path}` is not UTF-8 text")),
    }
}

fn absent(workspace: &Snapshot, path: &str) -> Result<String, String> {
    let inside = format!("{path}/");
    match workspace.get(path) {
        None if !workspace.iter().any(|(other, _)| other.starts_with(&inside)) => Ok(format!("nothing at `{path}`")),
        None => Err(format!("`{path}` is a folder")),
        entry => Err(format!("`{path}` is {}", kind(entry))),
    }
}

fn equal_texts(path: &str, found: &str, wanted: &str) -> Result<String, String> {
    let (found, wanted) = (found.trim_end(), wanted.trim_end());
    if found == wanted {
        return Ok(format!("`{path}` is as expected"));
    }
    let mut lines = (found.split('\n'), wanted.split('\n'));
    let mut number = 1;
    loop {
        match (lines.0.next(), lines.1.next()) {
            (Some(a), Some(b)) if a == b => number += 1,
            (Some(a), Some(b)) => return Err(format!("`{path}` line {number}: found {}, expected {}", quote(a), quote(b))),
            (Some(a), None) => return Err(format!("`{path}` line {number}: found {}, expected the end", quote(a))),
            (None, Some(b)) => return Err(format!("`{path}` ends before line {number}, expected {}", quote(b))),
            (None, None) => return Err(format!("`{path}` differs")),
        }
    }
}

fn compile(pattern: &str) -> Result<regex::Regex, regex::Error> {
    regex::RegexBuilder::new(pattern).size_limit(REGEX_BYTES).build()
}

fn matches(path: &str, found: &str, pattern: &str) -> Result<String, String> {
    let regex = compile(pattern).map_err(|error| format!("the expression is not one: {error}"))?;
    match regex.find(found) {
        Some(hit) => Ok(format!("`{path}` matches at {}", quote(hit.as_str()))),
        None => Err(format!("`{path}` does not match {}", quote(pattern))),
    }
}

fn equal_json(path: &str, found: &str, wanted: &Value) -> Result<String, String> {
    let found: Value = serde_json::from_str(found).map_err(|error| format!("`{path}` is not JSON: {error}"))?;
    match json_difference(&found, wanted, "$") {
        None => Ok(format!("`{path}` is as expected")),
        Some(difference) => Err(format!("`{path}` {difference}")),
    }
}

/// The first difference between two JSON values; numbers may differ by 1e-9 of the larger one.
fn json_difference(found: &Value, wanted: &Value, at: &str) -> Option<String> {
    let differ = || Some(format!("at {}: found {}, expected {}", quote(at), quote(&found.to_string()), quote(&wanted.to_string())));
    match (found, wanted) {
        (Value::Number(a), Value::Number(b)) => {
            if a == b {
                return None;
            }
            let (Some(a), Some(b)) = (a.as_f64(), b.as_f64()) else { return differ() };
            if (a - b).abs() <= 1e-9 * a.abs().max(b.abs()) { None } else { differ() }
        }
        (Value::Array(a), Value::Array(b)) => {
            if a.len() != b.len() {
                return Some(format!("at {}: found {} items, expected {}", quote(at), a.len(), b.len()));
            }
            a.iter().zip(b).enumerate().find_map(|(index, (a, b))| json_difference(a, b, &format!("{at}[{index}]")))
        }
        (Value::Object(a), Value::Object(b)) => {
            let missing = b.keys().find(|key| !a.contains_key(*key)).map(|key| format!("at {}: no key {}", quote(at), quote(key)));
            let extra = || a.keys().find(|key| !b.contains_key(*key)).map(|key| format!("at {}: extra key {}", quote(at), quote(key)));
            let inside = || a.iter().find_map(|(key, item)| b.get(key).and_then(|b| json_difference(item, b, &format!("{at}.{key}"))));
            missing.or_else(extra).or_else(inside)
        }
        _ if found == wanted => None,
        _ => differ(),
    }
}

fn equal_lines(path: &str, found: &str, wanted: &[String]) -> Result<String, String> {
    // Found counts up, wanted counts down: what is left over differs.
    let mut balance: BTreeMap<&str, i64> = BTreeMap::new();
    for line in found.lines().map(str::trim_end).filter(|line| !line.is_empty()) {
        *balance.entry(line).or_default() += 1;
    }
    for line in wanted.iter().map(|line| line.trim_end()).filter(|line| !line.is_empty()) {
        *balance.entry(line).or_default() -= 1;
    }
    let missing = balance.iter().find(|(_, count)| **count < 0);
    let extra = balance.iter().find(|(_, count)| **count > 0);
    match (missing, extra) {
        (None, None) => Ok(format!("`{path}` has the {} lines", wanted.len())),
        (Some((line, _)), None) => Err(format!("`{path}` lacks the line {}", quote(line))),
        (None, Some((line, _))) => Err(format!("`{path}` has a line too many: {}", quote(line))),
        (Some((lacks, _)), Some((has, _))) => Err(format!("`{path}` lacks the line {} and has {} instead", quote(lacks), quote(has))),
    }
}

fn file_mode(workspace: &Snapshot, path: &str, wanted: &str) -> Result<String, String> {
    let bits = parse_mode(wanted).ok_or_else(|| format!("`{wanted}` is not a mode"))?;
    match workspace.get(path) {
        Some(Entry::File { mode, .. } | Entry::Bytes { mode, .. } | Entry::Folder { mode }) if mode & 0o7777 == bits => {
            Ok(format!("`{path}` has mode {bits:o}"))
        }
        Some(Entry::File { mode, .. } | Entry::Bytes { mode, .. } | Entry::Folder { mode }) => {
            Err(format!("`{path}` has mode {:o}, expected {bits:o}", mode & 0o7777))
        }
        other => Err(format!("`{path}` is {}", kind(other))),
    }
}

fn link(workspace: &Snapshot, path: &str, wanted: &str) -> Result<String, String> {
    match workspace.get(path) {
        Some(Entry::Link { target }) if target == wanted => Ok(format!("`{path}` points to {}", quote(target))),
        Some(Entry::Link { target }) => Err(format!("`{path}` points to {}, expected {}", quote(target), quote(wanted))),
        other => Err(format!("`{path}` is {}, not a symbolic link", kind(other))),
    }
}

fn quote(text: &str) -> String {
    format!("`{}`", shorten(&text.escape_debug().to_string(), QUOTE_CHARS))
}

/// The first `chars` characters of `text`, with a mark where something was left out.
pub(crate) fn shorten(text: &str, chars: usize) -> String {
    match text.char_indices().nth(chars) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workspace() -> Snapshot {
        let mut files = Snapshot::new();
        files.insert_text("a.txt", "one\ntwo\n\n").unwrap();
        files.insert_text("d/n.json", r#"{"x": [1, 2.0000000001], "y": null}"#).unwrap();
        files.insert("s.sh", Entry::File { text: String::new(), mode: 0o100_750 }).unwrap();
        files.insert("l", Entry::Link { target: "a.txt".to_owned() }).unwrap();
        files.insert("raw", Entry::Bytes { bytes: vec![0xff], mode: 0o600 }).unwrap();
        files
    }

    fn holds(probe: &str) -> bool {
        let probe: Probe = serde_json::from_str(probe).unwrap();
        probe.validate("probe").unwrap();
        let finding = probe.evaluate(&workspace()).unwrap();
        assert!(finding.evidence.chars().count() <= EVIDENCE_CHARS + 1 && !finding.evidence.is_empty());
        finding.holds
    }

    #[test]
    fn probes_hold_where_they_should_and_only_there() {
        for (probe, expected) in [
            (r#"{"file_exists": {"path": "a.txt"}}"#, true),
            (r#"{"file_exists": {"path": "raw"}}"#, true),
            (r#"{"file_exists": {"path": "d"}}"#, false),
            (r#"{"file_absent": {"path": "b"}}"#, true),
            (r#"{"file_absent": {"path": "a.txt"}}"#, false),
            (r#"{"file_absent": {"path": "d"}}"#, false),
            (r#"{"file_absent": {"path": "l"}}"#, false),
            (r#"{"file_equals": {"path": "a.txt", "text": "one\ntwo"}}"#, true),
            (r#"{"file_equals": {"path": "a.txt", "text": "one\n two"}}"#, false),
            (r#"{"file_equals": {"path": "a.txt", "text": "one"}}"#, false),
            (r#"{"file_contains": {"path": "a.txt", "text": "e\nt"}}"#, true),
            (r#"{"file_contains": {"path": "raw", "text": ""}}"#, false),
            (r#"{"file_matches": {"path": "a.txt", "pattern": "(?m)^two$"}}"#, true),
            (r#"{"file_matches": {"path": "a.txt", "pattern": "^two"}}"#, false),
            (r#"{"json_equals": {"path": "d/n.json", "value": {"y": null, "x": [1.0, 2]}}}"#, true),
            (r#"{"json_equals": {"path": "d/n.json", "value": {"y": null, "x": [1.0, 2.00000001]}}}"#, false),
            (r#"{"json_equals": {"path": "d/n.json", "value": {"x": [1, 2]}}}"#, false),
            (r#"{"json_equals": {"path": "a.txt", "value": 1}}"#, false),
            (r#"{"lines_equal": {"path": "a.txt", "lines": ["two", "one"]}}"#, true),
            (r#"{"lines_equal": {"path": "a.txt", "lines": ["two", "one", "one"]}}"#, false),
            (r#"{"lines_equal": {"path": "a.txt", "lines": ["one"]}}"#, false),
            (r#"{"file_mode": {"path": "s.sh", "mode": "750"}}"#, true),
            (r#"{"file_mode": {"path": "s.sh", "mode": "0o755"}}"#, false),
            (r#"{"link_equals": {"path": "l", "target": "a.txt"}}"#, true),
            (r#"{"link_equals": {"path": "l", "target": "./a.txt"}}"#, false),
            (r#"{"link_equals": {"path": "a.txt", "target": "a.txt"}}"#, false),
        ] {
            assert_eq!(holds(probe), expected, "{probe}");
        }
    }

    #[test]
    fn a_link_in_place_of_a_file_fails_every_probe_of_a_file() {
        for probe in [
            r#"{"file_exists": {"path": "l"}}"#,
            r#"{"file_equals": {"path": "l", "text": "one\ntwo"}}"#,
            r#"{"file_contains": {"path": "l", "text": "one"}}"#,
            r#"{"file_matches": {"path": "l", "pattern": "one"}}"#,
            r#"{"lines_equal": {"path": "l", "lines": ["one", "two"]}}"#,
            r#"{"file_mode": {"path": "l", "mode": "644"}}"#,
        ] {
            assert!(!holds(probe), "{probe}");
        }
    }

    #[test]
    fn a_command_needs_a_sandbox() {
        let probe: Probe = serde_json::from_str(r#"{"command": {"command": "true"}}"#).unwrap();
        assert_eq!(probe.evaluate(&workspace()), None);
    }

    #[test]
    fn probes_that_cannot_be_decided_are_refused() {
        for probe in [
            r#"{"file_exists": {"path": "../a"}}"#,
            r#"{"file_exists": {"path": "/etc/passwd"}}"#,
            r#"{"file_matches": {"path": "a", "pattern": "("}}"#,
            r#"{"file_matches": {"path": "a", "pattern": "(?:a{1000}){1000}"}}"#,
            r#"{"file_mode": {"path": "a", "mode": "rw-"}}"#,
            r#"{"file_mode": {"path": "a", "mode": "0o99"}}"#,
            r#"{"command": {"command": " "}}"#,
        ] {
            assert!(serde_json::from_str::<Probe>(probe).unwrap().validate("probe").is_err(), "{probe}");
        }
    }

    #[test]
    fn evidence_is_bounded_whatever_the_file_holds() {
        let mut files = Snapshot::new();
        files.insert_text("a", &"x".repeat(1 << 20)).unwrap();
        let probe = Probe::FileEquals { path: "a".to_owned(), text: "y".repeat(1 << 20) };
        assert!(probe.evaluate(&files).unwrap().evidence.chars().count() < 300);
    }
}
