//! What a transcript tells of the requests behind it.

use super::*;
use crate::episode::{Lost, sent_steps};
use crate::harness::{CallForm, Compaction, Scratchpad};
use crate::model::ChatRequest;

/// Plays `script` and asserts that every request to the agent is found again, up to `known` of them.
async fn assert_found(
    harness: &Harness,
    script: Vec<ScriptedTurn>,
    commands: Vec<Expected>,
    known: usize,
) -> Vec<crate::episode::SentStep> {
    let model = ScriptedModel::new(script);
    let played = played(harness, &model, &sandbox(commands, &solved())).await;
    let steps = sent_steps(harness.genome(), &played.trajectory.messages);
    assert_eq!(steps.len(), played.trajectory.steps() as usize);
    // Requests for summaries have no tools; those of the text form never have.
    let native = harness.genome().protocol.calls == CallForm::Native;
    let requests: Vec<ChatRequest> = model.requests().into_iter().filter(|request| !native || !request.tools.is_empty()).collect();
    for (step, request) in steps.iter().zip(&requests).take(known) {
        assert_eq!(step.sent.as_ref(), Ok(&request.messages), "reply {}", step.reply);
    }
    assert!(steps[known..].iter().all(|step| step.sent.is_err()));
    steps
}

fn long(count: usize) -> (Vec<ScriptedTurn>, Vec<Expected>) {
    let script = (0..count).map(|_| bash("long")).chain([finish()]).collect();
    (script, (0..count).map(|_| Expected::new("long", &"x".repeat(1200), 0)).collect())
}

#[tokio::test]
async fn requests_are_found_under_every_memory_that_keeps_them() {
    let (script, commands) = long(5);
    assert_found(&harness(|_| {}), script, commands, 6).await;
    let (script, commands) = long(5);
    assert_found(&harness(|genome| genome.observation.keep = 2), script, commands, 6).await;
    let (script, commands) = long(5);
    assert_found(&harness(|genome| genome.memory.window_tokens = 1000), script, commands, 6).await;
    let both = |genome: &mut Genome| {
        genome.memory.window_tokens = 1000;
        genome.observation.keep = 1;
    };
    let (script, commands) = long(7);
    assert_found(&harness(both), script, commands, 8).await;
}

#[tokio::test]
async fn requests_after_a_summary_are_lost() {
    let (mut script, commands) = long(5);
    script.insert(4, ScriptedTurn::text("long prints x").with_usage(900, 30));
    let change = |genome: &mut Genome| {
        genome.memory.window_tokens = 1000;
        genome.memory.compaction = Compaction::Summarise;
    };
    let steps = assert_found(&harness(change), script, commands, 4).await;
    assert_eq!(steps[4].sent, Err(Lost::Summary));
}

#[tokio::test]
async fn notes_are_found_in_the_prompt() {
    let note = |text: &str| ScriptedTurn::calls(&[("notes", &json!({ "text": text }).to_string())]);
    let script = vec![note("first"), note(&"n".repeat(9000)), bash("ls"), note("second"), finish()];
    let change = |genome: &mut Genome| genome.memory.scratchpad = Scratchpad::On;
    assert_found(&harness(change), script, vec![Expected::new("ls", "a", 0)], 5).await;
    // The observation is cut to nothing: whether the notes were taken is not to be seen.
    let blind = |genome: &mut Genome| {
        genome.memory.scratchpad = Scratchpad::On;
        genome.observation.head_bytes = 0;
        genome.observation.tail_bytes = 0;
    };
    let steps = assert_found(&harness(blind), vec![note("first"), finish()], Vec::new(), 1).await;
    assert_eq!(steps[1].sent, Err(Lost::Notes));
}

#[tokio::test]
async fn calls_as_text_are_found_until_observations_are_elided() {
    let call = |command: &str| {
        ScriptedTurn::text(&format!("<tool_call>\n{}\n</tool_call>", json!({"name": "bash", "arguments": {"command": command}})))
    };
    let note = ScriptedTurn::text("<tool_call>\n{\"name\": \"notes\", \"arguments\": {\"text\": \"kept\"}}\n</tool_call>");
    let end = ScriptedTurn::text("<tool_call>\n{\"name\": \"finish\", \"arguments\": {}}\n</tool_call>");
    let text = |keep: u32| {
        harness(move |genome| {
            genome.protocol.calls = CallForm::Text;
            genome.memory.scratchpad = Scratchpad::On;
            genome.observation.keep = keep;
        })
    };
    let commands = || vec![Expected::new("ls", "a\n", 0), Expected::new("pwd", "/", 0)];
    let script = vec![call("ls"), note.clone(), call("pwd"), end.clone()];
    assert_found(&text(20), script.clone(), commands(), 4).await;
    let steps = assert_found(&text(2), script, commands(), 3).await;
    assert_eq!(steps[3].sent, Err(Lost::Elision));
}

#[tokio::test]
async fn remarks_and_refusals_are_part_of_the_requests() {
    let script = vec![ScriptedTurn::text("no call"), ScriptedTurn::calls(&[("nosuch", "{}")]), bash("false"), finish()];
    let change = |genome: &mut Genome| genome.retry.malformed_reply = vec![rule(3, "Call a tool.")];
    assert_found(&harness(change), script, vec![Expected::new("false", "", 1)], 4).await;
}

#[test]
fn messages_of_something_else_are_refused() {
    let genome = harness(|_| {}).genome().clone();
    let odd = [Message::text(crate::trajectory::Role::Assistant, "first"), Message::text(crate::trajectory::Role::Assistant, "second")];
    assert!(sent_steps(&genome, &odd).iter().all(|step| step.sent == Err(Lost::Order)));
    assert!(sent_steps(&genome, &[]).is_empty());
}
