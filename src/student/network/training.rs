//! Losses and their gradients.
//!
//! The gradient is taken layer by layer from the last to the first: no graph is deeper than one layer, whatever the
//! depth of the network, so that training needs no thread with a large stack. With checkpointing only the layers' inputs
//! are kept and each layer runs forward again before its backward.

use candle_core::Tensor;

use super::composed::TokenTensors;
use super::engine::{Composed, Engine, Fused};
use super::fused::Tokens;
use super::layer::head_shape;
use super::linear::Pass;
use super::parameter::Gradients;
use super::{Kernels, Network, NetworkError, PackedBatch, Targets};
use crate::base::SeedTree;
use crate::student::ops::attention::mask;
use crate::student::ops::rotary::RotaryTable;

/// What is kept of the forward pass for the backward.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Checkpointing {
    /// Everything: fastest.
    Off,
    /// Each layer's input; the rest is computed again.
    EveryLayer,
}

/// How a training pass runs.
#[derive(Debug, Clone)]
pub struct TrainingPass {
    /// What is kept.
    pub checkpointing: Checkpointing,
    /// The seed of this pass's dropout (another for every pass); none for no dropout.
    pub dropout: Option<SeedTree>,
}

impl Network {
    /// `sum(weight * -log_probability)` over the targets, without gradients or dropout.
    ///
    /// # Errors
    /// For a batch that does not fit its targets or the vocabulary.
    pub fn loss(&self, batch: &PackedBatch, targets: &Targets) -> Result<f64, NetworkError> {
        let chosen = self.chosen(batch, targets)?;
        let found = self.scores(batch, &chosen)?;
        Ok(weighted(&found, &chosen.weights))
    }

    /// The log-probability of each target with a weight other than zero, in the order of the batch's tokens; zero for
    /// the others.
    ///
    /// # Errors
    /// For a batch that does not fit its targets or the vocabulary.
    pub fn log_probabilities(&self, batch: &PackedBatch, targets: &Targets) -> Result<Vec<f32>, NetworkError> {
        let chosen = self.chosen(batch, targets)?;
        let found = self.scores(batch, &chosen)?;
        Ok(chosen.spread(&found, batch.tokens()))
    }

    /// Adds to `gradients` those of `sum(weight * -log_probability)` and returns that sum. A target of weight zero
    /// costs nothing in the head.
    ///
    /// # Errors
    /// For a batch that does not fit its targets or the vocabulary, and where a weight that trains was not reached.
    pub fn accumulate(
        &self,
        batch: &PackedBatch,
        targets: &Targets,
        how: &TrainingPass,
        gradients: &mut Gradients,
    ) -> Result<f64, NetworkError> {
        let chosen = self.chosen(batch, targets)?;
        let weights = chosen.weights.clone();
        let found = self.run(batch, how.dropout.as_ref(), Backward { chosen: &chosen, how, weigh: None, gradients })?;
        Ok(weighted(&found, &weights))
    }

    /// Adds to `gradients` those of any loss that is a function of the targets' log-probabilities: `slopes` is given
    /// the log-probability of every target (zero where its weight is zero) and returns the loss's derivative by each.
    /// Returns the log-probabilities. This is what policy gradients need; the head runs twice.
    ///
    /// # Errors
    /// Those of `slopes`, and as [`Network::accumulate`].
    pub fn accumulate_with<E: From<NetworkError>>(
        &self,
        batch: &PackedBatch,
        targets: &Targets,
        how: &TrainingPass,
        gradients: &mut Gradients,
        slopes: impl FnOnce(&[f32]) -> Result<Vec<f32>, E>,
    ) -> Result<Vec<f32>, E> {
        let chosen = self.chosen(batch, targets)?;
        let tokens = batch.tokens();
        let mut failure = None;
        let mut slopes = Some(slopes);
        let mut weigh = |found: &[f32]| {
            let given = slopes.take().map(|slopes| slopes(&chosen.spread(found, tokens)));
            match given {
                Some(Ok(slopes)) if slopes.len() == tokens => Ok(chosen.tokens.iter().map(|token| -slopes[*token]).collect()),
                Some(Ok(slopes)) => Err(NetworkError::Batch(format!("{} slopes for {tokens} tokens", slopes.len()))),
                Some(Err(error)) => {
                    failure = Some(error);
                    Err(NetworkError::Batch("the loss failed".into()))
                }
                None => Err(NetworkError::Batch("the loss was asked for twice".into())),
            }
        };
        let found = self.run(batch, how.dropout.as_ref(), Backward { chosen: &chosen, how, weigh: Some(&mut weigh), gradients });
        match (failure, found) {
            (Some(error), _) => Err(error),
            (None, found) => Ok(chosen.spread(&found?, tokens)),
        }
    }

    fn chosen(&self, batch: &PackedBatch, targets: &Targets) -> Result<Chosen, NetworkError> {
        if targets.ids().len() != batch.tokens() {
            return Err(NetworkError::Batch(format!("{} targets for {} tokens", targets.ids().len(), batch.tokens())));
        }
        self.check_tokens(batch.ids())?;
        self.check_tokens(targets.ids())?;
        let tokens: Vec<usize> = (0..batch.tokens()).filter(|token| targets.weights()[*token] != 0.0).collect();
        if tokens.is_empty() {
            return Err(NetworkError::Batch("every target has weight zero: there is nothing to learn from".into()));
        }
        Ok(Chosen {
            ids: tokens.iter().map(|token| targets.ids()[*token]).collect(),
            weights: tokens.iter().map(|token| targets.weights()[*token]).collect(),
            tokens,
        })
    }

