//! The README says what is true: its commands run, its files parse, its queries answer, its lists are whole.
//!
//! Conventions of its fenced blocks. `sh`: commands, a line each, with a comment behind them; `sh endpoint`: commands that need an
//! endpoint, and `sh student`: those that need a student, of which only the subcommand is looked at. `toml task FILE` and `toml experiment FILE`: the text of that file.
//! `sql`: one query on the `run.db` of the quickstart. `ELITE`, `SEED`, `TASK` and `EPISODE` stand for ids.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Output;

use harness_evo::{config, task};
use rusqlite::Connection;

use crate::cli::{TINY, no_sandbox, program, stdout, text};

const RUN: &str = "runs/quickstart-seed1";

struct Fence {
    info: Vec<String>,
    body: String,
}

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(file: &str) -> String {
    std::fs::read_to_string(repository().join(file)).unwrap()
}

fn fences() -> Vec<Fence> {
    let readme = read("README.md");
    let parts: Vec<&str> = readme.split("\n```").collect();
    assert!(parts.len() % 2 == 1, "a fence of the README is not closed");
    let fence = |part: &&str| {
        let (info, body) = part.split_once('\n').unwrap();
        Fence { info: info.split_whitespace().map(str::to_owned).collect(), body: format!("{body}\n") }
    };
    let fences: Vec<Fence> = parts.iter().skip(1).step_by(2).map(fence).collect();
    for fence in &fences {
        let info: Vec<&str> = fence.info.iter().map(String::as_str).collect();
        assert!(
            matches!(info[..], ["text" | "sql" | "sh"] | ["sh", "endpoint" | "student"] | ["toml", "task" | "experiment", _]),
            "{info:?}"
        );
    }
    fences
}

/// The commands of fences with this info string, as words, without their comments.
fn commands(fences: &[Fence], info: &[&str]) -> Vec<Vec<String>> {
    let lines = fences.iter().filter(|fence| fence.info == info).flat_map(|fence| fence.body.lines());
    let words = |line: &str| line.split(" #").next().unwrap().split_whitespace().map(str::to_owned).collect();
    lines.map(words).filter(|words: &Vec<String>| !words.is_empty()).collect()
}

/// A new folder with the files the README shows, and a small experiment in the place of the quickstart's.
fn prepared(fences: &[Fence]) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    let write = |file: &str, body: &str| {
        let path = root.path().join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, body).unwrap();
    };
    let small = TINY.replace("name = \"tiny\"\nseed = 3", "name = \"quickstart\"\nseed = 1");
    assert_ne!(small, TINY);
    write("experiments/quickstart.toml", &small);
    // Two steps are enough to see that the command works.
    let training = std::fs::read_to_string(repository().join("experiments/student-nano.toml")).unwrap();
    let short = training.replace("epochs = 20", "steps = 2").replace("rows = 2 ", "rows = 1 ");
    assert_ne!(short, training);
    write("experiments/student-nano.toml", &short);
    for fence in fences.iter().filter(|fence| fence.info[0] == "toml") {
        write(&fence.info[2], &fence.body);
    }
    root
}

fn call(folder: &Path, arguments: &[String]) -> Output {
    program().current_dir(folder).args(arguments).output().unwrap()
}

/// Runs `query` and gives its rows as text.
fn rows(database: &Connection, query: &str) -> Vec<Vec<String>> {
    let mut statement = database.prepare(query).unwrap_or_else(|error| panic!("{query}: {error}"));
    let columns = statement.column_count();
    let row = |row: &rusqlite::Row<'_>| (0..columns).map(|column| row.get_ref(column).map(|value| format!("{value:?}"))).collect();
    statement.query_map([], row).unwrap().map(|row| row.unwrap_or_else(|error| panic!("{query}: {error}"))).collect()
}

/// What the placeholders stand for in the prepared run.
fn ids(database: &Connection) -> [(&'static str, String); 4] {
    let one = |query: &str| database.query_row(query, [], |row| row.get::<_, String>(0)).unwrap_or_else(|error| panic!("{query}: {error}"));
    // The elite that is farthest from its seed: its path and its differences show something.
    let elite = one("SELECT harness_id FROM elites JOIN lineage_path USING (harness_id) ORDER BY distance DESC LIMIT 1");
    let seed = one(&format!("SELECT ancestor_id FROM lineage_path WHERE harness_id = '{elite}' ORDER BY distance DESC LIMIT 1"));
    let short = |id: &str| id[..12].to_owned();
    [
        ("ELITE", short(&elite)),
        ("SEED", short(&seed)),
        ("TASK", short(&one("SELECT min(id) FROM task"))),
        ("EPISODE", one("SELECT CAST(max(id) AS TEXT) FROM episode")),
    ]
}

#[test]
fn every_command_and_query_of_the_readme_works() {
    if no_sandbox() {
        return;
    }
    let fences = fences();
    let root = prepared(&fences);
    let folder = root.path();
    let mut placeholders = None;
    let mut ran = 0;
    for words in commands(&fences, &["sh"]) {
        let arguments = match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            ["cargo", "run", "--release", "--", ..] => words[4..].to_vec(),
            ["cargo", "test"] => continue,
            ["harness-evo", ..] => words[1..].to_vec(),
            _ => panic!("the README's command {words:?} is checked by nothing"),
        };
        let filled = |word: &String| {
            let ids = placeholders.get_or_insert_with(|| ids(&Connection::open(folder.join(RUN).join("run.db")).unwrap()));
            ids.iter().fold(word.clone(), |word, (name, id)| {
                let stands_alone = word.rsplit(':').next() == Some(name);
                if stands_alone { word.replace(name, id) } else { word }
            })
        };
        // The first command makes the run from which the ids of all others are taken.
        let arguments: Vec<String> = if ran == 0 { arguments } else { arguments.iter().map(filled).collect() };
        let output = call(folder, &arguments);
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        let silent = arguments.iter().any(|argument| argument == "--out");
        assert!(silent || !output.stdout.is_empty(), "{arguments:?} prints nothing");
        ran += 1;
    }
    assert!(ran >= 12, "only {ran} commands were found");
    assert!(folder.join("elites.jsonl").is_file() && folder.join("runs/quickstart-seed2/run.db").is_file());

    let database = Connection::open(folder.join(RUN).join("run.db")).unwrap();
    let queries: Vec<&str> = fences.iter().filter(|fence| fence.info == ["sql"]).map(|fence| fence.body.as_str()).collect();
    assert!(queries.len() >= 3);
    for query in &queries {
        assert!(!rows(&database, query).is_empty(), "{query} finds nothing");
    }
    for view in ["elites", "leaderboard", "lineage_path", "episode_summary"] {
        assert!(queries.iter().any(|query| query.contains(view)), "no query shows the view {view}");
    }
}

