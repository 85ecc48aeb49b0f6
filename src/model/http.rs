//! One HTTP exchange with an endpoint: bounded in time and size, its failures sorted into [`ModelError`]. Nothing is retried.
//! The system's proxy settings hold for all endpoints but those on this machine.

use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, RequestBuilder, Response};
use serde_json::Value;
use tokio::time::timeout;

use super::endpoint::{EndpointConfig, EndpointError, Timeouts};
use super::refusal::{self, Refusal};
use super::retry_after;
use super::{ModelError, Secret};
use crate::base::{Clock, SystemClock};
use crate::trajectory::redact;

/// Bytes of an answer. A server that sends more is broken or hostile.
const MAX_REPLY_BYTES: usize = 16 * 1024 * 1024;

/// Bytes read of an answer that reports an error.
const MAX_ERROR_BYTES: usize = 64 * 1024;

/// How the key is presented.
#[derive(Debug, Clone, Copy)]
pub(super) enum KeyHeader {
    /// `Authorization: Bearer KEY`.
    Bearer,
    /// `x-api-key: KEY`.
    XApiKey,
}

/// A client for one endpoint.
pub(super) struct Http {
    client: Client,
    base_url: String,
    timeouts: Timeouts,
    /// Kept to remove it from what an endpoint echoes.
    key: Option<Secret>,
    key_variable: String,
}

