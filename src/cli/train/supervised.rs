//! `train midtrain` and `train sft`.

use std::path::{Path, PathBuf};

use candle_core::{DType, Device};
use clap::Args;

use super::folder::{Claim, base_name, failed, stopped, write_student};
use super::metrics::{Metrics, interrupts};
use super::supervised_display::SupervisedDisplay;
use super::{curves, episodes};
use crate::base::SeedTree;
use crate::cli::failure::{Failure, FailureKind};
use crate::cli::output::Output;
use crate::cli::student_plan;
use crate::config::load_training;
use crate::student::Student;
use crate::student::data::{Dataset, DatasetBuilder, Learns};
use crate::student::memory::{Numbers, TrainingSetup, training_memory};
use crate::student::nano::nano;
use crate::student::network::{BaseWeights, Kernels};
use crate::student::recipe::{Base, SftRecipe};
use crate::student::training::{Checkpoints, EndReason, SftEnd, sft};

pub(super) const FOLDER: &str = "\
The folder holds: sft.toml or midtrain.toml (a copy of CONFIG), start/ (a nano student before its first step), data.tokens (the samples, with
their token ids), metrics.jsonl (one event a line: started, step, evaluated, saved), loss.svg (drawn of it), checkpoints/, student/ (the trained student in
Hugging Face's layout), and for a low-rank adapter also adapter/ (in PEFT's layout).";

#[derive(Debug, Args)]
pub(super) struct StageArgs {
    /// The training file.
    #[arg(value_name = "CONFIG")]
    config: PathBuf,
    /// The folder to write; `students/NAME` by default.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Trains a student on episodes, of which it learns what `learns` says.
pub(super) fn fit(args: &StageArgs, learns: Learns, output: &Output) -> Result<(), Failure> {
    let mut recipe = load_training(&args.config).map_err(|error| Failure::from_error(FailureKind::Input, &error))?;
    recipe.data.learns = learns;
    let folder = args.out.clone().unwrap_or_else(|| Path::new("students").join(&recipe.name));
    let copy = match learns {
        Learns::Everything => "midtrain.toml",
        Learns::Replies => "sft.toml",
    };
    let claim = Claim::of(&folder, &args.config, copy)?;
    refuse_too_large(&recipe)?;
    let Started { mut student, dataset } = Started::open(&recipe, &claim, &folder, output)?;
    dataset.check_tokenizer(student.codec.tokenizer()).map_err(|error| Failure::from_error(FailureKind::Run, &error))?;
    output.note(&dataset.report().to_string());
    if let Some(adapters) = &recipe.adapters {
        let seeds = SeedTree::new(recipe.seed).child("adapters");
        student.network = student.network.with_adapters(adapters, &seeds).map_err(|error| failed(&error.into(), &folder))?;
    }
    let checkpoints = Checkpoints::new(&folder.join("checkpoints"), recipe.saving.keep).map_err(|error| failed(&error, &folder))?;
    let metrics = folder.join("metrics.jsonl");
    let mut display = SupervisedDisplay::new(Metrics::open(&metrics, interrupts()?)?, *output);
    let padding = student.codec.end_of_turn();
    let end = sft(&student.network, &dataset, &recipe, &checkpoints, padding, |event| display.take(event));
    let end = end.map_err(|error| failed(&error, &folder))?;
    display.finish()?;
    curves::draw_losses(&metrics, &folder.join("loss.svg"))?;
    stopped(end.reason, end.steps)?;
    let base = match &recipe.base {
        Base::Path(path) => base_name(path),
        Base::Nano { .. } => "../start".to_owned(),
    };
    write_student(&student, recipe.adapters.is_some().then_some(base.as_str()), &folder)?;
    output.data(&summary(&end, &folder))
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
        let episodes = episodes::gather(recipe, output)?;
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
        claim.take()?;
        if matches!(recipe.base, Base::Nano { .. }) {
            student.save(&start).map_err(|error| run(&error))?;
        }
        dataset.save(&data).map_err(|error| run(&error))?;
        Ok(Self { student, dataset })
    }
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
