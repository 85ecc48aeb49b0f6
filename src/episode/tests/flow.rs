//! Replies, calls, repairs and ends.

use super::*;
use crate::harness::{CallForm, FinishRule, SelfCheck};
use crate::trajectory::{Role, Usage};

#[tokio::test]
async fn a_native_episode_from_start_to_verdict() {
    let script = || {
        vec![
            bash("cat in.txt").with_usage(50, 5),
            ScriptedTurn::calls(&[("write_file", r#"{"path": "out.txt", "content": "3"}"#), ("bash", r#"{"command": "touch log.txt"}"#)]),
            finish(),
        ]
    };
    let commands = || {
        [
            Expected::new("cat in.txt", "3\n", 0),
            Expected::new("tee -- './out.txt'", "", 0).stdin("3"),
            Expected::new("touch log.txt", "", 0),
        ]
    };
    let harness = harness(|_| {});
    let (model, world) = (ScriptedModel::new(script()).priced([1_000_000, 0, 2_000_000]), sandbox(commands(), &solved()));
    let played = played(&harness, &model, &world).await;

    assert_eq!(scored(&played), (1.0, Ending::Finished));
    assert_eq!(
        texts(&played.trajectory.messages),
        [
            "You work in /home/agent.",
            "Write 3 to out.txt and make log.txt.",
            "",
            "3\n",
            "",
            "wrote 1 bytes to out.txt",
            "(no output)",
            "",
            "finished"
        ]
    );
    let ids: Vec<_> = played.trajectory.messages.iter().filter_map(|message| message.tool_call_id.clone()).collect();
    assert_eq!(ids, ["call_1", "call_2", "call_3", "call_4"]);
    assert_eq!((played.trajectory.steps(), played.shell_calls, played.gui_calls), (3, 3, 0));
    assert_eq!(played.trajectory.usage[0], Usage { prompt_tokens: 50, completion_tokens: 5, cached_tokens: 0 });
    // 50 + 100 + 100 prompt tokens at 1, 5 + 10 + 10 completion tokens at 2.
    assert_eq!(played.micro_usd, 300);
    assert_eq!(world.events(), ["start", "run", "run", "run", "finish", "dead"], "nothing is alive when the check begins");

    let requests = model.requests();
    assert_eq!(requests.iter().map(|request| request.tag.step).collect::<Vec<_>>(), [0, 1, 2]);
    assert!(requests.iter().all(|request| request.tag.seed == 7 && request.tag.task == Some(task().id())));
    assert_ne!(requests[0].sampling.seed, requests[1].sampling.seed);
    assert_eq!(requests[0].tools.len(), 5);
    // The same again is the same, byte for byte.
    let again = super::played(&harness, &ScriptedModel::new(script()), &sandbox(commands(), &solved())).await;
    assert_eq!(serde_json::to_string(&again.trajectory).unwrap(), serde_json::to_string(&played.trajectory).unwrap());
}

#[tokio::test]
async fn a_text_episode_from_start_to_verdict() {
    let harness = harness(|genome| genome.protocol.calls = CallForm::Text);
    let model = ScriptedModel::new([
        ScriptedTurn::text(
            "Two calls.\n<tool_call>\n{\"name\": \"bash\", \"arguments\": {\"command\": \"a\"}}\n</tool_call>\n\
             <tool_call>\n{\"name\": \"nothing\", \"arguments\": {}}\n</tool_call>",
        ),
        // A server that parses the calls by itself: they are put back into the text.
        bash("b"),
        ScriptedTurn::text("<tool_call>{\"name\": \"finish\"}</tool_call>"),
    ]);
    let mut genome = harness.genome().clone();
    genome.retry.malformed_reply = vec![rule(1, "Look at the list of tools.")];
    let harness = Harness::new(genome).unwrap();
    let played = played(&harness, &model, &sandbox([Expected::new("a", "A\n", 0), Expected::new("b", "", 1)], &half_solved())).await;
    assert_eq!(scored(&played), (0.5, Ending::Finished));
    let messages = &played.trajectory.messages;
    assert!(messages[0].joined_text().contains("<tools>\n{") && model.requests().iter().all(|request| request.tools.is_empty()));
    assert_eq!(
        messages[3].joined_text(),
        "<tool_response name=\"bash\">\nA\n</tool_response>\n<tool_response name=\"nothing\">\n\
         error: there is no tool `nothing`; the tools are bash, read_file, write_file, notes, finish\nLook at the list of tools.\n\
         </tool_response>"
    );
    assert_eq!(
        messages[4].joined_text().replace(' ', ""),
        "<tool_call>\n{\"name\":\"bash\",\"arguments\":{\"command\":\"b\"}}\n</tool_call>"
    );
    assert_eq!(messages[5].joined_text(), "<tool_response name=\"bash\">\n[exit 1]\n</tool_response>");
    assert!(messages.iter().all(|message| message.role != Role::Tool && message.tool_calls.is_empty()));
}

#[tokio::test]
async fn malformed_replies_are_repaired_in_order_and_then_end_the_turn() {
    let harness = harness(|genome| genome.retry.malformed_reply = vec![rule(1, "First."), rule(1, "Second.")]);
    let model = ScriptedModel::new([
        ScriptedTurn::text("I think."),
        ScriptedTurn::calls(&[("bash", "{\"command\": ")]),
        bash("x"),
        ScriptedTurn::text(""),
        ScriptedTurn::calls(&[("gimp", "{}"), ("bash", "[]")]),
        ScriptedTurn::calls(&[("gimp", "{}"), ("bash", r#"{"command": "never"}"#)]),
    ]);
    let played = played(&harness, &model, &sandbox([Expected::new("x", "ok", 0)], &half_solved())).await;
    assert_eq!(scored(&played), (0.5, Ending::Malformed));
    let said = texts(&played.trajectory.messages);
    assert!(said[3].contains("holds no tool call") && said[3].ends_with("\nFirst."), "{}", said[3]);
    assert!(said[5].starts_with("error: the arguments are not JSON") && said[5].ends_with("\nSecond."), "{}", said[5]);
    assert_eq!(said[7], "ok");
    assert_eq!(said[8], "(no text)");
    assert!(said[9].ends_with("\nFirst."), "a right reply starts the rules anew: {}", said[9]);
    assert!(said[11].ends_with("\nSecond.") && said[12] == "error: the arguments are not a JSON object", "one reply counts once");
    assert!(said[14].starts_with("error: there is no tool `gimp`") && !said[14].contains("Second"));
    assert_eq!(said[15], "not run: the episode has ended");
    assert_eq!(said.len(), 16);
}

#[tokio::test]
async fn only_the_same_error_beyond_the_rules_ends_the_turn() {
    let harness = harness(|genome| genome.retry.tool_error = vec![rule(1, "Read the message.")]);
    let failing = |command: &'static str| Expected::new(command, "no\n", 1);
    let model = ScriptedModel::new([bash("a"), bash("b"), bash("c"), bash("c"), bash("never")]);
    let world = sandbox([failing("a"), failing("b"), failing("c"), failing("c")], &half_solved());
    let played = played(&harness, &model, &world).await;
    assert_eq!(scored(&played), (0.5, Ending::ToolErrors));
    let results: Vec<String> =
        played.trajectory.messages.iter().filter(|message| message.role == Role::Tool).map(Message::joined_text).collect();
    assert_eq!(results, ["no\n[exit 1]\nRead the message.", "no\n[exit 1]", "no\n[exit 1]", "no\n[exit 1]"]);
}

#[tokio::test]
async fn without_rules_errors_are_only_shown() {
    let model = ScriptedModel::new([bash("a"), bash("a"), bash("a"), finish()]);
    let world = sandbox((0..3).map(|_| Expected::new("a", "", 1)), &solved());
    assert_eq!(scored(&played(&harness(|_| {}), &model, &world).await), (1.0, Ending::Finished));
}

#[tokio::test]
async fn an_end_without_a_look_is_refused_as_often_as_the_rules_say() {
    let required = |genome: &mut Genome| {
        genome.protocol.self_check = SelfCheck::Required;
        genome.retry.failed_self_check = vec![rule(1, "Look at the file.")];
    };
    let write = || ScriptedTurn::calls(&[("write_file", r#"{"path": "out.txt", "content": "3"}"#)]);
    let tee = || Expected::new("tee", "", 0);
    // Refused once, then accepted although nothing was looked at.
    let model = ScriptedModel::new([write(), finish(), finish()]);
    let stubborn = played(&harness(required), &model, &sandbox([tee()], &solved())).await;
    assert_eq!(scored(&stubborn), (1.0, Ending::Finished));
    let said = texts(&stubborn.trajectory.messages);
    assert_eq!(said[5], "error: not finished: nothing was looked at since the last change\nLook at the file.");
    // Looked at: accepted at once; changed again: refused again.
    let look = || ScriptedTurn::calls(&[("read_file", r#"{"path": "out.txt"}"#)]);
    let model = ScriptedModel::new([write(), look(), ScriptedTurn::calls(&[("finish", "{}"), ("bash", r#"{"command": "late"}"#)])]);
    let careful = played(&harness(required), &model, &sandbox([tee(), Expected::new("cat", "3", 0)], &solved())).await;
    assert_eq!(scored(&careful), (1.0, Ending::Finished));
    assert_eq!(texts(&careful.trajectory.messages)[7..], ["finished", "not run: the episode has ended"]);
}

#[tokio::test]
async fn a_reply_without_a_call_ends_the_turn_where_the_rule_says_so() {
    let no_call = |genome: &mut Genome| {
        genome.protocol.finish = FinishRule::NoCall;
        genome.protocol.self_check = SelfCheck::Required;
        genome.retry.failed_self_check = vec![rule(1, "")];
        genome.retry.malformed_reply = vec![rule(1, "")];
    };
    let model = ScriptedModel::new([
        ScriptedTurn::text("<tool_call>{\"name\": \"finish\"}</tool_call>"),
        ScriptedTurn::text("Done."),
        ScriptedTurn::text("Really done."),
    ]);
    let played = played(&harness(no_call), &model, &sandbox([], &solved())).await;
    assert_eq!(scored(&played), (1.0, Ending::Finished));
    let said = texts(&played.trajectory.messages);
    assert!(said[3].contains("written as text"), "{}", said[3]);
    assert_eq!(said[5], "error: not finished: nothing was looked at since the last change");
    assert_eq!(said.last().unwrap(), "Really done.");
}

#[tokio::test]
async fn a_cut_off_reply_is_told_so_and_surplus_calls_are_refused() {
    let harness = harness(|genome| genome.retry.malformed_reply = vec![rule(3, "")]);
    let mut cut = ScriptedTurn::text("I will now");
    if let Ok(reply) = &mut cut.reply {
        reply.stop = crate::model::StopReason::Length;
    }
    let many: Vec<(&str, &str)> = (0..18).map(|_| ("notes", r#"{"text": "x"}"#)).collect();
    let model = ScriptedModel::new([cut, ScriptedTurn::calls(&many), finish()]);
    let played = played(&harness, &model, &sandbox([], &solved())).await;
    let said = texts(&played.trajectory.messages);
    assert_eq!(said[3], "error: the reply holds no tool call; the reply was cut off at its limit of 2048 tokens");
    assert_eq!(said[5], "noted 1 bytes");
    assert_eq!(said[5 + 16..5 + 18], vec!["error: not run: a reply may hold at most 16 calls"; 2]);
    assert_eq!(scored(&played).1, Ending::Finished);
}
