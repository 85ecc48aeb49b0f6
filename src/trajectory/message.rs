//! Messages as models exchange them, independent of any provider's wire format.

use serde::{Deserialize, Serialize};

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The harness, before the conversation.
    System,
    /// The task, or the harness during the conversation.
    User,
    /// The model.
    Assistant,
    /// The result of a tool call.
    Tool,
}

/// A part of a message's content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ContentPart {
    /// Text.
    Text {
        /// The text.
        text: String,
    },
    /// A picture, kept as a blob.
    Image {
        /// Hash of the blob (hex).
        blob: String,
        /// For example `image/png`.
        media_type: String,
    },
}

/// One message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// What is said.
    pub content: Vec<ContentPart>,
    /// What the model thought, where the endpoint tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<String>,
    /// The calls an assistant makes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// Which call a tool message answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
}

impl Message {
    /// A message of one text.
    #[must_use]
    pub fn text(role: Role, text: impl Into<String>) -> Self {
        Self { role, content: vec![ContentPart::Text { text: text.into() }], reasoning: None, tool_calls: Vec::new(), tool_call_id: None }
    }

    /// The result of the call `id`.
    #[must_use]
    pub fn tool_result(id: &str, text: impl Into<String>) -> Self {
        Self { tool_call_id: Some(id.to_owned()), ..Self::text(Role::Tool, text) }
    }

    /// All text parts, joined by line breaks.
    #[must_use]
    pub fn joined_text(&self) -> String {
        let texts: Vec<&str> = self
            .content
            .iter()
            .filter_map(|part| match part {
                ContentPart::Text { text } => Some(text.as_str()),
                ContentPart::Image { .. } => None,
            })
            .collect();
        texts.join("\n")
    }
}

/// A tool call. `arguments` is the text the model wrote: it need not be JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Names the call within the episode.
    pub id: String,
    /// The tool.
    pub name: String,
    /// JSON, as the model wrote it.
    pub arguments: String,
}

/// A tool as it is offered to a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolSchema {
    /// Its name.
    pub name: String,
    /// What it does.
    pub description: String,
    /// JSON schema of its arguments.
    pub parameters: serde_json::Value,
}

/// Tokens of one reply, as the endpoint counts them (estimated where it does not).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens of the request.
    pub prompt_tokens: u64,
    /// Tokens of the reply.
    pub completion_tokens: u64,
    /// Tokens of the request that were cached.
    #[serde(default)]
    pub cached_tokens: u64,
}

impl Usage {
    /// Prompt and completion.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.prompt_tokens + self.completion_tokens
    }

    /// Sum.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            prompt_tokens: self.prompt_tokens + other.prompt_tokens,
            completion_tokens: self.completion_tokens + other.completion_tokens,
            cached_tokens: self.cached_tokens + other.cached_tokens,
        }
    }
}
