//! Which sandbox this machine can have, and what to do about the others.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use super::{BackendKind, Bubblewrap, CommandEnd, Landlock, NOT_COVERED, Policy, Sandbox, SandboxError, bubblewrap, landlock};
use crate::base::Snapshot;

/// What was found out about one part of sandboxing, for `doctor`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackendReport {
    /// What was looked at.
    pub subject: &'static str,
    /// What was found.
    pub finding: Finding,
}

/// The result of looking.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding {
    /// It works; details.
    Works(String),
    /// It is not there or does not work, what it means, and what to do.
    Missing {
        /// What was found instead.
        reason: String,
        /// What to do.
        advice: String,
    },
}

/// A sandbox, and what the user should know about it.
#[derive(Clone)]
pub struct OpenedSandbox {
    /// The sandbox.
    pub sandbox: Arc<dyn Sandbox>,
    /// Set where it is weaker than the default.
    pub notice: Option<String>,
}

/// Opens the backend asked for, or the best there is: bubblewrap, else Landlock with a notice.
///
/// Nothing is started: [`probe`] tells whether sessions really start.
///
/// # Errors
/// When the backend asked for, or every backend, is missing.
pub fn open(kind: Option<BackendKind>) -> Result<OpenedSandbox, SandboxError> {
    match kind {
        Some(BackendKind::Bubblewrap) => Ok(OpenedSandbox { sandbox: Arc::new(Bubblewrap::new()?), notice: None }),
        Some(BackendKind::Landlock) => Ok(OpenedSandbox { sandbox: Arc::new(Landlock::new()?), notice: None }),
        None if bubblewrap::program().is_some() => open(Some(BackendKind::Bubblewrap)),
        None => {
            let sandbox = Landlock::new()?;
            let notice = format!(
                "bubblewrap is not installed: programs run in the weaker landlock sandbox, which does not cover: {}. Install the package `bubblewrap`",
                NOT_COVERED.join("; ")
            );
            Ok(OpenedSandbox { sandbox: Arc::new(sandbox), notice: Some(notice) })
        }
    }
}

/// Looks at every part, starting each backend once.
///
/// Blocking is short (tens of milliseconds), except where a sandbox hangs at its start.
pub async fn probe() -> Vec<BackendReport> {
    let report = |subject, finding| BackendReport { subject, finding };
    vec![
        report("bubblewrap program", bubblewrap_program()),
        report("bubblewrap sandbox", started(BackendKind::Bubblewrap).await),
        report("landlock interface", landlock_interface()),
        report("landlock sandbox", started(BackendKind::Landlock).await),
        report("memory control group", control_group()),
    ]
}

fn missing(reason: impl Into<String>, advice: &str) -> Finding {
    Finding::Missing { reason: reason.into(), advice: advice.to_owned() }
}

fn bubblewrap_program() -> Finding {
    const INSTALL: &str = "install the package `bubblewrap`, version 0.8 or newer";
    let Some(program) = bubblewrap::program() else {
        return missing("there is no `bwrap` program", INSTALL);
    };
    match Command::new(&program).arg("--version").env_clear().output() {
        Ok(output) => Finding::Works(format!("{} ({})", String::from_utf8_lossy(&output.stdout).trim(), program.display())),
        Err(error) => missing(format!("{}: {error}", program.display()), INSTALL),
    }
}

fn landlock_interface() -> Finding {
    match landlock::interface() {
        number @ 6.. => Finding::Works(format!("interface {number}: files, TCP, devices, signals and abstract sockets")),
        0 => missing("the kernel has no Landlock", "use Linux 5.19 or newer with `landlock` in its `lsm=` list, or bubblewrap"),
        number => missing(
            format!("interface {number}: signals and abstract sockets are not covered"),
            "use Linux 6.12 or newer, or bubblewrap; as root the landlock backend works from interface 3 on",
        ),
    }
}

/// Whether memory could be bounded by the kernel. Nothing hangs on it: the guard bounds it everywhere.
fn control_group() -> Finding {
    let version2 =
        std::fs::read_to_string("/sys/fs/cgroup/cgroup.controllers").is_ok_and(|text| text.split_whitespace().any(|word| word == "memory"));
    let version1 = Path::new("/sys/fs/cgroup/memory/memory.limit_in_bytes").exists();
    match (version2, version1) {
        (true, _) => Finding::Works("version 2 has the memory controller; not used, memory is summed over processes".to_owned()),
        (_, true) => Finding::Works("version 1 has the memory controller; not used, memory is summed over processes".to_owned()),
        _ => Finding::Works("none; memory is summed over processes".to_owned()),
    }
}

async fn started(kind: BackendKind) -> Finding {
    const ADVICE: &str = "allow unprivileged user namespaces (sysctl kernel.unprivileged_userns_clone=1, kernel.apparmor_restrict_unprivileged_userns=0), \
         and a TMPDIR whose files may be executed; or choose the other backend";
    match try_session(kind).await {
        Ok(took) => Finding::Works(format!("a session ran a command in {} ms", took.as_millis())),
        Err(error) => missing(error.to_string(), ADVICE),
    }
}

async fn try_session(kind: BackendKind) -> Result<Duration, SandboxError> {
    let start = std::time::Instant::now();
    let sandbox = open(Some(kind))?.sandbox;
    let mut session = sandbox.start(&Policy::default(), &Snapshot::new(), &BTreeMap::new()).await?;
    let output = session.run("test -w . && echo works", "", Duration::from_secs(10)).await?;
    session.finish().await?;
    if output.end == CommandEnd::Exited(0) && output.text == "works\n" {
        return Ok(start.elapsed());
    }
    Err(SandboxError::Ended(format!("its first command gave {:?} and printed {:?}", output.end, output.text)))
}
