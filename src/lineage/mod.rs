//! The lineage: the append-only, acyclic graph of harnesses, how each came to be, and the formats it is exported in.

mod birth;
mod export;
mod graph;
mod layout;
#[cfg(test)]
mod tests;

pub use birth::{Birth, Hypothesis, JudgedHypothesis, OperatorName};
pub use export::{LINEAGE_FORMAT, LineageExportError};
pub use graph::{Lineage, LineageError, Node, Origin};
pub use layout::{Place, TreeRow};
