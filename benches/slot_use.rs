//! Use of the evaluation slots: eight slots, lognormal episode times (sigma 1.5, mean 20 ms), and a proposer that takes 50 ms for
//! every child. Prints one JSON line per figure.

#![expect(clippy::print_stdout, reason = "a bench prints its figures")]

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use harness_evo::base::{Amount, SeedTree, Snapshot};
use harness_evo::episode::Played;
use harness_evo::evaluation::{Attempts, EpisodePlayer, EvaluationError, Evaluator};
use harness_evo::evolution::{
    OperatorName, RewriteBrief, Rewriter, Rewritten, Search, SearchSettings, SearchSpace, StopSignals, birth, drive, make,
};
use harness_evo::harness::{Harness, block_library, builtin};
use harness_evo::store::{NullEpisodeLog, NullJournal};
use harness_evo::task::{
    Act, ActCall, ActRole, Check, CheckItem, JobType, Probe, SkillName, SplitTasks, Stake, Task, TaskBody, TaskLimits, Verdict,
};
use harness_evo::trajectory::{Ending, Outcome, Timing, Trajectory, Usage};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

const SLOTS: usize = 8;
const MEAN_MS: f64 = 20.0;
const SIGMA: f64 = 1.5;
const PROPOSER: Duration = Duration::from_millis(50);
const EPISODES: u64 = 8_000;
/// Share of the run, at its start and end, that is not counted: seeds and the last confirmations are few.
const EDGE: f64 = 0.1;

#[derive(Default)]
struct Sleeper {
    /// Start and end of every episode, in microseconds since `origin`.
    spans: std::sync::Mutex<Vec<(Instant, Instant)>>,
    played: AtomicU64,
}

#[async_trait::async_trait]
impl EpisodePlayer for Sleeper {
    fn fingerprint(&self) -> &str {
        "sleeper"
    }

    fn worst_price(&self) -> u64 {
        0
    }

    async fn play(&self, harness: &Harness, task: &Task, seed: u64, _cancel: &CancellationToken) -> Option<Played> {
        let node = SeedTree::new(seed).child(&task.id().to_string()).child(&harness.id().to_string());
        // Box-Muller; the mean of a lognormal is exp(mu + sigma^2 / 2).
        let normal =
            (-2.0 * (1.0 - node.child("radius").fraction()).ln()).sqrt() * (std::f64::consts::TAU * node.child("angle").fraction()).cos();
        let mu = MEAN_MS.ln() - SIGMA * SIGMA / 2.0;
        let start = Instant::now();
        tokio::time::sleep(Duration::from_secs_f64((mu + SIGMA * normal).exp() / 1e3)).await;
        if let Ok(mut spans) = self.spans.lock() {
            spans.push((start, Instant::now()));
        }
        self.played.fetch_add(1, Ordering::Relaxed);
        let score = f64::from(u8::from(node.child("luck").fraction() < 0.5));
        let trajectory = Trajectory {
            harness: harness.id(),
            model: "sleeper".to_owned(),
            task: task.id(),
            seed,
            tools: Vec::new(),
            messages: Vec::new(),
            usage: vec![Usage::default()],
            outcome: Outcome::Scored { verdict: Verdict { score, items: Vec::new() }, ending: Ending::Finished },
        };
        Some(Played { trajectory, timing: Timing::default(), micro_usd: 0, shell_calls: 1, gui_calls: 0 })
    }
}

struct SlowProposer;

#[async_trait::async_trait]
impl Rewriter for SlowProposer {
    async fn rewrite(&self, brief: &RewriteBrief, _evaluator: &Evaluator) -> Result<Rewritten, EvaluationError> {
        tokio::time::sleep(PROPOSER).await;
        let mut rng = SeedTree::new(brief.seed).rng();
        let child = make(OperatorName::Perturb, &brief.parent, None, block_library(), &mut rng);
        let child = child.and_then(|offspring| birth(&brief.parent, offspring));
        Ok(Rewritten { child, overhead: Amount::default() })
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let spans = runtime.block_on(run())?;
    let origin = spans.iter().map(|span| span.0).min().ok_or("nothing was played")?;
    let end = spans.iter().map(|span| span.1).max().ok_or("nothing was played")?;
    let total = end.duration_since(origin);
    let (from, to) = (origin + total.mul_f64(EDGE), end - total.mul_f64(EDGE));
    let inside = |span: &(Instant, Instant)| span.1.min(to).saturating_duration_since(span.0.max(from)).as_secs_f64();
    let usage = |busy: f64, wall: Duration| busy / (wall.as_secs_f64() * SLOTS as f64);
    let steady = usage(spans.iter().map(inside).sum(), to - from);
    let whole = usage(spans.iter().map(|span| span.1.duration_since(span.0).as_secs_f64()).sum(), total);
    for (figure, value) in [("slots in use, middle 80 % of the run", steady), ("slots in use, whole run", whole)] {
        let line = serde_json::json!({
            "bench": "slot_use", "figure": figure, "value": value, "unit": "share",
            "against": "gepa 0.1.4 with 8 proposals at a time, recorded 0.268", "ratio": value / 0.268,
        });
        println!("{line}");
    }
    Ok(())
}

async fn run() -> Result<Vec<(Instant, Instant)>, Box<dyn Error>> {
    let settings = SearchSettings {
        window: 64,
        stages: vec![6, 20],
        confirm_episodes: 20,
        limit: Amount { episodes: EPISODES, ..Amount::UNLIMITED },
        operators: [(OperatorName::Rewrite, 1)].into(),
        ..SearchSettings::default()
    };
    let tasks: Result<Vec<Arc<Task>>, Box<dyn Error>> = (0..60).map(task).collect();
    let space = SearchSpace {
        seeds: builtin()?.into_iter().map(|template| (template.name, Arc::new(template.harness))).collect(),
        job_types: vec![JobType::new("shell")?],
        tasks: SplitTasks::new(tasks?),
        library: Arc::new(block_library().clone()),
        worst_price: 0,
        attempts: 1,
    };
    let player = Arc::new(Sleeper::default());
    let (watcher, _attempts) = mpsc::unbounded_channel();
    let (events, _feed) = mpsc::unbounded_channel();
    let pool = Evaluator::new(Arc::clone(&player) as _, Arc::new(NullEpisodeLog), SLOTS, Attempts(1), watcher, CancellationToken::new());
    let mut search = Search::new(settings, space)?;
    let rewriter: Arc<dyn Rewriter> = Arc::new(SlowProposer);
    drive(&mut search, &Arc::new(pool), &rewriter, &mut NullJournal, &events, &StopSignals::default()).await?;
    let spans = player.spans.lock().map_err(|error| error.to_string())?.clone();
    Ok(spans)
}

fn task(index: u64) -> Result<Arc<Task>, Box<dyn Error>> {
    let probe = Probe::FileExists { path: "out".to_owned() };
    let call = ActCall::Run { command: format!("echo {index} > out") };
    let body = TaskBody {
        job_type: JobType::new("shell")?,
        skill: SkillName::new("bench")?,
        instruction: format!("Write {index} to the file out."),
        files: Snapshot::new(),
        limits: TaskLimits::default(),
        check: Check { items: vec![CheckItem { name: "out".to_owned(), stake: Stake::Credit, probe }] },
        solution: vec![Act { call, role: ActRole::Work, evidence: None, slip: None }],
        broken: Vec::new(),
    };
    Ok(Arc::new(Task::new(body)?))
}
