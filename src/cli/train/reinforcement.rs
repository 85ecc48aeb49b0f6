//! `train rl`.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use candle_core::{DType, Device};
use clap::Args;

use super::curves;
use super::folder::{Claim, base_name, failed, stopped, write_student};
use super::metrics::{Metrics, interrupts};
use super::reinforcement_display::ReinforcementDisplay;
use super::self_play::{RolloutLog, SelfPlay, Stage};
use crate::base::SeedTree;
use crate::cli::failure::{Failure, FailureKind};
use crate::cli::figures::percent;
use crate::cli::output::Output;
use crate::cli::{harness, student_plan, tasks_check};
use crate::config::{Reinforcement, load_reinforcement};
use crate::sandbox;
use crate::student::Student;
use crate::student::generation::DecodingLimits;
use crate::student::memory::{Numbers, TrainingSetup, generation_memory, training_memory};
use crate::student::network::{BaseWeights, Kernels};
use crate::student::rl::{Rewards, RlError, RlEvent, RlRecipe, RolloutError, reinforce};
use crate::student::training::{Checkpoints, Continue};

/// Bytes of keys and values while episodes are played.
const CACHE: usize = 1 << 30;

pub(super) const FOLDER: &str = "\
The folder holds: rl.toml (a copy of CONFIG), metrics.jsonl (one event a line: started, step, saved), rollouts.jsonl (every episode that
was played: step, group, skill, reward, truncated, drawn_tokens, trajectory), reward.svg (mean rewards by step), checkpoints/, student/ (the
trained student in Hugging Face's layout), and for a low-rank adapter also adapter/ (in PEFT's layout).
The reward of a step is that of the student before it, on the tasks drawn for that step: `eval` on another split says what was gained.
Same file, same student, same episodes, bit for bit, with --workers 1; several requests at a time differ in the last bits of the arithmetic.";

#[derive(Debug, Args)]
pub(super) struct RlArgs {
    /// The training file.
    #[arg(value_name = "CONFIG")]
    config: PathBuf,
    /// The folder to write; `students/NAME` by default.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Episodes at a time. Default: four times the cores, at most 16.
    #[arg(long, value_name = "N")]
    workers: Option<NonZeroUsize>,
}

/// Trains a student by reinforcement.
pub(super) fn reinforcement(args: &RlArgs, output: &Output) -> Result<(), Failure> {
    let plan = load_reinforcement(&args.config).map_err(|error| Failure::from_error(FailureKind::Input, &error))?;
    let folder = args.out.clone().unwrap_or_else(|| Path::new("students").join(&plan.recipe.name));
    let claim = Claim::of(&folder, &args.config, "rl.toml")?;
    refuse_too_large(&plan)?;
    let harness = harness::named(&plan.harness, output)?;
    let student = Arc::new(open(&plan)?);
    let interrupted = interrupts()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::from_error(FailureKind::Other, &error))?;
    let stage = Arc::new(runtime.block_on(stage(&plan, harness, output))?);
    claim.take()?;
    if plan.recipe.rewards == Rewards::Shuffled {
        output.note("rewards are shuffled inside groups: this is a control, not a training of use");
    }
    let checkpoints = Checkpoints::new(&folder.join("checkpoints"), plan.recipe.saving.keep).map_err(|error| failed(&error, &folder))?;
    let cores = std::thread::available_parallelism().map_or(2, NonZeroUsize::get);
    let workers = args.workers.map_or_else(|| (4 * cores).min(16), NonZeroUsize::get);
    let rows = NonZeroUsize::new(workers).unwrap_or(NonZeroUsize::MIN);
    let mut rollouts = SelfPlay {
        student: Arc::clone(&student),
        stage,
        tasks: plan.tasks.clone(),
        seeds: SeedTree::new(plan.recipe.seed).child("rollouts"),
        workers,
        limits: DecodingLimits { rows, memory: CACHE, ..DecodingLimits::default() },
        runtime,
        interrupted: interrupted.clone(),
        log: RolloutLog::open(&folder.join("rollouts.jsonl"))?,
    };
    let metrics = folder.join("metrics.jsonl");
    let mut display = ReinforcementDisplay::new(Metrics::open(&metrics, interrupted)?, *output);
    let mut progress = Progress::default();
    let end = reinforce(&student.network, &mut rollouts, &plan.recipe, &checkpoints, |event| progress.take(event, &mut display));
    let end = end.map_err(|error| rl_failure(&error, &folder))?;
    display.finish()?;
    curves::draw_rewards(&metrics, &folder.join("reward.svg"))?;
    stopped(end.reason, end.steps)?;
    let base = base_name(&plan.student);
    write_student(&student, plan.recipe.adapters.is_some().then_some(base.as_str()), &folder)?;
    output.data(&progress.summary(end.steps, &folder))
}

