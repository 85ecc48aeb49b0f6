//! What an endpoint says when it refuses, and what that means.

use serde_json::Value;

/// Characters of a foreign text that enter a message.
const EXCERPT_CHARS: usize = 300;

/// Words with which servers say that a request is too long: OpenAI, vLLM, Anthropic, llama.cpp and its Python server, SGLang.
const TOO_LONG: [&str; 9] = [
    "context_length_exceeded",
    "maximum context length",
    "context window",
    "context length",
    "available context size",
    "prompt is too long",
    "input is too long",
    "input length and `max_tokens` exceed",
    "longer than the model's context",
];

/// An answer that reports an error.
#[derive(Debug)]
pub(super) struct Refusal {
    status: u16,
    /// The provider's word for it, where it has one.
    code: String,
    message: String,
}

impl Refusal {
    /// Reads the body of an error in any of the shapes that are about: `{"error": {...}}`, `{"error": "..."}`, `{"message": ...}`,
    /// `{"detail": ...}`, or text.
    pub(super) fn parse(status: u16, body: &str) -> Self {
        let Ok(value) = serde_json::from_str::<Value>(body) else {
            return Self { status, code: String::new(), message: excerpt(body) };
        };
        let inner = value.get("error").filter(|error| error.is_object()).unwrap_or(&value);
        let text = |field: &str| inner.get(field).and_then(Value::as_str);
        let message = text("message")
            .or_else(|| value.get("message").and_then(Value::as_str))
            .or_else(|| value.get("error").and_then(Value::as_str))
            .or_else(|| text("detail"))
            .map_or_else(|| excerpt(body), excerpt);
        let code = text("code").or_else(|| text("type")).unwrap_or_default().chars().take(60).collect();
        // Gateways report the status of the model behind them as a number in `code`.
        let reported = inner.get("code").and_then(Value::as_u64).and_then(|code| u16::try_from(code).ok());
        let status = match reported {
            Some(code @ 400..=599) if (200..300).contains(&status) => code,
            _ => status,
        };
        Self { status, code, message }
    }

    /// Whether the request does not fit the model's context (or the server's limit for bodies).
    pub(super) fn is_context_length(&self) -> bool {
        let said = format!("{} {}", self.code, self.message).to_lowercase();
        self.status == 413 || (self.status != 429 && TOO_LONG.iter().any(|words| said.contains(words)))
    }

    /// Whether the same request may succeed later.
    pub(super) fn may_pass(&self) -> bool {
        match self.status {
            // An account without credit answers 429 for ever.
            429 => !matches!(self.code.as_str(), "insufficient_quota" | "billing_hard_limit_reached"),
            408 | 409 | 425 | 500..=599 => true,
            // An error under the status of success is judged by its name.
            200..=299 => !matches!(
                self.code.as_str(),
                "authentication_error" | "permission_error" | "not_found_error" | "invalid_request_error" | "invalid_api_key"
            ),
            _ => false,
        }
    }

    /// What to do about a refusal that will not pass.
    pub(super) fn hint(&self, key_variable: &str) -> String {
        match self.status {
            401 | 403 if key_variable.is_empty() => {
                "; hint: the endpoint wants a key: name the environment variable that holds it in `api_key_env`".to_owned()
            }
            401 | 403 => format!("; hint: check the key in the environment variable {key_variable}, and that it may use this model"),
            404 => "; hint: check the model's name and base_url, which ends with the version (often /v1)".to_owned(),
            400 | 422 => "; hint: if it refuses a field, name it in `omit`, or set `output_limit`".to_owned(),
            429 => "; hint: the account has no credit left".to_owned(),
            _ => String::new(),
        }
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.status)?;
        if !self.code.is_empty() {
            write!(f, " ({})", self.code)?;
        }
        write!(f, ": {}", self.message)
    }
}

/// The start of a foreign text on one line.
pub(super) fn excerpt(text: &str) -> String {
    let mut short = String::new();
    let mut left = EXCERPT_CHARS;
    for word in text.split_whitespace() {
        if !short.is_empty() {
            short.push(' ');
            left = left.saturating_sub(1);
        }
        short.extend(word.chars().filter(|c| !c.is_control()).take(left));
        left = left.saturating_sub(word.chars().count());
        if left == 0 {
            short.push_str(" ...");
            break;
        }
    }
    if short.is_empty() { "(nothing)".to_owned() } else { short }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_found_in_every_shape() {
        let said = |body: &str| Refusal::parse(500, body).to_string();
        assert_eq!(said(r#"{"error":{"message":"no","code":"c","type":"t"}}"#), "500 (c): no");
        assert_eq!(
            said(r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#),
            "500 (overloaded_error): Overloaded"
        );
        assert_eq!(said(r#"{"error":"model missing"}"#), "500: model missing");
        assert_eq!(said(r#"{"error":"Not Found","message":"Cannot GET /"}"#), "500: Cannot GET /");
        assert_eq!(said(r#"{"detail":"Not Found"}"#), "500: Not Found");
        assert_eq!(said("<html>\n<h1>Bad  gateway</h1>"), "500: <html> <h1>Bad gateway</h1>");
        assert_eq!(said(""), "500: (nothing)");
    }

    #[test]
    fn too_long_is_recognised_in_the_words_of_each_server() {
        let bodies = [
            r#"{"error":{"message":"This model's maximum context length is 8192 tokens","code":"context_length_exceeded"}}"#,
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"}}"#,
            r#"{"error":{"message":"Requested tokens (5000) exceed context window of 2048","type":"invalid_request_error"}}"#,
            r#"{"error":{"code":400,"message":"the request exceeds the available context size","type":"exceed_context_size_error"}}"#,
        ];
        for body in bodies {
            assert!(Refusal::parse(400, body).is_context_length(), "{body}");
        }
        assert!(Refusal::parse(413, "").is_context_length());
        assert!(!Refusal::parse(400, r#"{"error":{"message":"unknown field"}}"#).is_context_length());
    }

    #[test]
    fn statuses_are_sorted_by_whether_they_may_pass() {
        for status in [408, 429, 500, 502, 503, 504, 529] {
            assert!(Refusal::parse(status, "{}").may_pass(), "{status}");
        }
        for status in [400, 401, 403, 404, 405, 422] {
            assert!(!Refusal::parse(status, "{}").may_pass(), "{status}");
        }
        assert!(!Refusal::parse(429, r#"{"error":{"message":"quota","code":"insufficient_quota"}}"#).may_pass());
        // OpenRouter's way: success outside, the status inside.
        assert!(Refusal::parse(200, r#"{"error":{"message":"upstream","code":502}}"#).may_pass());
        assert!(!Refusal::parse(200, r#"{"error":{"message":"no such model","code":404}}"#).may_pass());
    }

    #[test]
    fn an_excerpt_is_bounded() {
        let long = "x".repeat(10_000);
        assert_eq!(excerpt(&long).chars().count(), 304);
        assert!(excerpt(&"word ".repeat(1000)).chars().count() <= 304);
        assert_eq!(excerpt("a\u{7}b"), "ab");
    }
}
