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

    /// Adds an entry, replacing what was there.
    ///
    /// # Errors
    /// When the path leads out of the workspace.
    pub fn insert(&mut self, path: &str, entry: Entry) -> Result<(), SnapshotError> {
        let inside = !path.is_empty() && !path.contains('\0') && path.split('/').all(|part| !matches!(part, "" | "." | ".."));
        if !inside {
            return Err(SnapshotError { path: path.to_owned() });
        }
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

    /// This snapshot with `over` laid over it.
    #[must_use]
    pub fn overlaid(&self, over: &Self) -> Self {
        let mut entries = self.entries.clone();
        entries.extend(over.entries.iter().map(|(path, entry)| (path.clone(), entry.clone())));
        Self { entries }
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
