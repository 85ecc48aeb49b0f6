//! The student's own episodes, for reinforcement.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rand::seq::SliceRandom as _;
use serde::Serialize;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::metrics::unwritable;
use crate::base::SeedTree;
use crate::cli::failure::Failure;
use crate::episode::{Episode, Played, play};
use crate::harness::Harness;
use crate::model::{ChatReply, ChatRequest, LanguageModel, ModelError, ModelId};
use crate::sandbox::{Policy, Sandbox};
use crate::student::generation::DecodingLimits;
use crate::student::rl::{Group, Rollout, RolloutEnd, RolloutError, Rollouts, Turn};
use crate::student::{Student, StudentModel};
use crate::task::Task;
use crate::trajectory::{Ending, Outcome, Trajectory};

/// What is played, and where.
pub(super) struct SelfPlay {
    pub(super) student: Arc<Student>,
    pub(super) stage: Arc<Stage>,
    /// Those of the search split.
    pub(super) tasks: Vec<Arc<Task>>,
    pub(super) seeds: SeedTree,
    pub(super) workers: usize,
    pub(super) limits: DecodingLimits,
    pub(super) runtime: tokio::runtime::Runtime,
    pub(super) interrupted: CancellationToken,
    pub(super) log: RolloutLog,
}

/// What all episodes have in common.
pub(super) struct Stage {
    pub(super) harness: Harness,
    pub(super) sandbox: Arc<dyn Sandbox>,
    pub(super) policy: Policy,
}

/// Which episode of a step it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    group: usize,
    member: usize,
}

impl Rollouts for SelfPlay {
    fn identity(&self) -> String {
        let tasks: Vec<String> = self.tasks.iter().map(|task| task.id().to_string()).collect();
        format!("{} {}", self.stage.harness.id(), tasks.join(" "))
    }

    fn play(&mut self, step: u64, from: usize, count: usize, size: usize) -> Result<Vec<Group>, RolloutError> {
        let order = self.order(step);
        let places = (from..from + count).flat_map(|group| (0..size).map(move |member| Place { group, member }));
        let seeds = self.seeds.child("episodes").index(step);
        let episodes = places.map(|place| {
            let Place { group, member } = place;
            // SQLite and most programs know signed numbers only.
            let seed = seeds.index(group as u64).index(member as u64).value() >> 1;
            (place, Arc::clone(&order[group % order.len()]), seed)
        });
        let episodes: Vec<_> = episodes.collect();
        // The weights have moved: a model of its own for each play.
        let model = StudentModel::start(Arc::clone(&self.student), "student", Vec::new(), self.limits)
            .map_err(|error| RolloutError::Failed(error.to_string()))?
            .with_plain_sampling();
        let played = play_all(Arc::new(model), &self.stage, episodes, self.workers, &self.interrupted);
        let played = self.runtime.block_on(played)?;
        self.log.keep(step, &played)?;
        groups(played)
    }
}

impl SelfPlay {
    /// The tasks in the order in which the groups of `step` take them: none twice before all were taken once.
    fn order(&self, step: u64) -> Vec<Arc<Task>> {
        let mut order = self.tasks.clone();
        order.shuffle(&mut self.seeds.child("tasks").index(step).rng());
        order
    }
}

/// An episode that was played, with its requests and replies as tokens.
struct Rolled {
    place: Place,
    task: Arc<Task>,
    trajectory: Trajectory,
    turns: Vec<Turn>,
}

impl Rolled {
    fn end(&self) -> RolloutEnd {
        match &self.trajectory.outcome {
            Outcome::Faulted { .. } => RolloutEnd::Faulted,
            Outcome::Scored { verdict, ending } => match ending {
                Ending::StepLimit | Ending::TokenLimit | Ending::TimeLimit => RolloutEnd::Truncated { reward: verdict.score },
                Ending::Finished | Ending::Malformed | Ending::ToolErrors => RolloutEnd::Scored { reward: verdict.score },
            },
        }
    }
}

/// Plays `episodes`, `workers` at a time; they come back in the order of their places.
async fn play_all(
    model: Arc<StudentModel>,
    stage: &Arc<Stage>,
    episodes: Vec<(Place, Arc<Task>, u64)>,
    workers: usize,
    interrupted: &CancellationToken,
) -> Result<Vec<Rolled>, RolloutError> {
    let slots = Arc::new(Semaphore::new(workers));
    let mut running = JoinSet::new();
    for (place, task, seed) in episodes {
        let (model, stage, slots, interrupted) = (Arc::clone(&model), Arc::clone(stage), Arc::clone(&slots), interrupted.clone());
        running.spawn(async move {
            let _slot = slots.acquire().await.ok()?;
            play_one(&model, &stage, place, task, seed, &interrupted).await
        });
    }
    let mut played = Vec::with_capacity(running.len());
    while let Some(ended) = running.join_next().await {
        let rolled = ended.map_err(|error| RolloutError::Failed(format!("an episode's task failed: {error}")))?;
        played.push(rolled.ok_or(RolloutError::Stopped)?);
    }
    played.sort_by_key(|rolled| rolled.place);
    Ok(played)
}

