//! What a template sees: messages and tools as `transformers` hands them over.

use std::sync::Arc;

use minijinja::Value;
use minijinja::value::{Enumerator, Object};
use serde_json::Value as Json;

use super::protect::Protection;
use super::{ArgumentsForm, ChatTemplate, GenerationPrompt};
use crate::student::Trust;
use crate::trajectory::{ContentPart, Message, Role, ToolCall, ToolSchema};

/// Keys of a JSON schema in the order in which schemas are usually written; all others follow by name.
const USUAL_ORDER: [&str; 5] = ["type", "description", "enum", "properties", "required"];

/// A mapping that keeps its order.
#[derive(Debug)]
pub(super) struct Fields(pub(super) Vec<(String, Value)>);

impl Object for Fields {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        let key = key.as_str()?;
        self.0.iter().find(|(name, _)| name == key).map(|(_, value)| value.clone())
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Values(self.0.iter().map(|(name, _)| Value::from(name.as_str())).collect())
    }
}

fn fields<const N: usize>(fields: [(&str, Value); N]) -> Value {
    Value::from_object(Fields(fields.map(|(name, value)| (name.to_owned(), value)).into()))
}

/// A conversation as the template sees it, made once for renderings of any number of its messages.
#[derive(Debug)]
pub(in crate::student) struct Conversation {
    messages: Vec<Value>,
    tools: Value,
}

impl Conversation {
    pub(super) fn new(template: &ChatTemplate, messages: &[Message], tools: &[ToolSchema], protection: &Protection<'_>) -> Self {
        let view = View { protection, arguments: template.arguments };
        Self {
            messages: messages.iter().enumerate().map(|(index, message)| view.message(message, &messages[..index])).collect(),
            tools: if tools.is_empty() { Value::from(()) } else { tools.iter().map(|schema| view.tool(schema)).collect() },
        }
    }

    /// What a rendering of the first `count` messages is given.
    pub(super) fn context(&self, template: &ChatTemplate, count: usize, prompt: GenerationPrompt) -> Value {
        fields([
            ("messages", self.messages.iter().take(count).cloned().collect()),
            ("tools", self.tools.clone()),
            ("documents", Value::from(())),
            ("add_generation_prompt", Value::from(prompt == GenerationPrompt::Added)),
            ("bos_token", Value::from(template.bos.as_str())),
            ("eos_token", Value::from(template.eos.as_str())),
        ])
    }
}

/// How texts and calls are shown.
pub(super) struct View<'a> {
    protection: &'a Protection<'a>,
    arguments: ArgumentsForm,
}

impl View<'_> {
    pub(super) fn text(&self, text: &str, trust: Trust) -> Value {
        Value::from(&*self.protection.protect(text, trust))
    }

    pub(super) fn key(&self, key: &str) -> String {
        self.protection.protect(key, Trust::Plain).into_owned()
    }

    fn message(&self, message: &Message, before: &[Message]) -> Value {
        let trust = if message.role == Role::Assistant { Trust::Assistant } else { Trust::Plain };
        let role = match message.role {
            Role::System => "system",
            Role::User => "user",
            Role::Assistant => "assistant",
            Role::Tool => "tool",
        };
        let mut all = vec![("role".to_owned(), Value::from(role)), ("content".to_owned(), self.content(message, trust))];
        if let Some(reasoning) = &message.reasoning {
            all.push(("reasoning_content".to_owned(), self.text(reasoning, trust)));
        }
        if !message.tool_calls.is_empty() {
            all.push(("tool_calls".to_owned(), message.tool_calls.iter().map(|call| self.call(call)).collect()));
        }
        if let Some(id) = &message.tool_call_id {
            all.push(("tool_call_id".to_owned(), self.text(id, Trust::Plain)));
            let called = before.iter().rev().flat_map(|message| &message.tool_calls).find(|call| call.id == *id);
            if let Some(call) = called {
                all.push(("name".to_owned(), self.text(&call.name, Trust::Plain)));
            }
        }
        Value::from_object(Fields(all))
    }

    /// One text where there are only texts, otherwise the parts.
    fn content(&self, message: &Message, trust: Trust) -> Value {
        if message.content.iter().all(|part| matches!(part, ContentPart::Text { .. })) {
            return self.text(&message.joined_text(), trust);
        }
        let part = |part: &ContentPart| match part {
            ContentPart::Text { text } => fields([("type", Value::from("text")), ("text", self.text(text, trust))]),
            ContentPart::Image { .. } => fields([("type", Value::from("image"))]),
        };
        message.content.iter().map(part).collect()
    }

    fn call(&self, call: &ToolCall) -> Value {
        let object = match self.arguments {
            ArgumentsForm::Value => super::ordered::object(self, &call.arguments),
            ArgumentsForm::Text => None,
        };
        let arguments = object.unwrap_or_else(|| self.text(&call.arguments, Trust::Plain));
        let function = fields([("name", self.text(&call.name, Trust::Plain)), ("arguments", arguments)]);
        fields([("id", self.text(&call.id, Trust::Plain)), ("type", Value::from("function")), ("function", function)])
    }

    fn tool(&self, tool: &ToolSchema) -> Value {
        let function = fields([
            ("name", self.text(&tool.name, Trust::Plain)),
            ("description", self.text(&tool.description, Trust::Plain)),
            ("parameters", self.json(&tool.parameters)),
        ]);
        fields([("type", Value::from("function")), ("function", function)])
    }

    /// A JSON schema; its usual keys come first, the others follow sorted, however the parser kept them.
    fn json(&self, value: &Json) -> Value {
        match value {
            Json::Null => Value::from(()),
            Json::Bool(flag) => Value::from(*flag),
            Json::Number(number) => match (number.as_i64(), number.as_u64()) {
                (Some(integer), _) => Value::from(integer),
                (None, Some(integer)) => Value::from(integer),
                (None, None) => number.as_f64().map_or_else(|| Value::from(()), Value::from),
            },
            Json::String(text) => self.text(text, Trust::Plain),
            Json::Array(items) => items.iter().map(|item| self.json(item)).collect(),
            Json::Object(map) => {
                let mut entries: Vec<_> = map.iter().collect();
                let rank = |key: &str| USUAL_ORDER.iter().position(|name| *name == key).unwrap_or(USUAL_ORDER.len());
                entries.sort_by(|a, b| rank(a.0).cmp(&rank(b.0)).then_with(|| a.0.cmp(b.0)));
                let entry = |(key, item): (&String, &Json)| (self.key(key), self.json(item));
                Value::from_object(Fields(entries.into_iter().map(entry).collect()))
            }
        }
    }
}
