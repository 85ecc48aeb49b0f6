//! Replacing one piece of a text, with failures that help to get it right the next time.

/// How many lines a failure names.
const MOST_LINES: usize = 5;

/// An edit that is not possible. Nothing is changed then.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum EditError {
    /// There is nothing to find.
    #[error("`find` is empty: give the text that is to be replaced")]
    Empty,
    /// The edit would change nothing.
    #[error("`find` and `replace` are the same text: nothing to change")]
    Same,
    /// The text does not stand in the file.
    #[error("`find` does not occur in {path}; nothing was changed. {hint}")]
    Absent { path: String, hint: String },
    /// The text stands in the file more than once.
    #[error("`find` occurs more than once in {path} (at lines {lines}); nothing was changed. Include more of the text around it")]
    Ambiguous { path: String, lines: String },
    /// The file is not text.
    #[error("{path} is not UTF-8 text: change it with a command")]
    NotText { path: String },
    /// The file is longer than what comes out of the sandbox in one piece.
    #[error("{path} is longer than {limit} bytes: change it with a command, such as sed")]
    TooLong { path: String, limit: usize },
}

/// `text`, the content of `path`, with its one occurrence of `find` replaced.
///
/// # Errors
/// When `find` does not occur exactly once (overlaps count), or `text` was not text.
pub(super) fn edited(path: &str, text: &str, find: &str, replace: &str) -> Result<String, EditError> {
    if find.is_empty() {
        return Err(EditError::Empty);
    }
    if find == replace {
        return Err(EditError::Same);
    }
    // The sandbox puts U+FFFD where a byte was not UTF-8: writing that back would destroy the file.
    if text.contains('\u{fffd}') {
        return Err(EditError::NotText { path: path.to_owned() });
    }
    let places = occurrences(text, find);
    match places.as_slice() {
        [] => Err(EditError::Absent { path: path.to_owned(), hint: hint(text, find) }),
        [at] => Ok([&text[..*at], replace, &text[at + find.len()..]].concat()),
        many => {
            let mut lines: Vec<String> = many.iter().take(MOST_LINES).map(|at| line_of(text, *at).to_string()).collect();
            if many.len() > MOST_LINES {
                lines.push("...".to_owned());
            }
            Err(EditError::Ambiguous { path: path.to_owned(), lines: lines.join(", ") })
        }
    }
}

/// Where `find` starts in `text`, overlaps included; at most one more than a failure names.
fn occurrences(text: &str, find: &str) -> Vec<usize> {
    let mut places = Vec::new();
    let mut from = 0;
    while let Some(at) = text[from..].find(find).map(|at| from + at) {
        places.push(at);
        if places.len() > MOST_LINES {
            break;
        }
        from = text.ceil_char_boundary(at + 1);
    }
    places
}

fn line_of(text: &str, at: usize) -> usize {
    text.as_bytes()[..at].iter().filter(|byte| **byte == b'\n').count() + 1
}

/// Where the first line of `find` stands but for white space, if it does.
fn hint(text: &str, find: &str) -> String {
    let first = find.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let lines: Vec<String> = text
        .lines()
        .enumerate()
        .filter(|(_, line)| !first.is_empty() && line.trim() == first)
        .take(MOST_LINES)
        .map(|(index, _)| (index + 1).to_string())
        .collect();
    if lines.is_empty() {
        "Read the file and copy the text exactly".to_owned()
    } else {
        format!("Its first line stands at line {} of the file, but white space or the lines after it differ", lines.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_one_occurrence_is_replaced() {
        assert_eq!(edited("f", "a b c", "b", "é").unwrap(), "a é c");
        assert_eq!(edited("f", "é", "é", "").unwrap(), "");
        assert_eq!(edited("f", "x\r\n$1", "\r\n", "\n").unwrap(), "x\n$1");
    }

    #[test]
    fn failures_help() {
        let cases = [
            ("a", "", "x", "`find` is empty"),
            ("a", "a", "a", "same text"),
            ("a\na\nb\na", "a", "x", "more than once in f (at lines 1, 2, 4)"),
            ("aaa", "aa", "x", "(at lines 1, 1)"),
            ("éé", "é", "x", "(at lines 1, 1)"),
            ("1\n1\n1\n1\n1\n1\n1", "1", "x", "(at lines 1, 2, 3, 4, 5, ...)"),
            ("a", "b", "x", "Read the file"),
            ("one\n\tif x:\n\t\treturn\n", "  if x:\n", "x", "line 2 of the file"),
            ("a\u{fffd}b", "a", "x", "not UTF-8"),
        ];
        for (text, find, replace, part) in cases {
            let error = edited("f", text, find, replace).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
