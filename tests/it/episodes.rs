//! Whole episodes in a real sandbox with a scripted model.

use std::sync::Arc;

use harness_evo::base::Snapshot;
use harness_evo::environment::tool_schemas;
use harness_evo::episode::{Episode, Played, play};
use harness_evo::harness::{CallForm, Genome, Harness, ToolGene, ToolName};
use harness_evo::model::{ScriptedModel, ScriptedTurn};
use harness_evo::sandbox::{BackendKind, NullSandbox, Policy, Sandbox, open};
use harness_evo::task::{Task, TaskBody};
use harness_evo::trajectory::{Ending, Outcome, Role};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// The backends that work on this machine; each must give the same episode.
fn backends() -> Vec<Arc<dyn Sandbox>> {
    [BackendKind::Bubblewrap, BackendKind::Landlock]
        .into_iter()
        .filter_map(|kind| match open(Some(kind)) {
            Ok(opened) => Some(opened.sandbox),
            Err(error) => {
                eprintln!("skipped: {error}");
                None
            }
        })
        .collect()
}

/// Sum the second column of a file into another, keep the first as it is.
fn task() -> Task {
    let mut files = Snapshot::new();
    files.insert_text("in put/sales.csv", "a;2\nb;3\nc;x\n").unwrap();
    let body = json!({
        "job_type": "data", "skill": "sum", "instruction": "Write the sum of the numbers in 'in put/sales.csv' to out/total.txt.",
        "files": files,
        "check": {"items": [
            {"name": "total", "probe": {"file_equals": {"path": "out/total.txt", "text": "5"}}},
            {"name": "again", "probe": {"command": {"command": "grep -c 5 out/total.txt", "stdout_contains": "1"}}},
            {"name": "input", "stake": "guard", "probe": {"file_contains": {"path": "in put/sales.csv", "text": "c;x"}}},
        ]},
        "solution": [{"call": {"write": {"path": "out/total.txt", "content": "5\n"}}, "role": "work"}],
    });
    Task::new(serde_json::from_value::<TaskBody>(body).unwrap()).unwrap()
}

fn harness(calls: CallForm) -> Harness {
    let mut genome = Genome { tools: ToolName::ALL.map(|tool| (tool, ToolGene::default())).into(), ..Genome::default() };
    genome.prompt.role = "You are an agent in {{ workspace }}.".to_owned();
    genome.protocol.calls = calls;
    genome.limits.steps = 40;
    // Without rules a malformed reply would end the turn.
    assert_eq!(tool_schemas(&genome).len(), 11);
    Harness::new(genome).unwrap()
}

async fn played(harness: &Harness, model: &ScriptedModel, sandbox: &dyn Sandbox) -> Played {
    let (task, policy) = (task(), Policy::default());
    let episode = Episode { harness, task: &task, seed: 3, model, sandbox, policy: &policy };
    play(&episode, &CancellationToken::new()).await.unwrap()
}

#[tokio::test]
async fn a_workspace_that_cannot_be_read_back_is_a_score_of_nothing() {
    let flood = "echo 5 > out; mkdir many; for i in $(seq 20001); do echo > many/$i; done";
    for sandbox in backends() {
        for then in ["true", "exit 0"] {
            let turn = |command: &str| ScriptedTurn::calls(&[("bash", &json!({"command": command}).to_string())]);
            let model = ScriptedModel::new([turn(flood), turn(then), turn("pwd"), ScriptedTurn::calls(&[("finish", "{}")])]);
            let outcome = played(&harness(CallForm::Native), &model, sandbox.as_ref()).await.trajectory.outcome;
            let Outcome::Scored { verdict, .. } = outcome else { panic!("{then} on {}: {outcome:?}", sandbox.name()) };
            assert_eq!(verdict.score.to_bits(), 0.0_f64.to_bits());
            assert_eq!(verdict.items.len(), 3);
            assert!(verdict.items[0].evidence.contains("more than 20000"), "{:?}", verdict.items);
        }
    }
}

/// Every tool once or more, with what it must give.
fn calls() -> Vec<(&'static str, Value, &'static str)> {
    vec![
        ("list_files", json!({}), "in put/\nin put/sales.csv (12 bytes)\n"),
        ("read_file", json!({"path": "in put/sales.csv", "offset": 2, "limit": 1}), "b;3\n"),
        ("search", json!({"pattern": "[0-9]$"}), "in put/sales.csv:1:a;2\nin put/sales.csv:2:b;3\n"),
        ("bash", json!({"command": "cd 'in put' && N=4 && wc -l < sales.csv"}), "3\n"),
        (
            "bash",
            json!({"command": "echo $N; pwd; ls /home/agent; exit_code() { return 3; }; exit_code"}),
            "4\n/home/agent/in put\nin put\n[exit 3]",
        ),
        ("python", json!({"code": "import os\nprint(os.path.exists('in put'))\nraise SystemExit(4)"}), "True\n[exit 4]"),
        ("write_file", json!({"path": "out/total.txt", "content": "it's \"6\" $HOME\n"}), "wrote 15 bytes to out/total.txt"),
        ("edit_file", json!({"path": "out/total.txt", "find": "it's \"6\" $HOME", "replace": "5"}), "edited out/total.txt"),
        ("read_file", json!({"path": "out/total.txt"}), "5\n"),
        ("read_file", json!({"path": "out"}), "error: out is a folder, not a file\n[exit 1]"),
        ("edit_file", json!({"path": "no", "find": "a", "replace": "b"}), "error: there is no file no\n[exit 1]"),
        ("screenshot", json!({}), "no display: this environment is a terminal"),
        ("notes", json!({"text": "done"}), "noted 4 bytes"),
        ("finish", json!({"summary": "5"}), "finished"),
    ]
}

