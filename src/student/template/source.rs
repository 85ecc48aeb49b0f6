//! Where templates are found: a model's folder, or the metadata of a GGUF file.

use std::collections::HashMap;
use std::path::Path;
use std::sync::LazyLock;

use candle_core::quantized::gguf_file;
use regex::Regex;
use serde_json::Value;

use super::{ChatTemplate, LONGEST_TEMPLATE, TemplateError};

/// Longest `tokenizer_config.json` that is read, in bytes.
const LONGEST_CONFIG: u64 = 8 * 1024 * 1024;

/// Tags with which training templates mark the assistant's text. Group 1 and 3 are the whitespace control, 2 says which tag it is.
static GENERATION: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"\{%([-+]?)\s*(generation|endgeneration)\s*([-+]?)%\}").ok());

/// `source` with `{% generation %}` blocks as blocks that do nothing, white space control kept.
pub(super) fn without_generation_tags(source: &str) -> String {
    let Some(tags) = GENERATION.as_ref() else { return source.to_owned() };
    tags.replace_all(source, |found: &regex::Captures<'_>| {
        let word = if &found[2] == "generation" { "if true" } else { "endif" };
        format!("{{%{} {word} {}%}}", &found[1], &found[3])
    })
    .into_owned()
}

impl ChatTemplate {
    /// From a model's folder: `chat_template.jinja`, or else the `chat_template` of `tokenizer_config.json`.
    ///
    /// # Errors
    /// When there is none or it cannot be used.
    pub fn from_folder(folder: &Path) -> Result<Self, TemplateError> {
        let config = match read(&folder.join("tokenizer_config.json"), LONGEST_CONFIG)? {
            Some(text) => serde_json::from_str(&text)
                .map_err(|error| TemplateError::Missing(format!("tokenizer_config.json is not JSON: {error}")))?,
            None => Value::Null,
        };
        let (bos, eos) = (token(&config, "bos_token"), token(&config, "eos_token"));
        if let Some(source) = read(&folder.join("chat_template.jinja"), LONGEST_TEMPLATE as u64)? {
            return Self::new(&source, &bos, &eos);
        }
        let source = match &config["chat_template"] {
            Value::String(source) => Some(source.as_str()),
            // Several, by name. The one for tools renders conversations without tools too.
            Value::Array(list) => ["tool_use", "default"]
                .iter()
                .find_map(|name| list.iter().find(|entry| entry["name"] == **name).and_then(|entry| entry["template"].as_str())),
            _ => None,
        };
        match source {
            Some(source) => Self::new(source, &bos, &eos),
            None => Err(TemplateError::Missing(format!(
                "{} has neither chat_template.jinja nor a chat_template in tokenizer_config.json",
                folder.display()
            ))),
        }
    }

    /// From the metadata of a GGUF file.
    ///
    /// # Errors
    /// When there is none or it cannot be used.
    pub fn from_gguf(metadata: &HashMap<String, gguf_file::Value>) -> Result<Self, TemplateError> {
        let source = metadata.get("tokenizer.chat_template").and_then(|value| value.to_string().ok());
        let source = source.ok_or_else(|| TemplateError::Missing("the GGUF metadata hold no `tokenizer.chat_template`".to_owned()))?;
        let tokens = metadata.get("tokenizer.ggml.tokens").and_then(|value| value.to_vec().ok());
        let token = |key: &str| -> String {
            let id = metadata.get(key).and_then(|value| value.to_u32().ok()).and_then(|id| usize::try_from(id).ok());
            let text = id.zip(tokens).and_then(|(id, tokens)| tokens.get(id)).and_then(|value| value.to_string().ok());
            text.cloned().unwrap_or_default()
        };
        Self::new(source, &token("tokenizer.ggml.bos_token_id"), &token("tokenizer.ggml.eos_token_id"))
    }
}

/// A file's text; `None` when there is no such file.
fn read(path: &Path, most: u64) -> Result<Option<String>, TemplateError> {
    let failed = |source| TemplateError::Io { path: path.to_owned(), source };
    match std::fs::metadata(path) {
        Ok(file) if file.len() > most => Err(failed(std::io::Error::other(format!("{} bytes; at most {most} are read", file.len())))),
        Ok(_) => std::fs::read_to_string(path).map(Some).map_err(failed),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed(error)),
    }
}

/// A token as configurations write it: its text, or an object with it.
fn token(config: &Value, key: &str) -> String {
    let token = &config[key];
    token.as_str().or_else(|| token["content"].as_str()).unwrap_or_default().to_owned()
}
