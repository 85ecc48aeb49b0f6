//! Anthropic messages.
//!
//! The API wants the thinking blocks of a reply back, signed, while the model works through tool calls. Our messages keep the
//! thought but no signature, so the client remembers the signed blocks of its own recent replies by the calls they led to.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;

use super::anthropic_wire::{parse_reply, request_body, thinking_blocks};
use super::endpoint::{EndpointConfig, EndpointError};
use super::http::{Http, KeyHeader};
use super::{Blobs, ChatReply, ChatRequest, LanguageModel, ModelError, ModelId, Secret};

/// The version of the interface this client was written for.
pub(super) const VERSION: &str = "2023-06-01";

/// Replies whose thinking is remembered: far more than are in flight at once.
const REMEMBERED: usize = 4096;

/// A model behind Anthropic messages. Replies are not streamed.
pub struct Anthropic {
    http: Http,
    config: EndpointConfig,
    id: ModelId,
    blobs: Arc<dyn Blobs>,
    thinking: Mutex<ThinkingMemory>,
}

/// Thinking blocks as they came, by the id of the first call of their reply; the oldest are forgotten first.
#[derive(Default)]
pub(super) struct ThinkingMemory(VecDeque<(String, Vec<Value>)>);

impl ThinkingMemory {
    pub(super) fn blocks(&self, call: &str) -> &[Value] {
        // Newest first: that is where the conversation is.
        self.0.iter().rev().find(|(id, _)| id == call).map_or(&[], |(_, blocks)| blocks)
    }

    pub(super) fn remember(&mut self, call: &str, blocks: Vec<Value>) {
        if self.0.len() == REMEMBERED {
            self.0.pop_front();
        }
        self.0.push_back((call.to_owned(), blocks));
    }
}

impl Anthropic {
    /// A client; nothing is sent yet.
    ///
    /// # Errors
    /// See [`EndpointError`].
    pub fn new(config: EndpointConfig, api_key: Option<Secret>, blobs: Arc<dyn Blobs>) -> Result<Self, EndpointError> {
        let http = Http::new(&config, api_key, KeyHeader::XApiKey, &[("anthropic-version", VERSION)])?;
        let id = config.model_id();
        Ok(Self { http, config, id, blobs, thinking: Mutex::default() })
    }

    fn body(&self, request: &ChatRequest) -> Result<Value, ModelError> {
        let thinking = self.thinking.lock().unwrap_or_else(PoisonError::into_inner);
        request_body(request, &self.config, self.blobs.as_ref(), &thinking)
    }
}

#[async_trait::async_trait]
impl LanguageModel for Anthropic {
    fn id(&self) -> &ModelId {
        &self.id
    }

    fn price(&self) -> [u64; 3] {
        self.config.prices()
    }

    async fn complete(&self, request: &ChatRequest) -> Result<ChatReply, ModelError> {
        let body = self.body(request)?;
        let answer = self.http.post("messages", &body).await?;
        if answer.get("content").is_none() && answer.get("error").is_some_and(|error| !error.is_null()) {
            return Err(self.http.refused(200, &answer));
        }
        let reply = parse_reply(&answer, request).map_err(|what| self.http.rubbish(what, &answer))?;
        let blocks = thinking_blocks(&answer);
        if let (Some(call), false) = (reply.message.tool_calls.first(), blocks.is_empty()) {
            self.thinking.lock().unwrap_or_else(PoisonError::into_inner).remember(&call.id, blocks);
        }
        Ok(reply)
    }
}
