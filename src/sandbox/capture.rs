//! The output of one command, bounded: its head and its tail, however much there was.

use std::collections::VecDeque;

/// Keeps the first and the last bytes of a stream and counts those between.
#[derive(Debug)]
pub(super) struct Capture {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    half: usize,
    seen: u64,
}

impl Capture {
    /// Keeps at most `cap` bytes, half of them from the start.
    pub(super) fn new(cap: usize) -> Self {
        Self { head: Vec::new(), tail: VecDeque::new(), half: (cap / 2).max(1), seen: 0 }
    }

    /// Takes the next bytes of the stream.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.seen += bytes.len() as u64;
        let room = self.half.saturating_sub(self.head.len()).min(bytes.len());
        let (first, rest) = bytes.split_at(room);
        self.head.extend_from_slice(first);
        // Only the end of a large chunk can stay, so the rest of it is never copied.
        let rest = &rest[rest.len().saturating_sub(self.half)..];
        let surplus = (self.tail.len() + rest.len()).saturating_sub(self.half);
        self.tail.drain(..surplus);
        self.tail.extend(rest);
    }

    /// The text, and how many bytes were left out between its halves. A mark stands where they are missing.
    pub(super) fn finish(self) -> (String, u64) {
        let omitted = self.seen - self.head.len() as u64 - self.tail.len() as u64;
        let tail: Vec<u8> = self.tail.into();
        if omitted == 0 {
            let whole = [self.head, tail].concat();
            return (String::from_utf8_lossy(&whole).into_owned(), 0);
        }
        let text =
            format!("{}\n[... {omitted} bytes left out ...]\n{}", String::from_utf8_lossy(&self.head), String::from_utf8_lossy(&tail));
        (text, omitted)
    }
}

#[cfg(test)]
mod tests {
    use super::Capture;

    #[test]
    fn what_fits_is_kept_whole_even_across_a_cut_character() {
        let mut capture = Capture::new(8);
        for byte in "aßcdeß".as_bytes() {
            capture.push(&[*byte]);
        }
        assert_eq!(capture.finish(), ("aßcdeß".to_owned(), 0));
    }

    #[test]
    fn the_middle_of_a_long_stream_is_left_out_and_counted() {
        let mut capture = Capture::new(10);
        capture.push(b"0123456789abcdef");
        capture.push(b"ghij");
        assert_eq!(capture.finish(), ("01234\n[... 10 bytes left out ...]\nfghij".to_owned(), 10));
    }

    #[test]
    fn a_chunk_longer_than_the_cap_keeps_only_its_ends() {
        let mut capture = Capture::new(4);
        capture.push(&[b'x'; 1000]);
        capture.push(b"yz");
        assert_eq!(capture.finish(), ("xx\n[... 998 bytes left out ...]\nyz".to_owned(), 998));
    }
}
