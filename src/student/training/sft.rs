//! Supervised fine-tuning, from the first row to the last checkpoint.
//!
//! Left out: several devices, losses weighted by task, and samples longer than a row (the data set drops or cuts them before).

use std::time::Instant;

use super::{Checkpoints, Continue, Measured, TrainingError, TrainingEvent, TrainingPlan, TrainingState};
use crate::base::SeedTree;
use crate::student::data::{Dataset, PackedRow, Part, pack};
use crate::student::network::{Gradients, Network, NetworkError, PackedBatch, Parameter, Targets, TrainingPass};
use crate::student::optimizer::{AdamW, Schedule};
use crate::student::recipe::SftRecipe;

/// How training ended.
#[derive(Debug, Clone, PartialEq)]
pub struct SftEnd {
    /// Steps taken in all.
    pub steps: u64,
    /// Why it ended.
    pub reason: EndReason,
    /// The held-out part when this call began and when it ended; none where nothing is held out.
    pub held_out: Option<(Measured, Measured)>,
}

/// Why training ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndReason {
    /// All steps were taken.
    Complete,
    /// The held-out loss stopped falling.
    NoProgress,
    /// It was told to.
    Stopped,
}

/// Trains `network` on `dataset` from the newest checkpoint on, or from the start. `padding` fills rows and is never learnt.
///
/// The same recipe, data and start give the same weights, bit for bit, also when training was stopped and started again.
///
/// # Errors
/// See [`TrainingError`].
pub fn sft(
    network: &Network,
    dataset: &Dataset,
    recipe: &SftRecipe,
    checkpoints: &Checkpoints,
    padding: u32,
    mut tell: impl FnMut(&TrainingEvent) -> Continue,
) -> Result<SftEnd, TrainingError> {
    let seeds = SeedTree::new(recipe.seed).child("sft");
    let mut plan = TrainingPlan::new(dataset.part(Part::Train).collect(), recipe.rows, recipe.length, padding, &seeds)?;
    let held_out = held_out_rows(dataset, recipe, padding, &seeds)?;
    let mut run = Run::begin(network, dataset, recipe, checkpoints, seeds, plan.steps())?;
    let mut go_on = tell(&run.started(&plan));
    let before = measure(network, &held_out)?;
    let (mut after, mut reason) = (before, EndReason::Complete);
    while run.state.step < plan.steps() {
        if go_on == Continue::Stop {
            reason = EndReason::Stopped;
            break;
        }
        let rows = plan.step(run.state.step)?;
        go_on = tell(&run.step(&rows)?);
        let last = run.state.step == plan.steps();
        if last || run.state.step.is_multiple_of(recipe.evaluation.every) {
            after = measure(network, &held_out)?;
            if let Some(held_out) = after {
                tell(&run.note(held_out));
            }
            if recipe.evaluation.patience.is_some_and(|patience| run.state.since_best >= patience) {
                reason = EndReason::NoProgress;
                break;
            }
        }
        if !last && run.state.step.is_multiple_of(recipe.saving.every) {
            tell(&run.save()?);
        }
    }
    if run.saved != Some(run.state.step) {
        tell(&run.save()?);
    }
    if reason == EndReason::Stopped {
        after = measure(network, &held_out)?;
    }
    Ok(SftEnd { steps: run.state.step, reason, held_out: before.zip(after) })
}

/// A training run between two steps.
struct Run<'a> {
    network: &'a Network,
    recipe: &'a SftRecipe,
    checkpoints: &'a Checkpoints,
    seeds: SeedTree,
    schedule: Schedule,
    optimizer: AdamW,
    gradients: Gradients,
    state: TrainingState,
    /// The last step that was saved.
    saved: Option<u64>,
}

impl<'a> Run<'a> {
    fn begin(
        network: &'a Network,
        dataset: &Dataset,
        recipe: &'a SftRecipe,
        checkpoints: &'a Checkpoints,
        seeds: SeedTree,
        steps: u64,
    ) -> Result<Self, TrainingError> {
        let name = run_name(network, dataset, recipe)?;
        let config = recipe.optimisation.adamw();
        let restored = checkpoints.restore(&name, network, config)?;
        let saved = restored.as_ref().map(|(state, _)| state.step);
        let (state, optimizer) = match restored {
            Some(restored) => restored,
            None => (TrainingState { run: name, step: 0, best: None, since_best: 0 }, AdamW::new(config, network)?),
        };
        let schedule = recipe.optimisation.schedule(steps);
        Ok(Self { network, recipe, checkpoints, seeds, schedule, optimizer, gradients: network.zero_gradients()?, state, saved })
    }

    fn started(&self, plan: &TrainingPlan<'_>) -> TrainingEvent {
        let count = |weights: Vec<&Parameter>| weights.iter().map(|weight| weight.tensor().elem_count() as u64).sum();
        TrainingEvent::Started {
            step: self.state.step,
            steps: plan.steps(),
            trained_parameters: count(self.network.trainable()),
            parameters: count(self.network.parameters()),
            rows: plan.rows_per_epoch(),
        }
    }

