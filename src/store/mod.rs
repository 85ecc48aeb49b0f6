//! The run folder: `run.db` (SQLite, write-ahead log), `blobs/` and `run.lock`.
//!
//! One process writes a run, through one connection: the journal commits each step, a thread commits waiting episodes in groups.
//! Any number of processes may read it meanwhile. A committed step or recorded episode survives the death of the process (it is in the write-ahead log); the log is synchronised with the
//! disk at checkpoints, so a power cut may cost the last moments, never the consistency. The schema is described in
//! `migrations/*/up.sql`. Tests and benches keep a run in memory ([`RunStore::in_memory`]) or nothing at all ([`NullJournal`],
//! [`NullEpisodeLog`]).

mod blobs;
mod codec;
mod commit;
mod error;
mod export_rows;
mod folder;
mod lookup;
mod memo;
mod null;
mod reader;
mod record;
mod schema;
mod tables;
#[cfg(test)]
mod tests;
mod writer;

pub use commit::StepJournal;
pub use error::StoreError;
pub use export_rows::EvaluatedHarness;
pub use folder::{RunMeta, RunStore};
pub use lookup::{EpisodeEnd, EpisodeFilter, EpisodeRow, OutcomeFilter};
pub use memo::StoredEpisodes;
pub use null::{NullEpisodeLog, NullJournal};
pub use reader::{RunReader, Steps};
pub use schema::SchemaVersion;
pub use tables::{EliteRow, LeaderRow, Status, StoredHarness};

/// Name of the database in a run folder.
pub const DATABASE_FILE: &str = "run.db";
/// Name of the folder of blobs in a run folder.
pub const BLOBS_FOLDER: &str = "blobs";
/// Name of the lock in a run folder.
pub const LOCK_FILE: &str = "run.lock";
