//! `doctor`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use serde::Serialize;
use serde_json::json;

use super::failure::{Failure, FailureKind};
use super::models;
use super::output::Output;
use crate::base::Snapshot;
use crate::config::{self, Experiment, Teacher};
use crate::model::{EndpointConfig, reachability};
use crate::sandbox::{self, BackendKind, BackendReport, CommandEnd, Finding, Policy};

/// Space below which a run may not have room for its database.
const LITTLE_MIB: u64 = 1024;
/// Space below which it surely has none.
const TOO_LITTLE_MIB: u64 = 64;

/// Look whether this machine can do the work: sandbox, programs inside it, endpoint, key, disk.
#[derive(Debug, Args)]
#[command(
    after_help = "Every line is ok, warn or fail, with what to do; exit code 4 when one is fail. An endpoint is asked for its list of models, \
and where that does not settle it for a reply of one token. JSON keys: checks [{subject, state, found, advice}]."
)]
pub(super) struct DoctorArgs {
    /// Look at what this experiment needs, too.
    #[arg(value_name = "EXPERIMENT")]
    experiment: Option<PathBuf>,
    /// Write JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum State {
    Ok,
    Warn,
    Fail,
}

#[derive(Debug, Serialize)]
struct Line {
    subject: String,
    state: State,
    found: String,
    advice: Option<String>,
}

impl Line {
    fn ok(subject: impl Into<String>, found: impl Into<String>) -> Self {
        Self { subject: subject.into(), state: State::Ok, found: found.into(), advice: None }
    }

    fn not_ok(state: State, subject: impl Into<String>, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { subject: subject.into(), state, found: found.into(), advice: Some(advice.into()) }
    }

    fn text(&self) -> String {
        let state = match self.state {
            State::Ok => "ok",
            State::Warn => "warn",
            State::Fail => "fail",
        };
        let advice = self.advice.as_ref().map_or_else(String::new, |advice| format!("      {advice}\n"));
        format!("{state:<5} {}: {}\n{advice}", self.subject, self.found)
    }
}

/// Looks at the machine.
pub(super) async fn doctor(args: &DoctorArgs, output: &Output) -> Result<(), Failure> {
    let experiment = args.experiment.as_deref().map(|path| config::load(path, None)).transpose();
    let experiment = experiment.map_err(|error| Failure::from_error(FailureKind::Input, &error))?;
    let backend = experiment.as_ref().and_then(|experiment| experiment.sandbox.backend);
    let policy = experiment.as_ref().map_or_else(Policy::default, |experiment| experiment.sandbox.policy.clone());
    let mut lines = backends(&sandbox::probe().await, backend);
    lines.push(programs(backend, &policy).await);
    if let Some(experiment) = &experiment {
        lines.extend(teachers(experiment).await);
    }
    lines.push(disk("disk, current folder", Path::new(".")));
    lines.push(disk("disk, temporary files", &std::env::temp_dir()));
    if args.json {
        output.json(&json!({"checks": lines}))?;
    } else {
        output.data(&lines.iter().map(Line::text).collect::<String>())?;
    }
    let failed = lines.iter().filter(|line| line.state == State::Fail).count();
    if failed == 0 { Ok(()) } else { Err(Failure::new(FailureKind::Environment, format!("{failed} of {} checks fail", lines.len()))) }
}

/// What is missing only matters where nothing else does the work, or where the experiment asks for it.
fn backends(reports: &[BackendReport], wanted: Option<BackendKind>) -> Vec<Line> {
    let works = |name: &str| reports.iter().any(|report| report.subject == name && matches!(report.finding, Finding::Works(_)));
    let bubblewrap = works("bubblewrap sandbox");
    let enough = match wanted {
        None => bubblewrap || works("landlock sandbox"),
        Some(BackendKind::Bubblewrap) => bubblewrap,
        Some(BackendKind::Landlock) => works("landlock sandbox"),
    };
    let state = if enough { State::Warn } else { State::Fail };
    let line = |report: &BackendReport| match &report.finding {
        Finding::Works(found) => Line::ok(report.subject, found),
        Finding::Missing { reason, advice } => Line::not_ok(state, report.subject, reason, advice),
    };
    reports.iter().map(line).collect()
}

/// Whether the programs that the built-in tasks and tools call are there, inside.
async fn programs(backend: Option<BackendKind>, policy: &Policy) -> Line {
    const SUBJECT: &str = "programs in the sandbox";
    let run = async {
        let opened = sandbox::open(backend)?;
        let mut session = opened.sandbox.start(policy, &Snapshot::new(), &BTreeMap::new()).await?;
        let command = "for p in bash python3 grep sed awk find sort tar; do command -v $p >/dev/null || printf '%s ' $p; done";
        let output = session.run(command, "", Duration::from_secs(20)).await?;
        session.finish().await?;
        Ok::<_, sandbox::SandboxError>(output)
    };
    match run.await {
        Ok(output) if output.end == CommandEnd::Exited(0) && output.text.trim().is_empty() => {
            Line::ok(SUBJECT, "bash, python3 and the usual tools")
        }
        Ok(output) if output.end == CommandEnd::Exited(0) => {
            Line::not_ok(State::Fail, SUBJECT, format!("missing: {}", output.text.trim()), "install them: tasks and tools call them")
        }
        Ok(output) => {
            Line::not_ok(State::Fail, SUBJECT, format!("looking for them gave {:?}: {}", output.end, output.text.trim()), "see above")
        }
        Err(error) => Line::not_ok(State::Fail, SUBJECT, error.to_string(), "see the advice on sandboxes above"),
    }
}