/// Refuses a student that could not be trained and played with in the memory there is, before its weights are read.
fn refuse_too_large(plan: &Reinforcement) -> Result<(), Failure> {
    let Some(config) = student_plan::shape(&plan.student) else { return Ok(()) };
    let RlRecipe { adapters, checkpointing, max_length, .. } = &plan.recipe;
    let setup = TrainingSetup {
        kernels: Kernels::Fused,
        numbers: Numbers::Single,
        adapters: adapters.clone(),
        checkpointing: *checkpointing,
        rows: 1,
    };
    let play = generation_memory(&config, Numbers::Single, 0) + CACHE as u64;
    let need = training_memory(&config, &setup, *max_length).peak().max(play);
    student_plan::refuse_too_large(&plan.student, "reinforcement of", need)
}

fn open(plan: &Reinforcement) -> Result<Student, Failure> {
    let input = |error: &dyn std::error::Error| Failure::from_error(FailureKind::Input, error);
    let base = if plan.recipe.adapters.is_some() { BaseWeights::Frozen } else { BaseWeights::Train };
    let mut student = Student::load(&plan.student, base, DType::F32, &Device::Cpu).map_err(|error| input(&error))?;
    if let Some(adapters) = &plan.recipe.adapters {
        let seeds = SeedTree::new(plan.recipe.seed).child("adapters");
        student.network = student.network.with_adapters(adapters, &seeds).map_err(|error| input(&error))?;
    }
    Ok(student)
}

/// Opens the sandbox and proves what is to be proven.
async fn stage(plan: &Reinforcement, harness: crate::harness::Harness, output: &Output) -> Result<Stage, Failure> {
    let opened = sandbox::open(plan.sandbox.backend).map_err(|error| {
        Failure::from_error(FailureKind::Environment, &error).hint("`harness-evo doctor` says what this machine offers")
    })?;
    if let Some(notice) = &opened.notice {
        output.note(notice);
    }
    let policy = plan.sandbox.policy.clone();
    tasks_check::prove(&plan.to_prove, &opened.sandbox, &policy, output).await?;
    Ok(Stage { harness, sandbox: opened.sandbox, policy })
}

/// Rewards at both ends of what this process saw.
#[derive(Default)]
struct Progress {
    first: Option<(u64, f64)>,
    last: Option<(u64, f64)>,
}

impl Progress {
    fn take(&mut self, event: &RlEvent, display: &mut ReinforcementDisplay) -> Continue {
        if let RlEvent::Step { step, play, .. } = event {
            let seen = play.reward.map(|reward| (*step, reward));
            self.first = self.first.or(seen);
            self.last = seen.or(self.last);
        }
        display.take(event)
    }

    fn summary(&self, steps: u64, folder: &Path) -> String {
        let mut text = format!("{steps} steps\n");
        if let (Some((first, before)), Some((last, after))) = (self.first, self.last) {
            text.push_str(&format!(
                "mean reward {} at step {}, {} at step {}, each on the tasks drawn for it\n",
                percent(before),
                first + 1,
                percent(after),
                last + 1
            ));
        }
        text.push_str(&format!("student: {}\n", folder.join("student").display()));
        text
    }
}

fn rl_failure(error: &RlError, folder: &Path) -> Failure {
    match error {
        RlError::Training(error) => failed(error, folder),
        RlError::Rollouts(RolloutError::Log { .. }) => {
            Failure::from_error(FailureKind::Run, error).hint("the state is saved; free some space, then the same command goes on")
        }
        RlError::Rollouts(_) => Failure::from_error(FailureKind::Environment, error)
            .hint("`harness-evo doctor` looks at the sandbox; when it is repaired, the same command goes on"),
    }
}
