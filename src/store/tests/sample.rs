//! A small run with known figures.

use std::sync::Arc;

use crate::archive::Niche;
use crate::base::{Amount, FixedClock, Timestamp};
use crate::evaluation::{EpisodeKey, EpisodeLog as _, EpisodeScore, Interval};
use crate::evolution::{ComparisonRole, ComparisonRow, Effect, Evaluation, Journal as _, Refusal, StepPlan, StepRecord, StepResult};
use crate::harness::{Genome, Harness, HarnessId, diff};
use crate::lineage::{Birth, Hypothesis, JudgedHypothesis, OperatorName};
use crate::model::ModelId;
use crate::store::{RunMeta, RunStore};
use crate::task::{
    Act, ActCall, ActRole, Check, CheckItem, JobType, Probe, SkillName, Split, Stake, Task, TaskBody, TaskId, TaskLimits, Verdict,
};
use crate::trajectory::{Boundary, Ending, Fault, Message, Outcome, Role, Timing, ToolCall, ToolSchema, Trajectory, Usage};

pub(super) const CREATED: Timestamp = Timestamp(1_767_225_600_000);

pub(super) fn clock() -> Arc<FixedClock> {
    Arc::new(FixedClock(CREATED))
}

pub(super) fn meta() -> RunMeta {
    RunMeta {
        experiment: "seed = 7\n".to_owned(),
        seed: 7,
        model: ModelId { name: "tiny".to_owned(), fingerprint: "test:tiny".to_owned() },
        simulated: true,
        created_at: CREATED,
    }
}

pub(super) fn shell() -> JobType {
    JobType::new("shell").unwrap()
}

/// The first task of `job_type` that falls into `split`; splits follow from ids, so its instruction is counted up until it does.
pub(super) fn task(job_type: &str, split: Split) -> Arc<Task> {
    (0..1000)
        .map(|number| {
            let body = TaskBody {
                job_type: JobType::new(job_type).unwrap(),
                skill: SkillName::new("count").unwrap(),
                instruction: format!("Write {number} to out.txt."),
                files: crate::base::Snapshot::new(),
                limits: TaskLimits::default(),
                check: Check {
                    items: vec![CheckItem {
                        name: "out".to_owned(),
                        stake: Stake::Credit,
                        probe: Probe::FileEquals { path: "out.txt".to_owned(), text: number.to_string() },
                    }],
                },
                solution: vec![Act {
                    call: ActCall::Write { path: "out.txt".to_owned(), content: number.to_string() },
                    role: ActRole::Work,
                    evidence: None,
                    slip: None,
                }],
                broken: Vec::new(),
            };
            Arc::new(Task::new(body).unwrap())
        })
        .find(|task| task.split() == split)
        .unwrap()
}

pub(super) fn tasks() -> Vec<Arc<Task>> {
    let mut tasks: Vec<_> =
        ["shell", "data"].iter().flat_map(|kind| [Split::Search, Split::Validate, Split::Sealed].map(|split| task(kind, split))).collect();
    tasks.sort_by_key(|task| task.id());
    tasks
}

pub(super) fn genome(number: u32) -> Genome {
    let mut genome = Genome::offering([crate::harness::ToolName::Bash, crate::harness::ToolName::Finish]);
    genome.prompt.role = format!("You are agent {number}.");
    genome
}

pub(super) fn id(number: u32) -> HarnessId {
    Harness::new(genome(number)).unwrap().id()
}

pub(super) fn birth(number: u32, parent: Option<u32>) -> Box<Birth> {
    Box::new(Birth {
        harness: id(number),
        genome: genome(number),
        diff: parent.map(|parent| diff(&genome(parent), &genome(number)).unwrap()).unwrap_or_default(),
        hypothesis: parent.map(|parent| Hypothesis { text: format!("better than {parent}"), ..Hypothesis::default() }),
    })
}

pub(super) fn score(task: TaskId, seed: u64, score: f64) -> EpisodeScore {
    EpisodeScore { task, seed, score, steps: 2, tokens: 330, micro_usd: 5, lost_tokens: 0, lost_micro_usd: 0, shell_calls: 1, gui_calls: 0 }
}

