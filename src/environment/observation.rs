//! The observation policy: what of a tool's result a model gets to see.

use super::ToolResult;
use crate::harness::Observation;

/// Bytes that were left out of a text before it came here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    /// Where in the text they are missing; a character boundary.
    pub at: usize,
    /// How many.
    pub bytes: u64,
}

/// The text of an observation: the result's text cut to the policy's head and tail, then its status on a line of its own. Never empty,
/// because endpoints refuse empty messages.
#[must_use]
pub fn observe(result: &ToolResult, policy: &Observation) -> String {
    let mut text = cut(&result.text, policy.head_bytes as usize, policy.tail_bytes as usize, result.gap);
    if let Some(status) = &result.status {
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(status);
    }
    if text.is_empty() {
        "(no output)".to_owned()
    } else if text.trim().is_empty() {
        format!("({} bytes of white space)", text.len())
    } else {
        text
    }
}

/// How an observation says that its call came to nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallFailure {
    /// The tool did not take the call: it could not be read, or named what is not there.
    Refused,
    /// The program ran and ended with a failure, or was ended.
    Failed,
}

/// What `observation` says about its call; none where nothing went wrong. It goes by the text alone, as the model does: a program
/// that prints the line of a status looks the same.
#[must_use]
pub fn told_failure(observation: &str) -> Option<CallFailure> {
    const STATUSES: [&str; 3] = ["[exit ", "[timed out", "[all processes were killed"];
    let is_status = |line: &str| line.ends_with(']') && STATUSES.iter().any(|status| line.starts_with(status));
    if observation.starts_with("error: ") {
        Some(CallFailure::Refused)
    } else if observation.lines().any(is_status) {
        Some(CallFailure::Failed)
    } else {
        None
    }
}

/// The line that stands in a request for an observation that is no longer shown.
#[must_use]
pub fn elided(number: u32, bytes: usize) -> String {
    format!("[observation {number} elided: {bytes} bytes]")
}

/// At most `head` bytes from the start of `text` and `tail` bytes from its end, at character boundaries, with a line between them that
/// counts what is missing (`gap` included). A text that fits, and had no gap, is unchanged.
#[must_use]
pub fn cut(text: &str, head: usize, tail: usize, gap: Option<Gap>) -> String {
    let (left, right, missing) = match gap {
        None if text.len() <= head.saturating_add(tail) => return text.to_owned(),
        None => (text, text, 0),
        Some(gap) => {
            let (left, right) = text.split_at(text.floor_char_boundary(gap.at));
            (left, right, gap.bytes)
        }
    };
    let start = &left[..left.floor_char_boundary(head)];
    let end = &right[right.ceil_char_boundary(right.len().saturating_sub(tail))..];
    let left_out = (text.len() - start.len() - end.len()) as u64 + missing;
    format!("{start}\n[... {left_out} bytes left out ...]\n{end}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn result(text: &str, status: Option<&str>) -> ToolResult {
        ToolResult { text: text.to_owned(), gap: None, status: status.map(str::to_owned), failed: status.is_some() }
    }

    fn policy(head_bytes: u32, tail_bytes: u32) -> Observation {
        Observation { head_bytes, tail_bytes, ..Observation::default() }
    }

    #[test]
    fn a_cut_keeps_both_ends_and_counts_the_middle() {
        assert_eq!(cut("abcdefghij", 3, 2, None), "abc\n[... 5 bytes left out ...]\nij");
        assert_eq!(cut("abcdefghij", 5, 5, None), "abcdefghij");
        // `é` has two bytes: a cap inside it leaves the whole letter out.
        assert_eq!(cut("éééé", 3, 3, None), "é\n[... 4 bytes left out ...]\né");
        assert_eq!(cut("abcd", 0, 0, None), "\n[... 4 bytes left out ...]\n");
        assert_eq!(cut("abcd", 10, 10, Some(Gap { at: 2, bytes: 7 })), "ab\n[... 7 bytes left out ...]\ncd");
        assert_eq!(cut("abcdef", 1, 2, Some(Gap { at: 2, bytes: 7 })), "a\n[... 10 bytes left out ...]\nef");
    }

    #[test]
    fn the_status_stands_on_the_last_line_whatever_is_cut() {
        assert_eq!(observe(&result("out", Some("[exit 1]")), &policy(10, 0)), "out\n[exit 1]");
        assert_eq!(observe(&result("out\n", Some("[exit 1]")), &policy(10, 0)), "out\n[exit 1]");
        assert_eq!(observe(&result("", Some("[exit 1]")), &policy(10, 0)), "[exit 1]");
        assert_eq!(observe(&result("0123456789", Some("[exit 2]")), &policy(2, 0)), "01\n[... 8 bytes left out ...]\n[exit 2]");
        assert_eq!(observe(&result("", None), &policy(10, 0)), "(no output)");
        assert_eq!(observe(&result(" \n", None), &policy(10, 0)), "(2 bytes of white space)");
    }

    #[test]
    fn a_failure_is_told_from_the_text_that_a_model_sees() {
        let told = |text: &str, status: Option<&str>| told_failure(&observe(&result(text, status), &policy(20, 20)));
        assert_eq!(told("out", Some("[exit 2]")), Some(CallFailure::Failed));
        assert_eq!(told("", Some("[timed out after 30 s]")), Some(CallFailure::Failed));
        assert_eq!(told_failure(&observe(&ToolResult::refused("there is no file f"), &policy(20, 20))), Some(CallFailure::Refused));
        assert_eq!(told_failure("no\n[exit 1]\nThe command failed. Read the error message."), Some(CallFailure::Failed));
        assert_eq!(told("an error: none\nsee [exit 1] above", None), None);
    }

    proptest! {
        #[test]
        fn a_cut_is_bounded_and_accounts_for_every_byte(
            text in "(?s).{0,200}", head in 0_usize..120, tail in 0_usize..120, gap in proptest::option::of((0_usize..300, 1_u64..1000)),
        ) {
            let gap = gap.map(|(at, bytes)| Gap { at, bytes });
            let shown = cut(&text, head, tail, gap);
            let whole = text.len() as u64 + gap.map_or(0, |gap| gap.bytes);
            if shown == text && gap.is_none() {
                prop_assert!(text.len() <= head + tail);
            } else {
                // The line is ours, so the last occurrence of its start that splits into a number is found by its length.
                let digits = (1..=20).find(|&digits| {
                    let marker = shown.len().checked_sub(digits + 27);
                    marker.is_some_and(|kept| kept <= head + tail && {
                        let left_out = whole - kept as u64;
                        let line = format!("\n[... {left_out} bytes left out ...]\n");
                        left_out.to_string().len() == digits
                            && shown.match_indices(&line).any(|(at, _)| {
                                at <= head && shown.len() - at - line.len() <= tail
                                    && text.starts_with(&shown[..at]) && text.ends_with(&shown[at + line.len()..])
                            })
                    })
                });
                prop_assert!(digits.is_some(), "{shown:?}");
            }
        }
    }
}
