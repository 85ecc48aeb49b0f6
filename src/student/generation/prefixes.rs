//! Keys and values of past requests, for those that begin alike: the next step of an episode goes on where the last one ended.

use std::collections::VecDeque;

use crate::student::network::RowCache;

/// Rows that are kept at most, whatever their size: each request is compared with all of them.
const MOST_ROWS: usize = 64;

/// Tokens that two lists begin with alike.
pub(super) fn common(a: &[u32], b: &[u32]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// Rows of past requests, least recently used first.
#[derive(Default)]
pub(super) struct PrefixCache {
    rows: VecDeque<(Vec<u32>, RowCache)>,
}

impl PrefixCache {
    /// Tokens in all rows.
    pub(super) fn tokens(&self) -> usize {
        self.rows.iter().map(|(tokens, _)| tokens.len()).sum()
    }

    /// The row that shares the longest beginning with `tokens`, and its length; the latest of equals.
    pub(super) fn longest(&self, tokens: &[u32]) -> Option<(usize, usize)> {
        let shared = self.rows.iter().map(|(known, _)| common(known, tokens)).enumerate();
        shared.max_by_key(|(_, shared)| *shared).filter(|(_, shared)| *shared > 0)
    }

    /// Row `index` for a request that shares its first `shared` tokens: the row itself where the request goes on behind it, else a
    /// copy.
    pub(super) fn row(&mut self, index: usize, shared: usize) -> Option<RowCache> {
        let (tokens, row) = self.rows.remove(index)?;
        if tokens.len() <= shared {
            return Some(row);
        }
        let copy = row.clone();
        self.rows.push_back((tokens, row));
        Some(copy)
    }

    /// Keeps a row, in place of those it goes on from, as long as all rows together hold at most `capacity` tokens.
    pub(super) fn insert(&mut self, tokens: Vec<u32>, row: RowCache, capacity: usize) {
        if tokens.is_empty() || tokens.len() > capacity {
            return;
        }
        self.rows.retain(|(known, _)| !tokens.starts_with(known));
        self.rows.push_back((tokens, row));
        self.shrink(capacity);
    }

    /// Forgets rows until all together hold at most `capacity` tokens.
    pub(super) fn shrink(&mut self, capacity: usize) {
        while self.rows.len() > MOST_ROWS || self.tokens() > capacity {
            if self.rows.pop_front().is_none() {
                return;
            }
        }
    }
}