pub(super) fn evaluated(
    step: u64,
    plan: StepPlan,
    birth: Option<Box<Birth>>,
    episodes: Vec<EpisodeScore>,
    effects: Vec<Effect>,
) -> StepRecord {
    let harness = match (&plan, &birth) {
        (_, Some(birth)) => birth.harness,
        (StepPlan::Confirm { harness, .. }, None) => *harness,
        _ => id(0),
    };
    let split = if matches!(plan, StepPlan::Confirm { .. }) { Split::Validate } else { Split::Search };
    let evaluation = Evaluation { harness, job_type: shell(), split, episodes, faulted: 0, faulted_attempts: 0, lost: Amount::default() };
    let result = StepResult::Evaluated { birth, evaluations: vec![evaluation], overhead: Amount { tokens: 11, ..Amount::default() } };
    StepRecord { step, plan, result, effects, spent: Amount { episodes: step + 1, tokens: 1000 * (step + 1), micro_usd: 10 * (step + 1) } }
}

pub(super) fn niche() -> Niche {
    Niche { job_type: shell(), steps_bin: 0, tokens_bin: 1 }
}

/// Seeds 0 and 1, child 2 of 0, a refusal, child 3 of 2 and 1, confirmations of 2 and then 3.
pub(super) fn records() -> Vec<StepRecord> {
    let search = task("shell", Split::Search).id();
    let validate = task("shell", Split::Validate).id();
    let taken = |number: u32, previous: Option<u32>, mean: f64| Effect::NicheTaken {
        niche: niche(),
        harness: id(number),
        previous: previous.map(id),
        mean,
        episodes: 1,
    };
    let confirmed = |number: u32, rate: f64| Effect::EliteConfirmed {
        niche: niche(),
        harness: id(number),
        rate,
        low: rate - 0.25,
        high: rate + 0.125,
        episodes: 8,
        mean_steps: 2.5,
        mean_tokens: 330.0,
        mean_micro_usd: 5.0,
    };
    let child =
        |operator, parents: &[u32]| StepPlan::Child { operator, parents: parents.iter().copied().map(id).collect(), job_type: shell() };
    let seed = |number: u32, template: &str| StepPlan::Seed { harness: id(number), template: template.to_owned() };
    let judged = JudgedHypothesis { difference: 0.1, low: -0.2, high: 0.4, pairs: 3 };
    vec![
        evaluated(0, seed(0, "minimal"), Some(birth(0, None)), vec![score(search, 1, 0.5)], vec![taken(0, None, 0.5)]),
        evaluated(1, seed(1, "coder"), Some(birth(1, None)), vec![score(search, 1, 0.25)], Vec::new()),
        evaluated(
            2,
            child(OperatorName::Rewrite, &[0]),
            Some(birth(2, Some(0))),
            vec![score(search, 1, 1.0)],
            vec![taken(2, Some(0), 1.0), Effect::HypothesisJudged { harness: id(2), judged }],
        ),
        StepRecord {
            step: 3,
            plan: child(OperatorName::Perturb, &[2]),
            result: StepResult::Refused { refusal: Refusal::Duplicate { harness: id(0) }, overhead: Amount::default() },
            effects: Vec::new(),
            spent: Amount { episodes: 4, tokens: 4000, micro_usd: 40 },
        },
        evaluated(4, StepPlan::Confirm { harness: id(2), niche: niche() }, None, vec![score(validate, 9, 1.0)], vec![confirmed(2, 0.5)]),
        evaluated(
            5,
            child(OperatorName::Crossover, &[2, 1]),
            Some(birth(3, Some(2))),
            vec![score(search, 1, 1.0), score(search, 2, 1.0 / 3.0)],
            vec![taken(3, Some(2), 2.0 / 3.0)],
        ),
        evaluated(6, StepPlan::Confirm { harness: id(3), niche: niche() }, None, vec![score(validate, 9, 1.0)], vec![confirmed(3, 0.625)]),
        evaluated(7, StepPlan::Confirm { harness: id(3), niche: niche() }, None, vec![score(validate, 9, 1.0)], vec![confirmed(3, 0.75)]),
    ]
}

pub(super) fn key(harness: HarnessId, task: TaskId, seed: u64) -> EpisodeKey {
    EpisodeKey { harness, task, seed, model: meta().model.fingerprint }
}

