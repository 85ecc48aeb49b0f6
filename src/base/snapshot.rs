//! The files of a workspace as a value.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Files, folders and symbolic links by relative path (`/` between components, no `..`, no leading `/`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Snapshot {
    entries: BTreeMap<String, Entry>,
}

/// One entry of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Entry {
    /// A text file.
    File {
        /// Its text. Bytes that are not UTF-8 stand in `Bytes`.
        text: String,
        /// Permission bits.
        #[serde(default = "default_mode")]
        mode: u32,
    },
    /// A file that is not text.
    Bytes {
        /// Its bytes.
        bytes: Vec<u8>,
        /// Permission bits.
        #[serde(default = "default_mode")]
        mode: u32,
    },
    /// A folder.
    Folder {
        /// Permission bits.
        mode: u32,
    },
    /// A symbolic link, never followed by us.
    Link {
        /// Where it points.
        target: String,
    },
    /// Something else (a pipe, a socket, a device): named, never read.
    Other,
}

const fn default_mode() -> u32 {
    0o644
}

/// A path that may not stand in a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{path}` is not a path inside the workspace: use a relative path without `..`, `.` or empty components")]
pub struct SnapshotError {
    /// The path.
    pub path: String,
}

impl Snapshot {
    /// No files.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Refuses a path that may not stand in a snapshot.
    ///
    /// # Errors
    /// When the path leads out of the workspace, or is empty.
    pub fn check_path(path: &str) -> Result<(), SnapshotError> {
        let inside = !path.contains('\0') && path.split('/').all(|part| !matches!(part, "" | "." | ".."));
        if inside { Ok(()) } else { Err(SnapshotError { path: path.to_owned() }) }
    }

    /// Adds an entry, replacing what was there.
    ///
    /// # Errors
    /// When the path leads out of the workspace.
    pub fn insert(&mut self, path: &str, entry: Entry) -> Result<(), SnapshotError> {
        Self::check_path(path)?;
        self.entries.insert(path.to_owned(), entry);
        Ok(())
    }

    /// Adds a text file with mode 0644.
    ///
    /// # Errors
    /// As [`Self::insert`].
    pub fn insert_text(&mut self, path: &str, text: &str) -> Result<(), SnapshotError> {
        self.insert(path, Entry::File { text: text.to_owned(), mode: default_mode() })
    }

    /// The entry at `path`.
    #[must_use]
    pub fn get(&self, path: &str) -> Option<&Entry> {
        self.entries.get(path)
    }

    /// All entries, by path.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Entry)> {
        self.entries.iter().map(|(path, entry)| (path.as_str(), entry))
    }

    /// This snapshot with `over` laid over it. What stands in the way gives way: a file or link where `over` has a folder on the
    /// way to one of its entries, and whatever is inside a folder where `over` has something else. So nothing of `over` is ever
    /// reached through a link of `self`.
    #[must_use]
    pub fn overlaid(&self, over: &Self) -> Self {
        let mut entries = self.entries.clone();
        for (path, entry) in &over.entries {
            for (end, _) in path.match_indices('/') {
                if entries.get(&path[..end]).is_some_and(|above| !matches!(above, Entry::Folder { .. })) {
                    entries.remove(&path[..end]);
                }
            }
            if !matches!(entry, Entry::Folder { .. }) {
                let inside = format!("{path}/");
                entries.retain(|other, _| !other.starts_with(&inside));
            }
        }
        entries.extend(over.entries.iter().map(|(path, entry)| (path.clone(), entry.clone())));
        Self { entries }
    }

    /// The entries for which `keep` holds.
    #[must_use]
    pub fn filtered(&self, keep: impl Fn(&str, &Entry) -> bool) -> Self {
        let kept = self.entries.iter().filter(|(path, entry)| keep(path, entry));
        Self { entries: kept.map(|(path, entry)| (path.clone(), entry.clone())).collect() }
    }

    /// How many entries there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_lead_out_are_refused() {
        let mut files = Snapshot::new();
        for path in ["", "/a", "a/", "a//b", ".", "..", "a/../b", "a/.", "a\0b"] {
            assert!(files.insert_text(path, "").is_err(), "{path:?}");
        }
        for path in ["a", "a b", ".hidden", "a/..b", "-x", "line\nbreak"] {
            assert!(files.insert_text(path, "").is_ok(), "{path:?}");
        }
    }

    #[test]
    fn nothing_laid_over_is_reached_through_a_link() {
        let mut below = Snapshot::new();
        below.insert("tests", Entry::Link { target: "elsewhere".to_owned() }).unwrap();
        below.insert_text("tool/inner", "x").unwrap();
        below.insert_text("kept", "k").unwrap();
        let mut over = Snapshot::new();
        over.insert_text("tests/a.py", "a").unwrap();
        over.insert_text("tool", "t").unwrap();
        let paths: Vec<String> = below.overlaid(&over).iter().map(|(path, _)| path.to_owned()).collect();
        assert_eq!(paths, ["kept", "tests/a.py", "tool"]);
    }
}
