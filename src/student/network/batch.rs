//! What a network reads in one pass: rows of tokens, several documents to a row.

use super::NetworkError;

/// Rows of one length. A row holds documents one after the other; tokens see their own document only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackedBatch {
    rows: usize,
    length: usize,
    ids: Vec<u32>,
    positions: Vec<u32>,
    starts: Vec<u32>,
}

impl PackedBatch {
    /// A batch of `rows` rows of `length` tokens. For each token, row by row: its id, its position for the rotary
    /// embedding, and the index within the row of the first token of its document.
    ///
    /// # Errors
    /// [`NetworkError::Batch`] where the lists have other lengths, or a document is not a run of tokens.
    pub fn new(rows: usize, length: usize, ids: Vec<u32>, positions: Vec<u32>, starts: Vec<u32>) -> Result<Self, NetworkError> {
        let refuse = |why: String| Err(NetworkError::Batch(why));
        let tokens = rows.checked_mul(length).filter(|tokens| *tokens > 0);
        if tokens != Some(ids.len()) || positions.len() != ids.len() || starts.len() != ids.len() {
            return refuse(format!(
                "{rows} rows of {length} tokens with {} ids, {} positions and {} starts",
                ids.len(),
                positions.len(),
                starts.len()
            ));
        }
        for row in starts.chunks(length) {
            let mut current = None;
            for (index, start) in row.iter().enumerate() {
                if current != Some(*start) && usize::try_from(*start) != Ok(index) {
                    return refuse(format!("token {index} of a row says its document starts at {start}, where none does"));
                }
                current = Some(*start);
            }
        }
        Ok(Self { rows, length, ids, positions, starts })
    }

    /// A batch of rows given as documents, filled up to the longest row with `padding`. Positions count from each
    /// document's start. Padding tokens are documents of their own: they see nothing and nobody sees them.
    ///
    /// # Errors
    /// [`NetworkError::Batch`] for no tokens at all or more than 2^32 in a row.
    pub fn from_documents(rows: &[Vec<Vec<u32>>], padding: u32) -> Result<Self, NetworkError> {
        let length = rows.iter().map(|row| row.iter().map(Vec::len).sum()).max().unwrap_or(0);
        let count = |n: usize| u32::try_from(n).map_err(|_| NetworkError::Batch(format!("a row of {n} tokens")));
        count(length)?;
        let (mut ids, mut positions, mut starts) = (Vec::new(), Vec::new(), Vec::new());
        for row in rows {
            let mut index = 0;
            for document in row {
                for (position, id) in document.iter().enumerate() {
                    ids.push(*id);
                    positions.push(count(position)?);
                    starts.push(count(index)?);
                }
                index += document.len();
            }
            for index in index..length {
                ids.push(padding);
                positions.push(0);
                starts.push(count(index)?);
            }
        }
        Self::new(rows.len(), length, ids, positions, starts)
    }

    /// Rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Tokens of a row.
    #[must_use]
    pub fn length(&self) -> usize {
        self.length
    }

    /// Tokens of all rows, padding included.
    #[must_use]
    pub fn tokens(&self) -> usize {
        self.ids.len()
    }

    /// Ids of the tokens, row by row.
    #[must_use]
    pub fn ids(&self) -> &[u32] {
        &self.ids
    }

    /// Positions of the tokens, row by row.
    #[must_use]
    pub fn positions(&self) -> &[u32] {
        &self.positions
    }

    /// For each token the index within its row of its document's first token.
    #[must_use]
    pub fn starts(&self) -> &[u32] {
        &self.starts
    }
}

/// What each token of a batch should be followed by.
#[derive(Debug, Clone, PartialEq)]
pub struct Targets {
    ids: Vec<u32>,
    weights: Vec<f32>,
}

impl Targets {
    /// For each token of the batch the token wanted after it, and the weight of its negative log-likelihood in the
    /// loss; weight zero leaves the token out (its id then has no meaning, but must be in the vocabulary).
    ///
    /// # Errors
    /// [`NetworkError::Batch`] for lists of different lengths or a weight that is not finite.
    pub fn new(ids: Vec<u32>, weights: Vec<f32>) -> Result<Self, NetworkError> {
        if ids.len() != weights.len() {
            return Err(NetworkError::Batch(format!("{} targets with {} weights", ids.len(), weights.len())));
        }
        if let Some(place) = weights.iter().position(|weight| !weight.is_finite()) {
            return Err(NetworkError::Batch(format!("the weight of target {place} is {}", weights[place])));
        }
        Ok(Self { ids, weights })
    }

    /// The wanted tokens.
    #[must_use]
    pub fn ids(&self) -> &[u32] {
        &self.ids
    }

    /// Their weights.
    #[must_use]
    pub fn weights(&self) -> &[f32] {
        &self.weights
    }

    /// The sum of the weights.
    #[must_use]
    pub fn total_weight(&self) -> f64 {
        self.weights.iter().map(|weight| f64::from(*weight)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_packed_and_padded() {
        let batch = PackedBatch::from_documents(&[vec![vec![5, 6], vec![7]], vec![vec![8]]], 0).unwrap();
        assert_eq!((batch.rows(), batch.length()), (2, 3));
        assert_eq!(batch.ids(), [5, 6, 7, 8, 0, 0]);
        assert_eq!(batch.positions(), [0, 1, 0, 0, 0, 0]);
        assert_eq!(batch.starts(), [0, 0, 2, 0, 1, 2]);
    }

    #[test]
    fn malformed_batches_are_refused() {
        assert!(PackedBatch::from_documents(&[], 0).is_err());
        assert!(PackedBatch::new(1, 2, vec![1], vec![0, 1], vec![0, 0]).is_err());
        // A document that starts later than its token, and one that goes on after another began.
        assert!(PackedBatch::new(1, 2, vec![1, 2], vec![0, 1], vec![1, 1]).is_err());
        assert!(PackedBatch::new(1, 3, vec![1, 2, 3], vec![0, 0, 1], vec![0, 1, 0]).is_err());
        assert!(Targets::new(vec![1], vec![]).is_err());
        assert!(Targets::new(vec![1], vec![f32::NAN]).is_err());
    }
}
