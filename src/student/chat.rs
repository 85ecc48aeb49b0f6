//! Messages to token ids: one way for training and for use, so that what the student learns on is what it sees.
//!
//! A conversation is rendered by the model's template and cut where each of the assistant's replies began when it was asked for: at the
//! end of the rendering of the messages before, with the generation prompt. Every part is encoded on its own, because a model's reply
//! is tokens of its own too. Control tokens come from the template alone: see [`Trust`].

use std::ops::Range;

use super::template::{Conversation, Protection};
use super::{ChatTemplate, GenerationPrompt, StudentTokenizer, TemplateError, TokenizerError, Trust};
use crate::trajectory::{ContentPart, Message, Role, ToolCall, ToolSchema};

/// The writing of an image placeholder in the vocabularies that have one.
const IMAGE_PAD: &str = "<|image_pad|>";

/// A conversation that cannot be encoded.
#[derive(Debug, thiserror::Error)]
pub enum CodecError {
    /// The template failed.
    #[error(transparent)]
    Template(#[from] TemplateError),
    /// The tokenizer failed.
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),
    /// The template decides by something in a text that had to be protected.
    #[error("a text holds the writing of a special token, and the chat template reads it: the conversation cannot be encoded safely")]
    Unsafe,
    /// Every character that could mark a text is in use.
    #[error("the conversation uses every character of the private plane: it cannot be encoded safely")]
    NoMark,
    /// The ids do not decode to the rendering.
    #[error("the token ids decode to another text than the rendered conversation")]
    NotInverse,
    /// A reply does not follow its prompt in the rendering.
    #[error("the chat template does not append: message {0} does not follow the prompt it answers")]
    NotAppended(usize),
    /// The template does not show calls or tools.
    #[error("the chat template does not show tool calls: use a harness whose calls are written as text")]
    NoCalls,
    /// No control token ends a reply.
    #[error("the chat template ends no reply with a control token of the vocabulary")]
    NoEnd,
    /// The template shows another number of pictures than there are.
    #[error("the conversation has {pictures} pictures, the rendering {placeholders} placeholders")]
    Pictures {
        /// In the messages.
        pictures: usize,
        /// In the rendering.
        placeholders: usize,
    },
}

/// A request as token ids.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncodedPrompt {
    /// The rendered text.
    pub text: String,
    /// Its ids.
    pub ids: Vec<u32>,
}

/// A conversation as token ids.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncodedChat {
    /// The ids.
    pub ids: Vec<u32>,
    /// The tokens of each of the assistant's replies, in order, with the token that ends it.
    pub replies: Vec<Range<usize>>,
}

/// A tokenizer and a chat template that fit each other.
#[derive(Debug)]
pub struct ChatCodec {
    tokenizer: StudentTokenizer,
    template: ChatTemplate,
    end_of_turn: u32,
    calls: CallsShown,
}

/// Whether a template shows calls and tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CallsShown {
    Yes,
    No,
}

impl ChatCodec {
    /// Finds the token that ends a reply.
    ///
    /// # Errors
    /// When the template ends a reply with none.
    pub fn new(tokenizer: StudentTokenizer, template: ChatTemplate) -> Result<Self, CodecError> {
        let mut codec = Self { tokenizer, template, end_of_turn: 0, calls: CallsShown::Yes };
        let probe = [Message::text(Role::User, "a"), Message::text(Role::Assistant, "b")];
        let chat = codec.replies(&probe, &[])?;
        let end = chat.replies.first().and_then(|reply| chat.ids[..reply.end].last());
        codec.end_of_turn = *end.ok_or(CodecError::NoEnd)?;
        codec.calls = codec.probe_calls();
        Ok(codec)
    }

