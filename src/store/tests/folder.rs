use rusqlite::Connection;

use super::sample::{clock, id, meta, play, records, scored, task, tasks};
use crate::evolution::Journal as _;
use crate::store::{DATABASE_FILE, RunReader, RunStore, SchemaVersion, StoreError};
use crate::task::Split;

#[test]
fn a_run_is_created_once_and_opened_again() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("a folder/that is not there yet");
    let store = RunStore::create(&run, &meta(), &tasks(), clock()).unwrap();
    store.journal().commit(&records()[0]).unwrap();
    drop(store);
    assert!(matches!(RunStore::create(&run, &meta(), &tasks(), clock()), Err(StoreError::Exists { .. })));
    let store = RunStore::open(&run, clock()).unwrap();
    store.journal().commit(&records()[1]).unwrap();
    assert_eq!(store.reader().unwrap().step_count().unwrap(), 2);
}

#[test]
fn a_run_has_one_writer_and_any_number_of_readers() {
    let folder = tempfile::tempdir().unwrap();
    let store = RunStore::create(folder.path(), &meta(), &tasks(), clock()).unwrap();
    let error = RunStore::open(folder.path(), clock()).err().unwrap();
    assert!(matches!(error, StoreError::InUse { .. }));
    assert!(error.to_string().contains(&format!("process {}", std::process::id())), "{error}");
    let (one, two) = (RunReader::open(folder.path()).unwrap(), RunReader::open(folder.path()).unwrap());
    let mut journal = store.journal();
    for (done, record) in (1..).zip(records()) {
        journal.commit(&record).unwrap();
        assert_eq!((one.step_count().unwrap(), two.step_count().unwrap()), (done, done));
    }
    drop((store, journal));
    RunStore::open(folder.path(), clock()).unwrap();
}

#[test]
fn a_folder_without_a_run_is_named() {
    let folder = tempfile::tempdir().unwrap();
    for error in [RunStore::open(folder.path(), clock()).err(), RunReader::open(folder.path()).err()] {
        assert!(matches!(error, Some(StoreError::Missing { .. })));
    }
    // What a death between creating the file and describing the run leaves: no run, but room for one.
    Connection::open(folder.path().join(DATABASE_FILE)).unwrap().execute_batch("VACUUM").unwrap();
    assert!(matches!(RunReader::open(folder.path()).err(), Some(StoreError::Missing { .. })));
    assert!(matches!(RunStore::open(folder.path(), clock()).err(), Some(StoreError::Missing { .. })));
    RunStore::create(folder.path(), &meta(), &tasks(), clock()).unwrap();
}

#[test]
fn files_that_are_no_run_are_refused_and_left_alone() {
    let foreign = |content: &[u8]| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(DATABASE_FILE);
        std::fs::write(&path, content).unwrap();
        for error in [
            RunStore::create(folder.path(), &meta(), &[], clock()).err(),
            RunStore::open(folder.path(), clock()).err(),
            RunReader::open(folder.path()).err(),
        ] {
            assert!(matches!(error, Some(StoreError::Foreign { .. })), "{error:?}");
        }
        assert_eq!(std::fs::read(&path).unwrap(), content);
    };
    foreign(b"this is a text, and no database at all, but long enough to have a header of a hundred bytes or so, as SQLite wants");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("other.db");
    Connection::open(&path).unwrap().execute_batch("CREATE TABLE recipe (name TEXT); PRAGMA user_version = 1;").unwrap();
    foreign(&std::fs::read(path).unwrap());
}

#[test]
fn a_damaged_database_gives_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let store = RunStore::create(folder.path(), &meta(), &tasks(), clock()).unwrap();
    let mut journal = store.journal();
    records().iter().for_each(|record| journal.commit(record).unwrap());
    drop((store, journal));
    let path = folder.path().join(DATABASE_FILE);
    let whole = std::fs::read(&path).unwrap();
    for cut in [50, 5000, whole.len() / 2] {
        std::fs::write(&path, &whole[..cut]).unwrap();
        let read =
            RunReader::open(folder.path()).and_then(|reader| reader.steps().collect::<Result<Vec<_>, _>>().map(drop).and(reader.lineage()));
        assert!(read.is_err(), "cut at {cut}");
    }
    let mut scrambled = whole;
    scrambled[4096..].iter_mut().for_each(|byte| *byte ^= 0x5a);
    std::fs::write(&path, &scrambled).unwrap();
    let read = RunReader::open(folder.path()).and_then(|reader| reader.lineage());
    assert!(read.is_err());
}

#[test]
fn a_newer_schema_is_read_where_possible_and_never_written() {
    let folder = tempfile::tempdir().unwrap();
    let store = RunStore::create(folder.path(), &meta(), &tasks(), clock()).unwrap();
    store.journal().commit(&records()[0]).unwrap();
    drop(store);
    let path = folder.path().join(DATABASE_FILE);
    Connection::open(&path).unwrap().execute_batch("ALTER TABLE step ADD COLUMN colour TEXT; PRAGMA user_version = 99;").unwrap();
    let before = std::fs::read(&path).unwrap();
    match RunStore::open(folder.path(), clock()).err() {
        Some(StoreError::Newer { found: 99, known: 1, .. }) => {}
        other => panic!("{other:?}"),
    }
    let reader = RunReader::open(folder.path()).unwrap();
    assert_eq!(reader.version(), SchemaVersion::Newer { found: 99 });
    assert_eq!(reader.steps().collect::<Result<Vec<_>, _>>().unwrap(), records()[..1]);
    drop(reader);
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

#[tokio::test]
async fn a_full_disk_stops_the_run_and_leaves_it_whole() {
    let folder = tempfile::tempdir().unwrap();
    let store = RunStore::create(folder.path(), &meta(), &tasks(), clock()).unwrap();
    let mut journal = store.journal();
    let refused = records().remove(3);
    journal.commit(&crate::evolution::StepRecord { step: 0, ..refused.clone() }).unwrap();
    let limit = |pages: &'static str| {
        let set = move |connection: &Connection| {
            connection.query_row(&format!("PRAGMA max_page_count = {pages}"), [], |_| Ok(())).map_err(StoreError::sql("limiting"))
        };
        store.shared.writer.write(set).unwrap();
    };
    limit("1");
    let mut done = 1;
    let error = loop {
        match journal.commit(&crate::evolution::StepRecord { step: done, ..refused.clone() }) {
            Ok(()) => done += 1,
            Err(error) => break error,
        }
        assert!(done < 10_000, "the limit does not bite");
    };
    assert!(error.0.contains("no space") && error.0.contains("resume"), "{error}");
    assert_eq!(store.reader().unwrap().step_count().unwrap(), done);
    // Space again: the same step goes on where the run stopped.
    limit("1000000");
    journal.commit(&crate::evolution::StepRecord { step: done, ..refused }).unwrap();
    play(&store, id(0), &task("shell", Split::Search), 1, scored(1.0)).await;
    let check: String = store.reader().unwrap().connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(check, "ok");
}

#[test]
fn a_folder_that_cannot_be_written_can_be_read() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let store = RunStore::create(folder.path(), &meta(), &tasks(), clock()).unwrap();
    store.journal().commit(&records()[0]).unwrap();
    drop(store);
    // Root writes everywhere: there this test only shows that reading works.
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o555)).unwrap();
    assert_eq!(RunReader::open(folder.path()).unwrap().step_count().unwrap(), 1);
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
}
