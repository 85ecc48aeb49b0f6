//! Niches and who holds them.

mod niche;

pub use niche::{Behaviour, BinEdges, Niche};