    /// Renders a call, its result and a tool, and looks for all three.
    fn probe_calls(&self) -> CallsShown {
        let call = ToolCall { id: "probeident".to_owned(), name: "probename".to_owned(), arguments: r#"{"probekey": 1}"#.to_owned() };
        let messages = [
            Message::text(Role::User, "a"),
            Message { tool_calls: vec![call], ..Message::text(Role::Assistant, "b") },
            Message::tool_result("probeident", "proberesult"),
        ];
        let tool = ToolSchema {
            name: "probetool".to_owned(),
            description: "probed".to_owned(),
            parameters: serde_json::json!({"type": "object", "properties": {}}),
        };
        let shown = self.template.render(&messages, &[tool], GenerationPrompt::Added);
        let all = ["probename", "probekey", "proberesult", "probetool"];
        if shown.is_ok_and(|text| all.iter().all(|probe| text.contains(probe))) { CallsShown::Yes } else { CallsShown::No }
    }

    fn check_calls(&self, messages: &[Message], tools: &[ToolSchema]) -> Result<(), CodecError> {
        let any = !tools.is_empty() || messages.iter().any(|message| !message.tool_calls.is_empty());
        if any && self.calls == CallsShown::No { Err(CodecError::NoCalls) } else { Ok(()) }
    }

    /// The tokenizer.
    #[must_use]
    pub const fn tokenizer(&self) -> &StudentTokenizer {
        &self.tokenizer
    }

    /// The template.
    #[must_use]
    pub const fn template(&self) -> &ChatTemplate {
        &self.template
    }

    /// The token that ends a reply.
    #[must_use]
    pub const fn end_of_turn(&self) -> u32 {
        self.end_of_turn
    }

    /// The request for a reply to `messages`.
    ///
    /// # Errors
    /// See [`CodecError`].
    pub fn prompt(&self, messages: &[Message], tools: &[ToolSchema]) -> Result<EncodedPrompt, CodecError> {
        let rendering = Rendering::new(self, messages, tools)?;
        let layout = rendering.layout(messages.len(), GenerationPrompt::Added, Replies::WhereFound)?;
        let (ids, _) = rendering.encode(&layout)?;
        self.check_pictures(messages, &ids)?;
        Ok(EncodedPrompt { text: rendering.protection.plain(&layout.text).into_owned(), ids })
    }

    /// A request and the reply to it: the ids before the reply are those of [`Self::prompt`].
    ///
    /// # Errors
    /// See [`CodecError`].
    pub fn exchange(&self, messages: &[Message], tools: &[ToolSchema], reply: &Message) -> Result<EncodedChat, CodecError> {
        let mut all = messages.to_vec();
        all.push(reply.clone());
        let rendering = Rendering::new(self, &all, tools)?;
        let before = rendering.layout(messages.len(), GenerationPrompt::Added, Replies::WhereFound)?;
        let written = rendering.reply(messages.len(), &before.text)?;
        let (mut ids, _) = rendering.encode(&before)?;
        let start = ids.len();
        rendering.encode_part(&written, &mut ids)?;
        self.check_pictures(&all, &ids)?;
        let reply = start..ids.len();
        Ok(EncodedChat { ids, replies: vec![reply] })
    }

    /// A conversation with all replies of the assistant. The text behind the last one is left out.
    ///
    /// # Errors
    /// As [`CodecError`]; [`CodecError::NotAppended`] when a request was not the beginning of the next.
    pub fn replies(&self, messages: &[Message], tools: &[ToolSchema]) -> Result<EncodedChat, CodecError> {
        let last = messages.iter().rposition(|message| message.role == Role::Assistant);
        let messages = &messages[..last.map_or(messages.len(), |last| last + 1)];
        let rendering = Rendering::new(self, messages, tools)?;
        let mut layout = rendering.layout(messages.len(), GenerationPrompt::Absent, Replies::All)?;
        if let Some(end) = layout.replies.last().map(|reply| reply.end) {
            layout.text.truncate(end);
        }
        let (ids, replies) = rendering.encode(&layout)?;
        self.check_pictures(messages, &ids)?;
        Ok(EncodedChat { ids, replies })
    }

    /// Every picture has one placeholder, and none came from a text.
    fn check_pictures(&self, messages: &[Message], ids: &[u32]) -> Result<(), CodecError> {
        let is_image = |part: &&ContentPart| matches!(part, ContentPart::Image { .. });
        let pictures = messages.iter().flat_map(|message| &message.content).filter(is_image).count();
        let pad = self.tokenizer.added_id(IMAGE_PAD);
        let placeholders = ids.iter().filter(|id| Some(**id) == pad).count();
        if pictures == placeholders { Ok(()) } else { Err(CodecError::Pictures { pictures, placeholders }) }
    }
}

/// Which replies a layout must find.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Replies {
    /// All of them.
    All,
    /// Those that follow their prompt: a template may show old replies otherwise.
    WhereFound,
}

/// A rendering with the places of the replies, in bytes.
struct Layout {
    text: String,
    replies: Vec<Range<usize>>,
}

/// Renderings of one conversation under one protection.
struct Rendering<'a> {
    codec: &'a ChatCodec,
    messages: &'a [Message],
    protection: Protection<'a>,
    /// With marks, and without.
    marked: Conversation,
    plain: Conversation,
}

