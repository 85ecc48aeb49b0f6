//! A student on disk: a folder in Hugging Face's layout, or a GGUF file.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use candle_core::quantized::gguf_file::Content;
use candle_core::{DType, Device};
use serde_json::json;

use super::data::write_whole;
use super::weights::{self, Weights, WeightsError};
use super::{ChatCodec, ChatTemplate, CodecError, StudentTokenizer, TemplateError, TokenizerError};

const TOKENIZER: &str = "tokenizer.json";
const TEMPLATE: &str = "chat_template.jinja";

/// A student: shape, weights, and the way from messages to its tokens.
#[derive(Debug)]
pub struct Student {
    /// Shape and weights.
    pub weights: Weights,
    /// Tokenizer and chat template.
    pub codec: ChatCodec,
}

/// A student that cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// The weights or their configuration.
    #[error(transparent)]
    Weights(#[from] WeightsError),
    /// The tokenizer.
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),
    /// The chat template.
    #[error(transparent)]
    Template(#[from] TemplateError),
    /// The two do not fit.
    #[error("{}: {source}", path.display())]
    Codec {
        /// The student.
        path: PathBuf,
        /// Why.
        source: CodecError,
    },
    /// The vocabulary is larger than the network.
    #[error("{}: the tokenizer has {tokens} tokens, the network takes {rows}", path.display())]
    Vocabulary {
        /// The student.
        path: PathBuf,
        /// Of the tokenizer.
        tokens: usize,
        /// Of the network.
        rows: usize,
    },
    /// A file.
    #[error("{}: {source}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

impl Student {
    /// Reads a folder in Hugging Face's layout (`config.json`, `model.safetensors` or shards, `tokenizer.json`, a chat template), or a
    /// GGUF file, whose weights are dequantised. Weights are converted to `dtype`.
    ///
    /// # Errors
    /// Names the file that is missing, damaged or does not fit the others.
    pub fn load(path: &Path, dtype: DType, device: &Device) -> Result<Self, FolderError> {
        let (weights, tokenizer, template) = if path.is_dir() {
            let weights = weights::load(path, dtype, device)?;
            (weights, StudentTokenizer::load(&path.join(TOKENIZER))?, ChatTemplate::from_folder(path)?)
        } else {
            let weights = weights::load_gguf(path, dtype, device)?;
            let failed = |source| FolderError::Io { path: path.to_owned(), source };
            let mut file = BufReader::new(File::open(path).map_err(failed)?);
            let content = Content::read(&mut file).map_err(|error| failed(std::io::Error::other(error.to_string())))?;
            (weights, StudentTokenizer::from_gguf(&content.metadata)?, ChatTemplate::from_gguf(&content.metadata)?)
        };
        let (tokens, rows) = (tokenizer.vocabulary_size(), weights.config.vocabulary);
        if tokens > rows {
            return Err(FolderError::Vocabulary { path: path.to_owned(), tokens, rows });
        }
        let codec = ChatCodec::new(tokenizer, template).map_err(|source| FolderError::Codec { path: path.to_owned(), source })?;
        Ok(Self { weights, codec })
    }

    /// Writes a folder that `transformers` loads. Each file takes its place only when it is complete.
    ///
    /// # Errors
    /// Those of the system.
    pub fn save(&self, folder: &Path) -> Result<(), FolderError> {
        save_student(folder, &self.weights, &self.codec)
    }
}

/// Writes `weights` and `codec` as a folder that `transformers` loads.
///
/// # Errors
/// Those of the system.
pub fn save_student(folder: &Path, weights: &Weights, codec: &ChatCodec) -> Result<(), FolderError> {
    let write = |name: &str, text: &str| {
        let path = folder.join(name);
        write_whole(&path, text.as_bytes()).map_err(|source| FolderError::Io { path, source })
    };
    std::fs::create_dir_all(folder).map_err(|source| FolderError::Io { path: folder.to_owned(), source })?;
    codec.tokenizer().save(&folder.join(TOKENIZER))?;
    write(TEMPLATE, codec.template().source())?;
    let tokenizer = json!({
        "bos_token": (!codec.template().bos().is_empty()).then(|| codec.template().bos()),
        "clean_up_tokenization_spaces": false,
        "eos_token": codec.template().eos(),
        "model_max_length": weights.config.max_positions,
        "tokenizer_class": "PreTrainedTokenizerFast",
    });
    write("tokenizer_config.json", &format!("{tokenizer:#}\n"))?;
    let generation = json!({"eos_token_id": codec.end_of_turn(), "do_sample": true, "temperature": 0.7, "top_p": 0.95});
    write("generation_config.json", &format!("{generation:#}\n"))?;
    Ok(weights::save(folder, weights)?)
}
