//! Steps, tokens, time.

use std::time::Duration;

use super::*;

#[tokio::test]
async fn the_step_limit_counts_replies_and_the_workspace_is_still_checked() {
    let harness = harness(|genome| genome.limits.steps = 2);
    let model = ScriptedModel::new([bash("a"), bash("a"), bash("never")]);
    let world = sandbox([Expected::new("a", "", 0), Expected::new("a", "", 0)], &half_solved());
    let played = played(&harness, &model, &world).await;
    assert_eq!(scored(&played), (0.5, Ending::StepLimit));
    assert_eq!(played.trajectory.steps(), 2);
    assert_eq!(world.events(), ["start", "run", "run", "finish", "dead"]);
}

#[tokio::test]
async fn tokens_are_reserved_before_a_request_and_never_overshot() {
    for limit in [1000, 1500, 2300, 4000] {
        let harness = harness(|genome| {
            genome.limits.tokens = limit;
            genome.sampling.max_output_tokens = 256;
        });
        // Every reply uses all it may, and the endpoint counts more prompt tokens than the estimate (about 500).
        let model = ScriptedModel::new((0..20).map(|_| bash("a").with_usage(600, 256)));
        let world = sandbox((0..20).map(|_| Expected::new("a", "", 0)), &half_solved());
        let played = played(&harness, &model, &world).await;
        assert_eq!(scored(&played).1, Ending::TokenLimit, "{limit}");
        let spent = played.trajectory.total_usage().total();
        assert!(spent <= limit, "{spent} of {limit}");
        assert_eq!(u64::from(played.trajectory.steps()), spent / 856);
        // Not stingy either: with the endpoint's own count one more request would not have fit.
        assert!(spent == 0 || spent + 2 * 856 > limit, "{spent} of {limit}");
    }
}

#[tokio::test(start_paused = true)]
async fn time_runs_out_in_a_tool_and_what_is_left_is_not_run() {
    let harness = harness(|genome| genome.limits.seconds = 60);
    let two = [("bash", r#"{"command": "slow"}"#), ("bash", r#"{"command": "late"}"#)];
    let model = ScriptedModel::new([bash("a").after(Duration::from_secs(40)), ScriptedTurn::calls(&two)]);
    let world = sandbox([Expected::new("a", "", 0), Expected::new("slow", "", 0).after(Duration::from_secs(25))], &half_solved());
    let played = played(&harness, &model, &world).await;
    assert_eq!(scored(&played), (0.5, Ending::TimeLimit));
    let said = texts(&played.trajectory.messages);
    assert_eq!(said[5..], ["[timed out: the time of the episode is over]", "not run: the episode has ended"]);
    assert_eq!((played.timing.model_ms, played.timing.tools_ms, played.timing.total_ms), (40_000, 20_000, 60_000));
}

#[tokio::test(start_paused = true)]
async fn a_reply_that_comes_too_late_is_kept_but_not_played() {
    let harness = harness(|genome| genome.limits.seconds = 60);
    let model = ScriptedModel::new([bash("never").after(Duration::from_secs(100))]);
    let played = played(&harness, &model, &sandbox([], &half_solved())).await;
    assert_eq!(scored(&played), (0.5, Ending::TimeLimit));
    assert_eq!(played.trajectory.total_usage().total(), 110, "it was paid for");
    assert_eq!(last_text(&played.trajectory.messages), "not run: the episode has ended");
}

#[tokio::test(start_paused = true)]
async fn the_shortest_limit_holds_and_delays_of_rules_stay_within_it() {
    let harness = harness(|genome| {
        genome.limits.seconds = 10;
        genome.retry.malformed_reply = vec![RetryRule { attempts: 5, delay_ms: 6000, cap_ms: 60_000, jitter: 0.0, ..rule(5, "") }];
    });
    let model = ScriptedModel::new((0..5).map(|_| ScriptedTurn::text("hm")));
    let played = played(&harness, &model, &sandbox([], &solved())).await;
    assert_eq!(scored(&played).1, Ending::TimeLimit);
    // 6 seconds after the first, then 4 of 12.
    assert_eq!((played.trajectory.steps(), played.timing.total_ms), (2, 10_000));
}
