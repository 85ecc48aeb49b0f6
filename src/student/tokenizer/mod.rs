//! Text to token ids and back, for byte-level BPE vocabularies (Qwen3, SmolLM2, Llama 3 and our own).
//!
//! The `tokenizers` crate encodes ordinary text; the tokens that give a conversation its structure are handled here, because a caller
//! has to say which text may hold them: see [`Trust`].

mod bytes;
mod error;
mod gguf;
mod stream;
mod train;

use std::path::Path;

use tokenizers::Tokenizer;

pub use error::TokenizerError;
pub use stream::StreamDecoder;
pub use train::VocabularySize;

use bytes::TokenBytes;

/// Longest `tokenizer.json` that is read, in bytes. The largest in use are about 35 MB.
const LONGEST_FILE: u64 = 256 * 1024 * 1024;

/// A token that stands beside the vocabulary proper.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddedToken {
    /// Its id.
    pub id: u32,
    /// Its text.
    pub text: String,
    /// Whether it steers the conversation (`<|im_end|>`), rather than being something a model writes (`<tool_call>`).
    pub control: bool,
}

/// Which added tokens a text may hold. What is not allowed is encoded as the plain characters it is written with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trust {
    /// None: instructions, observations, whatever comes from outside.
    Plain,
    /// Those that are not control tokens: what a model wrote.
    Assistant,
    /// All: the text of the chat template itself.
    Template,
}

/// A tokenizer. Its hash names it in data sets and checkpoints.
#[derive(Debug)]
pub struct StudentTokenizer {
    /// Without added tokens, so that text cannot make one.
    plain: Tokenizer,
    /// Longest first: a token may be the beginning of another.
    added: Vec<AddedToken>,
    bytes: TokenBytes,
    json: String,
    hash: blake3::Hash,
}

impl StudentTokenizer {
    /// From the text of a `tokenizer.json`.
    ///
    /// # Errors
    /// When it is not one, or not of a byte-level vocabulary.
    pub fn from_json(json: &str) -> Result<Self, TokenizerError> {
        let full = Tokenizer::from_bytes(json).map_err(|error| TokenizerError::Format(error.to_string()))?;
        Self::new(&full, json.to_owned())
    }

    /// From a `tokenizer.json`.
    ///
    /// # Errors
    /// As [`Self::from_json`], and when the file cannot be read.
    pub fn load(path: &Path) -> Result<Self, TokenizerError> {
        let failed = |source| TokenizerError::Io { path: path.to_owned(), source };
        let bytes = std::fs::metadata(path).map_err(failed)?.len();
        if bytes > LONGEST_FILE {
            return Err(TokenizerError::TooLong { path: path.to_owned(), bytes, most: LONGEST_FILE });
        }
        Self::from_json(&std::fs::read_to_string(path).map_err(failed)?)
    }

