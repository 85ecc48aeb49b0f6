use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use super::*;
use crate::model::SamplingParams;
use crate::student::generation::tests::student;
use crate::task::TaskId;
use crate::trajectory::ToolSchema;

fn model(seed: u64) -> Arc<StudentModel> {
    Arc::new(StudentModel::start(Arc::new(student(seed)), "small", Vec::new(), DecodingLimits::default()).unwrap())
}

fn request(text: &str, step: u32) -> ChatRequest {
    ChatRequest {
        messages: vec![Message::text(Role::User, text)],
        tools: Vec::new(),
        tool_choice: ToolChoice::None,
        sampling: SamplingParams { temperature: 0.9, top_p: 0.95, max_output_tokens: 24, seed: Some(1) },
        tag: RequestTag { task: Some(TaskId::from_hash(&blake3::hash(b"task"))), seed: 7, step },
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_has_one_reply_whatever_else_runs() {
    let model = model(1);
    let reply = model.complete(&request("ls", 0)).await.unwrap();
    assert_eq!(reply.prompt_token_ids, model.student().codec.prompt(&request("ls", 0).messages, &[]).unwrap().ids);
    assert_eq!(reply.usage.prompt_tokens, reply.prompt_token_ids.len() as u64);
    assert_eq!(reply.usage.completion_tokens, reply.completion_token_ids.len() as u64);
    assert_eq!(reply.logprobs.len(), reply.completion_token_ids.len());
    assert!(reply.logprobs.iter().all(|token| token.logprob < 0.0));
    assert!(!model.simulated() && model.price() == [0; 3]);

    let mut crowd = JoinSet::new();
    for step in 0..6 {
        let model = Arc::clone(&model);
        crowd.spawn(async move { (step, model.complete(&request("ls", step)).await.unwrap()) });
    }
    let mut replies = crowd.join_all().await;
    replies.sort_by_key(|(step, _)| *step);
    let ids: Vec<&Vec<u32>> = replies.iter().map(|(_, reply)| &reply.completion_token_ids).collect();
    assert_eq!(*ids[0], reply.completion_token_ids);
    assert!(ids[1..].iter().all(|other| **other != reply.completion_token_ids), "{ids:?}");
    let other_seed = ChatRequest { tag: RequestTag { seed: 8, ..request("ls", 0).tag }, ..request("ls", 0) };
    assert_ne!(model.complete(&other_seed).await.unwrap().completion_token_ids, reply.completion_token_ids);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_answered_is_said() {
    let model = model(1);
    let long = model.complete(&request(&"ls -l ".repeat(400), 0)).await;
    assert!(matches!(&long, Err(ModelError::ContextLength { message }) if message.contains("400")), "{long:?}");
    let mut picture = request("ls", 0);
    picture.messages[0].content.push(ContentPart::Image { blob: "00".to_owned(), media_type: "image/png".to_owned() });
    let refused = model.complete(&picture).await;
    assert!(matches!(&refused, Err(ModelError::Permanent { message }) if message.contains("pictures")), "{refused:?}");
    let mut hot = request("ls", 0);
    hot.sampling.temperature = -1.0;
    assert!(matches!(model.complete(&hot).await, Err(ModelError::Permanent { .. })));
    // It is still there.
    assert!(model.complete(&request("ls", 0)).await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_may_leave_and_the_thread_ends_with_the_model() {
    let model = model(2);
    let mut long = request("ls", 0);
    long.sampling.max_output_tokens = 380;
    let left = tokio::time::timeout(Duration::from_millis(1), model.complete(&long)).await;
    drop(left);
    assert!(model.complete(&request("ls", 1)).await.is_ok());
    let student = Arc::downgrade(model.student());
    drop(model);
    let began = Instant::now();
    while student.strong_count() > 0 {
        assert!(began.elapsed() < Duration::from_secs(60), "the thread goes on");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

fn generated(text: &str, finish: Finish) -> Generated {
    Generated { prompt: vec![1, 2], tokens: vec![3], logprobs: vec![-0.5], text: text.to_owned(), finish, reused: 0 }
}

#[test]
fn calls_are_read_where_tools_were_offered() {
    let student = student(1);
    let text = "So.\n<tool_call>\n{\"name\": \"bash\", \"arguments\": {\"command\": \"ls\"}}\n</tool_call>";
    let read = chat_reply(&student, generated(text, Finish::EndOfTurn), Calls::Read);
    assert_eq!((read.stop, read.message.tool_calls.len()), (StopReason::ToolCalls, 1));
    let left = chat_reply(&student, generated(text, Finish::EndOfTurn), Calls::LeftAsText);
    assert_eq!((left.stop, left.message), (StopReason::Stop, Message::text(Role::Assistant, text)));
    let cut = chat_reply(&student, generated("<tool_call>\n{\"name\": \"bash\", \"arguments\": {", Finish::Length), Calls::Read);
    assert_eq!((cut.stop, cut.message.tool_calls.len()), (StopReason::Length, 0));
}

#[test]
fn what_a_call_was_read_from_is_what_the_next_request_shows() {
    // The ids of the reply are the beginning of the next request's ids behind its prompt: nothing is computed twice, and training sees
    // what was drawn.
    let student = student(1);
    let tool = ToolSchema {
        name: "bash".to_owned(),
        description: "Runs a command.".to_owned(),
        parameters: serde_json::json!({"type": "object", "properties": {"command": {"type": "string"}}}),
    };
    let mut messages = vec![Message::text(Role::User, "Look.")];
    let prompt = student.codec.prompt(&messages, std::slice::from_ref(&tool)).unwrap().ids;
    let text = "First a look.\n<tool_call>\n{\"name\": \"bash\", \"arguments\": {\"command\":  \"ls\"}}\n</tool_call>";
    let mut reply = student.codec.tokenizer().encode(text, crate::student::Trust::Assistant).unwrap();
    reply.push(student.codec.end_of_turn());
    let read = read_reply(text, Completeness::Whole);
    messages.push(read.message);
    messages.push(Message::tool_result("call_1", "notes.txt"));
    let next = student.codec.prompt(&messages, &[tool]).unwrap().ids;
    assert_eq!(next[..prompt.len()], prompt);
    assert_eq!(next[prompt.len()..prompt.len() + reply.len()], reply);
}

#[test]
fn the_fingerprint_is_of_all_that_changes_replies() {
    let print = |seed: u64, stops: &[&str]| {
        let stops = stops.iter().map(|stop| (*stop).to_owned()).collect();
        StudentModel::start(Arc::new(student(seed)), "small", stops, DecodingLimits::default()).unwrap().id().fingerprint.clone()
    };
    assert_eq!(print(1, &[]), print(1, &[]));
    assert_ne!(print(1, &[]), print(2, &[]));
    assert_ne!(print(1, &[]), print(1, &["x"]));
    let mut other = student(1);
    other.generation.top_k = Some(5);
    let other = StudentModel::start(Arc::new(other), "small", Vec::new(), DecodingLimits::default()).unwrap();
    assert_ne!(other.id().fingerprint, print(1, &[]));
}
