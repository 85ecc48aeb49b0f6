//! Several requests at a time, one token of each per step.
//!
//! Requests join and leave between steps. Prompts are read in chunks beside the tokens of those that are already replying. A request
//! starts from the row of a past or running one that begins alike; where a running one is just reading what both begin with, it waits
//! for that.

use std::collections::{BTreeSet, VecDeque};
use std::num::NonZeroUsize;
use std::sync::Arc;

use super::prefixes::{PrefixCache, common};
use super::sequence::{Sequence, Vocabulary};
use super::{Finish, Generated, GenerationError, GenerationRequest};
use crate::student::Student;
use crate::student::network::{Network, NetworkError, RowCache};

/// What a decoder may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DecodingLimits {
    /// Requests at a time.
    pub rows: NonZeroUsize,
    /// Tokens of prompts read in a step.
    pub chunk: NonZeroUsize,
    /// Bytes of keys and values, of running and past requests together. Lists that grow may take up to twice as much.
    pub memory: usize,
    /// Tokens of prompt and reply; the network's own limit where that is less.
    pub context: usize,
}

impl Default for DecodingLimits {
    fn default() -> Self {
        let rows = NonZeroUsize::MIN.saturating_add(15);
        Self { rows, chunk: NonZeroUsize::MIN.saturating_add(511), memory: 2 << 30, context: usize::MAX }
    }
}

/// Names a request within its decoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(u64);

/// Runs requests through a network.
pub struct Decoder<'m> {
    network: &'m Network,
    vocabulary: Vocabulary<'m>,
    limits: DecodingLimits,
    /// Tokens whose keys and values fit the memory.
    capacity: usize,
    context: usize,
    waiting: VecDeque<(Ticket, Sequence)>,
    running: Vec<(Ticket, Sequence)>,
    prefixes: PrefixCache,
    tickets: u64,
}

/// A settled request.
type Settled = (Ticket, Result<Generated, GenerationError>);

impl<'m> Decoder<'m> {
    /// A decoder without requests.
    #[must_use]
    pub fn new(student: &'m Student, limits: DecodingLimits) -> Self {
        let config = student.network.config();
        let number = student.network.parameters().first().map_or(4, |weight| weight.tensor().dtype().size_in_bytes());
        let token = (2 * config.layers * config.kv_heads * config.head_dim).saturating_mul(number);
        let capacity = limits.memory / token.max(1);
        let tokenizer = student.codec.tokenizer();
        let ends =
            student.generation.eos.iter().chain(&config.eos).copied().chain([student.codec.end_of_turn()]).collect::<BTreeSet<u32>>();
        Self {
            network: &student.network,
            vocabulary: Vocabulary { codec: &student.codec, choices: tokenizer.vocabulary_size().min(config.vocabulary), ends },
            limits,
            capacity,
            context: limits.context.min(config.max_positions).min(capacity),
            waiting: VecDeque::new(),
            running: Vec::new(),
            prefixes: PrefixCache::default(),
            tickets: 0,
        }
    }

    /// Takes a request on.
    ///
    /// # Errors
    /// For a prompt that is empty, longer than the context, or holds what is no token.
    pub fn submit(&mut self, request: GenerationRequest) -> Result<Ticket, GenerationError> {
        let prompt = request.prompt.len();
        if prompt == 0 {
            return Err(GenerationError::EmptyPrompt);
        }
        if prompt >= self.context || request.most_tokens == 0 {
            return Err(GenerationError::Context { prompt, context: self.context });
        }
        let vocabulary = self.network.config().vocabulary;
        if let Some(token) = request.prompt.iter().copied().find(|token| *token as usize >= vocabulary) {
            return Err(GenerationError::Network(Arc::new(NetworkError::Token { token, vocabulary })));
        }
        let most_tokens = request.most_tokens.min(self.context - prompt);
        let ticket = Ticket(self.tickets);
        self.tickets += 1;
        self.waiting.push_back((ticket, Sequence::new(request, most_tokens, self.network.new_row())));
        Ok(ticket)
    }

    /// Drops a request that nobody waits for.
    pub fn cancel(&mut self, ticket: Ticket) {
        self.waiting.retain(|(known, _)| *known != ticket);
        self.running.retain(|(known, _)| *known != ticket);
    }

