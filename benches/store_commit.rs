//! What the store costs per committed step, over 10^4 steps, and per recorded episode with a trajectory of 20 KB.
//! `cargo bench --bench store_commit [-- FOLDER]`; FOLDER chooses the disk, by default the system's temporary folder.
#![expect(clippy::print_stdout, reason = "a bench prints its figures")]

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use harness_evo::base::{Amount, SystemClock, Timestamp};
use harness_evo::evaluation::{EpisodeKey, EpisodeLog as _, EpisodeScore};
use harness_evo::evolution::{Birth, Evaluation, Journal as _, OperatorName, StepPlan, StepRecord, StepResult};
use harness_evo::harness::{Genome, Harness, HarnessId, diff};
use harness_evo::model::ModelId;
use harness_evo::store::{RunMeta, RunStore};
use harness_evo::task::{JobType, Split, TaskId, Verdict};
use harness_evo::trajectory::{Ending, Message, Outcome, Role, Timing, Trajectory, Usage};

const STEPS: u64 = 10_000;
const WINDOW: usize = 1_000;

fn genome(number: u64) -> Genome {
    let mut genome = Genome::offering([harness_evo::harness::ToolName::Bash, harness_evo::harness::ToolName::Finish]);
    // About as much text as a grown harness has.
    genome.prompt.role = format!("You are agent {number}. {}", "Work in short steps and look at every result. ".repeat(10));
    genome.prompt.verification = "List every requirement of the instruction and check each with a command before you finish. ".repeat(8);
    genome
}

fn task(number: u64) -> TaskId {
    TaskId::from_hash(&blake3::hash(&number.to_le_bytes()))
}

fn score(number: u64) -> EpisodeScore {
    EpisodeScore {
        task: task(number),
        seed: number,
        score: 0.5,
        steps: 7,
        tokens: 9000,
        micro_usd: 20,
        lost_tokens: 0,
        lost_micro_usd: 0,
        shell_calls: 6,
        gui_calls: 0,
    }
}

/// A child of the step before it, with eight episodes.
fn record(step: u64, parent: Option<HarnessId>) -> Result<StepRecord, Box<dyn Error>> {
    let genome = genome(step);
    let harness = Harness::new(genome.clone())?.id();
    let job_type = JobType::new("shell")?;
    let plan = match parent {
        Some(parent) => StepPlan::Child { operator: OperatorName::Perturb, parents: vec![parent], job_type: job_type.clone() },
        None => StepPlan::Seed { harness, template: "bench".to_owned() },
    };
    let changes = if step == 0 { Vec::new() } else { diff(&self::genome(step - 1), &genome)? };
    let birth = Birth { harness, genome, diff: changes, hypothesis: None };
    let episodes = (0..8).map(score).collect();
    let evaluation =
        Evaluation { harness, job_type, split: Split::Search, episodes, faulted: 0, faulted_attempts: 0, lost: Amount::default() };
    let result = StepResult::Evaluated { birth: Some(Box::new(birth)), evaluations: vec![evaluation], overhead: Amount::default() };
    Ok(StepRecord { step, plan, result, effects: Vec::new(), spent: Amount::default() })
}

/// 20 KB in the words of a terminal.
fn trajectory(harness: HarnessId, number: u64) -> Trajectory {
    let mut messages = vec![Message::text(Role::System, "You are an agent."), Message::text(Role::User, format!("Task {number}."))];
    for step in 0..7_u64 {
        let listing: String = (0..32)
            .map(|line| {
                format!(
                    "-rw-r--r-- 1 agent agent {} Jan  1 00:00 {}.txt\n",
                    number * 31 + line * 7,
                    blake3::hash(&(number ^ step ^ line).to_le_bytes())
                )
            })
            .collect();
        messages.push(Message::text(Role::User, listing));
    }
    let usage = vec![Usage { prompt_tokens: 1200, completion_tokens: 80, cached_tokens: 0 }; 7];
    let outcome = Outcome::Scored { verdict: Verdict { score: 0.5, items: Vec::new() }, ending: Ending::Finished };
    Trajectory { harness, model: "bench".to_owned(), task: task(number), seed: number, tools: Vec::new(), messages, usage, outcome }
}

fn say(what: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let micros = |time: Duration| time.as_secs_f64() * 1e6;
    let mean = micros(times.iter().sum::<Duration>()) / times.len() as f64;
    let (median, high) = (micros(times[times.len() / 2]), micros(times[times.len() * 99 / 100]));
    for (kind, value) in [("mean", mean), ("median", median), ("99 % below", high)] {
        let line = serde_json::json!({
            "bench": "store_commit", "figure": format!("{what}, {kind}"), "value": value, "unit": "us",
            "against": "one millisecond", "ratio": value / 1000.0,
        });
        println!("{line}");
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let root = std::env::args().skip(1).find(|argument| !argument.starts_with('-')).map_or_else(std::env::temp_dir, PathBuf::from);
    let folder = tempfile::tempdir_in(root)?;
    let model = ModelId { name: "bench".to_owned(), fingerprint: "bench".to_owned() };
    let meta = RunMeta { experiment: String::new(), seed: 0, model, simulated: true, created_at: Timestamp(0) };
    let store = RunStore::create(folder.path(), &meta, &[], Arc::new(SystemClock))?;
    let mut journal = store.journal();
    let (mut times, mut parent) = (Vec::new(), None);
    for step in 0..STEPS {
        let record = record(step, parent)?;
        let start = Instant::now();
        journal.commit(&record)?;
        times.push(start.elapsed());
        if let StepResult::Evaluated { birth: Some(birth), .. } = record.result {
            parent = Some(birth.harness);
        }
    }
    say("commit, the first 1000 steps", times[..WINDOW].to_vec());
    say("commit, the last 1000 of 10000 steps", times[times.len() - WINDOW..].to_vec());

    let harness = Harness::new(genome(0))?.id();
    let played: Vec<Trajectory> = (0..2000).map(|number| trajectory(harness, number)).collect();
    let (log, runtime) = (store.episode_log(), tokio::runtime::Builder::new_current_thread().build()?);
    let mut times = Vec::new();
    for trajectory in &played {
        let key = EpisodeKey { harness, task: trajectory.task, seed: trajectory.seed, model: "bench".to_owned() };
        let score = score(trajectory.seed);
        let start = Instant::now();
        runtime.block_on(log.record(&key, Split::Search, 0, trajectory, Timing::default(), Some(&score)))?;
        times.push(start.elapsed());
    }
    say("record, one worker", times);
    let mut times = Vec::new();
    for trajectory in &played {
        let key = EpisodeKey { harness, task: trajectory.task, seed: trajectory.seed, model: "bench".to_owned() };
        let start = Instant::now();
        let found = runtime.block_on(log.find(&key))?;
        times.push(start.elapsed());
        assert!(found.is_some());
    }
    say("find", times);
    Ok(())
}
