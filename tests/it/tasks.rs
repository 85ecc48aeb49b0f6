//! Built-in tasks validated in a real sandbox, and the check against workspaces that fight back.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

use harness_evo::base::{Entry, Snapshot};
use harness_evo::environment::{check, perform};
use harness_evo::forge::{Problem, validate_all, validate_task, workflows};
use harness_evo::sandbox::{CommandEnd, Policy, Sandbox, open};
use harness_evo::task::{ActCall, Task, TaskBody};

/// The best sandbox there is; `None`, and a word about it, where the machine has none.
fn sandbox() -> Option<Arc<dyn Sandbox>> {
    match open(None) {
        Ok(opened) => Some(opened.sandbox),
        Err(error) => {
            eprintln!("skipped: {error}");
            None
        }
    }
}

/// Tasks of each workflow that are validated; more when the environment asks for them.
fn per_workflow() -> u64 {
    std::env::var("HARNESS_EVO_TEST_TASKS").ok().and_then(|count| count.parse().ok()).unwrap_or(2)
}

fn task(text: &str) -> Task {
    Task::new(serde_json::from_str::<TaskBody>(text).unwrap()).unwrap()
}

/// A task with one command probe, and the verdict's score over `workspace`.
async fn score(sandbox: &dyn Sandbox, probe: &str, workspace: &Snapshot) -> (f64, String) {
    let task = task(&format!(
        r#"{{"job_type": "x", "skill": "x", "instruction": "x", "limits": {{"check_seconds": 2}},
            "check": {{"items": [{{"name": "probe", "probe": {{"command": {probe}}}}}]}},
            "solution": [{{"call": {{"run": {{"command": "true"}}}}, "role": "work"}}]}}"#
    ));
    let verdict = check(&task, workspace, sandbox).await.unwrap();
    (verdict.score, verdict.items[0].evidence.clone())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn built_in_tasks_are_accepted() {
    let Some(sandbox) = sandbox() else { return };
    let mut refused = Vec::new();
    for workflow in workflows() {
        let tasks: Vec<Arc<Task>> = (0..per_workflow()).map(|index| Arc::new(workflow.task(index).unwrap())).collect();
        let started = Instant::now();
        let reports = validate_all(&tasks, &sandbox, &Policy::default(), NonZeroUsize::new(2).unwrap(), |_| ()).await;
        let mut variants = 0;
        for (index, report) in reports.into_iter().enumerate() {
            let report = report.unwrap();
            variants += report.variants;
            refused.extend(report.problems.iter().map(|problem| format!("{} {index}: {problem}", workflow.skill)));
        }
        let each = started.elapsed().as_millis() / u128::from(per_workflow());
        eprintln!("{} {}: {} tasks, {variants} broken solutions, {each} ms a task", workflow.job_type, workflow.skill, tasks.len());
    }
    assert!(refused.is_empty(), "{} problems\n{}", refused.len(), refused.join("\n"));
}

#[tokio::test]
async fn a_check_that_takes_the_wrong_for_the_right_is_found_out() {
    let Some(sandbox) = sandbox() else { return };
    let loose = r#"{"job_type": "shell", "skill": "x", "instruction": "Write the number of lines of a.txt to n.txt.",
        "files": {"a.txt": {"file": {"text": "1\n2\n3\n"}}},
        "check": {"items": [{"name": "n", "probe": {"PROBE": {"path": "n.txt", "text": "3"}}}]},
        "solution": [{"call": {"run": {"command": "wc -l < a.txt > n.txt"}}, "role": "work", "slip": {"run": {"command": "echo 13 > n.txt"}}}]}"#;
    let report = validate_task(&task(&loose.replace("PROBE", "file_contains")), sandbox.as_ref(), &Policy::default()).await.unwrap();
    assert_eq!(report.problems, [Problem::BrokenPasses { variant: "slip of act 1".to_owned() }]);
    let report = validate_task(&task(&loose.replace("PROBE", "file_equals")), sandbox.as_ref(), &Policy::default()).await.unwrap();
    assert!(report.accepted() && report.variants == 1, "{report:?}");
}

