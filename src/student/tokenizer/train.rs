//! A vocabulary of our own, trained on our own texts.

use tokenizers::models::TrainerWrapper;
use tokenizers::models::bpe::{BPE, BpeTrainer};
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::digits::Digits;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::{AddedToken, Tokenizer};

use super::{StudentTokenizer, TokenizerError};

/// The tokens that steer a conversation, as Qwen3 names them.
const CONTROL: [&str; 8] = [
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|vision_pad|>",
    "<|image_pad|>",
    "<|video_pad|>",
];
/// The tokens a model writes or reads as marks in its text.
const MARKS: [&str; 4] = ["<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>"];
/// A pair that stands only once is no rule.
const MIN_FREQUENCY: u64 = 2;
/// Longest token in bytes: a file that was printed again and again is not worth a token.
const LONGEST_TOKEN: usize = 32;

/// The number of tokens of a trained vocabulary: a power of two from 512 to 65536.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VocabularySize(usize);

impl VocabularySize {
    /// Checks `tokens`.
    ///
    /// # Errors
    /// When it is not a power of two from 512 to 65536.
    pub const fn new(tokens: usize) -> Result<Self, TokenizerError> {
        if tokens.is_power_of_two() && 512 <= tokens && tokens <= 65536 { Ok(Self(tokens)) } else { Err(TokenizerError::Size(tokens)) }
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> usize {
        self.0
    }
}

impl Default for VocabularySize {
    fn default() -> Self {
        Self(4096)
    }
}

impl StudentTokenizer {
    /// Trains a byte-level BPE vocabulary of `size` tokens on `texts`, digits split singly; fewer where the texts have not so many
    /// pairs that stand twice. The same texts, in whatever order, give the same vocabulary.
    ///
    /// # Errors
    /// When there is no text.
    pub fn train<'t>(texts: impl IntoIterator<Item = &'t str>, size: VocabularySize) -> Result<Self, TokenizerError> {
        // Sorted, so that no table of the trainer depends on the order.
        let mut texts: Vec<&str> = texts.into_iter().filter(|text| !text.is_empty()).collect();
        texts.sort_unstable();
        if texts.is_empty() {
            return Err(TokenizerError::NoText);
        }
        let failed = |error: tokenizers::Error| TokenizerError::Format(error.to_string());
        let mut full = Tokenizer::new(BPE::default());
        full.with_pre_tokenizer(Some(pre_tokenizer()));
        full.with_decoder(Some(ByteLevel::new(false, false, false)));
        let trainer = BpeTrainer::builder()
            .vocab_size(size.0 - CONTROL.len() - MARKS.len())
            .min_frequency(MIN_FREQUENCY)
            .max_token_length(Some(LONGEST_TOKEN))
            .show_progress(false)
            .initial_alphabet(ByteLevel::alphabet().into_iter().collect())
            .build();
        full.train(&mut TrainerWrapper::from(trainer), texts.into_iter()).map_err(failed)?;
        // The added tokens stand last, so that the ids of text do not depend on their number.
        full.add_special_tokens(CONTROL.map(|text| AddedToken::from(text, true))).map_err(failed)?;
        full.add_tokens(MARKS.map(|text| AddedToken::from(text, false).normalized(false))).map_err(failed)?;
        Self::from_tokenizer(&full)
    }
}

/// Single digits, then words as GPT-2 splits them.
pub(super) fn pre_tokenizer() -> PreTokenizerWrapper {
    let parts = vec![PreTokenizerWrapper::Digits(Digits::new(true)), PreTokenizerWrapper::ByteLevel(ByteLevel::new(false, false, true))];
    PreTokenizerWrapper::Sequence(Sequence::new(parts))
}
