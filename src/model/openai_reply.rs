//! Reads replies of chat completions. Servers differ in nearly every field; only a reply without a message is refused.

use serde_json::{Map, Value};

use super::usage::{estimate_message, estimate_request, outgrows};
use super::{ChatReply, ChatRequest, StopReason, TokenLogprob};
use crate::trajectory::{ContentPart, Message, Role, ToolCall, Usage};

/// More tokens than any reply has: a count beyond it is rubbish.
pub(super) const MOST_TOKENS: u64 = 1_000_000_000;

/// The reply in `answer`, or what is missing.
pub(super) fn parse_reply(answer: &Value, request: &ChatRequest) -> Result<ChatReply, &'static str> {
    let choice = answer.get("choices").and_then(|choices| choices.get(0)).ok_or("no choices")?;
    let wire = choice.get("message").and_then(Value::as_object).ok_or("no message in the first choice")?;
    let message = message(wire, request);
    if outgrows(&message, request) {
        return Err("it is far longer than the request allows");
    }
    let usage = usage(answer.get("usage"), &message, request);
    let stop = stop_reason(choice.get("finish_reason").and_then(Value::as_str), &message);
    let ids = |holder: &Value, field: &str| holder.get(field).map(token_ids).unwrap_or_default();
    let mut prompt_token_ids = ids(answer, "prompt_token_ids");
    if prompt_token_ids.is_empty() {
        prompt_token_ids = ids(choice, "prompt_token_ids");
    }
    Ok(ChatReply {
        message,
        usage,
        stop,
        logprobs: choice.get("logprobs").map(logprobs).unwrap_or_default(),
        prompt_token_ids,
        completion_token_ids: ids(choice, "token_ids"),
    })
}

fn message(wire: &Map<String, Value>, request: &ChatRequest) -> Message {
    let mut reasoning = ["reasoning_content", "reasoning"]
        .iter()
        .find_map(|field| wire.get(*field).and_then(Value::as_str))
        .map(str::to_owned)
        .unwrap_or_default();
    let mut text = String::new();
    match wire.get("content") {
        Some(Value::String(content)) => text.push_str(content),
        Some(Value::Array(parts)) => read_parts(parts, &mut text, &mut reasoning),
        _ => {}
    }
    if text.is_empty()
        && let Some(refusal) = wire.get("refusal").and_then(Value::as_str)
    {
        text.push_str(refusal);
    }
    let content = if text.is_empty() { Vec::new() } else { vec![ContentPart::Text { text }] };
    let reasoning = Some(reasoning).filter(|thought| !thought.is_empty());
    Message { role: Role::Assistant, content, reasoning, tool_calls: tool_calls(wire, request), tool_call_id: None }
}

/// Content as a list of parts: text, and with some servers thinking.
fn read_parts(parts: &[Value], text: &mut String, reasoning: &mut String) {
    for part in parts {
        match part {
            Value::String(piece) => text.push_str(piece),
            Value::Object(part) => {
                if let Some(piece) = part.get("text").and_then(Value::as_str) {
                    text.push_str(piece);
                }
                match part.get("thinking") {
                    Some(Value::String(thought)) => reasoning.push_str(thought),
                    Some(Value::Array(inner)) => {
                        for thought in inner.iter().filter_map(|part| part.get("text").and_then(Value::as_str)) {
                            reasoning.push_str(thought);
                        }
                    }
                    _ => {}
                }
            }
            _ => {}
        }
    }
}

fn tool_calls(wire: &Map<String, Value>, request: &ChatRequest) -> Vec<ToolCall> {
    let listed = wire.get("tool_calls").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let mut functions: Vec<(Option<&str>, &Value)> =
        listed.iter().map(|call| (call.get("id").and_then(Value::as_str), call.get("function").unwrap_or(call))).collect();
    if functions.is_empty()
        && let Some(call) = wire.get("function_call").filter(|call| call.is_object())
    {
        functions.push((None, call));
    }
    let mut calls: Vec<ToolCall> = Vec::with_capacity(functions.len());
    for (index, (id, function)) in functions.into_iter().enumerate() {
        let id = match id {
            Some(id) if !id.is_empty() && calls.iter().all(|call| call.id != id) => id.to_owned(),
            // Unique in the episode, and the same whenever the episode is played.
            _ => format!("call_{}_{index}", request.tag.step),
        };
        let name = function.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        let arguments = match function.get("arguments") {
            Some(Value::String(text)) if text.trim().is_empty() => "{}".to_owned(),
            Some(Value::String(text)) => text.clone(),
            None | Some(Value::Null) => "{}".to_owned(),
            Some(value) => value.to_string(),
        };
        calls.push(ToolCall { id, name, arguments });
    }
    calls
}

fn stop_reason(reason: Option<&str>, message: &Message) -> StopReason {
    match reason {
        Some("length" | "max_tokens" | "model_length") => StopReason::Length,
        Some("content_filter" | "safety") => StopReason::Filtered,
        // Some servers say `stop` beside calls.
        _ if !message.tool_calls.is_empty() => StopReason::ToolCalls,
        Some("stop" | "end_turn" | "eos" | "eos_token" | "stop_sequence" | "tool_calls" | "function_call") | None => StopReason::Stop,
        Some(_) => StopReason::Other,
    }
}

fn usage(wire: Option<&Value>, message: &Message, request: &ChatRequest) -> Usage {
    let field = |name: &str| wire.and_then(|usage| usage.get(name)).and_then(count);
    let prompt_tokens = field("prompt_tokens").unwrap_or_else(|| estimate_request(request));
    let completion_tokens = field("completion_tokens").unwrap_or_else(|| estimate_message(message));
    let cached = wire
        .and_then(|usage| usage.get("prompt_tokens_details"))
        .and_then(|details| details.get("cached_tokens"))
        .and_then(count)
        .or_else(|| field("prompt_cache_hit_tokens"))
        .unwrap_or(0);
    Usage { prompt_tokens, completion_tokens, cached_tokens: cached.min(prompt_tokens) }
}

/// A plausible number of tokens.
pub(super) fn count(value: &Value) -> Option<u64> {
    value.as_u64().filter(|tokens| *tokens <= MOST_TOKENS)
}

/// Both forms that are about: `content` with one object per token, and the older parallel lists.
fn logprobs(wire: &Value) -> Vec<TokenLogprob> {
    if let Some(content) = wire.get("content").and_then(Value::as_array) {
        return content
            .iter()
            .filter_map(|entry| Some((entry.get("token")?.as_str()?, entry.get("logprob")?.as_f64()?)))
            .map(|(token, logprob)| TokenLogprob { token: token.to_owned(), logprob })
            .collect();
    }
    let list = |field: &str| wire.get(field).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    list("tokens")
        .iter()
        .zip(list("token_logprobs"))
        .filter_map(|(token, logprob)| Some(TokenLogprob { token: token.as_str()?.to_owned(), logprob: logprob.as_f64()? }))
        .collect()
}

/// All ids, or none: a list with a hole is of no use for training.
fn token_ids(wire: &Value) -> Vec<u32> {
    let ids: Option<Vec<u32>> =
        wire.as_array().map(Vec::as_slice).unwrap_or_default().iter().map(|id| id.as_u64().and_then(|id| u32::try_from(id).ok())).collect();
    ids.unwrap_or_default()
}
