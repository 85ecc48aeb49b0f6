//! AdamW with decoupled weight decay (Loshchilov and Hutter 2019), its schedule, clipping, and a state that is saved.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use candle_core::{DType, Device, Tensor};
use rayon::prelude::*;
use thiserror::Error;

use super::network::{Gradients, Network, Parameter, on_host};
use super::ops::storage::{change_numbers, numbers};
use super::weights::{WeightsError, read_tensors, write_tensors};

/// Numbers of one parallel task.
const TASK: usize = 1 << 15;

/// What a state file calls its step.
const STEP: &str = "step";

/// Why a step cannot be taken, or a state not be read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum OptimizerError {
    /// The gradient is not a number or infinite: the weights are left as they were.
    #[error("step {step}: the gradient of `{name}` is not finite; lower the learning rate or look at the batch")]
    NotFinite {
        /// The step that was to be taken.
        step: u64,
        /// The first such weight by name.
        name: String,
    },
    /// A weight without a gradient.
    #[error("`{0}` trains but has no gradient")]
    NoGradient(String),
    /// A setting out of range.
    #[error("optimizer: {0}")]
    Setting(String),
    /// A state file of another network.
    #[error("{path}: {why}")]
    State {
        /// The file.
        path: PathBuf,
        /// What does not fit.
        why: String,
    },
    /// A file.
    #[error(transparent)]
    Weights(#[from] WeightsError),
    /// candle refused.
    #[error("{0}")]
    Candle(#[from] candle_core::Error),
}

/// The constants of AdamW.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AdamWConfig {
    /// Decay of the mean of gradients, in `[0, 1)`.
    pub beta1: f64,
    /// Decay of the mean of squared gradients, in `[0, 1)`.
    pub beta2: f64,
    /// Added to the root of the second mean.
    pub epsilon: f64,
    /// Share of a weight that a step of rate one takes away.
    pub weight_decay: f64,
    /// Which weights decay.
    pub decays: Decays,
}

/// Which weights decay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decays {
    /// All.
    All,
    /// Matrices; norms do not.
    Matrices,
}

impl Default for AdamWConfig {
    fn default() -> Self {
        Self { beta1: 0.9, beta2: 0.999, epsilon: 1e-8, weight_decay: 0.01, decays: Decays::Matrices }
    }
}

/// A rate that rises in a line to its peak and falls along half a cosine.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Schedule {
    /// The highest rate.
    pub peak: f64,
    /// Steps until it is reached.
    pub warmup: u64,
    /// Steps in all.
    pub total: u64,
    /// The rate at the end, as a share of the peak.
    pub floor: f64,
}

impl Schedule {
    /// The rate of step `step`, counted from zero. Past the end it stays at the floor.
    #[must_use]
    pub fn rate(&self, step: u64) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "steps are far below 2^52")]
        let share = |of: u64, whole: u64| of as f64 / whole as f64;
        if step < self.warmup {
            return self.peak * share(step + 1, self.warmup);
        }
        let length = self.total.saturating_sub(self.warmup).max(1);
        let progress = share((step - self.warmup).min(length), length);
        let cosine = 0.5 * (1.0 + (std::f64::consts::PI * progress).cos());
        self.peak * (self.floor + (1.0 - self.floor) * cosine)
    }
}

/// What a step did.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StepReport {
    /// Steps taken, this one included.
    pub step: u64,
    /// The norm of the gradient before clipping.
    pub gradient_norm: f64,
    /// What the gradient was multiplied by: one, or less where it was clipped.
    pub clipped_by: f64,
}

/// The two means of a weight's gradient, and the weight itself in `f32` where the network holds it in less.
#[derive(Debug)]
struct State {
    first: Tensor,
    second: Tensor,
    master: Option<Tensor>,
}

/// The optimiser of a network's trainable weights.
#[derive(Debug)]
pub struct AdamW {
    config: AdamWConfig,
    step: u64,
    states: BTreeMap<String, State>,
}

/// The factors of one step.
#[derive(Clone, Copy)]
struct Factors {
    beta1: f32,
    beta2: f32,
    /// `rate / (1 - beta1^step)`
    rate: f32,
    /// `1 / sqrt(1 - beta2^step)`
    second: f32,
    epsilon: f32,
    /// `1 - rate * decay`
    keep: f32,
    clip: f32,
}

