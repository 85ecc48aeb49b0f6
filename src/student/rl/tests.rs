use std::num::NonZeroUsize;
use std::path::Path;

use super::*;
use crate::base::SeedTree;
use crate::student::Student;
use crate::student::generation::{Decoder, DecodingLimits, GenerationRequest, Sampling};
use crate::student::network::{BaseWeights, Checkpointing, Network, PackedBatch, Targets, TrainingPass};
use crate::student::optimizer::AdamW;
use crate::student::recipe::{Optimisation, SavingPlan};
use crate::student::training::{Checkpoints, Continue, EndReason};
use crate::task::TaskId;

pub(super) fn task() -> TaskId {
    TaskId::from_hash(&blake3::hash(b"even"))
}

/// A small student whose weights train, the same for the same seed.
fn student() -> Student {
    let Student { network, codec, generation } = crate::student::generation::tests::student(1);
    let tensors = network.parameters().into_iter().map(|weight| (weight.name().to_owned(), weight.tensor().clone())).collect();
    let network = Network::new(network.config().clone(), tensors, BaseWeights::Train).unwrap();
    Student::new(network, codec, generation).unwrap()
}

/// The student draws two tokens, really; an even first one is what is wanted.
struct Even<'s> {
    student: &'s Student,
    /// Groups from this number on are asked for; the others are dead.
    dead_below: usize,
    /// Calls until it is told to stop.
    stops_after: usize,
    asked: Vec<(u64, usize, usize)>,
}

impl<'s> Even<'s> {
    fn new(student: &'s Student) -> Self {
        Self { student, dead_below: 0, stops_after: usize::MAX, asked: Vec::new() }
    }

    fn rollout(&self, step: u64, group: usize, member: usize) -> Rollout {
        let rows = NonZeroUsize::MIN;
        let mut decoder = Decoder::new(self.student, DecodingLimits { rows, chunk: rows, ..DecodingLimits::default() });
        let luck = SeedTree::new(77).index(step).index(group as u64).index(member as u64);
        let prompt = vec![u32::try_from(group).unwrap() % 7 + 1, 3];
        let sampling = Sampling::new(1.0, 1.0).unwrap();
        decoder.submit(GenerationRequest { prompt, sampling, stops: Vec::new(), most_tokens: 2, draws: luck.clone() }).unwrap();
        let generated = loop {
            if let Some((_, generated)) = decoder.step().pop() {
                break generated.unwrap();
            }
        };
        let even = generated.tokens[0].is_multiple_of(2) && group >= self.dead_below;
        let turn = Turn { prompt: generated.prompt, reply: generated.tokens, logprobs: generated.logprobs };
        Rollout { seed: luck.value(), turns: vec![turn], end: RolloutEnd::Scored { reward: f64::from(u8::from(even)) } }
    }
}

impl Rollouts for Even<'_> {
    fn identity(&self) -> String {
        "even".to_owned()
    }

    fn play(&mut self, step: u64, from: usize, count: usize, size: usize) -> Result<Vec<Group>, RolloutError> {
        if self.asked.len() >= self.stops_after {
            return Err(RolloutError::Stopped);
        }
        self.asked.push((step, from, count));
        let group = |group| Group { task: task(), rollouts: (0..size).map(|member| self.rollout(step, group, member)).collect() };
        Ok((from..from + count).map(group).collect())
    }
}

fn recipe(steps: u64, objective: Objective) -> RlRecipe {
    RlRecipe {
        name: "test".to_owned(),
        seed: 5,
        steps,
        groups: GroupPlan { count: 4, size: 6, replacements: 1 },
        objective,
        truncated: Truncated::Mask,
        rewards: Rewards::Own,
        updates: 1,
        max_length: 8,
        optimisation: Optimisation { learning_rate: 3e-3, warmup: 0.0, weight_decay: 0.0, ..Optimisation::default() },
        adapters: None,
        checkpointing: Checkpointing::Off,
        saving: SavingPlan { every: 3, keep: 2 },
    }
}

fn gradient() -> Objective {
    Objective::PolicyGradient { scale: AdvantageScale::None, loss: PolicyLoss::default() }
}

fn train(rollouts: &mut Even<'_>, recipe: &RlRecipe, folder: &Path) -> (RlEnd, Vec<RlEvent>) {
    let checkpoints = Checkpoints::new(folder, 2).unwrap();
    let mut events = Vec::new();
    let network = &rollouts.student.network;
    let end = reinforce(network, rollouts, recipe, &checkpoints, |event| {
        events.push(event.clone());
        Continue::Yes
    });
    (end.unwrap(), events)
}

/// Mean rewards of the first and the last four steps.
fn rewards(events: &[RlEvent]) -> (f64, f64) {
    let rewards: Vec<f64> = events
        .iter()
        .filter_map(|event| match event {
            RlEvent::Step { play, .. } => play.reward,
            _ => None,
        })
        .collect();
    let mean = |rewards: &[f64]| rewards.iter().sum::<f64>() / 4.0;
    (mean(&rewards[..4]), mean(&rewards[rewards.len() - 4..]))
}

