//! What can go wrong with a run folder.

use std::path::PathBuf;

/// A run folder that could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another process writes this run.
    #[error("{path} is in use by another process{holder}: wait for it, or stop it, before writing to this run")]
    InUse {
        /// The run folder.
        path: PathBuf,
        /// ` (process N)`, where known.
        holder: String,
    },
    /// There is a run in the folder already.
    #[error("{path} holds a run already: use `resume`, or name another folder")]
    Exists {
        /// The run folder.
        path: PathBuf,
    },
    /// There is no run in the folder.
    #[error("{path} holds no run: expected a folder made by `run`, with a file run.db")]
    Missing {
        /// The run folder.
        path: PathBuf,
    },
    /// The file is no database of ours.
    #[error("{path} is not the database of a run, or is damaged: {reason}")]
    Foreign {
        /// The database.
        path: PathBuf,
        /// What was found.
        reason: String,
    },
    /// A newer program wrote it.
    #[error(
        "{path} has schema version {found}, this program knows up to {known}: it can be read, but only a newer harness-evo may write it"
    )]
    Newer {
        /// The database.
        path: PathBuf,
        /// Its version.
        found: usize,
        /// Ours.
        known: usize,
    },
    /// An older program wrote it, and it was opened for reading.
    #[error("{path} has schema version {found}, this program reads {known}: `resume` the run once to bring it up to date")]
    Older {
        /// The database.
        path: PathBuf,
        /// Its version.
        found: usize,
        /// Ours.
        known: usize,
    },
    /// There is no room.
    #[error("no space is left for {path}: free some, then `resume` the run; what was committed is safe ({reason})")]
    NoSpace {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        reason: String,
    },
    /// A file could not be read or written.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// SQLite refused.
    #[error("the run database failed while {doing}: {source}")]
    Sql {
        /// What was being done.
        doing: &'static str,
        /// Why.
        source: rusqlite::Error,
    },
    /// A stored value cannot be understood.
    #[error("{what} in the run database cannot be understood{hint}: {reason}")]
    Value {
        /// Which.
        what: String,
        /// What to do, with a leading comma, or nothing.
        hint: &'static str,
        /// Why.
        reason: String,
    },
    /// A value cannot be stored.
    #[error("{what} cannot be stored: {reason}")]
    Refused {
        /// Which.
        what: String,
        /// Why.
        reason: String,
    },
    /// A blob is missing or is not what its name says.
    #[error("blob {hash} is {problem}: the run folder was changed or damaged")]
    Blob {
        /// Its name.
        hash: String,
        /// What is wrong.
        problem: String,
    },
    /// No id starts like this.
    #[error("no {kind} has an id that starts with `{prefix}`")]
    NoSuchId {
        /// What was looked for.
        kind: &'static str,
        /// What was given.
        prefix: String,
    },
    /// Several ids start like this.
    #[error("`{prefix}` is the start of several {kind} ids: {}", candidates.join(", "))]
    Ambiguous {
        /// What was looked for.
        kind: &'static str,
        /// What was given.
        prefix: String,
        /// Some of them.
        candidates: Vec<String>,
    },
    /// The thread that writes has ended.
    #[error("the writer of the run database has ended")]
    WriterGone,
}

impl StoreError {
    /// Whether space on the disk is what is missing.
    #[must_use]
    pub const fn is_no_space(&self) -> bool {
        matches!(self, Self::NoSpace { .. })
    }

    pub(super) fn io(path: &std::path::Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| match source.kind() {
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => Self::NoSpace { path, reason: source.to_string() },
            _ => Self::Io { path, source },
        }
    }

    pub(super) fn sql(doing: &'static str) -> impl FnOnce(rusqlite::Error) -> Self {
        move |source| {
            if source.sqlite_error_code() == Some(rusqlite::ErrorCode::DiskFull) {
                Self::NoSpace { path: PathBuf::from(super::DATABASE_FILE), reason: source.to_string() }
            } else {
                Self::Sql { doing, source }
            }
        }
    }

    pub(super) fn value(what: impl Into<String>, reason: impl std::fmt::Display) -> Self {
        Self::Value { what: what.into(), hint: "", reason: reason.to_string() }
    }

    pub(super) fn refused(what: impl Into<String>, reason: impl std::fmt::Display) -> Self {
        Self::Refused { what: what.into(), reason: reason.to_string() }
    }
}
