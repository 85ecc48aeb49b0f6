//! What a request says: the prompt, the tools, and the agent's own past as far as it is still there.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use super::voice::FAREWELL;
use crate::model::ChatRequest;
use crate::trajectory::{Message, Role};

/// A call in terms of names and JSON.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Call {
    pub(super) name: String,
    pub(super) arguments: Value,
}

impl Call {
    pub(super) fn new(name: &str, arguments: Value) -> Self {
        Self { name: name.to_owned(), arguments }
    }
}

/// How calls are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Native,
    Text,
}

/// One call of the past and what came back.
#[derive(Debug, Clone)]
pub(super) struct Turn {
    /// `None`: the reply held no call that parses.
    pub(super) call: Option<Call>,
    /// What came back.
    pub(super) result: String,
}

/// A request, read.
#[derive(Debug, Clone)]
pub(super) struct Conversation {
    /// The system prompt without tool schemas and without the agent's own notes: what guides.
    pub(super) guidance: String,
    /// The agent's own notes, as the system prompt shows them, and its own summaries.
    pub(super) notes: String,
    pub(super) instruction: String,
    pub(super) turns: Vec<Turn>,
    pub(super) offered: Vec<String>,
    pub(super) form: Form,
    /// Everything in the request that the agent did not say itself in a reply.
    seen: Vec<String>,
    /// Whether earlier replies are missing.
    pub(super) dropped: bool,
    /// The last message, if it is not the agent's.
    pub(super) last: String,
}

/// The lines by which the agent recognises its own notes and summaries.
pub(super) const NOTE_MARKS: [&str; 3] = ["- asked: ", "- done: ", "- seen: "];

static CALL: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"(?s)<tool_call>(.*?)</tool_call>").ok());
static SCHEMA_NAME: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r#""name"\s*:\s*"([a-z_]+)""#).ok());

impl Conversation {
    pub(super) fn read(request: &ChatRequest) -> Self {
        let system: String = joined(request, Role::System);
        let form = if request.tools.is_empty() && system.contains("<tool_call>") { Form::Text } else { Form::Native };
        let offered = match form {
            Form::Native => request.tools.iter().map(|tool| tool.name.clone()).collect(),
            Form::Text => schema_names(&system),
        };
        let (mut notes, guidance): (Vec<&str>, Vec<&str>) = system.lines().partition(|line| is_note(line));
        let guidance: Vec<&str> = guidance.into_iter().filter(|line| !line.trim_start().starts_with(['{', '['])).collect();
        let summaries = joined(request, Role::User);
        notes.extend(summaries.lines().filter(|line| is_note(line)));
        let mut instruction = String::new();
        let mut turns: Vec<Turn> = Vec::new();
        for message in &request.messages {
            match message.role {
                Role::System => {}
                Role::User if turns.is_empty() && instruction.is_empty() => instruction = message.joined_text(),
                Role::User => answer_last(&mut turns, &message.joined_text()),
                Role::Tool => answer(&mut turns, message, request),
                Role::Assistant => turns.extend(calls_of(message, form).into_iter().map(|call| Turn { call, result: String::new() })),
            }
        }
        let mut seen: Vec<String> =
            request.messages.iter().filter(|m| matches!(m.role, Role::User | Role::Tool)).map(Message::joined_text).collect();
        seen.push(notes.join("\n"));
        let replies = request.messages.iter().filter(|m| m.role == Role::Assistant).count();
        let last = request.messages.last().filter(|m| m.role != Role::Assistant).map(Message::joined_text).unwrap_or_default();
        Self {
            guidance: guidance.join("\n"),
            notes: notes.join("\n"),
            instruction,
            turns,
            offered,
            form,
            seen,
            dropped: replies < usize::try_from(request.tag.step).unwrap_or(usize::MAX),
            last,
        }
    }