    fn scores(&self, batch: &PackedBatch, chosen: &Chosen) -> Result<Vec<f32>, NetworkError> {
        self.run(batch, None, Forward { chosen })
    }

    /// Runs `job` on the engine of this network.
    fn run<J: Job>(&self, batch: &PackedBatch, dropout: Option<&SeedTree>, job: J) -> Result<J::Output, NetworkError> {
        let config = self.config();
        let shape = head_shape(config);
        let pass = Pass { workspace: &self.workspace, dropout };
        let table = RotaryTable::new(batch.positions(), config.head_dim, config.rope_theta);
        match self.kernels() {
            Kernels::Fused => {
                #[expect(clippy::cast_possible_truncation, reason = "single precision is what it is added to")]
                let epsilon = config.norm_epsilon as f32;
                let tokens = Tokens { shape, epsilon, table: &table, length: batch.length(), starts: batch.starts(), pass };
                job.run(self, batch, &Fused { network: self, tokens })
            }
            Kernels::Composed => {
                let device = self.embedding.tensor().device();
                let table: (Tensor, Tensor) = table.tensors(device)?;
                let mask = mask(batch.starts(), batch.length(), device)?;
                let tokens = TokenTensors { shape, epsilon: config.norm_epsilon, table: &table, rows: batch.rows(), mask: &mask, pass };
                job.run(self, batch, &Composed { network: self, tokens })
            }
        }
    }
}

/// The tokens whose targets count.
struct Chosen {
    tokens: Vec<usize>,
    ids: Vec<u32>,
    weights: Vec<f32>,
}

impl Chosen {
    fn spread(&self, found: &[f32], tokens: usize) -> Vec<f32> {
        let mut all = vec![0.0; tokens];
        for (token, found) in self.tokens.iter().zip(found) {
            all[*token] = *found;
        }
        all
    }
}

fn weighted(log_probabilities: &[f32], weights: &[f32]) -> f64 {
    log_probabilities.iter().zip(weights).map(|(found, weight)| -f64::from(*found) * f64::from(*weight)).sum()
}

/// Something to do with a network on either engine.
trait Job {
    type Output;

    fn run<E: Engine>(self, network: &Network, batch: &PackedBatch, engine: &E) -> Result<Self::Output, NetworkError>;
}

struct Forward<'a> {
    chosen: &'a Chosen,
}

impl Job for Forward<'_> {
    type Output = Vec<f32>;

    fn run<E: Engine>(self, network: &Network, batch: &PackedBatch, engine: &E) -> Result<Vec<f32>, NetworkError> {
        let mut hidden = engine.embed(batch)?;
        for layer in &network.layers {
            (hidden, _) = engine.layer(layer, hidden)?;
        }
        Ok(engine.log_probabilities(&hidden, &self.chosen.tokens, &self.chosen.ids)?)
    }
}

/// Finds the weights of the loss once the log-probabilities are known.
type Weigh<'a> = &'a mut dyn FnMut(&[f32]) -> Result<Vec<f32>, NetworkError>;

struct Backward<'a> {
    chosen: &'a Chosen,
    how: &'a TrainingPass,
    weigh: Option<Weigh<'a>>,
    gradients: &'a mut Gradients,
}

/// What is kept of a layer's forward.
enum Kept<E: Engine> {
    Tape(E::Tape),
    Input(E::Hidden),
}

impl Job for Backward<'_> {
    type Output = Vec<f32>;

    fn run<E: Engine>(self, network: &Network, batch: &PackedBatch, engine: &E) -> Result<Vec<f32>, NetworkError> {
        let Self { chosen, how, weigh, gradients } = self;
        let mut kept: Vec<Kept<E>> = Vec::with_capacity(network.layers.len());
        let mut hidden = engine.embed(batch)?;
        for layer in &network.layers {
            let (output, tape) = engine.layer(layer, hidden)?;
            hidden = output;
            kept.push(match how.checkpointing {
                Checkpointing::Off => Kept::Tape(tape),
                Checkpointing::EveryLayer => Kept::Input(engine.input(tape)),
            });
        }
        let weights = match weigh {
            None => chosen.weights.clone(),
            Some(weigh) => weigh(&engine.log_probabilities(&hidden, &chosen.tokens, &chosen.ids)?)?,
        };
        let (found, mut gradient) = engine.head_backward(&hidden, &chosen.tokens, &chosen.ids, &weights, gradients)?;
        drop(hidden);
        for layer in network.layers.iter().rev() {
            let tape = match kept.pop() {
                Some(Kept::Tape(tape)) => tape,
                Some(Kept::Input(input)) => engine.layer(layer, input)?.1,
                None => return Err(NetworkError::Batch("a layer kept nothing".into())),
            };
            gradient = engine.layer_backward(layer, tape, gradient, gradients)?;
        }
        engine.embed_backward(batch, gradient, gradients)?;
        gradients.all_reached()?;
        Ok(found)
    }
}
