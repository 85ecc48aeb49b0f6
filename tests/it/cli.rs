//! The program as its users start it: real processes, real sandboxes, signals.

use std::io::Read as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Two seeds on two skills of one job type: the smallest experiment in which every kind of step happens.
pub(crate) const TINY: &str = r#"
name = "tiny"
seed = 3
[harness]
templates = ["minimal", "analyst"]
[tasks]
builtin = ["data"]
skills = ["top-ranking", "group-totals"]
per_workflow = 6
[budget]
episodes = 60
[search]
window = 4
stages = [2, 4]
confirm_episodes = 4
confirm_after = 4
[report]
episodes = 4
baseline = "off"
"#;

pub(crate) fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_harness-evo"));
    command.env_remove("HARNESS_EVO_LOG").env_remove("NO_COLOR").stdin(Stdio::null());
    command
}

fn call(arguments: &[&str]) -> Output {
    program().args(arguments).output().unwrap()
}

/// Standard output of a command that must succeed.
pub(crate) fn stdout(arguments: &[&str]) -> String {
    let output = call(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&stdout(arguments)).unwrap()
}

/// Standard error of a command that must end with `code` and print no result.
fn refused(code: i32, arguments: &[&str]) -> String {
    let output = call(arguments);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {stderr}");
    assert!(output.stdout.is_empty(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stdout));
    assert!(stderr.contains("error: ") && !stderr.contains("panicked"), "{arguments:?}: {stderr}");
    stderr
}

pub(crate) fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Whether there is a sandbox at all; a word about it where there is none.
pub(crate) fn no_sandbox() -> bool {
    harness_evo::sandbox::open(None).map_err(|error| eprintln!("skipped: {error}")).is_err()
}

/// A run that was never disturbed.
struct Reference {
    root: PathBuf,
    table: String,
    lineage: String,
}

impl Reference {
    fn folder(&self) -> PathBuf {
        self.root.join("run")
    }

    fn experiment(&self) -> PathBuf {
        self.root.join("tiny.toml")
    }
}

fn reference() -> &'static Reference {
    static REFERENCE: OnceLock<Reference> = OnceLock::new();
    REFERENCE.get_or_init(|| {
        let root = tempfile::tempdir().unwrap().keep();
        std::fs::write(root.join("tiny.toml"), TINY).unwrap();
        let folder = root.join("run");
        let table =
            stdout(&["--quiet", "run", text(&root.join("tiny.toml")), "--out", text(&folder), "--events", text(&root.join("events"))]);
        let lineage = stdout(&["lineage", "export", text(&folder)]);
        Reference { root, table, lineage }
    })
}

#[test]
fn an_example_can_be_made_checked_and_is_never_overwritten() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("mine");
    let made = stdout(&["init", text(&folder)]);
    assert!(made.lines().count() >= 12 && made.lines().all(|path| Path::new(path).is_file()), "{made}");
    assert!(refused(2, &["init", text(&folder)]).contains("is not empty"));

    let plan = json(&["check", text(&folder.join("experiment.toml")), "--json"]);
    let job_types: Vec<&str> = plan["job_types"].as_array().unwrap().iter().map(|row| row["job_type"].as_str().unwrap()).collect();
    assert_eq!(job_types, ["code", "data", "shell"]);
    assert_eq!(plan["seeds"].as_array().unwrap().len(), 7);
    // Three job types, each with its seed, its elite and the two other elites, 30 episodes each; the rest in equal halves.
    assert_eq!(plan["budget"]["comparison"]["episodes"], 360);
    assert_eq!(plan["budget"]["search"]["episodes"], 570);
    assert_eq!(plan["budget"]["baseline"]["episodes"], 570);

    let templates: Vec<PathBuf> = std::fs::read_dir(folder.join("templates")).unwrap().map(|entry| entry.unwrap().path()).collect();
    let templates = templates.iter().filter(|path| path.extension().is_some_and(|extension| extension == "toml"));
    let arguments: Vec<&str> = ["harness", "check"].into_iter().chain(templates.map(|path| text(path))).collect();
    assert_eq!(stdout(&arguments).lines().count(), 7);

    if no_sandbox() {
        return;
    }
    let checked = json(&["tasks", "check", text(&folder.join("tasks")), "--json"]);
    assert_eq!((&checked["skills"][0]["refused"], &checked["skills"][0]["broken_solutions"]), (&Value::from(0), &Value::from(2)));
    let task = std::fs::read_to_string(folder.join("tasks/newest-release.toml")).unwrap();
    let loose = root.path().join("loose.toml");
    std::fs::write(&loose, task.replace("file_equals", "file_contains")).unwrap();
    let output = call(&["tasks", "check", text(&loose)]);
    assert_eq!(output.status.code(), Some(3));
    assert!(String::from_utf8(output.stdout).unwrap().contains("`the whole line` passes the check"));
}

