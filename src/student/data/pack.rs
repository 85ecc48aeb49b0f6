//! Samples into rows of one length.

use rand::seq::SliceRandom as _;

use super::error::DataError;
use crate::base::SeedTree;

/// Which samples share a row, by first-fit decreasing: the longest first, each into the first row that has room (Johnson 1973: at most
/// 11/9 of the fewest rows, and one more). Equal lengths and the rows themselves come in an order drawn from `seeds`.
///
/// # Errors
/// When a sample is longer than a row.
pub fn pack(lengths: &[usize], row: usize, seeds: &SeedTree) -> Result<Vec<Vec<usize>>, DataError> {
    if let Some(&tokens) = lengths.iter().find(|tokens| **tokens > row) {
        return Err(DataError::Row { tokens, row });
    }
    let mut order: Vec<usize> = (0..lengths.len()).filter(|index| lengths[*index] > 0).collect();
    order.shuffle(&mut seeds.child("samples").rng());
    order.sort_by_key(|index| std::cmp::Reverse(lengths[*index]));
    let mut room = Room::new(order.len(), row);
    let mut rows: Vec<Vec<usize>> = Vec::new();
    for index in order {
        let place = room.take(lengths[index]);
        if place == rows.len() {
            rows.push(Vec::new());
        }
        if let Some(samples) = rows.get_mut(place) {
            samples.push(index);
        }
    }
    rows.shuffle(&mut seeds.child("rows").rng());
    Ok(rows)
}

/// What is free in each row: a tree of maxima, so that the first row with room is found in logarithmic time.
struct Room {
    free: Vec<usize>,
    leaves: usize,
}

impl Room {
    fn new(rows: usize, length: usize) -> Self {
        let leaves = rows.next_power_of_two();
        Self { free: vec![length; 2 * leaves], leaves }
    }

    /// Takes `tokens` from the first row that has them. There are as many rows as samples, so one has.
    fn take(&mut self, tokens: usize) -> usize {
        let mut node = 1;
        while node < self.leaves {
            node = if self.free[2 * node] >= tokens { 2 * node } else { 2 * node + 1 };
        }
        let row = node - self.leaves;
        self.free[node] -= tokens;
        while node > 1 {
            node /= 2;
            self.free[node] = self.free[2 * node].max(self.free[2 * node + 1]);
        }
        row
    }
}
