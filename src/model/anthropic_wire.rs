//! The wire format of Anthropic messages.

use serde_json::{Map, Value, json};

use super::anthropic::ThinkingMemory;
use super::blobs::base64_of;
use super::endpoint::EndpointConfig;
use super::openai_reply::count;
use super::usage::{estimate_message, estimate_request, outgrows};
use super::{Blobs, ChatReply, ChatRequest, ModelError, StopReason, ToolChoice};
use crate::trajectory::{ContentPart, Message, Role, ToolCall, Usage};

/// The body of a request. Prompt caching, extended thinking and the like are switched on through `extra_body`.
pub(super) fn request_body(
    request: &ChatRequest,
    config: &EndpointConfig,
    blobs: &dyn Blobs,
    thinking: &ThinkingMemory,
) -> Result<Value, ModelError> {
    let mut body = Map::new();
    body.insert("model".to_owned(), json!(config.model));
    body.insert("max_tokens".to_owned(), json!(request.sampling.max_output_tokens));
    let system: Vec<String> = request.messages.iter().filter(|m| m.role == Role::System).map(Message::joined_text).collect();
    if system.iter().any(|text| !text.is_empty()) {
        body.insert("system".to_owned(), json!(system.join("\n\n")));
    }
    body.insert("messages".to_owned(), Value::Array(turns(&request.messages, blobs, thinking)?));
    if !request.tools.is_empty() {
        let tools = request.tools.iter();
        let tools = tools.map(|tool| json!({"name": tool.name, "description": tool.description, "input_schema": tool.parameters}));
        body.insert("tools".to_owned(), tools.collect());
        let choice = match request.tool_choice {
            ToolChoice::Auto => "auto",
            ToolChoice::None => "none",
        };
        body.insert("tool_choice".to_owned(), json!({ "type": choice }));
    }
    // This interface ends at 1 where others end at 2.
    body.insert("temperature".to_owned(), json!(request.sampling.temperature.min(1.0)));
    if request.sampling.top_p < 1.0 {
        body.insert("top_p".to_owned(), json!(request.sampling.top_p));
    }
    config.finish_body(&mut body);
    Ok(Value::Object(body))
}