#[test]
fn every_command_has_help_and_the_exit_codes_are_in_it() {
    let help = stdout(&["--help"]);
    let commands = ["init", "check", "run", "resume", "status", "elites", "lineage", "episode", "export", "tasks", "harness", "doctor"];
    for command in commands {
        assert!(help.lines().any(|line| line.trim_start().starts_with(&format!("{command} "))), "{command}");
        assert!(stdout(&[command, "--help"]).contains("Usage: harness-evo"), "{command}");
    }
    for (command, parts) in [
        ("lineage", &["tree", "show", "diff", "path", "export"][..]),
        ("episode", &["list", "show"]),
        ("tasks", &["list", "check", "show"]),
        ("harness", &["check", "render", "diff", "schema"]),
    ] {
        for part in parts {
            assert!(stdout(&[command, part, "--help"]).contains("Usage: harness-evo"), "{command} {part}");
        }
    }
    for code in ["0", "1", "2", "3", "4", "5", "130"] {
        assert!(help.lines().any(|line| line.split_whitespace().next() == Some(code)), "{code}");
    }
    assert_eq!(stdout(&["--version"]).trim(), concat!("harness-evo ", env!("CARGO_PKG_VERSION")));
    assert_eq!(call(&["no-such-command"]).status.code(), Some(2));
    assert_eq!(call(&["elites"]).status.code(), Some(2));
}

#[test]
fn what_is_written_wrong_is_refused_with_its_place_and_nothing_is_made() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("wrong.toml");
    let run = root.path().join("run");
    for (good, bad, expected) in [
        ("episodes = 60", "episods = 60", &["wrong.toml:11: `budget.episods`", "did you mean `episodes`?"][..]),
        ("stages = [2, 4]", "stages = []", &["stages"]),
        ("\"analyst\"", "\"analist\"", &["wrong.toml:5: `harness.templates[1]`", "analyst"]),
        ("\"analyst\"", "\"none.toml\"", &["none.toml", "No such file"]),
        ("[\"data\"]", "[\"dta\"]", &["wrong.toml:7: `tasks.builtin[0]`", "data"]),
        (", \"group-totals\"]\nper_workflow = 6", "]\nper_workflow = 1", &["job type `data` has"]),
        ("episodes = 60", "episodes = 8", &["wrong.toml:11: `budget.episodes`", "comparison"]),
    ] {
        assert!(TINY.contains(good));
        std::fs::write(&file, TINY.replacen(good, bad, 1)).unwrap();
        for arguments in [&["check", text(&file)][..], &["run", text(&file), "--out", text(&run)]] {
            let said = refused(2, arguments);
            for part in expected {
                assert!(said.contains(part), "{bad}: {part:?} is not in {said}");
            }
        }
        assert!(!run.exists(), "{bad}");
    }
    assert!(refused(2, &["run", text(&root.path().join("missing.toml"))]).contains("missing.toml: No such file"));
    assert!(refused(2, &["harness", "render", "carefull"]).contains("careful"));
    assert!(refused(2, &["tasks", "list", "--builtin", "--skill", "none"]).contains("shell/rotate-logs"));
}

