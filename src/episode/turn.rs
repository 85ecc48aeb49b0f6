//! The agent's turn: request, reply, answer, until something ends it.

use std::collections::HashSet;
use std::time::Duration;

use tokio::time::Instant;

use super::conversation::Conversation;
use super::prompt::with_notes;
use super::repair::{Repair, Streak};
use super::self_check::Look;
use super::stop::{EpisodeClock, Stop};
use super::tokens::{TokenMeter, estimate};
use super::{Episode, provider};
use crate::base::SeedTree;
use crate::environment::{Terminal, cut};
use crate::harness::{CallForm, Compaction, Genome, ToolName};
use crate::model::{ChatReply, ChatRequest, SamplingParams, ToolChoice};
use crate::trajectory::{Ending, Message, RequestTag, Role, ToolSchema, Usage};

/// Longest reply to the request for a summary.
const SUMMARY_TOKENS: u32 = 1024;
/// What a model is told when it summarises.
const SUMMARISE: &str = "You keep the memory of an agent that works on a task in steps. Older steps will be removed from its view and \
    replaced by your summary. Write down what it needs to go on: what the task asks for and which of that is done; which files were made \
    or changed; facts, numbers and names that were found; what failed and why; what remains to be done. Copy exact values. Reply with the \
    summary alone, in short lines.";

/// The turn of one agent.
pub(super) struct Turn<'a> {
    pub(super) episode: &'a Episode<'a>,
    pub(super) genome: &'a Genome,
    pub(super) seeds: SeedTree,
    /// The system prompt without the scratchpad.
    prompt: String,
    tools: Vec<ToolSchema>,
    pub(super) offered: Vec<ToolName>,
    pub(super) terminal: Terminal,
    pub(super) conversation: Conversation,
    meter: TokenMeter,
    pub(super) clock: EpisodeClock,
    pub(super) malformed: Streak<'a>,
    pub(super) tool_errors: Streak<'a>,
    pub(super) self_checks: Streak<'a>,
    pub(super) look: Look,
    /// The last call that failed and what it gave, while failures follow each other.
    pub(super) last_failure: Option<(ToolName, serde_json::Value, String)>,
    /// Ids of all calls so far.
    pub(super) call_ids: HashSet<String>,
    /// Requests so far, those for summaries included.
    pub(super) requests: u32,
    pub(super) tally: Tally,
}

/// What a turn has used.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// Per reply of the agent.
    pub(super) usage: Vec<Usage>,
    /// Of summaries, not yet counted with a reply.
    unplaced: Usage,
    pub(super) shell_calls: u32,
    pub(super) gui_calls: u32,
    pub(super) model: Duration,
    pub(super) tools: Duration,
}

impl<'a> Turn<'a> {
    pub(super) fn new(episode: &'a Episode<'a>, terminal: Terminal, prompt: String, tools: Vec<ToolSchema>, clock: EpisodeClock) -> Self {
        let genome = episode.harness.genome();
        let form = genome.protocol.calls;
        // In the text form the schemas are part of the prompt.
        let tools = if form == CallForm::Native { tools } else { Vec::new() };
        Self {
            episode,
            genome,
            seeds: SeedTree::new(episode.seed).child("episode").child(&episode.task.id().to_string()),
            conversation: Conversation::new(form, prompt.clone(), episode.task.body().instruction.clone()),
            prompt,
            meter: TokenMeter::new(genome.limits.tokens, &tools),
            tools,
            offered: genome.tools.keys().copied().collect(),
            terminal,
            clock,
            malformed: Streak::new(&genome.retry.malformed_reply),
            tool_errors: Streak::new(&genome.retry.tool_error),
            self_checks: Streak::new(&genome.retry.failed_self_check),
            look: Look::default(),
            last_failure: None,
            call_ids: HashSet::new(),
            requests: 0,
            tally: Tally::default(),
        }
    }

    /// Plays until the turn is over.
    pub(super) async fn play(&mut self) -> Stop {
        loop {
            if let Err(stop) = self.step().await {
                self.tally.place();
                return stop;
            }
        }
    }

    async fn step(&mut self) -> Result<(), Stop> {
        if self.tally.usage.len() >= self.genome.limits.steps as usize {
            return Err(Stop::Ended(Ending::StepLimit));
        }
        if self.clock.is_over() {
            return Err(Stop::Ended(Ending::TimeLimit));
        }
        self.compact().await?;
        let messages = self.conversation.shown(&self.system(), self.genome.observation.keep);
        let request = self.request(messages, self.genome.sampling.max_output_tokens, &self.tools);
        let reply = self.ask(&request).await?;
        self.tally.reply(reply.usage);
        self.answer(reply).await
    }

