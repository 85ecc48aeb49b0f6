//! Playing an act through the tools at hand: which tool, which arguments, and how it looks when it goes wrong.

use serde_json::{Value, json};

use super::conversation::Call;
use crate::base::{Entry, Snapshot};
use crate::task::ActCall;

/// What an act was squeezed through; each has its own chance of going wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Route {
    /// A tool made for it.
    Direct,
    /// A file written by a here-document.
    WriteThroughShell,
    /// A text replaced by a program.
    EditThroughProgram,
    /// A Python program in a here-document.
    PythonThroughShell,
    /// A command through Python.
    ShellThroughPython,
}

/// The call that plays `call` with the tools `offered`, and the route it takes; `None` when no tool fits.
pub(super) fn render(call: &ActCall, offered: &[String]) -> Option<(Call, Route)> {
    let has = |name: &str| offered.iter().any(|tool| tool == name);
    let python = |code: String, route: Route| Some((Call::new("python", json!({ "code": code })), route));
    let bash = |command: String, route: Route| Some((Call::new("bash", json!({ "command": command })), route));
    match call {
        ActCall::Run { command } if has("bash") => bash(command.clone(), Route::Direct),
        ActCall::Run { command } if has("python") => python(shell_program(command), Route::ShellThroughPython),
        ActCall::Python { code } if has("python") => python(code.clone(), Route::Direct),
        ActCall::Python { code } if has("bash") => bash(here_document("python3 -", code), Route::PythonThroughShell),
        ActCall::Write { path, content } if has("write_file") => {
            Some((Call::new("write_file", json!({ "path": path, "content": content })), Route::Direct))
        }
        ActCall::Write { path, content } if has("bash") => bash(write_command(path, content), Route::WriteThroughShell),
        ActCall::Write { path, content } if has("python") => python(write_program(path, content), Route::EditThroughProgram),
        ActCall::Edit { path, find, replace } if has("edit_file") => {
            Some((Call::new("edit_file", json!({ "path": path, "find": find, "replace": replace })), Route::Direct))
        }
        ActCall::Edit { path, find, replace } if has("python") => python(edit_program(path, find, replace), Route::EditThroughProgram),
        ActCall::Edit { path, find, replace } if has("bash") => {
            bash(here_document("python3 -", &edit_program(path, find, replace)), Route::EditThroughProgram)
        }
        ActCall::Read { path } if has("read_file") => Some((Call::new("read_file", json!({ "path": path })), Route::Direct)),
        ActCall::Read { path } if has("bash") => bash(format!("cat {}", quoted(path)), Route::Direct),
        ActCall::Read { path } if has("python") => python(format!("print(open({}).read())", literal(path)), Route::Direct),
        _ => None,
    }
}

/// The same call with a blunder in it that makes it fail and change nothing.
pub(super) fn broken(call: &Call) -> Call {
    let mut arguments = call.arguments.clone();
    if let Value::Object(map) = &mut arguments {
        match call.name.as_str() {
            "bash" => {
                if let Some(Value::String(command)) = map.get_mut("command") {
                    *command = misspelt(command);
                }
            }
            "python" => {
                if let Some(Value::String(code)) = map.get_mut("code") {
                    *code = format!("import ospath\n{code}");
                }
            }
            "write_file" => {
                map.remove("content");
            }
            "edit_file" => {
                if let Some(Value::String(find)) = map.get_mut("find") {
                    find.push_str(" ~");
                }
            }
            _ => {
                if let Some(Value::String(path)) = map.get_mut("path") {
                    path.push_str(".orig");
                }
            }
        }
    }
    Call::new(&call.name, arguments)
}

/// A command that the shell refuses as a whole: a program name with a letter twice, or, where later parts would still run, a
/// parenthesis too many in front.
fn misspelt(command: &str) -> String {
    let one = !command.contains(['\n', ';', '|', '&', '>']);
    match command.chars().next() {
        Some(first) if one && first.is_ascii_alphabetic() => format!("{first}{command}"),
        _ => format!(") {command}"),
    }
}

/// `call` with `evidence` misread: `None` when the text does not occur in it.
pub(super) fn misread(call: &ActCall, evidence: &str) -> Option<ActCall> {
    let wrong = garbled(evidence);
    let swap = |text: &String| if text.contains(evidence) { Some(text.replace(evidence, &wrong)) } else { None };
    match call {
        ActCall::Run { command } => swap(command).map(|command| ActCall::Run { command }),
        ActCall::Python { code } => swap(code).map(|code| ActCall::Python { code }),
        ActCall::Write { path, content } => swap(content).map(|content| ActCall::Write { path: path.clone(), content }),
        ActCall::Edit { path, find, replace } => {
            swap(replace).map(|replace| ActCall::Edit { path: path.clone(), find: find.clone(), replace })
        }
        ActCall::Read { .. } => None,
    }
}

/// A text that looks like `text`: its last digit is one higher, or its last letter is missing.
fn garbled(text: &str) -> String {
    let mut chars: Vec<char> = text.chars().collect();
    if let Some(place) = chars.iter().rposition(char::is_ascii_digit) {
        let digit = chars[place].to_digit(10).unwrap_or(0);
        chars[place] = char::from_digit((digit + 1) % 10, 10).unwrap_or('0');
    } else {
        chars.pop();
    }
    chars.into_iter().collect()
}

/// How an edit that went wrong is mended.
pub(super) enum Mending {
    /// One edit from the wrong text to the right one.
    Amend(ActCall),
    /// The wrong edit is taken back first.
    Undo(ActCall),
    /// The act itself is played again.
    Again,
}

