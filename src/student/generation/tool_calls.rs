//! What a completion says: thoughts, text, tool calls.

use serde::de::IgnoredAny;
use serde_json::{Map, Value};

use super::repair::repaired;
use crate::trajectory::{ContentPart, Message, Role, ToolCall};

const OPEN: &str = "<tool_call>";
const CLOSE: &str = "</tool_call>";
const THINK: (&str, &str) = ("<think>", "</think>");

/// Calls that are read of one reply; what follows stays text. Episodes refuse more than 16.
const MOST_CALLS: usize = 32;
/// Longest block that is repaired, in bytes.
const LONGEST_REPAIR: usize = 256 * 1024;

/// Whether a reply ended by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Completeness {
    /// Yes.
    Whole,
    /// It was cut off at its limit.
    CutOff,
}

/// A reply as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// The message.
    pub message: Message,
    /// Calls that were not JSON as they were written.
    pub repaired: usize,
    /// Blocks that are no call whatever one does; they stay in the text.
    pub malformed: usize,
}

/// Reads the text of a reply in which tools were on offer. A block that is no call, even after the repair of trailing commas, single
/// quotes and missing ends, stays in the text as it is, where an episode finds it and says so.
///
/// The arguments of a call are the text the model wrote, so that a template that shows them unchanged gives the same tokens again.
#[must_use]
pub fn read_reply(text: &str, completeness: Completeness) -> Reply {
    let (reasoning, text) = thoughts(text);
    let mut reply = Reply { message: Message::text(Role::Assistant, ""), repaired: 0, malformed: 0 };
    let (mut said, mut rest) = (String::new(), text);
    while let Some(at) = rest.find(OPEN).filter(|_| reply.message.tool_calls.len() < MOST_CALLS) {
        let block = &rest[at + OPEN.len()..];
        match read_block(block, completeness) {
            Some((mut call, length, written)) => {
                call.id = format!("call_{}", reply.message.tool_calls.len() + 1);
                reply.repaired += usize::from(written == Written::Wrongly);
                reply.message.tool_calls.push(call);
                // The line break before a call belongs to it, as templates write it.
                said.push_str(&rest[..at]);
                said.truncate(said.trim_end().len());
                rest = &block[length..];
            }
            None => {
                reply.malformed += 1;
                let end = block.find(OPEN).unwrap_or(block.len());
                said.push_str(&rest[..at + OPEN.len() + end]);
                rest = &block[end..];
            }
        }
    }
    said.push_str(rest);
    if !reply.message.tool_calls.is_empty() {
        said.truncate(said.trim_end().len());
    }
    reply.message.content = if said.is_empty() { Vec::new() } else { vec![ContentPart::Text { text: said }] };
    reply.message.reasoning = reasoning;
    reply
}

/// Thoughts at the beginning of a reply, and the rest.
fn thoughts(text: &str) -> (Option<String>, &str) {
    let thought = text.trim_start().strip_prefix(THINK.0).and_then(|inside| inside.split_once(THINK.1));
    match thought {
        Some((thought, rest)) => (Some(thought.trim().to_owned()), rest.trim_start()),
        None => (None, text),
    }
}

/// Whether a call was JSON as it was written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Written {
    Rightly,
    Wrongly,
}

/// The call in the block that begins behind an opening tag, and how many bytes it takes up.
fn read_block(block: &str, completeness: Completeness) -> Option<(ToolCall, usize, Written)> {
    let start = block.len() - block.trim_start().len();
    if let Some((call, length)) = read_call(&block[start..]) {
        let tail = &block[start + length..];
        let close = tail.trim_start();
        let behind = match close.strip_prefix(CLOSE) {
            Some(behind) => behind.len(),
            None if close.is_empty() || close.starts_with(OPEN) => close.len(),
            // Something else between the call and its end: not for us to guess.
            None => return None,
        };
        return Some((call, block.len() - behind, Written::Rightly));
    }
    let end = [CLOSE, OPEN].iter().filter_map(|tag| block.find(tag)).min().unwrap_or(block.len());
    let inside = Some(&block[..end]).filter(|inside| inside.len() <= LONGEST_REPAIR)?;
    let text = repaired(inside.trim(), completeness)?;
    let (call, length) = read_call(&text)?;
    if length < text.len() {
        return None;
    }
    let taken = if block[end..].starts_with(CLOSE) { end + CLOSE.len() } else { end };
    Some((call, taken, Written::Wrongly))
}

