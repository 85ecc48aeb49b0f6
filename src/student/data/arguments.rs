//! Arguments of calls as the student is to write them.

use serde::de::IgnoredAny;

/// `arguments` with the white space of Python's `json.dumps`, in which chat models are trained; keys keep their order and texts their
/// escapes. What is not JSON stays as it is.
pub(super) fn spaced(arguments: &str) -> String {
    if serde_json::from_str::<IgnoredAny>(arguments).is_err() {
        return arguments.to_owned();
    }
    let mut out = String::with_capacity(arguments.len() + 16);
    let (mut inside, mut escaped) = (Inside::Json, false);
    for c in arguments.chars() {
        match inside {
            Inside::Text => {
                out.push(c);
                if !escaped && c == '"' {
                    inside = Inside::Json;
                }
                escaped = !escaped && c == '\\';
            }
            Inside::Json => match c {
                ' ' | '\t' | '\n' | '\r' => {}
                ',' | ':' => out.extend([c, ' ']),
                '"' => {
                    out.push(c);
                    inside = Inside::Text;
                }
                _ => out.push(c),
            },
        }
    }
    out
}

/// Where a character stands.
#[derive(Clone, Copy)]
enum Inside {
    Text,
    Json,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn white_space_is_that_of_python() {
        // `json.dumps(json.loads(text), ensure_ascii=False)` in CPython 3.11.
        let cases = [
            (r#"{"command":"ls, -l: \"a\\","n":[1,2.5,null],"o":{}}"#, r#"{"command": "ls, -l: \"a\\", "n": [1, 2.5, null], "o": {}}"#),
            ("{\n  \"b\" : 1 ,\n  \"a\" : \"x\"\n}", r#"{"b": 1, "a": "x"}"#),
            ("{}", "{}"),
        ];
        for (written, spaced_out) in cases {
            assert_eq!(spaced(written), spaced_out);
            assert_eq!(spaced(spaced_out), spaced_out);
        }
        assert_eq!(spaced("{broken,"), "{broken,");
    }
}
