//! What can go wrong while tokens are drawn.

use std::sync::Arc;

use crate::student::network::NetworkError;

/// A request that got no completion.
#[derive(Debug, Clone, thiserror::Error)]
pub enum GenerationError {
    /// Nothing to go on from.
    #[error("the prompt is empty")]
    EmptyPrompt,
    /// The prompt leaves no room for a single token.
    #[error("the prompt has {prompt} tokens; the student's context holds {context}, of which at least one is for the reply")]
    Context {
        /// Tokens of the prompt.
        prompt: usize,
        /// Tokens the context holds.
        context: usize,
    },
    /// A value that cannot steer the drawing of tokens.
    #[error("{name} is {found}, expected {expected}")]
    Sampling {
        /// The parameter.
        name: &'static str,
        /// Its value.
        found: String,
        /// What it may be.
        expected: &'static str,
    },
    /// The network computes no probabilities: its weights are damaged, or training went astray.
    #[error("the network's output is not finite: its weights are damaged")]
    NotFinite,
    /// The network refused.
    #[error("{0}")]
    Network(Arc<NetworkError>),
}
