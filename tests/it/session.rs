//! Sessions of both backends: what the shell keeps, and what goes in and comes out.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use harness_evo::base::{Entry, Snapshot};
use harness_evo::sandbox::{BackendKind, CommandEnd, Policy, Sandbox, Session, open};

const LONG: Duration = Duration::from_secs(20);

async fn both<F, Fut>(test: F)
where
    F: Fn(std::sync::Arc<dyn Sandbox>) -> Fut,
    Fut: Future<Output = ()>,
{
    for kind in [BackendKind::Bubblewrap, BackendKind::Landlock] {
        test(open(Some(kind)).expect("both backends work on the machine that tests").sandbox).await;
    }
}

async fn session(sandbox: &dyn Sandbox) -> Box<dyn Session> {
    sandbox.start(&Policy::default(), &Snapshot::new(), &BTreeMap::new()).await.unwrap()
}

async fn text(session: &mut dyn Session, command: &str) -> String {
    let output = session.run(command, "", LONG).await.unwrap();
    assert_eq!(output.end, CommandEnd::Exited(0), "{command}: {output:?}");
    output.text
}

#[tokio::test]
async fn the_shell_keeps_its_state_and_reports_status() {
    both(async |sandbox| {
        let mut session = session(sandbox.as_ref()).await;
        text(session.as_mut(), "mkdir sub; cd sub; X='a b'; f() { echo \"f $1\"; }").await;
        assert_eq!(text(session.as_mut(), "echo \"$X\" ${PWD##*/}; f 1").await, "a b sub\nf 1\n");
        assert_eq!(
            session.run("echo out; echo err >&2; exit_me() { return 7; }; exit_me", "", LONG).await.unwrap().end,
            CommandEnd::Exited(7)
        );
        let broken = session.run("if then", "", LONG).await.unwrap();
        assert!(matches!(broken.end, CommandEnd::Exited(1..)) && broken.text.contains("syntax error"), "{broken:?}");
        let merged = session.run("echo 1; echo 2 >&2; echo 3; echo 4 >/dev/stderr", "", LONG).await.unwrap();
        assert_eq!(merged.text, "1\n2\n3\n4\n");
    })
    .await;
}

#[tokio::test]
async fn a_timeout_ends_the_command_and_keeps_shell_and_older_jobs() {
    both(async |sandbox| {
        let mut session = session(sandbox.as_ref()).await;
        text(session.as_mut(), "mkdir d; cd d; X=kept; sleep 300 & job=$!").await;
        let hard = [
            "sleep 100",
            "while :; do sleep 0.1; done",
            "while :; do :; done",
            "yes | sort | cat",
            "python3 -c 'import signal,time\nfor s in (2,15): signal.signal(s, signal.SIG_IGN)\nwhile 1: time.sleep(1)'",
            "kill -STOP $$",
            "read line",
            "f() { f; sleep 1; }; for i in 1 2 3; do (sleep 100; sleep 100); done",
        ];
        for command in hard {
            let start = Instant::now();
            let output = session.run(command, "", Duration::from_millis(300)).await.unwrap();
            // `read` meets the end of its empty input at once; everything else would never end.
            let expected = if command == "read line" { CommandEnd::Exited(1) } else { CommandEnd::TimedOut };
            assert_eq!(output.end, expected, "{command}: {output:?}");
            assert!(start.elapsed() < LONG, "{command}");
            assert_eq!(text(session.as_mut(), "echo $X ${PWD##*/}; kill -0 $job").await, "kept d\n", "after {command}");
        }
    })
    .await;
}

#[tokio::test]
async fn input_reaches_the_command_whatever_is_in_it() {
    both(async |sandbox| {
        let mut session = session(sandbox.as_ref()).await;
        let tricky = "a'b\"c $HOME `x` \\ EOF\n\0ü\n".repeat(20_000);
        let output = session.run("cat > in; sha256sum < in | cut -c1-8; wc -c < in", &tricky, LONG).await.unwrap();
        let expected = format!("{}\n", tricky.len());
        assert!(output.text.ends_with(&expected), "{output:?}");
        let files = session.finish().await.unwrap();
        assert_eq!(files.get("in"), Some(&Entry::File { text: tricky, mode: 0o644 }));
    })
    .await;
}