async fn play_one(
    model: &Arc<StudentModel>,
    stage: &Stage,
    place: Place,
    task: Arc<Task>,
    seed: u64,
    interrupted: &CancellationToken,
) -> Option<Rolled> {
    let recorded = Recorded { model, turns: Mutex::default() };
    let Stage { harness, sandbox, policy } = stage;
    let episode = Episode { harness, task: &task, seed, model: &recorded, sandbox: sandbox.as_ref(), policy };
    let Played { trajectory, .. } = play(&episode, interrupted).await?;
    let turns = recorded.turns.into_inner().unwrap_or_else(PoisonError::into_inner);
    Some(Rolled { place, task, trajectory, turns })
}

/// The student, and what it read and drew in one episode.
struct Recorded<'m> {
    model: &'m StudentModel,
    turns: Mutex<Vec<Turn>>,
}

#[async_trait::async_trait]
impl LanguageModel for Recorded<'_> {
    fn id(&self) -> &ModelId {
        self.model.id()
    }

    async fn complete(&self, request: &ChatRequest) -> Result<ChatReply, ModelError> {
        let reply = self.model.complete(request).await?;
        let turn = Turn {
            prompt: reply.prompt_token_ids.clone(),
            reply: reply.completion_token_ids.clone(),
            logprobs: reply.logprobs.iter().map(|token| token.logprob).collect(),
        };
        self.turns.lock().unwrap_or_else(PoisonError::into_inner).push(turn);
        Ok(reply)
    }
}

/// The episodes by group. Where every single one faulted nothing can be learnt, now or later: the fault is told.
fn groups(played: Vec<Rolled>) -> Result<Vec<Group>, RolloutError> {
    let fault = |rolled: &Rolled| match &rolled.trajectory.outcome {
        Outcome::Faulted { fault } => Some(fault.to_string()),
        Outcome::Scored { .. } => None,
    };
    let faults: Vec<String> = played.iter().filter_map(fault).collect();
    if let Some(last) = faults.last().filter(|_| faults.len() == played.len()) {
        return Err(RolloutError::Failed(format!("all {} episodes of a step faulted; the last: {last}", played.len())));
    }
    let mut groups: Vec<Group> = Vec::new();
    let mut number = None;
    for rolled in played {
        if number != Some(rolled.place.group) {
            number = Some(rolled.place.group);
            groups.push(Group { task: rolled.task.id(), rollouts: Vec::new() });
        }
        let rollout = Rollout { seed: rolled.trajectory.seed, end: rolled.end(), turns: rolled.turns };
        if let Some(group) = groups.last_mut() {
            group.rollouts.push(rollout);
        }
    }
    Ok(groups)
}

/// Every episode that was played, one JSON object a line.
pub(super) struct RolloutLog {
    path: PathBuf,
    file: File,
}

#[derive(Serialize)]
struct RolloutLine<'r> {
    step: u64,
    group: usize,
    skill: String,
    reward: Option<f64>,
    truncated: bool,
    drawn_tokens: usize,
    trajectory: &'r Trajectory,
}

impl RolloutLog {
    /// Appends to the file at `path`.
    pub(super) fn open(path: &Path) -> Result<Self, Failure> {
        let file = File::options().create(true).append(true).open(path).map_err(|error| unwritable(path, &error))?;
        Ok(Self { path: path.to_owned(), file })
    }

    fn keep(&mut self, step: u64, played: &[Rolled]) -> Result<(), RolloutError> {
        for rolled in played {
            let end = rolled.end();
            let line = RolloutLine {
                step,
                group: rolled.place.group,
                skill: rolled.task.body().skill.to_string(),
                reward: end.reward(),
                truncated: matches!(end, RolloutEnd::Truncated { .. }),
                drawn_tokens: rolled.turns.iter().map(|turn| turn.reply.len()).sum(),
                trajectory: &rolled.trajectory,
            };
            let text = serde_json::to_string(&line).map_err(std::io::Error::other);
            text.and_then(|text| writeln!(self.file, "{text}")).map_err(|source| RolloutError::Log { path: self.path.clone(), source })?;
        }
        Ok(())
    }
}
