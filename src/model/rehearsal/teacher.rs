//! The model: reads a request, decides, writes the reply.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::conversation::{Call, Conversation, Form};
use super::cues::{Concept, Strengths};
use super::decision::{Agent, Move, note_text};
use super::parameters::RehearsalParameters;
use super::progress::{Plan, Progress};
use super::rates::{Profile, Situation};
use super::voice::{FAREWELL, say};
use crate::base::SeedTree;
use crate::model::{ChatReply, ChatRequest, LanguageModel, ModelError, ModelId, StopReason};
use crate::task::{Task, TaskId};
use crate::trajectory::{Message, Role, ToolCall, Usage};

/// Bytes of text taken for one token.
const BYTES_PER_TOKEN: usize = 4;

/// Changes when the behaviour changes, so that results of an older behaviour are not taken for this one's.
const BEHAVIOUR: u32 = 1;

/// The rehearsal teacher. See [the module](super) for what it simulates.
pub struct RehearsalTeacher {
    id: ModelId,
    parameters: RehearsalParameters,
    /// Whose solutions it can play.
    tasks: BTreeMap<TaskId, Arc<Task>>,
}

impl RehearsalTeacher {
    /// A teacher that can play `tasks`.
    #[must_use]
    pub fn new(parameters: RehearsalParameters, tasks: impl IntoIterator<Item = Arc<Task>>) -> Self {
        let id = ModelId { name: parameters.name.clone(), fingerprint: format!("rehearsal/{BEHAVIOUR}:{}", parameters.hash) };
        Self { id, parameters, tasks: tasks.into_iter().map(|task| (task.id(), task)).collect() }
    }

    /// The reply to `request`: a function of the parameters, the tasks and the request alone.
    ///
    /// # Errors
    /// When the request belongs to a task this teacher does not know, or to none and is not a request to edit a harness.
    pub fn reply(&self, request: &ChatRequest) -> Result<ChatReply, ModelError> {
        let Some(id) = request.tag.task else {
            return match super::rewriting::reply(&self.parameters.rewrite, request) {
                Some(text) => Ok(reply_of(request, Message::text(Role::Assistant, text), StopReason::Stop)),
                None => Err(permanent("the rehearsal teacher only plays tasks and edits harnesses; this request is neither".to_owned())),
            };
        };
        let Some(task) = self.tasks.get(&id) else {
            return Err(permanent(format!("the rehearsal teacher has no solution for task {id}: give it the tasks of the experiment")));
        };
        let summarises = self.asks_for_summary(request);
        let conversation = if summarises { Conversation::transcript(request) } else { Conversation::read(request) };
        let plan = Plan::new(task, &conversation.offered);
        let progress = Progress::read(&plan, &conversation);
        let Some(profile) = self.parameters.profile(task.job_type().as_str()) else {
            return Err(permanent("the parameters have no default profile".to_owned()));
        };
        let situation = self.situation(request, &conversation, &plan, profile);
        let root = SeedTree::new(request.tag.seed).child(&id.to_string());
        let agent = Agent { task, plan: &plan, conversation: &conversation, progress, situation, root, step: request.tag.step };
        if summarises {
            let text = note_text(&conversation.instruction, agent.progress.frontier, &agent.facts_ahead());
            return Ok(reply_of(request, Message::text(Role::Assistant, text), StopReason::Stop));
        }
        let brevity = agent.situation.strength(Concept::Brevity);
        let (message, stop) = write(&agent.next(), &conversation, brevity, request.tag.step);
        Ok(reply_of(request, message, stop))
    }

