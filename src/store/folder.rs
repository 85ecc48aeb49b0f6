//! A run folder opened for writing.

use std::fs::{File, TryLockError};
use std::io::{Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, params};

use super::blobs::Blobs;
use super::codec::{json_text, sql_exact};
use super::tables::insert_report;
use super::writer::Writer;
use super::{BLOBS_FOLDER, DATABASE_FILE, LOCK_FILE, RunReader, StepJournal, StoreError, StoredEpisodes, schema};
use crate::base::{Clock, Timestamp};
use crate::evolution::ComparisonRow;
use crate::model::ModelId;
use crate::task::Task;

/// Format of `meta`, by name and version.
const RUN_FORMAT: &str = "harness-evo/run/1";

/// What a run is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunMeta {
    /// The experiment, resolved, as JSON: everything a resumed run needs beside its tasks.
    pub experiment: String,
    /// The seed; below 2^63.
    pub seed: u64,
    /// The model.
    pub model: ModelId,
    /// Whether the model is a simulation, which every report then says.
    pub simulated: bool,
    /// When the run was created.
    pub created_at: Timestamp,
}

/// A run opened for writing. One process at a time holds it. Handles ([`Self::journal`], [`Self::episode_log`]) share it; the folder
/// is released when the last of them is gone.
#[derive(Clone)]
pub struct RunStore {
    pub(super) shared: Arc<Shared>,
}

/// Fields are dropped in this order: readers, then the writer (which empties its queue), then the lock.
pub(super) struct Shared {
    /// For look-ups of single episodes while others are written.
    pub(super) finder: Mutex<Connection>,
    pub(super) writer: Writer,
    pub(super) blobs: Arc<Blobs>,
    pub(super) clock: Arc<dyn Clock>,
    /// The database, as a path or as the name of one in memory.
    database: PathBuf,
    /// Keeps other processes from writing; none for a run in memory.
    _lock: Option<File>,
}

impl RunStore {
    /// Makes a run in `folder`, which may exist as long as it holds no run.
    ///
    /// # Errors
    /// When there is a run already, the folder is in use, or cannot be written.
    pub fn create(folder: &Path, meta: &RunMeta, tasks: &[Arc<Task>], clock: Arc<dyn Clock>) -> Result<Self, StoreError> {
        std::fs::create_dir_all(folder).map_err(StoreError::io(folder))?;
        let store = Self::open_folder(folder, clock)?;
        // A database without `meta` is what a death during creation leaves: it may be filled now.
        if store.reader()?.has_meta()? {
            return Err(StoreError::Exists { path: folder.to_owned() });
        }
        store.begin(meta, tasks)?;
        Ok(store)
    }

    /// Opens the run in `folder` to go on with it.
    ///
    /// # Errors
    /// When there is none, it is in use, damaged, or was written by a newer program.
    pub fn open(folder: &Path, clock: Arc<dyn Clock>) -> Result<Self, StoreError> {
        let missing = || StoreError::Missing { path: folder.to_owned() };
        if !folder.join(DATABASE_FILE).is_file() {
            return Err(missing());
        }
        let store = Self::open_folder(folder, clock)?;
        if store.reader()?.has_meta()? { Ok(store) } else { Err(missing()) }
    }

