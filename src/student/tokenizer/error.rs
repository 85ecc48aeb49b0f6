//! What can be wrong with a tokenizer.

use std::path::PathBuf;

/// A tokenizer that cannot be made, read or used.
#[derive(Debug, thiserror::Error)]
pub enum TokenizerError {
    /// A file cannot be read or written.
    #[error("the tokenizer {path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file is longer than any tokenizer.
    #[error("the tokenizer {path} is {bytes} bytes long; at most {most} are read")]
    TooLong {
        /// The file.
        path: PathBuf,
        /// Its length.
        bytes: u64,
        /// The limit.
        most: u64,
    },
    /// Not a tokenizer that the library reads.
    #[error("not a usable tokenizer: {0}")]
    Format(String),
    /// The vocabulary is not byte-level.
    #[error("only byte-level BPE vocabularies are supported: the token {id}, {text:?}, has a character outside the byte alphabet")]
    NotByteLevel {
        /// A token.
        id: u32,
        /// Its text.
        text: String,
    },
    /// A GGUF file without a usable tokenizer.
    #[error("the GGUF metadata `{key}`: {reason}")]
    Gguf {
        /// The key.
        key: &'static str,
        /// What is wrong.
        reason: String,
    },
    /// A vocabulary size that cannot be trained.
    #[error("a vocabulary of {0} tokens: the size must be a power of two from 512 to 65536")]
    Size(usize),
    /// Nothing to train on.
    #[error("there is no text to train a vocabulary on")]
    NoText,
    /// The library failed on a text.
    #[error("a text cannot be encoded: {0}")]
    Encode(String),
    /// Text gave a token that only the template may give.
    #[error("ordinary text was encoded as the added token {id}: the vocabulary merges into it and cannot be used safely")]
    TokenFromText {
        /// The token.
        id: u32,
    },
}
