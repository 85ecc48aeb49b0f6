//! The rooms of the house: who may use whom, and how large a file may be.

#![expect(clippy::unwrap_used, reason = "a source that cannot be read fails the test")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Lines of a source file, its tests not counted.
const MOST_LINES: usize = 500;

/// Which rooms a room may use, beside itself. `src/ARCHITECTURE.md` explains the table.
const EDGES: &[(&str, &[&str])] = &[
    ("base", &[]),
    ("harness", &["base"]),
    ("task", &["base"]),
    ("trajectory", &["base", "harness", "task"]),
    ("lineage", &["base", "harness"]),
    ("archive", &["base", "harness", "task"]),
    // `task`: request tags name a task, and the rehearsal plays reference solutions.
    ("model", &["base", "task", "trajectory"]),
    ("sandbox", &["base"]),
    // `harness`: tools and observations are offered as its genes say.
    ("environment", &["base", "harness", "sandbox", "task", "trajectory"]),
    ("episode", &["base", "environment", "harness", "model", "sandbox", "task", "trajectory"]),
    ("evaluation", &["base", "episode", "harness", "model", "sandbox", "task", "trajectory"]),
    ("evolution", &["archive", "base", "evaluation", "episode", "harness", "lineage", "model", "task", "trajectory"]),
    ("forge", &["base", "environment", "model", "sandbox", "task"]),
    ("export", &["base", "harness", "task", "trajectory"]),
    // `harness`: an episode names the harness that played it, and the form of its calls.
    ("student", &["base", "harness", "model", "task", "trajectory"]),
    ("store", &["archive", "base", "evaluation", "evolution", "export", "harness", "lineage", "model", "task", "trajectory"]),
    ("config", &["archive", "base", "evolution", "forge", "harness", "model", "sandbox", "student", "task"]),
    ("report", &["base", "evolution", "harness", "task", "trajectory"]),
    (
        "cli",
        &[
            "archive",
            "base",
            "config",
            "environment",
            "episode",
            "evaluation",
            "evolution",
            "export",
            "forge",
            "harness",
            "lineage",
            "model",
            "report",
            "sandbox",
            "store",
            "student",
            "task",
            "trajectory",
        ],
    ),
];

fn sources() -> Vec<PathBuf> {
    fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }
    let mut found = Vec::new();
    walk(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut found);
    found.sort();
    found
}

fn room(path: &Path) -> Option<String> {
    let relative = path.strip_prefix(Path::new(env!("CARGO_MANIFEST_DIR")).join("src")).unwrap();
    let mut parts = relative.components();
    let first = parts.next()?.as_os_str().to_string_lossy().into_owned();
    parts.next().map(|_| first)
}

/// Rooms named by `crate::ROOM` in code (not in comments), tests of the file left out.
fn used_rooms(text: &str) -> BTreeSet<String> {
    let mut used = BTreeSet::new();
    for line in text.lines().take_while(|line| !line.starts_with("#[cfg(test)]")) {
        let code = line.split("//").next().unwrap_or_default();
        for after in code.split("crate::").skip(1) {
            let name: String = after.chars().take_while(|c| c.is_ascii_lowercase() || *c == '_').collect();
            if !name.is_empty() && !after[name.len()..].starts_with('!') {
                used.insert(name);
            }
        }
    }
    used
}

fn is_test_file(path: &Path) -> bool {
    path.components().any(|part| part.as_os_str() == "tests")
        || path.file_stem().is_some_and(|stem| stem == "tests" || stem.to_string_lossy().ends_with("_tests"))
}

#[test]
fn rooms_use_only_the_rooms_they_may() {
    let allowed: BTreeMap<&str, &[&str]> = EDGES.iter().copied().collect();
    let mut wrong = Vec::new();
    let mut seen = 0;
    for path in sources().iter().filter(|path| !is_test_file(path)) {
        let Some(room) = room(path) else { continue };
        let edges = allowed.get(room.as_str()).unwrap_or_else(|| panic!("src/{room} is not in the table of rooms"));
        for used in used_rooms(&std::fs::read_to_string(path).unwrap()) {
            seen += 1;
            if used != room && !edges.contains(&used.as_str()) {
                wrong.push(format!("{}: `{room}` may not use `{used}`", path.display()));
            }
        }
    }
    assert!(seen > 100, "the scan found only {seen} uses: it no longer reads the sources");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_table_has_no_cycle() {
    // Rooms are declared in reading order: an edge leads to a room above, so there is no cycle.
    for (index, (room, edges)) in EDGES.iter().enumerate() {
        for edge in *edges {
            let place = EDGES.iter().position(|(name, _)| name == edge);
            let above = place.is_some_and(|place| place < index);
            // `evolution` and `forge` stand side by side; neither uses the other.
            assert!(above, "`{room}` uses `{edge}`, which does not stand above it");
        }
    }
}

#[test]
fn only_the_command_line_prints_exits_or_reads_the_environment() {
    let mut wrong = Vec::new();
    for path in sources().iter().filter(|path| !is_test_file(path)) {
        let inside = room(path);
        if inside.as_deref() == Some("cli") {
            continue;
        }
        let text = std::fs::read_to_string(path).unwrap();
        let code = text.lines().take_while(|line| !line.starts_with("#[cfg(test)]"));
        for (number, line) in code.enumerate() {
            let line = line.split("//").next().unwrap_or_default();
            for banned in ["println!", "eprintln!", "process::exit", "env::var(", "env::var_os(", "env::args"] {
                if line.contains(banned) {
                    wrong.push(format!("{}:{}: `{banned}`", path.display(), number + 1));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn files_stay_readable() {
    let mut long = Vec::new();
    for path in sources().iter().filter(|path| !is_test_file(path)) {
        let text = std::fs::read_to_string(path).unwrap();
        let lines = text.lines().take_while(|line| !line.starts_with("#[cfg(test)]")).count();
        if lines > MOST_LINES {
            long.push(format!("{}: {lines} lines", path.display()));
        }
    }
    assert!(long.is_empty(), "over {MOST_LINES} lines:\n{}", long.join("\n"));
}

#[test]
fn the_core_of_the_search_knows_no_database_network_or_terminal() {
    for path in sources().iter().filter(|path| matches!(room(path).as_deref(), Some("evolution" | "archive" | "lineage" | "harness"))) {
        let text = std::fs::read_to_string(path).unwrap();
        for banned in ["rusqlite", "reqwest", "candle", "indicatif", "clap::"] {
            assert!(!text.contains(banned), "{} knows {banned}", path.display());
        }
    }
}