#[tokio::test]
async fn a_task_is_solved_through_every_tool_on_every_backend() {
    for sandbox in backends() {
        let script = calls().into_iter().map(|(tool, arguments, _)| ScriptedTurn::calls(&[(tool, &arguments.to_string())]));
        let played = played(&harness(CallForm::Native), &ScriptedModel::new(script), sandbox.as_ref()).await;
        let results: Vec<String> = played
            .trajectory
            .messages
            .iter()
            .filter(|message| message.role == Role::Tool)
            .map(harness_evo::trajectory::Message::joined_text)
            .collect();
        assert_eq!(results, calls().into_iter().map(|(_, _, result)| result.to_owned()).collect::<Vec<_>>(), "{}", sandbox.name());
        let Outcome::Scored { verdict, ending } = &played.trajectory.outcome else { panic!("{:?}", played.trajectory.outcome) };
        assert_eq!((*ending, verdict.passed()), (Ending::Finished, true), "{verdict:?}");
        assert_eq!((played.shell_calls, played.gui_calls, played.trajectory.steps()), (11, 1, 14));
    }
}

#[tokio::test]
async fn the_same_episode_is_the_same_on_text_calls_too() {
    for sandbox in backends() {
        let script = || {
            calls().into_iter().map(|(tool, arguments, _)| {
                ScriptedTurn::text(&format!("<tool_call>\n{}\n</tool_call>", json!({"name": tool, "arguments": arguments})))
            })
        };
        let harness = harness(CallForm::Text);
        let first = played(&harness, &ScriptedModel::new(script()), sandbox.as_ref()).await;
        let second = played(&harness, &ScriptedModel::new(script()), sandbox.as_ref()).await;
        assert_eq!(first.trajectory.outcome.score(), Some(1.0), "{:?}", first.trajectory.outcome);
        for (first, second) in first.trajectory.messages.iter().zip(&second.trajectory.messages) {
            assert_eq!(first.joined_text(), second.joined_text(), "{}", sandbox.name());
        }
        assert!(
            serde_json::to_vec(&first.trajectory).unwrap() == serde_json::to_vec(&second.trajectory).unwrap(),
            "{}: the trajectories differ beside their messages",
            sandbox.name()
        );
    }
}

#[tokio::test]
async fn what_an_agent_leaves_running_is_dead_before_the_check() {
    for sandbox in backends() {
        // Left alive, it would take the result away while the check looks at it.
        let command = "mkdir -p out; echo 5 > out/total.txt; (setsid sh -c 'while :; do rm -f out/total.txt; echo 5 > out/total.txt; done' \
                       >/dev/null 2>&1 &); exit 7";
        let script =
            [ScriptedTurn::calls(&[("bash", &json!({ "command": command }).to_string())]), ScriptedTurn::calls(&[("finish", "{}")])];
        let played = played(&harness(CallForm::Native), &ScriptedModel::new(script), sandbox.as_ref()).await;
        assert!(played.trajectory.messages[3].joined_text().starts_with("[the shell ended with exit 7"), "{}", sandbox.name());
        assert!(matches!(&played.trajectory.outcome, Outcome::Scored { .. }), "{:?}", played.trajectory.outcome);
    }
}

/// Says what the loop itself costs; nothing fails on it.
#[tokio::test]
async fn overhead_of_the_loop() {
    let turn = || ScriptedTurn::calls(&[("bash", r#"{"command": "true"}"#)]);
    let model = ScriptedModel::by_step([turn(), turn(), turn(), ScriptedTurn::calls(&[("finish", "{}")])]);
    let harness = harness(CallForm::Native);
    let mut body = task().body().clone();
    body.check.items.remove(1);
    let (task, policy, cancel) = (Task::new(body).unwrap(), Policy::default(), CancellationToken::new());
    let episode = Episode { harness: &harness, task: &task, seed: 1, model: &model, sandbox: &NullSandbox, policy: &policy };
    let rounds = 500;
    let began = std::time::Instant::now();
    for _ in 0..rounds {
        assert_eq!(play(&episode, &cancel).await.unwrap().trajectory.steps(), 4);
    }
    eprintln!("{} us an episode of 4 steps", began.elapsed().as_micros() / rounds);
}
