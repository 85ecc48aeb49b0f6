//! A linear map with, perhaps, a low-rank adapter beside it (Hu et al. 2021).

use candle_core::{Result, Tensor};

use super::parameter::{Gradients, Parameter};
use crate::base::SeedTree;
use crate::student::ops::dropout::Dropout;
use crate::student::ops::linear::composed;
use crate::student::ops::product::{Matrix, Target, Threads, Write, product};
use crate::student::ops::storage::numbers;
use crate::student::ops::workspace::{Buffer, Workspace};

/// `y = x W^T`, plus `scale * dropout(x) A^T B^T` where there is an adapter.
#[derive(Debug, Clone)]
pub(crate) struct Linear {
    /// `(out, in)`.
    pub weight: Parameter,
    /// Beside it.
    pub adapter: Option<Adapter>,
}

/// A low-rank adapter.
#[derive(Debug, Clone)]
pub(crate) struct Adapter {
    /// A: `(rank, in)`.
    pub down: Parameter,
    /// B: `(out, rank)`.
    pub up: Parameter,
    /// Multiplies what the adapter gives.
    pub scale: f64,
    /// Share of the adapter's input dropped while training.
    pub dropout: f64,
}

/// What all maps of one pass share.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pass<'a> {
    /// Where buffers come from.
    pub workspace: &'a Workspace,
    /// The seed of this pass's dropout; none outside training.
    pub dropout: Option<&'a SeedTree>,
}

/// A matrix within rows that begin `stride` numbers apart.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Columns<'a> {
    /// Begins at the first number of the first row.
    pub data: &'a [f32],
    /// Numbers between two rows.
    pub stride: usize,
}

/// What a map was given, for its backward.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Input<'a> {
    /// `(rows, in)`.
    pub x: &'a [f32],
    /// Rows.
    pub rows: usize,
    /// What [`Linear::forward`] returned.
    pub reduced: Option<&'a Buffer>,
}

impl Linear {
    /// Every weight here, the adapter's included.
    pub(crate) fn parameters(&self) -> impl Iterator<Item = &Parameter> {
        std::iter::once(&self.weight).chain(self.adapter.iter().flat_map(|adapter| [&adapter.down, &adapter.up]))
    }

    fn dropout(&self, pass: Pass<'_>) -> Option<Dropout> {
        let rate = self.adapter.as_ref().map(|adapter| adapter.dropout).filter(|rate| *rate > 0.0)?;
        Some(Dropout { rate, seed: pass.dropout?.child(self.weight.name()).value() })
    }

    /// The adapter's input.
    fn dropped(&self, x: &[f32], pass: Pass<'_>) -> Option<Buffer> {
        self.dropout(pass).map(|dropout| {
            let mut kept = pass.workspace.copy_of(x);
            dropout.apply(&mut kept);
            kept
        })
    }

    /// Writes the result for `rows` rows of `x` to `y`, whose rows begin `stride` numbers apart, and returns what the
    /// adapter's backward needs.
    pub(crate) fn forward(
        &self,
        x: &[f32],
        rows: usize,
        y: &mut [f32],
        stride: usize,
        write: Write,
        pass: Pass<'_>,
    ) -> Result<Option<Buffer>> {
        let (width_out, width_in) = self.weight.tensor().dims2()?;
        let input = Matrix::new(x, rows, width_in)?;
        let weight = numbers(self.weight.tensor())?;
        let weight = Matrix::new(&weight, width_out, width_in)?.transposed();
        product(Target::strided(y, rows, width_out, stride)?, write, 1.0, input, weight, Threads::All)?;
        let Some(adapter) = &self.adapter else { return Ok(None) };
        let rank = adapter.down.tensor().dim(0)?;
        let dropped = self.dropped(x, pass);
        let input = Matrix::new(dropped.as_deref().unwrap_or(x), rows, width_in)?;
        let (down, up) = (numbers(adapter.down.tensor())?, numbers(adapter.up.tensor())?);
        let mut reduced = pass.workspace.take(rows * rank);
        let down = Matrix::new(&down, rank, width_in)?.transposed();
        product(Target::new(&mut reduced, rows, rank)?, Write::Replace, 1.0, input, down, Threads::All)?;
        let (narrow, up) = (Matrix::new(&reduced, rows, rank)?, Matrix::new(&up, width_out, rank)?.transposed());
        product(Target::strided(y, rows, width_out, stride)?, Write::Add, adapter.scale(), narrow, up, Threads::All)?;
        Ok(Some(reduced))
    }

