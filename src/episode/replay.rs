//! What the model was sent at each step of an episode, played again from the transcript through the same conversation. Training data
//! need it: a transcript holds everything as it was said, a request what the harness's memory left of it.

use super::calls;
use super::conversation::Conversation;
use super::prompt::with_notes;
use super::tokens::estimate;
use crate::harness::{CallForm, Compaction, Genome, Scratchpad, ToolName};
use crate::trajectory::{Message, Role};

/// One reply and the request it answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SentStep {
    /// The reply's place among the messages of the transcript.
    pub reply: usize,
    /// The messages of the request, or why they cannot be known any more.
    pub sent: Result<Vec<Message>, Lost>,
}

/// Why a request is not recoverable from a transcript.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum Lost {
    /// The request held a summary, which no transcript keeps.
    #[error("a summary of older messages is not in the transcript")]
    Summary,
    /// The request replaced old observations; calls written as text leave neither their bounds nor their lengths.
    #[error("old observations were elided, and calls written as text do not tell their lengths")]
    Elision,
    /// The request held notes, and whether they were taken is not to be seen.
    #[error("the notes at this step cannot be told from the transcript")]
    Notes,
    /// The messages are not those of an episode.
    #[error("the messages are not in the order of an episode")]
    Order,
}

/// The requests behind all replies of `transcript`, which was played under `genome`; what was lost once stays lost for the steps after.
/// With another system message in the transcript, the requests are those of a harness with that prompt and the same memory.
#[must_use]
pub fn sent_steps(genome: &Genome, transcript: &[Message]) -> Vec<SentStep> {
    let (opening, rest) = match transcript {
        [system, rest @ ..] if system.role == Role::System => (system.joined_text(), rest),
        all => (String::new(), all),
    };
    let first = transcript.len() - rest.len() + 1;
    let (instruction, lost) = match rest.first() {
        Some(user) if user.role == Role::User => (user.joined_text(), None),
        _ => (String::new(), Some(Lost::Order)),
    };
    let conversation = Conversation::new(genome.protocol.calls, opening.clone(), instruction);
    let mut replay = Replay { genome, prompt: opening, conversation, notes: String::new(), textual: 0, lost };
    let mut steps = Vec::new();
    for (index, message) in transcript.iter().enumerate().skip(first) {
        if message.role == Role::Assistant {
            steps.push(SentStep { reply: index, sent: replay.request() });
            replay.conversation.reply(message.clone());
            replay.note_text_calls(message, transcript.get(index + 1));
        } else {
            let call = transcript[first..index].iter().rev().find(|earlier| earlier.role == Role::Assistant);
            replay.answer(message, call);
        }
    }
    steps
}

struct Replay<'a> {
    genome: &'a Genome,
    prompt: String,
    conversation: Conversation,
    notes: String,
    /// At most so many observations were written as text so far.
    textual: usize,
    lost: Option<Lost>,
}

impl Replay<'_> {
    /// The next request, after the compaction that the harness would have made.
    fn request(&mut self) -> Result<Vec<Message>, Lost> {
        let (memory, keep) = (&self.genome.memory, self.genome.observation.keep);
        if self.textual > keep as usize {
            self.lost.get_or_insert(Lost::Elision);
        }
        if let Some(lost) = self.lost {
            return Err(lost);
        }
        let system = with_notes(&self.prompt, memory.scratchpad, &self.notes);
        let window = u64::from(memory.window_tokens);
        if estimate(&self.conversation.shown(&system, keep)) > window {
            match memory.compaction {
                Compaction::None => {}
                Compaction::DropOldest => self.conversation.drop_oldest(&system, keep, window),
                Compaction::Summarise => {
                    if self.conversation.to_summarise(&system, keep, window / 2).is_some() {
                        self.lost = Some(Lost::Summary);
                        return Err(Lost::Summary);
                    }
                }
            }
        }
        Ok(self.conversation.shown(&system, keep))
    }

    fn answer(&mut self, message: &Message, reply: Option<&Message>) {
        let text = message.joined_text();
        match (message.role, &message.tool_call_id, reply) {
            (Role::Tool, Some(id), Some(reply)) => {
                let call = reply.tool_calls.iter().find(|call| call.id == *id);
                let name = call.map_or("", |call| call.name.as_str());
                if let Some(call) = call.filter(|call| self.shows_notes() && call.name == ToolName::Notes.as_str()) {
                    let read = calls::read_native(std::slice::from_ref(call), &[ToolName::Notes]);
                    self.take_notes(read.first(), &text);
                }
                self.conversation.observe(id, name, text);
            }
            (Role::User, None, Some(_)) => self.conversation.remark(text),
            _ => self.lost = Some(Lost::Order),
        }
    }

    /// Observations and notes of calls that were written as text.
    fn note_text_calls(&mut self, reply: &Message, answer: Option<&Message>) {
        if self.genome.protocol.calls != CallForm::Text {
            return;
        }
        let answer = answer.filter(|message| message.role == Role::User).map(Message::joined_text).unwrap_or_default();
        self.textual += answer.matches("<tool_response name=\"").count();
        if self.shows_notes() {
            let offered: Vec<ToolName> = self.genome.tools.keys().copied().collect();
            for call in calls::read_text(&reply.joined_text(), &offered) {
                if matches!(&call.call, Ok((ToolName::Notes, _))) {
                    let result = answer.split("<tool_response name=\"notes\">\n").nth(1).unwrap_or_default();
                    self.take_notes(Some(&call), result.split("\n</tool_response>").next().unwrap_or_default());
                }
            }
        }
    }

    fn shows_notes(&self) -> bool {
        self.genome.memory.scratchpad == Scratchpad::On && self.genome.tools.contains_key(&ToolName::Notes)
    }

    /// New notes, if `result` says that they were taken.
    fn take_notes(&mut self, call: Option<&calls::ReadCall>, result: &str) {
        let Some(Ok((ToolName::Notes, arguments))) = call.map(|call| &call.call) else { return };
        let text = arguments.get("text").and_then(serde_json::Value::as_str).unwrap_or_default();
        if result == format!("noted {} bytes", text.len()) {
            text.clone_into(&mut self.notes);
        } else if !result.starts_with("error") {
            self.lost = Some(Lost::Notes);
        }
    }
}
