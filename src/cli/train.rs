//! `train`.

use std::path::{Path, PathBuf};

use candle_core::{DType, Device};
use clap::{Args, Subcommand};

use super::failure::{Failure, FailureKind};
use super::output::Output;
use super::training_display::TrainingDisplay;
use super::{loss_curve, student_plan, training_episodes};
use crate::base::{SeedTree, write_whole};
use crate::config::load_training;
use crate::student::Student;
use crate::student::data::{Dataset, DatasetBuilder, Learns};
use crate::student::lora::save_adapter;
use crate::student::memory::{Numbers, TrainingSetup, training_memory};
use crate::student::nano::nano;
use crate::student::network::{BaseWeights, Kernels};
use crate::student::recipe::{Base, SftRecipe};
use crate::student::training::{Checkpoints, EndReason, SftEnd, TrainingError, sft};

const FOLDER: &str = "\
The folder holds: sft.toml or midtrain.toml (a copy of CONFIG), start/ (a nano student before its first step), data.tokens (the samples, with
their token ids), metrics.jsonl (one event a line: started, step, evaluated, saved), loss.svg (drawn of it), checkpoints/, student/ (the trained student in
Hugging Face's layout), and for a low-rank adapter also adapter/ (in PEFT's layout).
Ctrl-C saves the state; the same command goes on from the newest checkpoint. So it does after a kill; steps taken since the checkpoint
then stand in metrics.jsonl twice, with a line `started` between.";

/// Train the student.
#[derive(Debug, Args)]
pub(super) struct TrainArgs {
    #[command(subcommand)]
    stage: Stage,
}

#[derive(Debug, Subcommand)]
enum Stage {
    /// Learn every token of the solved episodes, instructions and observations too: how the world of the tasks looks. Its student is
    /// what `sft` then starts from, as `student.path`.
    #[command(after_help = FOLDER)]
    Midtrain(StageArgs),
    /// Supervised fine-tuning on the replies of the solved episodes: those of a run's elites, or of an evaluation kept with `--out`.
    #[command(after_help = FOLDER)]
    Sft(StageArgs),
}