    /// Writes the gradient of the input to `dx` and adds those of the weights that train; `dy` is the gradient of the
    /// result.
    pub(crate) fn backward(
        &self,
        input: Input<'_>,
        dy: Columns<'_>,
        (dx, write): (&mut [f32], Write),
        pass: Pass<'_>,
        gradients: &mut Gradients,
    ) -> Result<()> {
        let (width_out, width_in) = self.weight.tensor().dims2()?;
        let Input { x, rows, reduced } = input;
        let dy = Matrix::strided(dy.data, rows, width_out, dy.stride)?;
        let weight = numbers(self.weight.tensor())?;
        product(Target::new(dx, rows, width_in)?, write, 1.0, dy, Matrix::new(&weight, width_out, width_in)?, Threads::All)?;
        gradients.change(&self.weight, |dw| {
            let x = Matrix::new(x, rows, width_in)?;
            product(Target::new(dw, width_out, width_in)?, Write::Add, 1.0, dy.transposed(), x, Threads::All)
        })?;
        match (&self.adapter, reduced) {
            (Some(adapter), Some(reduced)) => {
                let dropped = self.dropout(pass).map(|dropout| (dropout, self.dropped(x, pass)));
                let input = dropped.as_ref().and_then(|(_, dropped)| dropped.as_deref()).unwrap_or(x);
                adapter.backward(input, reduced, dy, dx, dropped.as_ref().map(|(dropout, _)| *dropout), pass.workspace, gradients)
            }
            _ => Ok(()),
        }
    }

    /// The same of stock operations, for other devices and number types.
    pub(crate) fn composed(&self, x: &Tensor, pass: Pass<'_>) -> Result<Tensor> {
        let y = composed(x, self.weight.tensor())?;
        let Some(adapter) = &self.adapter else { return Ok(y) };
        let input = match self.dropout(pass) {
            None => x.clone(),
            Some(dropout) => {
                let factors = Tensor::from_vec(dropout.factors(x.elem_count()), x.shape(), x.device())?;
                (x * factors.to_dtype(x.dtype())?)?
            }
        };
        let narrow = composed(&input, adapter.down.tensor())?;
        y + (composed(&narrow, adapter.up.tensor())? * adapter.scale)?
    }

    /// The weight with the adapter's share added to it.
    pub(crate) fn merged(&self) -> Result<Tensor> {
        let weight = self.weight.tensor().detach();
        match &self.adapter {
            None => Ok(weight),
            Some(adapter) => {
                weight
                    + (adapter.up.tensor().detach().matmul(&adapter.down.tensor().detach())? * adapter.scale)?
                        .to_dtype(self.weight.tensor().dtype())?
            }
        }
    }
}

impl Adapter {
    #[expect(clippy::cast_possible_truncation, reason = "what it multiplies is single precision")]
    fn scale(&self) -> f32 {
        self.scale as f32
    }

    /// `x` is the adapter's input, after dropout; `reduced` is `x A^T`.
    #[expect(clippy::too_many_arguments, reason = "an input, what the forward kept, and where the four gradients go")]
    fn backward(
        &self,
        x: &[f32],
        reduced: &[f32],
        dy: Matrix<'_>,
        dx: &mut [f32],
        dropout: Option<Dropout>,
        workspace: &Workspace,
        gradients: &mut Gradients,
    ) -> Result<()> {
        let (rank, width_in) = self.down.tensor().dims2()?;
        let (rows, width_out) = (reduced.len() / rank, self.up.tensor().dim(0)?);
        gradients.change(&self.up, |d_up| {
            let reduced = Matrix::new(reduced, rows, rank)?;
            product(Target::new(d_up, width_out, rank)?, Write::Add, self.scale(), dy.transposed(), reduced, Threads::All)
        })?;
        let mut d_reduced = workspace.take(rows * rank);
        let up = numbers(self.up.tensor())?;
        product(
            Target::new(&mut d_reduced, rows, rank)?,
            Write::Replace,
            self.scale(),
            dy,
            Matrix::new(&up, width_out, rank)?,
            Threads::All,
        )?;
        let d_reduced = Matrix::new(&d_reduced, rows, rank)?;
        gradients.change(&self.down, |d_down| {
            let x = Matrix::new(x, rows, width_in)?;
            product(Target::new(d_down, rank, width_in)?, Write::Add, 1.0, d_reduced.transposed(), x, Threads::All)
        })?;
        let down = numbers(self.down.tensor())?;
        let down = Matrix::new(&down, rank, width_in)?;
        let Some(dropout) = dropout else {
            return product(Target::new(dx, rows, width_in)?, Write::Add, 1.0, d_reduced, down, Threads::All);
        };
        let mut through = workspace.take(rows * width_in);
        product(Target::new(&mut through, rows, width_in)?, Write::Replace, 1.0, d_reduced, down, Threads::All)?;
        dropout.apply(&mut through);
        dx.iter_mut().zip(through.iter()).for_each(|(dx, through)| *dx += through);
        Ok(())
    }
}
