//! The wire format of chat completions: strict in what is sent, lenient in what is read.

use serde_json::{Map, Value, json};

use super::blobs::base64_of;
use super::endpoint::{EndpointConfig, OutputLimitField, PastReasoning};
use super::{Blobs, ChatRequest, ModelError, ToolChoice};
use crate::trajectory::{ContentPart, Message, Role};

/// The body of a request.
pub(super) fn request_body(request: &ChatRequest, config: &EndpointConfig, blobs: &dyn Blobs) -> Result<Value, ModelError> {
    let mut body = Map::new();
    body.insert("model".to_owned(), json!(config.model));
    body.insert("messages".to_owned(), Value::Array(wire_messages(&request.messages, config.past_reasoning, blobs)?));
    if !request.tools.is_empty() {
        let tools = request.tools.iter().map(|tool| {
            json!({"type": "function", "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters}})
        });
        body.insert("tools".to_owned(), tools.collect());
        let choice = match request.tool_choice {
            ToolChoice::Auto => "auto",
            ToolChoice::None => "none",
        };
        body.insert("tool_choice".to_owned(), json!(choice));
    }
    let sampling = &request.sampling;
    body.insert("temperature".to_owned(), json!(sampling.temperature));
    // 1 is every server's default, and some models refuse the field beside a temperature.
    if sampling.top_p < 1.0 {
        body.insert("top_p".to_owned(), json!(sampling.top_p));
    }
    let limit = match config.output_limit {
        OutputLimitField::MaxTokens => "max_tokens",
        OutputLimitField::MaxCompletionTokens => "max_completion_tokens",
    };
    body.insert(limit.to_owned(), json!(sampling.max_output_tokens));
    if let Some(seed) = sampling.seed {
        // Servers read it into a signed or a 53-bit number.
        body.insert("seed".to_owned(), json!(seed & 0x7fff_ffff));
    }
    config.finish_body(&mut body);
    Ok(Value::Object(body))
}

fn wire_messages(messages: &[Message], reasoning: PastReasoning, blobs: &dyn Blobs) -> Result<Vec<Value>, ModelError> {
    let mut wire = Vec::with_capacity(messages.len());
    // A tool message holds text only, and tool messages follow their calls directly: pictures wait until the last of them.
    let mut pictures = Vec::new();
    for message in messages {
        if message.role != Role::Tool {
            flush_pictures(&mut pictures, &mut wire);
        }
        match message.role {
            Role::System => wire.push(json!({"role": "system", "content": message.joined_text()})),
            Role::User => wire.push(json!({"role": "user", "content": user_content(message, blobs)?})),
            Role::Assistant => wire.push(assistant(message, reasoning)),
            Role::Tool => {
                let id = message.tool_call_id.as_deref().unwrap_or_default();
                wire.push(json!({"role": "tool", "tool_call_id": id, "content": message.joined_text()}));
                for part in &message.content {
                    if let ContentPart::Image { .. } = part {
                        pictures.push(wire_part(part, blobs)?);
                    }
                }
            }
        }
    }
    flush_pictures(&mut pictures, &mut wire);
    Ok(wire)
}

fn flush_pictures(pictures: &mut Vec<Value>, wire: &mut Vec<Value>) {
    if !pictures.is_empty() {
        wire.push(json!({"role": "user", "content": std::mem::take(pictures)}));
    }
}

/// Plain text where there is no picture: some servers take nothing else.
fn user_content(message: &Message, blobs: &dyn Blobs) -> Result<Value, ModelError> {
    if message.content.iter().all(|part| matches!(part, ContentPart::Text { .. })) {
        return Ok(Value::String(message.joined_text()));
    }
    message.content.iter().map(|part| wire_part(part, blobs)).collect::<Result<Vec<_>, _>>().map(Value::Array)
}

fn wire_part(part: &ContentPart, blobs: &dyn Blobs) -> Result<Value, ModelError> {
    Ok(match part {
        ContentPart::Text { text } => json!({"type": "text", "text": text}),
        ContentPart::Image { blob, media_type } => {
            let url = format!("data:{media_type};base64,{}", base64_of(blobs, blob)?);
            json!({"type": "image_url", "image_url": {"url": url}})
        }
    })
}

fn assistant(message: &Message, reasoning: PastReasoning) -> Value {
    let mut wire = Map::new();
    wire.insert("role".to_owned(), json!("assistant"));
    // Beside calls, null would do for OpenAI; llama-cpp-python refuses it, and templates print it.
    wire.insert("content".to_owned(), json!(message.joined_text()));
    if !message.tool_calls.is_empty() {
        let calls = message.tool_calls.iter().map(|call| {
            let function = json!({"name": call.name, "arguments": sendable_arguments(&call.arguments)});
            json!({"id": call.id, "type": "function", "function": function})
        });
        wire.insert("tool_calls".to_owned(), calls.collect());
    }
    if let (PastReasoning::Send, Some(thought)) = (reasoning, &message.reasoning) {
        wire.insert("reasoning_content".to_owned(), json!(thought));
    }
    Value::Object(wire)
}

/// The arguments of an earlier call as they may be sent back. Chat templates parse them and refuse the whole conversation when
/// they are no JSON object; what the model wrote then stands, as text, in an object.
fn sendable_arguments(arguments: &str) -> String {
    match serde_json::from_str::<Value>(arguments) {
        Ok(Value::Object(_)) => arguments.to_owned(),
        _ => json!({ "malformed_arguments": arguments }).to_string(),
    }
}

#[cfg(test)]
#[path = "openai_wire_tests.rs"]
mod tests;