#[derive(Debug, Args)]
struct StageArgs {
    /// The training file.
    #[arg(value_name = "CONFIG")]
    config: PathBuf,
    /// The folder to write; `students/NAME` by default.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Trains the student.
pub(super) fn train(args: &TrainArgs, output: &Output) -> Result<(), Failure> {
    match &args.stage {
        Stage::Midtrain(args) => fit(args, Learns::Everything, output),
        Stage::Sft(args) => fit(args, Learns::Replies, output),
    }
}

fn fit(args: &StageArgs, learns: Learns, output: &Output) -> Result<(), Failure> {
    let mut recipe = load_training(&args.config).map_err(|error| Failure::from_error(FailureKind::Input, &error))?;
    recipe.data.learns = learns;
    let folder = args.out.clone().unwrap_or_else(|| Path::new("students").join(&recipe.name));
    let claim = Claim::of(&folder, &args.config, learns)?;
    refuse_too_large(&recipe)?;
    let Started { mut student, dataset } = Started::open(&recipe, &claim, &folder, output)?;
    dataset.check_tokenizer(student.codec.tokenizer()).map_err(|error| Failure::from_error(FailureKind::Run, &error))?;
    output.note(&dataset.report().to_string());
    if let Some(adapters) = &recipe.adapters {
        let seeds = SeedTree::new(recipe.seed).child("adapters");
        student.network = student.network.with_adapters(adapters, &seeds).map_err(|error| failed(&error.into(), &folder))?;
    }
    let checkpoints = Checkpoints::new(&folder.join("checkpoints"), recipe.saving.keep).map_err(|error| failed(&error, &folder))?;
    let mut display = TrainingDisplay::open(&folder.join("metrics.jsonl"), *output)?;
    let padding = student.codec.end_of_turn();
    let end = sft(&student.network, &dataset, &recipe, &checkpoints, padding, |event| display.take(event));
    let end = end.map_err(|error| failed(&error, &folder))?;
    display.finish()?;
    loss_curve::draw(&folder.join("metrics.jsonl"), &folder.join("loss.svg"))?;
    if end.reason == EndReason::Stopped {
        let failure = Failure::new(FailureKind::Interrupted, format!("stopped after step {}; the state is saved", end.steps));
        return Err(failure.hint("the same command goes on"));
    }
    write_student(&student, &recipe, &folder)?;
    output.data(&summary(&end, &folder))
}

/// The training file, and its copy in a folder that is free for it or its already.
struct Claim {
    copy: PathBuf,
    text: String,
}

impl Claim {
    /// Nothing is written.
    fn of(folder: &Path, config: &Path, learns: Learns) -> Result<Self, Failure> {
        let text =
            std::fs::read_to_string(config).map_err(|error| Failure::new(FailureKind::Input, format!("{}: {error}", config.display())))?;
        let copy = folder.join(match learns {
            Learns::Everything => "midtrain.toml",
            Learns::Replies => "sft.toml",
        });
        match std::fs::read_to_string(&copy) {
            Ok(old) if old == text => Ok(Self { copy, text }),
            Ok(_) => Err(Failure::new(FailureKind::Input, format!("{} was made by another training file", folder.display()))
                .hint(format!("`diff {} {}` shows what changed", copy.display(), config.display()))
                .hint("name another folder with --out")),
            Err(_) if folder.read_dir().is_ok_and(|mut entries| entries.next().is_some()) => {
                let message = format!("{} is not empty and not of this stage of training", folder.display());
                Err(Failure::new(FailureKind::Input, message).hint("name another folder with --out"))
            }
            Err(_) => Ok(Self { copy, text }),
        }
    }
}

/// Refuses a base that could not be trained in the memory there is, before its weights are read.
fn refuse_too_large(recipe: &SftRecipe) -> Result<(), Failure> {
    let Base::Path(path) = &recipe.base else { return Ok(()) };
    let Some(config) = student_plan::shape(path) else { return Ok(()) };
    let setup = TrainingSetup {
        kernels: Kernels::Fused,
        numbers: Numbers::Single,
        adapters: recipe.adapters.clone(),
        checkpointing: recipe.checkpointing,
        rows: recipe.rows.per_pass,
    };
    student_plan::refuse_too_large(path, "this training of", training_memory(&config, &setup, recipe.rows.length).peak())
}

/// What training starts from.
struct Started {
    student: Student,
    dataset: Dataset,
}

impl Started {
    /// Opens it, or makes what is not there yet: a run that goes on takes its own files, whatever became of their sources.
    fn open(recipe: &SftRecipe, claim: &Claim, folder: &Path, output: &Output) -> Result<Self, Failure> {
        let (start, data) = (folder.join("start"), folder.join("data.tokens"));
        let input = |error: &dyn std::error::Error| Failure::from_error(FailureKind::Input, error);
        let run = |error: &dyn std::error::Error| Failure::from_error(FailureKind::Run, error);
        let base = if recipe.adapters.is_some() { BaseWeights::Frozen } else { BaseWeights::Train };
        let load = |path: &Path| Student::load(path, base, DType::F32, &Device::Cpu);
        if data.is_file() {
            let path = match &recipe.base {
                Base::Nano { .. } => &start,
                Base::Path(path) => path,
            };
            let student = load(path).map_err(|error| run(&error))?;
            return Ok(Self { student, dataset: Dataset::load(&data).map_err(|error| run(&error))? });
        }
        let episodes = training_episodes::gather(recipe, output)?;
        let student = match &recipe.base {
            Base::Nano { vocabulary } => {
                let seeds = SeedTree::new(recipe.seed).child("nano");
                nano(&episodes, *vocabulary, &seeds).map_err(|error| input(&error))?
            }
            Base::Path(path) => load(path).map_err(|error| input(&error))?,
        };
        let seeds = SeedTree::new(recipe.seed).child("data");
        let builder = DatasetBuilder::new(&student.codec, recipe.data.clone(), &seeds).map_err(|error| input(&error))?;
        let dataset = builder.build(&episodes).map_err(|error| input(&error))?;
        // Nothing is written before all of it is known to be right: a corrected training file may have the folder. The data come last:
        // with them a run goes on.
        std::fs::create_dir_all(folder)
            .and_then(|()| write_whole(&claim.copy, claim.text.as_bytes()))
            .map_err(|error| Failure::new(FailureKind::Run, format!("{} cannot be written: {error}", folder.display())))?;
        if matches!(recipe.base, Base::Nano { .. }) {
            student.save(&start).map_err(|error| run(&error))?;
        }
        dataset.save(&data).map_err(|error| run(&error))?;
        Ok(Self { student, dataset })
    }
}

fn write_student(student: &Student, recipe: &SftRecipe, folder: &Path) -> Result<(), Failure> {
    student.save(&folder.join("student")).map_err(|error| Failure::from_error(FailureKind::Run, &error))?;
    if recipe.adapters.is_some() {
        let base = match &recipe.base {
            Base::Path(path) => path.file_name().map_or_else(|| "base".into(), |name| name.to_string_lossy()),
            Base::Nano { .. } => "../start".into(),
        };
        save_adapter(&folder.join("adapter"), &student.network, &base).map_err(|error| Failure::from_error(FailureKind::Run, &error))?;
    }
    Ok(())
}

fn summary(end: &SftEnd, folder: &Path) -> String {
    let why = match end.reason {
        EndReason::NoProgress => "; stopped early, the held-out loss no longer fell",
        EndReason::Complete | EndReason::Stopped => "",
    };
    let mut text = format!("{} steps{why}\n", end.steps);
    if let Some((before, after)) = end.held_out {
        text.push_str(&format!("held-out loss {:.4} -> {:.4} nats a token, over {} tokens\n", before.loss, after.loss, after.tokens));
    }
    text.push_str(&format!("student: {}\n", folder.join("student").display()));
    text
}

fn failed(error: &TrainingError, folder: &Path) -> Failure {
    let kind = match error {
        TrainingError::TooFewRows { .. } | TrainingError::Data(_) | TrainingError::Diverged { .. } => FailureKind::Input,
        _ => FailureKind::Run,
    };
    let failure = Failure::from_error(kind, error);
    match error {
        TrainingError::Io { .. } | TrainingError::Weights(_) => {
            failure.hint(format!("free some space, then the same command goes on from the newest checkpoint in {}", folder.display()))
        }
        _ => failure,
    }
}
