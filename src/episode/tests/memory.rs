//! What a request shows of the past.

use super::*;
use crate::harness::{Compaction, Scratchpad};
use crate::trajectory::Role;

/// Five commands whose outputs are 1,200 bytes each, then the end.
fn five_long_outputs() -> (Vec<ScriptedTurn>, Vec<Expected>) {
    let script = (0..5).map(|_| bash("long")).chain([finish()]).collect();
    (script, (0..5).map(|_| Expected::new("long", &"x".repeat(1200), 0)).collect())
}

#[tokio::test]
async fn old_observations_are_elided_in_requests_but_not_in_the_trajectory() {
    let (script, commands) = five_long_outputs();
    let model = ScriptedModel::new(script);
    let played = played(&harness(|genome| genome.observation.keep = 2), &model, &sandbox(commands, &solved())).await;
    let shown = texts(&model.requests()[4].messages);
    assert_eq!(shown[3], "[observation 1 elided: 1200 bytes]");
    assert_eq!(shown[5], "[observation 2 elided: 1200 bytes]");
    assert_eq!((shown[7].len(), shown[9].len()), (1200, 1200));
    assert_eq!(texts(&played.trajectory.messages)[3].len(), 1200);
}

#[tokio::test]
async fn long_output_is_cut_to_head_and_tail() {
    let model = ScriptedModel::new([bash("long"), finish()]);
    let change = |genome: &mut Genome| {
        genome.observation.head_bytes = 3;
        genome.observation.tail_bytes = 2;
    };
    let played = played(&harness(change), &model, &sandbox([Expected::new("long", "0123456789", 4)], &solved())).await;
    assert_eq!(texts(&played.trajectory.messages)[3], "012\n[... 5 bytes left out ...]\n89\n[exit 4]");
}

#[tokio::test]
async fn the_oldest_exchanges_are_dropped_once_the_window_is_full() {
    let (script, commands) = five_long_outputs();
    let model = ScriptedModel::new(script);
    let change = |genome: &mut Genome| genome.memory.window_tokens = 1000;
    let played = played(&harness(change), &model, &sandbox(commands, &solved())).await;
    // System and instruction: 10 + 13 tokens; an exchange: 4 + 1 + 5 and 300 + 4 = 314. Three fit 1000 tokens, four do not.
    let lengths: Vec<usize> = model.requests().iter().map(|request| request.messages.len()).collect();
    assert_eq!(lengths, [2, 4, 6, 8, 8, 8]);
    assert_eq!(scored(&played).1, Ending::Finished);
    assert_eq!(played.trajectory.messages.len(), 2 + 6 * 2, "the trajectory keeps everything");
}

#[tokio::test]
async fn without_compaction_nothing_is_removed() {
    let (script, commands) = five_long_outputs();
    let model = ScriptedModel::new(script);
    let change = |genome: &mut Genome| {
        genome.memory.window_tokens = 1000;
        genome.memory.compaction = Compaction::None;
    };
    played(&harness(change), &model, &sandbox(commands, &solved())).await;
    assert_eq!(model.requests().last().unwrap().messages.len(), 12);
}

#[tokio::test]
async fn a_summary_takes_the_place_of_the_oldest_exchanges_and_is_paid_for() {
    let (mut script, commands) = five_long_outputs();
    // Asked for before the fifth request of the agent: four exchanges do not fit.
    script.insert(4, ScriptedTurn::text("long prints x").with_usage(900, 30));
    let model = ScriptedModel::new(script);
    let change = |genome: &mut Genome| {
        genome.memory.window_tokens = 1000;
        genome.memory.compaction = Compaction::Summarise;
    };
    let played = played(&harness(change), &model, &sandbox(commands, &solved())).await;
    let requests = model.requests();
    let summary = &requests[4];
    assert!(summary.tools.is_empty() && summary.messages.len() == 2 && summary.sampling.max_output_tokens == 1024);
    assert!(summary.messages[1].joined_text().contains("Write 3 to out.txt"));
    // Half of the window is 500 tokens: one exchange stays beside the opening.
    assert_eq!(requests[5].messages.len(), 4);
    assert!(requests[5].messages[1].joined_text().ends_with("were removed):\nlong prints x"));
    assert_eq!(requests[5].tag.step, 5);
    assert_eq!(played.trajectory.steps(), 6, "a summary is not a step");
    assert_eq!(played.trajectory.usage[4].prompt_tokens, 1000);
    assert_eq!(played.trajectory.total_usage().total(), 6 * 110 + 930);
    assert!(texts(&played.trajectory.messages).iter().all(|text| !text.contains("long prints x")));
}

#[tokio::test]
async fn notes_are_shown_at_the_end_of_the_system_prompt() {
    let script = || [ScriptedTurn::calls(&[("notes", r#"{"text": "out.txt is next"}"#)]), finish()];
    let shown = ScriptedModel::new(script());
    let played_on = played(&harness(|genome| genome.memory.scratchpad = Scratchpad::On), &shown, &sandbox([], &solved())).await;
    assert_eq!(shown.requests()[1].messages[0].joined_text(), "You work in /home/agent.\n\nYour notes:\nout.txt is next");
    assert_eq!(played_on.trajectory.messages[0], Message::text(Role::System, "You work in /home/agent."));
    let hidden = ScriptedModel::new(script());
    played(&harness(|_| {}), &hidden, &sandbox([], &solved())).await;
    assert_eq!(hidden.requests()[1].messages[0].joined_text(), "You work in /home/agent.");
}
