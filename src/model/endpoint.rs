//! An endpoint as plain data, and the client for it.

use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::anthropic::Anthropic;
use super::openai::OpenAi;
use super::{Blobs, LanguageModel, ModelId, Secret};
use crate::base::canonical_bytes;

/// A model behind an HTTP endpoint. Holds no secret: the key is handed to [`connect`] beside it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EndpointConfig {
    /// Which interface it speaks.
    pub kind: EndpointKind,
    /// Up to and with the version, for example `http://127.0.0.1:8000/v1` or `https://api.anthropic.com/v1`.
    pub base_url: String,
    /// The model, as the endpoint names it.
    pub model: String,
    /// The environment variable that holds the key; absent for endpoints that want none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_key_env: Option<String>,
    /// What tokens cost.
    #[serde(default)]
    pub price: Price,
    /// How long one attempt may wait for what.
    #[serde(default)]
    pub timeouts: Timeouts,
    /// The name of the field that bounds the reply (kind `openai` only).
    #[serde(default)]
    pub output_limit: OutputLimitField,
    /// Whether the reasoning of earlier replies is sent back (kind `openai` only).
    #[serde(default)]
    pub past_reasoning: PastReasoning,
    /// Fields of the request the endpoint does not take, for example `temperature`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub omit: Vec<String>,
    /// Further fields of the request body, for example `logprobs = true`, or vLLM's `return_token_ids = true`. They are part of
    /// the fingerprint and are stored: no place for secrets.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub extra_body: Map<String, Value>,
}

/// The interface an endpoint speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum EndpointKind {
    /// Chat completions, as OpenAI, vLLM, SGLang, llama.cpp, Ollama and many gateways serve them.
    OpenAi,
    /// Anthropic messages.
    Anthropic,
}

/// The field that bounds the tokens of a reply.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OutputLimitField {
    /// What nearly all servers take.
    #[default]
    MaxTokens,
    /// What OpenAI's reasoning models take.
    MaxCompletionTokens,
}

/// Whether the reasoning of earlier replies is sent back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PastReasoning {
    /// No: most endpoints drop or refuse it.
    #[default]
    Drop,
    /// As `reasoning_content`, for models that reason between tool calls.
    Send,
}

/// Millionths of a US dollar per million tokens: 3 dollars per million are `3000000`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Price {
    /// Prompt tokens that were not cached.
    pub prompt: u64,
    /// Prompt tokens that were cached.
    pub cached: u64,
    /// Tokens of the reply.
    pub completion: u64,
}

/// How long one attempt may wait, in milliseconds. What takes longer is a transient fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Timeouts {
    /// For the connection.
    pub connect_ms: u64,
    /// For the first byte of the answer, the connection included. Without streaming, a server sends it when the reply is done.
    pub first_byte_ms: u64,
    /// Between two reads of the answer.
    pub idle_ms: u64,
    /// For everything.
    pub total_ms: u64,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self { connect_ms: 10_000, first_byte_ms: 300_000, idle_ms: 30_000, total_ms: 600_000 }
    }
}

impl Timeouts {
    pub(super) const fn connect(self) -> Duration {
        Duration::from_millis(self.connect_ms)
    }

    pub(super) const fn first_byte(self) -> Duration {
        Duration::from_millis(self.first_byte_ms)
    }

    pub(super) const fn idle(self) -> Duration {
        Duration::from_millis(self.idle_ms)
    }

    pub(super) const fn total(self) -> Duration {
        Duration::from_millis(self.total_ms)
    }
}

/// An endpoint that cannot be used as it is configured.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// The URL.
    #[error("base_url `{base_url}`: {reason}")]
    Url {
        /// As configured, unless it holds credentials.
        base_url: String,
        /// What is wrong and what is right.
        reason: String,
    },
    /// The key.
    #[error("the endpoint wants a key: set the environment variable {variable} (named by `api_key_env`)")]
    MissingKey {
        /// Where it is looked for.
        variable: String,
    },
    /// A field.
    #[error("`{field}`: {reason}")]
    Field {
        /// Which.
        field: String,
        /// What is wrong and what is right.
        reason: String,
    },
    /// The HTTP client could not be set up.
    #[error("no HTTP client for {base_url}: {reason}; for https, install the system's CA certificates (Debian: ca-certificates)")]
    Client {
        /// The endpoint.
        base_url: String,
        /// What failed.
        reason: String,
    },
    /// The endpoint did not answer as a model should.
    #[error("the model `{model}` at {base_url} cannot be used: {reason}\nhint: {hint}")]
    Unusable {
        /// The model.
        model: String,
        /// The endpoint.
        base_url: String,
        /// What happened.
        reason: String,
        /// What to do.
        hint: String,
    },
}

/// Fields of the body that are the client's own.
const RESERVED: [&str; 6] = ["model", "messages", "system", "tools", "tool_choice", "stream"];

