//! Text of tokens as they come, in whole characters.

use super::StudentTokenizer;

/// Decodes token by token. A character whose bytes are spread over tokens is held back until it is whole.
#[derive(Debug, Clone, Default)]
pub struct StreamDecoder {
    pending: Vec<u8>,
}

impl StreamDecoder {
    /// The text that `id` completes; often all of its own, sometimes none.
    pub fn push(&mut self, tokenizer: &StudentTokenizer, id: u32) -> String {
        self.pending.extend_from_slice(tokenizer.bytes_of(id));
        let mut text = String::new();
        let mut taken = 0;
        loop {
            let rest = &self.pending[taken..];
            match std::str::from_utf8(rest) {
                Ok(valid) => {
                    text.push_str(valid);
                    taken = self.pending.len();
                    break;
                }
                Err(error) => {
                    let (valid, _) = rest.split_at(error.valid_up_to());
                    text.push_str(&String::from_utf8_lossy(valid));
                    taken += valid.len();
                    // Bytes that no further byte can make a character.
                    let Some(broken) = error.error_len() else { break };
                    text.push(char::REPLACEMENT_CHARACTER);
                    taken += broken;
                }
            }
        }
        self.pending.drain(..taken);
        text
    }

    /// What is left: bytes of a character that never became whole, as U+FFFD.
    pub fn finish(&mut self) -> String {
        let text = String::from_utf8_lossy(&self.pending).into_owned();
        self.pending.clear();
        text
    }
}
