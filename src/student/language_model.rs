//! The student as a [`LanguageModel`]: one thread computes, callers wait.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};

use super::generation::{
    Completeness, Decoder, DecodingLimits, Finish, Generated, GenerationError, GenerationRequest, Sampling, Ticket, read_reply,
};
use super::{Student, StudentError};
use crate::base::SeedTree;
use crate::model::{ChatReply, ChatRequest, LanguageModel, ModelError, ModelId, StopReason, TokenLogprob, ToolChoice};
use crate::trajectory::{ContentPart, Message, RequestTag, Role, Usage};

/// Requests that wait for the thread; further callers wait for one of these places.
const QUEUE: usize = 64;

/// A student that answers requests. Dropping it ends its thread, at the latest with the step it is at.
///
/// The luck of a reply is that of the request's tag and seed. Products of one row and of several round differently in the last bits,
/// which can turn a draw that is nearly even: replies are the same again when requests come one at a time.
#[derive(Debug)]
pub struct StudentModel {
    id: ModelId,
    student: Arc<Student>,
    stops: Vec<String>,
    /// What replies are drawn with, whatever requests ask for.
    fixed: Option<Sampling>,
    queue: mpsc::Sender<Job>,
}

/// A request on its way to the thread. Whoever asked went away when `reply` is closed.
#[derive(Debug)]
struct Job {
    request: GenerationRequest,
    reply: oneshot::Sender<Result<Generated, GenerationError>>,
}

impl StudentModel {
    /// Starts the thread of `student`, which people know as `name`. A reply also ends at one of `stops`.
    ///
    /// The weights are what they are now: after they have changed another model is to be started.
    ///
    /// # Errors
    /// When the weights cannot be read or the system gives no thread.
    pub fn start(student: Arc<Student>, name: &str, stops: Vec<String>, limits: DecodingLimits) -> Result<Self, StudentError> {
        let fingerprint = fingerprint(&student, &stops, limits)?;
        let (queue, jobs) = mpsc::channel(QUEUE);
        let shared = Arc::clone(&student);
        std::thread::Builder::new().name("student".to_owned()).spawn(move || serve(&shared, limits, jobs)).map_err(StudentError::Thread)?;
        Ok(Self { id: ModelId { name: name.to_owned(), fingerprint }, student, stops, fixed: None, queue })
    }

    /// The same, drawing from the network's own distribution, whatever requests and the student's `generation_config.json` ask for:
    /// reinforcement learns what was drawn as if it came from there.
    #[must_use]
    pub fn with_plain_sampling(mut self) -> Self {
        self.fixed = Some(Sampling::plain());
        self.id.fingerprint.push_str(":plain");
        self
    }

    /// The student.
    #[must_use]
    pub const fn student(&self) -> &Arc<Student> {
        &self.student
    }

    fn generation(&self, request: &ChatRequest) -> Result<GenerationRequest, ModelError> {
        let is_image = |part: &ContentPart| matches!(part, ContentPart::Image { .. });
        if request.messages.iter().flat_map(|message| &message.content).any(is_image) {
            return Err(permanent("the student reads no pictures: use a harness whose tools give text only"));
        }
        let tools = if request.tool_choice == ToolChoice::None { &[] } else { request.tools.as_slice() };
        let prompt = self.student.codec.prompt(&request.messages, tools).map_err(|error| permanent(error.to_string()))?;
        let asked = &request.sampling;
        let sampling = match self.fixed {
            Some(fixed) => fixed,
            None => self.student.generation.sampling(asked.temperature, asked.top_p).map_err(|error| failed(&error))?,
        };
        Ok(GenerationRequest {
            prompt: prompt.ids,
            sampling,
            stops: self.stops.clone(),
            most_tokens: usize::try_from(asked.max_output_tokens).unwrap_or(usize::MAX),
            draws: luck(request.tag, asked.seed),
        })
    }
}

#[async_trait::async_trait]
impl LanguageModel for StudentModel {
    fn id(&self) -> &ModelId {
        &self.id
    }

    async fn complete(&self, request: &ChatRequest) -> Result<ChatReply, ModelError> {
        let ended = || permanent("the student's thread has ended");
        let (reply, answer) = oneshot::channel();
        let job = Job { request: self.generation(request)?, reply };
        self.queue.send(job).await.map_err(|_| ended())?;
        let generated = answer.await.map_err(|_| ended())?.map_err(|error| failed(&error))?;
        let offered = !request.tools.is_empty() && request.tool_choice == ToolChoice::Auto;
        Ok(chat_reply(&self.student, generated, if offered { Calls::Read } else { Calls::LeftAsText }))
    }
}