    /// Makes room in the conversation when it has outgrown its window.
    async fn compact(&mut self) -> Result<(), Stop> {
        let (memory, keep) = (&self.genome.memory, self.genome.observation.keep);
        let (window, system) = (u64::from(memory.window_tokens), self.system());
        if estimate(&self.conversation.shown(&system, keep)) <= window {
            return Ok(());
        }
        match memory.compaction {
            Compaction::None => Ok(()),
            Compaction::DropOldest => {
                self.conversation.drop_oldest(&system, keep, window);
                Ok(())
            }
            Compaction::Summarise => self.summarise(&system, keep, memory.window_tokens).await,
        }
    }

    /// Replaces the oldest exchanges by a summary, so that the rest takes up half of the window and the next summary is far off.
    async fn summarise(&mut self, system: &str, keep: u32, window: u32) -> Result<(), Stop> {
        let Some(summary) = self.conversation.to_summarise(system, keep, u64::from(window / 2)) else { return Ok(()) };
        // Four bytes are about a token: the request fits the window, the summary a quarter of it.
        let half = window as usize * 2;
        let messages = vec![Message::text(Role::System, SUMMARISE), Message::text(Role::User, cut(&summary.text, half, half, None))];
        let request = self.request(messages, self.genome.sampling.max_output_tokens.min(SUMMARY_TOKENS), &[]);
        if !self.meter.fits(&request.messages, request.sampling.max_output_tokens) {
            self.conversation.drop_oldest(system, keep, u64::from(window));
            return Ok(());
        }
        let reply = self.ask(&request).await?;
        self.tally.unplaced = self.tally.unplaced.plus(reply.usage);
        self.conversation.summarised(&summary, &cut(&reply.message.joined_text(), window as usize, 0, None));
        if self.clock.is_over() { Err(Stop::Ended(Ending::TimeLimit)) } else { Ok(()) }
    }

    fn system(&self) -> String {
        with_notes(&self.prompt, self.genome.memory.scratchpad, self.terminal.notes())
    }

    fn request(&self, messages: Vec<Message>, max_output_tokens: u32, tools: &[ToolSchema]) -> ChatRequest {
        let sampling = &self.genome.sampling;
        // 31 bits: some endpoints take a signed 32-bit seed.
        let seed = self.seeds.child("sampling").index(u64::from(self.requests)).value() >> 33;
        ChatRequest {
            messages,
            tools: tools.to_vec(),
            tool_choice: if tools.is_empty() { ToolChoice::None } else { ToolChoice::Auto },
            sampling: SamplingParams { temperature: sampling.temperature, top_p: sampling.top_p, max_output_tokens, seed: Some(seed) },
            tag: RequestTag { task: Some(self.episode.task.id()), seed: self.episode.seed, step: self.requests },
        }
    }

    /// Sends a request, if what is left of the token limit holds it and its longest reply.
    async fn ask(&mut self, request: &ChatRequest) -> Result<ChatReply, Stop> {
        if !self.meter.fits(&request.messages, request.sampling.max_output_tokens) {
            return Err(Stop::Ended(Ending::TokenLimit));
        }
        let seeds = self.seeds.child("provider").index(u64::from(self.requests));
        let began = Instant::now();
        let reply = provider::ask(self.episode.model, request, &self.genome.retry.provider_transient, &seeds, &mut self.clock).await;
        self.tally.model += began.elapsed();
        let reply = reply?;
        self.requests += 1;
        self.meter.count(&request.messages, reply.usage);
        Ok(reply)
    }

    /// Waits as a rule of the retry table says, but not beyond the end of the episode.
    pub(super) async fn pause(&mut self, repair: Repair<'_>, class: &str) {
        let delay = repair.delay(&self.seeds.child(class).index(u64::from(self.requests))).min(self.clock.remaining());
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
    }

    /// Usage of all requests.
    pub(super) const fn spent(&self) -> Usage {
        self.meter.spent()
    }
}

impl Tally {
    /// Counts a call that was played.
    pub(super) const fn call(&mut self, tool: ToolName) {
        match tool {
            ToolName::Bash
            | ToolName::Python
            | ToolName::ReadFile
            | ToolName::WriteFile
            | ToolName::EditFile
            | ToolName::ListFiles
            | ToolName::Search => self.shell_calls += 1,
            ToolName::Screenshot | ToolName::ComputerUse => self.gui_calls += 1,
            ToolName::Notes | ToolName::Finish => {}
        }
    }

    /// Counts a reply of the agent, with the summaries before it.
    fn reply(&mut self, usage: Usage) {
        self.usage.push(usage.plus(std::mem::take(&mut self.unplaced)));
    }

    /// Counts a summary that no reply followed.
    fn place(&mut self) {
        let unplaced = std::mem::take(&mut self.unplaced);
        if let Some(last) = self.usage.last_mut() {
            *last = last.plus(unplaced);
        }
    }
}