    /// Whether there is nothing to do.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.running.is_empty()
    }

    /// Whether further requests would be looked at: more than a second set of rows need not wait here.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.waiting.len() < self.limits.rows.get()
    }

    /// Runs all of `requests`, on a decoder without others; the replies come in their order.
    ///
    /// # Errors
    /// The first that failed; the decoder is idle then.
    pub fn run(&mut self, requests: impl IntoIterator<Item = GenerationRequest>) -> Result<Vec<Generated>, GenerationError> {
        let result = self.run_all(requests);
        self.waiting.clear();
        self.running.clear();
        result
    }

    fn run_all(&mut self, requests: impl IntoIterator<Item = GenerationRequest>) -> Result<Vec<Generated>, GenerationError> {
        for request in requests {
            self.submit(request)?;
        }
        let mut settled = Vec::new();
        while !self.is_idle() {
            for (ticket, result) in self.step() {
                settled.push((ticket, result?));
            }
        }
        settled.sort_by_key(|(ticket, _)| *ticket);
        Ok(settled.into_iter().map(|(_, generated)| generated).collect())
    }

    /// One step: reads a chunk of prompts and draws one token for every request that has been read. Gives what is settled.
    pub fn step(&mut self) -> Vec<Settled> {
        self.admit();
        let plan = self.plan();
        if plan.is_empty() {
            return Vec::new();
        }
        match self.extend(&plan) {
            Ok(logits) => self.draw(&plan, &logits),
            Err(error) => self.fail(&plan, &Arc::new(error)),
        }
    }

    /// Starts what may start.
    fn admit(&mut self) {
        let mut index = 0;
        while index < self.waiting.len() && self.running.len() < self.limits.rows.get() {
            let reserved: usize = self.running.iter().map(|(_, sequence)| sequence.most()).sum();
            let Some((_, sequence)) = self.waiting.get(index) else { return };
            // First come, first served: a long request is not overtaken for ever by short ones.
            if reserved + sequence.most() > self.capacity {
                return;
            }
            if self.is_being_read(sequence) {
                index += 1;
                continue;
            }
            let Some((ticket, mut sequence)) = self.waiting.remove(index) else { return };
            self.start(&mut sequence);
            self.prefixes.shrink(self.capacity - reserved - sequence.most());
            self.running.push((ticket, sequence));
        }
    }

    /// Whether a running request is reading, right now, more of what `sequence` begins with than any row holds.
    fn is_being_read(&self, sequence: &Sequence) -> bool {
        let prompt = &sequence.prompt()[..sequence.prompt().len() - 1];
        let held = self.prefixes.longest(prompt).map_or(0, |(_, shared)| shared);
        let held = self.running.iter().map(|(_, other)| common(&other.tokens[..other.row.length()], prompt)).fold(held, usize::max);
        self.running.iter().any(|(_, other)| common(&other.tokens, prompt) > held)
    }

    /// Gives `sequence` the row that shares the most with it. At least its last token is left to be read: the reply follows its logits.
    fn start(&mut self, sequence: &mut Sequence) {
        let prompt = &sequence.prompt()[..sequence.prompt().len() - 1];
        let kept = self.prefixes.longest(prompt);
        let shared_by = |other: &Sequence| common(&other.tokens[..other.row.length()], prompt);
        let running = self.running.iter().map(|(_, other)| (shared_by(other), &other.row)).max_by_key(|(shared, _)| *shared);
        let (shared, row) = match (kept, running) {
            (kept, Some((shared, row))) if shared > kept.map_or(0, |(_, shared)| shared) => (shared, Some(row.clone())),
            (Some((index, shared)), _) => (shared, self.prefixes.row(index, shared)),
            (None, _) => (0, None),
        };
        let Some(mut row) = row else { return };
        if row.truncate(shared).is_ok() {
            sequence.reused = shared;
            sequence.row = row;
        }
    }

    /// Which running requests take part in this step, each with how many tokens: those that reply with one, those that read with what
    /// the chunk has room for.
    fn plan(&self) -> Vec<(usize, usize)> {
        let mut room = self.limits.chunk.get();
        let mut plan = Vec::with_capacity(self.running.len());
        for (index, (_, sequence)) in self.running.iter().enumerate() {
            let pending = sequence.pending().len();
            let taken = if pending == 1 { 1 } else { pending.min(room) };
            if pending > 1 {
                room -= taken;
            }
            if taken > 0 {
                plan.push((index, taken));
            }
        }
        plan
    }

    fn extend(&mut self, plan: &[(usize, usize)]) -> Result<Vec<Vec<f32>>, NetworkError> {
        let network = self.network;
        let mut rows: Vec<RowCache> = Vec::with_capacity(plan.len());
        let mut tokens: Vec<Vec<u32>> = Vec::with_capacity(plan.len());
        for (index, taken) in plan {
            let (_, sequence) = &mut self.running[*index];
            tokens.push(sequence.pending()[..*taken].to_vec());
            rows.push(std::mem::replace(&mut sequence.row, network.new_row()));
        }
        let tokens: Vec<&[u32]> = tokens.iter().map(Vec::as_slice).collect();
        let logits = network.extend(&mut rows, &tokens)?;
        for ((index, _), row) in plan.iter().zip(rows) {
            self.running[*index].1.row = row;
        }
        Ok(logits)
    }

    fn draw(&mut self, plan: &[(usize, usize)], logits: &[Vec<f32>]) -> Vec<Settled> {
        let mut ended: Vec<(usize, Result<Finish, GenerationError>)> = Vec::new();
        for ((index, _), logits) in plan.iter().zip(logits) {
            let (_, sequence) = &mut self.running[*index];
            // What is still being read has no reply yet.
            if !sequence.pending().is_empty() {
                continue;
            }
            match sequence.draw(logits, &self.vocabulary) {
                Ok(None) => {}
                Ok(Some(finish)) => ended.push((*index, Ok(finish))),
                Err(error) => ended.push((*index, Err(error))),
            }
        }
        // From behind, so that the places of the others stay.
        let mut settled: Vec<Settled> = ended.into_iter().rev().map(|(index, end)| self.settle(index, end)).collect();
        settled.reverse();
        settled
    }

    fn settle(&mut self, index: usize, end: Result<Finish, GenerationError>) -> Settled {
        let (ticket, sequence) = self.running.remove(index);
        match end {
            Err(error) => (ticket, Err(error)),
            Ok(finish) => {
                let (generated, known, row) = sequence.finish(finish);
                let reserved: usize = self.running.iter().map(|(_, sequence)| sequence.most()).sum();
                self.prefixes.insert(known, row, self.capacity.saturating_sub(reserved));
                (ticket, Ok(generated))
            }
        }
    }

    /// Ends every request of a step that failed: their rows are of no further use.
    fn fail(&mut self, plan: &[(usize, usize)], error: &Arc<NetworkError>) -> Vec<Settled> {
        let failed = plan.iter().rev().map(|(index, _)| {
            let (ticket, _) = self.running.remove(*index);
            (ticket, Err(GenerationError::Network(Arc::clone(error))))
        });
        failed.collect()
    }
}
