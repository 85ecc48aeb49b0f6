//! One agent, one task: prompt, reply, tool calls, observations, outcome.
//!
//! [`play`] starts the environment, plays the agent's turn, kills everything and checks what is left. Limits are enforced here, never
//! by the model: a request is sent only if its estimated tokens and its longest reply fit what is left.

mod answer;
mod calls;
mod conversation;
mod play;
mod prompt;
mod provider;
mod repair;
mod replay;
mod self_check;
mod stop;
mod tokens;
mod turn;

pub use play::{Episode, Played, play};
pub use prompt::system_prompt;
pub use replay::{Lost, SentStep, sent_steps};

#[cfg(test)]
pub(crate) mod tests;
