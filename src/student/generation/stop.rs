//! Texts that end a reply, found wherever token borders fall.

/// Text as it comes, and the first stop in it.
#[derive(Debug, Clone)]
pub(super) struct StopFinder {
    stops: Vec<String>,
    longest: usize,
    text: String,
}

impl StopFinder {
    pub(super) fn new(stops: Vec<String>) -> Self {
        let stops: Vec<String> = stops.into_iter().filter(|stop| !stop.is_empty()).collect();
        let longest = stops.iter().map(String::len).max().unwrap_or(0);
        Self { stops, longest, text: String::new() }
    }

    /// Appends `piece`. Whether a stop is complete; the text then ends before the first one.
    pub(super) fn push(&mut self, piece: &str) -> bool {
        // A stop that ends in the piece may have begun in what was there before.
        let from = self.text.floor_char_boundary(self.text.len().saturating_sub(self.longest));
        self.text.push_str(piece);
        let found = self.stops.iter().filter_map(|stop| self.text[from..].find(stop.as_str())).min();
        if let Some(at) = found {
            self.text.truncate(from + at);
        }
        found.is_some()
    }

    /// Bytes of text so far.
    pub(super) const fn length(&self) -> usize {
        self.text.len()
    }

    /// The text.
    pub(super) fn into_text(self) -> String {
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(stops: &[&str], pieces: &[&str]) -> (usize, String) {
        let mut finder = StopFinder::new(stops.iter().map(|stop| (*stop).to_owned()).collect());
        let taken = pieces.iter().position(|piece| finder.push(piece)).map_or(pieces.len(), |at| at + 1);
        (taken, finder.into_text())
    }

    #[test]
    fn stops_are_found_across_borders() {
        assert_eq!(run(&["</end>"], &["ab<", "/e", "nd>c", "d"]), (3, "ab".to_owned()));
        assert_eq!(run(&["</end>"], &["ab</end"]), (1, "ab</end".to_owned()));
        // The first in the text, not in the list; not one that was complete only with what stands behind it.
        assert_eq!(run(&["yz", "xy"], &["w", "xyz"]), (2, "w".to_owned()));
        assert_eq!(run(&["äö"], &["üä", "ö"]), (2, "ü".to_owned()));
        assert_eq!(run(&[], &["a", "b"]), (2, "ab".to_owned()));
        assert_eq!(run(&[""], &["a"]), (1, "a".to_owned()));
    }
}
