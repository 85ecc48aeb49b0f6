//! A world whose best harness is known: the chance to solve a task follows from a few genes, by job type.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::base::{Amount, SeedTree};
use crate::episode::Played;
use crate::evaluation::{Attempts, EpisodeKey, EpisodeLog, EpisodePlayer, EpisodeScore, EvaluationError, Evaluator, LogError};
use crate::evolution::{
    Journal, JournalError, Refusal, RewriteBrief, Rewriter, Rewritten, Search, SearchSettings, SearchSpace, StepRecord, StopSignals, drive,
};
use crate::harness::{BlockLibrary, Genome, Harness, ToolGene, ToolName};
use crate::task::{
    Act, ActCall, ActRole, Check, CheckItem, JobType, Probe, SkillName, Split, SplitTasks, Stake, Task, TaskBody, TaskId, Verdict,
};
use crate::trajectory::{Boundary, Ending, Fault, Outcome, Timing, Trajectory, Usage};

#[derive(Clone)]
pub(super) struct World {
    seed: u64,
    workers: usize,
    delay_seed: Option<u64>,
    fault_rate: f64,
    episodes: u64,
}

pub(super) struct Ran {
    pub(super) records: Vec<StepRecord>,
    pub(super) search: Search,
    pub(super) played: u64,
    tasks: Vec<Arc<Task>>,
}

impl Ran {
    pub(super) fn true_rate(&self, harness: &Harness, job: &str) -> f64 {
        rate(harness, job)
    }

    pub(super) fn split_of(&self, id: TaskId) -> Split {
        self.tasks.iter().find(|task| task.id() == id).unwrap().split()
    }
}

impl World {
    pub(super) fn new(seed: u64) -> Self {
        Self { seed, workers: 1, delay_seed: None, fault_rate: 0.0, episodes: 900 }
    }

    pub(super) fn workers(mut self, workers: usize) -> Self {
        self.workers = workers;
        self
    }

    pub(super) fn delays(mut self, seed: u64) -> Self {
        self.delay_seed = Some(seed);
        self
    }

    pub(super) fn faults(mut self, rate: f64) -> Self {
        self.fault_rate = rate;
        self
    }

    pub(super) fn episodes(mut self, episodes: u64) -> Self {
        self.episodes = episodes;
        self
    }

    pub(super) fn search(&self) -> Search {
        let settings = SearchSettings {
            seed: self.seed,
            window: 6,
            stages: vec![3, 8],
            confirm_episodes: 30,
            confirm_after: 8,
            limit: Amount { episodes: self.episodes, ..Amount::UNLIMITED },
            ..SearchSettings::default()
        };
        Search::new(settings, space()).unwrap()
    }
}

fn tasks() -> Vec<Arc<Task>> {
    let mut tasks = Vec::new();
    for job in ["alpha", "beta"] {
        for index in 0..40 {
            let body = TaskBody {
                job_type: JobType::new(job).unwrap(),
                skill: SkillName::new("probe").unwrap(),
                instruction: format!("Write {index} to out."),
                files: crate::base::Snapshot::new(),
                limits: crate::task::TaskLimits::default(),
                check: Check {
                    items: vec![CheckItem {
                        name: "out".to_owned(),
                        stake: Stake::Credit,
                        probe: Probe::FileExists { path: "out".to_owned() },
                    }],
                },
                solution: vec![Act {
                    call: ActCall::Run { command: format!("echo {index} > out") },
                    role: ActRole::Work,
                    evidence: None,
                    slip: None,
                }],
                broken: Vec::new(),
            };
            tasks.push(Arc::new(Task::new(body).unwrap()));
        }
    }
    tasks
}

fn space() -> SearchSpace {
    let mut genome = Genome::default();
    for tool in [ToolName::Bash, ToolName::Finish] {
        genome.tools.insert(tool, ToolGene::default());
    }
    let plain = Harness::new(genome.clone()).unwrap();
    genome.limits.steps = 60;
    let long = Harness::new(genome).unwrap();
    SearchSpace {
        seeds: vec![("plain".to_owned(), Arc::new(plain)), ("long".to_owned(), Arc::new(long))],
        job_types: vec![JobType::new("alpha").unwrap(), JobType::new("beta").unwrap()],
        tasks: SplitTasks::new(tasks()),
        library: Arc::new(BlockLibrary::default()),
        worst_price: 0,
        attempts: 12,
    }
}

/// `alpha` wants a cool model with the Python tool and few steps; `beta` wants a large view and no Python.
fn rate(harness: &Harness, job: &str) -> f64 {
    let genome = harness.genome();
    let python = f64::from(u8::from(genome.tools.contains_key(&ToolName::Python)));
    match job {
        "alpha" => 0.2 + 0.35 * python + 0.4 * (1.0 - genome.sampling.temperature / 2.0),
        _ => 0.1 + 0.2 * (1.0 - python) + 0.65 * (f64::from(genome.observation.head_bytes) / 6_000.0).min(1.0),
    }
}

