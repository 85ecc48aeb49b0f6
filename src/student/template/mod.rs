//! A model's own chat template, rendered as `transformers` renders it: Jinja with trimmed blocks, `tojson` in Python's form, Python's
//! string methods, `raise_exception`, and a `strftime_now` that always tells the same day.
//!
//! Templates come with weights and are not trusted: steps, recursion and output are bounded, and none reads a file.

mod builtin;
mod error;
mod json;
mod ordered;
mod protect;
mod source;
mod values;

use std::io::Write;

use minijinja::syntax::SyntaxConfig;
use minijinja::{AutoEscape, Environment, Error, ErrorKind, UndefinedBehavior, Value};

pub use builtin::NANO_TEMPLATE;
pub use error::TemplateError;
pub(super) use protect::Protection;
pub(super) use values::Conversation;

use crate::trajectory::{Message, ToolSchema};

/// Steps of one rendering. A conversation of 400 messages takes about 40,000.
const MOST_STEPS: u64 = 20_000_000;
/// Longest rendered conversation in bytes.
const LONGEST_RENDER: usize = 64 * 1024 * 1024;
/// Longest template in bytes. The longest in use are about 20 kB.
const LONGEST_TEMPLATE: usize = 1024 * 1024;
/// Depth of nested blocks, macros and JSON.
const DEEPEST: usize = 64;
/// The day that `strftime_now` tells: the same in training and in use.
const TODAY: jiff::civil::DateTime = jiff::civil::datetime(2026, 1, 1, 12, 0, 0, 0);

const NAME: &str = "chat template";

/// Whether the rendering ends where the model's next reply begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GenerationPrompt {
    /// With what stands before a reply.
    Added,
    /// The messages alone.
    Absent,
}

/// How calls are given to the template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ArgumentsForm {
    /// As the text they are, which the template shows unchanged.
    Text,
    /// As a value, which the template writes as JSON.
    Value,
}

/// A chat template with the texts of the tokens it may name.
#[derive(Debug)]
pub struct ChatTemplate {
    source: String,
    environment: Environment<'static>,
    bos: String,
    eos: String,
    arguments: ArgumentsForm,
}

impl ChatTemplate {
    /// Checks and compiles a template. `bos` and `eos` are what `bos_token` and `eos_token` stand for; empty for none.
    ///
    /// # Errors
    /// When it is too long or not Jinja.
    pub fn new(source: &str, bos: &str, eos: &str) -> Result<Self, TemplateError> {
        if source.len() > LONGEST_TEMPLATE {
            return Err(TemplateError::TooLong { bytes: source.len(), most: LONGEST_TEMPLATE });
        }
        let mut environment = environment()?;
        environment.add_template_owned(NAME, source::without_generation_tags(source)).map_err(TemplateError::syntax)?;
        // Templates that ask for text show it unchanged; others would quote it.
        let arguments = if source.contains("arguments is string") { ArgumentsForm::Text } else { ArgumentsForm::Value };
        Ok(Self { source: source.to_owned(), environment, bos: bos.to_owned(), eos: eos.to_owned(), arguments })
    }

    /// The built-in template of students that have none of their own.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn nano() -> Result<Self, TemplateError> {
        Self::new(NANO_TEMPLATE, "", "<|im_end|>")
    }

    /// The template as it was given.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The text of the token that begins a sequence; empty for none.
    #[must_use]
    pub fn bos(&self) -> &str {
        &self.bos
    }

    /// The text of the token that ends a sequence.
    #[must_use]
    pub fn eos(&self) -> &str {
        &self.eos
    }

    /// Renders a conversation.
    ///
    /// # Errors
    /// When the template refuses the conversation or exceeds its bounds.
    pub fn render(&self, messages: &[Message], tools: &[ToolSchema], prompt: GenerationPrompt) -> Result<String, TemplateError> {
        self.render_first(&self.conversation(messages, tools, &Protection::none()), messages.len(), prompt)
    }

    /// A conversation to be rendered, with marks in the texts that could be taken for tokens.
    pub(super) fn conversation(&self, messages: &[Message], tools: &[ToolSchema], protection: &Protection<'_>) -> Conversation {
        Conversation::new(self, messages, tools, protection)
    }

    /// Renders the first `count` messages of a conversation.
    ///
    /// # Errors
    /// As [`Self::render`].
    pub(super) fn render_first(
        &self,
        conversation: &Conversation,
        count: usize,
        prompt: GenerationPrompt,
    ) -> Result<String, TemplateError> {
        let context = conversation.context(self, count, prompt);
        let template = self.environment.get_template(NAME).map_err(TemplateError::syntax)?;
        let mut output = Bounded { bytes: Vec::new() };
        template.render_captured_to(context, &mut output).map_err(|error| TemplateError::render(&error))?;
        // The engine writes text only.
        String::from_utf8(output.bytes).map_err(|_| TemplateError::Render("the output is not UTF-8".to_owned()))
    }
}

fn environment() -> Result<Environment<'static>, TemplateError> {
    let mut environment = Environment::new();
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build().map_err(TemplateError::syntax)?;
    environment.set_syntax(syntax);
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment.set_undefined_behavior(UndefinedBehavior::Lenient);
    environment.set_fuel(Some(MOST_STEPS));
    environment.set_recursion_limit(DEEPEST);
    environment.set_debug(false);
    environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
    environment.add_filter("tojson", json::tojson);
    environment.add_function("raise_exception", |message: String| -> Result<Value, Error> {
        Err(Error::new(ErrorKind::InvalidOperation, format!("the template refuses the conversation: {message}")))
    });
    environment.add_function("strftime_now", |format: String| -> Result<String, Error> {
        jiff::fmt::strtime::format(&format, TODAY).map_err(|error| Error::new(ErrorKind::InvalidOperation, error.to_string()))
    });
    Ok(environment)
}

/// Takes up to [`LONGEST_RENDER`] bytes.
struct Bounded {
    bytes: Vec<u8>,
}

impl Write for &mut Bounded {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.bytes.len() + bytes.len() > LONGEST_RENDER {
            return Err(std::io::Error::other(format!("the rendered conversation is longer than {LONGEST_RENDER} bytes")));
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests;