/// How `right` is reached after `slip` was played in its place.
pub(super) fn mending(right: &ActCall, slip: Option<&ActCall>) -> Mending {
    let (ActCall::Edit { path, find, replace }, Some(ActCall::Edit { path: slip_path, find: slip_find, replace: slip_replace })) =
        (right, slip)
    else {
        return Mending::Again;
    };
    if slip_replace.is_empty() {
        Mending::Again
    } else if path == slip_path && find == slip_find {
        Mending::Amend(ActCall::Edit { path: path.clone(), find: slip_replace.clone(), replace: replace.clone() })
    } else {
        Mending::Undo(ActCall::Edit { path: slip_path.clone(), find: slip_replace.clone(), replace: slip_find.clone() })
    }
}

/// Ways to see `evidence`, the likeliest first: the lines around it in a file of the initial state, then the last look at the
/// state again, searched.
pub(super) fn narrowings(evidence: &str, files: &Snapshot, look: Option<&ActCall>, offered: &[String]) -> Vec<Call> {
    let mut calls = Vec::new();
    let has = |name: &str| offered.iter().any(|tool| tool == name);
    let first_line = evidence.lines().next().unwrap_or(evidence);
    let place = files.iter().find_map(|(path, entry)| match entry {
        Entry::File { text, .. } => text.find(evidence).map(|at| (path, text[..at].matches('\n').count() + 1)),
        _ => None,
    });
    if let Some((path, line)) = place {
        let (from, to) = (line.saturating_sub(4).max(1), line + 4 + evidence.matches('\n').count());
        if has("bash") {
            calls.push(Call::new("bash", json!({ "command": format!("sed -n '{from},{to}p' {} | cut -c1-400", quoted(path)) })));
            calls.push(Call::new(
                "bash",
                json!({ "command": format!("grep -n -o -F -- {} {} | head -n 5", quoted(first_line), quoted(path)) }),
            ));
        } else if has("read_file") {
            calls.push(Call::new("read_file", json!({ "path": path, "offset": from, "limit": to - from + 1 })));
        }
    } else if has("bash")
        && let Some((again, _)) = look.and_then(|look| render(look, &["bash".to_owned()]))
        && let Some(command) = again.arguments.get("command").and_then(Value::as_str)
    {
        calls.push(Call::new("bash", json!({ "command": format!("{{ {command}\n}} 2>&1 | grep -F -m 5 -- {}", quoted(first_line)) })));
    }
    calls
}

/// A quick look at what `call` changed.
pub(super) fn look_after(call: &ActCall, offered: &[String]) -> Option<Call> {
    let path = match call {
        ActCall::Write { path, .. } | ActCall::Edit { path, .. } | ActCall::Read { path } => Some(path),
        ActCall::Run { .. } | ActCall::Python { .. } => None,
    };
    let command = path.map_or_else(|| "ls -p".to_owned(), |path| format!("head -c 600 {}", quoted(path)));
    render(&ActCall::Run { command }, offered).map(|(call, _)| call)
}

/// A look at everything.
pub(super) fn look_around(offered: &[String]) -> Option<Call> {
    let shell = render(&ActCall::Run { command: "ls -pAR . | head -n 60".to_owned() }, offered).map(|(call, _)| call);
    shell.or_else(|| offered.iter().any(|tool| tool == "list_files").then(|| Call::new("list_files", json!({}))))
}

/// `text` as one word of the shell.
pub(super) fn quoted(text: &str) -> String {
    let plain = !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-/=+:,@".contains(&b)) && !text.starts_with('-');
    if plain { text.to_owned() } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

/// `text` as a Python literal. JSON's escapes are Python's.
fn literal(text: &str) -> String {
    Value::String(text.to_owned()).to_string()
}

fn here_document(program: &str, body: &str) -> String {
    let mut mark = "EOF".to_owned();
    while body.lines().any(|line| line == mark) {
        mark.push('_');
    }
    let end = if body.ends_with('\n') { "" } else { "\n" };
    format!("{program} <<'{mark}'\n{body}{end}{mark}")
}

fn write_command(path: &str, content: &str) -> String {
    let folder = path.rsplit_once('/').map(|(folder, _)| format!("mkdir -p {} && ", quoted(folder))).unwrap_or_default();
    if content.ends_with('\n') {
        format!("{folder}{}", here_document(&format!("cat > {}", quoted(path)), content))
    } else {
        format!("{folder}printf '%s' {} > {}", quoted(content), quoted(path))
    }
}

fn write_program(path: &str, content: &str) -> String {
    format!(
        "import os\npath = {}\nos.makedirs(os.path.dirname(path) or \".\", exist_ok=True)\nopen(path, \"w\").write({})\n",
        literal(path),
        literal(content)
    )
}

fn edit_program(path: &str, find: &str, replace: &str) -> String {
    format!(
        "path = {}\ntext = open(path).read()\nfind = {}\nassert text.count(find) == 1, text.count(find)\nopen(path, \"w\").write(text.replace(find, {}))\n",
        literal(path),
        literal(find),
        literal(replace)
    )
}

fn shell_program(command: &str) -> String {
    format!(
        "import subprocess\ndone = subprocess.run([\"bash\", \"-c\", {}], capture_output=True, text=True)\nprint(done.stdout + done.stderr, end=\"\")\nraise SystemExit(done.returncode)\n",
        literal(command)
    )
}