    fn situation<'a>(&'a self, request: &ChatRequest, conversation: &Conversation, plan: &Plan<'_>, profile: &'a Profile) -> Situation<'a> {
        let parameters = &self.parameters;
        let mut strengths = Strengths::read(&parameters.cues, &conversation.guidance, parameters.first_cue);
        // A repair text of the retry policy is guidance, too, at the moment it is read.
        if let Some(recovery) = parameters.cues.get(&Concept::Recovery) {
            strengths.raise(Concept::Recovery, recovery.strength(&conversation.last, parameters.first_cue));
        }
        let idle = |tool: &&String| !matches!(tool.as_str(), "finish" | "notes") && !plan.needs(tool);
        #[expect(clippy::cast_precision_loss, reason = "prompts are far below 2^52 tokens")]
        let prompt_tokens = (conversation.guidance.len() / BYTES_PER_TOKEN) as f64;
        Situation {
            parameters,
            profile,
            strengths,
            temperature: request.sampling.temperature,
            prompt_tokens,
            needless_tools: conversation.offered.iter().filter(idle).count(),
        }
    }

    fn asks_for_summary(&self, request: &ChatRequest) -> bool {
        let mut system = request.messages.iter().filter(|message| message.role == Role::System);
        request.tools.is_empty() && system.any(|message| self.parameters.rewrite.summary_marker.is_match(&message.joined_text()))
    }
}

#[async_trait::async_trait]
impl LanguageModel for RehearsalTeacher {
    fn id(&self) -> &ModelId {
        &self.id
    }

    fn price(&self) -> [u64; 3] {
        self.parameters.price
    }

    fn simulated(&self) -> bool {
        true
    }

    async fn complete(&self, request: &ChatRequest) -> Result<ChatReply, ModelError> {
        self.reply(request)
    }
}

fn permanent(message: String) -> ModelError {
    ModelError::Permanent { message }
}

fn write(next: &Move, conversation: &Conversation, brevity: f64, step: u32) -> (Message, StopReason) {
    match next {
        Move::Call(call, mood) => {
            let text = say(*mood, brevity, step == 0);
            match conversation.form {
                Form::Native => native(call, call.arguments.to_string(), text, step),
                Form::Text => (Message::text(Role::Assistant, format!("{text}\n{}", text_call(call))), StopReason::Stop),
            }
        }
        Move::Garbled(call) => {
            // The closing braces are missing: the commonest way in which written JSON is none.
            let arguments = call.arguments.to_string();
            let cut = arguments.trim_end_matches('}').to_owned();
            match conversation.form {
                Form::Native => native(call, cut, String::new(), step),
                Form::Text => {
                    let text = format!("<tool_call>\n{{\"name\": {}, \"arguments\": {cut}\n</tool_call>", json!(call.name));
                    (Message::text(Role::Assistant, text), StopReason::Stop)
                }
            }
        }
        Move::Finish if conversation.offers("finish") => {
            let call = Call::new("finish", json!({ "summary": FAREWELL }));
            match conversation.form {
                Form::Native => native(&call, call.arguments.to_string(), String::new(), step),
                Form::Text => (Message::text(Role::Assistant, text_call(&call)), StopReason::Stop),
            }
        }
        Move::Finish => (Message::text(Role::Assistant, FAREWELL), StopReason::Stop),
    }
}

fn native(call: &Call, arguments: String, text: String, step: u32) -> (Message, StopReason) {
    let mut message = Message::text(Role::Assistant, text);
    if message.joined_text().is_empty() {
        message.content.clear();
    }
    message.tool_calls.push(ToolCall { id: format!("call_{step}"), name: call.name.clone(), arguments });
    (message, StopReason::ToolCalls)
}

fn text_call(call: &Call) -> String {
    let value: Value = json!({ "name": call.name, "arguments": call.arguments });
    format!("<tool_call>\n{value}\n</tool_call>")
}

fn reply_of(request: &ChatRequest, message: Message, stop: StopReason) -> ChatReply {
    let prompt: usize = request.messages.iter().map(message_bytes).sum();
    let tools: usize = request.tools.iter().map(|tool| tool.name.len() + tool.description.len() + tool.parameters.to_string().len()).sum();
    let tokens = |bytes: usize| bytes.div_ceil(BYTES_PER_TOKEN) as u64;
    let usage = Usage { prompt_tokens: tokens(prompt + tools), completion_tokens: tokens(message_bytes(&message)), cached_tokens: 0 };
    ChatReply { message, usage, stop, logprobs: Vec::new(), prompt_token_ids: Vec::new(), completion_token_ids: Vec::new() }
}

fn message_bytes(message: &Message) -> usize {
    let calls: usize = message.tool_calls.iter().map(|call| call.name.len() + call.arguments.len()).sum();
    message.joined_text().len() + calls
}
