//! The harness: all that surrounds a language model in an agent. As a value it is the genome of the search.
//!
//! [`Genome`] is the value as written, [`Harness`] a genome that was checked and has an id. [`domain()`] says which values a gene may
//! have; [`perturb`], [`crossover`] and [`Harness::with_genes`] make other harnesses; [`load`] and [`to_toml`] read and write template
//! files; [`BlockLibrary`] holds texts to exchange.

mod blocks;
mod combine;
mod describe;
mod diff;
mod domain;
mod gene;
mod genome;
mod nearest;
mod perturb;
mod render;
mod schema;
mod spec;
mod validate;
mod write;

#[cfg(test)]
pub(crate) mod arbitrary;
#[cfg(test)]
mod tests;

pub use blocks::{BlockLibrary, BlockLibraryError, BlockText, HelperScript, RepairText, block_library};
pub use combine::{Side, crossover};
pub use describe::{DiffLine, DiffSign, GeneDifference, describe, differences};
pub use diff::{GeneChange, diff};
pub use domain::{Domain, MAX_BLOCK_BYTES, MAX_PROMPT_BYTES, MAX_RETRY_RULES, MAX_SCRIPT_BYTES, MAX_SCRIPTS, Scale, domain, gene_paths};
pub use gene::{GenePath, GenePathError};
pub use genome::{
    AccessibilityTree, Backoff, CallForm, Compaction, FinishRule, Genome, Harness, HarnessError, HarnessId, Limits, Memory, Observation,
    PromptBlocks, Protocol, RetryRule, RetryTable, Sampling, Scratchpad, Screenshot, SelfCheck, ToolGene, ToolName,
};
pub use perturb::{PerturbError, neighbours, perturb, perturb_value};
pub use render::{PROMPT_VARIABLES, PromptContext, RenderError};
pub use schema::json_schema;
pub use spec::{SpecError, Template, builtin, embedded, embedded_files, load, parse};
pub use write::{to_toml, to_toml_named};
