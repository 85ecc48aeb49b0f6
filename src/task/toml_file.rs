//! Tasks in TOML: one task a file. This is how users bring their own.
//!
//! ```toml
//! job_type = "shell"                     # any name; built-in ones are shell, data, code
//! skill = "tidy-notes"
//! instruction = "Join the notes in `notes/` into `all.txt`, in the order of their names. Leave the notes as they are."
//!
//! [files]                                # what the workspace holds at the start
//! "notes/b.txt" = "second\n"
//! "notes/a.txt" = "first\n"
//! "run.sh" = { text = "#!/bin/sh\n", mode = "755" }     # also: hex, link, folder = true
//!
//! [[check]]
//! name = "joined"                        # stake = "credit" unless said otherwise
//! file_equals = { path = "all.txt", text = "first\nsecond\n" }
//!
//! [[check]]
//! name = "notes kept"
//! stake = "guard"                        # if it fails the score is 0
//! file_equals = { path = "notes/a.txt", text = "first\n" }
//!
//! [[solution]]
//! role = "work"                          # inspect, work, requirement, verify
//! run = "cat notes/*.txt > all.txt"      # or python, write, edit, read
//! slip = { run = "cat notes/b.txt notes/a.txt > all.txt" }
//! ```
//!
//! The split is not written: it follows from the content (see [`Split::of`](super::Split::of)), so that nobody, by choice or by
//! accident, moves a task the search has seen into the sealed split. A task that is changed is another task.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use super::written::TaskWritten;
use super::{Task, TaskError};
use crate::base::TomlPlace;

/// Bytes of a task file at most.
const FILE_BYTES: u64 = 4 << 20;
/// Task files of a folder at most.
const FOLDER_FILES: usize = 10_000;

/// A task file that is not one.
#[derive(Debug, thiserror::Error)]
pub enum TaskFileError {
    /// It cannot be read.
    #[error("{}: {source}", path.display())]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It is larger than a task file may be, or there are too many.
    #[error("{}: {reason}", path.display())]
    Size {
        /// The file or folder.
        path: PathBuf,
        /// What is too large and what is allowed.
        reason: String,
    },
    /// What is written is not a task.
    #[error("{}:{line}: {}{message}", path.display(), key.as_ref().map(|key| format!("`{key}`: ")).unwrap_or_default())]
    Written {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The key, as a path.
        key: Option<String>,
        /// What is wrong, and where there is one the nearest valid key.
        message: String,
    },
    /// The task cannot be written as TOML.
    #[error("the task cannot be written as TOML: {0}")]
    Write(String),
}

/// The tasks of all `*.toml` files of `folder`, by file name. Folders inside it are passed over.
///
/// # Errors
/// When the folder cannot be read, or for the first file that is not a task.
pub fn read_task_folder(folder: &Path) -> Result<Vec<Task>, TaskFileError> {
    let unreadable = |source| TaskFileError::Read { path: folder.to_owned(), source };
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.extension().is_some_and(|extension| extension == "toml") && path.is_file() {
            paths.push(path);
        }
        if paths.len() > FOLDER_FILES {
            return Err(TaskFileError::Size { path: folder.to_owned(), reason: format!("more than {FOLDER_FILES} task files") });
        }
    }
    paths.sort();
    paths.iter().map(|path| read_task_file(path)).collect()
}

/// The task in the file at `path`.
///
/// # Errors
/// When it cannot be read or is not a task; the error names the line, the key and the nearest valid key.
pub fn read_task_file(path: &Path) -> Result<Task, TaskFileError> {
    let unreadable = |source| TaskFileError::Read { path: path.to_owned(), source };
    let file = std::fs::File::open(path).map_err(unreadable)?;
    let mut text = String::new();
    let read = file.take(FILE_BYTES + 1).read_to_string(&mut text).map_err(unreadable)?;
    if read as u64 > FILE_BYTES {
        return Err(TaskFileError::Size { path: path.to_owned(), reason: format!("a task file holds at most {FILE_BYTES} bytes") });
    }
    parse_task(&text, path)
}

