//! Where in a TOML file something stands: errors of every reader name the line, the key and the nearest valid key.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Longest message kept, in bytes: serde lists every key it knows.
const MESSAGE_BYTES: usize = 600;

/// A place in a TOML text and what is wrong there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TomlPlace {
    /// The line, from 1.
    pub line: usize,
    /// The key, as a path.
    pub key: Option<String>,
    /// What is wrong, and where there is one the nearest valid key.
    pub message: String,
}

impl std::fmt::Display for TomlPlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: ", self.line)?;
        if let Some(key) = &self.key {
            write!(f, "`{key}`: ")?;
        }
        f.write_str(&self.message)
    }
}

impl TomlPlace {
    /// Where `text` is not what was expected.
    #[must_use]
    pub fn of_error(text: &str, error: &toml::de::Error) -> Self {
        let span = error.span().unwrap_or(0..0);
        let key = DeTable::parse(text).ok().and_then(|document| key_at(document.get_ref(), &span));
        let mut message = error.message().trim_end().to_owned();
        if message.len() > MESSAGE_BYTES {
            let cut = (0..=MESSAGE_BYTES).rev().find(|index| message.is_char_boundary(*index)).unwrap_or(0);
            message.truncate(cut);
            message.push_str(" ...");
        }
        if let Some(nearest) = nearest_key(error.message()) {
            message = format!("{message}; did you mean `{nearest}`?");
        }
        Self { line: line_of(text, span.start), key, message }
    }

    /// Where the key path `key` stands in `text`, or the deepest part of it that is written, with `message` for what is wrong.
    #[must_use]
    pub fn of_key(text: &str, key: &str, message: String) -> Self {
        let start = DeTable::parse(text).ok().and_then(|document| span_of(document.get_ref(), key)).map_or(0, |span| span.start);
        Self { line: line_of(text, start), key: Some(key.to_owned()), message }
    }
}

fn line_of(text: &str, offset: usize) -> usize {
    text.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1
}

/// Of the keys that serde's message about an unknown one offers, the one most like it.
fn nearest_key(message: &str) -> Option<&str> {
    let (unknown, offered) =
        message.strip_prefix("unknown field `").or_else(|| message.strip_prefix("unknown variant `"))?.split_once('`')?;
    let offered = offered.split('`').skip(1).step_by(2);
    let scored = offered.map(|key| (key, strsim::damerau_levenshtein(unknown, key)));
    scored.min_by_key(|(_, distance)| *distance).filter(|(key, distance)| *distance <= key.len().div_ceil(2)).map(|(key, _)| key)
}

/// The path of the innermost key whose key or value holds `span`.
fn key_at(table: &DeTable<'_>, span: &Range<usize>) -> Option<String> {
    let within = |outer: Range<usize>| outer.start <= span.start && span.end <= outer.end;
    for (key, value) in table {
        let name = key.get_ref();
        if let Some(inner) = key_in_value(value, span) {
            return Some(format!("{name}{inner}"));
        }
        if within(key.span()) || within(value.span()) {
            return Some(name.to_string());
        }
    }
    None
}

fn key_in_value(value: &Spanned<DeValue<'_>>, span: &Range<usize>) -> Option<String> {
    match value.get_ref() {
        DeValue::Table(table) => key_at(table, span).map(|inner| format!(".{inner}")),
        DeValue::Array(items) => items.iter().enumerate().find_map(|(index, item)| {
            let here = item.span();
            let within = here.start <= span.start && span.end <= here.end;
            key_in_value(item, span).or_else(|| within.then(String::new)).map(|inner| format!("[{index}]{inner}"))
        }),
        _ => None,
    }
}

/// Where the deepest part of the key path `part` that is written stands. Keys of `files` hold dots themselves, so at each step the
/// longest key that fits is taken.
fn span_of(table: &DeTable<'_>, part: &str) -> Option<Range<usize>> {
    let fits = |name: &str| part.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']));
    let (key, value) = table.iter().filter(|(key, _)| fits(key.get_ref())).max_by_key(|(key, _)| key.get_ref().len())?;
    let rest = &part[key.get_ref().len()..];
    span_in_value(value, rest).or_else(|| Some(key.span()))
}

fn span_in_value(value: &Spanned<DeValue<'_>>, rest: &str) -> Option<Range<usize>> {
    match value.get_ref() {
        DeValue::Table(table) => span_of(table, rest.strip_prefix('.')?),
        DeValue::Array(items) => {
            let (index, rest) = rest.strip_prefix('[')?.split_once(']')?;
            let item = items.get(index.parse::<usize>().ok()?)?;
            span_in_value(item, rest).or_else(|| Some(item.span()))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Outer {
        #[expect(dead_code, reason = "only its errors matter")]
        inner: Inner,
    }

    #[derive(Debug, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Inner {
        #[expect(dead_code, reason = "only its errors matter")]
        episodes: u32,
    }

    #[test]
    fn an_error_names_line_key_and_nearest_key() {
        let text = "# a comment\n[inner]\nepisods = 3\n";
        let place = TomlPlace::of_error(text, &toml::from_str::<Outer>(text).unwrap_err());
        assert_eq!((place.line, place.key.as_deref()), (3, Some("inner.episods")));
        assert!(place.message.ends_with("did you mean `episodes`?"), "{}", place.message);
        let text = "[inner]\n\nepisodes = \"three\"\n";
        let place = TomlPlace::of_error(text, &toml::from_str::<Outer>(text).unwrap_err());
        assert_eq!((place.line, place.key.as_deref()), (3, Some("inner.episodes")));
    }

    #[test]
    fn a_key_path_leads_to_its_line() {
        let text = "a = 1\n[[list]]\nx = 1\n[[list]]\nx = 2\n";
        assert_eq!(TomlPlace::of_key(text, "list[1].x", String::new()).line, 5);
        assert_eq!(TomlPlace::of_key(text, "list[0].missing", String::new()).line, 2);
        assert_eq!(TomlPlace::of_key(text, "nowhere", String::new()).line, 1);
    }
}