impl AdamW {
    /// An optimiser before its first step.
    ///
    /// # Errors
    /// For constants out of range.
    pub fn new(config: AdamWConfig, network: &Network) -> Result<Self, OptimizerError> {
        let shares = [config.beta1, config.beta2];
        let sizes = [config.epsilon, config.weight_decay];
        if shares.iter().any(|beta| !(0.0..1.0).contains(beta))
            || sizes.iter().any(|size| !(0.0..=1e3).contains(size))
            || config.epsilon == 0.0
        {
            return Err(OptimizerError::Setting(format!("constants out of range: {config:?}")));
        }
        let mut states = BTreeMap::new();
        for parameter in network.trainable() {
            let tensor = parameter.tensor();
            let zeros = || Tensor::zeros(tensor.shape(), DType::F32, tensor.device());
            let master = (tensor.dtype() != DType::F32).then(|| tensor.detach().to_dtype(DType::F32)).transpose()?;
            states.insert(parameter.name().to_owned(), State { first: zeros()?, second: zeros()?, master });
        }
        Ok(Self { config, step: 0, states })
    }

    /// Steps taken.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.step
    }

    /// Moves the weights against `gradients`, whose norm is first clipped to `most_norm`. Weights are taken in the order
    /// of their names, so that a step is the same on every run.
    ///
    /// # Errors
    /// [`OptimizerError::NotFinite`] before anything is changed.
    pub fn step(
        &mut self,
        network: &Network,
        gradients: &Gradients,
        rate: f64,
        most_norm: Option<f64>,
    ) -> Result<StepReport, OptimizerError> {
        let step = self.step + 1;
        let norm = gradients.norm()?;
        if !norm.is_finite() {
            return Err(OptimizerError::NotFinite { step, name: first_not_finite(gradients)? });
        }
        let clip = match most_norm {
            Some(most) if norm > most => most / norm,
            _ => 1.0,
        };
        let power = i32::try_from(step).unwrap_or(i32::MAX);
        for parameter in network.trainable() {
            let gradient = gradients.get(parameter.name()).ok_or_else(|| OptimizerError::NoGradient(parameter.name().to_owned()))?;
            let state = self.states.get(parameter.name()).ok_or_else(|| OptimizerError::NoGradient(parameter.name().to_owned()))?;
            let decays = self.config.decays == Decays::All || parameter.tensor().rank() > 1;
            let decay = if decays { self.config.weight_decay } else { 0.0 };
            #[expect(clippy::cast_possible_truncation, reason = "weights are single precision")]
            let factors = Factors {
                beta1: self.config.beta1 as f32,
                beta2: self.config.beta2 as f32,
                rate: (rate / (1.0 - self.config.beta1.powi(power))) as f32,
                second: (1.0 / (1.0 - self.config.beta2.powi(power)).sqrt()) as f32,
                epsilon: self.config.epsilon as f32,
                keep: (1.0 - rate * decay) as f32,
                clip: clip as f32,
            };
            state.update(parameter, gradient, factors)?;
        }
        self.step = step;
        Ok(StepReport { step, gradient_norm: norm, clipped_by: clip })
    }

    /// Writes the state to a file that takes its place only when it is complete.
    ///
    /// # Errors
    /// Those of the system.
    pub fn save(&self, path: &Path) -> Result<(), OptimizerError> {
        let mut tensors = BTreeMap::new();
        for (name, state) in &self.states {
            tensors.insert(format!("{name}.first"), state.first.clone());
            tensors.insert(format!("{name}.second"), state.second.clone());
            if let Some(master) = &state.master {
                tensors.insert(format!("{name}.master"), master.clone());
            }
        }
        Ok(write_tensors(path, &tensors, &[(STEP, self.step.to_string())])?)
    }

    /// Reads a state that [`AdamW::save`] wrote for the same weights: the next step is the one that would have followed.
    ///
    /// # Errors
    /// Names what is missing or does not fit the network.
    pub fn load(path: &Path, config: AdamWConfig, network: &Network) -> Result<Self, OptimizerError> {
        let mut optimizer = Self::new(config, network)?;
        let refuse = |why: String| OptimizerError::State { path: path.to_owned(), why };
        let (mut tensors, metadata) = read_tensors(path, DType::F32, &Device::Cpu)?;
        let step = metadata.get(STEP).and_then(|step| step.parse().ok());
        optimizer.step = step.ok_or_else(|| refuse("it has no count of steps: not a state of this optimiser".into()))?;
        for (name, state) in &mut optimizer.states {
            let State { first, second, master } = state;
            for (part, tensor) in [("first", Some(first)), ("second", Some(second)), ("master", master.as_mut())] {
                let Some(tensor) = tensor else { continue };
                let key = format!("{name}.{part}");
                let read = tensors.remove(&key).ok_or_else(|| refuse(format!("it has no `{key}`")))?;
                if read.shape() != tensor.shape() {
                    return Err(refuse(format!("`{key}` has shape {:?}, the weight has {:?}", read.dims(), tensor.dims())));
                }
                *tensor = read.to_device(tensor.device())?;
            }
        }
        match tensors.into_keys().next() {
            Some(name) => Err(refuse(format!("it holds `{name}`, which does not train here"))),
            None => Ok(optimizer),
        }
    }
}

