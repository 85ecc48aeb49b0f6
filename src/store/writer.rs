//! The one connection that writes. Episodes come from many workers: a thread commits together what waits in its queue when the
//! connection is free. The journal waits for each step anyway and commits on its own thread, between two groups.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use rusqlite::{Connection, Transaction, TransactionBehavior};

use super::StoreError;

/// Jobs that may wait. Every caller waits for its own job, so this is also the number of callers that can write at a time before
/// sending blocks.
const QUEUE: usize = 1024;

/// Most jobs in one transaction.
const GROUP: usize = 64;

/// Statements of one job. They may be run again when another job of the same transaction failed, hence `Fn`.
type Work = Box<dyn Fn(&Connection) -> Result<(), StoreError> + Send>;

/// What became of a job.
type Outcome = Result<(), StoreError>;

struct Job {
    work: Work,
    done: Box<dyn FnOnce(Outcome) + Send>,
}

/// Handle of the writing connection and its thread. Dropping it waits until everything queued is written.
#[derive(Debug)]
pub(super) struct Writer {
    connection: Arc<Mutex<Connection>>,
    jobs: Option<SyncSender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    /// Starts the thread.
    pub(super) fn start(connection: Connection) -> Result<Self, StoreError> {
        let connection = Arc::new(Mutex::new(connection));
        let (jobs, queue) = sync_channel(QUEUE);
        let shared = Arc::clone(&connection);
        let thread = std::thread::Builder::new()
            .name("store-writer".to_owned())
            .spawn(move || write_all(&shared, &queue))
            .map_err(StoreError::io(std::path::Path::new("the writer thread")))?;
        Ok(Self { connection, jobs: Some(jobs), thread: Some(thread) })
    }

    /// Runs `work` in a transaction of its own and commits it.
    pub(super) fn write(&self, work: impl FnOnce(&Connection) -> Result<(), StoreError>) -> Outcome {
        let connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        transact(&connection, work)
    }

    /// Runs `work` in a transaction, alone or with others, and waits for the commit without holding a thread of the async runtime.
    /// A caller that goes away does not undo its work.
    pub(super) async fn write_async(&self, work: impl Fn(&Connection) -> Result<(), StoreError> + Send + 'static) -> Outcome {
        let (done, outcome) = tokio::sync::oneshot::channel();
        // A caller that went away need not be told.
        self.send(Box::new(work), Box::new(move |result| drop(done.send(result))))?;
        outcome.await.unwrap_or(Err(StoreError::WriterGone))
    }

    fn send(&self, work: Work, done: Box<dyn FnOnce(Outcome) + Send>) -> Outcome {
        let jobs = self.jobs.as_ref().ok_or(StoreError::WriterGone)?;
        jobs.send(Job { work, done }).map_err(|_| StoreError::WriterGone)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        drop(self.jobs.take());
        if let Some(thread) = self.thread.take() {
            // A writer that died has told every caller already.
            let _ = thread.join();
        }
    }
}

fn write_all(connection: &Mutex<Connection>, queue: &Receiver<Job>) {
    while let Ok(first) = queue.recv() {
        // What arrives while the journal holds the connection joins the group.
        let connection = connection.lock().unwrap_or_else(PoisonError::into_inner);
        let mut group = vec![first];
        group.extend(queue.try_iter().take(GROUP - 1));
        settle(&connection, group);
    }
}

fn settle(connection: &Connection, group: Vec<Job>) {
    let together = || transact(connection, |transaction| group.iter().try_for_each(|job| (job.work)(transaction)));
    if group.len() > 1 && together().is_ok() {
        for job in group {
            (job.done)(Ok(()));
        }
        return;
    }
    // Alone, or one of the group failed: each gets its own transaction and its own outcome.
    for job in group {
        let outcome = transact(connection, &job.work);
        (job.done)(outcome);
    }
}

fn transact(connection: &Connection, work: impl FnOnce(&Connection) -> Result<(), StoreError>) -> Outcome {
    let transaction =
        Transaction::new_unchecked(connection, TransactionBehavior::Immediate).map_err(StoreError::sql("beginning a transaction"))?;
    work(&transaction)?;
    transaction.commit().map_err(StoreError::sql("committing"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers() -> Connection {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch("CREATE TABLE number (n INTEGER PRIMARY KEY)").unwrap();
        connection
    }

    fn insert(n: i64) -> Work {
        Box::new(move |connection| {
            connection.execute("INSERT INTO number VALUES (?1)", [n]).map_err(StoreError::sql("inserting")).map(drop)
        })
    }

    #[test]
    fn a_job_that_fails_takes_none_of_its_group_with_it() {
        let connection = numbers();
        let (results, outcomes) = std::sync::mpsc::channel();
        let job = |n: i64| {
            let results = results.clone();
            Job { work: insert(n), done: Box::new(move |outcome: Outcome| results.send((n, outcome.is_ok())).unwrap()) }
        };
        settle(&connection, vec![job(1), job(2), job(1), job(3)]);
        let told: Vec<(i64, bool)> = outcomes.try_iter().collect();
        assert_eq!(told, [(1, true), (2, true), (1, false), (3, true)]);
        let count: i64 = connection.query_row("SELECT count(*) FROM number", [], |row| row.get(0)).unwrap();
        assert_eq!(count, 3);
    }

    #[test]
    fn what_is_queued_is_written_before_the_writer_goes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("numbers.db");
        let connection = Connection::open(&path).unwrap();
        connection.execute_batch("CREATE TABLE number (n INTEGER PRIMARY KEY)").unwrap();
        let writer = Writer::start(connection).unwrap();
        for n in 0..200 {
            writer.send(insert(n), Box::new(|_| ())).unwrap();
        }
        drop(writer);
        let count: i64 = Connection::open(&path).unwrap().query_row("SELECT count(*) FROM number", [], |row| row.get(0)).unwrap();
        assert_eq!(count, 200);
    }
}