/// A call written as a JSON object at the beginning of `text`, and its length.
fn read_call(text: &str) -> Option<(ToolCall, usize)> {
    let (value, length) = first_value(text)?;
    let Value::Object(mut fields) = value else { return None };
    let Some(Value::String(name)) = fields.remove("name") else { return None };
    let key = if fields.contains_key("arguments") { "arguments" } else { "parameters" };
    let arguments = match fields.remove(key) {
        None => "{}".to_owned(),
        // The way endpoints write them.
        Some(Value::String(arguments)) => {
            serde_json::from_str::<Map<String, Value>>(&arguments).ok()?;
            arguments
        }
        Some(value @ Value::Object(_)) => match as_written(&text[..length], key) {
            Some(written) => written.to_owned(),
            None => value.to_string(),
        },
        Some(_) => return None,
    };
    Some((ToolCall { id: String::new(), name, arguments }, length))
}

fn first_value(text: &str) -> Option<(Value, usize)> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    let value = values.next()?.ok()?;
    Some((value, values.byte_offset()))
}

/// The text of the value under `key` in the JSON object `object`; of several the last, which is the one that counts.
fn as_written<'t>(object: &'t str, key: &str) -> Option<&'t str> {
    let mut rest = object.trim_start().strip_prefix('{')?.trim_start();
    let mut found = None;
    while rest.starts_with('"') {
        let mut names = serde_json::Deserializer::from_str(rest).into_iter::<String>();
        let name = names.next()?.ok()?;
        let value = rest[names.byte_offset()..].trim_start().strip_prefix(':')?.trim_start();
        let mut values = serde_json::Deserializer::from_str(value).into_iter::<IgnoredAny>();
        values.next()?.ok()?;
        let (written, behind) = value.split_at(values.byte_offset());
        if name == key {
            found = Some(written);
        }
        let behind = behind.trim_start();
        rest = behind.strip_prefix(',').unwrap_or(behind).trim_start();
    }
    found
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn calls(text: &str) -> Vec<(String, String)> {
        read_reply(text, Completeness::Whole).message.tool_calls.into_iter().map(|call| (call.name, call.arguments)).collect()
    }

    fn ls() -> Vec<(String, String)> {
        vec![("bash".to_owned(), r#"{"command": "ls"}"#.to_owned())]
    }

    #[test]
    fn text_and_calls_are_taken_apart() {
        let text = "<think>\nhm\n</think>\n\nLook first.\n<tool_call>\n{\"name\": \"bash\", \"arguments\": {\"command\": \"ls\"}}\n</tool_call>\n\
                    <tool_call>\n{\"name\": \"finish\"}\n</tool_call>";
        let reply = read_reply(text, Completeness::Whole);
        assert_eq!((reply.repaired, reply.malformed), (0, 0));
        assert_eq!(reply.message.joined_text(), "Look first.");
        assert_eq!(reply.message.reasoning.as_deref(), Some("hm"));
        let [first, second] = reply.message.tool_calls.as_slice() else { panic!("{reply:?}") };
        assert_eq!((first.id.as_str(), first.arguments.as_str()), ("call_1", r#"{"command": "ls"}"#));
        assert_eq!((second.id.as_str(), second.name.as_str(), second.arguments.as_str()), ("call_2", "finish", "{}"));
        let plain = read_reply(" just text ", Completeness::Whole);
        assert_eq!(plain.message, Message::text(Role::Assistant, " just text "));
    }

    #[test]
    fn arguments_stay_as_they_were_written() {
        // Spaces, escapes and the order of keys, as a template would show them again.
        let written = r#"{"b":1,  "a": "\u00e4 </tool_call>", "c": {"name": "x"}}"#;
        let text = format!("<tool_call>\n{{\"arguments\": {written} , \"name\": \"bash\"}}\n</tool_call>");
        assert_eq!(calls(&text), [("bash".to_owned(), written.to_owned())]);
        assert_eq!(calls(r#"<tool_call>{"name":"bash","arguments":"{\"command\": \"ls\"}"}</tool_call>"#), ls());
        assert_eq!(calls(r#"<tool_call>{"name":"bash","parameters":{"command": "ls"}}</tool_call>"#), ls());
    }

    #[test]
    fn what_can_be_repaired_is() {
        for (text, repaired) in [
            ("<tool_call>\n{\"name\": \"bash\", \"arguments\": {\"command\": \"ls\"}}", 0),
            ("<tool_call>\n{\"name\": \"bash\", \"arguments\": {\"command\": \"ls\"}\n</tool_call>", 1),
            ("<tool_call>\n{\"name\": \"bash\", \"arguments\": {\"command\": \"ls\"}", 1),
            ("<tool_call>{\"name\": \"bash\", \"arguments\": {\"command\": \"ls\",},}</tool_call>", 1),
            ("<tool_call>{'name': 'bash', 'arguments': {'command': 'ls'}}</tool_call>", 1),
        ] {
            let reply = read_reply(text, Completeness::Whole);
            assert_eq!((reply.repaired, reply.malformed), (repaired, 0), "{text}");
            assert_eq!(reply.message.tool_calls[0].arguments, r#"{"command": "ls"}"#, "{text}");
            assert_eq!(reply.message.content, []);
        }
    }

    #[test]
    fn what_is_no_call_stays_text() {
        for text in [
            "<tool_call>ls -l</tool_call>",
            "<tool_call>",
            "<tool_call>[1]</tool_call>",
            "<tool_call>{\"tool\": \"bash\"}</tool_call>",
            "<tool_call>{\"name\": \"bash\", \"arguments\": [1]}</tool_call>",
            "<tool_call>{\"name\": \"bash\", \"arguments\": \"ls\"}</tool_call>",
            "<tool_call>{\"name\": \"bash\", \"arguments\": {\"command\": \"l",
            "<tool_call>{\"name\": \"bash\"} and {\"name\": \"finish\"}</tool_call>",
        ] {
            let reply = read_reply(text, Completeness::Whole);
            assert_eq!((reply.message.tool_calls.len(), reply.malformed), (0, 1), "{text}");
            assert_eq!(reply.message.joined_text(), text);
        }
        // A call that was cut off may have had more arguments.
        let cut = "<tool_call>\n{\"name\": \"bash\", \"arguments\": {\"command\": \"ls\"";
        assert_eq!(read_reply(cut, Completeness::CutOff).malformed, 1);
        let both = read_reply("<tool_call>oops</tool_call>\n<tool_call>{\"name\": \"finish\"}</tool_call>", Completeness::Whole);
        assert_eq!((both.message.tool_calls.len(), both.malformed), (1, 1));
        assert_eq!(both.message.joined_text(), "<tool_call>oops</tool_call>");
    }

    #[test]
    fn a_runaway_reply_is_bounded() {
        let many = "<tool_call>{\"name\":\"finish\"}</tool_call>".repeat(100);
        assert_eq!(calls(&many).len(), MOST_CALLS);
        let deep = format!("<tool_call>{}", "[".repeat(100_000));
        assert_eq!(read_reply(&deep, Completeness::Whole).malformed, 1);
    }

    proptest! {
        #[test]
        fn nothing_a_model_writes_panics(parts in proptest::collection::vec(
            prop_oneof![Just(OPEN.to_owned()), Just(CLOSE.to_owned()), Just("{\"name\":\"bash\"".to_owned()), Just("}".to_owned()),
                        Just("\"arguments\":".to_owned()), Just("'".to_owned()), Just("\"".to_owned()), Just("\\".to_owned()), Just("{".to_owned()), "(?s).{0,6}"], 0..20)
        ) {
            let text = parts.concat();
            let reply = read_reply(&text, Completeness::Whole);
            for call in &reply.message.tool_calls {
                prop_assert!(serde_json::from_str::<Map<String, Value>>(&call.arguments).is_ok(), "{:?}", call);
            }
            prop_assert!(reply.message.tool_calls.len() + reply.malformed <= text.matches(OPEN).count());
        }
    }
}
