//! Episodes from the lines of an `openai-jsonl` export. A line does not say what the harness's memory did: an episode read here is
//! taken as one whose harness edits nothing of the past.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::error::DataError;
use super::input::{Contexts, EpisodeText};
use crate::harness::HarnessId;
use crate::task::{JobType, SkillName, TaskId};
use crate::trajectory::{ContentPart, Message, Role, ToolCall, ToolSchema};

#[derive(Deserialize)]
struct Line {
    messages: Vec<WireMessage>,
    tools: String,
    metadata: Metadata,
}

#[derive(Deserialize)]
struct Metadata {
    task: TaskId,
    job_type: JobType,
    skill: Option<SkillName>,
    harness: HarnessId,
    /// `native`, `text` or `none`.
    calls: String,
}

#[derive(Deserialize)]
struct WireMessage {
    role: Role,
    content: Value,
    reasoning_content: Option<String>,
    #[serde(default)]
    tool_calls: Vec<WireCall>,
    tool_call_id: Option<String>,
}

#[derive(Deserialize)]
struct WireCall {
    id: String,
    function: WireFunction,
}

#[derive(Deserialize)]
struct WireFunction {
    name: String,
    arguments: Value,
}

#[derive(Deserialize)]
struct WireTool {
    function: ToolSchema,
}

/// The episode that line `number` (from 1) of an export holds.
///
/// # Errors
/// When it is not such a line.
pub fn episode_of_openai_line(line: &str, number: usize) -> Result<EpisodeText, DataError> {
    let wrong = |reason: String| DataError::Line { line: number, reason };
    let Line { messages, tools, metadata } = serde_json::from_str(line).map_err(|error| wrong(error.to_string()))?;
    let tools: Vec<WireTool> = match metadata.calls.as_str() {
        // The prompt holds them.
        "text" => Vec::new(),
        _ => serde_json::from_str(&tools).map_err(|error| wrong(format!("`tools`: {error}")))?,
    };
    Ok(EpisodeText {
        task: metadata.task,
        job_type: metadata.job_type,
        skill: metadata.skill,
        harness: metadata.harness,
        messages: messages.into_iter().map(message).collect::<Result<_, _>>().map_err(wrong)?,
        tools: tools.into_iter().map(|tool| tool.function).collect(),
        contexts: Contexts::AppendOnly,
        failures: BTreeMap::new(),
    })
}

fn message(wire: WireMessage) -> Result<Message, String> {
    let content = match wire.content {
        Value::Null => Vec::new(),
        Value::String(text) => vec![ContentPart::Text { text }],
        parts => serde_json::from_value(parts).map_err(|error| format!("`content`: {error}"))?,
    };
    let call = |call: WireCall| ToolCall {
        id: call.id,
        name: call.function.name,
        arguments: match call.function.arguments {
            Value::String(text) => text,
            value => value.to_string(),
        },
    };
    Ok(Message {
        role: wire.role,
        content,
        reasoning: wire.reasoning_content,
        tool_calls: wire.tool_calls.into_iter().map(call).collect(),
        tool_call_id: wire.tool_call_id,
    })
}