    /// A conversation that is to be summarised: a text of calls (`name JSON` on a line of its own, or in the text form) and results. The
    /// tools on offer are those that were called.
    pub(super) fn transcript(request: &ChatRequest) -> Self {
        let text = joined(request, Role::User);
        let lines = text.lines().filter_map(|line| {
            let (name, arguments) = line.split_once(' ').filter(|(name, _)| is_tool_name(name))?;
            Some(Call::new(name, serde_json::from_str(arguments).ok().filter(Value::is_object)?))
        });
        let mut calls: Vec<Call> = lines.collect();
        if let Some(regex) = CALL.as_ref() {
            calls.extend(regex.captures_iter(&text).filter_map(|found| parse_text_call(&found[1])));
        }
        let mut offered: Vec<String> = calls.iter().map(|call| call.name.clone()).collect();
        offered.sort_unstable();
        offered.dedup();
        let notes: Vec<&str> = text.lines().filter(|line| is_note(line)).collect();
        let task = text.split_once("\n[").map_or(text.as_str(), |(task, _)| task);
        Self {
            guidance: String::new(),
            notes: notes.join("\n"),
            instruction: task.trim_start_matches("The task:").trim().to_owned(),
            turns: calls.into_iter().map(|call| Turn { call: Some(call), result: String::new() }).collect(),
            offered,
            form: Form::Native,
            seen: vec![text],
            dropped: false,
            last: String::new(),
        }
    }

    /// Whether `text` is in anything the agent can see now.
    pub(super) fn shows(&self, text: &str) -> bool {
        self.seen.iter().any(|seen| seen.contains(text))
    }

    pub(super) fn offers(&self, tool: &str) -> bool {
        self.offered.iter().any(|name| name == tool)
    }
}

fn is_note(line: &str) -> bool {
    NOTE_MARKS.iter().any(|mark| line.starts_with(mark))
}

fn is_tool_name(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')
}

fn joined(request: &ChatRequest, role: Role) -> String {
    let texts: Vec<String> = request.messages.iter().filter(|m| m.role == role).map(Message::joined_text).collect();
    texts.join("\n")
}

fn schema_names(system: &str) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    if let Some(regex) = SCHEMA_NAME.as_ref() {
        for found in regex.captures_iter(system) {
            let name = found[1].to_owned();
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    names
}

/// The calls of one reply; one `None` where there should have been one.
fn calls_of(message: &Message, form: Form) -> Vec<Option<Call>> {
    let native = message.tool_calls.iter().map(|call| {
        serde_json::from_str::<Value>(&call.arguments).ok().filter(Value::is_object).map(|arguments| Call::new(&call.name, arguments))
    });
    let mut calls: Vec<Option<Call>> = native.collect();
    if form == Form::Text
        && let Some(regex) = CALL.as_ref()
    {
        let text = message.joined_text();
        calls.extend(regex.captures_iter(&text).map(|found| parse_text_call(&found[1])));
    }
    if calls.is_empty() {
        let farewell = message.joined_text().starts_with(FAREWELL);
        calls.push(farewell.then(|| Call::new("finish", Value::Object(serde_json::Map::new()))));
    }
    calls
}

/// A call as the text form writes it.
pub(super) fn parse_text_call(text: &str) -> Option<Call> {
    let value: Value = serde_json::from_str(text.trim()).ok()?;
    let name = value.get("name")?.as_str()?;
    let arguments = value.get("arguments").filter(|arguments| arguments.is_object())?;
    Some(Call::new(name, arguments.clone()))
}

/// Puts a tool message beside the call it answers. Calls of one reply are answered in order.
fn answer(turns: &mut [Turn], message: &Message, request: &ChatRequest) {
    let replies = request.messages.iter().filter(|m| m.role == Role::Assistant);
    let ids: Vec<&str> = replies
        .flat_map(|m| if m.tool_calls.is_empty() { vec![""] } else { m.tool_calls.iter().map(|call| call.id.as_str()).collect() })
        .collect();
    let place = message.tool_call_id.as_deref().and_then(|id| ids.iter().take(turns.len()).rposition(|known| *known == id));
    let place = place.or_else(|| turns.len().checked_sub(1));
    if let Some(turn) = place.and_then(|place| turns.get_mut(place)) {
        push_text(&mut turn.result, &message.joined_text());
    }
}

fn answer_last(turns: &mut [Turn], text: &str) {
    if let Some(turn) = turns.last_mut() {
        push_text(&mut turn.result, text);
    }
}

fn push_text(result: &mut String, text: &str) {
    if !result.is_empty() {
        result.push('\n');
    }
    result.push_str(text);
}