impl State {
    fn update(&self, parameter: &Parameter, gradient: &Tensor, factors: Factors) -> candle_core::Result<()> {
        let weight = self.master.as_ref().unwrap_or_else(|| parameter.tensor());
        if [weight, &self.first, &self.second, gradient].into_iter().all(on_host) {
            let gradient = numbers(gradient)?;
            change_numbers(&self.first, |first| {
                change_numbers(&self.second, |second| {
                    change_numbers(weight, |weight| {
                        update_numbers(weight, first, second, &gradient, factors);
                        Ok(())
                    })
                })
            })?;
        } else {
            self.update_tensors(weight, gradient, factors)?;
        }
        match &self.master {
            Some(master) => parameter.assign(&master.to_dtype(parameter.tensor().dtype())?),
            None => Ok(()),
        }
    }

    /// The same of stock operations.
    fn update_tensors(&self, weight: &Tensor, gradient: &Tensor, f: Factors) -> candle_core::Result<()> {
        let gradient = (gradient.detach() * f64::from(f.clip))?;
        let first = ((&self.first * f64::from(f.beta1))? + (&gradient * f64::from(1.0 - f.beta1))?)?;
        let second = ((&self.second * f64::from(f.beta2))? + (gradient.sqr()? * f64::from(1.0 - f.beta2))?)?;
        let root = ((second.sqrt()? * f64::from(f.second))? + f64::from(f.epsilon))?;
        let moved = ((weight.detach() * f64::from(f.keep))? - ((&first / root)? * f64::from(f.rate))?)?;
        for (old, new) in [(&self.first, &first), (&self.second, &second), (weight, &moved)] {
            old.detach().slice_set(new, 0, 0)?;
        }
        Ok(())
    }
}

fn update_numbers(weight: &mut [f32], first: &mut [f32], second: &mut [f32], gradient: &[f32], f: Factors) {
    let tasks = weight.par_chunks_mut(TASK).zip(first.par_chunks_mut(TASK)).zip(second.par_chunks_mut(TASK)).zip(gradient.par_chunks(TASK));
    tasks.for_each(|(((weight, first), second), gradient)| {
        for (((weight, first), second), gradient) in weight.iter_mut().zip(first).zip(second).zip(gradient) {
            let gradient = gradient * f.clip;
            *first = f.beta1 * *first + (1.0 - f.beta1) * gradient;
            *second = f.beta2 * *second + (1.0 - f.beta2) * gradient * gradient;
            *weight = f.keep * *weight - f.rate * *first / (second.sqrt() * f.second + f.epsilon);
        }
    });
}

