//! One agent, one task: prompt, reply, tool calls, observations, outcome.

mod play;

pub use play::{Episode, Played, play};
