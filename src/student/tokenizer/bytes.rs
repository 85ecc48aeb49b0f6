//! The bytes behind each token of a byte-level vocabulary.

use tokenizers::Tokenizer;

use super::{AddedToken, TokenizerError};

/// Ids above this are not believed: the table would not fit memory.
const HIGHEST_ID: u32 = 4 * 1024 * 1024;

/// The bytes of every token in one buffer.
#[derive(Debug)]
pub(super) struct TokenBytes {
    buffer: Vec<u8>,
    /// Where each token ends.
    ends: Vec<usize>,
}

impl TokenBytes {
    pub(super) fn new(full: &Tokenizer, added: &[AddedToken]) -> Result<Self, TokenizerError> {
        let mut texts: Vec<(u32, String)> = full.get_vocab(true).into_iter().map(|(text, id)| (id, text)).collect();
        texts.sort_unstable();
        let highest = texts.last().map_or(0, |(id, _)| *id);
        if highest > HIGHEST_ID {
            return Err(TokenizerError::Format(format!("the token id {highest} is out of range")));
        }
        let mut of_byte = [0_u8; 0x144];
        for byte in 0..=255_u8 {
            of_byte[char_of(byte) as usize] = byte;
        }
        let added: std::collections::HashSet<u32> = added.iter().map(|token| token.id).collect();
        let (mut buffer, mut ends) = (Vec::new(), Vec::with_capacity(texts.len()));
        for (id, text) in texts {
            ends.resize((id as usize).max(ends.len()), buffer.len());
            if added.contains(&id) {
                buffer.extend_from_slice(text.as_bytes());
            } else {
                for c in text.chars() {
                    match of_byte.get(c as usize) {
                        Some(&byte) if char_of(byte) == c => buffer.push(byte),
                        _ => return Err(TokenizerError::NotByteLevel { id, text }),
                    }
                }
            }
            ends.push(buffer.len());
        }
        Ok(Self { buffer, ends })
    }

    pub(super) const fn len(&self) -> usize {
        self.ends.len()
    }

    pub(super) fn of(&self, id: u32) -> &[u8] {
        let index = id as usize;
        let Some(&end) = self.ends.get(index) else { return &[] };
        let start = index.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or(0);
        self.buffer.get(start..end).unwrap_or(&[])
    }
}

/// The printable character that stands for a byte (GPT-2, `bytes_to_unicode`): printable Latin-1 stands for itself, the other 68 bytes
/// are counted up from U+0100.
fn char_of(byte: u8) -> char {
    let printable = |b: u8| matches!(b, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff);
    if printable(byte) {
        return char::from(byte);
    }
    let before = (0..byte).filter(|b| !printable(*b)).count();
    u32::try_from(before).ok().and_then(|before| char::from_u32(0x100 + before)).unwrap_or(char::REPLACEMENT_CHARACTER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_the_characters_of_gpt2() {
        // From the table in GPT-2's encoder: space is U+0120, line feed U+010A, 0x7f U+0121, 0xa0 U+0142, 0xad U+0143.
        assert_eq!([b' ', b'\n', b'a', 0, 0x7f, 0xa0, 0xad, 0xff].map(char_of), ['Ġ', 'Ċ', 'a', 'Ā', 'ġ', 'ł', 'Ń', 'ÿ']);
    }
}