impl<'a> Rendering<'a> {
    fn new(codec: &'a ChatCodec, messages: &'a [Message], tools: &'a [ToolSchema]) -> Result<Self, CodecError> {
        codec.check_calls(messages, tools)?;
        let protection = Protection::of(&codec.tokenizer, codec.template.source(), messages, tools).ok_or(CodecError::NoMark)?;
        let marked = codec.template.conversation(messages, tools, &protection);
        let plain = codec.template.conversation(messages, tools, &Protection::none());
        Ok(Self { codec, messages, protection, marked, plain })
    }

    /// The first `count` messages, with marks.
    fn render(&self, count: usize, prompt: GenerationPrompt) -> Result<String, CodecError> {
        let template = &self.codec.template;
        let marked = template.render_first(&self.marked, count, prompt)?;
        // Marks are rare; without one the rendering is the plain one.
        if self.protection.mark().is_some_and(|mark| marked.contains(mark))
            && self.protection.plain(&marked) != template.render_first(&self.plain, count, prompt)?
        {
            return Err(CodecError::Unsafe);
        }
        Ok(marked)
    }

    fn layout(&self, count: usize, prompt: GenerationPrompt, which: Replies) -> Result<Layout, CodecError> {
        let text = self.render(count, prompt)?;
        let mut replies = Vec::new();
        for (index, message) in self.messages[..count].iter().enumerate() {
            if message.role != Role::Assistant {
                continue;
            }
            match self.reply_in(index, &text) {
                Ok(reply) => replies.push(reply),
                Err(CodecError::NotAppended(_) | CodecError::Template(_)) if which == Replies::WhereFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Layout { text, replies })
    }

    /// Where the reply `index` stands in the rendering `text`.
    fn reply_in(&self, index: usize, text: &str) -> Result<Range<usize>, CodecError> {
        let before = self.render(index, GenerationPrompt::Added)?;
        let reply = self.reply(index, &before)?;
        let end = before.len() + reply.len();
        if text.get(before.len()..end) == Some(reply.as_str()) && text.starts_with(&before) {
            Ok(before.len()..end)
        } else {
            Err(CodecError::NotAppended(index))
        }
    }

    /// What follows the prompt `before` in the rendering that ends with the reply `index`, up to the last control token.
    fn reply(&self, index: usize, before: &str) -> Result<String, CodecError> {
        let with_reply = self.render(index + 1, GenerationPrompt::Absent)?;
        let Some(reply) = with_reply.strip_prefix(before) else { return Err(CodecError::NotAppended(index)) };
        let (mut at, mut end) = (0, None);
        for (plain, token) in self.codec.tokenizer.pieces(reply, Trust::Template) {
            at += plain.len() + token.map_or(0, |token| token.text.len());
            if token.is_some_and(|token| token.control) {
                end = Some(at);
            }
        }
        end.map(|end| reply[..end].to_owned()).ok_or(CodecError::NoEnd)
    }

    /// The ids of a layout and the tokens of its replies.
    fn encode(&self, layout: &Layout) -> Result<(Vec<u32>, Vec<Range<usize>>), CodecError> {
        let (mut ids, mut replies, mut done) = (Vec::new(), Vec::new(), 0);
        for reply in &layout.replies {
            self.encode_part(&layout.text[done..reply.start], &mut ids)?;
            let start = ids.len();
            self.encode_part(&layout.text[reply.clone()], &mut ids)?;
            replies.push(start..ids.len());
            done = reply.end;
        }
        self.encode_part(&layout.text[done..], &mut ids)?;
        Ok((ids, replies))
    }

    /// Appends the ids of a part of a marked rendering.
    fn encode_part(&self, part: &str, ids: &mut Vec<u32>) -> Result<(), CodecError> {
        let tokenizer = &self.codec.tokenizer;
        for (plain, token) in tokenizer.pieces(part, Trust::Template) {
            let plain = self.protection.plain(plain);
            let start = ids.len();
            tokenizer.encode_plain(&plain, ids)?;
            let bytes = ids[start..].iter().flat_map(|id| tokenizer.bytes_of(*id));
            if !bytes.eq(plain.as_bytes()) && tokenizer.decode(&ids[start..]) != tokenizer.normalised(&plain)? {
                return Err(CodecError::NotInverse);
            }
            ids.extend(token.map(|token| token.id));
        }
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests;