/// What a reply's `<tool_call>` blocks are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Calls {
    /// Calls of tools that were offered.
    Read,
    /// Text, which the harness reads or not.
    LeftAsText,
}

fn chat_reply(student: &Student, generated: Generated, calls: Calls) -> ChatReply {
    let completeness = if generated.finish == Finish::Length { Completeness::CutOff } else { Completeness::Whole };
    let message = match calls {
        Calls::Read => read_reply(&generated.text, completeness).message,
        Calls::LeftAsText => Message::text(Role::Assistant, generated.text),
    };
    let stop = match generated.finish {
        Finish::Length => StopReason::Length,
        Finish::EndOfTurn | Finish::StopText if message.tool_calls.is_empty() => StopReason::Stop,
        Finish::EndOfTurn | Finish::StopText => StopReason::ToolCalls,
    };
    let tokenizer = student.codec.tokenizer();
    let logprobs = generated.tokens.iter().zip(&generated.logprobs);
    ChatReply {
        message,
        usage: Usage {
            prompt_tokens: generated.prompt.len() as u64,
            completion_tokens: generated.tokens.len() as u64,
            // Which requests find a row depends on what else ran: it stays out of what is recorded.
            cached_tokens: 0,
        },
        stop,
        logprobs: logprobs.map(|(token, logprob)| TokenLogprob { token: tokenizer.decode(&[*token]), logprob: *logprob }).collect(),
        prompt_token_ids: generated.prompt,
        completion_token_ids: generated.tokens,
    }
}

/// The luck of a request.
fn luck(tag: RequestTag, seed: Option<u64>) -> SeedTree {
    let task = tag.task.map_or_else(String::new, |task| task.to_string());
    let request = SeedTree::new(tag.seed).child("student").child(&task).index(u64::from(tag.step));
    match seed {
        Some(seed) => request.child("seed").index(seed),
        None => request,
    }
}

fn permanent(message: impl Into<String>) -> ModelError {
    ModelError::Permanent { message: message.into() }
}

fn failed(error: &GenerationError) -> ModelError {
    match error {
        GenerationError::Context { .. } => ModelError::ContextLength { message: error.to_string() },
        _ => permanent(error.to_string()),
    }
}

/// The thread: takes requests on between steps, until nobody can ask any more.
fn serve(student: &Student, limits: DecodingLimits, mut jobs: mpsc::Receiver<Job>) {
    let mut decoder = Decoder::new(student, limits);
    let mut callers: BTreeMap<Ticket, oneshot::Sender<Result<Generated, GenerationError>>> = BTreeMap::new();
    loop {
        let mut next = if decoder.is_idle() {
            let Some(job) = jobs.blocking_recv() else { return };
            Some(job)
        } else {
            None
        };
        while let Some(Job { request, reply }) = next.take().or_else(|| if decoder.has_room() { jobs.try_recv().ok() } else { None }) {
            match decoder.submit(request) {
                Ok(ticket) => {
                    callers.insert(ticket, reply);
                }
                // A caller that went away needs no answer; so below.
                Err(error) => drop(reply.send(Err(error))),
            }
        }
        callers.retain(|ticket, caller| {
            if caller.is_closed() {
                decoder.cancel(*ticket);
            }
            !caller.is_closed()
        });
        for (ticket, result) in decoder.step() {
            if let Some(caller) = callers.remove(&ticket) {
                drop(caller.send(result));
            }
        }
    }
}

/// All that changes replies, as one text: weights, tokenizer, template, what ends and limits a reply.
fn fingerprint(student: &Student, stops: &[String], limits: DecodingLimits) -> Result<String, StudentError> {
    let codec = &student.codec;
    let mut hasher = blake3::Hasher::new_derive_key("harness-evo 2026 student");
    let mut part = |bytes: &[u8]| {
        hasher.update(&(bytes.len() as u64).to_le_bytes());
        hasher.update(bytes);
    };
    part(student.network.config().to_json().as_bytes());
    part(student.weights_hash()?.as_bytes());
    part(codec.tokenizer().hash().as_bytes());
    for text in [codec.template().source(), codec.template().bos(), codec.template().eos(), &student.generation.to_json()] {
        part(text.as_bytes());
    }
    for stop in stops {
        part(stop.as_bytes());
    }
    // Not the memory that was given, which differs from machine to machine, but what it may cut.
    part(limits.context.min(student.network.config().max_positions).to_string().as_bytes());
    Ok(format!("student:{}", &hasher.finalize().to_hex()[..32]))
}

#[cfg(test)]
mod tests;
