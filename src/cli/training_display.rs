//! What a training run shows, and its file of metrics.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Signal, getpid, kill_process};

use super::failure::{Failure, FailureKind};
use super::output::Output;
use crate::student::training::{Continue, TrainingEvent};

/// Time between two lines of progress.
const EVERY: Duration = Duration::from_secs(5);

/// Lines on stderr, events in a file, and the user's wish to stop.
pub(super) struct TrainingDisplay {
    output: Output,
    metrics: File,
    failed: Option<std::io::Error>,
    interrupted: Arc<AtomicBool>,
    steps: u64,
    first: u64,
    began: Instant,
    shown: Option<Instant>,
    tokens: u64,
}

impl TrainingDisplay {
    /// Appends to the file at `path`, and listens for an interrupt.
    pub(super) fn open(path: &Path, output: Output) -> Result<Self, Failure> {
        let unwritable = |error: std::io::Error| Failure::new(FailureKind::Run, format!("{} cannot be written: {error}", path.display()));
        let metrics = File::options().create(true).append(true).open(path).map_err(unwritable)?;
        let interrupted = Arc::new(AtomicBool::new(false));
        listen(Arc::clone(&interrupted)).map_err(unwritable)?;
        let began = Instant::now();
        Ok(Self { output, metrics, failed: None, interrupted, steps: 0, first: 0, began, shown: None, tokens: 0 })
    }

    /// Shows and keeps an event.
    pub(super) fn take(&mut self, event: &TrainingEvent) -> Continue {
        if self.failed.is_none() {
            let line = serde_json::to_string(event).map_err(std::io::Error::other);
            self.failed = line.and_then(|line| writeln!(self.metrics, "{line}")).err();
        }
        match event {
            TrainingEvent::Started { step, steps, trained_parameters, parameters, rows } => {
                (self.steps, self.first, self.began) = (*steps, *step, Instant::now());
                let from = if *step > 0 { format!(", from step {step} on") } else { String::new() };
                self.output.note(&format!("{steps} steps{from}; {rows} rows an epoch; {trained_parameters} of {parameters} weights train"));
            }
            TrainingEvent::Step { step, loss, learning_rate, tokens, gradient_norm, .. } => {
                self.tokens += tokens;
                if self.shown.is_none_or(|shown| shown.elapsed() >= EVERY) {
                    self.shown = Some(Instant::now());
                    self.output.note(&self.line(*step, *loss, *learning_rate, *gradient_norm));
                }
            }
            TrainingEvent::Evaluated { step, held_out, best } => {
                let mark = if *best { ", the best so far" } else { "" };
                self.output.note(&format!("step {step}: held-out loss {:.4}{mark}", held_out.loss));
            }
            TrainingEvent::Saved { .. } => {}
        }
        if self.interrupted.load(Ordering::Relaxed) || self.failed.is_some() { Continue::Stop } else { Continue::Yes }
    }

    /// Says what kept events from being written.
    pub(super) fn finish(self) -> Result<(), Failure> {
        match self.failed {
            None => Ok(()),
            Some(error) => Err(Failure::new(FailureKind::Run, format!("metrics.jsonl cannot be written: {error}"))
                .hint("the state is saved; free some space, then the same command goes on")),
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    fn line(&self, step: u64, loss: f64, learning_rate: f64, gradient_norm: f64) -> String {
        let seconds = self.began.elapsed().as_secs_f64().max(1e-9);
        let rate = (step + 1 - self.first) as f64 / seconds;
        let left = self.steps.saturating_sub(step + 1) as f64 / rate;
        let memory = memory_mib().map_or_else(String::new, |mib| format!(", {mib} MiB"));
        format!(
            "step {}/{}: loss {loss:.4}, gradient {gradient_norm:.2}, rate {learning_rate:.1e}, {:.0} tokens/s{memory}, {}m{:02}s left",
            step + 1,
            self.steps,
            self.tokens as f64 / seconds,
            (left / 60.0) as u64,
            (left % 60.0) as u64,
        )
    }
}

/// Memory that this process holds now.
fn memory_mib() -> Option<u64> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = statm.split_whitespace().nth(1)?.parse().ok()?;
    Some((pages * rustix::param::page_size() as u64) >> 20)
}

/// Sets the flag at the first interrupt; the second ends the program at once.
fn listen(flag: Arc<AtomicBool>) -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    std::thread::Builder::new().name("interrupts".to_owned()).spawn(move || {
        runtime.block_on(async {
            while tokio::signal::ctrl_c().await.is_ok() {
                if flag.swap(true, Ordering::Relaxed) {
                    // What is on disk is whole at every moment.
                    let _ = kill_process(getpid(), Signal::TERM);
                }
            }
        });
    })?;
    Ok(())
}
