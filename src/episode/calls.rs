//! The tool calls of a reply, native or written as text. Whatever a model writes gives calls or a reason that tells it what was wrong.

use serde_json::{Map, Value};

use crate::harness::ToolName;
use crate::trajectory::ToolCall;

/// Calls of one reply that are played; more are refused.
pub(super) const MOST_CALLS: usize = 16;
/// Longest text of a call that is looked at.
const LONGEST_CALL: usize = 4 * 1024 * 1024;
/// Bytes of a model's text quoted in a reason.
const LONGEST_QUOTE: usize = 120;

const OPEN: &str = "<tool_call>";
const CLOSE: &str = "</tool_call>";

/// One call as it was read.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ReadCall {
    /// The tool's name, as the model wrote it; empty where there is none.
    pub(super) name: String,
    /// What is to be played, or why it cannot be.
    pub(super) call: Result<(ToolName, Value), String>,
}

/// Reads native calls.
pub(super) fn read_native(calls: &[ToolCall], offered: &[ToolName]) -> Vec<ReadCall> {
    calls
        .iter()
        .map(|call| ReadCall {
            name: call.name.clone(),
            call: arguments_of(&call.arguments).and_then(|arguments| Ok((tool_of(&call.name, offered)?, arguments))),
        })
        .collect()
}

/// Reads the `<tool_call>` blocks of a text. Empty when there is none.
pub(super) fn read_text(text: &str, offered: &[ToolName]) -> Vec<ReadCall> {
    let mut calls = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find(OPEN) {
        let block = &rest[at + OPEN.len()..];
        let (call, length) = read_block(block, offered);
        calls.push(call);
        rest = &block[length..];
        // One more than are played, so that the surplus is noticed; the rest of a runaway reply is not looked at.
        if calls.len() > MOST_CALLS {
            break;
        }
    }
    calls
}

/// Whether a text holds calls in the form of the text protocol.
pub(super) fn has_text_calls(text: &str) -> bool {
    text.contains(OPEN)
}

/// Reads the block that starts after an opening tag; also how many bytes it takes up.
fn read_block(block: &str, offered: &[ToolName]) -> (ReadCall, usize) {
    let start = block.len() - json_start(block).len();
    let body = &block[start..];
    match first_value(body) {
        Ok((value, length)) => {
            let end = start + length;
            let tail = &block[end..];
            let closed = tail.find(CLOSE).filter(|close| tail[..*close].trim_matches(|c: char| c.is_whitespace() || c == '`').is_empty());
            let taken = closed.map_or(end, |close| end + close + CLOSE.len());
            (call_of(value, offered), taken)
        }
        Err(reason) => {
            let closed = block.find(CLOSE).map(|close| close + CLOSE.len());
            let taken = closed.or_else(|| block.find(OPEN)).unwrap_or(block.len());
            (ReadCall { name: String::new(), call: Err(reason) }, taken)
        }
    }
}

/// `block` without white space and a code fence before the JSON.
fn json_start(block: &str) -> &str {
    let block = block.trim_start();
    match block.strip_prefix("```") {
        Some(fenced) => fenced.strip_prefix("json").unwrap_or(fenced).trim_start(),
        None => block,
    }
}

/// The JSON value at the start of `text`, and its length.
fn first_value(text: &str) -> Result<(Value, usize), String> {
    let text = &text[..text.floor_char_boundary(LONGEST_CALL)];
    let strict = stream(text);
    match strict {
        Ok(found) => Ok(found),
        // Many models write line breaks inside JSON strings as they are. The length is then that of the text before the repair.
        Err(reason) => match escaped(text).and_then(|(repaired, lengths)| {
            let (value, length) = stream(&repaired).ok()?;
            Some((value, lengths.get(length).copied().unwrap_or(text.len())))
        }) {
            Some(found) => Ok(found),
            None => Err(format!("the call is not JSON ({reason}): {}", quote(text))),
        },
    }
}

fn stream(text: &str) -> Result<(Value, usize), String> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    match values.next() {
        Some(Ok(value)) => Ok((value, values.byte_offset())),
        Some(Err(error)) => Err(error.to_string()),
        None => Err("there is nothing between the tags".to_owned()),
    }
}