#[test]
fn folders_that_hold_no_run_of_ours_are_told_apart() {
    let root = tempfile::tempdir().unwrap();
    let missing = root.path().join("missing");
    for arguments in [&["status"][..], &["elites"], &["lineage", "tree"], &["lineage", "export"], &["episode", "list"], &["resume"]] {
        let arguments: Vec<&str> = arguments.iter().copied().chain([text(&missing)]).collect();
        assert!(refused(5, &arguments).contains("holds no run"), "{arguments:?}");
    }
    assert!(!missing.exists());
    std::fs::write(root.path().join("run.db"), "this is no database, whatever its name says").unwrap();
    assert!(refused(5, &["status", text(root.path())]).contains("is not the database of a run"));
    assert!(refused(5, &["resume", text(root.path())]).contains("is not the database of a run"));
}

#[test]
fn built_in_harnesses_and_tasks_can_be_looked_at_without_a_run() {
    let minimal = json(&["harness", "render", "minimal", "--json"]);
    let tools: Vec<&str> = minimal["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(tools, ["bash", "finish"]);
    assert!(minimal["system"].as_str().unwrap().contains("Your workspace is /home/agent."));
    assert_eq!(stdout(&["harness", "diff", "coder", "coder"]).trim(), "no gene differs");
    assert!(stdout(&["harness", "diff", "minimal", "coder"]).contains("prompt.role:"));
    assert_eq!(json(&["harness", "schema"])["title"], "harness-evo template");

    let tasks = json(&["tasks", "list", "--builtin", "--skill", "merge-env", "--per-workflow", "3", "--json"]);
    let tasks = tasks["tasks"].as_array().unwrap();
    assert_eq!(tasks.len(), 3);
    let id = tasks[1]["id"].as_str().unwrap();
    let shown = stdout(&["tasks", "show", &id[..10]]);
    let parsed = harness_evo::task::parse_task(&shown, Path::new("shown.toml")).unwrap();
    assert_eq!(parsed.id().to_string(), id);
    assert!(refused(2, &["tasks", "show", ""]).contains("is the start of several task ids"));
}

#[test]
fn a_reader_that_goes_away_is_no_error_and_a_full_disk_is_one() {
    let mut child = program().args(["tasks", "list", "--builtin"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let output = program().args(["harness", "schema"]).stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn a_run_can_be_looked_at_from_every_side() {
    if no_sandbox() {
        return;
    }
    let reference = reference();
    let folder = &reference.folder();
    let dir = text(folder);
    assert!(reference.table.starts_with("SIMULATED") && reference.table.contains("data (validate split)"), "{}", reference.table);

    let status = json(&["status", dir, "--json"]);
    assert_eq!((&status["name"], &status["running"], &status["simulated"]), (&"tiny".into(), &false.into(), &true.into()));
    assert!(status["spent"]["episodes"].as_u64().unwrap() <= 52 && status["limit"]["episodes"] == 60, "{status}");
    let roles: Vec<&str> = status["report"].as_array().unwrap().iter().map(|row| row["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["seed", "elite"]);
    assert!(stdout(&["status", dir]).contains("finished"));

    let elites = json(&["elites", dir, "--json"]);
    let elite = elites["elites"][0]["harness_id"].as_str().unwrap().to_owned();
    assert!(stdout(&["elites", dir]).contains(&elite[..8]));
    assert!(stdout(&["lineage", "tree", dir]).lines().any(|line| line.contains(&elite[..8]) && line.contains(" * data/")));

    let shown = json(&["lineage", "show", dir, &elite[..12], "--json"]);
    assert_eq!(shown["id"], Value::from(elite.clone()));
    let path = json(&["lineage", "path", dir, &elite, "--json"]);
    let path = path["path"].as_array().unwrap();
    assert_eq!((&path[0]["made_by"], &path.last().unwrap()["id"]), (&"seed".into(), &shown["id"]));
    let template = folder.with_file_name("elite.toml");
    std::fs::write(&template, stdout(&["lineage", "show", dir, &elite, "--toml"])).unwrap();
    assert_eq!(stdout(&["harness", "diff", text(&template), &format!("{dir}:{}", &elite[..12])]).trim(), "no gene differs");
    let document: Value = serde_json::from_str(&reference.lineage).unwrap();
    let seed = document["nodes"].as_array().unwrap().iter().find(|node| node["template"] == "minimal").unwrap()["id"].as_str().unwrap();
    assert!(call(&["lineage", "diff", dir, seed, &elite]).status.success());
    assert!(stdout(&["lineage", "export", dir, "--format", "dot"]).starts_with("digraph lineage {"));

    let episodes = json(&["episode", "list", dir, "--harness", &elite[..12], "--limit", "0", "--json"]);
    let episodes = episodes["episodes"].as_array().unwrap();
    assert!(episodes.len() >= 8 && episodes.iter().all(|row| row["harness"] == elite.as_str()));
    let failed = json(&["episode", "list", dir, "--failed", "--json"]);
    assert!(failed["episodes"].as_array().unwrap().iter().all(|row| row["score"].as_f64().unwrap() < 1.0));
    let id = episodes[0]["id"].to_string();
    let transcript = stdout(&["episode", "show", dir, &id]);
    assert!(transcript.contains("-- system") && transcript.contains("-- assistant") && transcript.contains("score "), "{transcript}");
    assert_eq!(json(&["episode", "show", dir, &id, "--json"])["trajectory"]["harness"], Value::from(elite));

    let exported = stdout(&["export", dir, "--format", "openai-jsonl", "--out", "-"]);
    assert!(exported.lines().count() > 0, "nothing was solved: the comparison of exports would show nothing");
    for line in exported.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        assert!(line["messages"][0]["role"] == "system" && line["tools"].is_string(), "{line}");
    }
    let file = folder.with_file_name("elites.jsonl");
    stdout(&["export", dir, "--format", "openai-jsonl", "--out", text(&file)]);
    assert_eq!(std::fs::read_to_string(&file).unwrap().trim_end(), exported.trim_end());

    let events = std::fs::read_to_string(folder.with_file_name("events")).unwrap();
    let events: Vec<Value> = events.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let count = |name: &str| events.iter().filter(|event| event["event"] == name).count() as u64;
    assert_eq!((count("started"), count("step_committed"), count("stopped")), (1, status["steps"].as_u64().unwrap(), 1));
    assert_eq!(count("episode_done"), status["scored"].as_u64().unwrap());
}

#[test]
fn a_complete_run_is_resumed_for_nothing_and_never_replaced() {
    if no_sandbox() {
        return;
    }
    let reference = reference();
    let copy = tempfile::tempdir().unwrap();
    let folder = copy.path().join("run");
    copy_run(&reference.folder(), &folder);
    let dir = text(&folder);
    let before = json(&["status", dir, "--json"]);
    let again = stdout(&["--quiet", "resume", dir]);
    assert_eq!(table(&again), table(&reference.table));
    assert_eq!(json(&["status", dir, "--json"])["scored"], before["scored"]);
    let experiment = reference.experiment();
    assert!(refused(5, &["run", text(&experiment), "--out", dir]).contains("holds a run already"));

    let lock = std::fs::File::options().write(true).open(folder.join("run.lock")).unwrap();
    lock.lock().unwrap();
    assert!(refused(5, &["resume", dir]).contains("is in use by another process"));
    assert_eq!(json(&["status", dir, "--json"])["running"], true);
    assert_eq!(stdout(&["lineage", "export", dir]), reference.lineage);
    drop(lock);

    let database = rusqlite::Connection::open(folder.join("run.db")).unwrap();
    let id: String = database.query_row("SELECT id FROM harness LIMIT 1", [], |row| row.get(0)).unwrap();
    let (start, end) = id.split_at(31);
    let twin = format!("{start}{}", if end == "0" { "1" } else { "0" });
    database
        .execute("INSERT INTO harness SELECT 1000, ?1, step, template, depth, genome FROM harness WHERE id = ?2", [&twin, &id])
        .unwrap();
    let said = refused(2, &["episode", "list", dir, "--harness", start]);
    assert!(said.contains(&id) && said.contains(&twin) && said.contains("hint: give more"), "{said}");
    assert!(refused(2, &["episode", "list", dir, "--harness", "ffff0000ffff"]).contains("no harness has an id"));
    assert!(refused(2, &["episode", "show", dir, "999999"]).contains("no episode has an id"));
    database.pragma_update(None, "user_version", 99).unwrap();
    drop(database);
    let said = call(&["status", dir]);
    assert!(said.status.success() && String::from_utf8(said.stderr).unwrap().contains("newer harness-evo"));
    assert!(refused(5, &["resume", dir]).contains("schema version 99"));
}

/// The files of a run that nobody writes.
fn copy_run(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_run(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// What a run ends with, without the folder's name in the advice.
fn table(text: &str) -> &str {
    text.split("\nNext:").next().unwrap()
}

/// A run that has committed at least `steps` steps and goes on.
fn started(root: &Path, steps: usize, workers: &str) -> Child {
    let events = root.join("events");
    std::fs::write(root.join("tiny.toml"), TINY).unwrap();
    let arguments =
        ["run", text(&root.join("tiny.toml")), "--out", text(&root.join("run")), "--events", text(&events), "--workers", workers]
            .map(str::to_owned);
    let child = program().args(arguments).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(300);
    let committed = || std::fs::read_to_string(&events).unwrap_or_default().matches("step_committed").count();
    while committed() < steps {
        assert!(Instant::now() < deadline, "no step was committed");
        std::thread::sleep(Duration::from_millis(5));
    }
    child
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap(), signal).unwrap();
}

fn finish_and_compare(root: &Path, workers: &str) {
    let folder = root.join("run");
    let resumed = stdout(&["--quiet", "resume", text(&folder), "--workers", workers]);
    assert_eq!(table(&resumed), table(&reference().table));
    assert_eq!(stdout(&["lineage", "export", text(&folder)]), reference().lineage);
    let exported = |folder: &Path| stdout(&["export", text(folder), "--format", "openai-jsonl", "--out", "-"]);
    assert_eq!(exported(&folder), exported(&reference().folder()));
}

#[test]
fn an_interrupted_run_ends_cleanly_and_is_finished_as_if_it_had_not_been() {
    if no_sandbox() {
        return;
    }
    let root = tempfile::tempdir().unwrap();
    let mut child = started(root.path(), 2, "2");
    signal(&child, Signal::INT);
    let status = child.wait().unwrap();
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(status.code(), Some(130), "{said}");
    assert!(said.contains("hint: `harness-evo resume"), "{said}");
    let steps = json(&["status", text(&root.path().join("run")), "--json"]);
    assert!(steps["steps"].as_u64().unwrap() >= 2 && steps["report"].as_array().unwrap().is_empty(), "{steps}");
    finish_and_compare(root.path(), "3");
}

#[test]
fn a_killed_run_is_finished_as_if_it_had_not_been() {
    if no_sandbox() {
        return;
    }
    let root = tempfile::tempdir().unwrap();
    let mut child = started(root.path(), 4, "3");
    signal(&child, Signal::KILL);
    assert_eq!(child.wait().unwrap().signal(), Some(9));
    finish_and_compare(root.path(), "1");
}