    /// Takes one step: the gradients of all rows are added, then the weights move once.
    fn step(&mut self, rows: &[PackedRow]) -> Result<TrainingEvent, TrainingError> {
        let began = Instant::now();
        let step = self.state.step;
        let trained_tokens: u64 = rows.iter().map(|row| row.trained_tokens() as u64).sum();
        self.gradients.clear()?;
        let mut sum = 0.0;
        for (number, rows) in rows.chunks(self.recipe.rows.per_pass).enumerate() {
            let Some((batch, targets)) = batch(rows)? else { continue };
            let drops = self.recipe.adapters.as_ref().is_some_and(|adapters| adapters.dropout > 0.0);
            let pass = TrainingPass {
                checkpointing: self.recipe.checkpointing,
                dropout: drops.then(|| self.seeds.child("dropout").index(step).index(number as u64)),
            };
            sum += self.network.accumulate(&batch, &targets, &pass, &mut self.gradients)?;
        }
        if !sum.is_finite() {
            return Err(TrainingError::Diverged { step, kept: self.saved.unwrap_or(0) });
        }
        // Each learnt token counts the same, in whatever row it stands.
        #[expect(clippy::cast_precision_loss, reason = "tokens of a step are far below 2^53")]
        let tokens = trained_tokens.max(1) as f64;
        self.gradients.scale(1.0 / tokens)?;
        let learning_rate = self.schedule.rate(step);
        let moved = self.optimizer.step(self.network, &self.gradients, learning_rate, Some(self.recipe.optimisation.clip))?;
        self.state.step += 1;
        Ok(TrainingEvent::Step {
            step,
            loss: sum / tokens,
            gradient_norm: moved.gradient_norm,
            learning_rate,
            tokens: rows.iter().map(|row| row.used as u64).sum(),
            trained_tokens,
            seconds: began.elapsed().as_secs_f64(),
        })
    }

    fn note(&mut self, held_out: Measured) -> TrainingEvent {
        let best = self.state.best.is_none_or(|best| held_out.loss < best);
        if best {
            self.state.best = Some(held_out.loss);
            self.state.since_best = 0;
        } else {
            self.state.since_best += 1;
        }
        TrainingEvent::Evaluated { step: self.state.step, held_out, best }
    }

    fn save(&mut self) -> Result<TrainingEvent, TrainingError> {
        self.checkpoints.save(&self.state, self.network, &self.optimizer)?;
        self.saved = Some(self.state.step);
        Ok(TrainingEvent::Saved { step: self.state.step })
    }
}

/// Rows as the network reads them; none where no token of them is learnt.
fn batch(rows: &[PackedRow]) -> Result<Option<(PackedBatch, Targets)>, TrainingError> {
    if rows.iter().all(|row| row.trained_tokens() == 0) {
        return Ok(None);
    }
    let length = rows.first().map_or(0, |row| row.ids.len());
    let (mut ids, mut positions, mut starts) = (Vec::new(), Vec::new(), Vec::new());
    let (mut targets, mut weights) = (Vec::new(), Vec::new());
    for row in rows {
        ids.extend_from_slice(&row.ids);
        positions.extend_from_slice(&row.positions);
        starts.extend(document_starts(row));
        let (wanted, weight) = row.shifted();
        targets.extend(wanted);
        weights.extend(weight);
    }
    Ok(Some((PackedBatch::new(rows.len(), length, ids, positions, starts)?, Targets::new(targets, weights)?)))
}

/// For each token the first token of its document; a token of the padding is a document of its own.
fn document_starts(row: &PackedRow) -> impl Iterator<Item = u32> {
    let within = row.documents.iter().flat_map(|document| std::iter::repeat_n(document.start, document.len()));
    within.chain(row.used..row.ids.len()).map(|start| u32::try_from(start).unwrap_or(u32::MAX))
}

fn held_out_rows(dataset: &Dataset, recipe: &SftRecipe, padding: u32, seeds: &SeedTree) -> Result<Vec<PackedRow>, TrainingError> {
    let samples: Vec<_> = dataset.part(Part::HeldOut).collect();
    let lengths: Vec<usize> = samples.iter().map(|sample| sample.ids.len()).collect();
    let packed = pack(&lengths, recipe.rows.length, &seeds.child("held-out"))?;
    let row = |numbers: &Vec<usize>| PackedRow::new(numbers.iter().map(|number| samples[*number]), recipe.rows.length, padding);
    Ok(packed.iter().map(row).collect::<Result<_, _>>()?)
}

/// The mean loss over rows, one at a time; none where nothing in them is learnt.
fn measure(network: &Network, rows: &[PackedRow]) -> Result<Option<Measured>, TrainingError> {
    let (mut sum, mut tokens) = (0.0, 0_u64);
    for row in rows {
        if let Some((batch, targets)) = batch(std::slice::from_ref(row))? {
            sum += network.loss(&batch, &targets)?;
            tokens += row.trained_tokens() as u64;
        }
    }
    #[expect(clippy::cast_precision_loss, reason = "tokens of a data set are far below 2^53")]
    let loss = sum / tokens as f64;
    Ok((tokens > 0).then_some(Measured { loss, tokens }))
}

/// Names what a checkpoint belongs to: the start, the data, and all of the recipe that decides where the weights go.
fn run_name(network: &Network, dataset: &Dataset, recipe: &SftRecipe) -> Result<String, NetworkError> {
    let SftRecipe { seed, base, rows, length, optimisation, adapters, .. } = recipe;
    let mut hasher = blake3::Hasher::new();
    let decides = format!("{seed} {base:?} {rows:?} {length:?} {optimisation:?} {adapters:?} {:?}", network.config());
    hasher.update(decides.as_bytes()).update(dataset.template_hash().as_bytes()).update(network.weights_hash()?.as_bytes());
    for sample in dataset.samples() {
        hasher.update(&(sample.ids.len() as u64).to_le_bytes());
        sample.ids.iter().for_each(|id| {
            hasher.update(&id.to_le_bytes());
        });
        hasher.update(format!("{:?} {:?}", sample.trained, sample.part).as_bytes());
    }
    Ok(hasher.finalize().to_hex()[..32].to_owned())
}
