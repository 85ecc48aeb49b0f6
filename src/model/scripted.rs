//! A model that plays a script: a test double for everything that talks to a model, also outside this crate. It checks the protocol of
//! every request, so that a conversation that an endpoint would refuse fails a test and not a run.

use std::collections::{HashSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::{ChatReply, ChatRequest, LanguageModel, ModelError, ModelId, StopReason, ToolChoice};
use crate::trajectory::{Message, Role, ToolCall, Usage};

/// One turn of a script.
#[derive(Debug, Clone)]
pub struct ScriptedTurn {
    /// How long the model takes, on tokio's clock.
    pub delay: Duration,
    /// What it then says.
    pub reply: Result<ChatReply, ModelError>,
}

/// A model that plays a script.
#[derive(Debug)]
pub struct ScriptedModel {
    id: ModelId,
    price: [u64; 3],
    script: Script,
    requests: Mutex<Vec<ChatRequest>>,
}

#[derive(Debug)]
enum Script {
    /// Each request takes the next turn.
    InOrder(Mutex<VecDeque<ScriptedTurn>>),
    /// A request takes the turn numbered by the step of its tag: any number of episodes may share the model.
    ByStep(Vec<ScriptedTurn>),
}

impl ScriptedTurn {
    /// A reply of text alone. Usage: 100 tokens of prompt, 10 of completion.
    #[must_use]
    pub fn text(text: &str) -> Self {
        Self::message(Message::text(Role::Assistant, text), StopReason::Stop)
    }

    /// A reply that makes the given calls (tool, arguments as the model writes them). Ids are left empty, as some servers do.
    #[must_use]
    pub fn calls(calls: &[(&str, &str)]) -> Self {
        let tool_calls = calls
            .iter()
            .map(|(name, arguments)| ToolCall { id: String::new(), name: (*name).to_owned(), arguments: (*arguments).to_owned() })
            .collect();
        let message = Message { content: Vec::new(), tool_calls, ..Message::text(Role::Assistant, "") };
        Self::message(message, StopReason::ToolCalls)
    }

    /// A failure.
    #[must_use]
    pub const fn error(error: ModelError) -> Self {
        Self { delay: Duration::ZERO, reply: Err(error) }
    }

    /// The same turn, `delay` later.
    #[must_use]
    pub fn after(self, delay: Duration) -> Self {
        Self { delay, ..self }
    }

    /// The same turn with this usage.
    #[must_use]
    pub fn with_usage(mut self, prompt_tokens: u64, completion_tokens: u64) -> Self {
        if let Ok(reply) = &mut self.reply {
            reply.usage = Usage { prompt_tokens, completion_tokens, cached_tokens: 0 };
        }
        self
    }

    const fn message(message: Message, stop: StopReason) -> Self {
        let usage = Usage { prompt_tokens: 100, completion_tokens: 10, cached_tokens: 0 };
        let reply =
            ChatReply { message, usage, stop, logprobs: Vec::new(), prompt_token_ids: Vec::new(), completion_token_ids: Vec::new() };
        Self { delay: Duration::ZERO, reply: Ok(reply) }
    }
}

impl ScriptedModel {
    /// A model whose requests take the turns of `script` in order. A request beyond the last is a permanent error.
    #[must_use]
    pub fn new(script: impl IntoIterator<Item = ScriptedTurn>) -> Self {
        Self::of(Script::InOrder(Mutex::new(script.into_iter().collect())))
    }

    /// A model whose requests take the turn that [`crate::trajectory::RequestTag::step`] names, so that it plays the same script in
    /// every episode, however many run at once. Requests are not kept.
    #[must_use]
    pub fn by_step(script: impl IntoIterator<Item = ScriptedTurn>) -> Self {
        Self::of(Script::ByStep(script.into_iter().collect()))
    }

    /// The same model at a price: see [`LanguageModel::price`].
    #[must_use]
    pub fn priced(self, price: [u64; 3]) -> Self {
        Self { price, ..self }
    }

    /// The requests so far, in order.
    #[must_use]
    pub fn requests(&self) -> Vec<ChatRequest> {
        lock(&self.requests).clone()
    }

    fn of(script: Script) -> Self {
        let id = ModelId { name: "scripted".to_owned(), fingerprint: "scripted/1".to_owned() };
        Self { id, price: [0; 3], script, requests: Mutex::new(Vec::new()) }
    }

    fn next(&self, request: &ChatRequest) -> Option<ScriptedTurn> {
        match &self.script {
            Script::InOrder(turns) => {
                lock(&self.requests).push(request.clone());
                lock(turns).pop_front()
            }
            Script::ByStep(turns) => turns.get(request.tag.step as usize).cloned(),
        }
    }
}

/// A test that panicked while it held the lock has failed already.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[async_trait::async_trait]
impl LanguageModel for ScriptedModel {
    fn id(&self) -> &ModelId {
        &self.id
    }

    fn price(&self) -> [u64; 3] {
        self.price
    }

    async fn complete(&self, request: &ChatRequest) -> Result<ChatReply, ModelError> {
        if let Err(ProtocolError { at, reason }) = check_protocol(request) {
            return Err(ModelError::Permanent { message: format!("protocol: message {at}: {reason}") });
        }
        let Some(turn) = self.next(request) else {
            return Err(ModelError::Permanent { message: format!("the script has no turn for step {}", request.tag.step) });
        };
        if !turn.delay.is_zero() {
            tokio::time::sleep(turn.delay).await;
        }
        turn.reply
    }
}

/// A request that some endpoint would refuse.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("message {at}: {reason}")]
pub struct ProtocolError {
    /// Index of the message.
    pub at: usize,
    /// Which rule it breaks.
    pub reason: String,
}

/// Checks what the strictest endpoints ask of a request: a system message only at the start; then user and assistant in turn, user
/// first; after an assistant's tool calls exactly one tool message per call, in order; ids that name one call each; no empty message; the model's turn at the end; tool names that differ.
///
/// # Errors
/// The first rule that is broken.
pub fn check_protocol(request: &ChatRequest) -> Result<(), ProtocolError> {
    let mut expected = Expected::Opening;
    let mut ids = HashSet::new();
    for (at, message) in request.messages.iter().enumerate() {
        let error = |reason: String| ProtocolError { at, reason };
        if message.joined_text().trim().is_empty() && message.tool_calls.is_empty() {
            return Err(error("is empty".to_owned()));
        }
        if message.role != Role::Assistant && !message.tool_calls.is_empty() {
            return Err(error("only an assistant makes tool calls".to_owned()));
        }
        for call in &message.tool_calls {
            if call.id.is_empty() || !ids.insert(call.id.as_str()) {
                return Err(error(format!("the call id `{}` is empty or was used before", call.id)));
            }
        }
        expected = expected.after(at, message).map_err(error)?;
    }
    let end = request.messages.len();
    if !matches!(expected, Expected::Assistant) {
        return Err(ProtocolError { at: end, reason: "it is not the model's turn".to_owned() });
    }
    let mut names = HashSet::new();
    if let Some(tool) = request.tools.iter().find(|tool| !names.insert(tool.name.as_str())) {
        return Err(ProtocolError { at: end, reason: format!("the tool `{}` is offered twice", tool.name) });
    }
    if request.tools.is_empty() && request.tool_choice != ToolChoice::None {
        return Err(ProtocolError { at: end, reason: "a tool choice without tools".to_owned() });
    }
    Ok(())
}

/// What may come next.
enum Expected {
    /// A system message, or the first of the user.
    Opening,
    /// The first message of the user.
    User,
    /// An assistant's message; also a good end.
    Assistant,
    /// A user's message.
    UserAgain,
    /// The results of these calls, then the assistant.
    Results(VecDeque<String>),
}

impl Expected {
    fn after(self, at: usize, message: &Message) -> Result<Self, String> {
        match (self, message.role) {
            (Self::Opening, Role::System) if at == 0 => Ok(Self::User),
            (Self::Opening | Self::User | Self::UserAgain, Role::User) => Ok(Self::Assistant),
            (Self::Assistant, Role::Assistant) if message.tool_calls.is_empty() => Ok(Self::UserAgain),
            (Self::Assistant, Role::Assistant) => Ok(Self::Results(message.tool_calls.iter().map(|call| call.id.clone()).collect())),
            (Self::Results(mut ids), Role::Tool) => {
                let id = ids.pop_front();
                if id.is_none() || id != message.tool_call_id {
                    return Err(format!("answers the call {:?}, but {id:?} is next", message.tool_call_id));
                }
                Ok(if ids.is_empty() { Self::Assistant } else { Self::Results(ids) })
            }
            (Self::Results(ids), role) => Err(format!("comes from {role:?}, but {} calls have no result", ids.len())),
            (_, role) => Err(format!("{role:?} may not speak here")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::SamplingParams;
    use crate::trajectory::RequestTag;

    fn request(messages: Vec<Message>) -> ChatRequest {
        ChatRequest {
            messages,
            tools: Vec::new(),
            tool_choice: ToolChoice::None,
            sampling: SamplingParams { temperature: 0.0, top_p: 1.0, max_output_tokens: 64, seed: None },
            tag: RequestTag { task: None, seed: 0, step: 0 },
        }
    }

    fn calling(ids: &[&str]) -> Message {
        let tool_calls =
            ids.iter().map(|id| ToolCall { id: (*id).to_owned(), name: "bash".to_owned(), arguments: "{}".to_owned() }).collect();
        Message { tool_calls, content: Vec::new(), ..Message::text(Role::Assistant, "") }
    }

    #[test]
    fn a_right_conversation_passes() {
        let system = Message::text(Role::System, "s");
        let user = Message::text(Role::User, "u");
        let said = Message::text(Role::Assistant, "a");
        assert_eq!(check_protocol(&request(vec![system.clone(), user.clone()])), Ok(()));
        assert_eq!(check_protocol(&request(vec![user.clone(), said.clone(), user.clone()])), Ok(()));
        let results = [Message::tool_result("1", "x"), Message::tool_result("2", "y")];
        assert_eq!(check_protocol(&request([vec![system, user, calling(&["1", "2"])], results.to_vec()].concat())), Ok(()));
    }

    #[test]
    fn broken_rules_are_found() {
        let text = Message::text;
        let (user, said) = (text(Role::User, "u"), text(Role::Assistant, "a"));
        let result = Message::tool_result;
        let broken: Vec<(Vec<Message>, &str)> = vec![
            (vec![], "turn"),
            (vec![text(Role::System, "s")], "turn"),
            (vec![said.clone()], "may not speak"),
            (vec![user.clone(), user.clone()], "may not speak"),
            (vec![user.clone(), said.clone()], "turn"),
            (vec![user.clone(), said.clone(), text(Role::User, " \n")], "empty"),
            (vec![user.clone(), text(Role::System, "s")], "may not speak"),
            (vec![user.clone(), calling(&["1", "2"]), result("1", "x")], "turn"),
            (vec![user.clone(), calling(&["1", "2"]), result("2", "x")], "is next"),
            (vec![user.clone(), calling(&["1"]), user.clone()], "no result"),
            (vec![user.clone(), calling(&["1"]), result("1", "x"), result("1", "x")], "may not speak"),
            (vec![user.clone(), calling(&["1"]), result("1", "x"), calling(&["1"]), result("1", "x")], "used before"),
            (vec![user.clone(), calling(&[""]), result("", "x")], "empty or was used"),
            (vec![user, said, result("1", "x")], "may not speak"),
        ];
        for (messages, part) in broken {
            let error = check_protocol(&request(messages)).unwrap_err();
            assert!(error.reason.contains(part), "{error}");
        }
    }
}
