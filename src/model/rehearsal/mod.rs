//! The rehearsal teacher: a *behaviour model* of an LLM agent, built in, without network or weights. Its scores are simulated and
//! say nothing about a real model; [`LanguageModel::simulated`](crate::model::LanguageModel::simulated) is true and every report says so.
//!
//! It plays a task's reference solution through the tools it was offered, and makes mistakes whose rates depend on what it was
//! really sent: the system prompt, the tools, the observations that are still in the conversation, the temperature, the repair
//! texts. All numbers are in one commented file (`harness_templates/rehearsal.toml`); an experiment may name another.
//!
//! How a mistake comes about. Each kind of mistake has a rate
//! `base × profile × Π relief or harm per concept × (1 + heat × temperature above 0.3) × (1 + strain × load)`, at most 0.97.
//! *Concepts* (routing, requirements, verify, ...) are recognised by regular expressions over the system prompt; each further
//! expression that matches adds a share of what is missing to a strength of 1, each that contradicts takes away. *Load* grows with the
//! prompt's tokens beyond a threshold and with every offered tool that the solution does not need. The *profile* is that of the
//! task's job type, or the default one. The rate is compared with a uniform number that depends only on (seed, task, act of the
//! solution or step of the episode, kind of mistake): with a lower rate an agent fails on a subset of what it failed on before
//! (common random numbers), so paired comparisons are sharp.
//!
//! What it knows of its own past it reads from the conversation: its earlier calls are matched with what it would have called for
//! each act. There is no hidden state, so a resumed, repeated or reordered episode is the same episode. What compaction dropped,
//! it has forgotten.
//!
//! Interactions that a search has to find: a look at the result only helps when guidance says what to look for; guidance about cut
//! output and larger observations are substitutes, and having both costs prompt; notes pay only when history is dropped; tools
//! that suit one job type, and advice for one, are a load in another. Two paths deceive. Text about verification alone costs steps and
//! gains next to nothing: without a list of requirements there is nothing to compare with, most faults are missed and what was right
//! is doubted; only both together pay. Taking away the GUI tools without routing guidance changes little, because the habit stays
//! and now calls tools that are not there.
//!
//! What it simplifies: an act that is mended is played again as it is, whatever the wrong one has changed, and only acts that name
//! the same new file are done again after it.

mod conversation;
mod cues;
mod decision;
mod forecast;
mod parameters;
mod playing;
mod progress;
mod rates;
mod rewriting;
mod teacher;
#[cfg(test)]
mod tests;
mod voice;

pub use cues::Concept;
pub use forecast::{Forecast, Scene, forecast};
pub use parameters::{ParametersError, RehearsalParameters};
pub use rates::Mistake;
pub use teacher::RehearsalTeacher;
