//! `openai-jsonl`: one JSON object a line, as OpenAI and TRL read tool-use data. `messages` hold `tool_calls` whose `arguments` are
//! objects; `tools` is a JSON *string*, because columnar readers cannot hold schemas that differ; `metadata` names where the line
//! came from. Calls that a harness had written as text stay text; `metadata.calls` says which.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;

use serde_json::{Map, Value, json};

use super::row::{ExportError, Fitness, Row, Summary};
use crate::base::canonical_bytes;
use crate::harness::HarnessId;
use crate::task::{JobType, TaskId};
use crate::trajectory::{ContentPart, Message, Role, ToolCall, ToolSchema, Trajectory};

/// Name and version of the format, in `metadata.format` of every line.
pub const OPENAI_JSONL_FORMAT: &str = "harness-evo/openai-jsonl/1";

/// Orders lines by what they are about, not by when they came.
type LineKey = (JobType, TaskId, HarnessId, u64, String);

/// The lines of `rows`, sorted by job type, task, harness, seed and model. Of episodes with the same messages and tools the first in
/// this order stays.
///
/// # Errors
/// When a value has no JSON form.
pub fn openai_jsonl(rows: &[Row]) -> Result<(Vec<u8>, Summary), ExportError> {
    let mut summary = Summary::default();
    let mut fit: BTreeMap<LineKey, &Row> = BTreeMap::new();
    for row in rows {
        match row.fitness() {
            Fitness::Sealed => summary.sealed += 1,
            Fitness::Unsolved => summary.unsolved += 1,
            Fitness::Fit => summary.duplicates += usize::from(fit.insert(key(row), row).is_some()),
        }
    }
    let mut seen = std::collections::HashSet::new();
    let mut lines = Vec::new();
    for row in fit.into_values() {
        let (messages, tools) = (messages(&row.trajectory.messages), tools(&row.trajectory.tools)?);
        if !seen.insert(blake3::hash(&canonical_bytes(&json!([messages, tools]))?)) {
            summary.duplicates += 1;
            continue;
        }
        lines.extend(canonical_bytes(&json!({"messages": messages, "tools": tools, "metadata": metadata(row)}))?);
        lines.push(b'\n');
        summary.written += 1;
    }
    Ok((lines, summary))
}

/// Writes [`openai_jsonl`] to `path`: first aside, then renamed, so that the file is whole or not there.
///
/// # Errors
/// When the file cannot be written.
pub fn write_openai_jsonl(rows: &[Row], path: &Path) -> Result<Summary, ExportError> {
    let (lines, summary) = openai_jsonl(rows)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
    let failed = |source| ExportError::Io { path: path.to_owned(), source };
    // The mode of a file that was made without a second thought; the process's mask applies.
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o666);
    let mut file = tempfile::Builder::new().prefix(".export-").permissions(mode).tempfile_in(folder).map_err(failed)?;
    file.write_all(&lines).and_then(|()| file.as_file().sync_all()).map_err(failed)?;
    file.persist(path).map_err(|error| failed(error.error))?;
    Ok(summary)
}

fn key(row: &Row) -> LineKey {
    let trajectory = &row.trajectory;
    (row.job_type.clone(), trajectory.task, trajectory.harness, trajectory.seed, trajectory.model.clone())
}

fn messages(messages: &[Message]) -> Vec<Value> {
    let mut names: BTreeMap<&str, &str> = BTreeMap::new();
    messages
        .iter()
        .map(|message| {
            names.extend(message.tool_calls.iter().map(|call| (call.id.as_str(), call.name.as_str())));
            let mut fields = Map::new();
            fields.insert("role".to_owned(), json!(role(message.role)));
            fields.insert("content".to_owned(), content(message));
            if let Some(reasoning) = &message.reasoning {
                fields.insert("reasoning_content".to_owned(), json!(reasoning));
            }
            if !message.tool_calls.is_empty() {
                fields.insert("tool_calls".to_owned(), message.tool_calls.iter().map(tool_call).collect());
            }
            if let Some(id) = &message.tool_call_id {
                fields.insert("tool_call_id".to_owned(), json!(id));
                if let Some(name) = names.get(id.as_str()) {
                    fields.insert("name".to_owned(), json!(name));
                }
            }
            Value::Object(fields)
        })
        .collect()
}

const fn role(role: Role) -> &'static str {
    match role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
    }
}

/// One text where there are only texts; otherwise the parts, pictures by the hash of their blob.
fn content(message: &Message) -> Value {
    if message.content.iter().all(|part| matches!(part, ContentPart::Text { .. })) {
        return json!(message.joined_text());
    }
    let part = |part: &ContentPart| match part {
        ContentPart::Text { text } => json!({"type": "text", "text": text}),
        ContentPart::Image { blob, media_type } => json!({"type": "image", "blob": blob, "media_type": media_type}),
    };
    message.content.iter().map(part).collect()
}

/// Arguments as an object; what a model wrote that is none stays the text it was.
fn tool_call(call: &ToolCall) -> Value {
    let arguments = match serde_json::from_str::<Value>(&call.arguments) {
        Ok(Value::Object(fields)) => Value::Object(fields),
        Ok(_) | Err(_) => json!(call.arguments),
    };
    json!({"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}})
}

fn tools(schemas: &[ToolSchema]) -> Result<String, serde_json::Error> {
    let function = |schema: &ToolSchema| {
        let function = json!({"name": schema.name, "description": schema.description, "parameters": schema.parameters});
        json!({"type": "function", "function": function})
    };
    let list: Vec<Value> = schemas.iter().map(function).collect();
    Ok(String::from_utf8_lossy(&canonical_bytes(&list)?).into_owned())
}

fn metadata(row: &Row) -> Value {
    let trajectory = &row.trajectory;
    let path: Vec<Value> = row.path.iter().map(|step| json!({"harness": step.harness, "made_by": step.made_by})).collect();
    let mut metadata = json!({
        "format": OPENAI_JSONL_FORMAT,
        "harness": trajectory.harness,
        "lineage": path,
        "job_type": row.job_type,
        "skill": row.skill,
        "task": trajectory.task,
        "split": row.split,
        "seed": trajectory.seed,
        "model": trajectory.model,
        "simulated": row.simulated,
        "score": trajectory.outcome.score(),
        "steps": trajectory.steps(),
        "tokens": trajectory.total_usage().total(),
        "calls": calls(trajectory),
    });
    if let (Some(licence), Value::Object(fields)) = (&row.licence, &mut metadata) {
        fields.insert("licence".to_owned(), json!(licence));
    }
    metadata
}

/// How the assistant wrote its calls.
fn calls(trajectory: &Trajectory) -> &'static str {
    let mut assistant = trajectory.messages.iter().filter(|message| message.role == Role::Assistant);
    if assistant.clone().any(|message| !message.tool_calls.is_empty()) {
        "native"
    } else if assistant.any(|message| message.joined_text().contains("<tool_call>")) {
        "text"
    } else {
        "none"
    }
}
