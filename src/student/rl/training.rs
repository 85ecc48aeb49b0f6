//! Reinforcement, from the first group to the last checkpoint: play, choose, update.
//!
//! Left out: several devices, several rows to a pass, and samples longer than a row.

use std::time::Instant;

use super::event::{PlayFigures, RlEvent, UpdateFigures};
use super::policy_loss::TokenLogprobs;
use super::recipe::RlRecipe;
use super::rollout::{Group, RolloutEnd, RolloutError, Rollouts};
use super::selection::{Choice, Lesson, Lessons, is_solved};
use crate::base::SeedTree;
use crate::student::data::pack;
use crate::student::network::{Gradients, Network, NetworkError, PackedBatch, Parameter, Targets, TrainingPass};
use crate::student::optimizer::{AdamW, Schedule, StepReport};
use crate::student::training::{Checkpoints, Continue, EndReason, TrainingError, TrainingState};

/// Reinforcement that cannot go on. What was saved before stays.
#[derive(Debug, thiserror::Error)]
pub enum RlError {
    /// The update, or the state on disk.
    #[error(transparent)]
    Training(#[from] TrainingError),
    /// No episode can be played, or kept.
    #[error(transparent)]
    Rollouts(#[from] RolloutError),
}

/// How reinforcement ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RlEnd {
    /// Steps taken in all.
    pub steps: u64,
    /// Why it ended.
    pub reason: EndReason,
}

/// Trains `network` on what `rollouts` plays with it, from the newest checkpoint on, or from the start. Between two calls of
/// [`Rollouts::play`] the weights of `network` have moved.
///
/// The same recipe, start and episodes give the same weights, bit for bit, also when training was stopped and started again: a step that
/// was stopped while it played is played again.
///
/// # Errors
/// See [`RlError`].
pub fn reinforce(
    network: &Network,
    rollouts: &mut dyn Rollouts,
    recipe: &RlRecipe,
    checkpoints: &Checkpoints,
    mut tell: impl FnMut(&RlEvent) -> Continue,
) -> Result<RlEnd, RlError> {
    let mut run = Run::begin(network, &rollouts.identity(), recipe, checkpoints)?;
    let mut go_on = tell(&run.started());
    let mut reason = EndReason::Complete;
    while run.state.step < recipe.steps {
        if go_on == Continue::Stop {
            reason = EndReason::Stopped;
            break;
        }
        let Played { groups, figures } = match run.play(rollouts) {
            Ok(played) => played,
            Err(RolloutError::Stopped) => {
                reason = EndReason::Stopped;
                break;
            }
            Err(error) => {
                run.save_unsaved(&mut tell)?;
                return Err(error.into());
            }
        };
        let step = run.state.step;
        let update = run.update(&groups)?;
        run.state.step += 1;
        go_on = tell(&RlEvent::Step { step, play: figures, update });
        if run.state.step < recipe.steps && run.state.step.is_multiple_of(recipe.saving.every) {
            tell(&run.save()?);
        }
    }
    run.save_unsaved(&mut tell)?;
    Ok(RlEnd { steps: run.state.step, reason })
}

/// A run between two steps.
struct Run<'a> {
    network: &'a Network,
    recipe: &'a RlRecipe,
    checkpoints: &'a Checkpoints,
    seeds: SeedTree,
    schedule: Schedule,
    optimizer: AdamW,
    gradients: Gradients,
    state: TrainingState,
    /// The last step that was saved.
    saved: Option<u64>,
}

/// The groups of a step that teach something.
struct Played {
    groups: Vec<Group>,
    figures: PlayFigures,
}

impl<'a> Run<'a> {
    fn begin(network: &'a Network, played: &str, recipe: &'a RlRecipe, checkpoints: &'a Checkpoints) -> Result<Self, TrainingError> {
        let name = run_name(network, played, recipe)?;
        let config = recipe.optimisation.adamw();
        let restored = checkpoints.restore(&name, network, config)?;
        let saved = restored.as_ref().map(|(state, _)| state.step);
        let (state, optimizer) = match restored {
            Some(restored) => restored,
            None => (TrainingState { run: name, step: 0, best: None, since_best: 0 }, AdamW::new(config, network)?),
        };
        let schedule = recipe.optimisation.schedule(recipe.steps);
        let seeds = SeedTree::new(recipe.seed).child("rl");
        Ok(Self { network, recipe, checkpoints, seeds, schedule, optimizer, gradients: network.zero_gradients()?, state, saved })
    }

    fn started(&self) -> RlEvent {
        let count = |weights: Vec<&Parameter>| weights.iter().map(|weight| weight.tensor().elem_count() as u64).sum();
        RlEvent::Started {
            step: self.state.step,
            steps: self.recipe.steps,
            trained_parameters: count(self.network.trainable()),
            parameters: count(self.network.parameters()),
        }
    }