/// `text` with the control characters inside JSON strings escaped, and for every byte of the result where it came from. `None` when
/// there is nothing to escape.
fn escaped(text: &str) -> Option<(String, Vec<usize>)> {
    let mut out = String::with_capacity(text.len() + 16);
    let mut origin = Vec::with_capacity(text.len() + 17);
    let (mut inside, mut after_backslash, mut changed) = (false, false, false);
    for (at, c) in text.char_indices() {
        let before = out.len();
        if inside && c.is_ascii_control() {
            changed = true;
            match c {
                '\n' => out.push_str("\\n"),
                '\t' => out.push_str("\\t"),
                '\r' => out.push_str("\\r"),
                other => out.push_str(&format!("\\u{:04x}", u32::from(other))),
            }
            after_backslash = false;
        } else {
            if c == '"' && !after_backslash {
                inside = !inside;
            }
            after_backslash = inside && c == '\\' && !after_backslash;
            out.push(c);
        }
        origin.extend(std::iter::repeat_n(at, out.len() - before));
    }
    origin.push(text.len());
    changed.then_some((out, origin))
}

/// The call that a block's JSON describes.
fn call_of(value: Value, offered: &[ToolName]) -> ReadCall {
    let Value::Object(mut fields) = value else {
        return ReadCall { name: String::new(), call: Err("the call is not a JSON object with `name` and `arguments`".to_owned()) };
    };
    let Some(Value::String(name)) = fields.remove("name") else {
        return ReadCall { name: String::new(), call: Err("the call has no `name`".to_owned()) };
    };
    let arguments = ["arguments", "parameters"].iter().find_map(|key| fields.remove(*key));
    let call = match arguments {
        None => Ok(Value::Object(Map::new())),
        Some(Value::String(text)) => arguments_of(&text),
        Some(arguments) => Ok(arguments),
    };
    ReadCall { call: call.and_then(|arguments| Ok((tool_of(&name, offered)?, arguments))), name }
}

/// The arguments of a call, as a JSON object written in a text.
fn arguments_of(text: &str) -> Result<Value, String> {
    if text.trim().is_empty() {
        return Ok(Value::Object(Map::new()));
    }
    let (value, length) = first_value(text.trim()).map_err(|reason| reason.replacen("the call is", "the arguments are", 1))?;
    if !text.trim()[length..].trim().is_empty() {
        return Err(format!("there is something after the arguments: {}", quote(text.trim()[length..].trim())));
    }
    if value.is_object() { Ok(value) } else { Err("the arguments are not a JSON object".to_owned()) }
}

fn tool_of(name: &str, offered: &[ToolName]) -> Result<ToolName, String> {
    ToolName::from_name(name).filter(|tool| offered.contains(tool)).ok_or_else(|| {
        let names: Vec<&str> = offered.iter().map(|tool| tool.as_str()).collect();
        format!("there is no tool {}; the tools are {}", quote(name), names.join(", "))
    })
}

