//! Removes secrets from text: the values the caller knows, and what looks like a key.

use std::sync::LazyLock;

use regex::{Captures, Regex};

use super::{ContentPart, Trajectory};

/// What stands where a secret stood.
pub const REDACTED: &str = "[redacted]";

/// Shorter values are no secrets but stand-ins such as `none` or `local`; removing them would eat ordinary words.
const SHORTEST_SECRET: usize = 8;

/// Keys by their shape. Group 1, where there is one, stays. The last part must hold a digit: see [`redact`].
static SHAPES: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    [
        // Bearer tokens, and headers and query fields that carry keys.
        r"(?i)\b(bearer\s+)[a-z0-9._~+/=-]{16,}",
        r#"(?i)\b((?:x-api-key|api[_-]?key)["']?\s*[:=]\s*["']?)[a-z0-9._~+/-]{16,}=*"#,
        // OpenAI, Anthropic and the gateways that imitate them.
        r"\bsk-[A-Za-z0-9_-]{16,}",
        // Hugging Face, GitHub, Google, AWS, Slack.
        r"\bhf_[A-Za-z0-9]{20,}",
        r"\b(?:ghp|gho|ghs|ghu|ghr|github_pat)_[A-Za-z0-9_]{20,}",
        r"\bAIza[A-Za-z0-9_-]{30,}",
        r"\bAKIA[A-Z0-9]{16}\b",
        r"\bxox[abprs]-[A-Za-z0-9-]{16,}",
    ]
    .iter()
    .filter_map(|shape| Regex::new(shape).ok())
    .collect()
});

/// `text` without the values of `secrets` (of eight bytes or more, also as JSON escapes them) and without what has the shape of a
/// key: `sk-...`, `Bearer ...` and the like, when it holds a digit, as keys do and words do not.
#[must_use]
pub fn redact(text: &str, secrets: &[&str]) -> String {
    let mut clean = text.to_owned();
    // Longest first: a secret may be part of another.
    let mut known: Vec<&str> = secrets.iter().copied().filter(|secret| secret.len() >= SHORTEST_SECRET).collect();
    known.sort_unstable_by_key(|secret| std::cmp::Reverse(secret.len()));
    for secret in known {
        clean = clean.replace(secret, REDACTED);
        let escaped = serde_json::Value::from(secret).to_string();
        let inner = escaped.trim_matches('"');
        if inner != secret {
            clean = clean.replace(inner, REDACTED);
        }
    }
    for shape in SHAPES.iter() {
        if shape.is_match(&clean) {
            clean = shape.replace_all(&clean, replacement).into_owned();
        }
    }
    clean
}

fn replacement(found: &Captures<'_>) -> String {
    let whole = found.get(0).map_or("", |all| all.as_str());
    let kept = found.get(1).map_or("", |prefix| prefix.as_str());
    if whole[kept.len()..].bytes().any(|byte| byte.is_ascii_digit()) { format!("{kept}{REDACTED}") } else { whole.to_owned() }
}

/// Redacts every text of a trajectory, before it is stored.
pub fn redact_trajectory(trajectory: &mut Trajectory, secrets: &[&str]) {
    let clean = |text: &mut String| {
        let redacted = redact(text, secrets);
        if redacted != *text {
            *text = redacted;
        }
    };
    for message in &mut trajectory.messages {
        for part in &mut message.content {
            if let ContentPart::Text { text } = part {
                clean(text);
            }
        }
        if let Some(reasoning) = &mut message.reasoning {
            clean(reasoning);
        }
        for call in &mut message.tool_calls {
            clean(&mut call.arguments);
        }
    }
    match &mut trajectory.outcome {
        super::Outcome::Scored { .. } => {}
        super::Outcome::Faulted { fault } => clean(&mut fault.message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shape_compiles() {
        assert_eq!(SHAPES.len(), 8);
    }

    #[test]
    fn known_values_go_wherever_they_stand() {
        assert_eq!(redact("key=abcdefgh, abcdefgh!", &["abcdefgh"]), "key=[redacted], [redacted]!");
        assert_eq!(redact("longsecret-tail longsecret", &["longsecret", "longsecret-tail"]), "[redacted] [redacted]");
        assert_eq!(redact(r#"{"k":"pass\"word\\1"}"#, &[r#"pass"word\1"#]), r#"{"k":"[redacted]"}"#);
    }

    #[test]
    fn stand_ins_for_a_key_are_no_secrets() {
        assert_eq!(redact("none of the local files", &["none", "local", ""]), "none of the local files");
    }

    #[test]
    fn keys_are_known_by_their_shape() {
        let cases = [
            ("Incorrect API key: sk-proj-abc123def456ghi789.", "Incorrect API key: [redacted]."),
            ("Authorization: Bearer abcdef0123456789abcdef", "Authorization: Bearer [redacted]"),
            ("x-api-key: 0123456789abcdef0123", "x-api-key: [redacted]"),
            (r#"{"api_key": "0123456789abcdef0123"}"#, r#"{"api_key": "[redacted]"}"#),
            ("AKIA0123456789ABCDEF", "[redacted]"),
        ];
        for (text, clean) in cases {
            assert_eq!(redact(text, &[]), clean);
        }
    }

    #[test]
    fn ordinary_text_stays() {
        for text in [
            "class sk-fading-circle-spinner",
            "task-0123456789abcdef01234567",
            "the bearer of this letter",
            "Bearer arrangements-were-made",
        ] {
            assert_eq!(redact(text, &[]), text);
        }
    }

    #[test]
    fn every_text_of_a_trajectory_is_redacted() {
        use super::super::{Boundary, Fault, Message, Outcome, Role, ToolCall};
        let hash = blake3::hash(b"any");
        let leak = "it is abcdefgh";
        let call = ToolCall { id: "c".to_owned(), name: "bash".to_owned(), arguments: leak.to_owned() };
        let message = Message { reasoning: Some(leak.to_owned()), tool_calls: vec![call], ..Message::text(Role::Assistant, leak) };
        let fault = Fault { boundary: Boundary::Provider, message: leak.to_owned() };
        let mut trajectory = Trajectory {
            harness: crate::harness::HarnessId::from_hash(&hash),
            model: "m".to_owned(),
            task: crate::task::TaskId::from_hash(&hash),
            seed: 0,
            tools: Vec::new(),
            messages: vec![message],
            usage: Vec::new(),
            outcome: Outcome::Faulted { fault },
        };
        redact_trajectory(&mut trajectory, &["abcdefgh"]);
        let json = serde_json::to_string(&trajectory).unwrap();
        assert!(!json.contains("abcdefgh"));
        assert_eq!(json.matches("it is [redacted]").count(), 4);
    }
}