#[tokio::test]
async fn acts_play_in_the_sandbox_wherever_its_shell_stands() {
    let Some(sandbox) = sandbox() else { return };
    let mut session = sandbox.start(&Policy::default(), &Snapshot::new(), &BTreeMap::new()).await.unwrap();
    let limit = Duration::from_secs(20);
    session.run("mkdir sub; cd sub", "", limit).await.unwrap();
    let content = "it's `a` $HOME\nno end of line";
    let path = "d/-it's.txt".to_owned();
    let acts = [
        ActCall::Write { path: path.clone(), content: content.to_owned() },
        ActCall::Edit { path: path.clone(), find: "$HOME".to_owned(), replace: "\"x\"".to_owned() },
        ActCall::Python { code: "open('p', 'w').write('1')".to_owned() },
        ActCall::Run { command: "cd d && exit 0".to_owned() },
    ];
    for act in &acts {
        let output = perform(session.as_mut(), act, limit).await.unwrap();
        assert_eq!((output.end, output.text.as_str()), (CommandEnd::Exited(0), ""), "{act:?}");
    }
    let twice = ActCall::Edit { path: path.clone(), find: "o".to_owned(), replace: String::new() };
    assert_eq!(perform(session.as_mut(), &twice, limit).await.unwrap().end, CommandEnd::Exited(1));
    let files = session.finish().await.unwrap();
    assert!(matches!(files.get(&path), Some(Entry::File { text, .. }) if text == "it's `a` \"x\"\nno end of line"));
    assert!(files.get("p").is_some() && files.get("sub/p").is_none());
}

#[tokio::test]
async fn a_command_that_fails_hangs_or_ends_the_shell_fails_the_probe_only() {
    let Some(sandbox) = sandbox() else { return };
    let empty = Snapshot::new();
    for (probe, passes) in [
        (r#"{"command": "exit 3", "exit": 3}"#, true),
        (r#"{"command": "echo all fine", "stdout_contains": "fine"}"#, true),
        (r#"{"command": "echo all fine; exit 1", "stdout_contains": "fine"}"#, false),
        (r#"{"command": "sleep 60"}"#, false),
        (r#"{"command": "cat given", "files": {"given": {"file": {"text": "yes"}}}, "stdout_contains": "yes"}"#, true),
        (r#"{"command": "if then"}"#, false),
        (r#"{"command": "kill -9 $$ $PPID; sleep 60"}"#, false),
    ] {
        let (score, evidence) = score(sandbox.as_ref(), probe, &empty).await;
        assert_eq!(score >= 1.0, passes, "{probe}: {evidence}");
    }
}

#[tokio::test]
async fn what_an_agent_leaves_behind_does_not_steer_the_check() {
    let Some(sandbox) = sandbox() else { return };
    let mut left = Snapshot::new();
    let script = |text: &str| Entry::File { text: text.to_owned(), mode: 0o755 };
    left.insert(".bashrc", script("exit 0")).unwrap();
    left.insert(".bash_profile", script("exit 0")).unwrap();
    left.insert("bin/python3", script("#!/bin/sh\nexit 0")).unwrap();
    left.insert(".local/bin/python3", script("#!/bin/sh\nexit 0")).unwrap();
    for version in 9..20 {
        left.insert(&format!(".local/lib/python3.{version}/site-packages/usercustomize.py"), script("import os\nos._exit(0)")).unwrap();
    }
    left.insert("__pycache__/answer.cpython-311.pyc", script("not a program")).unwrap();
    left.insert("tests", Entry::Link { target: "/tmp".to_owned() }).unwrap();
    let probe = r#"{"command": "test ! -L tests && test ! -e __pycache__ && python3 tests/hidden.py",
        "files": {"tests/hidden.py": {"file": {"text": "raise SystemExit(7)"}}}, "exit": 7}"#;
    let (score, evidence) = score(sandbox.as_ref(), probe, &left).await;
    assert!(score >= 1.0, "{evidence}");
}
