//! Matrix products on slices, written into place.

use candle_core::{Result, bail};
use gemm::Parallelism;

/// A matrix seen in a slice.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Matrix<'a> {
    data: &'a [f32],
    rows: usize,
    columns: usize,
    row_stride: usize,
    column_stride: usize,
}

impl<'a> Matrix<'a> {
    /// `rows` rows of `columns` numbers, one after the other.
    pub(crate) fn new(data: &'a [f32], rows: usize, columns: usize) -> Result<Self> {
        Self::strided(data, rows, columns, columns)
    }

    /// Rows that begin `row_stride` numbers apart.
    pub(crate) fn strided(data: &'a [f32], rows: usize, columns: usize, row_stride: usize) -> Result<Self> {
        check(data.len(), rows, columns, row_stride)?;
        Ok(Self { data, rows, columns, row_stride, column_stride: 1 })
    }

    /// The same numbers with rows and columns exchanged.
    pub(crate) fn transposed(self) -> Self {
        Self { rows: self.columns, columns: self.rows, row_stride: self.column_stride, column_stride: self.row_stride, ..self }
    }
}

/// A matrix that is written to.
#[derive(Debug)]
pub(crate) struct Target<'a> {
    data: &'a mut [f32],
    rows: usize,
    columns: usize,
    row_stride: usize,
}

impl<'a> Target<'a> {
    /// `rows` rows of `columns` numbers, one after the other.
    pub(crate) fn new(data: &'a mut [f32], rows: usize, columns: usize) -> Result<Self> {
        Self::strided(data, rows, columns, columns)
    }

    /// Rows that begin `row_stride` numbers apart.
    pub(crate) fn strided(data: &'a mut [f32], rows: usize, columns: usize, row_stride: usize) -> Result<Self> {
        check(data.len(), rows, columns, row_stride)?;
        Ok(Self { data, rows, columns, row_stride })
    }
}

/// What becomes of the target's old contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Write {
    /// They are overwritten, never read.
    Replace,
    /// The product is added to them.
    Add,
}

/// Who computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Threads {
    /// The calling thread: for products inside parallel tasks.
    One,
    /// All threads of the pool.
    All,
}

/// `target = scale * left * right`, or `target += ...`.
///
/// # Errors
/// Where the shapes do not fit each other.
pub(crate) fn product(target: Target<'_>, write: Write, scale: f32, left: Matrix<'_>, right: Matrix<'_>, threads: Threads) -> Result<()> {
    if left.columns != right.rows || target.rows != left.rows || target.columns != right.columns {
        bail!("a product of {}x{} and {}x{} into {}x{}", left.rows, left.columns, right.rows, right.columns, target.rows, target.columns)
    }
    let parallelism = match threads {
        Threads::One => Parallelism::None,
        Threads::All => Parallelism::Rayon(rayon::current_num_threads()),
    };
    #[expect(clippy::cast_possible_wrap, reason = "a stride is within its slice, whose length is at most isize::MAX")]
    let stride = |stride: usize| stride as isize;
    #[expect(unsafe_code, reason = "the product's library takes pointers")]
    // SAFETY: `check` ran for all three matrices when they were made: every index `row * row_stride + column` (exchanged
    // for a transposed one) with `row < rows` and `column < columns` lies inside its slice. The target is borrowed
    // mutably, so it overlaps neither operand.
    unsafe {
        gemm::gemm(
            target.rows,
            target.columns,
            left.columns,
            target.data.as_mut_ptr(),
            1,
            stride(target.row_stride),
            write == Write::Add,
            left.data.as_ptr(),
            stride(left.column_stride),
            stride(left.row_stride),
            right.data.as_ptr(),
            stride(right.column_stride),
            stride(right.row_stride),
            1.0_f32,
            scale,
            false,
            false,
            false,
            parallelism,
        );
    }
    Ok(())
}

fn check(length: usize, rows: usize, columns: usize, row_stride: usize) -> Result<()> {
    let needed = match rows.checked_sub(1) {
        None => Some(0),
        Some(last) => last.checked_mul(row_stride).and_then(|start| start.checked_add(columns)),
    };
    if columns > row_stride || needed.is_none_or(|needed| needed > length) {
        bail!("{rows} rows of {columns} numbers, {row_stride} apart, in a slice of {length}")
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_of_views_are_those_by_hand() {
        // [1 2; 3 4] inside rows of three, times [5 6; 7 8] transposed.
        let left = [1.0, 2.0, 9.0, 3.0, 4.0];
        let right = [5.0, 6.0, 7.0, 8.0];
        let mut out = [1.0; 5];
        let l = Matrix::strided(&left, 2, 2, 3).unwrap();
        let r = Matrix::new(&right, 2, 2).unwrap().transposed();
        product(Target::strided(&mut out, 2, 2, 3).unwrap(), Write::Add, 2.0, l, r, Threads::One).unwrap();
        assert_eq!(out, [35.0, 47.0, 1.0, 79.0, 107.0]);
        product(Target::strided(&mut out, 2, 2, 3).unwrap(), Write::Replace, 1.0, l, r, Threads::All).unwrap();
        assert_eq!(out, [17.0, 23.0, 1.0, 39.0, 53.0]);
    }

    #[test]
    fn what_does_not_fit_is_an_error() {
        let data = [0.0; 6];
        assert!(Matrix::new(&data, 2, 4).is_err());
        assert!(Matrix::strided(&data, 2, 3, 2).is_err());
        assert!(Matrix::strided(&data, usize::MAX, 3, usize::MAX).is_err());
        let mut out = [0.0; 6];
        let matrix = Matrix::new(&data, 2, 3).unwrap();
        assert!(product(Target::new(&mut out, 2, 3).unwrap(), Write::Replace, 1.0, matrix, matrix, Threads::One).is_err());
    }
}
