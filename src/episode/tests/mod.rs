//! Whole episodes with a scripted model and a strict sandbox.

mod faults;
mod flow;
mod limits;
mod memory;
mod replay;

use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::{Episode, Played, play};
use crate::base::Snapshot;
use crate::environment::strict::{Expected, StrictSandbox};
use crate::harness::{Genome, Harness, RetryRule, ToolGene, ToolName};
use crate::model::{ScriptedModel, ScriptedTurn};
use crate::sandbox::Policy;
use crate::task::{Act, ActCall, ActRole, Check, CheckItem, JobType, Probe, SkillName, Stake, Task, TaskBody, TaskLimits};
use crate::trajectory::{Ending, Message, Outcome};

/// A task of two items: `out.txt` is `3`, and `log.txt` exists.
pub(crate) fn task() -> Task {
    let item = |name: &str, probe| CheckItem { name: name.to_owned(), stake: Stake::Credit, probe };
    let write = |path: &str, content: &str| Act {
        call: ActCall::Write { path: path.to_owned(), content: content.to_owned() },
        role: ActRole::Work,
        evidence: None,
        slip: None,
    };
    Task::new(TaskBody {
        job_type: JobType::new("data").unwrap(),
        skill: SkillName::new("probe").unwrap(),
        instruction: "Write 3 to out.txt and make log.txt.".to_owned(),
        files: Snapshot::new(),
        limits: TaskLimits::default(),
        check: Check {
            items: vec![
                item("out", Probe::FileEquals { path: "out.txt".to_owned(), text: "3".to_owned() }),
                item("log", Probe::FileExists { path: "log.txt".to_owned() }),
            ],
        },
        solution: vec![write("out.txt", "3"), write("log.txt", "")],
        broken: Vec::new(),
    })
    .unwrap()
}

/// A harness of the tools bash, read_file, write_file, notes and finish, after `change`.
fn harness(change: impl FnOnce(&mut Genome)) -> Harness {
    let tools = [ToolName::Bash, ToolName::ReadFile, ToolName::WriteFile, ToolName::Notes, ToolName::Finish];
    let mut genome = Genome { tools: tools.map(|tool| (tool, ToolGene::default())).into(), ..Genome::default() };
    genome.prompt.role = "You work in {{ workspace }}.".to_owned();
    change(&mut genome);
    Harness::new(genome).unwrap()
}

/// A rule without delay.
fn rule(attempts: u32, repair: &str) -> RetryRule {
    RetryRule { attempts, delay_ms: 0, cap_ms: 0, repair: repair.to_owned(), ..RetryRule::default() }
}

fn solved() -> Snapshot {
    let mut files = half_solved();
    files.insert_text("log.txt", "").unwrap();
    files
}

fn half_solved() -> Snapshot {
    let mut files = Snapshot::new();
    files.insert_text("out.txt", "3\n").unwrap();
    files
}

fn bash(command: &str) -> ScriptedTurn {
    ScriptedTurn::calls(&[("bash", &json!({ "command": command }).to_string())])
}

fn finish() -> ScriptedTurn {
    ScriptedTurn::calls(&[("finish", "{}")])
}

/// A sandbox of one session.
fn sandbox(commands: impl IntoIterator<Item = Expected>, files: &Snapshot) -> StrictSandbox {
    StrictSandbox::default().session(commands, files)
}

async fn played(harness: &Harness, model: &ScriptedModel, sandbox: &StrictSandbox) -> Played {
    let (task, policy) = (task(), Policy::default());
    let episode = Episode { harness, task: &task, seed: 7, model, sandbox, policy: &policy };
    play(&episode, &CancellationToken::new()).await.unwrap()
}

/// The score and what ended the turn.
fn scored(played: &Played) -> (f64, Ending) {
    match &played.trajectory.outcome {
        Outcome::Scored { verdict, ending } => (verdict.score, *ending),
        Outcome::Faulted { fault } => panic!("{fault}"),
    }
}

fn texts(messages: &[Message]) -> Vec<String> {
    messages.iter().map(Message::joined_text).collect()
}

fn last_text(messages: &[Message]) -> String {
    messages.last().unwrap().joined_text()
}