pub(super) fn trajectory(harness: HarnessId, task: TaskId, seed: u64, outcome: Outcome) -> Trajectory {
    let call = ToolCall { id: "c0".to_owned(), name: "bash".to_owned(), arguments: r#"{"command": "ls"}"#.to_owned() };
    let mut asks = Message::text(Role::Assistant, "");
    asks.tool_calls.push(call);
    let schema = serde_json::json!({"type": "object", "properties": {"command": {"type": "string"}}});
    Trajectory {
        harness,
        model: "tiny".to_owned(),
        task,
        seed,
        tools: vec![ToolSchema { name: "bash".to_owned(), description: "Runs a command.".to_owned(), parameters: schema }],
        messages: vec![
            Message::text(Role::System, "You are an agent."),
            Message::text(Role::User, format!("Task {task}, seed {seed}.")),
            asks,
            Message::tool_result("c0", "out.txt"),
            Message::text(Role::Assistant, "done"),
        ],
        usage: vec![
            Usage { prompt_tokens: 100, completion_tokens: 10, cached_tokens: 0 },
            Usage { prompt_tokens: 200, completion_tokens: 20, cached_tokens: 0 },
        ],
        outcome,
    }
}

pub(super) fn scored(score: f64) -> Outcome {
    Outcome::Scored { verdict: Verdict { score, items: Vec::new() }, ending: Ending::Finished }
}

pub(super) fn faulted() -> Outcome {
    Outcome::Faulted { fault: Fault { boundary: Boundary::Provider, message: "429".to_owned() } }
}

pub(super) const TIMING: Timing = Timing { total_ms: 1500, model_ms: 1000, tools_ms: 300, sandbox_ms: 150, check_ms: 50 };

/// Plays one episode into the log.
pub(super) async fn play(store: &RunStore, harness: HarnessId, task: &Task, seed: u64, outcome: Outcome) {
    let episode_score = outcome.score().map(|value| score(task.id(), seed, value));
    let trajectory = trajectory(harness, task.id(), seed, outcome);
    let key = key(harness, task.id(), seed);
    store.episode_log().record(&key, task.split(), 0, &trajectory, TIMING, episode_score.as_ref()).await.unwrap();
}

pub(super) fn report_row(role: ComparisonRole, harness: HarnessId, rate: f64) -> ComparisonRow {
    let label = if role == ComparisonRole::Elite { "shell" } else { "minimal" };
    ComparisonRow {
        job_type: shell(),
        split: Split::Validate,
        role,
        harness,
        label: label.to_owned(),
        rate: Interval { mean: rate, low: rate / 2.0, high: 1.0 },
        episodes: 8,
        best_of: if role == ComparisonRole::Baseline { 5 } else { 1 },
        gain: (role == ComparisonRole::Elite).then_some(Interval { mean: 0.25, low: -0.125, high: 0.5 }),
        mean_steps: 2.5,
        mean_tokens: 330.0,
        mean_micro_usd: 5.0,
    }
}

/// Everything above, with the episodes the records count, one fault, and a solved sealed episode.
pub(super) async fn fill(store: &RunStore) {
    let [search, validate, sealed] = [Split::Search, Split::Validate, Split::Sealed].map(|split| task("shell", split));
    play(store, id(2), &search, 1, faulted()).await;
    for (number, seed, value) in [(0, 1, 0.5), (1, 1, 0.25), (2, 1, 1.0), (3, 1, 1.0), (3, 2, 1.0 / 3.0)] {
        play(store, id(number), &search, seed, scored(value)).await;
    }
    for number in [2, 3] {
        play(store, id(number), &validate, 9, scored(1.0)).await;
    }
    play(store, id(3), &sealed, 1, scored(1.0)).await;
    let mut journal = store.journal();
    for record in records() {
        journal.commit(&record).unwrap();
    }
    store
        .write_report(&[
            report_row(ComparisonRole::Elite, id(3), 0.75),
            report_row(ComparisonRole::Seed, id(0), 0.5),
            report_row(ComparisonRole::Baseline, id(0), 0.625),
        ])
        .unwrap();
}

/// A store in memory that holds all of it.
pub(super) async fn filled() -> RunStore {
    let store = RunStore::in_memory(&meta(), &tasks(), clock()).unwrap();
    fill(&store).await;
    store
}
