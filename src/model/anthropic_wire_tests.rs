use serde_json::{Value, json};

use super::super::NoBlobs;
use super::super::SamplingParams;
use super::*;
use crate::trajectory::{RequestTag, ToolSchema};

fn config() -> EndpointConfig {
    serde_json::from_value(json!({"kind": "anthropic", "base_url": "https://host/v1", "model": "probe"})).unwrap()
}

fn request(messages: Vec<Message>) -> ChatRequest {
    ChatRequest {
        messages,
        tools: vec![ToolSchema { name: "bash".to_owned(), description: "Runs.".to_owned(), parameters: json!({"type": "object"}) }],
        tool_choice: ToolChoice::Auto,
        sampling: SamplingParams { temperature: 1.5, top_p: 1.0, max_output_tokens: 64, seed: Some(1) },
        tag: RequestTag { task: None, seed: 7, step: 4 },
    }
}

fn assistant(text: &str, calls: &[(&str, &str)]) -> Message {
    let tool_calls = calls
        .iter()
        .map(|(id, arguments)| ToolCall { id: (*id).to_owned(), name: "bash".to_owned(), arguments: (*arguments).to_owned() })
        .collect();
    Message { tool_calls, ..Message::text(Role::Assistant, text) }
}

#[test]
fn turns_alternate_and_results_come_first() {
    let messages = vec![
        Message::text(Role::System, "rules"),
        Message::text(Role::User, "go"),
        assistant("", &[("c1", r#"{"command":"ls"}"#), ("c2", "{broken")]),
        Message::tool_result("c1", "a.txt"),
        Message::text(Role::User, "hurry"),
        Message::tool_result("c2", ""),
        assistant(" ", &[]),
        Message::text(Role::User, "on"),
    ];
    let body = request_body(&request(messages), &config(), &NoBlobs, &ThinkingMemory::default()).unwrap();
    assert_eq!(
        body,
        json!({
            "model": "probe", "max_tokens": 64, "system": "rules", "temperature": 1.0,
            "tools": [{"name": "bash", "description": "Runs.", "input_schema": {"type": "object"}}],
            "tool_choice": {"type": "auto"},
            "messages": [
                {"role": "user", "content": [{"type": "text", "text": "go"}]},
                {"role": "assistant", "content": [
                    {"type": "tool_use", "id": "c1", "name": "bash", "input": {"command": "ls"}},
                    {"type": "tool_use", "id": "c2", "name": "bash", "input": {"malformed_arguments": "{broken"}},
                ]},
                {"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "a.txt"}]},
                    {"type": "tool_result", "tool_use_id": "c2"},
                    {"type": "text", "text": "hurry"},
                    {"type": "text", "text": "on"},
                ]},
            ],
        })
    );
}

#[test]
fn a_reply_with_thinking_and_a_call_is_read() {
    let answer = json!({
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": "s1"},
            {"type": "redacted_thinking", "data": "d"},
            {"type": "text", "text": "I look."},
            {"type": "tool_use", "id": "t1", "name": "bash", "input": {"command": "ls"}},
        ],
        "stop_reason": "tool_use",
        "usage": {"input_tokens": 10, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 5, "output_tokens": 7},
    });
    let reply = parse_reply(&answer, &request(Vec::new())).unwrap();
    assert_eq!(reply.message, Message { reasoning: Some("hm".to_owned()), ..assistant("I look.", &[("t1", r#"{"command":"ls"}"#)]) });
    assert_eq!(reply.stop, StopReason::ToolCalls);
    assert_eq!(reply.usage, Usage { prompt_tokens: 115, completion_tokens: 7, cached_tokens: 100 });
    let kept = thinking_blocks(&answer);
    assert_eq!(kept, [json!({"type": "thinking", "thinking": "hm", "signature": "s1"}), json!({"type": "redacted_thinking", "data": "d"})]);
}

#[test]
fn the_end_of_a_reply_is_sorted() {
    let stop = |reason: Value| parse_reply(&json!({"content": [], "stop_reason": reason}), &request(Vec::new())).unwrap().stop;
    assert_eq!(stop(json!("end_turn")), StopReason::Stop);
    assert_eq!(stop(json!("max_tokens")), StopReason::Length);
    assert_eq!(stop(json!("refusal")), StopReason::Filtered);
    assert_eq!(stop(json!("pause_turn")), StopReason::Other);
    assert!(parse_reply(&json!({"type": "message"}), &request(Vec::new())).is_err());
}

#[test]
fn thinking_goes_back_before_the_calls_it_led_to() {
    let mut memory = ThinkingMemory::default();
    memory.remember("t1", vec![json!({"type": "thinking", "thinking": "hm", "signature": "s1"})]);
    let messages = vec![Message::text(Role::User, "go"), assistant("I look.", &[("t1", "{}")]), assistant("other", &[("t2", "{}")])];
    let body = request_body(&request(messages), &config(), &NoBlobs, &memory).unwrap();
    let kinds: Vec<&str> = body["messages"][1]["content"].as_array().unwrap().iter().map(|block| block["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["thinking", "text", "tool_use", "text", "tool_use"]);
    assert_eq!(body["messages"][1]["content"][0]["signature"], "s1");
}
