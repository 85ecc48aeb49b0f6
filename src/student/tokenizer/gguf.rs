//! The tokenizer inside a GGUF file. The file names a pre-tokenizer; the library's own reader gets `smollm` wrong (it adds a space and
//! keeps digits together), therefore the pipelines are built here.

use std::collections::HashMap;

use candle_core::quantized::gguf_file::Value;
use tokenizers::models::bpe::BPE;
use tokenizers::normalizers::NormalizerWrapper;
use tokenizers::normalizers::unicode::NFC;
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::{AddedToken, SplitDelimiterBehavior, Tokenizer};

use super::{StudentTokenizer, TokenizerError};

/// How Qwen2 and Qwen3 split text (their `tokenizer.json`, `pre_tokenizer`).
const QWEN_SPLIT: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
/// As Qwen, but with up to three digits together: Llama 3.
const LLAMA_SPLIT: &str =
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// Token types of the format (`llama_token_type`): 3 is control, 4 was added by the user.
const CONTROL: u64 = 3;
const USER_DEFINED: u64 = 4;

type Metadata = HashMap<String, Value>;

impl StudentTokenizer {
    /// From the metadata of a GGUF file.
    ///
    /// # Errors
    /// When there is no tokenizer in it, or one that is not byte-level BPE.
    pub fn from_gguf(metadata: &Metadata) -> Result<Self, TokenizerError> {
        const PRE: &str = "tokenizer.ggml.pre";
        let model = text(metadata, "tokenizer.ggml.model")?;
        if model != "gpt2" {
            return Err(wrong("tokenizer.ggml.model", format!("`{model}` is not byte-level BPE (`gpt2`)")));
        }
        let pre = metadata.get(PRE).and_then(|value| value.to_string().ok()).map_or("default", String::as_str);
        let Some((normaliser, pre_tokenizer)) = pipeline(pre)? else {
            return Err(wrong(PRE, format!("the pre-tokenizer `{pre}` is not known; known are default, gpt-2, smollm, qwen2, llama-bpe")));
        };
        let tokens = texts(metadata, "tokenizer.ggml.tokens")?;
        let merges = merges(metadata)?;
        let vocabulary: HashMap<String, u32> = tokens.iter().zip(0_u32..).map(|(token, id)| ((*token).to_owned(), id)).collect();
        let bpe = BPE::builder()
            .vocab_and_merges(vocabulary.into_iter().collect::<tokenizers::models::bpe::Vocab>(), merges)
            .ignore_merges(pre == "llama-bpe")
            .build()
            .map_err(|error| wrong("tokenizer.ggml.merges", error.to_string()))?;
        let failed = |error: tokenizers::Error| TokenizerError::Format(error.to_string());
        let mut full = Tokenizer::new(bpe);
        full.with_normalizer(normaliser).map_err(failed)?.with_pre_tokenizer(Some(pre_tokenizer));
        full.with_decoder(Some(ByteLevel::new(false, false, false)));
        let kinds = kinds(metadata, tokens.len())?;
        let of_kind = |kind: u64| tokens.iter().zip(&kinds).filter(move |(_, k)| **k == kind).map(|(token, _)| *token);
        let control: Vec<AddedToken> = of_kind(CONTROL).map(|token| AddedToken::from(token, true)).collect();
        let marks: Vec<AddedToken> = of_kind(USER_DEFINED).map(|token| AddedToken::from(token, false).normalized(false)).collect();
        full.add_special_tokens(control).map_err(failed)?;
        full.add_tokens(marks).map_err(failed)?;
        Self::from_tokenizer(&full)
    }
}

type Pipeline = (Option<NormalizerWrapper>, PreTokenizerWrapper);

fn pipeline(pre: &str) -> Result<Option<Pipeline>, TokenizerError> {
    let split = |regex: &str| -> Result<PreTokenizerWrapper, TokenizerError> {
        let split = Split::new(SplitPattern::Regex(regex.to_owned()), SplitDelimiterBehavior::Isolated, false)
            .map_err(|error| TokenizerError::Format(error.to_string()))?;
        let parts = vec![PreTokenizerWrapper::Split(split), PreTokenizerWrapper::ByteLevel(ByteLevel::new(false, false, false))];
        Ok(PreTokenizerWrapper::Sequence(Sequence::new(parts)))
    };
    Ok(match pre {
        "default" | "gpt-2" => Some((None, PreTokenizerWrapper::ByteLevel(ByteLevel::new(false, false, true)))),
        "smollm" => Some((None, super::train::pre_tokenizer())),
        "qwen2" => Some((Some(NormalizerWrapper::NFC(NFC)), split(QWEN_SPLIT)?)),
        "llama-bpe" => Some((None, split(LLAMA_SPLIT)?)),
        _ => None,
    })
}

fn wrong(key: &'static str, reason: String) -> TokenizerError {
    TokenizerError::Gguf { key, reason }
}

fn value<'m>(metadata: &'m Metadata, key: &'static str) -> Result<&'m Value, TokenizerError> {
    metadata.get(key).ok_or_else(|| wrong(key, "is missing".to_owned()))
}

fn text<'m>(metadata: &'m Metadata, key: &'static str) -> Result<&'m str, TokenizerError> {
    value(metadata, key)?.to_string().map(String::as_str).map_err(|error| wrong(key, error.to_string()))
}

fn texts<'m>(metadata: &'m Metadata, key: &'static str) -> Result<Vec<&'m str>, TokenizerError> {
    let list = value(metadata, key)?.to_vec().map_err(|error| wrong(key, error.to_string()))?;
    list.iter().map(|value| value.to_string().map(String::as_str).map_err(|error| wrong(key, error.to_string()))).collect()
}

fn merges(metadata: &Metadata) -> Result<Vec<(String, String)>, TokenizerError> {
    const KEY: &str = "tokenizer.ggml.merges";
    let pair = |text: &str| match text.split_once(' ') {
        Some((left, right)) => Ok((left.to_owned(), right.to_owned())),
        None => Err(wrong(KEY, format!("{text:?} is not a pair"))),
    };
    texts(metadata, KEY)?.into_iter().map(pair).collect()
}

/// The type of every token.
fn kinds(metadata: &Metadata, tokens: usize) -> Result<Vec<u64>, TokenizerError> {
    const KEY: &str = "tokenizer.ggml.token_type";
    let list = value(metadata, KEY)?.to_vec().map_err(|error| wrong(KEY, error.to_string()))?;
    if list.len() != tokens {
        return Err(wrong(KEY, format!("{} types for {tokens} tokens", list.len())));
    }
    let kind = |value: &Value| match value {
        Value::I32(kind) => u64::try_from(*kind).ok(),
        Value::U32(kind) => Some(u64::from(*kind)),
        other => other.to_u64().ok(),
    };
    list.iter().map(|value| kind(value).ok_or_else(|| wrong(KEY, "holds something that is not a number".to_owned()))).collect()
}
