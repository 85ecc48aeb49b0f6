//! The model clients against servers that others wrote.

use std::sync::Arc;
use std::time::Duration;

use harness_evo::base::SeedTree;
use harness_evo::model::{
    ChatRequest, EndpointConfig, Growth, LanguageModel, ModelError, NoBlobs, Reachable, RetryPolicy, RetryStage, SamplingParams,
    StopReason, ToolChoice, complete_with_retry, connect, reachability,
};
use harness_evo::trajectory::{Message, RequestTag, Role, ToolSchema};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::mock_llm::{FaultProxy, MockLlm, agent_rules, reply, rule, with_refusals};

/// The environment variable that holds the base URL of a running server with real weights.
const REAL_SERVER: &str = "HARNESS_EVO_OPENAI_BASE_URL";

const COMMAND: &str = "printf 'hi\\n' > hello.txt";

fn config(base_url: &str, extra: &Value) -> EndpointConfig {
    let mut fields = json!({"kind": "openai", "base_url": base_url, "model": "scripted"});
    for (name, value) in extra.as_object().unwrap() {
        fields[name] = value.clone();
    }
    serde_json::from_value(fields).unwrap()
}

fn client(base_url: &str, extra: &Value) -> Arc<dyn LanguageModel> {
    connect(&config(base_url, extra), None, Arc::new(NoBlobs)).unwrap()
}

fn tool(name: &str, argument: &str) -> ToolSchema {
    let parameters = json!({"type": "object", "properties": {argument: {"type": "string"}}});
    ToolSchema { name: name.to_owned(), description: format!("The {name} tool."), parameters }
}

fn request(messages: Vec<Message>) -> ChatRequest {
    ChatRequest {
        messages,
        tools: vec![tool("bash", "command"), tool("finish", "summary")],
        tool_choice: ToolChoice::Auto,
        sampling: SamplingParams { temperature: 0.2, top_p: 1.0, max_output_tokens: 32, seed: Some(5) },
        tag: RequestTag { task: None, seed: 1, step: 0 },
    }
}

fn conversation(text: &str) -> Vec<Message> {
    vec![Message::text(Role::System, "You are an agent."), Message::text(Role::User, text)]
}

#[tokio::test]
async fn a_scripted_server_plays_an_agent_through_to_its_end() {
    let Some(mock) = MockLlm::start(&agent_rules(COMMAND)) else { return };
    assert_eq!(reachability(&config(&mock.base_url(), &json!({})), None).await, Ok(Reachable::Listed));

    let model = client(&mock.base_url(), &json!({}));
    let mut messages = conversation("Create hello.txt with the text hi.");
    let first = model.complete(&request(messages.clone())).await.unwrap();
    assert_eq!(first.stop, StopReason::ToolCalls);
    let call = first.message.tool_calls[0].clone();
    assert_eq!((call.name.as_str(), call.arguments), ("bash", json!({ "command": COMMAND }).to_string()));
    assert_eq!((first.usage.prompt_tokens, first.usage.completion_tokens), (120, 15));

    messages.push(first.message);
    messages.push(Message::tool_result(&call.id, ""));
    let second = model.complete(&request(messages)).await.unwrap();
    assert_eq!(second.message.tool_calls[0].name, "finish");

    let mut text_calls = request(conversation("Create hello.txt with the text hi."));
    text_calls.tools.clear();
    text_calls.messages[0] = Message::text(Role::System, "Call tools by <tool_call>...</tool_call>.");
    let first = model.complete(&text_calls).await.unwrap();
    assert!(first.message.joined_text().starts_with("<tool_call>"), "{first:?}");
    text_calls.messages.push(first.message);
    text_calls.messages.push(Message::text(Role::User, "<tool_response name=\"bash\">\n\n</tool_response>"));
    let second = model.complete(&text_calls).await.unwrap();
    assert!(second.message.joined_text().contains("\"finish\""), "{second:?}");
}

