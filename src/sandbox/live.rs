//! A session over any cage: runs commands, starts the shell again when it ends, takes the files out at the end.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::cage::{Breach, Cage, Guard, mib};
use super::capture::Capture;
use super::ground::SessionFolder;
use super::launch::{Process, Program, launch};
use super::shell::{Finish, Shell, exit_status};
use super::workspace::{self, Bounds, Owner};
use super::{CommandEnd, CommandOutput, Policy, SandboxError, Session};
use crate::base::Snapshot;

/// How one backend builds the cages of one session.
pub(super) trait Jail: Send + Sync {
    /// The backend's name.
    fn backend(&self) -> &'static str;

    /// The program that becomes the shell, confined; it reads [`super::shell::first_file`] when it starts.
    fn program(&self) -> Result<Program, SandboxError>;

    /// Takes charge of it once its shell is there.
    fn enclose(&self, shell: Started) -> Result<Arc<dyn Cage>, SandboxError>;

    /// Who owns the files inside.
    fn owner(&self) -> Owner;

    /// The session's folder, and its path as the shell sees it.
    fn folder(&self) -> (&SessionFolder, &str);

    /// The workspace's path as programs inside see it.
    fn workspace(&self) -> &str;

    /// Whether a new cage finds the files of the last one.
    fn files(&self) -> Files;
}

/// What becomes of the files when the shell is started again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Files {
    /// They lie where they were.
    Stay,
    /// They went with the cage and must be carried over.
    Carried,
}

/// A process that leads its own group and that nothing has charge of yet. Dropping it kills the group.
#[derive(Debug)]
pub(super) struct Started(Option<Process>);

impl Started {
    /// Its process id.
    pub(super) fn id(&self) -> i32 {
        self.0.as_ref().map_or(0, Process::id)
    }

    /// Hands the process over.
    pub(super) fn take(mut self) -> Option<Process> {
        self.0.take()
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        if let Some(mut process) = self.0.take() {
            process.kill_group();
            process.wait();
        }
    }
}

/// A session of any backend.
pub(super) struct LiveSession {
    // Dropped first: its processes must be dead before anything else goes.
    life: Option<Life>,
    policy: Policy,
    deadline: Instant,
    jail: Box<dyn Jail>,
}

/// One shell and all its processes.
struct Life {
    shell: Shell,
    guard: Guard,
    cage: Arc<dyn Cage>,
    // A run that was dropped half-way leaves a shell that is busy with it.
    busy: bool,
}

impl Drop for Life {
    fn drop(&mut self) {
        self.cage.kill();
    }
}

impl LiveSession {
    /// Starts a session whose workspace holds `files`.
    pub(super) async fn start(jail: Box<dyn Jail>, policy: &Policy, files: &Snapshot) -> Result<Self, SandboxError> {
        let deadline = Instant::now() + Duration::from_secs(u64::from(policy.seconds));
        let mut session = Self { life: None, policy: policy.clone(), deadline, jail };
        let life = session.begin(Some(files)).await?;
        session.life = Some(life);
        Ok(session)
    }

    async fn begin(&self, files: Option<&Snapshot>) -> Result<Life, SandboxError> {
        let (process, streams) = launch(self.jail.program()?).await?;
        let started = Started(Some(process));
        let shell = Shell::meet(streams, self.jail.backend()).await?;
        let cage = self.jail.enclose(started)?;
        let guard = Guard::watch(Arc::clone(&cage), &self.policy, self.deadline)?;
        // From here on dropping it kills everything.
        let life = Life { shell, guard, cage, busy: false };
        if let Some(files) = files {
            workspace::write(life.cage.workspace(), files, self.jail.owner())?;
        }
        Ok(life)
    }

    /// Starts the shell again over the files of the one that ended. Programs in the background ended with it.
    async fn begin_again(&mut self) -> Result<(), SandboxError> {
        let Some(old) = self.life.take() else {
            return Err(SandboxError::Ended("its shell could not be started again".to_owned()));
        };
        old.cage.kill();
        match self.next_life(&old).await {
            Ok(new) => {
                self.life = Some(new);
                Ok(())
            }
            Err(error) => {
                // What is left of the old one can still be read.
                self.life = Some(old);
                Err(error)
            }
        }
    }

