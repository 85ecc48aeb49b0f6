use serde_json::{Value, json};

use super::super::openai_reply::parse_reply;
use super::super::{BlobError, ChatReply, NoBlobs, SamplingParams, StopReason};
use super::*;
use crate::trajectory::{RequestTag, ToolCall, ToolSchema, Usage};

struct OnePixel;

impl Blobs for OnePixel {
    fn read(&self, blob: &str) -> Result<Vec<u8>, BlobError> {
        // RFC 4648, section 10: BASE64("foob") = "Zm9vYg==".
        if blob == "aa" { Ok(b"foob".to_vec()) } else { NoBlobs.read(blob) }
    }
}

fn config(extra: &Value) -> EndpointConfig {
    let mut fields = json!({"kind": "openai", "base_url": "http://host/v1", "model": "probe"});
    for (name, value) in extra.as_object().unwrap() {
        fields[name] = value.clone();
    }
    serde_json::from_value(fields).unwrap()
}

fn request(messages: Vec<Message>) -> ChatRequest {
    ChatRequest {
        messages,
        tools: vec![ToolSchema { name: "bash".to_owned(), description: "Runs.".to_owned(), parameters: json!({"type": "object"}) }],
        tool_choice: ToolChoice::Auto,
        sampling: SamplingParams { temperature: 0.0, top_p: 0.9, max_output_tokens: 64, seed: None },
        tag: RequestTag { task: None, seed: 7, step: 4 },
    }
}

fn call(id: &str, arguments: &str) -> ToolCall {
    ToolCall { id: id.to_owned(), name: "bash".to_owned(), arguments: arguments.to_owned() }
}

fn reply(message: &Value) -> ChatReply {
    reply_to(&json!({"choices": [{"message": message}]}))
}

fn reply_to(answer: &Value) -> ChatReply {
    parse_reply(answer, &request(vec![Message::text(Role::User, "12345678")])).unwrap()
}

