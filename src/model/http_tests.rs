use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use super::super::scripted_server::{Act, ScriptedServer, answer};
use super::super::{
    ChatReply, ChatRequest, EndpointConfig, EndpointError, NoBlobs, Reachable, SamplingParams, ToolChoice, connect, reachability,
};
use super::*;
use crate::trajectory::{Message, RequestTag, Role};

const KEY: &str = "test-key-4711-abcdef";
const GOOD: &str = r#"{"choices":[{"message":{"role":"assistant","content":"hello"},"finish_reason":"stop"}],"usage":{"prompt_tokens":5,"completion_tokens":2}}"#;

fn config(base_url: &str) -> EndpointConfig {
    serde_json::from_value(json!({
        "kind": "openai", "base_url": base_url, "model": "probe", "api_key_env": "PROBE_KEY",
        "timeouts": {"connect_ms": 2000, "first_byte_ms": 400, "idle_ms": 300, "total_ms": 1500},
    }))
    .unwrap()
}

fn request() -> ChatRequest {
    ChatRequest {
        messages: vec![Message::text(Role::User, "hi")],
        tools: Vec::new(),
        tool_choice: ToolChoice::Auto,
        sampling: SamplingParams { temperature: 0.5, top_p: 1.0, max_output_tokens: 16, seed: Some(3) },
        tag: RequestTag { task: None, seed: 0, step: 0 },
    }
}

async fn ask(server: &ScriptedServer) -> Result<ChatReply, ModelError> {
    let model = connect(&config(&server.base_url()), Some(Secret::new(KEY).unwrap()), Arc::new(NoBlobs)).unwrap();
    model.complete(&request()).await
}

/// What becomes of one request that is answered so.
async fn outcome(act: Act) -> Result<ChatReply, ModelError> {
    let server = ScriptedServer::start(vec![act]).await;
    let outcome = ask(&server).await;
    assert_eq!(server.requests().len(), 1, "nothing is retried inside");
    if let Err(error) = &outcome {
        assert!(!format!("{error} {error:?}").contains(KEY), "{error}");
    }
    outcome
}

async fn transient(act: Act) -> (String, Option<Duration>) {
    match outcome(act).await {
        Err(ModelError::Transient { message, retry_after }) => (message, retry_after),
        other => panic!("{other:?}"),
    }
}