#[test]
fn files_in_the_readme_are_accepted() {
    let fences = fences();
    let root = prepared(&fences);
    let example = root.path().join("mine");
    stdout(&["init", text(&example)]);
    let shown = |kind: &str| -> Vec<PathBuf> {
        fences.iter().filter(|fence| fence.info.get(1).is_some_and(|k| k == kind)).map(|fence| root.path().join(&fence.info[2])).collect()
    };
    let (tasks, experiments) = (shown("task"), shown("experiment"));
    assert!(!tasks.is_empty() && !experiments.is_empty());
    for file in tasks {
        let task = task::parse_task(&std::fs::read_to_string(&file).unwrap(), &file);
        assert!(task.is_ok(), "{}: {}", file.display(), task.unwrap_err());
    }
    for file in experiments {
        let experiment = config::parse(&std::fs::read_to_string(&file).unwrap(), &file, None);
        assert!(experiment.is_ok(), "{}: {}", file.display(), experiment.unwrap_err());
    }
}

#[test]
fn commands_that_need_an_endpoint_or_cargo_name_what_exists() {
    let fences = fences();
    let mut endpoint = commands(&fences, &["sh", "endpoint"]);
    assert!(!endpoint.is_empty());
    endpoint.extend(commands(&fences, &["sh", "student"]));
    for words in endpoint {
        assert_eq!(words[0], "harness-evo");
        assert!(stdout(&[&words[1], "--help"]).contains(&format!("Usage: harness-evo {}", words[1])), "{words:?}");
        let files: Vec<&String> = words.iter().filter(|word| word.ends_with(".toml")).collect();
        let exists =
            |file: &str| repository().join(file).is_file() || fences.iter().any(|fence| fence.info.get(2).is_some_and(|f| f == file));
        assert!(files.iter().all(|file| exists(file)), "{words:?}");
    }

    let quickstart = repository().join("experiments/quickstart.toml");
    let experiment = config::load(&quickstart, None).unwrap();
    assert_eq!(format!("runs/{}-seed{}", experiment.name, experiment.search.seed), RUN);
    let first = &commands(&fences, &["sh"])[0];
    assert_eq!(first.join(" "), "cargo run --release -- run experiments/quickstart.toml");

    let manifest: toml::Table = read("Cargo.toml").parse().unwrap();
    assert_eq!(manifest["package"]["default-run"].as_str(), Some("harness-evo"), "`cargo run` must not ask which program");
    let benches: BTreeSet<&str> = manifest["bench"].as_array().unwrap().iter().map(|bench| bench["name"].as_str().unwrap()).collect();
    let described = read("benches/README.md");
    let named: BTreeSet<&str> =
        described.split("`cargo bench --bench ").skip(1).map(|rest| rest.split(['`', ' ']).next().unwrap()).collect();
    assert_eq!(named, benches);

    let version = manifest["package"]["rust-version"].as_str().unwrap();
    assert!(read("README.md").contains(&format!("Rust {version}")));
}

#[test]
fn the_readme_tours_every_command_and_every_exit_code_and_no_other() {
    let help = stdout(&["--help"]);
    let between = |start: &str, end: &str| help.split(start).nth(1).unwrap().split(end).next().unwrap().to_owned();
    let listed = between("Commands:\n", "\n\n");
    // Names stand after exactly two spaces; lines that go on stand deeper.
    let offered: BTreeSet<&str> = listed
        .lines()
        .filter_map(|line| line.strip_prefix("  ").filter(|rest| !rest.starts_with(' ')))
        .map(|line| line.split_whitespace().next().unwrap())
        .filter(|name| *name != "help")
        .collect();
    assert!(offered.len() >= 12, "{listed}");
    let mut commands = commands(&fences(), &["sh"]);
    commands.extend(self::commands(&fences(), &["sh", "student"]));
    let toured: BTreeSet<&str> = commands.iter().filter(|words| words[0] == "harness-evo").map(|words| words[1].as_str()).collect();
    assert_eq!(toured, offered);

    let codes = between("Exit codes:\n", "\n\n");
    let codes: Vec<&str> = codes.lines().map(|line| line.split_whitespace().next().unwrap()).collect();
    let readme = read("README.md");
    let rows = readme.split("## Exit codes").nth(1).unwrap().split("\n## ").next().unwrap().lines();
    let told: Vec<&str> = rows.filter_map(|line| line.strip_prefix("| ")?.split(' ').next()).filter(|word| *word != "code").collect();
    assert_eq!(told, codes);
}