    /// A run that lives as long as its handles and writes no file.
    ///
    /// # Errors
    /// When SQLite refuses.
    pub fn in_memory(meta: &RunMeta, tasks: &[Arc<Task>], clock: Arc<dyn Clock>) -> Result<Self, StoreError> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let name = PathBuf::from(format!("file:/harness-evo-{}?vfs=memdb", COUNT.fetch_add(1, Ordering::Relaxed)));
        let store = Self::assemble(name, Blobs::Memory(Mutex::default()), clock, None)?;
        store.begin(meta, tasks)?;
        Ok(store)
    }

    /// The journal of steps. A run has one; two handles would be refused steps of each other's numbers.
    #[must_use]
    pub fn journal(&self) -> StepJournal {
        StepJournal::new(Arc::clone(&self.shared))
    }

    /// The log of episodes.
    #[must_use]
    pub fn episode_log(&self) -> StoredEpisodes {
        StoredEpisodes::new(Arc::clone(&self.shared))
    }

    /// A connection for reading what is committed.
    ///
    /// # Errors
    /// When SQLite refuses.
    pub fn reader(&self) -> Result<RunReader, StoreError> {
        let (connection, version) = open_reader(&self.shared.database)?;
        Ok(RunReader::new(connection, Arc::clone(&self.shared.blobs), version))
    }

    /// Keeps a blob (a picture, a long text) and returns its name, the BLAKE3 hash in hex.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn put_blob(&self, bytes: &[u8]) -> Result<String, StoreError> {
        self.shared.blobs.put(bytes)
    }

    /// Replaces the final table of the run.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write_report(&self, rows: &[ComparisonRow]) -> Result<(), StoreError> {
        self.shared.writer.write(|connection| {
            let sql = StoreError::sql("writing the report");
            let written =
                connection.execute("DELETE FROM report", []).and_then(|_| rows.iter().try_for_each(|row| insert_report(connection, row)));
            written.map_err(sql)
        })
    }

    fn open_folder(folder: &Path, clock: Arc<dyn Clock>) -> Result<Self, StoreError> {
        let lock = lock(folder)?;
        let blobs = folder.join(BLOBS_FOLDER);
        std::fs::create_dir_all(&blobs).map_err(StoreError::io(&blobs))?;
        Self::assemble(folder.join(DATABASE_FILE), Blobs::Folder(blobs), clock, Some(lock))
    }

    fn assemble(database: PathBuf, blobs: Blobs, clock: Arc<dyn Clock>, lock: Option<File>) -> Result<Self, StoreError> {
        let connection = schema::open_for_writing(&database)?;
        let (finder, _) = open_reader(&database)?;
        let writer = Writer::start(connection)?;
        let shared = Shared { finder: Mutex::new(finder), writer, blobs: Arc::new(blobs), clock, database, _lock: lock };
        Ok(Self { shared: Arc::new(shared) })
    }

    fn begin(&self, meta: &RunMeta, tasks: &[Arc<Task>]) -> Result<(), StoreError> {
        let seed = sql_exact("the seed", meta.seed)?;
        let bodies =
            tasks.iter().map(|task| Ok((Arc::clone(task), json_text("a task", task.body())?))).collect::<Result<Vec<_>, StoreError>>()?;
        self.shared.writer.write(|connection| {
            let written = connection.execute(
                "INSERT INTO meta (id, format, experiment, seed, model_name, model_fingerprint, simulated, created_at)
                 VALUES (1, ?1, ?2, ?3, ?4, ?5, ?6, ?7)",
                params![RUN_FORMAT, meta.experiment, seed, meta.model.name, meta.model.fingerprint, meta.simulated, meta.created_at.0],
            );
            written.map_err(StoreError::sql("describing the run"))?;
            let mut insert = connection
                .prepare("INSERT OR IGNORE INTO task (id, job_type, skill, split, body) VALUES (?1, ?2, ?3, ?4, ?5)")
                .map_err(StoreError::sql("keeping the tasks"))?;
            for (task, body) in &bodies {
                let values =
                    params![task.id().to_string(), task.job_type().as_str(), task.body().skill.as_str(), task.split().as_str(), body];
                insert.execute(values).map_err(StoreError::sql("keeping the tasks"))?;
            }
            Ok(())
        })
    }
}

impl Shared {
    pub(super) fn finder(&self) -> std::sync::MutexGuard<'_, Connection> {
        self.finder.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn open_reader(database: &Path) -> Result<(Connection, schema::SchemaVersion), StoreError> {
    if !database.starts_with("file:") {
        return schema::open_for_reading(database);
    }
    // A database in memory takes no read-only connection.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
    let connection = Connection::open_with_flags(database, flags).map_err(StoreError::sql("opening the run in memory"))?;
    connection.busy_timeout(Duration::from_secs(10)).map_err(StoreError::sql("opening the run in memory"))?;
    connection.pragma_update(None, "query_only", true).map_err(StoreError::sql("opening the run in memory"))?;
    Ok((connection, schema::SchemaVersion::Current))
}

/// Takes the lock of a run folder. It goes with the process, however that ends. A process that was just killed may leave children
/// that hold it for a moment: it is tried for a second.
fn lock(folder: &Path) -> Result<File, StoreError> {
    let path = folder.join(LOCK_FILE);
    let options = || File::options().create(true).read(true).write(true).truncate(false).open(&path);
    let mut file = options().map_err(StoreError::io(&path))?;
    for left in (0..20).rev() {
        match file.try_lock() {
            Ok(()) => break,
            Err(TryLockError::WouldBlock) if left > 0 => std::thread::sleep(Duration::from_millis(50)),
            Err(TryLockError::WouldBlock) => return Err(StoreError::InUse { path: folder.to_owned(), holder: holder(&mut file) }),
            Err(TryLockError::Error(error)) => return Err(StoreError::io(&path)(error)),
        }
    }
    // For the message above, nothing else.
    let note = format!("{}\n", std::process::id());
    file.set_len(0).and_then(|()| file.write_all(note.as_bytes())).map_err(StoreError::io(&path))?;
    Ok(file)
}

fn holder(file: &mut File) -> String {
    let mut note = String::new();
    let read = file.rewind().and_then(|()| file.take(32).read_to_string(&mut note));
    match (read, note.trim().parse::<u32>()) {
        (Ok(_), Ok(process)) => format!(" (process {process})"),
        _ => String::new(),
    }
}
