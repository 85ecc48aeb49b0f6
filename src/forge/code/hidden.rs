//! Tests the agent never sees.

use serde_json::Value;

use crate::base::{Entry, Snapshot, SnapshotError};
use crate::forge::ForgeError;
use crate::forge::vocabulary::Dice;
use crate::task::{Probe, TaskBody};

/// How programs run in solutions and checks: compiled files an earlier run left are neither read nor written, because one that is as
/// old and as long as the changed source would be taken for it.
pub(super) const PYTHON: &str = "python3 -B -X pycache_prefix=/tmp/none";

/// The arguments of a call and what it must return.
pub(super) type Case = (Vec<Value>, Value);

/// A probe that runs `body` and wants it to reach its end. The word it prints there is in no file the agent saw, so that a program
/// which ends the interpreter early does not pass.
pub(super) fn test(dice: &mut Dice, body: &str) -> Result<Probe, SnapshotError> {
    let word = format!("end of test {}", dice.code());
    let mut files = Snapshot::new();
    files.insert_text(FILE, &format!("import json\n\n{body}\nprint({})\n", literal(&Value::from(word.as_str()))))?;
    Ok(Probe::Command { command: format!("{PYTHON} {FILE}"), files, exit: 0, stdout_contains: Some(word) })
}

/// Where a hidden test stands while the check runs.
const FILE: &str = "hidden_test.py";

/// Runs each test in a child of its own, so that none sees what another imported or left behind, at the price of one interpreter.
const RUNNER: &str = r#"import os
import sys
import traceback

def test(text):
    child = os.fork()
    if child == 0:
        status = 1
        try:
            exec(compile(text, "hidden test", "exec"), {"__name__": "hidden_test"})
            status = 0
        except BaseException:
            traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    os.waitpid(child, 0)

"#;

/// `body` with all its hidden tests in one file: the probes name the same command and files, so that a check runs them once, and
/// each looks for its own end word.
pub(super) fn joined(mut body: TaskBody) -> Result<TaskBody, ForgeError> {
    let command = format!("{PYTHON} {FILE}");
    let mut script = RUNNER.to_owned();
    for item in &body.check.items {
        if let Some(text) = hidden_text(&item.probe, &command) {
            script.push_str(&format!("test({})\n", literal(&Value::from(text))));
        }
    }
    let mut files = Snapshot::new();
    files.insert_text(FILE, &script)?;
    for item in &mut body.check.items {
        if hidden_text(&item.probe, &command).is_some()
            && let Probe::Command { files: own, .. } = &mut item.probe
        {
            *own = files.clone();
        }
    }
    Ok(body)
}

/// The test of a probe made by [`test`].
fn hidden_text<'a>(probe: &'a Probe, hidden: &str) -> Option<&'a str> {
    let Probe::Command { command, files, .. } = probe else { return None };
    match files.get(FILE) {
        Some(Entry::File { text, .. }) if command == hidden => Some(text),
        _ => None,
    }
}

/// Python text that asserts `cases` of the function `function`, which must be in scope.
pub(super) fn assertions(function: &str, cases: &[Case]) -> String {
    let cases: Vec<Value> = cases.iter().map(|(arguments, expected)| serde_json::json!([arguments, expected])).collect();
    format!(
        "for arguments, expected in json.loads({}):\n    got = json.loads(json.dumps({function}(*arguments)))\n    assert got == expected, (arguments, got, expected)\n",
        literal(&Value::from(Value::from(cases).to_string()))
    )
}

/// A JSON string is a Python string literal too.
pub(super) fn literal(text: &Value) -> String {
    text.to_string()
}
