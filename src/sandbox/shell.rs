//! One persistent bash, told what to do through its standard input, reporting on a descriptor that only it has.
//!
//! The shell is *interactive* in bash's sense, although there is no terminal: an interactive shell gives up a command on SIGINT, loops
//! and functions too, and goes on with its variables and its directory; any other shell ends. Commands are read with `.`, which keeps an
//! interactive shell from announcing background jobs.
//!
//! A command's status is written by the shell itself. What the shell starts does not have the descriptor, and cannot take it from the
//! shell either (see `Ground::new`). Each command begins with the streams of the session, whatever an earlier one redirected for good.

use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::SandboxError;
use super::cage::Cage;
use super::capture::Capture;
use super::launch::Streams;
use super::processes;
use super::session::io_error;

/// How long a shell may take to start. Far more than it needs on a loaded machine.
const START: Duration = Duration::from_secs(20);
/// Between two looks at whether the shell still lives.
const TICK: Duration = Duration::from_millis(50);
/// Between two tries to interrupt a command, and how many there are before the shell is given up.
const INTERRUPT: Duration = Duration::from_millis(20);
const INTERRUPTS: u32 = 100;

/// What the shell does first, before it limits itself and says that it is ready.
const SETTLE_IN: &str = "PS1= PS2= PS4='+ '; unset HISTFILE; set +o history; set +H; shopt -u expand_aliases checkwinsize; umask 022; \
     exec 200>&2 201>&1 2>&1";

/// The file that the shell reads when it starts: it settles in, limits itself by the command `limits` and says that it is ready.
pub(super) fn first_file(limits: &str) -> String {
    format!("{SETTLE_IN}\n{{ {limits} && builtin printf 'ready\\n'; }} >&200 2>&200 || exit\n")
}

/// How a command ended, as the shell's own pipe shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Finish {
    /// With this status.
    Status(i32),
    /// It was interrupted in time and the shell goes on.
    Interrupted,
    /// It could not be interrupted.
    Stuck,
    /// The shell is gone, or can report no more.
    Ended,
}

/// A running shell.
#[derive(Debug)]
pub(super) struct Shell {
    streams: Streams,
    reported: Vec<u8>,
    serial: u64,
}

impl Shell {
    /// Waits until the shell is there and has run [`first_file`].
    pub(super) async fn meet(mut streams: Streams, backend: &'static str) -> Result<Self, SandboxError> {
        let failed = |source: std::io::Error| io_error("starting the shell of a sandbox", source);
        let mut said = Vec::new();
        let mut chunk = [0; 1024];
        let greeting = async {
            while !said.ends_with(b"ready\n") && said.len() < 64 * 1024 {
                let count = streams.status.read(&mut chunk).await?;
                if count == 0 {
                    return Ok::<_, std::io::Error>(false);
                }
                said.extend_from_slice(&chunk[..count]);
            }
            Ok(true)
        };
        let there = timeout(START, greeting).await.unwrap_or(Ok(false)).map_err(failed)?;
        if there {
            return Ok(Self { streams, reported: Vec::new(), serial: 0 });
        }
        let said = String::from_utf8_lossy(&said).trim().replace('\n', "; ");
        let reason = if said.is_empty() { "the shell did not start".to_owned() } else { format!("the shell did not start: {said}") };
        Err(SandboxError::Unavailable { backend, reason: format!("{reason}. Run `harness-evo doctor` to see what is missing") })
    }

    /// Runs the command that lies in `folder`, as the shell sees it, with the input that lies beside it, if it has one.
    pub(super) async fn run(
        &mut self,
        folder: &str,
        has_stdin: bool,
        limit: Duration,
        cage: &dyn Cage,
        output: &mut Capture,
    ) -> Result<Finish, SandboxError> {
        self.serial += 1;
        // The shell's other children are jobs of earlier commands: they outlive a timeout.
        let others = processes::children(cage.shell());
        let quoted = folder.replace('\'', "'\\''");
        let stdin = if has_stdin { format!("'{quoted}/stdin'") } else { "/dev/null".to_owned() };
        let run = format!(". '{quoted}/command' <{stdin} >&201 2>&1 200>&- 201>&-\n{}", self.question());
        if self.tell(&run).await.is_err() {
            return Ok(Finish::Ended);
        }
        let deadline = Instant::now() + limit;
        match self.listen(deadline, cage, output).await? {
            Some(finish) => self.drain(output).map(|()| finish),
            None => self.interrupt(&others, cage, output).await,
        }
    }

    async fn tell(&mut self, line: &str) -> std::io::Result<()> {
        self.streams.control.write_all(line.as_bytes()).await
    }

    /// Asks for the status of the last command. Tracing, if a command switched it on, does not show it.
    fn question(&self) -> String {
        format!("{{ builtin printf '%d %d\\n' {} \"$?\" >&200; }} 2>/dev/null\n", self.serial)
    }

    async fn ask(&mut self) -> std::io::Result<()> {
        self.tell(&self.question()).await
    }

