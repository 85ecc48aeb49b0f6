//! The harness: all that surrounds a language model in an agent. As a value it is the genome of the search.

mod diff;
mod gene;
mod genome;

pub use diff::{GeneChange, diff};
pub use gene::{GenePath, GenePathError};
pub use genome::{
    AccessibilityTree, Backoff, CallForm, Compaction, FinishRule, Genome, Harness, HarnessError, HarnessId, Limits, Memory, Observation,
    PromptBlocks, Protocol, RetryRule, RetryTable, Sampling, Scratchpad, Screenshot, SelfCheck, ToolGene, ToolName,
};
