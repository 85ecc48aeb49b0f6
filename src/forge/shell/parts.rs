//! Probes and texts that several shell workflows share.

use crate::base::{Entry, Snapshot};
use crate::forge::draft::Draft;
use crate::task::Probe;

/// Where a [`prints`] probe finds what it expects; no workflow has a file of this name.
const EXPECTED: &str = ".expected-output";

/// Nothing is at the path.
pub(super) fn absent(path: &str) -> Probe {
    Probe::FileAbsent { path: path.to_owned() }
}

/// The permission bits at the path.
pub(super) fn mode(path: &str, bits: &str) -> Probe {
    Probe::FileMode { path: path.to_owned(), mode: bits.to_owned() }
}

/// The path is a symbolic link to `target`.
pub(super) fn link(path: &str, target: &str) -> Probe {
    Probe::LinkEquals { path: path.to_owned(), target: target.to_owned() }
}

/// The file has these lines in any order.
pub(super) fn lines(path: &str, text: &str) -> Probe {
    Probe::LinesEqual { path: path.to_owned(), lines: text.lines().map(str::to_owned).collect() }
}

/// The command succeeds in the workspace and prints `expected`.
pub(super) fn prints(command: &str, expected: &str) -> Probe {
    let mut files = Snapshot::new();
    // The path is a constant that fits; were it refused, the probe would fail for every workspace and validation would say so.
    let _ = files.insert(EXPECTED, Entry::File { text: expected.to_owned(), mode: 0o644 });
    let command = format!("set -o pipefail; ({command}) | diff {EXPECTED} -");
    Probe::Command { command, files, exit: 0, stdout_contains: None }
}

/// The names sorted by bytes, one a line.
pub(super) fn listing<T: AsRef<str>>(names: &[T]) -> String {
    let mut names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    names.sort_unstable();
    names.iter().map(|name| format!("{name}\n")).collect()
}

/// The text of a file put into the workspace before.
pub(super) fn file_text(draft: &Draft, path: &str) -> String {
    draft.text(path).to_owned()
}
