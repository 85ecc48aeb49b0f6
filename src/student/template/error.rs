//! What can be wrong with a chat template.

use std::path::PathBuf;

/// A template that cannot be used, or a conversation it does not render.
#[derive(Debug, thiserror::Error)]
pub enum TemplateError {
    /// A file cannot be read.
    #[error("the chat template {path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The folder or file has no template.
    #[error("no chat template: {0}")]
    Missing(String),
    /// The template is too long.
    #[error("the chat template is {bytes} bytes long; at most {most} are read")]
    TooLong {
        /// Its length.
        bytes: usize,
        /// The limit.
        most: usize,
    },
    /// Not Jinja.
    #[error("the chat template is not valid: {0}")]
    Syntax(String),
    /// The rendering failed.
    #[error("the chat template does not render the conversation: {0}")]
    Render(String),
}

impl TemplateError {
    #[expect(clippy::needless_pass_by_value, reason = "for use with `map_err`")]
    pub(super) fn syntax(error: minijinja::Error) -> Self {
        Self::Syntax(error.to_string())
    }

    pub(super) fn render(error: &minijinja::Error) -> Self {
        let mut text = error.to_string();
        let mut source = std::error::Error::source(error);
        while let Some(cause) = source {
            text.push_str(": ");
            text.push_str(&cause.to_string());
            source = cause.source();
        }
        Self::Render(text)
    }
}