    /// Takes output until the status comes, or `deadline`.
    async fn listen(&mut self, deadline: Instant, cage: &dyn Cage, output: &mut Capture) -> Result<Option<Finish>, SandboxError> {
        let failed = |source| io_error("reading from a sandbox", source);
        let mut chunk = vec![0; 64 * 1024];
        let mut line = [0; 256];
        let mut output_open = true;
        loop {
            let now = Instant::now();
            if now >= deadline {
                return Ok(None);
            }
            tokio::select! {
                count = self.streams.output.read(&mut chunk), if output_open => match count.map_err(failed)? {
                    0 => output_open = false,
                    count => output.push(&chunk[..count]),
                },
                count = self.streams.status.read(&mut line) => {
                    let count = count.map_err(failed)?;
                    if count == 0 {
                        return Ok(Some(Finish::Ended));
                    }
                    if let Some(status) = self.take_report(&line[..count]) {
                        return Ok(Some(Finish::Status(status)));
                    }
                },
                () = sleep_until(deadline.min(now + TICK)) => if cage.ended().is_some() {
                    return Ok(Some(Finish::Ended));
                },
            }
        }
    }

    /// The status, once the line that reports this command is complete. Anything else on the pipe is ignored.
    fn take_report(&mut self, bytes: &[u8]) -> Option<i32> {
        self.reported.extend_from_slice(bytes);
        while let Some(end) = self.reported.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = self.reported.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line);
            let mut words = line.split_whitespace();
            if words.next().and_then(|word| word.parse::<u64>().ok()) == Some(self.serial) {
                return words.next().and_then(|word| word.parse().ok());
            }
        }
        if self.reported.len() > 4096 {
            self.reported.clear();
        }
        None
    }

    /// What was written before the status was, and no more: a job in the background may write for ever.
    fn drain(&mut self, output: &mut Capture) -> Result<(), SandboxError> {
        let failed = |source| io_error("reading the rest of an output", source);
        let mut left =
            usize::try_from(rustix::io::ioctl_fionread(&self.streams.output).map_err(|error| failed(error.into()))?).unwrap_or(0);
        let mut chunk = vec![0; left.min(64 * 1024)];
        while left > 0 {
            let room = left.min(chunk.len());
            match self.streams.output.try_read(&mut chunk[..room]) {
                Ok(0) => break,
                Ok(count) => {
                    output.push(&chunk[..count]);
                    left -= count;
                }
                // The readiness that tokio remembers may be older than the bytes.
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    left = self.read_directly(&mut chunk, left, output).map_err(failed)?;
                }
                Err(error) => return Err(failed(error)),
            }
        }
        Ok(())
    }

    fn read_directly(&self, chunk: &mut [u8], mut left: usize, output: &mut Capture) -> std::io::Result<usize> {
        while left > 0 {
            let room = left.min(chunk.len());
            match rustix::io::read(&self.streams.output, &mut chunk[..room]) {
                Ok(0) | Err(rustix::io::Errno::AGAIN) => return Ok(0),
                Ok(count) => {
                    output.push(&chunk[..count]);
                    left -= count;
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(0)
    }

    /// Ends what runs in the foreground, as Control-C would, and harder when that does not help.
    ///
    /// A shell that waits for a child gives up its loop only if the child, too, ends by SIGINT; a child that ignores SIGINT must be
    /// killed. So both are tried in turn. The status is asked for again each time, because SIGINT makes the shell forget a line.
    async fn interrupt(&mut self, others: &[i32], cage: &dyn Cage, output: &mut Capture) -> Result<Finish, SandboxError> {
        for round in 0..INTERRUPTS {
            let signal = if round % 2 == 0 { Signal::INT } else { Signal::KILL };
            let foreground = processes::children(cage.shell()).into_iter().filter(|child| !others.contains(child)).collect();
            send(cage.shell(), Signal::INT);
            for pid in processes::with_descendants(foreground) {
                send(pid, signal);
            }
            // A stopped shell would see nothing of this.
            send(cage.shell(), Signal::CONT);
            if self.ask().await.is_err() {
                return Ok(Finish::Ended);
            }
            match self.listen(Instant::now() + INTERRUPT, cage, output).await? {
                Some(Finish::Status(_)) => return self.settle(cage, output).await,
                Some(finish) => return Ok(finish),
                None => {}
            }
        }
        Ok(Finish::Stuck)
    }

    /// Makes sure that no late SIGINT and no repeated report of this command meets the next one.
    async fn settle(&mut self, cage: &dyn Cage, output: &mut Capture) -> Result<Finish, SandboxError> {
        for _ in 0..5 {
            self.serial += 1;
            if self.ask().await.is_err() {
                return Ok(Finish::Ended);
            }
            match self.listen(Instant::now() + 10 * INTERRUPT, cage, output).await? {
                Some(Finish::Status(_)) => return self.drain(output).map(|()| Finish::Interrupted),
                Some(finish) => return Ok(finish),
                None => {}
            }
        }
        Ok(Finish::Stuck)
    }

    /// Takes what a dead shell's programs still have in the pipe.
    pub(super) fn last_words(&mut self, output: &mut Capture) {
        if let Err(error) = self.drain(output) {
            tracing::debug!(%error, "the end of an output is missing");
        }
    }
}

/// The exit status of a shell that is ending, or `None` if it does not end by itself.
pub(super) async fn exit_status(cage: &dyn Cage) -> Option<i32> {
    let deadline = Instant::now() + Duration::from_millis(500);
    loop {
        let ended = cage.ended();
        if ended.is_some() || Instant::now() >= deadline {
            return ended;
        }
        sleep(Duration::from_millis(1)).await;
    }
}

fn send(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid) {
        // It may have ended by itself.
        let _ = kill_process(pid, signal);
    }
}
