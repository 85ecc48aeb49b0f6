//! A row of samples as a training step takes it.

use std::ops::Range;

use super::error::DataError;
use super::sample::Sample;

/// A row of one length. Attention, loss and padding are told apart by three fields and nothing else: the padding token may be one
/// that is learnt.
#[derive(Debug, Clone, PartialEq)]
pub struct PackedRow {
    /// Token ids, padding included.
    pub ids: Vec<u32>,
    /// Attention: the tokens of each sample. A token sees those before it in its own sample only.
    pub documents: Vec<Range<usize>>,
    /// Loss: how much it counts to predict this token from those before it; 0 for what is not learnt.
    pub weights: Vec<f32>,
    /// Padding: tokens from here on mean nothing.
    pub used: usize,
    /// Place of each token in its sample, from 0; 0 in the padding.
    pub positions: Vec<u32>,
}

impl PackedRow {
    /// Puts `samples` side by side and fills up with `padding`.
    ///
    /// # Errors
    /// When they are longer than `length` together.
    pub fn new<'s>(samples: impl IntoIterator<Item = &'s Sample>, length: usize, padding: u32) -> Result<Self, DataError> {
        let mut row = Self { ids: Vec::new(), documents: Vec::new(), weights: Vec::new(), used: 0, positions: Vec::new() };
        for sample in samples {
            let start = row.ids.len();
            row.ids.extend_from_slice(&sample.ids);
            if row.ids.len() > length {
                return Err(DataError::Row { tokens: row.ids.len(), row: length });
            }
            row.documents.push(start..row.ids.len());
            row.positions.extend((0_u32..).take(sample.ids.len()));
            row.weights.resize(row.ids.len(), 0.0);
            // Nothing stands before the first token that it could be predicted from.
            for index in sample.trained.iter().flat_map(Clone::clone).filter(|index| *index > 0) {
                if let Some(weight) = row.weights.get_mut(start + index) {
                    *weight = 1.0;
                }
            }
        }
        row.used = row.ids.len();
        row.ids.resize(length, padding);
        row.weights.resize(length, 0.0);
        row.positions.resize(length, 0);
        Ok(row)
    }

    /// Targets and weights for the outputs of a causal model: what follows each token, and how much predicting it counts. The last
    /// token has no target; its weight is 0.
    #[must_use]
    pub fn shifted(&self) -> (Vec<u32>, Vec<f32>) {
        let shift = |weights: &[f32]| weights.iter().skip(1).copied().chain([0.0]).take(weights.len()).collect();
        let targets = self.ids.iter().skip(1).copied().chain(self.ids.last().copied()).take(self.ids.len()).collect();
        (targets, shift(&self.weights))
    }

    /// How many tokens are learnt.
    #[must_use]
    pub fn trained_tokens(&self) -> usize {
        self.weights.iter().filter(|weight| **weight > 0.0).count()
    }
}