#[tokio::test]
async fn files_come_back_as_they_went_in() {
    let mut files = Snapshot::new();
    files.insert_text("a.txt", "text\n").unwrap();
    files.insert("deep/er/run.sh", Entry::File { text: "#!/bin/bash\necho ran\n".to_owned(), mode: 0o755 }).unwrap();
    files.insert("deep", Entry::Folder { mode: 0o755 }).unwrap();
    files.insert("deep/er", Entry::Folder { mode: 0o550 }).unwrap();
    files.insert("bin", Entry::Bytes { bytes: vec![0xff, 0, 1, 0xfe], mode: 0o600 }).unwrap();
    files.insert("link", Entry::Link { target: "a.txt".to_owned() }).unwrap();
    files.insert("away", Entry::Link { target: "/etc/shadow".to_owned() }).unwrap();
    files.insert("empty", Entry::Folder { mode: 0o700 }).unwrap();
    let files = &files;
    both(async |sandbox| {
        let helpers = BTreeMap::from([("greet".to_owned(), "#!/bin/sh\necho hello $1\n".to_owned())]);
        let mut session = sandbox.start(&Policy::default(), files, &helpers).await.unwrap();
        assert_eq!(text(session.as_mut(), "deep/er/run.sh; greet you; cat link; umask").await, "ran\nhello you\ntext\n0022\n");
        assert_eq!(text(session.as_mut(), "find . -newermt '2026-01-01 00:00:01'; find . -mindepth 1 | wc -l").await, "8\n");
        assert_eq!(&session.finish().await.unwrap(), files);
    })
    .await;
}

#[tokio::test]
async fn exit_starts_the_shell_again_over_the_same_files() {
    both(async |sandbox| {
        let mut session = session(sandbox.as_ref()).await;
        text(session.as_mut(), "echo 1 > kept; echo 2 > $TMPDIR/scratch; mkdir sub; cd sub; X=lost").await;
        let output = session.run("echo bye; exit 3", "", LONG).await.unwrap();
        assert_eq!((output.text.as_str(), output.end), ("bye\n", CommandEnd::ShellEnded(3)));
        assert_eq!(text(session.as_mut(), "cat kept $TMPDIR/scratch; echo \"[$X]\"; test \"$PWD\" = \"$HOME\"").await, "1\n2\n[]\n");
        let killed = session.run("kill -9 $$", "", LONG).await.unwrap();
        assert_eq!(killed.end, CommandEnd::ShellEnded(137));
        assert_eq!(text(session.as_mut(), "cat kept").await, "1\n");
    })
    .await;
}

#[tokio::test]
async fn a_background_job_does_not_hold_the_command() {
    both(async |sandbox| {
        let mut session = session(sandbox.as_ref()).await;
        let output = session.run("(sleep 300; echo late) & echo now", "", LONG).await.unwrap();
        assert_eq!((output.text.as_str(), output.end), ("now\n", CommandEnd::Exited(0)));
    })
    .await;
}

#[tokio::test]
async fn a_dropped_run_leaves_no_trace_in_the_next_one() {
    both(async |sandbox| {
        let mut session = session(sandbox.as_ref()).await;
        let dropped = tokio::time::timeout(Duration::from_millis(200), session.run("sleep 3; echo old", "", LONG)).await;
        assert!(dropped.is_err());
        assert_eq!(text(session.as_mut(), "echo new").await, "new\n");
    })
    .await;
}

#[tokio::test]
async fn the_environment_is_the_same_everywhere() {
    both(async |sandbox| {
        let mut session = session(sandbox.as_ref()).await;
        let names = text(session.as_mut(), "env | cut -d= -f1 | sort | tr '\\n' ' '").await;
        assert_eq!(names, "HOME LANG LOGNAME PATH PWD PYTHONDONTWRITEBYTECODE PYTHONHASHSEED SHELL SHLVL TERM TMPDIR TZ USER _ ");
    })
    .await;
}

#[tokio::test]
async fn signals_are_as_a_new_program_expects_them() {
    both(async |sandbox| {
        let mut session = session(sandbox.as_ref()).await;
        assert_eq!(text(session.as_mut(), "yes | head -n 1; echo ${PIPESTATUS[0]}").await, "y\n141\n");
        let masks = text(session.as_mut(), "grep -E '^Sig(Blk|Ign)' /proc/self/status | tr -d '\\t'").await;
        assert_eq!(masks, "SigBlk:0000000000000000\nSigIgn:0000000000000000\n");
    })
    .await;
}