    fn choice(&self) -> Choice<'a> {
        let RlRecipe { objective, truncated, rewards, max_length, .. } = self.recipe;
        Choice { objective, truncated: *truncated, rewards: *rewards, max_length: *max_length }
    }

    /// Plays the groups of this step, and others in place of those that teach nothing (dynamic sampling, DAPO).
    fn play(&self, rollouts: &mut dyn Rollouts) -> Result<Played, RolloutError> {
        let began = Instant::now();
        let (plan, choice) = (self.recipe.groups, self.choice());
        let (mut groups, mut all, mut from) = (Vec::new(), Tally::default(), 0);
        for _ in 0..=plan.replacements {
            let missing = plan.count - groups.len();
            if missing == 0 {
                break;
            }
            let played = rollouts.play(self.state.step, from, missing, plan.size)?;
            from += missing;
            for group in played {
                let teaches = choice.teaches(&group);
                all.count(&group, teaches);
                if teaches {
                    groups.push(group);
                }
            }
        }
        let mut figures = all.figures();
        figures.play_seconds = began.elapsed().as_secs_f64();
        Ok(Played { groups, figures })
    }

    /// Moves the weights along what `groups` teach; none where that is nothing.
    fn update(&mut self, groups: &[Group]) -> Result<Option<UpdateFigures>, TrainingError> {
        let began = Instant::now();
        let step = self.state.step;
        let seeds = self.seeds.child("step").index(step);
        let Lessons { lessons, overlong } = self.choice().lessons(groups, &seeds);
        if lessons.is_empty() {
            return Ok(None);
        }
        let lengths: Vec<usize> = lessons.iter().map(|lesson| lesson.sample.ids.len()).collect();
        let packed = pack(&lengths, self.recipe.max_length, &seeds.child("rows"))?;
        let rows: Vec<Row> = packed.iter().map(|row| Row::new(row.iter().map(|place| &lessons[*place]))).collect::<Result<_, _>>()?;
        // With one update the probabilities before it are those that the pass itself computes.
        let before: Option<Vec<Vec<f32>>> = match self.recipe.updates {
            1 => None,
            _ => Some(rows.iter().map(|row| self.network.log_probabilities(&row.batch, &row.targets)).collect::<Result<_, _>>()?),
        };
        let learning_rate = self.schedule.rate(step);
        let (mut sums, mut first) = (Sums::default(), None);
        let (mut clipped, mut seen, mut moved) = (0, 0, None);
        for _ in 0..self.recipe.updates {
            sums = Sums::default();
            moved = Some(self.pass(&rows, before.as_deref(), learning_rate, &mut sums)?);
            clipped += sums.clipped;
            seen += sums.tokens;
            first.get_or_insert(sums);
        }
        let first = first.unwrap_or_default();
        Ok(Some(UpdateFigures {
            loss: sums.loss,
            samples: lessons.len() as u64,
            trained_tokens: first.tokens,
            overlong,
            clipped: share(clipped, seen),
            entropy: -first.drawn / count(first.tokens),
            mismatch: first.distance / count(first.tokens),
            gradient_norm: moved.map_or(0.0, |moved: StepReport| moved.gradient_norm),
            learning_rate,
            update_seconds: began.elapsed().as_secs_f64(),
        }))
    }

    /// One update: the gradients of all rows are added, then the weights move once.
    fn pass(
        &mut self,
        rows: &[Row<'_>],
        before: Option<&[Vec<f32>]>,
        learning_rate: f64,
        sums: &mut Sums,
    ) -> Result<StepReport, TrainingError> {
        let choice = self.choice();
        // Dropout would make a token's probability another one than it was drawn with.
        let pass = TrainingPass { checkpointing: self.recipe.checkpointing, dropout: None };
        self.gradients.clear()?;
        for (place, row) in rows.iter().enumerate() {
            let slopes = |now: &[f32]| -> Result<Vec<f32>, NetworkError> {
                let old = before.and_then(|before| before.get(place)).map_or(now, Vec::as_slice);
                Ok(row.slopes(&choice, now, old, sums))
            };
            self.network.accumulate_with(&row.batch, &row.targets, &pass, &mut self.gradients, slopes)?;
        }
        if !sums.loss.is_finite() {
            return Err(TrainingError::Diverged { step: self.state.step, kept: self.saved.unwrap_or(0) });
        }
        Ok(self.optimizer.step(self.network, &self.gradients, learning_rate, Some(self.recipe.optimisation.clip))?)
    }

    fn save(&mut self) -> Result<RlEvent, TrainingError> {
        self.checkpoints.save(&self.state, self.network, &self.optimizer)?;
        self.saved = Some(self.state.step);
        Ok(RlEvent::Saved { step: self.state.step })
    }

    fn save_unsaved(&mut self, tell: &mut impl FnMut(&RlEvent) -> Continue) -> Result<(), TrainingError> {
        if self.saved != Some(self.state.step) {
            tell(&self.save()?);
        }
        Ok(())
    }
}

