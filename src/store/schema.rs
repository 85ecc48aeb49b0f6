//! Opening the database: whose it is, which version it has, migrations, connection settings.

use std::path::Path;
use std::time::Duration;

use include_dir::{Dir, include_dir};
use rusqlite::{Connection, OpenFlags};
use rusqlite_migration::Migrations;

use super::StoreError;

static MIGRATIONS: Dir<'static> = include_dir!("$CARGO_MANIFEST_DIR/src/store/migrations");

/// Marks a database as ours: "HEvo" in ASCII.
const APPLICATION_ID: i32 = 0x4845_766f;

/// How long a reader waits for the moment in which a checkpoint excludes it.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// The schema of an opened database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SchemaVersion {
    /// Ours.
    Current,
    /// Written by a newer program: what both know can be read.
    Newer {
        /// Its version.
        found: usize,
    },
}

/// What a database file turns out to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Identity {
    /// Empty: no table, no mark.
    Empty,
    /// Ours, at this version.
    Ours(usize),
}

/// The newest schema version this program knows.
pub(super) fn known_version() -> usize {
    MIGRATIONS.dirs().count()
}

/// Opens `path` for writing, creating and migrating it where needed. Nothing is written to a database that is not ours or is newer.
pub(super) fn open_for_writing(path: &Path) -> Result<Connection, StoreError> {
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
    let mut connection = Connection::open_with_flags(path, flags).map_err(|error| unreadable(path, &error))?;
    let identity = identify(&connection, path)?;
    if let Identity::Ours(found) = identity
        && found > known_version()
    {
        return Err(StoreError::Newer { path: path.to_owned(), found, known: known_version() });
    }
    settle(&connection)?;
    if identity == Identity::Empty {
        connection.pragma_update(None, "application_id", APPLICATION_ID).map_err(StoreError::sql("marking the database"))?;
    }
    migrate(&mut connection, path)?;
    Ok(connection)
}

/// Opens `path` for reading, also while another process writes it.
pub(super) fn open_for_reading(path: &Path) -> Result<(Connection, SchemaVersion), StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
    let mut connection = Connection::open_with_flags(path, flags).map_err(|error| unreadable(path, &error))?;
    if needs_immutable(&connection, path) {
        // A folder we may not write to: SQLite cannot put its shared memory there, and nobody else can write either.
        connection = Connection::open_with_flags(immutable_uri(path), flags).map_err(|error| unreadable(path, &error))?;
    }
    connection.busy_timeout(BUSY_TIMEOUT).map_err(StoreError::sql("opening"))?;
    let version = version_for_reading(&connection, path)?;
    Ok((connection, version))
}

fn version_for_reading(connection: &Connection, path: &Path) -> Result<SchemaVersion, StoreError> {
    let known = known_version();
    match identify(connection, path)? {
        Identity::Ours(found) if found == known => Ok(SchemaVersion::Current),
        Identity::Ours(found) if found > known => Ok(SchemaVersion::Newer { found }),
        Identity::Ours(found) => Err(StoreError::Older { path: path.to_owned(), found, known }),
        Identity::Empty => Err(StoreError::Missing { path: path.parent().unwrap_or(path).to_owned() }),
    }
}

fn needs_immutable(connection: &Connection, path: &Path) -> bool {
    let probe = connection.query_row("SELECT count(*) FROM sqlite_master", [], |_| Ok(()));
    let refused = matches!(
        probe.as_ref().map_err(rusqlite::Error::sqlite_error_code),
        Err(Some(rusqlite::ErrorCode::CannotOpen | rusqlite::ErrorCode::ReadOnly))
    );
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    refused && std::fs::metadata(log).map_or(0, |found| found.len()) == 0
}

fn immutable_uri(path: &Path) -> std::path::PathBuf {
    use std::os::unix::ffi::OsStrExt as _;
    let mut uri = String::from("file:");
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' => uri.push(char::from(*byte)),
            other => uri.push_str(&format!("%{other:02X}")),
        }
    }
    uri.push_str("?immutable=1");
    uri.into()
}

fn identify(connection: &Connection, path: &Path) -> Result<Identity, StoreError> {
    let number =
        |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0)).map_err(|error| unreadable(path, &error));
    let (application, version) = (number("application_id")?, number("user_version")?);
    let tables: i64 =
        connection.query_row("SELECT count(*) FROM sqlite_master", [], |row| row.get(0)).map_err(|error| unreadable(path, &error))?;
    if tables == 0 && version == 0 && (application == 0 || application == i64::from(APPLICATION_ID)) {
        return Ok(Identity::Empty);
    }
    let foreign = |reason: String| StoreError::Foreign { path: path.to_owned(), reason };
    if application != i64::from(APPLICATION_ID) {
        return Err(foreign(format!("its application id is {application}")));
    }
    usize::try_from(version).map(Identity::Ours).map_err(|_| foreign(format!("its version is {version}")))
}

fn unreadable(path: &Path, error: &rusqlite::Error) -> StoreError {
    StoreError::Foreign { path: path.to_owned(), reason: error.to_string() }
}

fn settle(connection: &Connection) -> Result<(), StoreError> {
    let sql = |doing| StoreError::sql(doing);
    connection.busy_timeout(BUSY_TIMEOUT).map_err(sql("setting the busy timeout"))?;
    connection.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(())).map_err(sql("switching to the write-ahead log"))?;
    connection.pragma_update(None, "synchronous", "NORMAL").map_err(sql("setting the synchronisation"))?;
    connection.pragma_update(None, "foreign_keys", true).map_err(sql("switching foreign keys on"))?;
    connection.pragma_update(None, "temp_store", "MEMORY").map_err(sql("keeping temporary tables in memory"))?;
    // Checkpoints synchronise with the disk, which is most of what they cost: fewer and larger ones, of 16 MiB.
    connection.pragma_update(None, "wal_autocheckpoint", 4096).map_err(sql("spacing checkpoints"))?;
    // After a burst the log shrinks again at the next checkpoint.
    connection.query_row("PRAGMA journal_size_limit = 67108864", [], |_| Ok(())).map_err(sql("bounding the write-ahead log"))?;
    connection.set_prepared_statement_cache_capacity(64);
    Ok(())
}

fn migrate(connection: &mut Connection, path: &Path) -> Result<(), StoreError> {
    let failed = |error: rusqlite_migration::Error| match error {
        rusqlite_migration::Error::RusqliteError { err, .. } => StoreError::sql("migrating the schema")(err),
        other => StoreError::Foreign { path: path.to_owned(), reason: format!("its schema cannot be brought up to date: {other}") },
    };
    let migrations = Migrations::from_directory(&MIGRATIONS).map_err(failed)?;
    migrations.to_latest(connection).map_err(failed)
}
