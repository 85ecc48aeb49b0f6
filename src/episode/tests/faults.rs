//! What is not the agent's doing, and cancellation.

use std::time::Duration;

use super::*;
use crate::model::ModelError;
use crate::trajectory::Boundary;

fn transient(message: &str) -> ScriptedTurn {
    ScriptedTurn::error(ModelError::Transient { message: message.to_owned(), retry_after: None })
}

/// The boundary and message of the fault.
fn fault(played: &Played) -> (Boundary, String) {
    match &played.trajectory.outcome {
        Outcome::Faulted { fault } => (fault.boundary, fault.message.clone()),
        Outcome::Scored { ending, .. } => panic!("scored, {ending:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn transient_faults_are_retried_and_their_time_is_not_the_agents() {
    let harness = harness(|genome| {
        genome.limits.seconds = 60;
        genome.retry.provider_transient = vec![RetryRule { attempts: 2, delay_ms: 50_000, cap_ms: 50_000, jitter: 0.0, ..rule(2, "") }];
    });
    let stalled = |seconds| transient("stalled").after(Duration::from_secs(seconds));
    let model =
        ScriptedModel::new([bash("a").after(Duration::from_secs(30)), stalled(45), stalled(45), finish().after(Duration::from_secs(20))]);
    let played = played(&harness, &model, &sandbox([Expected::new("a", "", 0)], &solved())).await;
    assert_eq!(scored(&played), (1.0, Ending::Finished));
    assert_eq!(played.trajectory.steps(), 2);
    assert_eq!(model.requests().iter().map(|request| request.tag.step).collect::<Vec<_>>(), [0, 1, 1, 1]);
    assert_eq!(played.timing.total_ms, 30_000 + 2 * (45_000 + 50_000) + 20_000);
}

#[tokio::test]
async fn an_exhausted_policy_is_a_provider_fault_and_nothing_is_checked() {
    let harness = harness(|genome| genome.retry.provider_transient = vec![rule(2, "")]);
    let model = ScriptedModel::new([bash("a"), transient("one"), transient("two"), transient("three")]);
    let world = sandbox([Expected::new("a", "", 0)], &solved());
    let played = played(&harness, &model, &world).await;
    let (boundary, message) = fault(&played);
    assert!(boundary == Boundary::Provider && message.contains("three"), "{message}");
    assert_eq!(played.trajectory.messages.len(), 4, "what happened is kept");
    assert_eq!(played.trajectory.total_usage().total(), 110);
    assert_eq!(world.events(), ["start", "run", "dead"]);
}

#[tokio::test]
async fn what_will_not_pass_is_not_retried() {
    let harness = harness(|genome| genome.retry.provider_transient = vec![rule(5, "")]);
    let model = ScriptedModel::new([ScriptedTurn::error(ModelError::Permanent { message: "no such model".to_owned() })]);
    let (boundary, message) = fault(&played(&harness, &model, &sandbox([], &solved())).await);
    assert!(boundary == Boundary::Provider && message.contains("no such model"), "{message}");
    assert_eq!(model.requests().len(), 1);
}

#[tokio::test]
async fn a_request_beyond_the_context_is_the_harnesss_doing() {
    let model = ScriptedModel::new([ScriptedTurn::error(ModelError::ContextLength { message: "8192".to_owned() })]);
    assert_eq!(scored(&played(&harness(|_| {}), &model, &sandbox([], &half_solved())).await), (0.5, Ending::TokenLimit));
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_that_never_answers_is_at_fault() {
    let harness = harness(|genome| genome.limits.seconds = 60);
    let model = ScriptedModel::new([bash("a").after(Duration::from_secs(100_000))]);
    let played = played(&harness, &model, &sandbox([], &solved())).await;
    assert_eq!(fault(&played).0, Boundary::Provider);
    assert_eq!(played.timing.total_ms, 180_000);
}

#[tokio::test]
async fn every_failure_has_its_boundary() {
    let quiet = || ScriptedModel::new([bash("a"), finish()]);
    let plain = harness(|_| {});
    let broken = played(&plain, &quiet(), &StrictSandbox::broken()).await;
    assert_eq!((fault(&broken).0, broken.trajectory.messages.len()), (Boundary::Sandbox, 0));

    let world = sandbox([Expected::dies("a")], &solved());
    let died = played(&plain, &quiet(), &world).await;
    assert_eq!(fault(&died), (Boundary::Sandbox, "the sandbox ended: the machine is gone".to_owned()));
    assert_eq!(last_text(&died.trajectory.messages), "no result: the environment failed", "every call has a result");

    let unrendered = harness(|genome| genome.prompt.role = "{% if job_type == 'data' %}{{ job_type.x.y }}{% endif %}".to_owned());
    assert_eq!(fault(&played(&unrendered, &quiet(), &sandbox([], &solved())).await).0, Boundary::Harness);

    let mut body = task().body().clone();
    let probe = crate::task::Probe::Command { command: "true".to_owned(), files: Snapshot::new(), exit: 0, stdout_contains: None };
    body.check.items.push(CheckItem { name: "run".to_owned(), stake: Stake::Credit, probe });
    let (task, policy) = (Task::new(body).unwrap(), Policy::default());
    let (model, world) = (ScriptedModel::new([finish()]), sandbox([], &solved()));
    let episode = Episode { harness: &plain, task: &task, seed: 0, model: &model, sandbox: &world, policy: &policy };
    let unchecked = play(&episode, &CancellationToken::new()).await.unwrap();
    assert_eq!(fault(&unchecked).0, Boundary::Check);
    assert_eq!(world.events(), ["start", "finish", "dead"], "the agent's session is dead before the check wants one");
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_episode_did_not_happen_and_its_session_is_dead() {
    let slow_model = || ScriptedModel::new([bash("a").after(Duration::from_secs(50))]);
    let slow_tool = || ScriptedModel::new([bash("a")]);
    for model in [slow_model(), slow_tool()] {
        let world = sandbox([Expected::new("a", "", 0).after(Duration::from_secs(20))], &solved());
        let (harness, task, policy) = (harness(|_| {}), task(), Policy::default());
        let episode = Episode { harness: &harness, task: &task, seed: 7, model: &model, sandbox: &world, policy: &policy };
        let cancel = CancellationToken::new();
        let began = tokio::time::Instant::now();
        let (played, ()) = tokio::join!(play(&episode, &cancel), async {
            tokio::time::sleep(Duration::from_secs(10)).await;
            cancel.cancel();
        });
        assert_eq!(played, None);
        assert_eq!(began.elapsed().as_secs(), 10);
        assert_eq!(world.events().last().map(String::as_str), Some("dead"));
    }
}