impl EndpointConfig {
    /// Checks everything that can be checked without the network.
    ///
    /// # Errors
    /// The first field that is wrong.
    pub fn validate(&self) -> Result<(), EndpointError> {
        // Credentials hide before an `@` or behind a `?`, in addresses that do not parse, too.
        let shown = if self.base_url.contains(['@', '?']) { "(hidden)" } else { &self.base_url };
        let url = |reason: &str| EndpointError::Url { base_url: shown.to_owned(), reason: reason.to_owned() };
        let parsed =
            reqwest::Url::parse(&self.base_url).map_err(|error| url(&format!("{error}; expected for example http://127.0.0.1:8000/v1")))?;
        if !parsed.username().is_empty() || parsed.password().is_some() {
            return Err(url("credentials do not belong into the URL: name their variable in `api_key_env`"));
        }
        if !matches!(parsed.scheme(), "http" | "https") || parsed.host_str().is_none() {
            return Err(url("expected http:// or https:// and a host"));
        }
        if parsed.query().is_some() || parsed.fragment().is_some() {
            return Err(url("a query or fragment is not supported: give the address up to the version"));
        }
        let field = |field: &str, reason: &str| Err(EndpointError::Field { field: field.to_owned(), reason: reason.to_owned() });
        if self.model.trim().is_empty() {
            return field("model", "empty: give the name under which the endpoint knows the model");
        }
        for (name, ms) in [
            ("timeouts.connect_ms", self.timeouts.connect_ms),
            ("timeouts.first_byte_ms", self.timeouts.first_byte_ms),
            ("timeouts.idle_ms", self.timeouts.idle_ms),
            ("timeouts.total_ms", self.timeouts.total_ms),
        ] {
            if !(1..=86_400_000).contains(&ms) {
                return field(name, "expected 1 to 86400000 milliseconds");
            }
        }
        if let Some(name) = self.extra_body.keys().chain(&self.omit).find(|name| RESERVED.contains(&name.as_str())) {
            return field(name, "this field of the request is set by harness-evo: remove it from `extra_body` and `omit`");
        }
        Ok(())
    }

    /// The model's id: all that may change its replies, and no secret.
    #[must_use]
    pub fn model_id(&self) -> ModelId {
        let identity = json!({
            "kind": self.kind,
            "base_url": self.base_url.trim_end_matches('/'),
            "model": self.model,
            "output_limit": self.output_limit,
            "past_reasoning": self.past_reasoning,
            "omit": self.omit,
            "extra_body": self.extra_body,
        });
        // Canonical, so that the order in which fields were written does not matter.
        let bytes = canonical_bytes(&identity).unwrap_or_else(|_| identity.to_string().into_bytes());
        ModelId { name: self.model.clone(), fingerprint: String::from_utf8_lossy(&bytes).into_owned() }
    }

    /// Applies `omit` and `extra_body` to a request body.
    pub(super) fn finish_body(&self, body: &mut Map<String, Value>) {
        for name in &self.omit {
            body.remove(name);
        }
        for (name, value) in &self.extra_body {
            body.insert(name.clone(), value.clone());
        }
    }

    pub(super) const fn prices(&self) -> [u64; 3] {
        [self.price.prompt, self.price.cached, self.price.completion]
    }
}

/// A client for the endpoint. Nothing is sent yet: see [`super::reachability`].
///
/// # Errors
/// When the configuration is wrong, the key is missing, or no HTTP client can be set up.
pub fn connect(config: &EndpointConfig, api_key: Option<Secret>, blobs: Arc<dyn Blobs>) -> Result<Arc<dyn LanguageModel>, EndpointError> {
    Ok(match config.kind {
        EndpointKind::OpenAi => Arc::new(OpenAi::new(config.clone(), api_key, blobs)?),
        EndpointKind::Anthropic => Arc::new(Anthropic::new(config.clone(), api_key, blobs)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(base_url: &str) -> EndpointConfig {
        serde_json::from_value(json!({"kind": "openai", "base_url": base_url, "model": "probe"})).unwrap()
    }

    #[test]
    fn addresses_that_cannot_work_are_refused_without_showing_credentials() {
        for bad in
            ["", "localhost:8000", "ftp://host/v1", "http://", "http://user:hunter2hunter2@host/v1", "http://host/v1?key=hunter2hunter2"]
        {
            let error = config(bad).validate().unwrap_err().to_string();
            assert!(error.contains("base_url") && !error.contains("hunter2"), "{bad}: {error}");
        }
        config("http://[::1]:8000/v1/").validate().unwrap();
    }

    #[test]
    fn fields_of_the_client_cannot_be_overridden() {
        let mut config = config("http://host/v1");
        config.extra_body.insert("messages".to_owned(), json!([]));
        assert!(config.validate().unwrap_err().to_string().contains("`messages`"));
    }

    #[test]
    fn the_fingerprint_changes_with_what_changes_replies_only() {
        let base = config("http://host/v1");
        let id = base.model_id();
        assert_eq!(id.name, "probe");
        let mut same = base.clone();
        same.price.prompt = 7;
        same.api_key_env = Some("THE_KEY".to_owned());
        same.base_url.push('/');
        assert_eq!(same.model_id(), id);
        let mut other = base.clone();
        other.extra_body.insert("top_k".to_owned(), json!(1));
        assert_ne!(other.model_id().fingerprint, id.fingerprint);
    }

    #[test]
    fn a_named_but_missing_key_is_an_error_that_names_the_variable() {
        let mut config = config("http://127.0.0.1:9/v1");
        config.api_key_env = Some("TEACHER_KEY".to_owned());
        let error = connect(&config, None, Arc::new(super::super::NoBlobs)).err().unwrap();
        assert_eq!(error, EndpointError::MissingKey { variable: "TEACHER_KEY".to_owned() });
    }

    #[test]
    fn unknown_keys_are_refused() {
        let error =
            serde_json::from_value::<EndpointConfig>(json!({"kind": "openai", "base_url": "", "model": "", "api_key": "x"})).unwrap_err();
        assert!(error.to_string().contains("unknown field `api_key`"), "{error}");
    }
}