async fn teachers(experiment: &Experiment) -> Vec<Line> {
    let mut lines = Vec::new();
    for (name, teacher) in [("teacher", Some(&experiment.teacher)), ("rewriter", experiment.rewriter.as_ref())] {
        match teacher {
            None => {}
            Some(Teacher::Rehearsal { .. }) => lines.push(Line::ok(name, "the built-in rehearsal: a simulation, needs nothing")),
            Some(Teacher::Local { model }) => lines.push(local(name, Path::new(model))),
            Some(Teacher::Replay { recording }) => lines.push(match std::fs::metadata(recording) {
                Ok(found) => Line::ok(name, format!("{recording}, {} bytes of recorded replies", found.len())),
                Err(error) => {
                    Line::not_ok(State::Fail, name, format!("{recording}: {error}"), "record one with `recording = ...` at an endpoint")
                }
            }),
            Some(Teacher::Endpoint { endpoint, .. }) => lines.extend(reach(name, endpoint).await),
        }
    }
    lines
}

/// Whether the weights at `path` can be played with here.
fn local(name: &str, path: &Path) -> Line {
    match models::local_problem(path) {
        None => Line::ok(name, format!("the weights in {}", path.display())),
        Some(failure) => Line::not_ok(State::Fail, name, failure.message, failure.hints.join("; ")),
    }
}

async fn reach(name: &str, endpoint: &EndpointConfig) -> Vec<Line> {
    let subject = format!("{name}, {} at {}", endpoint.model, endpoint.base_url);
    let mut lines = Vec::new();
    let key = match (models::key(endpoint), &endpoint.api_key_env) {
        (Ok(key), Some(variable)) => {
            lines.push(Line::ok(format!("{name}, key"), format!("{variable} is set")));
            key
        }
        (Ok(key), None) => key,
        (Err(failure), _) => {
            lines.push(Line::not_ok(State::Fail, format!("{name}, key"), failure.message, failure.hints.join("; ")));
            return lines;
        }
    };
    lines.push(match reachability(endpoint, key.as_ref()).await {
        Ok(reachable) => Line::ok(subject, reachable.to_string()),
        Err(error) => {
            // Errors of endpoints end with what to do.
            let text = error.to_string();
            let (found, advice) = text.split_once("\nhint: ").unwrap_or((&text, "correct the experiment's entry, then repeat"));
            Line::not_ok(State::Fail, subject, found, advice)
        }
    });
    lines
}

fn disk(subject: &str, path: &Path) -> Line {
    match rustix::fs::statvfs(path) {
        Ok(found) => space(subject, found.f_bavail.saturating_mul(found.f_frsize) >> 20),
        Err(error) => Line::not_ok(State::Warn, subject, format!("{}: {error}", path.display()), "use a folder that can be looked at"),
    }
}

fn space(subject: &str, mib: u64) -> Line {
    const ADVICE: &str = "free some space, or use another folder";
    let found = format!("{mib} MiB free");
    match mib {
        0..TOO_LITTLE_MIB => Line::not_ok(State::Fail, subject, found, ADVICE),
        TOO_LITTLE_MIB..LITTLE_MIB => Line::not_ok(State::Warn, subject, found, ADVICE),
        _ => Line::ok(subject, found),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reports(bubblewrap: bool, landlock: bool) -> Vec<BackendReport> {
        let finding = |works| match works {
            true => Finding::Works("yes".to_owned()),
            false => Finding::Missing { reason: "no".to_owned(), advice: "do".to_owned() },
        };
        vec![
            BackendReport { subject: "bubblewrap sandbox", finding: finding(bubblewrap) },
            BackendReport { subject: "landlock sandbox", finding: finding(landlock) },
        ]
    }

    #[test]
    fn a_missing_sandbox_fails_only_where_no_other_does_its_work() {
        let states = |reports: Vec<BackendReport>, wanted| backends(&reports, wanted).iter().map(|line| line.state).collect::<Vec<_>>();
        assert_eq!(states(reports(true, false), None), [State::Ok, State::Warn]);
        assert_eq!(states(reports(false, true), None), [State::Warn, State::Ok]);
        assert_eq!(states(reports(false, true), Some(BackendKind::Bubblewrap)), [State::Fail, State::Ok]);
        assert_eq!(states(reports(true, false), Some(BackendKind::Landlock)), [State::Ok, State::Fail]);
        assert_eq!(states(reports(false, false), None), [State::Fail, State::Fail]);
    }

    #[test]
    fn little_space_is_a_warning_and_none_a_failure() {
        assert_eq!([63, 64, 1023, 1024].map(|mib| space("disk", mib).state), [State::Fail, State::Warn, State::Warn, State::Ok]);
    }

    #[test]
    fn a_line_says_what_to_do_below_what_was_found() {
        assert_eq!(Line::not_ok(State::Warn, "a", "b", "c").text(), "warn  a: b\n      c\n");
        assert_eq!(Line::ok("a", "b").text(), "ok    a: b\n");
    }
}
