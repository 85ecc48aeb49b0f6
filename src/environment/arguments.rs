//! Arguments of a tool call, parsed into what is to be done. Whatever a model writes gives a value or a sentence that tells it what was
//! expected, never an error of ours.

use serde_json::{Map, Value};

use super::schemas::{Kind, Need, parameters};
use crate::harness::ToolName;

/// Longest text argument. A reply that fits a model's output limit is far below.
const LONGEST_TEXT: usize = 4 * 1024 * 1024;
/// Longest path; the limit of the kernel.
const LONGEST_PATH: usize = 4096;
/// Longest notes: they are sent again with every request.
const LONGEST_NOTES: usize = 8 * 1024;

/// A call whose arguments are in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Action {
    /// A command in the persistent shell.
    Bash { command: String },
    /// A program in the workspace.
    Python { code: String },
    /// A file, from line `offset` on.
    ReadFile { path: String, offset: u64, limit: Option<u64> },
    /// A whole file.
    WriteFile { path: String, content: String },
    /// The one occurrence of `find`.
    EditFile { path: String, find: String, replace: String },
    /// A folder.
    ListFiles { path: Option<String> },
    /// A pattern in files.
    Search { pattern: String, path: Option<String> },
    /// New notes.
    Notes { text: String },
    /// Something that needs a display.
    Desktop,
    /// The end of the episode.
    Finish,
}

/// Parses the arguments of a call of `tool`.
///
/// # Errors
/// What is wrong, and what the tool takes.
pub(super) fn parse(tool: ToolName, arguments: &Value) -> Result<Action, String> {
    if matches!(tool, ToolName::Screenshot | ToolName::ComputerUse) {
        // Every call fails for want of a display, whatever it asks for.
        return Ok(Action::Desktop);
    }
    let fields = Fields { tool, map: checked(tool, arguments)? };
    Ok(match tool {
        ToolName::Bash => Action::Bash { command: fields.word("command")? },
        ToolName::Python => Action::Python { code: fields.text("code", LONGEST_TEXT)? },
        ToolName::ReadFile => {
            Action::ReadFile { path: fields.path()?, offset: fields.integer("offset").unwrap_or(1), limit: fields.integer("limit") }
        }
        ToolName::WriteFile => Action::WriteFile { path: fields.path()?, content: fields.text("content", LONGEST_TEXT)? },
        ToolName::EditFile => Action::EditFile {
            path: fields.path()?,
            find: fields.text("find", LONGEST_TEXT)?,
            replace: fields.text("replace", LONGEST_TEXT)?,
        },
        ToolName::ListFiles => Action::ListFiles { path: fields.optional_path()? },
        ToolName::Search => Action::Search { pattern: fields.word("pattern")?, path: fields.optional_path()? },
        ToolName::Notes => Action::Notes { text: fields.text("text", LONGEST_NOTES)? },
        ToolName::Screenshot | ToolName::ComputerUse => Action::Desktop,
        ToolName::Finish => Action::Finish,
    })
}

/// What a call of `tool` looks like, in words.
fn expected(tool: ToolName) -> String {
    let listed: Vec<String> = parameters(tool)
        .iter()
        .map(|parameter| {
            let need = if parameter.need == Need::Optional { ", optional" } else { "" };
            format!("`{}` ({}{need})", parameter.name, parameter.kind.as_str())
        })
        .collect();
    if listed.is_empty() {
        format!("`{}` takes no arguments", tool.as_str())
    } else {
        format!("`{}` takes {}", tool.as_str(), listed.join(", "))
    }
}

/// The arguments as an object in which every value has the type of its parameter and nothing required is missing.
fn checked(tool: ToolName, arguments: &Value) -> Result<Map<String, Value>, String> {
    let map = match arguments {
        Value::Null => Map::new(),
        Value::Object(map) => map.clone(),
        other => return Err(format!("the arguments are {}, not an object; {}", kind_of(other), expected(tool))),
    };
    for name in map.keys() {
        if !parameters(tool).iter().any(|parameter| parameter.name == name) {
            let shown: String = name.chars().take(40).collect();
            return Err(format!("there is no argument `{shown}`; {}", expected(tool)));
        }
    }
    for parameter in parameters(tool) {
        match map.get(parameter.name) {
            None | Some(Value::Null) if parameter.need == Need::Optional => {}
            None => return Err(format!("the argument `{}` is missing; {}", parameter.name, expected(tool))),
            Some(value) if fits(parameter.kind, value) => {}
            Some(value) => {
                let wanted = match parameter.kind {
                    Kind::Text => "a string".to_owned(),
                    Kind::Integer { least } => format!("an integer of at least {least}"),
                };
                return Err(format!("the argument `{}` must be {wanted}, not {}; {}", parameter.name, kind_of(value), expected(tool)));
            }
        }
    }
    Ok(map)
}

