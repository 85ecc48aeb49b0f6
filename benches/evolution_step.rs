//! Overhead of one evolution step: the whole engine (decide, operators, episode loop, evaluation pool, journal and episode log in
//! the write-ahead log of a database on disk) around a model that answers at once and a sandbox in which nothing runs.
//!
//! Prints one JSON line per figure: the mean time from one new harness to the next, refused proposals included, over the first and
//! the last thousand of ten thousand harnesses.

#![expect(clippy::print_stdout, reason = "a bench prints its figures")]

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use harness_evo::base::{Amount, Snapshot, SystemClock, Timestamp};
use harness_evo::evaluation::{Attempts, Evaluator, ModelPlayer};
use harness_evo::evolution::{
    Journal, JournalError, ModelRewriter, OperatorName, Rewriter, Search, SearchSettings, SearchSpace, StepRecord, StepResult, StopSignals,
    drive,
};
use harness_evo::harness::{block_library, builtin};
use harness_evo::model::{ChatReply, ChatRequest, LanguageModel, ModelError, ModelId, StopReason};
use harness_evo::sandbox::{CommandEnd, CommandOutput, Policy, Sandbox, SandboxError, Session};
use harness_evo::store::{RunMeta, RunStore, StepJournal};
use harness_evo::task::{
    Act, ActCall, ActRole, Check, CheckItem, JobType, Probe, SkillName, SplitTasks, Stake, Task, TaskBody, TaskLimits,
};
use harness_evo::trajectory::{Message, Role, ToolCall, Usage};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

const HARNESSES: usize = 10_000;
const SPAN: usize = 1_000;
/// GEPA 0.1.4 on a 2-core machine, milliseconds per iteration: without a run directory from the first tenth of 1,000 iterations to
/// the last, and with one. Recorded figures, not measured beside this bench.
const GEPA_MS: [(&str, f64); 3] = [("average", 4.6), ("last tenth", 13.5), ("last tenth, with run_dir", 95.8)];

struct Instantly(ModelId);

#[async_trait::async_trait]
impl LanguageModel for Instantly {
    fn id(&self) -> &ModelId {
        &self.0
    }

    async fn complete(&self, request: &ChatRequest) -> Result<ChatReply, ModelError> {
        let (name, arguments) = if request.tag.step == 0 { ("bash", "{\"command\":\"true\"}") } else { ("finish", "{}") };
        let call = ToolCall { id: format!("call-{}", request.tag.step), name: name.to_owned(), arguments: arguments.to_owned() };
        Ok(ChatReply {
            message: Message { tool_calls: vec![call], ..Message::text(Role::Assistant, "") },
            usage: Usage { prompt_tokens: 200, completion_tokens: 10, cached_tokens: 0 },
            stop: StopReason::ToolCalls,
            logprobs: Vec::new(),
            prompt_token_ids: Vec::new(),
            completion_token_ids: Vec::new(),
        })
    }
}

/// A sandbox in which nothing runs and every command prints a line: a look at it satisfies the self-check of a harness, so that no
/// delay of a retry rule, which is no overhead of the engine, is slept.
struct Echo;

struct EchoSession(Snapshot);

#[async_trait::async_trait]
impl Sandbox for Echo {
    fn name(&self) -> &'static str {
        "echo"
    }

    async fn start(&self, _: &Policy, files: &Snapshot, _: &BTreeMap<String, String>) -> Result<Box<dyn Session>, SandboxError> {
        Ok(Box::new(EchoSession(files.clone())))
    }
}

#[async_trait::async_trait]
impl Session for EchoSession {
    fn workspace(&self) -> &'static str {
        "/home/agent"
    }

    async fn run(&mut self, _: &str, _: &str, _: Duration) -> Result<CommandOutput, SandboxError> {
        Ok(CommandOutput { text: "ok\n".to_owned(), omitted_bytes: 0, end: CommandEnd::Exited(0) })
    }

    async fn finish(self: Box<Self>) -> Result<Snapshot, SandboxError> {
        Ok(self.0)
    }
}

/// Notes when each new harness was committed, and ends the run when there are enough.
struct Timed {
    inner: StepJournal,
    /// When, and after how many steps.
    births: Vec<(Instant, u64)>,
    steps: u64,
    enough: CancellationToken,
}

impl Journal for Timed {
    fn commit(&mut self, record: &StepRecord) -> Result<(), JournalError> {
        self.inner.commit(record)?;
        self.steps += 1;
        if matches!(record.result, StepResult::Evaluated { birth: Some(_), .. }) {
            self.births.push((Instant::now(), self.steps));
        }
        if self.births.len() >= HARNESSES {
            self.enough.cancel();
        }
        Ok(())
    }
}

