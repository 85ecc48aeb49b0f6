//! An episode from start to verdict.

use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::prompt::system_prompt;
use super::stop::{EpisodeClock, Stop};
use super::turn::{Tally, Turn};
use crate::environment::{EnvironmentError, Terminal, check, forfeit, tool_schemas};
use crate::harness::{Harness, PromptContext};
use crate::model::{LanguageModel, micro_usd};
use crate::sandbox::{Policy, Sandbox, SandboxError};
use crate::task::Task;
use crate::trajectory::{Boundary, Ending, Fault, Message, Outcome, Timing, Trajectory, Usage};

/// Seconds a session may outlive the agent's time, which stands still while an endpoint is at fault. The episode ends its session
/// itself; the sandbox's own limit is for what goes wrong.
const SESSION_MARGIN: u32 = 3600;

/// What is to be played.
#[derive(Clone, Copy)]
pub struct Episode<'a> {
    /// The harness.
    pub harness: &'a Harness,
    /// The task.
    pub task: &'a Task,
    /// The seed.
    pub seed: u64,
    /// The model.
    pub model: &'a dyn LanguageModel,
    /// Where tools and checks run.
    pub sandbox: &'a dyn Sandbox,
    /// What the sandbox allows.
    pub policy: &'a Policy,
}

/// A played episode.
#[derive(Debug, Clone, PartialEq)]
pub struct Played {
    /// What happened, with the outcome.
    pub trajectory: Trajectory,
    /// Where the time went.
    pub timing: Timing,
    /// Price in millionths of a US dollar.
    pub micro_usd: u64,
    /// Calls that went to shell or files.
    pub shell_calls: u32,
    /// Calls that went to the desktop.
    pub gui_calls: u32,
}

/// Plays an episode to its end. Every failure that is not the agent's is a faulted outcome, never an error or a score.
/// Returns `None` when `cancel` was triggered: the episode then did not happen, and everything it started is dead.
pub async fn play(episode: &Episode<'_>, cancel: &CancellationToken) -> Option<Played> {
    tokio::select! {
        biased;
        // Dropping the episode drops its session, which kills everything inside.
        () = cancel.cancelled() => None,
        played = play_out(episode) => Some(played),
    }
}

/// What an episode leaves behind, as far as it came.
#[derive(Default)]
struct Remains {
    messages: Vec<Message>,
    spent: Usage,
    tally: Tally,
    sandbox: Duration,
    check: Duration,
}

async fn play_out(episode: &Episode<'_>) -> Played {
    let began = Instant::now();
    let mut remains = Remains::default();
    let outcome = match play_stages(episode, &mut remains).await {
        Ok(outcome) => outcome,
        Err(fault) => Outcome::Faulted { fault },
    };
    let Remains { messages, spent, tally, sandbox, check } = remains;
    let timing = Timing {
        total_ms: milliseconds(began.elapsed()),
        model_ms: milliseconds(tally.model),
        tools_ms: milliseconds(tally.tools),
        sandbox_ms: milliseconds(sandbox),
        check_ms: milliseconds(check),
    };
    let trajectory = Trajectory {
        harness: episode.harness.id(),
        model: episode.model.id().name.clone(),
        task: episode.task.id(),
        seed: episode.seed,
        tools: tool_schemas(episode.harness.genome()),
        messages,
        usage: tally.usage,
        outcome,
    };
    let micro_usd = micro_usd(episode.model.price(), spent);
    Played { trajectory, timing, micro_usd, shell_calls: tally.shell_calls, gui_calls: tally.gui_calls }
}

async fn play_stages(episode: &Episode<'_>, remains: &mut Remains) -> Result<Outcome, Fault> {
    let (terminal, ending) = play_turn(episode, remains).await?;
    // Everything of the agent is dead before the check begins.
    let began = Instant::now();
    let workspace = terminal.finish().await;
    remains.sandbox += began.elapsed();
    let workspace = match workspace {
        Ok(workspace) => workspace,
        Err(EnvironmentError::Sandbox(error @ SandboxError::Overfull { .. })) => {
            return Ok(Outcome::Scored { verdict: forfeit(episode.task, &error.to_string()), ending });
        }
        Err(error) => return Err(Fault { boundary: Boundary::Sandbox, message: error.to_string() }),
    };
    let began = Instant::now();
    let verdict = check(episode.task, &workspace, episode.sandbox).await;
    remains.check += began.elapsed();
    let verdict = verdict.map_err(|error| Fault { boundary: Boundary::Check, message: error.to_string() })?;
    Ok(Outcome::Scored { verdict, ending })
}

/// Starts the environment and plays the agent's turn. The terminal comes back for an end that is scored; with a fault it is dropped.
async fn play_turn(episode: &Episode<'_>, remains: &mut Remains) -> Result<(Terminal, Ending), Fault> {
    let genome = episode.harness.genome();
    let seconds = genome.limits.seconds.min(episode.task.body().limits.seconds).min(episode.policy.seconds);
    let policy = Policy { seconds: seconds.saturating_mul(2).saturating_add(SESSION_MARGIN), ..episode.policy.clone() };
    let began = Instant::now();
    let terminal = Terminal::start(episode.sandbox, &policy, episode.task, genome).await;
    remains.sandbox += began.elapsed();
    let terminal = terminal.map_err(|error| Fault { boundary: Boundary::Sandbox, message: error.to_string() })?;
    let tools = tool_schemas(genome);
    let context =
        PromptContext { seconds_limit: seconds, ..PromptContext::of(genome, terminal.workspace(), episode.task.job_type().as_str()) };
    let prompt = system_prompt(episode.harness, &context, &tools)
        .map_err(|error| Fault { boundary: Boundary::Harness, message: error.to_string() })?;
    let mut turn = Turn::new(episode, terminal, prompt, tools, EpisodeClock::new(seconds));
    let stop = turn.play().await;
    remains.messages = turn.conversation.transcript();
    remains.spent = turn.spent();
    remains.tally = std::mem::take(&mut turn.tally);
    match stop {
        Stop::Ended(ending) => Ok((turn.terminal, ending)),
        Stop::Faulted(fault) => Err(fault),
    }
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
