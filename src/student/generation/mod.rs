//! Generation: drawing tokens, decoding several sequences at a time, and what a completion says.
//!
//! A [`Decoder`] is synchronous and does one step at a time; [`crate::student::StudentModel`] runs one on a thread of its own.
//! What is drawn depends on the request alone ([`GenerationRequest::draws`]), never on what else runs beside it. The one thing that is
//! shared is rounding: a matrix product of many rows may round its last bit otherwise than one of few.

mod config;
mod decoding;
mod error;
mod prefixes;
mod repair;
mod sampler;
mod sequence;
mod stop;
mod tool_calls;

pub use config::GenerationConfig;
pub use decoding::{Decoder, DecodingLimits, Ticket};
pub use error::GenerationError;
pub use sampler::{Drawn, Sampling};
pub use sequence::{Finish, Generated, GenerationRequest};
pub use tool_calls::{Completeness, Reply, read_reply};

#[cfg(test)]
pub(crate) mod tests;