/// The conversation as alternating turns: all that follows an assistant's calls, results first, is one user turn.
fn turns(messages: &[Message], blobs: &dyn Blobs, thinking: &ThinkingMemory) -> Result<Vec<Value>, ModelError> {
    let mut turns: Vec<(&'static str, Vec<Value>)> = Vec::new();
    for message in messages {
        let (role, blocks) = match message.role {
            Role::System => continue,
            Role::User => ("user", content_blocks(message, blobs)?),
            Role::Tool => ("user", vec![tool_result(message, blobs)?]),
            Role::Assistant => ("assistant", assistant_blocks(message, blobs, thinking)?),
        };
        // Empty turns are refused; leaving one out may join its neighbours.
        if blocks.is_empty() {
            continue;
        }
        match turns.last_mut() {
            Some((last, held)) if *last == role => held.extend(blocks),
            _ => turns.push((role, blocks)),
        }
    }
    for (_, blocks) in turns.iter_mut().filter(|(role, _)| *role == "user") {
        // Stable: results keep their order and come before what else the turn holds.
        blocks.sort_by_key(|block| block.get("type").and_then(Value::as_str) != Some("tool_result"));
    }
    Ok(turns.into_iter().map(|(role, content)| json!({"role": role, "content": content})).collect())
}

fn content_blocks(message: &Message, blobs: &dyn Blobs) -> Result<Vec<Value>, ModelError> {
    let mut blocks = Vec::new();
    for part in &message.content {
        match part {
            // Texts without anything visible are refused.
            ContentPart::Text { text } if text.trim().is_empty() => {}
            ContentPart::Text { text } => blocks.push(json!({"type": "text", "text": text})),
            ContentPart::Image { blob, media_type } => {
                let source = json!({"type": "base64", "media_type": media_type, "data": base64_of(blobs, blob)?});
                blocks.push(json!({"type": "image", "source": source}));
            }
        }
    }
    Ok(blocks)
}

fn tool_result(message: &Message, blobs: &dyn Blobs) -> Result<Value, ModelError> {
    let mut block = Map::new();
    block.insert("type".to_owned(), json!("tool_result"));
    block.insert("tool_use_id".to_owned(), json!(message.tool_call_id.as_deref().unwrap_or_default()));
    let content = content_blocks(message, blobs)?;
    if !content.is_empty() {
        block.insert("content".to_owned(), Value::Array(content));
    }
    Ok(Value::Object(block))
}

fn assistant_blocks(message: &Message, blobs: &dyn Blobs, thinking: &ThinkingMemory) -> Result<Vec<Value>, ModelError> {
    let mut blocks = message.tool_calls.first().map(|call| thinking.blocks(&call.id).to_vec()).unwrap_or_default();
    blocks.extend(content_blocks(message, blobs)?);
    for call in &message.tool_calls {
        let input = match serde_json::from_str(&call.arguments) {
            Ok(Value::Object(input)) => Value::Object(input),
            // The input has to be an object: what the model wrote instead stands in one, as text.
            _ => json!({ "malformed_arguments": call.arguments }),
        };
        blocks.push(json!({"type": "tool_use", "id": call.id, "name": call.name, "input": input}));
    }
    Ok(blocks)
}

/// The reply in `answer`, or what is missing.
pub(super) fn parse_reply(answer: &Value, request: &ChatRequest) -> Result<ChatReply, &'static str> {
    let blocks = answer.get("content").and_then(Value::as_array).ok_or("no content")?;
    let mut text = String::new();
    let mut reasoning = String::new();
    let mut tool_calls: Vec<ToolCall> = Vec::new();
    for block in blocks {
        let field = |name: &str| block.get(name).and_then(Value::as_str).unwrap_or_default();
        match field("type") {
            "text" => text.push_str(field("text")),
            "thinking" => reasoning.push_str(field("thinking")),
            "tool_use" => {
                let id = match field("id") {
                    "" => format!("call_{}_{}", request.tag.step, tool_calls.len()),
                    id => id.to_owned(),
                };
                let arguments = block.get("input").filter(|input| !input.is_null()).map_or_else(|| "{}".to_owned(), Value::to_string);
                tool_calls.push(ToolCall { id, name: field("name").to_owned(), arguments });
            }
            // Redacted thinking and blocks of server tools say nothing to a harness.
            _ => {}
        }
    }
    let stop = match answer.get("stop_reason").and_then(Value::as_str) {
        Some("max_tokens" | "model_context_window_exceeded") => StopReason::Length,
        Some("refusal") => StopReason::Filtered,
        _ if !tool_calls.is_empty() => StopReason::ToolCalls,
        Some("end_turn" | "stop_sequence" | "tool_use") | None => StopReason::Stop,
        Some(_) => StopReason::Other,
    };
    let content = if text.is_empty() { Vec::new() } else { vec![ContentPart::Text { text }] };
    let reasoning = Some(reasoning).filter(|thought| !thought.is_empty());
    let message = Message { role: Role::Assistant, content, reasoning, tool_calls, tool_call_id: None };
    if outgrows(&message, request) {
        return Err("it is far longer than the request allows");
    }
    let usage = usage(answer.get("usage"), &message, request);
    Ok(ChatReply { message, usage, stop, logprobs: Vec::new(), prompt_token_ids: Vec::new(), completion_token_ids: Vec::new() })
}

/// The thinking of a reply as it came, with its signatures.
pub(super) fn thinking_blocks(answer: &Value) -> Vec<Value> {
    let blocks = answer.get("content").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let is_thinking = |block: &&Value| matches!(block.get("type").and_then(Value::as_str), Some("thinking" | "redacted_thinking"));
    blocks.iter().filter(is_thinking).cloned().collect()
}

/// Here `input_tokens` leaves out what was read from or written to the cache; [`Usage::prompt_tokens`] holds all of it.
fn usage(wire: Option<&Value>, message: &Message, request: &ChatRequest) -> Usage {
    let field = |name: &str| wire.and_then(|usage| usage.get(name)).and_then(count);
    let cached_tokens = field("cache_read_input_tokens").unwrap_or(0);
    let written = field("cache_creation_input_tokens").unwrap_or(0);
    let prompt_tokens = field("input_tokens").map_or_else(|| estimate_request(request), |fresh| fresh + cached_tokens + written);
    let completion_tokens = field("output_tokens").unwrap_or_else(|| estimate_message(message));
    Usage { prompt_tokens, completion_tokens, cached_tokens: cached_tokens.min(prompt_tokens) }
}

#[cfg(test)]
#[path = "anthropic_wire_tests.rs"]
mod tests;
