//! The file of metrics, and the user's wish to stop.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use rustix::process::{Signal, getpid, kill_process};
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::cli::failure::{Failure, FailureKind};
use crate::student::training::Continue;

/// Lines of JSON in a file. Training ends in order when one cannot be written, or the user interrupts it.
pub(super) struct Metrics {
    path: PathBuf,
    file: File,
    failed: Option<std::io::Error>,
    interrupted: CancellationToken,
}

impl Metrics {
    /// Appends to the file at `path`, until `interrupted` is triggered.
    pub(super) fn open(path: &Path, interrupted: CancellationToken) -> Result<Self, Failure> {
        let file = File::options().create(true).append(true).open(path).map_err(|error| unwritable(path, &error))?;
        Ok(Self { path: path.to_owned(), file, failed: None, interrupted })
    }

    /// Keeps an event.
    pub(super) fn keep(&mut self, event: &impl Serialize) {
        if self.failed.is_none() {
            let line = serde_json::to_string(event).map_err(std::io::Error::other);
            self.failed = line.and_then(|line| writeln!(self.file, "{line}")).err();
        }
    }

    /// Whether training goes on.
    pub(super) fn go_on(&self) -> Continue {
        if self.interrupted.is_cancelled() || self.failed.is_some() { Continue::Stop } else { Continue::Yes }
    }

    /// Says what kept events from being written.
    pub(super) fn finish(self) -> Result<(), Failure> {
        match self.failed {
            None => Ok(()),
            Some(error) => Err(unwritable(&self.path, &error).hint("the state is saved; free some space, then the same command goes on")),
        }
    }
}

pub(super) fn unwritable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(FailureKind::Run, format!("{} cannot be written: {error}", path.display()))
}

/// What the first interrupt triggers; the second ends the process.
pub(super) fn interrupts() -> Result<CancellationToken, Failure> {
    let token = CancellationToken::new();
    listen(token.clone()).map_err(|error| Failure::new(FailureKind::Other, format!("interrupts cannot be listened for: {error}")))?;
    Ok(token)
}

/// Memory that this process holds now, as the end of a line.
pub(super) fn memory() -> String {
    memory_mib().map_or_else(String::new, |mib| format!(", {mib} MiB"))
}

fn memory_mib() -> Option<u64> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = statm.split_whitespace().nth(1)?.parse().ok()?;
    Some((pages * rustix::param::page_size() as u64) >> 20)
}

fn listen(token: CancellationToken) -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    std::thread::Builder::new().name("interrupts".to_owned()).spawn(move || {
        runtime.block_on(async {
            while tokio::signal::ctrl_c().await.is_ok() {
                if token.is_cancelled() {
                    // What is on disk is whole at every moment.
                    let _ = kill_process(getpid(), Signal::TERM);
                }
                token.cancel();
            }
        });
    })?;
    Ok(())
}
