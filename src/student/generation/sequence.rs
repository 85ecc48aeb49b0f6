//! One request on its way: its tokens, and when they end.

use std::collections::BTreeSet;

use super::stop::StopFinder;
use super::{Drawn, GenerationError, Sampling};
use crate::base::SeedTree;
use crate::student::network::RowCache;
use crate::student::{ChatCodec, StreamDecoder};

/// Longest text of a reply in bytes. A vocabulary with long tokens could make more of a full context than anything reads.
const LONGEST_TEXT: usize = 1024 * 1024;

/// What to go on from, and how.
#[derive(Debug, Clone)]
pub struct GenerationRequest {
    /// The ids of the prompt.
    pub prompt: Vec<u32>,
    /// How tokens are drawn.
    pub sampling: Sampling,
    /// Texts that end the reply; they are no part of its text.
    pub stops: Vec<String>,
    /// Most tokens of the reply, the one that ends it included.
    pub most_tokens: usize,
    /// The luck: the token at each place is drawn from the child of that number.
    pub draws: SeedTree,
}

/// Why a reply ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finish {
    /// The model ended it.
    EndOfTurn,
    /// A stop text.
    StopText,
    /// It was as long as it may be, or as the context.
    Length,
}

/// A reply as tokens and text.
#[derive(Debug, Clone, PartialEq)]
pub struct Generated {
    /// The prompt.
    pub prompt: Vec<u32>,
    /// The reply, with the token that ended it.
    pub tokens: Vec<u32>,
    /// Of each token of the reply: see [`Drawn::logprob`].
    pub logprobs: Vec<f64>,
    /// The reply's text, without control tokens and what stands behind a stop.
    pub text: String,
    /// Why it ended.
    pub finish: Finish,
    /// Tokens of the prompt that were computed before, for another request.
    pub reused: usize,
}

/// A request and what has come of it.
pub(super) struct Sequence {
    /// Prompt and reply.
    pub(super) tokens: Vec<u32>,
    /// Keys and values of the first tokens; never of all.
    pub(super) row: RowCache,
    /// Tokens of the prompt that came with the row.
    pub(super) reused: usize,
    prompt: usize,
    sampling: Sampling,
    most_tokens: usize,
    draws: SeedTree,
    logprobs: Vec<f64>,
    seen: BTreeSet<u32>,
    stream: StreamDecoder,
    text: StopFinder,
}

/// The tokens replies are drawn from and ended by.
pub(super) struct Vocabulary<'m> {
    pub(super) codec: &'m ChatCodec,
    /// Tokens that may be drawn.
    pub(super) choices: usize,
    pub(super) ends: BTreeSet<u32>,
}

impl Sequence {
    /// A sequence that nothing was computed of. `most_tokens` is at least one.
    pub(super) fn new(request: GenerationRequest, most_tokens: usize, row: RowCache) -> Self {
        let seen = if request.sampling.looks_back() { request.prompt.iter().copied().collect() } else { BTreeSet::new() };
        Self {
            prompt: request.prompt.len(),
            tokens: request.prompt,
            row,
            reused: 0,
            sampling: request.sampling,
            most_tokens,
            draws: request.draws,
            logprobs: Vec::new(),
            seen,
            stream: StreamDecoder::default(),
            text: StopFinder::new(request.stops),
        }
    }

    /// The tokens that its row has not seen.
    pub(super) fn pending(&self) -> &[u32] {
        &self.tokens[self.row.length().min(self.tokens.len())..]
    }

    /// The prompt.
    pub(super) fn prompt(&self) -> &[u32] {
        &self.tokens[..self.prompt]
    }

    /// Tokens it will have at most.
    pub(super) const fn most(&self) -> usize {
        self.prompt + self.most_tokens
    }

    /// Draws the token that follows `logits`; the reason if it is the last.
    pub(super) fn draw(&mut self, logits: &[f32], vocabulary: &Vocabulary<'_>) -> Result<Option<Finish>, GenerationError> {
        let place = self.logprobs.len();
        let fraction = self.draws.index(place as u64).fraction();
        let Drawn { token, logprob } = self.sampling.draw(logits, vocabulary.choices, &self.seen, fraction)?;
        self.tokens.push(token);
        self.logprobs.push(logprob);
        if self.sampling.looks_back() {
            self.seen.insert(token);
        }
        if vocabulary.ends.contains(&token) {
            return Ok(Some(Finish::EndOfTurn));
        }
        let tokenizer = vocabulary.codec.tokenizer();
        if !tokenizer.is_control(token) {
            let piece = self.stream.push(tokenizer, token);
            if self.text.push(&piece) {
                return Ok(Some(Finish::StopText));
            }
        }
        let full = self.logprobs.len() >= self.most_tokens || self.text.length() >= LONGEST_TEXT;
        Ok(full.then_some(Finish::Length))
    }

    /// The reply, and the row for whoever goes on from it.
    pub(super) fn finish(mut self, finish: Finish) -> (Generated, Vec<u32>, RowCache) {
        if finish != Finish::StopText {
            let rest = self.stream.finish();
            self.text.push(&rest);
        }
        let known = self.tokens[..self.row.length().min(self.tokens.len())].to_vec();
        let tokens = self.tokens.split_off(self.prompt);
        let text = self.text.into_text();
        let generated = Generated { prompt: self.tokens, tokens, logprobs: self.logprobs, text, finish, reused: self.reused };
        (generated, known, self.row)
    }
}