impl Http {
    pub(super) fn new(
        config: &EndpointConfig,
        key: Option<Secret>,
        header: KeyHeader,
        fixed: &[(&'static str, &'static str)],
    ) -> Result<Self, EndpointError> {
        config.validate()?;
        if let (Some(variable), None) = (&config.api_key_env, &key) {
            return Err(EndpointError::MissingKey { variable: variable.clone() });
        }
        let base_url = config.base_url.trim_end_matches('/').to_owned();
        let failed = |reason: String| EndpointError::Client { base_url: base_url.clone(), reason };
        let mut headers = HeaderMap::new();
        for (name, value) in fixed {
            headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        if let Some(key) = &key {
            let (name, text) = match header {
                KeyHeader::Bearer => ("authorization", format!("Bearer {}", key.expose())),
                KeyHeader::XApiKey => ("x-api-key", key.expose().to_owned()),
            };
            // The error of the header type would show nothing of the value, but says nothing useful either.
            let mut value = HeaderValue::from_str(&text).map_err(|_| failed("the key cannot stand in a header".to_owned()))?;
            value.set_sensitive(true);
            headers.insert(HeaderName::from_static(name), value);
        }
        let client = build_client(config, headers).map_err(|error| failed(describe(error)))?;
        let key_variable = config.api_key_env.clone().unwrap_or_default();
        Ok(Self { client, base_url, timeouts: config.timeouts, key, key_variable })
    }

    /// Sends `body` to `path` and returns the answer's JSON.
    pub(super) async fn post(&self, path: &str, body: &Value) -> Result<Value, ModelError> {
        self.bounded(self.client.post(self.url(path)).json(body)).await
    }

    /// Fetches the JSON at `path`.
    pub(super) async fn get(&self, path: &str) -> Result<Value, ModelError> {
        self.bounded(self.client.get(self.url(path))).await
    }

    /// A fault that may pass, for an answer that is JSON but not a reply.
    pub(super) fn rubbish(&self, what: &str, answer: &Value) -> ModelError {
        let shown = self.clean(&refusal::excerpt(&answer.to_string()));
        self.transient(format!("sent an answer that is no reply ({what}): {shown}"), None)
    }

    /// The error for a refusal that came with the status of success.
    pub(super) fn refused(&self, status: u16, answer: &Value) -> ModelError {
        self.sort(&Refusal::parse(status, &answer.to_string()), None)
    }

    fn url(&self, path: &str) -> String {
        format!("{}/{path}", self.base_url)
    }

    fn clean(&self, text: &str) -> String {
        let secrets: Vec<&str> = self.key.iter().map(Secret::expose).collect();
        redact(text, &secrets)
    }

    fn transient(&self, what: String, retry_after: Option<Duration>) -> ModelError {
        ModelError::Transient { message: format!("the endpoint {} {what}", self.base_url), retry_after }
    }

    fn stalled(&self, limit: Duration, what: &str, name: &str) -> ModelError {
        self.transient(format!("{what} within {} ms (timeouts.{name})", limit.as_millis()), None)
    }

    async fn bounded(&self, request: RequestBuilder) -> Result<Value, ModelError> {
        let limit = self.timeouts.total();
        timeout(limit, self.exchange(request)).await.map_err(|_| self.stalled(limit, "did not finish its answer", "total_ms"))?
    }

    async fn exchange(&self, request: RequestBuilder) -> Result<Value, ModelError> {
        let limit = self.timeouts.first_byte();
        let response = timeout(limit, request.send())
            .await
            .map_err(|_| self.stalled(limit, "sent nothing", "first_byte_ms"))?
            .map_err(|error| self.failed_to_send(error))?;
        let status = response.status();
        if status.is_redirection() {
            return Err(self.redirected(&response));
        }
        if !status.is_success() {
            let wait = retry_after::of(response.headers(), SystemClock.now());
            // What was read before a failure still tells why the endpoint refused.
            let (body, _) = self.read(response, MAX_ERROR_BYTES).await;
            return Err(self.sort(&Refusal::parse(status.as_u16(), &String::from_utf8_lossy(&body)), wait));
        }
        let (body, failure) = self.read(response, MAX_REPLY_BYTES).await;
        if let Some(failure) = failure {
            return Err(failure);
        }
        serde_json::from_slice(&body).map_err(|error| {
            let shown = self.clean(&refusal::excerpt(&String::from_utf8_lossy(&body)));
            self.transient(format!("sent {} bytes that are not JSON ({error}): {shown}", body.len()), None)
        })
    }

    /// Reads until the end, the limit or a failure.
    async fn read(&self, mut response: Response, most: usize) -> (Vec<u8>, Option<ModelError>) {
        let mut body = Vec::new();
        let limit = self.timeouts.idle();
        loop {
            match timeout(limit, response.chunk()).await {
                Err(_) => return (body, Some(self.stalled(limit, "stopped in the middle of its answer: nothing more came", "idle_ms"))),
                Ok(Err(error)) => {
                    let what = format!("broke off its answer after {} bytes: {}", body.len(), self.clean(&describe(error)));
                    return (body, Some(self.transient(what, None)));
                }
                Ok(Ok(None)) => return (body, None),
                Ok(Ok(Some(chunk))) => {
                    let room = most - body.len();
                    body.extend_from_slice(&chunk[..chunk.len().min(room)]);
                    if chunk.len() > room {
                        return (body, Some(self.transient(format!("sent more than {most} bytes"), None)));
                    }
                }
            }
        }
    }

    fn failed_to_send(&self, error: reqwest::Error) -> ModelError {
        if error.is_builder() {
            return ModelError::Permanent { message: format!("the request to {} cannot be built: {}", self.base_url, describe(error)) };
        }
        let what = if error.is_timeout() {
            format!("could not be reached within {} ms (timeouts.connect_ms)", self.timeouts.connect_ms)
        } else if error.is_connect() {
            format!("could not be reached: {}", describe(error))
        } else {
            format!("closed the connection without an answer: {}", describe(error))
        };
        self.transient(self.clean(&what), None)
    }

    fn redirected(&self, response: &Response) -> ModelError {
        let target = response.headers().get("location").and_then(|value| value.to_str().ok()).unwrap_or("elsewhere");
        let target = self.clean(&refusal::excerpt(target));
        ModelError::Permanent {
            message: format!("the endpoint {} redirects to {target}: set base_url to the address it redirects to", self.base_url),
        }
    }

    fn sort(&self, refusal: &Refusal, wait: Option<Duration>) -> ModelError {
        let said = self.clean(&refusal.to_string());
        if refusal.is_context_length() {
            return ModelError::ContextLength { message: said };
        }
        if refusal.may_pass() {
            return self.transient(format!("answered {said}"), wait);
        }
        let hint = refusal.hint(&self.key_variable);
        ModelError::Permanent { message: format!("the endpoint {} answered {said}{hint}", self.base_url) }
    }
}

fn build_client(config: &EndpointConfig, headers: HeaderMap) -> Result<Client, reqwest::Error> {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // Another thread may be first: then its provider stands.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
    let mut builder = Client::builder()
        .user_agent(concat!("harness-evo/", env!("CARGO_PKG_VERSION")))
        .default_headers(headers)
        .connect_timeout(config.timeouts.connect())
        // Below the five seconds after which uvicorn (vLLM, SGLang) and Node close idle connections: a request never meets the close.
        .pool_idle_timeout(Duration::from_secs(4))
        // A redirect would carry the key to another host, or turn the request into a GET.
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never());
    if let Ok(url) = reqwest::Url::parse(&config.base_url) {
        if url.scheme() == "http" {
            // No certificate is ever looked at: do not fail where the system has none.
            builder = builder.tls_certs_only([]);
        }
        if is_loopback(&url) {
            builder = builder.no_proxy();
        }
    }
    builder.build()
}

fn is_loopback(url: &reqwest::Url) -> bool {
    url.host_str().is_some_and(|host| {
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        host == "localhost" || bare.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
    })
}

/// An error with its causes, without the address, which the caller names.
fn describe(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(&error);
    while let Some(inner) = cause {
        let next = inner.to_string();
        if !text.ends_with(&next) {
            text.push_str(": ");
            text.push_str(&next);
        }
        cause = inner.source();
    }
    text
}

#[cfg(test)]
#[path = "http_tests.rs"]
mod tests;