async fn permanent(act: Act) -> String {
    match outcome(act).await {
        Err(ModelError::Permanent { message }) => message,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_good_answer_is_a_reply_and_the_request_carries_key_and_body() {
    let server = ScriptedServer::start(vec![Act::Send(answer("200 OK", "", GOOD))]).await;
    let reply = ask(&server).await.unwrap();
    assert_eq!(reply.message.joined_text(), "hello");
    assert_eq!((reply.usage.prompt_tokens, reply.usage.completion_tokens), (5, 2));
    let sent = server.requests().remove(0);
    let (head, body) = sent.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("POST /v1/chat/completions HTTP/1.1"), "{head}");
    assert!(head.contains(&format!("authorization: Bearer {KEY}")), "{head}");
    let body: Value = serde_json::from_str(body).unwrap();
    let expected =
        json!({"model": "probe", "messages": [{"role": "user", "content": "hi"}], "temperature": 0.5, "max_tokens": 16, "seed": 3});
    assert_eq!(body, expected);
}

#[tokio::test]
async fn overload_is_transient_and_keeps_what_the_endpoint_asks_for() {
    let (message, wait) =
        transient(Act::Send(answer("429 Too Many Requests", "retry-after: 7\r\n", r#"{"error":{"message":"slow down"}}"#))).await;
    assert_eq!(wait, Some(Duration::from_secs(7)));
    assert!(message.contains("429: slow down"), "{message}");
    let (message, wait) = transient(Act::Send(answer("503 Unavailable", "", "<html>busy</html>"))).await;
    assert_eq!(wait, None);
    assert!(message.contains("503: <html>busy</html>"), "{message}");
}

#[tokio::test]
async fn stalls_are_transient_and_name_the_timer_that_fired() {
    let (message, _) = transient(Act::SendThenStall(Vec::new())).await;
    assert!(message.contains("first_byte_ms"), "{message}");
    let half = answer("200 OK", "", GOOD);
    let (message, _) = transient(Act::SendThenStall(half[..half.len() - 10].to_vec())).await;
    assert!(message.contains("idle_ms"), "{message}");
    let (message, _) = transient(Act::Trickle(b"HTTP/1.1 200 OK\r\n\r\n".to_vec())).await;
    assert!(message.contains("total_ms"), "{message}");
}

#[tokio::test]
async fn broken_answers_are_transient() {
    let half = &GOOD[..40];
    let short = format!("HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n{half}");
    for (bytes, words) in [
        (answer("200 OK", "", half), "not JSON"),
        (short.into_bytes(), "broke off"),
        (answer("200 OK", "", "<!doctype html><title>Login</title>"), "not JSON"),
        (answer("200 OK", "", ""), "not JSON"),
        (answer("200 OK", "", "[]"), "no choices"),
        (answer("200 OK", "", r#"{"choices":[]}"#), "no choices"),
        (answer("200 OK", "", r#"{"choices":[{"message":null}]}"#), "no message"),
        (answer("200 OK", "", r#"{"error":{"message":"upstream died","code":502}}"#), "502: upstream died"),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\n{\"a\":\r\nzz".to_vec(), "broke off"),
        (b"SSH-2.0-OpenSSH_9.2\r\n".to_vec(), "closed the connection"),
        (Vec::new(), "closed the connection"),
    ] {
        let (message, _) = transient(Act::Send(bytes)).await;
        assert!(message.contains(words), "{words}: {message}");
    }
}

#[tokio::test]
async fn an_endless_answer_is_cut_off() {
    let (message, _) = transient(Act::Flood(b"HTTP/1.1 200 OK\r\n\r\n".to_vec())).await;
    assert!(message.contains("16777216 bytes"), "{message}");
}

#[tokio::test]
async fn refusals_are_permanent_with_a_hint_and_without_the_key() {
    let echo = format!(r#"{{"error":{{"message":"Incorrect API key provided: {KEY}"}}}}"#);
    let message = permanent(Act::Send(answer("401 Unauthorized", "", &echo))).await;
    assert!(message.contains("[redacted]") && message.contains("PROBE_KEY"), "{message}");
    let message = permanent(Act::Send(answer("404 Not Found", "", r#"{"detail":"Not Found"}"#))).await;
    assert!(message.contains("base_url"), "{message}");
    permanent(Act::Send(answer("400 Bad Request", "", r#"{"error":{"message":"unknown field top_k"}}"#))).await;
    let message = permanent(Act::Send(answer("307 Temporary Redirect", "location: https://elsewhere.example/v1\r\n", ""))).await;
    assert!(message.contains("https://elsewhere.example/v1"), "{message}");
}

#[tokio::test]
async fn a_request_that_is_too_long_is_told_apart() {
    let body = r#"{"error":{"message":"This model's maximum context length is 8192 tokens.","code":"context_length_exceeded"}}"#;
    let outcome = outcome(Act::Send(answer("400 Bad Request", "", body))).await;
    assert!(matches!(outcome, Err(ModelError::ContextLength { .. })), "{outcome:?}");
}

#[tokio::test]
async fn nobody_listening_is_transient() {
    // A port that was free a moment ago.
    let base_url = ScriptedServer::start(vec![Act::Send(Vec::new())]).await.base_url();
    tokio::time::sleep(Duration::from_millis(20)).await;
    let model = connect(&config(&base_url), Some(Secret::new(KEY).unwrap()), Arc::new(NoBlobs)).unwrap();
    let Err(ModelError::Transient { message, .. }) = model.complete(&request()).await else { panic!() };
    assert!(message.contains("could not be reached"), "{message}");
    let error = reachability(&config(&base_url), Some(&Secret::new(KEY).unwrap())).await.unwrap_err();
    assert!(matches!(&error, EndpointError::Unusable { hint, .. } if hint.contains("start the server")), "{error}");
}

#[tokio::test]
async fn an_address_that_says_https_where_none_is_spoken_is_transient() {
    let server = ScriptedServer::start(vec![Act::Send(answer("400 Bad Request", "", "{}"))]).await;
    let base_url = server.base_url().replace("http:", "https:");
    let model = match connect(&config(&base_url), Some(Secret::new(KEY).unwrap()), Arc::new(NoBlobs)) {
        Ok(model) => model,
        // A machine without CA certificates.
        Err(error) => return assert!(matches!(&error, EndpointError::Client { .. }), "{error}"),
    };
    let error = model.complete(&request()).await.unwrap_err();
    assert!(matches!(&error, ModelError::Transient { message, .. } if message.contains("first_byte_ms")), "{error}");
}

#[tokio::test]
async fn a_model_is_reachable_by_the_list_or_by_a_reply() {
    let key = Secret::new(KEY).unwrap();
    let list = answer("200 OK", "", r#"{"data":[{"id":"probe"}]}"#);
    let server = ScriptedServer::start(vec![Act::Send(list)]).await;
    assert_eq!(reachability(&config(&server.base_url()), Some(&key)).await, Ok(Reachable::Listed));

    let no_list = answer("404 Not Found", "", "{}");
    let server = ScriptedServer::start(vec![Act::Send(no_list.clone()), Act::Send(answer("200 OK", "", GOOD))]).await;
    assert_eq!(reachability(&config(&server.base_url()), Some(&key)).await, Ok(Reachable::Replied));
    assert!(server.requests()[1].contains(r#""max_tokens":1"#));

    let server = ScriptedServer::start(vec![Act::Send(no_list)]).await;
    let error = reachability(&config(&server.base_url()), Some(&key)).await.unwrap_err();
    assert!(error.to_string().contains("model's name"), "{error}");
}

#[tokio::test]
async fn the_anthropic_client_sends_its_headers_and_sorts_its_errors() {
    let good = r#"{"content":[{"type":"text","text":"hello"}],"stop_reason":"end_turn","usage":{"input_tokens":5,"output_tokens":2}}"#;
    let busy = r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;
    let acts =
        vec![Act::Send(answer("529 Overloaded", "", busy)), Act::Send(answer("200 OK", "", busy)), Act::Send(answer("200 OK", "", good))];
    let server = ScriptedServer::start(acts).await;
    let mut config = config(&server.base_url());
    config.kind = super::super::EndpointKind::Anthropic;
    let model = connect(&config, Some(Secret::new(KEY).unwrap()), Arc::new(NoBlobs)).unwrap();
    for _ in 0..2 {
        let error = model.complete(&request()).await.unwrap_err();
        assert!(matches!(&error, ModelError::Transient { message, .. } if message.contains("Overloaded")), "{error}");
    }
    assert_eq!(model.complete(&request()).await.unwrap().message.joined_text(), "hello");
    let sent = server.requests().remove(2);
    assert!(sent.starts_with("POST /v1/messages"), "{sent}");
    assert!(sent.contains(&format!("x-api-key: {KEY}")) && sent.contains("anthropic-version: 2023-06-01"), "{sent}");
}
