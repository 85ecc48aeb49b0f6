//! Near-JSON as small models write it, made JSON: single quotes, trailing commas, control characters inside strings, missing closing
//! brackets. Nothing else is guessed.

use super::Completeness;

/// Closing brackets that are put in at most.
const MOST_CLOSED: usize = 8;

/// `text` repaired, if it can be. An incomplete reply gets no closing brackets: what is missing may have been more.
pub(super) fn repaired(text: &str, completeness: Completeness) -> Option<String> {
    let mut out = String::with_capacity(text.len() + MOST_CLOSED);
    let mut open: Vec<char> = Vec::new();
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        match c {
            '"' | '\'' => copy_string(c, &mut rest, &mut out)?,
            '{' | '[' => {
                open.push(if c == '{' { '}' } else { ']' });
                out.push(c);
            }
            '}' | ']' => {
                // A closing bracket of the other kind means that the inner one is missing.
                while open.last().is_some_and(|wanted| *wanted != c) && open.contains(&c) {
                    close(&mut out, open.pop()?);
                }
                close(&mut out, open.pop()?);
            }
            other => out.push(other),
        }
    }
    if open.len() > MOST_CLOSED || (!open.is_empty() && completeness == Completeness::CutOff) {
        return None;
    }
    while let Some(bracket) = open.pop() {
        close(&mut out, bracket);
    }
    Some(out)
}

/// Appends `bracket`, without a comma before it.
fn close(out: &mut String, bracket: char) {
    let kept = out.trim_end();
    if let Some(before) = kept.strip_suffix(',') {
        out.truncate(before.len());
    }
    out.push(bracket);
}

/// Copies a string that began with `quote`, in double quotes; `None` where it does not end.
fn copy_string(quote: char, rest: &mut std::str::Chars<'_>, out: &mut String) -> Option<()> {
    out.push('"');
    loop {
        match rest.next()? {
            c if c == quote => {
                out.push('"');
                return Some(());
            }
            '"' => out.push_str("\\\""),
            '\\' => match rest.next()? {
                // JSON knows no such escape.
                '\'' => out.push('\''),
                escaped => out.extend(['\\', escaped]),
            },
            c if c.is_ascii_control() => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(text: &str) -> Option<Value> {
        repaired(text, Completeness::Whole).and_then(|text| serde_json::from_str(&text).ok())
    }

    #[test]
    fn what_small_models_get_wrong_is_put_right() {
        let wanted = Some(json!({"a": {"b": "c"}}));
        for text in [r#"{"a": {"b": "c"}"#, r#"{"a": {"b": "c""#, r#"{"a": {"b": "c",},}"#, "{'a': {'b': 'c'}}", r#"{"a": {"b": "c",}"#] {
            assert_eq!(read(text), wanted, "{text}");
        }
        assert_eq!(read("{'a': 'it\\'s \"x\"'}"), Some(json!({"a": "it's \"x\""})));
        assert_eq!(read("{\"a\": \"1\n2\"}"), Some(json!({"a": "1\n2"})));
        assert_eq!(read(r#"{"a": [1, 2}"#), Some(json!({"a": [1, 2]})));
        // A comma inside a string is no trailing comma.
        assert_eq!(read(r#"{"a": ",",}"#), Some(json!({"a": ","})));
    }

    #[test]
    fn nothing_is_guessed() {
        for text in ["{\"a\": \"b", "{a: 1}", "{\"a\" 1}", "}", "{'a': 'it's'}", &"[".repeat(9), "{\"a\": \"\\"] {
            assert_eq!(read(text), None, "{text}");
        }
        assert_eq!(repaired("{\"a\": 1", Completeness::CutOff), None);
        assert!(repaired("{\"a\": 1,}", Completeness::CutOff).is_some());
    }
}