/// The task written in `text`; `path` is what errors call it.
///
/// # Errors
/// When it is not a task; the error names the line, the key and the nearest valid key.
pub fn parse_task(text: &str, path: &Path) -> Result<Task, TaskFileError> {
    let written: TaskWritten = toml::from_str(text).map_err(|error| syntax_error(text, path, &error))?;
    written.into_body().and_then(Task::new).map_err(|error| part_error(text, path, error))
}

/// The task as TOML that [`parse_task`] reads back as the same task.
///
/// # Errors
/// When a part has no TOML form.
pub fn task_toml(task: &Task) -> Result<String, TaskFileError> {
    toml::to_string_pretty(&TaskWritten::of(task.body())).map_err(|error| TaskFileError::Write(error.to_string()))
}

fn syntax_error(text: &str, path: &Path, error: &toml::de::Error) -> TaskFileError {
    written(path, TomlPlace::of_error(text, error))
}

fn part_error(text: &str, path: &Path, error: TaskError) -> TaskFileError {
    let TaskError::Part { part, reason } = error;
    // The body calls the items of the check `check.items`; in TOML they are the array `check`.
    let part = part.strip_prefix("check.items").map_or_else(|| part.clone(), |rest| format!("check{rest}"));
    written(path, TomlPlace::of_key(text, &part, reason))
}

