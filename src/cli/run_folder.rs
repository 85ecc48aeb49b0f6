//! Run folders as commands open them for reading, and what to do when they cannot.

use std::fs::TryLockError;
use std::path::Path;

use super::failure::{Failure, FailureKind};
use super::output::Output;
use crate::config::Experiment;
use crate::store::{LOCK_FILE, RunMeta, RunReader, SchemaVersion, StoreError};

/// A run opened for reading, which another process may be writing.
pub(super) struct OpenedRun<'a> {
    /// Its folder.
    pub(super) folder: &'a Path,
    /// Its contents.
    pub(super) reader: RunReader,
    /// What it is.
    pub(super) meta: RunMeta,
}

/// Opens the run in `folder`.
pub(super) fn open<'a>(folder: &'a Path, output: &Output) -> Result<OpenedRun<'a>, Failure> {
    let reader = RunReader::open(folder).map_err(|error| store_failure(&error, folder))?;
    if let SchemaVersion::Newer { found } = reader.version() {
        output.note(&format!("{} was written by a newer harness-evo (schema {found}): what that added is not shown", folder.display()));
    }
    let meta = reader.meta().map_err(|error| store_failure(&error, folder))?;
    Ok(OpenedRun { folder, reader, meta })
}

impl OpenedRun<'_> {
    /// A failure of the store while this run is read.
    pub(super) fn failed(&self) -> impl Fn(StoreError) -> Failure + '_ {
        |error| store_failure(&error, self.folder)
    }

    /// Its experiment, unless another version wrote it in a way this one does not read.
    pub(super) fn experiment(&self) -> Option<Experiment> {
        serde_json::from_str(&self.meta.experiment).ok()
    }

    /// The line that stands before figures that say nothing about a real model.
    pub(super) const fn banner(&self) -> &'static str {
        if self.meta.simulated {
            "SIMULATED: the teacher is the built-in rehearsal; its scores say nothing about a real model.\n"
        } else {
            ""
        }
    }
}

/// The process that writes the run in `folder`: its number, or nothing where it left none. `None` where nobody writes.
pub(super) fn writer(folder: &Path) -> Option<String> {
    let path = folder.join(LOCK_FILE);
    let file = std::fs::File::open(&path).ok()?;
    // Shared and given back at once; whoever wants to write tries for longer than this takes.
    match file.try_lock_shared() {
        Err(TryLockError::WouldBlock) => Some(std::fs::read_to_string(&path).unwrap_or_default().trim().to_owned()),
        Ok(()) | Err(TryLockError::Error(_)) => None,
    }
}

/// A failure of the store, with what to do.
pub(super) fn store_failure(error: &StoreError, folder: &Path) -> Failure {
    let kind = match error {
        StoreError::NoSuchId { .. } | StoreError::Ambiguous { .. } => FailureKind::Input,
        _ => FailureKind::Run,
    };
    let failure = Failure::from_error(kind, error);
    let shown = folder.display();
    match error {
        StoreError::Exists { .. } => {
            failure.hint(format!("`harness-evo resume {shown}` goes on with it")).hint("or name another folder with --out")
        }
        StoreError::InUse { .. } => failure.hint(format!("`harness-evo status {shown}` and the other reading commands work meanwhile")),
        StoreError::Missing { .. } => failure.hint("`harness-evo run EXPERIMENT --out DIR` makes one"),
        StoreError::Foreign { .. } => failure.hint("name the folder of a run; a damaged run.db can only come back from a copy"),
        StoreError::Newer { .. } => failure.hint("`harness-evo --version` says which one this is"),
        StoreError::NoSuchId { kind, .. } => failure.hint(match *kind {
            "task" => format!("`harness-evo tasks list {shown}` lists them"),
            "episode" => format!("`harness-evo episode list {shown}` lists them"),
            _ => format!("`harness-evo lineage tree {shown}` lists them"),
        }),
        StoreError::Ambiguous { .. } => failure.hint("give more of its characters"),
        _ => failure,
    }
}
