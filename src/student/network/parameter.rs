//! Weights by their names, and the gradients of those that train.

use std::collections::{BTreeMap, BTreeSet};

use candle_core::{DType, Result, Tensor, Var};

use super::NetworkError;
use crate::student::ops::storage::{change_numbers, numbers};

/// A weight of the network.
#[derive(Debug, Clone)]
pub struct Parameter {
    name: String,
    value: Value,
}

#[derive(Debug, Clone)]
enum Value {
    Trainable(Var),
    Frozen(Tensor),
}

impl Parameter {
    /// A weight that keeps its value.
    #[must_use]
    pub fn frozen(name: impl Into<String>, tensor: &Tensor) -> Self {
        Self { name: name.into(), value: Value::Frozen(tensor.detach()) }
    }

    /// A weight that trains; `tensor` is copied.
    ///
    /// # Errors
    /// Those of candle.
    pub fn trainable(name: impl Into<String>, tensor: &Tensor) -> Result<Self> {
        Ok(Self { name: name.into(), value: Value::Trainable(Var::from_tensor(tensor)?) })
    }

    /// Its name in Hugging Face's layout.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its value; a variable of candle's graph if it trains.
    #[must_use]
    pub fn tensor(&self) -> &Tensor {
        match &self.value {
            Value::Trainable(var) => var.as_tensor(),
            Value::Frozen(tensor) => tensor,
        }
    }

    /// Whether it trains.
    #[must_use]
    pub fn trains(&self) -> bool {
        matches!(self.value, Value::Trainable(_))
    }

    /// Overwrites the value of a weight that trains.
    pub(crate) fn assign(&self, tensor: &Tensor) -> Result<()> {
        match &self.value {
            Value::Trainable(var) => var.set(tensor),
            Value::Frozen(_) => candle_core::bail!("`{}` does not train", self.name),
        }
    }

    /// The same value, frozen.
    #[must_use]
    pub(crate) fn into_frozen(self) -> Self {
        let tensor = self.tensor().detach();
        Self { name: self.name, value: Value::Frozen(tensor) }
    }
}

/// Gradients of the trainable weights, in `f32`, summed over as many batches as were run into them.
#[derive(Debug)]
pub struct Gradients {
    by_name: BTreeMap<String, Tensor>,
    reached: BTreeSet<String>,
}

impl Gradients {
    /// Zeros for every weight of `trainable`.
    ///
    /// # Errors
    /// [`NetworkError::NothingTrains`] for none.
    pub fn zeros<'a>(trainable: impl IntoIterator<Item = &'a Parameter>) -> std::result::Result<Self, NetworkError> {
        let mut by_name = BTreeMap::new();
        for parameter in trainable {
            let tensor = parameter.tensor();
            by_name.insert(parameter.name.clone(), Tensor::zeros(tensor.shape(), DType::F32, tensor.device())?);
        }
        if by_name.is_empty() {
            return Err(NetworkError::NothingTrains);
        }
        Ok(Self { by_name, reached: BTreeSet::new() })
    }

    /// Sets all to zero and keeps their memory.
    ///
    /// # Errors
    /// Those of candle.
    pub fn clear(&mut self) -> Result<()> {
        self.reached.clear();
        for gradient in self.by_name.values_mut() {
            if on_host(gradient) {
                change_numbers(gradient, |numbers| {
                    numbers.fill(0.0);
                    Ok(())
                })?;
            } else {
                *gradient = gradient.zeros_like()?;
            }
        }
        Ok(())
    }

    /// Multiplies all by `factor`.
    ///
    /// # Errors
    /// Those of candle.
    pub fn scale(&mut self, factor: f64) -> Result<()> {
        for gradient in self.by_name.values_mut() {
            if on_host(gradient) {
                #[expect(clippy::cast_possible_truncation, reason = "gradients are single precision")]
                let factor = factor as f32;
                change_numbers(gradient, |numbers| {
                    numbers.iter_mut().for_each(|x| *x *= factor);
                    Ok(())
                })?;
            } else {
                *gradient = (&*gradient * factor)?;
            }
        }
        Ok(())
    }

    /// The Euclidean norm over all weights; summed in double precision, in the order of names.
    ///
    /// # Errors
    /// Those of candle.
    pub fn norm(&self) -> Result<f64> {
        let mut sum = 0.0;
        for gradient in self.by_name.values() {
            sum += if on_host(gradient) {
                numbers(gradient)?.iter().map(|x| f64::from(*x) * f64::from(*x)).sum::<f64>()
            } else {
                f64::from(gradient.sqr()?.sum_all()?.to_scalar::<f32>()?)
            };
        }
        Ok(sum.sqrt())
    }

    /// The gradient of a weight.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Tensor> {
        self.by_name.get(name)
    }

    /// Names and gradients, in the order of names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Tensor)> {
        self.by_name.iter().map(|(name, gradient)| (name.as_str(), gradient))
    }

    /// Lets `add` add to the gradient of `parameter`, if it trains (CPU only).
    pub(crate) fn change(&mut self, parameter: &Parameter, add: impl FnOnce(&mut [f32]) -> Result<()>) -> Result<()> {
        match self.by_name.get(parameter.name()).filter(|_| parameter.trains()) {
            None => Ok(()),
            Some(gradient) => {
                change_numbers(gradient, add)?;
                self.mark(parameter)
            }
        }
    }

    /// Adds `numbers` to the gradient of `parameter`, if it trains (CPU only).
    pub(crate) fn add_numbers(&mut self, parameter: &Parameter, numbers: &[f32]) -> Result<()> {
        self.change(parameter, |sum| {
            sum.iter_mut().zip(numbers).for_each(|(sum, x)| *sum += x);
            Ok(())
        })
    }

    /// Adds a tensor to the gradient of `parameter`, if it trains.
    pub(crate) fn add(&mut self, parameter: &Parameter, gradient: &Tensor) -> Result<()> {
        if let Some(sum) = self.by_name.get_mut(parameter.name()).filter(|_| parameter.trains()) {
            *sum = (&*sum + gradient.to_dtype(DType::F32)?)?.detach();
            self.mark(parameter)?;
        }
        Ok(())
    }

    /// Fails where a weight that trains was not reached since the last [`Gradients::clear`].
    pub(crate) fn all_reached(&self) -> std::result::Result<(), NetworkError> {
        match self.by_name.keys().find(|name| !self.reached.contains(*name)) {
            Some(name) => Err(NetworkError::NoGradient(name.clone())),
            None => Ok(()),
        }
    }

    fn mark(&mut self, parameter: &Parameter) -> Result<()> {
        if !self.reached.contains(parameter.name()) {
            self.reached.insert(parameter.name().to_owned());
        }
        Ok(())
    }
}

/// Whether a tensor's numbers can be seen as a slice of `f32`.
pub(crate) fn on_host(tensor: &Tensor) -> bool {
    tensor.device().is_cpu() && tensor.dtype() == DType::F32 && tensor.is_contiguous()
}