struct Player {
    world: World,
    played: AtomicU64,
    tries: Mutex<BTreeMap<(String, u64), u64>>,
}

#[async_trait::async_trait]
impl EpisodePlayer for Player {
    fn fingerprint(&self) -> &'static str {
        "world"
    }

    fn worst_price(&self) -> u64 {
        0
    }

    async fn play(&self, harness: &Harness, task: &Task, seed: u64, _cancel: &CancellationToken) -> Option<Played> {
        let node = SeedTree::new(seed).child(&task.id().to_string());
        let attempt = {
            let mut tries = self.tries.lock().unwrap();
            let tried = tries.entry((format!("{}{}", harness.id(), task.id()), seed)).or_default();
            *tried += 1;
            *tried
        };
        if let Some(delay) = self.world.delay_seed {
            let micros = (node.index(delay).fraction() * 3000.0) as u64;
            tokio::time::sleep(Duration::from_micros(micros)).await;
        }
        let outcome = if node.child(&harness.id().to_string()).index(attempt).fraction() < self.world.fault_rate {
            Outcome::Faulted { fault: Fault { boundary: Boundary::Provider, message: "429".to_owned() } }
        } else {
            self.played.fetch_add(1, Ordering::Relaxed);
            let score = f64::from(u8::from(node.child("luck").fraction() < rate(harness, task.job_type().as_str())));
            Outcome::Scored { verdict: Verdict { score, items: Vec::new() }, ending: Ending::Finished }
        };
        let trajectory = Trajectory {
            harness: harness.id(),
            model: "world".to_owned(),
            task: task.id(),
            seed,
            tools: Vec::new(),
            messages: Vec::new(),
            usage: vec![Usage { prompt_tokens: 100, completion_tokens: u64::from(harness.genome().limits.steps), cached_tokens: 0 }],
            outcome,
        };
        Some(Played { trajectory, timing: Timing::default(), micro_usd: 0, shell_calls: 1, gui_calls: 0 })
    }
}

#[derive(Default)]
struct MemoryLog {
    scores: Mutex<BTreeMap<EpisodeKey, EpisodeScore>>,
}

#[async_trait::async_trait]
impl EpisodeLog for MemoryLog {
    async fn find(&self, key: &EpisodeKey) -> Result<Option<EpisodeScore>, LogError> {
        Ok(self.scores.lock().unwrap().get(key).cloned())
    }

    async fn trajectory(&self, _key: &EpisodeKey) -> Result<Option<Trajectory>, LogError> {
        Ok(None)
    }

    async fn record(
        &self,
        key: &EpisodeKey,
        _split: Split,
        _attempt: u32,
        _trajectory: &Trajectory,
        _timing: Timing,
        score: Option<&EpisodeScore>,
    ) -> Result<(), LogError> {
        if let Some(score) = score {
            let before = self.scores.lock().unwrap().insert(key.clone(), score.clone());
            assert!(before.is_none(), "an episode was played twice");
        }
        Ok(())
    }
}

struct NoRewriter;

#[async_trait::async_trait]
impl Rewriter for NoRewriter {
    async fn rewrite(&self, _brief: &RewriteBrief, _evaluator: &Evaluator) -> Result<Rewritten, EvaluationError> {
        let refusal = Refusal::OperatorFault { reason: "no model".to_owned() };
        Ok(Rewritten { child: Err(refusal), overhead: Amount::default() })
    }
}

struct MemoryJournal(Vec<StepRecord>);

impl Journal for MemoryJournal {
    fn commit(&mut self, record: &StepRecord) -> Result<(), JournalError> {
        self.0.push(record.clone());
        Ok(())
    }
}

pub(super) async fn run(world: &World) -> Ran {
    run_from(world, &[]).await
}

pub(super) async fn run_from(world: &World, before: &[StepRecord]) -> Ran {
    let mut search = world.search();
    for record in before {
        search.replay(record).unwrap();
    }
    let player = Arc::new(Player { world: world.clone(), played: AtomicU64::new(0), tries: Mutex::default() });
    let (watcher, _) = mpsc::unbounded_channel();
    let (events, _) = mpsc::unbounded_channel();
    let log = Arc::new(MemoryLog::default());
    let pool = Evaluator::new(Arc::clone(&player) as _, log, world.workers, Attempts(12), watcher, CancellationToken::new());
    let rewriter: Arc<dyn Rewriter> = Arc::new(NoRewriter);
    let mut journal = MemoryJournal(Vec::new());
    drive(&mut search, &Arc::new(pool), &rewriter, &mut journal, &events, &StopSignals::default()).await.unwrap();
    Ran { records: journal.0, search, played: player.played.load(Ordering::Relaxed), tasks: tasks() }
}