#[tokio::test]
async fn errors_and_omissions_of_a_scripted_server_are_sorted() {
    let says = |word: &str| format!("body.messages[-1].role == 'user' && contains(body.messages[-1].content, '{word}')");
    let too_long = json!({"error": {"message": "This model's maximum context length is 8 tokens", "code": "context_length_exceeded"}});
    let mut bare = reply(&json!({"role": "assistant", "content": "ok"}), "stop");
    bare.as_object_mut().unwrap().remove("usage");
    let mut rules = agent_rules(COMMAND);
    rules.extend([
        rule(&says("wrong key"), 401, &json!({"error": {"message": "Incorrect API key provided.", "code": "invalid_api_key"}})),
        rule(&says("too long"), 400, &too_long),
        rule(&says("busy"), 503, &json!({"error": "overloaded"})),
        rule(&says("no usage"), 200, &bare),
    ]);
    let Some(mock) = MockLlm::start(&rules) else { return };
    let model = client(&mock.base_url(), &json!({}));
    let ask = async |text: &str| model.complete(&request(conversation(text))).await;

    assert!(matches!(ask("wrong key").await, Err(ModelError::Permanent { message }) if message.contains("api_key_env")));
    assert!(matches!(ask("too long").await, Err(ModelError::ContextLength { .. })));
    assert!(matches!(ask("busy").await, Err(ModelError::Transient { message, .. }) if message.contains("overloaded")));
    let estimated = ask("no usage").await.unwrap();
    // 4 for the frame of the reply, 1 for two bytes.
    assert_eq!(estimated.usage.completion_tokens, 5);
    // mock-llm takes bodies of 100 kB at most and says 413 beyond.
    assert!(matches!(ask(&"x".repeat(200_000)).await, Err(ModelError::ContextLength { .. })));
    let elsewhere = client(&mock.base_url().replace("/v1", "/v2"), &json!({}));
    let lost = elsewhere.complete(&request(conversation("hi"))).await;
    assert!(matches!(lost, Err(ModelError::Permanent { message }) if message.contains("base_url")));
}

#[tokio::test]
async fn injected_faults_are_all_retried_and_no_reply_is_wrong() {
    let Some(mock) = MockLlm::start(&with_refusals(&agent_rules(COMMAND), 200)) else { return };
    let proxy = FaultProxy::start(mock.address()).await;
    let model = client(&proxy.base_url(), &json!({"timeouts": {"first_byte_ms": 500, "idle_ms": 500}}));
    let stage = RetryStage {
        attempts: 10,
        growth: Growth::Exponential,
        delay: Duration::from_millis(2),
        cap: Duration::from_millis(20),
        jitter: 0.5,
    };
    let policy = RetryPolicy { stages: vec![stage], longest_wait: Duration::from_secs(1) };
    let seeds = SeedTree::new(11);
    let mut faults = Vec::new();
    for number in 0..60 {
        let asked = request(conversation("Create hello.txt with the text hi."));
        let done = complete_with_retry(model.as_ref(), &asked, &policy, &seeds.index(number), &CancellationToken::new()).await.unwrap();
        assert_eq!(done.reply.message.tool_calls[0].name, "bash");
        faults.extend(done.failures.into_iter().map(|failure| failure.message));
    }
    for kind in ["answered 429", "answered 500", "first_byte_ms", "broke off", "not JSON"] {
        assert!(faults.iter().any(|fault| fault.contains(kind)), "{kind} was never injected: {faults:?}");
    }
    eprintln!("60 replies, {} faults retried", faults.len());
}

#[tokio::test]
async fn a_server_with_real_weights_is_understood() {
    let Ok(base_url) = std::env::var(REAL_SERVER) else {
        eprintln!("skipped: {REAL_SERVER} is not set (the base URL of a running server, for example llama_cpp.server's)");
        return;
    };
    let config = config(&base_url, &json!({"extra_body": {"logprobs": true, "top_logprobs": 2}}));
    reachability(&config, None).await.unwrap();
    let model = connect(&config, None, Arc::new(NoBlobs)).unwrap();

    let mut messages = conversation("Create hello.txt with the text hi.");
    let reply = model.complete(&request(messages.clone())).await.unwrap();
    eprintln!("{reply:?}");
    assert!(reply.usage.prompt_tokens > 0 && reply.usage.completion_tokens <= 32);
    // llama_cpp.server gives none beside calls.
    assert!(!reply.logprobs.is_empty() || !reply.message.tool_calls.is_empty());
    assert!(reply.logprobs.iter().all(|entry| entry.logprob <= 0.0));

    // A conversation with a call and its result is accepted, whatever the model makes of it.
    let mut called = Message::text(Role::Assistant, "");
    called.content.clear();
    called.tool_calls.push(harness_evo::trajectory::ToolCall {
        id: "c1".to_owned(),
        name: "bash".to_owned(),
        arguments: "{oops".to_owned(),
    });
    messages.push(called);
    messages.push(Message::tool_result("c1", "a.txt"));
    model.complete(&request(messages)).await.unwrap();

    let endless = request(conversation(&"word ".repeat(100_000)));
    assert!(matches!(model.complete(&endless).await, Err(ModelError::ContextLength { .. })));
}
