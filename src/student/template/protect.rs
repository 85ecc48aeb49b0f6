//! Keeps text from becoming tokens. Where a text holds the writing of an added token, a mark is put inside it: a character that
//! stands nowhere in the conversation or the template. What the rendering then holds of added tokens was written by the template;
//! the marks are removed again before the text is encoded, and without added tokens.

use std::borrow::Cow;
use std::collections::HashSet;

use crate::student::{StudentTokenizer, Trust};
use crate::trajectory::{ContentPart, Message, ToolSchema};

/// Marks are taken from here: a plane for private use, 65,534 characters.
const MARKS: std::ops::RangeInclusive<u32> = 0xF_0000..=0xF_FFFD;

/// How texts are protected.
#[derive(Debug)]
pub(in crate::student) struct Protection<'t> {
    mark: Option<char>,
    /// Texts of all added tokens, and of those that an assistant may not write.
    all: Vec<&'t str>,
    control: Vec<&'t str>,
}

impl<'t> Protection<'t> {
    /// Nothing is protected.
    pub(in crate::student) const fn none() -> Self {
        Self { mark: None, all: Vec::new(), control: Vec::new() }
    }

    /// A mark for this conversation. `None` when every character that could be one is used in it.
    pub(in crate::student) fn of(
        tokenizer: &'t StudentTokenizer,
        template: &str,
        messages: &[Message],
        tools: &[ToolSchema],
    ) -> Option<Self> {
        let mut used = HashSet::new();
        let mut note = |text: &str| used.extend(text.chars().filter(|c| MARKS.contains(&u32::from(*c))));
        note(template);
        for message in messages {
            for part in &message.content {
                if let ContentPart::Text { text } = part {
                    note(text);
                }
            }
            note(message.reasoning.as_deref().unwrap_or_default());
            note(message.tool_call_id.as_deref().unwrap_or_default());
            for call in &message.tool_calls {
                for text in [&call.id, &call.name, &call.arguments] {
                    note(text);
                }
                // A JSON string may write the character as an escape.
                if let Ok(arguments) = serde_json::from_str::<serde_json::Value>(&call.arguments) {
                    note(&arguments.to_string());
                }
            }
        }
        for tool in tools {
            note(&tool.name);
            note(&tool.description);
            note(&tool.parameters.to_string());
        }
        let mark = MARKS.filter_map(char::from_u32).find(|c| !used.contains(c))?;
        // A token of one character cannot be broken; no vocabulary has one that steers anything.
        let texts = |control_only: bool| {
            let fits = move |token: &&crate::student::AddedToken| token.text.chars().nth(1).is_some() && (token.control || !control_only);
            tokenizer.added().iter().filter(fits).map(|token| token.text.as_str()).collect()
        };
        Some(Self { mark: Some(mark), all: texts(false), control: texts(true) })
    }

    /// The mark.
    pub(in crate::student) const fn mark(&self) -> Option<char> {
        self.mark
    }

    /// `text` with marks where it could become a token, alone or with what the template or another text puts around it.
    pub(super) fn protect<'s>(&self, text: &'s str, trust: Trust) -> Cow<'s, str> {
        let tokens = match trust {
            Trust::Plain => &self.all,
            Trust::Assistant => &self.control,
            Trust::Template => return Cow::Borrowed(text),
        };
        let Some(mark) = self.mark else { return Cow::Borrowed(text) };
        if text.is_empty() || tokens.is_empty() {
            return Cow::Borrowed(text);
        }
        let before = tokens.iter().any(|token| starts_with_end_of(text, token));
        let after = tokens.iter().any(|token| token.contains(text) || ends_with_start_of(text, token));
        let inside: Vec<usize> = places(text, tokens);
        if !before && !after && inside.is_empty() {
            return Cow::Borrowed(text);
        }
        let mut marked = String::with_capacity(text.len() + mark.len_utf8() * (inside.len() + 2));
        if before {
            marked.push(mark);
        }
        let mut done = 0;
        for place in inside {
            marked.push_str(&text[done..place]);
            marked.push(mark);
            done = place;
        }
        marked.push_str(&text[done..]);
        if after {
            marked.push(mark);
        }
        Cow::Owned(marked)
    }

    /// `text` without the marks.
    pub(in crate::student) fn plain<'s>(&self, text: &'s str) -> Cow<'s, str> {
        match self.mark {
            Some(mark) if text.contains(mark) => Cow::Owned(text.replace(mark, "")),
            _ => Cow::Borrowed(text),
        }
    }
}

/// Behind the first character of every token in `text`.
fn places(text: &str, tokens: &[&str]) -> Vec<usize> {
    let firsts: Vec<char> = tokens.iter().filter_map(|token| token.chars().next()).collect();
    text.match_indices(firsts.as_slice())
        .filter(|(at, _)| tokens.iter().any(|token| text[*at..].starts_with(token)))
        .map(|(at, first)| at + first.len())
        .collect()
}

/// Whether a proper beginning of `token` ends `text`.
fn ends_with_start_of(text: &str, token: &str) -> bool {
    token.char_indices().skip(1).any(|(end, _)| text.ends_with(&token[..end]))
}

/// Whether a proper end of `token` begins `text`.
fn starts_with_end_of(text: &str, token: &str) -> bool {
    token.char_indices().skip(1).any(|(start, _)| text.starts_with(&token[start..]))
}