fn tasks() -> Result<Vec<Arc<Task>>, Box<dyn Error>> {
    (0..100)
        .map(|index| {
            let probe = Probe::FileExists { path: "out".to_owned() };
            let body = TaskBody {
                job_type: JobType::new("shell")?,
                skill: SkillName::new("bench")?,
                instruction: format!("Write {index} to the file out."),
                files: Snapshot::new(),
                limits: TaskLimits::default(),
                check: Check { items: vec![CheckItem { name: "out".to_owned(), stake: Stake::Credit, probe }] },
                solution: vec![Act {
                    call: ActCall::Run { command: format!("echo {index} > out") },
                    role: ActRole::Work,
                    evidence: None,
                    slip: None,
                }],
                broken: Vec::new(),
            };
            Ok(Arc::new(Task::new(body)?))
        })
        .collect()
}

fn main() -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let folder = tempfile::tempdir()?;
    let births = runtime.block_on(run(folder.path()))?;
    let (first, last) = (Span::of(&births[..SPAN]), Span::of(&births[births.len() - SPAN..]));
    let line = |figure: &str, value: f64, unit: &str, against: &str, ratio: f64| {
        let line = serde_json::json!({
            "bench": "evolution_step", "figure": figure, "value": value, "unit": unit, "against": against, "ratio": ratio,
        });
        println!("{line}");
    };
    for (name, gepa) in GEPA_MS {
        let against = format!("gepa 0.1.4, {name}, recorded {gepa} ms");
        line("a step, first 1000 harnesses", first.step_ms, "ms", &against, first.step_ms / gepa);
    }
    line("a step, last 1000 of 10000 harnesses", last.step_ms, "ms", "a step, first 1000", last.step_ms / first.step_ms);
    line("a new harness, first 1000", first.harness_ms, "ms", "one millisecond", first.harness_ms);
    line("a new harness, last 1000 of 10000", last.harness_ms, "ms", "one millisecond", last.harness_ms);
    Ok(())
}

/// Mean times over some births.
struct Span {
    step_ms: f64,
    harness_ms: f64,
}

impl Span {
    fn of(births: &[(Instant, u64)]) -> Self {
        let (start, end) = (births[0], births[births.len() - 1]);
        let total = end.0.duration_since(start.0).as_secs_f64() * 1e3;
        Self { step_ms: total / (end.1 - start.1) as f64, harness_ms: total / (births.len() - 1) as f64 }
    }
}

async fn run(folder: &std::path::Path) -> Result<Vec<(Instant, u64)>, Box<dyn Error>> {
    let tasks = tasks()?;
    let model = Arc::new(Instantly(ModelId { name: "instant".to_owned(), fingerprint: "instant".to_owned() }));
    let settings = SearchSettings {
        window: 16,
        stages: vec![1, 3],
        confirm_episodes: 3,
        limit: Amount::UNLIMITED,
        // Nothing wins with a null sandbox, so parents stay the same: operators with few children per parent would repeat themselves.
        operators: [OperatorName::Perturb, OperatorName::BlockSwap].map(|operator| (operator, 1)).into(),
        ..SearchSettings::default()
    };
    let seeds = builtin()?.into_iter().map(|template| (template.name, Arc::new(template.harness))).collect();
    let space = SearchSpace {
        seeds,
        job_types: vec![JobType::new("shell")?],
        tasks: SplitTasks::new(tasks.clone()),
        library: Arc::new(block_library().clone()),
        worst_price: 0,
        attempts: 1,
    };
    let meta = RunMeta { experiment: "bench".to_owned(), seed: 0, model: model.id().clone(), simulated: true, created_at: Timestamp(0) };
    let store = RunStore::create(&folder.join("run"), &meta, &tasks, Arc::new(SystemClock))?;
    let player = ModelPlayer { model: Arc::clone(&model) as _, sandbox: Arc::new(Echo), policy: Policy::default() };
    let (watcher, _attempts) = mpsc::unbounded_channel();
    let (events, _feed) = mpsc::unbounded_channel();
    let log = Arc::new(store.episode_log());
    let pool = Arc::new(Evaluator::new(Arc::new(player), log, 4, Attempts(1), watcher, CancellationToken::new()));
    let search_tasks = space.tasks.search.clone();
    let mut search = Search::new(settings, space)?;
    let rewriter: Arc<dyn Rewriter> = Arc::new(ModelRewriter::new(model, &search_tasks, CancellationToken::new()));
    let signals = StopSignals::default();
    let mut journal = Timed { inner: store.journal(), births: Vec::new(), steps: 0, enough: signals.drain.clone() };
    drive(&mut search, &pool, &rewriter, &mut journal, &events, &signals).await?;
    Ok(journal.births)
}