fn written(path: &Path, place: TomlPlace) -> TaskFileError {
    TaskFileError::Written { path: path.to_owned(), line: place.line, key: place.key, message: place.message }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const GOOD: &str = r#"job_type = "shell"
skill = "tidy-notes"
instruction = "Join the notes."

[files]
"notes/a.txt" = "first\n"
"run.sh" = { text = "", mode = "755" }
"raw" = { hex = "fF00" }
"latest" = { link = "notes/a.txt" }
"out" = { folder = true }

[[check]]
name = "joined"
file_equals = { path = "all.txt", text = "first\n" }

[[check]]
name = "runs"
stake = "guard"
command = { run = "sh t.sh", files = { "t.sh" = "exit 0" } }

[[check]]
name = "json"
json_equals = { path = "a.json", value = { n = [1, 2.5] } }

[[solution]]
role = "work"
run = "cat notes/*.txt > all.txt"
slip = { write = { path = "all.txt", content = "" } }

[[broken]]
name = "nothing"
acts = [{ read = "run.sh" }]
"#;

    fn error(text: &str) -> String {
        parse_task(text, Path::new("my.toml")).unwrap_err().to_string()
    }

    #[test]
    fn every_part_is_read() {
        let task = parse_task(GOOD, Path::new("my.toml")).unwrap();
        let body = serde_json::to_value(task.body()).unwrap();
        assert_eq!(
            body["files"],
            serde_json::json!({
                "latest": {"link": {"target": "notes/a.txt"}},
                "notes/a.txt": {"file": {"text": "first\n", "mode": 0o644}},
                "out": {"folder": {"mode": 0o755}},
                "raw": {"bytes": {"bytes": [255, 0], "mode": 0o644}},
                "run.sh": {"file": {"text": "", "mode": 0o755}},
            })
        );
        assert_eq!(body["check"]["items"][1]["probe"]["command"]["files"]["t.sh"]["file"]["text"], "exit 0");
        assert_eq!(body["check"]["items"][2]["probe"]["json_equals"]["value"], serde_json::json!({"n": [1, 2.5]}));
        assert_eq!(body["solution"][0]["slip"]["write"]["path"], "all.txt");
        assert_eq!(body["broken"][0]["acts"][0]["read"]["path"], "run.sh");
    }

    #[test]
    fn a_task_survives_the_way_to_toml_and_back() {
        let task = parse_task(GOOD, Path::new("my.toml")).unwrap();
        let text = task_toml(&task).unwrap();
        assert_eq!(parse_task(&text, Path::new("again.toml")).unwrap().id(), task.id(), "{text}");
    }

    #[test]
    fn errors_name_file_line_key_and_the_nearest_key() {
        for (good, bad, expected) in [
            ("skill =", "skil =", ["my.toml:2:", "`skil`", "did you mean `skill`?"]),
            ("file_equals", "file_equal", ["my.toml:14:", "check[0].file_equal", "did you mean `file_equals`?"]),
            ("mode = \"755\"", "mod = \"755\"", ["my.toml:7:", "files.run.sh", "did you mean `mode`?"]),
            ("mode = \"755\"", "mode = \"rwx\"", ["my.toml:7:", "files.run.sh.mode", "octal"]),
            ("\"raw\" =", "\"../raw\" =", ["my.toml:8:", "files.../raw", "not a path inside"]),
            ("fF00", "fF0", ["my.toml:8:", "files.raw.hex", "hexadecimal"]),
            ("folder = true", "folder = true, text = \"\"", ["my.toml:10:", "files.out", "more than one of"]),
            ("role = \"work\"", "role = \"wurk\"", ["my.toml:26:", "solution[0].role", "did you mean `work`?"]),
            ("slip = { write", "slip = { wirte", ["my.toml:28:", "solution[0].slip", "did you mean `write`?"]),
            (
                "stake = \"guard\"\ncommand =",
                "stake = \"guard\"\nfile_absent = \"x\"\ncommand =",
                ["my.toml:16:", "check[1]", "more than one"],
            ),
            ("{ read = \"run.sh\" }", "{}", ["my.toml:32:", "broken[0].acts[0]", "needs one of `run`"]),
            (
                "path = \"all.txt\", text = \"first\\n\" }",
                "path = \"/all.txt\", text = \"\" }",
                ["my.toml:14:", "check[0].file_equals.path", "relative path"],
            ),
            ("instruction = \"Join the notes.\"", "instruction = 3", ["my.toml:3:", "`instruction`", "expected a string"]),
            ("instruction = \"Join the notes.\"", "instruction = ' '", ["my.toml:3:", "`instruction`", "is empty"]),
            ("[files]", "[files", ["my.toml:5:", "", ""]),
        ] {
            assert!(GOOD.contains(good), "{good}");
            let said = error(&GOOD.replacen(good, bad, 1));
            for part in expected {
                assert!(said.contains(part), "{bad}: {part:?} is not in {said}");
            }
        }
        assert!(error("").contains("my.toml:1:"));
    }

    #[test]
    fn a_folder_is_read_in_the_order_of_its_names() {
        let folder = tempfile::tempdir().unwrap();
        for (name, skill) in [("b.toml", "b"), ("a.toml", "a"), ("c.txt", "c")] {
            std::fs::write(folder.path().join(name), GOOD.replace("tidy-notes", skill)).unwrap();
        }
        let skills: Vec<String> = read_task_folder(folder.path()).unwrap().iter().map(|task| task.body().skill.to_string()).collect();
        assert_eq!(skills, ["a", "b"]);
        std::fs::write(folder.path().join("d.toml"), [0xff]).unwrap();
        assert!(matches!(read_task_folder(folder.path()), Err(TaskFileError::Read { .. })));
        assert!(matches!(read_task_folder(&folder.path().join("none")), Err(TaskFileError::Read { .. })));
    }

    proptest! {
        #[test]
        fn a_damaged_file_is_an_error_or_a_task_but_never_a_panic(at in 0..GOOD.len(), length in 0_usize..40, put in "[\\PC\n\"'{}=]{0,6}") {
            let end = (at + length).min(GOOD.len());
            let text = format!("{}{put}{}", &GOOD[..at], &GOOD[end..]);
            if let Err(error) = parse_task(&text, Path::new("my.toml")) {
                prop_assert!(error.to_string().starts_with("my.toml:"));
            }
        }
    }
}
