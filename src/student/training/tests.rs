use std::path::Path;

use super::*;
use crate::base::SeedTree;
use crate::harness::HarnessId;
use crate::student::data::{DataConfig, Dataset, DatasetBuilder, EpisodeText, Part};
use crate::student::nano::nano;
use crate::student::network::{AdapterConfig, BaseWeights, Checkpointing, Network, Projection, Scaling};
use crate::student::recipe::{Base, EpisodeSelection, EvaluationPlan, Length, Optimisation, Rows, SavingPlan, SftRecipe};
use crate::student::{ChatCodec, Student, VocabularySize};
use crate::task::{JobType, TaskId};
use crate::trajectory::{Message, Role};

fn episode(number: usize) -> EpisodeText {
    let words = ["alpha", "beta", "gamma", "delta"];
    let word = words[number % words.len()];
    EpisodeText {
        task: TaskId::from_hash(&blake3::hash(format!("task {number}").as_bytes())),
        job_type: JobType::new("echo").unwrap(),
        skill: None,
        harness: "0123456789abcdef0123456789abcdef".parse::<HarnessId>().unwrap(),
        messages: vec![
            Message::text(Role::System, "Repeat."),
            Message::text(Role::User, format!("Say {word} for case {number}.")),
            Message::text(Role::Assistant, format!("{word} {word}")),
        ],
        tools: Vec::new(),
        contexts: crate::student::data::Contexts::AppendOnly,
        failures: std::collections::BTreeMap::new(),
    }
}

fn recipe(steps: u64) -> SftRecipe {
    SftRecipe {
        name: "test".to_owned(),
        seed: 5,
        base: Base::Nano { vocabulary: VocabularySize::new(512).unwrap() },
        sources: Vec::new(),
        selection: EpisodeSelection::default(),
        data: DataConfig { max_length: 64, held_out: 0.25, ..DataConfig::default() },
        rows: Rows { length: 96, per_step: 2, per_pass: 1 },
        length: Length::Steps(steps),
        optimisation: Optimisation { learning_rate: 3e-3, ..Optimisation::default() },
        adapters: None,
        checkpointing: Checkpointing::Off,
        evaluation: EvaluationPlan { every: 4, patience: None },
        saving: SavingPlan { every: 3, keep: 2 },
    }
}

fn start() -> (Network, ChatCodec, Dataset) {
    let episodes: Vec<EpisodeText> = (0..24).map(episode).collect();
    let Student { network, codec, .. } = nano(&episodes, VocabularySize::new(512).unwrap(), &SeedTree::new(1)).unwrap();
    // Smaller than nano, so that a test takes no time.
    let mut config = network.config().clone();
    (config.hidden, config.intermediate, config.layers, config.head_dim) = (32, 48, 2, 8);
    let weights = crate::student::weights::random(&config, &SeedTree::new(2), &candle_core::Device::Cpu).unwrap();
    let network = Network::new(weights.config, weights.tensors, BaseWeights::Train).unwrap();
    let dataset = DatasetBuilder::new(&codec, recipe(1).data, &SeedTree::new(3)).unwrap().build(&episodes).unwrap();
    (network, codec, dataset)
}

fn train(recipe: &SftRecipe, folder: &Path, stop_after: Option<u64>) -> (Vec<f32>, Vec<TrainingEvent>, SftEnd) {
    let (network, codec, dataset) = start();
    let network = match &recipe.adapters {
        Some(adapters) => network.with_adapters(adapters, &SeedTree::new(9)).unwrap(),
        None => network,
    };
    let mut events = Vec::new();
    let checkpoints = Checkpoints::new(folder, recipe.saving.keep).unwrap();
    let end = sft(&network, &dataset, recipe, &checkpoints, codec.end_of_turn(), |event| {
        events.push(event.clone());
        match (event, stop_after) {
            (TrainingEvent::Step { step, .. }, Some(last)) if *step + 1 >= last => Continue::Stop,
            _ => Continue::Yes,
        }
    })
    .unwrap();
    let numbers = network.trainable().iter().flat_map(|weight| weight.tensor().flatten_all().unwrap().to_vec1::<f32>().unwrap()).collect();
    (numbers, events, end)
}

fn bits(numbers: &[f32]) -> Vec<u32> {
    numbers.iter().map(|number| number.to_bits()).collect()
}

fn losses(events: &[TrainingEvent]) -> Vec<(u64, f64)> {
    let loss = |event: &TrainingEvent| match event {
        TrainingEvent::Step { step, loss, .. } => Some((*step, *loss)),
        _ => None,
    };
    events.iter().filter_map(loss).collect()
}

