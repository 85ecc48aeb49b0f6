//! Chat completions as OpenAI, vLLM, SGLang, llama.cpp, Ollama and many gateways serve them.
//!
//! Written over `reqwest` rather than on the client crate async-openai, because that one retries by itself and hides
//! `Retry-After`, and refuses replies of other servers that stray from OpenAI's own types.

use std::sync::Arc;

use super::endpoint::{EndpointConfig, EndpointError};
use super::http::{Http, KeyHeader};
use super::openai_reply::parse_reply;
use super::openai_wire::request_body;
use super::{Blobs, ChatReply, ChatRequest, LanguageModel, ModelError, ModelId, Secret};

/// A model behind chat completions. Replies are not streamed.
pub struct OpenAi {
    http: Http,
    config: EndpointConfig,
    id: ModelId,
    blobs: Arc<dyn Blobs>,
}

impl OpenAi {
    /// A client; nothing is sent yet.
    ///
    /// # Errors
    /// See [`EndpointError`].
    pub fn new(config: EndpointConfig, api_key: Option<Secret>, blobs: Arc<dyn Blobs>) -> Result<Self, EndpointError> {
        let http = Http::new(&config, api_key, KeyHeader::Bearer, &[])?;
        let id = config.model_id();
        Ok(Self { http, config, id, blobs })
    }
}

#[async_trait::async_trait]
impl LanguageModel for OpenAi {
    fn id(&self) -> &ModelId {
        &self.id
    }

    fn price(&self) -> [u64; 3] {
        self.config.prices()
    }

    async fn complete(&self, request: &ChatRequest) -> Result<ChatReply, ModelError> {
        let body = request_body(request, &self.config, self.blobs.as_ref())?;
        let answer = self.http.post("chat/completions", &body).await?;
        // Gateways report what failed behind them under the status of success.
        if answer.get("choices").is_none() && answer.get("error").is_some_and(|error| !error.is_null()) {
            return Err(self.http.refused(200, &answer));
        }
        parse_reply(&answer, request).map_err(|what| self.http.rubbish(what, &answer))
    }
}