    /// Writes the `tokenizer.json`: first aside, then renamed.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn save(&self, path: &Path) -> Result<(), TokenizerError> {
        crate::base::write_whole(path, self.json.as_bytes()).map_err(|source| TokenizerError::Io { path: path.to_owned(), source })
    }

    fn from_tokenizer(full: &Tokenizer) -> Result<Self, TokenizerError> {
        let json = full.to_string(false).map_err(|error| TokenizerError::Format(error.to_string()))?;
        Self::new(full, json)
    }

    fn new(full: &Tokenizer, json: String) -> Result<Self, TokenizerError> {
        let mut plain = Tokenizer::new(full.get_model().clone());
        plain
            .with_normalizer(full.get_normalizer().cloned())
            .map_err(|error| TokenizerError::Format(error.to_string()))?
            .with_pre_tokenizer(full.get_pre_tokenizer().cloned());
        let mut added: Vec<AddedToken> = full
            .get_added_tokens_decoder()
            .into_iter()
            .map(|(id, token)| AddedToken { id, text: token.content, control: token.special })
            .collect();
        added.sort_unstable_by(|a, b| b.text.len().cmp(&a.text.len()).then(a.id.cmp(&b.id)));
        let bytes = TokenBytes::new(full, &added)?;
        let hash = blake3::hash(json.as_bytes());
        Ok(Self { plain, added, bytes, json, hash })
    }

    /// The text of its `tokenizer.json`.
    #[must_use]
    pub fn json(&self) -> &str {
        &self.json
    }

    /// BLAKE3 of [`Self::json`].
    #[must_use]
    pub const fn hash(&self) -> &blake3::Hash {
        &self.hash
    }

    /// One more than the highest id. An embedding may have more rows than that.
    #[must_use]
    pub const fn vocabulary_size(&self) -> usize {
        self.bytes.len()
    }

    /// The added tokens, longest first.
    #[must_use]
    pub fn added(&self) -> &[AddedToken] {
        &self.added
    }

    /// The id of the added token `text`.
    #[must_use]
    pub fn added_id(&self, text: &str) -> Option<u32> {
        self.added.iter().find(|token| token.text == text).map(|token| token.id)
    }

    /// Whether `id` is a control token.
    #[must_use]
    pub fn is_control(&self, id: u32) -> bool {
        self.added.iter().any(|token| token.control && token.id == id)
    }

    /// The ids of `text`, in which the added tokens that `trust` allows are tokens.
    ///
    /// # Errors
    /// When the vocabulary cannot express the text.
    pub fn encode(&self, text: &str, trust: Trust) -> Result<Vec<u32>, TokenizerError> {
        let mut ids = Vec::new();
        for (plain, token) in self.pieces(text, trust) {
            self.encode_plain(plain, &mut ids)?;
            ids.extend(token.map(|token| token.id));
        }
        Ok(ids)
    }

    /// `text` cut at the added tokens that `trust` allows: text before a token, and the token.
    pub(super) fn pieces<'t, 's: 't>(&'s self, text: &'t str, trust: Trust) -> Vec<(&'t str, Option<&'s AddedToken>)> {
        let mut firsts: Vec<char> = self.added.iter().filter_map(|token| token.text.chars().next()).collect();
        firsts.sort_unstable();
        firsts.dedup();
        let (mut pieces, mut start) = (Vec::new(), 0);
        for (at, _) in text.match_indices(firsts.as_slice()) {
            let fits = |token: &&AddedToken| trust.allows(token) && text[at..].starts_with(token.text.as_str());
            if at >= start
                && let Some(token) = self.added.iter().find(fits)
            {
                pieces.push((&text[start..at], Some(token)));
                start = at + token.text.len();
            }
        }
        pieces.push((&text[start..], None));
        pieces
    }

    /// Appends the ids of `text`, none of which is an added token.
    pub(super) fn encode_plain(&self, text: &str, ids: &mut Vec<u32>) -> Result<(), TokenizerError> {
        if text.is_empty() {
            return Ok(());
        }
        let encoding = self.plain.encode_fast(text, false).map_err(|error| TokenizerError::Encode(error.to_string()))?;
        if let Some(&id) = encoding.get_ids().iter().find(|id| self.added.iter().any(|token| token.id == **id)) {
            return Err(TokenizerError::TokenFromText { id });
        }
        ids.extend_from_slice(encoding.get_ids());
        Ok(())
    }

    /// `text` as its ids decode: some vocabularies compose characters (Unicode NFC) before they encode.
    ///
    /// # Errors
    /// When the normaliser fails.
    pub fn normalised(&self, text: &str) -> Result<String, TokenizerError> {
        use tokenizers::Normalizer as _;
        let mut normalised = tokenizers::NormalizedString::from(text);
        if let Some(normaliser) = self.plain.get_normalizer() {
            normaliser.normalize(&mut normalised).map_err(|error| TokenizerError::Encode(error.to_string()))?;
        }
        Ok(normalised.get().to_owned())
    }

    /// The bytes of a token; empty for an id that is not in the vocabulary.
    #[must_use]
    pub fn bytes_of(&self, id: u32) -> &[u8] {
        self.bytes.of(id)
    }

    /// The text of `ids`, added tokens included. Bytes that are not UTF-8 become U+FFFD.
    #[must_use]
    pub fn decode(&self, ids: &[u32]) -> String {
        let bytes: Vec<u8> = ids.iter().flat_map(|id| self.bytes_of(*id)).copied().collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl Trust {
    const fn allows(self, token: &AddedToken) -> bool {
        match self {
            Self::Plain => false,
            Self::Assistant => !token.control,
            Self::Template => true,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