/// What came of all groups of a step.
#[derive(Default)]
struct Tally {
    figures: PlayFigures,
    rewards: Vec<f64>,
}

impl Tally {
    fn count(&mut self, group: &Group, teaches: bool) {
        let figures = &mut self.figures;
        figures.groups += 1;
        figures.dead += u64::from(!teaches);
        for rollout in &group.rollouts {
            figures.rollouts += 1;
            figures.truncated += u64::from(matches!(rollout.end, RolloutEnd::Truncated { .. }));
            figures.faulted += u64::from(rollout.end == RolloutEnd::Faulted);
            figures.solved += u64::from(rollout.end.reward().is_some_and(is_solved));
            figures.drawn_tokens += rollout.turns.iter().map(|turn| turn.reply.len() as u64).sum::<u64>();
            self.rewards.extend(rollout.end.reward());
        }
    }

    fn figures(self) -> PlayFigures {
        let reward = self.rewards.iter().sum::<f64>() / count(self.rewards.len() as u64);
        PlayFigures { reward: (!self.rewards.is_empty()).then_some(reward), ..self.figures }
    }
}

/// Lessons side by side, as the network reads them.
struct Row<'l> {
    batch: PackedBatch,
    targets: Targets,
    /// For each token of the batch the lesson whose next token it predicts, and when that was drawn with which log-probability.
    drawn: Vec<Option<(&'l Lesson, f64)>>,
}

impl<'l> Row<'l> {
    fn new(lessons: impl Iterator<Item = &'l Lesson>) -> Result<Self, NetworkError> {
        let (mut documents, mut drawn) = (Vec::new(), Vec::new());
        let mut wanted = Vec::new();
        for lesson in lessons {
            let sample = &lesson.sample;
            // A token is predicted where the one before it stands.
            drawn.extend(sample.drawn.iter().skip(1).map(|logprob| logprob.map(|logprob| (lesson, logprob))).chain([None]));
            wanted.extend(sample.ids.iter().skip(1).chain(sample.ids.last()).copied());
            documents.push(sample.ids.clone());
        }
        let weights = drawn.iter().map(|drawn| if drawn.is_some() { 1.0 } else { 0.0 }).collect();
        Ok(Self { batch: PackedBatch::from_documents(&[documents], 0)?, targets: Targets::new(wanted, weights)?, drawn })
    }

    /// The derivative of the loss by each log-probability.
    fn slopes(&self, choice: &Choice<'_>, now: &[f32], old: &[f32], sums: &mut Sums) -> Vec<f32> {
        let mut slopes = Vec::with_capacity(self.drawn.len());
        for ((drawn, now), old) in self.drawn.iter().zip(now).zip(old) {
            let Some((lesson, drawn)) = *drawn else {
                slopes.push(0.0);
                continue;
            };
            let logprobs = TokenLogprobs { new: f64::from(*now), old: f64::from(*old), drawn };
            let token = choice.token(logprobs, lesson.advantage);
            sums.loss += lesson.weight * token.loss;
            sums.tokens += 1;
            sums.clipped += u64::from(token.clipped);
            sums.drawn += drawn;
            sums.distance += (logprobs.old - drawn).abs();
            #[expect(clippy::cast_possible_truncation, reason = "gradients are single precision")]
            slopes.push((lesson.weight * token.slope) as f32);
        }
        slopes
    }
}

/// Sums over the learnt tokens of a pass.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    loss: f64,
    tokens: u64,
    clipped: u64,
    drawn: f64,
    distance: f64,
}

#[expect(clippy::cast_precision_loss, reason = "tokens and episodes of a step are far below 2^53")]
fn count(number: u64) -> f64 {
    number.max(1) as f64
}

#[expect(clippy::cast_precision_loss, reason = "tokens of a step are far below 2^53")]
fn share(part: u64, whole: u64) -> f64 {
    part as f64 / count(whole)
}

/// Names what a checkpoint belongs to: the start, what is played, and all of the recipe that decides where the weights go.
fn run_name(network: &Network, played: &str, recipe: &RlRecipe) -> Result<String, NetworkError> {
    let RlRecipe {
        name: _,
        seed,
        steps,
        groups,
        objective,
        truncated,
        rewards,
        updates,
        max_length,
        optimisation,
        adapters,
        checkpointing: _,
        saving: _,
    } = recipe;
    let learns = format!("{objective:?} {truncated:?} {rewards:?} {updates} {max_length} {optimisation:?} {adapters:?}");
    let decides = format!("{seed} {steps} {groups:?} {learns} {:?} {} {played}", network.config(), network.weights_hash()?);
    Ok(blake3::hash(decides.as_bytes()).to_hex()[..32].to_owned())
}