fn first_not_finite(gradients: &Gradients) -> candle_core::Result<String> {
    for (name, gradient) in gradients.iter() {
        let sum = gradient.to_dtype(DType::F64)?.sqr()?.sum_all()?.to_scalar::<f64>()?;
        if !sum.is_finite() {
            return Ok(name.to_owned());
        }
    }
    Ok("all of them together".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::SeedTree;
    use crate::student::config::NetworkConfig;
    use crate::student::network::{BaseWeights, Checkpointing, PackedBatch, Targets, TrainingPass};
    use crate::student::weights::random;

    fn network(seed: u64) -> Network {
        let mut config = NetworkConfig::nano(20, 0).unwrap();
        (config.hidden, config.intermediate, config.layers, config.head_dim) = (8, 12, 2, 4);
        let weights = random(&config, &SeedTree::new(seed), &Device::Cpu).unwrap();
        Network::new(config, weights.tensors, BaseWeights::Train).unwrap()
    }

    fn gradients(network: &Network, weight: f32) -> Gradients {
        let batch = PackedBatch::from_documents(&[vec![vec![1, 2, 3, 4]]], 0).unwrap();
        let targets = Targets::new(vec![2, 3, 4, 5], vec![weight; 4]).unwrap();
        let mut gradients = network.zero_gradients().unwrap();
        let how = TrainingPass { checkpointing: Checkpointing::Off, dropout: None };
        network.accumulate(&batch, &targets, &how, &mut gradients).unwrap();
        gradients
    }

    fn numbers_of(network: &Network) -> Vec<f32> {
        network.parameters().iter().flat_map(|p| p.tensor().flatten_all().unwrap().to_vec1::<f32>().unwrap()).collect()
    }

    #[test]
    fn the_rate_rises_and_falls() {
        let schedule = Schedule { peak: 2.0, warmup: 4, total: 14, floor: 0.1 };
        assert_eq!([0, 3, 4].map(|step| schedule.rate(step)), [0.5, 2.0, 2.0]);
        // Half way down: the mean of peak and floor.
        assert!((schedule.rate(9) - 1.1).abs() < 1e-12);
        assert!((schedule.rate(14) - 0.2).abs() < 1e-12 && (schedule.rate(1000) - 0.2).abs() < 1e-12);
        assert!(Schedule { peak: 1.0, warmup: 0, total: 0, floor: 0.0 }.rate(0).is_finite());
    }

    #[test]
    fn a_resumed_state_takes_the_same_step() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.safetensors");
        let (a, b) = (network(1), network(1));
        let mut first = AdamW::new(AdamWConfig::default(), &a).unwrap();
        let mut second = AdamW::new(AdamWConfig::default(), &b).unwrap();
        for (network, optimizer) in [(&a, &mut first), (&b, &mut second)] {
            for _ in 0..2 {
                optimizer.step(network, &gradients(network, 1.0), 1e-2, Some(1.0)).unwrap();
            }
        }
        second.save(&path).unwrap();
        let mut resumed = AdamW::load(&path, AdamWConfig::default(), &b).unwrap();
        assert_eq!(resumed.steps(), 2);
        first.step(&a, &gradients(&a, 1.0), 1e-2, None).unwrap();
        resumed.step(&b, &gradients(&b, 1.0), 1e-2, None).unwrap();
        assert_eq!(numbers_of(&a), numbers_of(&b));
        let other = network(1).frozen();
        assert!(AdamW::load(&path, AdamWConfig::default(), &other).unwrap_err().to_string().contains("does not train here"));
    }

    #[test]
    fn clipping_bounds_the_norm_and_nan_changes_nothing() {
        let network = network(2);
        let mut optimizer = AdamW::new(AdamWConfig::default(), &network).unwrap();
        let before = numbers_of(&network);
        let mut broken = gradients(&network, 1.0);
        broken.scale(f64::NAN).unwrap();
        let error = optimizer.step(&network, &broken, 1e-2, Some(1.0)).unwrap_err();
        assert!(matches!(error, OptimizerError::NotFinite { step: 1, .. }), "{error}");
        assert_eq!(numbers_of(&network), before);
        let large = gradients(&network, 1000.0);
        let report = optimizer.step(&network, &large, 1e-2, Some(0.5)).unwrap();
        assert!((report.gradient_norm * report.clipped_by - 0.5).abs() < 1e-9);
        assert_ne!(numbers_of(&network), before);
    }

    #[test]
    fn stock_operations_take_the_same_step() {
        let network = network(3);
        let parameter = network.trainable()[0];
        let gradient = gradients(&network, 1.0).get(parameter.name()).unwrap().clone();
        let factors = Factors { beta1: 0.9, beta2: 0.99, rate: 0.1, second: 3.0, epsilon: 1e-6, keep: 0.9, clip: 0.5 };
        let run = |stock: bool| {
            let zeros = || parameter.tensor().detach().zeros_like().unwrap();
            let weight = parameter.tensor().detach().copy().unwrap();
            let state = State { first: zeros(), second: zeros(), master: Some(weight.clone()) };
            if stock {
                state.update_tensors(&weight, &gradient, factors).unwrap();
            } else {
                change_numbers(&state.first, |first| {
                    change_numbers(&state.second, |second| {
                        change_numbers(&weight, |weight| {
                            update_numbers(weight, first, second, &numbers(&gradient)?, factors);
                            Ok(())
                        })
                    })
                })
                .unwrap();
            }
            weight.flatten_all().unwrap().to_vec1::<f32>().unwrap()
        };
        crate::student::ops::testing::assert_close("weights", &run(true), &run(false), 1e-6);
    }
}
