//! Niches, who holds them, and who is confirmed.

mod grid;
mod niche;

pub use grid::{Archive, Cell, Contest, Elite, Holder, Offer, QdStatistics};
pub use niche::{Behaviour, BinEdges, Niche};