#[test]
fn what_is_rewarded_becomes_frequent_and_under_shuffled_rewards_it_does_not() {
    let folder = tempfile::tempdir().unwrap();
    let rejection = Objective::Rejection { per_group: 3 };
    let two_updates = RlRecipe { updates: 2, ..recipe(60, gradient()) };
    for (name, recipe) in [("gradient", recipe(60, gradient())), ("rejection", recipe(60, rejection)), ("two", two_updates)] {
        let student = student();
        let (end, events) = train(&mut Even::new(&student), &recipe, &folder.path().join(name));
        assert_eq!(end, RlEnd { steps: 60, reason: EndReason::Complete });
        let (first, last) = rewards(&events);
        assert!(first < 0.75 && last > 0.9, "{name}: {first} {last}");
        for event in &events {
            // What is played and what is trained is the same network: tokens are as probable in both.
            if let RlEvent::Step { update: Some(update), .. } = event {
                assert!(update.mismatch < 1e-3 && update.overlong == 0 && update.trained_tokens > 0, "{update:?}");
            }
        }
    }
    let student = student();
    let recipe = RlRecipe { rewards: Rewards::Shuffled, ..recipe(60, gradient()) };
    let (first, last) = rewards(&train(&mut Even::new(&student), &recipe, &folder.path().join("shuffled")).1);
    assert!(last < 0.75, "{first} {last}");
}

#[test]
fn a_stopped_run_goes_on_to_the_same_weights() {
    let folder = tempfile::tempdir().unwrap();
    let recipe = recipe(7, gradient());
    let (whole, parts) = (student(), student());
    train(&mut Even::new(&whole), &recipe, &folder.path().join("whole"));
    let mut rollouts = Even { stops_after: 5, ..Even::new(&parts) };
    let (end, _) = train(&mut rollouts, &recipe, &folder.path().join("parts"));
    assert!(end.reason == EndReason::Stopped && end.steps > 0 && end.steps < 7, "{end:?}");
    // Another process has only the folder.
    let other = student();
    let (end, events) = train(&mut Even::new(&other), &recipe, &folder.path().join("parts"));
    assert_eq!(end, RlEnd { steps: 7, reason: EndReason::Complete });
    assert!(matches!(events[0], RlEvent::Started { step, .. } if step > 0));
    assert_eq!(other.weights_hash().unwrap(), whole.weights_hash().unwrap());
    // Other tasks, or another recipe, are another run.
    let longer = RlRecipe { seed: 6, ..recipe };
    let checkpoints = Checkpoints::new(&folder.path().join("parts"), 2).unwrap();
    let error = reinforce(&other.network, &mut Even::new(&other), &longer, &checkpoints, |_| Continue::Yes).unwrap_err();
    assert!(error.to_string().contains("another recipe"), "{error}");
}

#[test]
fn dead_groups_are_replaced_and_a_step_without_others_moves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let student = student();
    let before = student.weights_hash().unwrap();
    let mut rollouts = Even { dead_below: usize::MAX, ..Even::new(&student) };
    let (_, events) = train(&mut rollouts, &recipe(1, gradient()), &folder.path().join("dead"));
    assert_eq!(rollouts.asked, [(0, 0, 4), (0, 4, 4)]);
    let RlEvent::Step { play, update: None, .. } = &events[1] else { panic!("{events:?}") };
    assert_eq!((play.groups, play.dead, play.rollouts, play.reward), (8, 8, 48, Some(0.0)));
    assert_eq!(student.weights_hash().unwrap(), before);
    let mut rollouts = Even { dead_below: 2, ..Even::new(&student) };
    let (_, events) = train(&mut rollouts, &recipe(1, gradient()), &folder.path().join("some"));
    assert!(rollouts.asked[1].1 == 4 && rollouts.asked[1].2 >= 2, "{:?}", rollouts.asked);
    assert!(matches!(&events[1], RlEvent::Step { update: Some(_), .. }));
    assert_ne!(student.weights_hash().unwrap(), before);
}

#[test]
fn repeating_successes_is_supervised_fine_tuning_on_them() {
    let folder = tempfile::tempdir().unwrap();
    let (reinforced, supervised) = (student(), student());
    let recipe = recipe(1, Objective::Rejection { per_group: 6 });
    let mut rollouts = Even::new(&reinforced);
    let groups: Vec<Group> = rollouts.play(0, 0, 4, 6).unwrap();
    train(&mut rollouts, &recipe, folder.path());
    let solved = groups.iter().flat_map(|group| &group.rollouts).filter(|rollout| rollout.end.reward() == Some(1.0));
    let documents: Vec<Vec<u32>> = solved.map(|rollout| [&rollout.turns[0].prompt[..], &rollout.turns[0].reply].concat()).collect();
    let tokens: usize = documents.iter().map(|document| document.len() - 2).sum();
    let network = &supervised.network;
    let mut gradients = network.zero_gradients().unwrap();
    for document in &documents {
        let batch = PackedBatch::from_documents(&[vec![document.clone()]], 0).unwrap();
        let wanted = document.iter().skip(1).copied().chain([0]).collect();
        // The prompt has two tokens: the second predicts the first of the reply.
        let weights = (0..document.len()).map(|place| f32::from(u8::from(place >= 1 && place + 1 < document.len()))).collect();
        let pass = TrainingPass { checkpointing: Checkpointing::Off, dropout: None };
        network.accumulate(&batch, &Targets::new(wanted, weights).unwrap(), &pass, &mut gradients).unwrap();
    }
    #[expect(clippy::cast_precision_loss, reason = "a few")]
    gradients.scale(1.0 / tokens as f64).unwrap();
    let mut optimizer = AdamW::new(recipe.optimisation.adamw(), network).unwrap();
    optimizer.step(network, &gradients, 3e-3, Some(1.0)).unwrap();
    let numbers = |network: &Network| -> Vec<f32> {
        network.parameters().iter().flat_map(|weight| weight.tensor().flatten_all().unwrap().to_vec1::<f32>().unwrap()).collect()
    };
    let (found, expected, start) = (numbers(&reinforced.network), numbers(network), numbers(&student().network));
    assert_ne!(found, start);
    let far = found.iter().zip(&expected).filter(|(a, b)| (*a - *b).abs() > 1e-4).count();
    // A first step of AdamW moves by the sign: gradients near zero may round to either side.
    assert!(far * 1000 < found.len(), "{far} of {}", found.len());
}
