//! Tests the agent never sees.

use serde_json::Value;

use crate::base::{Snapshot, SnapshotError};
use crate::forge::vocabulary::Dice;
use crate::task::Probe;

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
    files.insert_text("hidden_test.py", &format!("import json\n\n{body}\nprint({})\n", literal(&Value::from(word.as_str()))))?;
    Ok(Probe::Command { command: format!("{PYTHON} hidden_test.py"), files, exit: 0, stdout_contains: Some(word) })
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
