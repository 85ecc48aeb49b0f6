//! Buffers that are used again.
//!
//! A training step needs the same few dozen buffers of megabytes as the one before. Fresh ones would come from the
//! system page by page, each zeroed before it is overwritten.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, PoisonError};

/// Buffers kept at most; a step with all activations of a deep network holds more, and the rest is freed.
const KEPT: usize = 1024;

/// A pool of buffers. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Workspace {
    free: Arc<Mutex<Vec<Vec<f32>>>>,
}

impl Workspace {
    /// A buffer of `length` numbers **of any value**: the caller overwrites all of them.
    pub(crate) fn take(&self, length: usize) -> Buffer {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        // Sorted by size. One much larger is left for who needs it.
        let place = free.partition_point(|data| data.len() < length);
        let data = match free.get(place) {
            Some(data) if data.len() <= length.saturating_mul(2) => free.remove(place),
            _ => {
                // A miss means that sizes changed: the smallest makes room, so that stale sizes do not pile up.
                if !free.is_empty() {
                    drop(free.remove(0));
                }
                drop(free);
                vec![0.0; length]
            }
        };
        Buffer { data, length, home: self.clone() }
    }

    /// A buffer of zeros.
    pub(crate) fn zeros(&self, length: usize) -> Buffer {
        let mut buffer = self.take(length);
        buffer.fill(0.0);
        buffer
    }

    /// A buffer with the numbers of `source`.
    pub(crate) fn copy_of(&self, source: &[f32]) -> Buffer {
        let mut buffer = self.take(source.len());
        buffer.copy_from_slice(source);
        buffer
    }
}

/// A buffer on loan; it returns to its pool when dropped.
#[derive(Debug)]
pub(crate) struct Buffer {
    data: Vec<f32>,
    length: usize,
    home: Workspace,
}

impl Deref for Buffer {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        &self.data[..self.length]
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [f32] {
        &mut self.data[..self.length]
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let data = std::mem::take(&mut self.data);
        let mut free = self.home.free.lock().unwrap_or_else(PoisonError::into_inner);
        if free.len() < KEPT {
            let place = free.partition_point(|other| other.len() < data.len());
            free.insert(place, data);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_returned_buffer_is_lent_again() {
        let pool = Workspace::default();
        let first = pool.take(100);
        let place = first.as_ptr();
        drop(first);
        let second = pool.take(60);
        assert_eq!((second.as_ptr(), second.len()), (place, 60));
        // One is out: another of its size is another one.
        assert_ne!(pool.take(60).as_ptr(), place);
        drop(second);
        // Far too large for ten numbers.
        assert_ne!(pool.take(10).as_ptr(), place);
        assert!(pool.zeros(5).iter().all(|x| *x == 0.0));
    }
}