#[test]
fn a_conversation_with_calls_and_a_picture_is_written_as_the_interface_wants_it() {
    let picture = ContentPart::Image { blob: "aa".to_owned(), media_type: "image/png".to_owned() };
    let mut seen = Message::tool_result("c2", "taken");
    seen.content.push(picture);
    let calls = Message {
        content: Vec::new(),
        tool_calls: vec![call("c1", r#"{"command":"ls"}"#), call("c2", "{broken")],
        reasoning: Some("hm".to_owned()),
        ..Message::text(Role::Assistant, "")
    };
    let messages = vec![
        Message::text(Role::System, "rules"),
        Message::text(Role::User, "go"),
        calls,
        Message::tool_result("c1", "a.txt"),
        seen,
        Message::text(Role::User, "on"),
    ];
    let body = request_body(&request(messages), &config(&json!({})), &OnePixel).unwrap();
    let function = |arguments: &str| json!({"name": "bash", "arguments": arguments});
    assert_eq!(
        body["messages"],
        json!([
            {"role": "system", "content": "rules"},
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": "", "tool_calls": [
                {"id": "c1", "type": "function", "function": function(r#"{"command":"ls"}"#)},
                {"id": "c2", "type": "function", "function": function(r#"{"malformed_arguments":"{broken"}"#)},
            ]},
            {"role": "tool", "tool_call_id": "c1", "content": "a.txt"},
            {"role": "tool", "tool_call_id": "c2", "content": "taken"},
            {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,Zm9vYg=="}}]},
            {"role": "user", "content": "on"},
        ])
    );
    assert_eq!(body["tools"][0]["function"]["name"], "bash");
    assert_eq!((&body["tool_choice"], &body["top_p"], &body["max_tokens"]), (&json!("auto"), &json!(0.9), &json!(64)));
}

#[test]
fn the_configuration_shapes_the_body() {
    let config = config(&json!({
        "output_limit": "max_completion_tokens", "omit": ["temperature"], "past_reasoning": "send", "extra_body": {"logprobs": true},
    }));
    let thought = Message { reasoning: Some("hm".to_owned()), ..Message::text(Role::Assistant, "so") };
    let body = request_body(&request(vec![thought]), &config, &NoBlobs).unwrap();
    assert_eq!(body["max_completion_tokens"], json!(64));
    assert_eq!(body["logprobs"], json!(true));
    assert!(body.get("temperature").is_none() && body.get("max_tokens").is_none());
    assert_eq!(body["messages"][0], json!({"role": "assistant", "content": "so", "reasoning_content": "hm"}));
}

#[test]
fn a_missing_picture_is_named() {
    let mut message = Message::text(Role::User, "look");
    message.content.push(ContentPart::Image { blob: "bb".to_owned(), media_type: "image/png".to_owned() });
    let error = request_body(&request(vec![message]), &config(&json!({})), &OnePixel).unwrap_err();
    assert!(matches!(&error, ModelError::Permanent { message } if message.contains("bb")), "{error}");
}

#[test]
fn calls_are_read_in_every_shape_servers_send() {
    let reply = reply(&json!({"content": null, "tool_calls": [
        {"id": "x", "type": "function", "function": {"name": "bash", "arguments": "{\"command\": \"ls\"}"}},
        {"id": "x", "function": {"name": "bash", "arguments": {"command": "pwd"}}},
        {"function": {"name": "finish"}},
        {"id": "", "function": {"name": "finish", "arguments": ""}},
        {"id": null, "function": {"arguments": "{oops"}},
        {"name": "bash", "arguments": null},
    ]}));
    let calls: Vec<(&str, &str, &str)> =
        reply.message.tool_calls.iter().map(|call| (call.id.as_str(), call.name.as_str(), call.arguments.as_str())).collect();
    assert_eq!(
        calls,
        [
            ("x", "bash", "{\"command\": \"ls\"}"),
            ("call_4_1", "bash", r#"{"command":"pwd"}"#),
            ("call_4_2", "finish", "{}"),
            ("call_4_3", "finish", "{}"),
            ("call_4_4", "", "{oops"),
            ("call_4_5", "bash", "{}"),
        ]
    );
    assert_eq!(reply.stop, StopReason::ToolCalls);
    assert!(reply.message.content.is_empty());
}

#[test]
fn the_older_single_call_is_read() {
    let reply = reply(&json!({"content": "", "function_call": {"name": "bash", "arguments": "{}"}}));
    assert_eq!(reply.message.tool_calls, [call("call_4_0", "{}")]);
}

#[test]
fn content_and_reasoning_are_read_in_every_shape() {
    for (message, text, reasoning) in [
        (json!({"content": "a"}), "a", None),
        (json!({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}), "ab", None),
        (json!({"content": "a", "reasoning_content": "r"}), "a", Some("r")),
        (json!({"content": "a", "reasoning": "r"}), "a", Some("r")),
        (json!({"content": "a", "reasoning_content": null, "reasoning": ""}), "a", None),
        (
            json!({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "r"}]}, {"type": "text", "text": "a"}]}),
            "a",
            Some("r"),
        ),
        (json!({"content": null, "refusal": "no"}), "no", None),
        (json!({}), "", None),
        (json!({"content": 7, "tool_calls": "none"}), "", None),
    ] {
        let reply = reply(&message);
        assert_eq!((reply.message.joined_text().as_str(), reply.message.reasoning.as_deref()), (text, reasoning), "{message}");
        assert_eq!(reply.message.role, Role::Assistant);
    }
}

#[test]
fn the_end_of_a_reply_is_sorted() {
    let stop = |reason: Value, calls: Value| {
        reply_to(&json!({"choices": [{"finish_reason": reason, "message": {"content": "a", "tool_calls": calls}}]})).stop
    };
    let one = json!([{"function": {"name": "bash"}}]);
    assert_eq!(stop(json!("stop"), json!([])), StopReason::Stop);
    assert_eq!(stop(json!("stop"), one.clone()), StopReason::ToolCalls);
    assert_eq!(stop(json!("tool_calls"), one.clone()), StopReason::ToolCalls);
    assert_eq!(stop(json!("length"), one), StopReason::Length);
    assert_eq!(stop(json!("content_filter"), json!([])), StopReason::Filtered);
    assert_eq!(stop(Value::Null, json!(null)), StopReason::Stop);
    assert_eq!(stop(json!("abort"), json!([])), StopReason::Other);
}

#[test]
fn usage_is_the_servers_or_an_estimate() {
    let usage = |usage: Value| reply_to(&json!({"choices": [{"message": {"content": "12345678"}}], "usage": usage})).usage;
    let given = json!({"prompt_tokens": 100, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 64}});
    assert_eq!(usage(given), Usage { prompt_tokens: 100, completion_tokens: 3, cached_tokens: 64 });
    // Prompt: 4 for the frame, 2 for 8 bytes, then the tool: 1 for `bash`, 2 for `Runs.`, 5 for `{"type":"object"}`.
    // Reply: 4 for the frame and 2 for 8 bytes.
    let estimate = Usage { prompt_tokens: 14, completion_tokens: 6, cached_tokens: 0 };
    assert_eq!(usage(Value::Null), estimate);
    assert_eq!(usage(json!({"prompt_tokens": -1, "completion_tokens": u64::MAX})), estimate);
    assert_eq!(usage(json!({"prompt_tokens": 10, "completion_tokens": 0, "prompt_cache_hit_tokens": 99})).cached_tokens, 10);
}

#[test]
fn logprobs_and_token_ids_are_kept() {
    let reply = reply_to(&json!({
        "prompt_token_ids": [1, 2],
        "choices": [{"message": {"content": "ab"}, "token_ids": [3, 4],
            "logprobs": {"content": [{"token": "a", "logprob": -0.5, "top_logprobs": []}, {"token": "b", "logprob": -1.25}]}}],
    }));
    assert_eq!((reply.prompt_token_ids, reply.completion_token_ids), (vec![1, 2], vec![3, 4]));
    let pairs: Vec<(&str, f64)> = reply.logprobs.iter().map(|entry| (entry.token.as_str(), entry.logprob)).collect();
    assert_eq!(pairs, [("a", -0.5), ("b", -1.25)]);

    let older = reply_to(&json!({
        "choices": [{"message": {"content": "ab"}, "token_ids": [3, -4], "logprobs": {"tokens": ["a", "b"], "token_logprobs": [null, -1.25]}}],
    }));
    assert!(older.completion_token_ids.is_empty());
    assert_eq!(older.logprobs.len(), 1);
}

#[test]
fn a_reply_far_beyond_the_limit_is_refused() {
    let sized = |bytes: usize| {
        let answer = json!({"choices": [{"message": {"content": "x".repeat(bytes)}}]});
        parse_reply(&answer, &request(Vec::new())).is_ok()
    };
    // 64 tokens of at most 64 bytes, and 64 KiB.
    assert!(sized(69_632));
    assert!(!sized(69_633));
}