fn fits(kind: Kind, value: &Value) -> bool {
    match kind {
        Kind::Text => value.is_string(),
        Kind::Integer { least } => integer(value).is_some_and(|number| number >= least),
    }
}

/// A whole number, also where a model writes it as `3.0`.
fn integer(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| {
        let number = value.as_f64()?;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole, not negative and below 2^53: exact")]
        let whole = (number.fract() == 0.0 && (0.0..9_007_199_254_740_992.0).contains(&number)).then_some(number as u64);
        whole
    })
}

fn kind_of(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(_) => "a boolean".to_owned(),
        Value::Number(number) => format!("the number {number}"),
        Value::String(_) => "a string".to_owned(),
        Value::Array(_) => "an array".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    }
}

/// The arguments of one call, whose types are already known to be right.
struct Fields {
    tool: ToolName,
    map: Map<String, Value>,
}

impl Fields {
    fn integer(&self, name: &str) -> Option<u64> {
        self.map.get(name).and_then(integer)
    }

    fn text(&self, name: &str, longest: usize) -> Result<String, String> {
        let text = self.map.get(name).and_then(Value::as_str).unwrap_or_default();
        if text.len() > longest {
            return Err(format!(
                "the argument `{name}` of `{}` has {} bytes; at most {longest} are possible",
                self.tool.as_str(),
                text.len()
            ));
        }
        Ok(text.to_owned())
    }

    /// A text that becomes part of a command line: not empty, and without NUL, which no command line can hold.
    fn word(&self, name: &str) -> Result<String, String> {
        let text = self.text(name, LONGEST_TEXT)?;
        if text.is_empty() || text.contains('\0') {
            return Err(format!("the argument `{name}` of `{}` must not be empty or hold a NUL character", self.tool.as_str()));
        }
        Ok(text)
    }

    fn path(&self) -> Result<String, String> {
        let path = self.word("path")?;
        if path.len() > LONGEST_PATH {
            return Err(format!("the path has {} bytes; at most {LONGEST_PATH} are possible", path.len()));
        }
        Ok(path)
    }

    fn optional_path(&self) -> Result<Option<String>, String> {
        match self.map.get("path").and_then(Value::as_str) {
            None | Some("") => Ok(None),
            Some(_) => self.path().map(Some),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn right_arguments_are_parsed() {
        let read = parse(ToolName::ReadFile, &json!({"path": "a b", "offset": 3.0, "limit": null}));
        assert_eq!(read, Ok(Action::ReadFile { path: "a b".to_owned(), offset: 3, limit: None }));
        assert_eq!(parse(ToolName::ListFiles, &Value::Null), Ok(Action::ListFiles { path: None }));
        assert!(parse(ToolName::WriteFile, &json!({"path": "a", "content": ""})).is_ok());
        assert_eq!(parse(ToolName::Finish, &json!({})), Ok(Action::Finish));
    }

    #[test]
    fn wrong_arguments_say_what_was_expected() {
        let cases = [
            (ToolName::Bash, json!({}), "`command` is missing; `bash` takes `command` (string)"),
            (ToolName::Bash, json!({"command": null}), "must be a string, not null"),
            (ToolName::Bash, json!({"cmd": "ls"}), "no argument `cmd`; `bash` takes `command` (string)"),
            (ToolName::Bash, json!(["ls"]), "an array, not an object"),
            (ToolName::Bash, json!({"command": ["ls", "-l"]}), "must be a string, not an array"),
            (ToolName::Bash, json!({"command": "a\u{0}b"}), "NUL"),
            (ToolName::ReadFile, json!({"path": "a", "offset": 0}), "an integer of at least 1, not the number 0"),
            (ToolName::ReadFile, json!({"path": "a", "limit": "5"}), "`limit` (integer, optional)"),
            (ToolName::ReadFile, json!({"path": ""}), "must not be empty"),
            (ToolName::ReadFile, json!({"path": "p".repeat(5000)}), "at most 4096"),
            (ToolName::Notes, json!({"text": "n".repeat(9000)}), "at most 8192"),
            (ToolName::Finish, json!({"answer": 1}), "`finish` takes `summary` (string, optional)"),
        ];
        for (tool, arguments, part) in cases {
            let reason = parse(tool, &arguments).unwrap_err();
            assert!(reason.contains(part), "{reason}");
        }
    }
}