/// The start of a model's text, on one line.
fn quote(text: &str) -> String {
    let start = &text[..text.floor_char_boundary(LONGEST_QUOTE)];
    let dots = if start.len() < text.len() { "..." } else { "" };
    format!("`{}{dots}`", start.replace(char::is_control, " "))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    const OFFERED: [ToolName; 3] = [ToolName::Bash, ToolName::WriteFile, ToolName::Finish];

    fn good(text: &str) -> Vec<(ToolName, Value)> {
        read_text(text, &OFFERED).into_iter().map(|read| read.call.unwrap()).collect()
    }

    fn reason(text: &str) -> String {
        let calls = read_text(text, &OFFERED);
        assert_eq!(calls.len(), 1, "{calls:?}");
        calls[0].call.clone().unwrap_err()
    }

    #[test]
    fn several_calls_are_read_in_order() {
        let text = "First.\n<tool_call>\n{\"name\": \"bash\", \"arguments\": {\"command\": \"ls\"}}\n</tool_call>\nThen\n\
                    <tool_call>{\"name\": \"finish\"}</tool_call> done";
        assert_eq!(good(text), [(ToolName::Bash, json!({"command": "ls"})), (ToolName::Finish, json!({}))]);
        assert_eq!(read_text("no call", &OFFERED), []);
    }

    #[test]
    fn common_deviations_are_tolerated() {
        let ls = [(ToolName::Bash, json!({"command": "ls"}))];
        for text in [
            "<tool_call>```json\n{\"name\":\"bash\",\"arguments\":{\"command\":\"ls\"}}\n```</tool_call>",
            "<tool_call>{\"name\":\"bash\",\"parameters\":{\"command\":\"ls\"}}</tool_call>",
            "<tool_call>{\"name\":\"bash\",\"arguments\":\"{\\\"command\\\": \\\"ls\\\"}\"}</tool_call>",
            "<tool_call>\n{\"name\":\"bash\",\"arguments\":{\"command\":\"ls\"}}",
        ] {
            assert_eq!(good(text), ls, "{text}");
        }
        // A line break inside a string, and a closing tag inside a string.
        let text = "<tool_call>{\"name\":\"write_file\",\"arguments\":{\"path\":\"a\\\"\",\"content\":\"1\n\t</tool_call>2\"}}</tool_call>\
                    <tool_call>{\"name\":\"bash\",\"arguments\":{\"command\":\"ls\"}}</tool_call>";
        assert_eq!(good(text), [(ToolName::WriteFile, json!({"path": "a\"", "content": "1\n\t</tool_call>2"})), ls[0].clone()]);
    }

    #[test]
    fn reasons_are_clear() {
        for (text, part) in [
            ("<tool_call>ls -l</tool_call>", "the call is not JSON"),
            ("<tool_call></tool_call>", "not JSON"),
            ("<tool_call>", "nothing between"),
            ("<tool_call>{\"name\": \"bash\", \"arguments\": {\"command\": \"l", "EOF"),
            ("<tool_call>[1]</tool_call>", "not a JSON object with `name`"),
            ("<tool_call>{\"tool\": \"bash\"}</tool_call>", "has no `name`"),
            ("<tool_call>{\"name\": \"Bash\"}</tool_call>", "no tool `Bash`; the tools are bash, write_file, finish"),
            ("<tool_call>{\"name\": \"python\"}</tool_call>", "no tool `python`"),
            ("<tool_call>{\"name\": \"bash\", \"arguments\": \"ls\"}</tool_call>", "the arguments are not JSON"),
        ] {
            assert!(reason(text).contains(part), "{text}: {}", reason(text));
        }
        let broken_then_good = "<tool_call>oops</tool_call><tool_call>{\"name\":\"finish\"}</tool_call>";
        let calls = read_text(broken_then_good, &OFFERED);
        assert!(calls[0].call.is_err() && calls[1].call.is_ok());
    }

    #[test]
    fn native_arguments_are_read_alike() {
        let call = |name: &str, arguments: &str| ToolCall { id: "1".to_owned(), name: name.to_owned(), arguments: arguments.to_owned() };
        let read = |name, arguments| read_native(&[call(name, arguments)], &OFFERED).remove(0).call;
        assert_eq!(read("bash", "{\"command\": \"a\nb\"}"), Ok((ToolName::Bash, json!({"command": "a\nb"}))));
        assert_eq!(read("finish", ""), Ok((ToolName::Finish, json!({}))));
        assert!(read("bash", "{\"command\": ").unwrap_err().starts_with("the arguments are not JSON"));
        assert!(read("bash", "[]").unwrap_err().contains("not a JSON object"));
        assert!(read("bash", "{} {}").unwrap_err().contains("something after"));
        assert!(read("screenshot", "{}").unwrap_err().contains("no tool"));
    }

    #[test]
    fn a_runaway_reply_is_bounded() {
        let text = "<tool_call>{\"name\":\"finish\"}</tool_call>".repeat(100);
        assert_eq!(read_text(&text, &OFFERED).len(), MOST_CALLS + 1);
        let deep = format!("<tool_call>{}", "[".repeat(100_000));
        assert!(reason(&deep).contains("not JSON"));
    }

    proptest! {
        #[test]
        fn nothing_a_model_writes_panics(parts in proptest::collection::vec(
            prop_oneof![Just("<tool_call>".to_owned()), Just("</tool_call>".to_owned()), Just("{\"name\":\"bash\"".to_owned()),
                        Just("}".to_owned()), Just("\"".to_owned()), Just("\\".to_owned()), Just("\n".to_owned()), "(?s).{0,6}"], 0..20)
        ) {
            let text = parts.concat();
            let calls = read_text(&text, &OFFERED);
            prop_assert_eq!(calls.is_empty(), !has_text_calls(&text));
        }
    }
}