    async fn next_life(&self, old: &Life) -> Result<Life, SandboxError> {
        let bounds = self.bounds();
        let carried = match self.jail.files() {
            Files::Stay => Vec::new(),
            Files::Carried => vec![workspace::read(old.cage.workspace(), bounds)?, workspace::read(old.cage.scratch(), bounds)?],
        };
        let new = self.begin(None).await?;
        for (files, to) in carried.iter().zip([new.cage.workspace(), new.cage.scratch()]) {
            workspace::write(to, files, self.jail.owner())?;
        }
        Ok(new)
    }

    fn bounds(&self) -> Bounds {
        Bounds { bytes: mib(self.policy.disk_mib), entries: 20_000, depth: 64 }
    }

    /// What follows from the end of a command: a new shell where the old one is gone.
    async fn after(&mut self, finish: Finish, output: &mut Capture) -> Result<CommandEnd, SandboxError> {
        let Some(life) = self.life.as_mut() else {
            return Err(SandboxError::Ended("there is no shell".to_owned()));
        };
        let end = match finish {
            Finish::Status(status) => CommandEnd::Exited(status),
            Finish::Interrupted => CommandEnd::TimedOut,
            Finish::Stuck => {
                self.begin_again().await?;
                CommandEnd::TimedOut
            }
            Finish::Ended => {
                let status = exit_status(life.cage.as_ref()).await;
                life.cage.kill();
                life.shell.last_words(output);
                let status = status.or_else(|| life.cage.ended()).unwrap_or(137);
                match life.guard.breach() {
                    // No time is left for a new one.
                    Some(Breach::Time) => return Ok(CommandEnd::Killed(Breach::Time.name())),
                    Some(breach) => {
                        self.begin_again().await?;
                        CommandEnd::Killed(breach.name())
                    }
                    None => {
                        self.begin_again().await?;
                        CommandEnd::ShellEnded(status)
                    }
                }
            }
        };
        Ok(end)
    }
}

#[async_trait::async_trait]
impl Session for LiveSession {
    fn workspace(&self) -> &str {
        self.jail.workspace()
    }

    async fn run(&mut self, command: &str, stdin: &str, timeout: Duration) -> Result<CommandOutput, SandboxError> {
        let (busy, breach) = self.life.as_ref().map_or((false, None), |life| (life.busy, life.guard.breach()));
        match breach {
            Some(Breach::Time) => return Err(SandboxError::Ended(format!("its {} s are over", self.policy.seconds))),
            // A program in the background did it, between two commands.
            Some(breach) => {
                self.begin_again().await?;
                return Ok(CommandOutput { text: String::new(), omitted_bytes: 0, end: CommandEnd::Killed(breach.name()) });
            }
            None if busy => self.begin_again().await?,
            None => {}
        }
        let (folder, seen_as) = self.jail.folder();
        let stdin = Some(stdin).filter(|text| !text.is_empty());
        folder.put(command, stdin)?;
        let Some(life) = self.life.as_mut() else {
            return Err(SandboxError::Ended("its shell could not be started again".to_owned()));
        };
        let mut output = Capture::new(self.policy.output_bytes);
        life.busy = true;
        let finish = life.shell.run(seen_as, stdin.is_some(), timeout, life.cage.as_ref(), &mut output).await?;
        life.busy = false;
        let end = self.after(finish, &mut output).await?;
        let (mut text, omitted_bytes) = output.finish();
        if end == CommandEnd::TimedOut {
            // An interrupted shell prints an empty line each time it is interrupted.
            text.truncate(text.trim_end_matches('\n').len());
            if !text.is_empty() {
                text.push('\n');
            }
        }
        Ok(CommandOutput { text, omitted_bytes, end })
    }

    async fn finish(self: Box<Self>) -> Result<Snapshot, SandboxError> {
        let (reply, answer) = tokio::sync::oneshot::channel();
        // The whole session moves into the work, which completes also when nobody waits for it any more.
        tokio::task::spawn_blocking(move || {
            let files = match &self.life {
                Some(life) => {
                    life.cage.kill();
                    workspace::read(life.cage.workspace().as_fd(), self.bounds())
                }
                None => Err(SandboxError::Ended("its shell could not be started again".to_owned())),
            };
            // Whether somebody still waits is of no matter; nobody needs to wait until the empty cage is taken down.
            let _ = reply.send(files);
            drop(self);
        });
        answer.await.map_err(|_| SandboxError::Ended("reading its workspace stopped".to_owned()))?
    }
}
