//! The nearest right word to a wrong one, for errors.

/// The candidate closest to `word` by Damerau-Levenshtein distance, if it is close enough to be meant: at most two edits, or
/// a third of the word's length. The first of equals.
pub(crate) fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let limit = (word.chars().count() / 3).max(2);
    let lower = word.to_lowercase();
    candidates
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(&lower, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= limit && *distance < candidate.chars().count())
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// `; did you mean ...?`, or nothing.
pub(crate) fn suggestion<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    nearest(word, candidates).map_or_else(String::new, |candidate| format!("; did you mean `{candidate}`?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typo_finds_its_word_and_nonsense_finds_none() {
        assert_eq!(nearest("stpes", ["seconds", "steps", "tokens"]), Some("steps"));
        assert_eq!(nearest("Steps", ["seconds", "steps", "tokens"]), Some("steps"));
        assert_eq!(nearest("verfication", ["verification", "recovery"]), Some("verification"));
        assert_eq!(nearest("zebra", ["seconds", "steps", "tokens"]), None);
    }
}