#[test]
fn the_held_out_loss_falls_and_ends_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let (_, events, end) = train(&recipe(40), folder.path(), None);
    let (before, after) = end.held_out.unwrap();
    // A uniform guess among 512 tokens costs ln 512 = 6.24 nats.
    assert!((5.8..6.7).contains(&before.loss), "{before:?}");
    assert!(after.loss < 0.5 * before.loss, "{before:?} {after:?}");
    assert_eq!((end.steps, end.reason), (40, EndReason::Complete));
    assert_eq!(losses(&events).len(), 40);
    assert!(matches!(events.last(), Some(TrainingEvent::Saved { step: 40 })));
    assert_eq!(Checkpoints::new(folder.path(), 2).unwrap().steps().unwrap(), [39, 40]);
}

#[test]
fn a_stopped_run_goes_on_to_the_same_bits() {
    for adapters in [None, Some(adapter())] {
        let recipe = SftRecipe { adapters, ..recipe(10) };
        let (whole, parts) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (expected, all, _) = train(&recipe, whole.path(), None);
        let (_, first, stopped) = train(&recipe, parts.path(), Some(4));
        assert_eq!((stopped.steps, stopped.reason), (4, EndReason::Stopped));
        let (found, second, end) = train(&recipe, parts.path(), None);
        assert_eq!((end.steps, end.reason), (10, EndReason::Complete));
        assert_eq!(bits(&found), bits(&expected));
        assert_eq!([losses(&first), losses(&second)].concat(), losses(&all));
    }
}

fn adapter() -> AdapterConfig {
    let targets = Projection::ALL.into_iter().collect();
    AdapterConfig { rank: 4, alpha: 8.0, dropout: 0.25, scaling: Scaling::Standard, targets }
}

#[test]
fn another_run_and_a_damaged_checkpoint_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    train(&recipe(2), folder.path(), None);
    let (network, codec, dataset) = start();
    let checkpoints = Checkpoints::new(folder.path(), 2).unwrap();
    let go = |recipe: &SftRecipe| sft(&network, &dataset, recipe, &checkpoints, codec.end_of_turn(), |_| Continue::Yes);
    let other = SftRecipe { seed: 6, ..recipe(2) };
    assert!(matches!(go(&other), Err(TrainingError::OtherRun { .. })));
    let file = checkpoints.path(2).join("weights.safetensors");
    let bytes = std::fs::read(&file).unwrap();
    std::fs::write(&file, &bytes[..bytes.len() / 2]).unwrap();
    let error = go(&recipe(2)).unwrap_err().to_string();
    assert!(error.contains("weights.safetensors"), "{error}");
    std::fs::write(checkpoints.path(2).join("state.json"), "{").unwrap();
    assert!(matches!(go(&recipe(2)), Err(TrainingError::Damaged { .. })));
}

#[test]
fn training_stops_without_progress_and_before_it_diverges() {
    let folder = tempfile::tempdir().unwrap();
    let still = SftRecipe {
        optimisation: Optimisation { learning_rate: 1e-30, weight_decay: 0.0, ..Optimisation::default() },
        evaluation: EvaluationPlan { every: 2, patience: Some(2) },
        ..recipe(40)
    };
    let (_, _, end) = train(&still, folder.path(), None);
    // The first measurement is a best one, the two after it are not better.
    assert_eq!((end.steps, end.reason), (6, EndReason::NoProgress));

    let (network, codec, dataset) = start();
    let name = network.trainable()[0];
    name.assign(&(name.tensor() * f64::NAN).unwrap()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let checkpoints = Checkpoints::new(folder.path(), 2).unwrap();
    let failed = sft(&network, &dataset, &recipe(4), &checkpoints, codec.end_of_turn(), |_| Continue::Yes);
    assert!(matches!(failed, Err(TrainingError::Diverged { step: 0, .. })), "{failed:?}");
}

#[test]
fn every_epoch_takes_each_sample_at_most_once_and_steps_do_not_depend_on_each_other() {
    let (_, codec, dataset) = start();
    let rows = recipe(1).rows;
    let samples: Vec<_> = dataset.part(Part::Train).collect();
    let plan = || TrainingPlan::new(samples.clone(), rows, Length::Epochs(2), codec.end_of_turn(), &SeedTree::new(4)).unwrap();
    let (mut forward, mut backward) = (plan(), plan());
    let steps = forward.steps();
    assert_eq!(steps % 2, 0);
    let taken: Vec<_> = (0..steps).map(|step| forward.step(step).unwrap()).collect();
    for step in (0..steps).rev() {
        assert_eq!(backward.step(step).unwrap(), taken[usize::try_from(step).unwrap()]);
    }
    let half = taken.len() / 2;
    assert_ne!(taken[..half], taken[half..]);
    let documents: usize = taken[..half].iter().flatten().map(|row| row.documents.len()).sum();
    assert!(documents <= samples.len() && documents > samples.len() / 2, "{documents} of {}", samples.len());
    assert!(matches!(
        TrainingPlan::new(samples[..1].to_vec(), rows, Length::Epochs(1), 0, &SeedTree::new(4)),
        Err(TrainingError::TooFewRows { rows: 1, per_step: 2 })
    ));
}
