//! A student as files: a folder in Hugging Face's layout, or one GGUF file.

use std::io::BufReader;
use std::path::{Path, PathBuf};

use candle_core::quantized::gguf_file;
use candle_core::{DType, Device};
use serde_json::json;

use super::generation::GenerationConfig;
use super::network::{BaseWeights, Network, NetworkError};
use super::weights::{self, Weights, WeightsError};
use super::{ChatCodec, ChatTemplate, CodecError, StudentTokenizer, TemplateError, TokenizerError};
use crate::base::write_whole;

/// Longest `generation_config.json` that is read, in bytes.
const LONGEST_CONFIG: u64 = 1024 * 1024;

/// A student: a network, the way from messages to its tokens, and how its makers want it to be drawn from.
#[derive(Debug)]
pub struct Student {
    /// The network.
    pub network: Network,
    /// Messages to tokens.
    pub codec: ChatCodec,
    /// What its `generation_config.json` says.
    pub generation: GenerationConfig,
}

/// A student that cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StudentError {
    /// There is nothing of the kind.
    #[error("{path} is no student: neither a folder with config.json, model.safetensors and tokenizer.json, nor a .gguf file")]
    NoStudent {
        /// Where.
        path: PathBuf,
    },
    /// The system refused.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A `generation_config.json` that cannot be used.
    #[error("{path}: {why}")]
    Generation {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// Tokens and network do not belong together.
    #[error("the tokenizer has {tokens} tokens, the network rows for {rows}: they are not of the same model")]
    Vocabulary {
        /// Tokens of the tokenizer.
        tokens: usize,
        /// Rows of the embedding.
        rows: usize,
    },
    /// The system gives no thread to compute on.
    #[error("no thread for the student: {0}")]
    Thread(std::io::Error),
    /// The weights.
    #[error(transparent)]
    Weights(#[from] WeightsError),
    /// The network.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// The tokenizer.
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),
    /// The template.
    #[error(transparent)]
    Template(#[from] TemplateError),
    /// Tokenizer and template together.
    #[error(transparent)]
    Codec(#[from] CodecError),
}

impl Student {
    /// A student of its parts.
    ///
    /// # Errors
    /// When the tokenizer has more tokens than the network rows.
    pub fn new(network: Network, codec: ChatCodec, generation: GenerationConfig) -> Result<Self, StudentError> {
        let (tokens, rows) = (codec.tokenizer().vocabulary_size(), network.config().vocabulary);
        if tokens > rows {
            return Err(StudentError::Vocabulary { tokens, rows });
        }
        Ok(Self { network, codec, generation })
    }

    /// Reads a folder in Hugging Face's layout, or a `.gguf` file, with weights as `dtype` on `device`.
    ///
    /// # Errors
    /// Names the file that is missing, damaged or not supported.
    pub fn load(path: &Path, base: BaseWeights, dtype: DType, device: &Device) -> Result<Self, StudentError> {
        if path.is_file() {
            return Self::load_gguf(path, base, dtype, device);
        }
        if !path.join("config.json").is_file() {
            return Err(StudentError::NoStudent { path: path.to_owned() });
        }
        let tokenizer = StudentTokenizer::load(&path.join("tokenizer.json"))?;
        let codec = ChatCodec::new(tokenizer, ChatTemplate::from_folder(path)?)?;
        let generation = load_generation(&path.join("generation_config.json"))?;
        let Weights { config, tensors } = weights::load(path, dtype, device)?;
        Self::new(Network::new(config, tensors, base)?, codec, generation)
    }

    fn load_gguf(path: &Path, base: BaseWeights, dtype: DType, device: &Device) -> Result<Self, StudentError> {
        let Weights { config, tensors } = weights::load_gguf(path, dtype, device)?;
        let file = std::fs::File::open(path).map_err(|source| StudentError::Io { path: path.to_owned(), source })?;
        let content = gguf_file::Content::read(&mut BufReader::new(file)).map_err(NetworkError::from)?;
        let tokenizer = StudentTokenizer::from_gguf(&content.metadata)?;
        let codec = ChatCodec::new(tokenizer, ChatTemplate::from_gguf(&content.metadata)?)?;
        Self::new(Network::new(config, tensors, base)?, codec, GenerationConfig::default())
    }

    /// Writes a folder in Hugging Face's layout that [`Self::load`] and `transformers` read; adapters are merged into the weights. Each
    /// file takes its place only when it is complete, `config.json` last.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn save(&self, folder: &Path) -> Result<(), StudentError> {
        std::fs::create_dir_all(folder).map_err(|source| StudentError::Io { path: folder.to_owned(), source })?;
        self.codec.tokenizer().save(&folder.join("tokenizer.json"))?;
        let write = |name: &str, text: &str| {
            let path = folder.join(name);
            write_whole(&path, text.as_bytes()).map_err(|source| StudentError::Io { path, source })
        };
        write("chat_template.jinja", self.codec.template().source())?;
        write("tokenizer_config.json", &self.tokenizer_config())?;
        write("generation_config.json", &GenerationConfig { eos: self.ends(), ..self.generation.clone() }.to_json())?;
        let weights = Weights { config: self.network.config().clone(), tensors: self.network.merged_weights()? };
        Ok(weights::save(folder, &weights)?)
    }

    /// See [`Network::weights_hash`].
    ///
    /// # Errors
    /// Those of candle.
    pub fn weights_hash(&self) -> Result<blake3::Hash, NetworkError> {
        self.network.weights_hash()
    }

    /// Every token that ends a reply, the end of a turn first.
    fn ends(&self) -> Vec<u32> {
        let mut ends = vec![self.codec.end_of_turn()];
        for id in self.generation.eos.iter().chain(&self.network.config().eos) {
            if !ends.contains(id) {
                ends.push(*id);
            }
        }
        ends
    }

    fn tokenizer_config(&self) -> String {
        let template = self.codec.template();
        let text = |text: &str| if text.is_empty() { serde_json::Value::Null } else { json!(text) };
        let value = json!({
            "bos_token": text(template.bos()),
            "clean_up_tokenization_spaces": false,
            "eos_token": text(template.eos()),
            "model_max_length": self.network.config().max_positions,
            "tokenizer_class": "PreTrainedTokenizerFast",
        });
        format!("{value:#}\n")
    }
}

/// A `generation_config.json`; the default where there is none.
fn load_generation(path: &Path) -> Result<GenerationConfig, StudentError> {
    let failed = |source| StudentError::Io { path: path.to_owned(), source };
    match std::fs::metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(GenerationConfig::default()),
        Err(error) => return Err(failed(error)),
        Ok(file) if file.len() > LONGEST_CONFIG => {
            return Err(StudentError::Generation {
                path: path.to_owned(),
                why: format!("{} bytes; at most {LONGEST_CONFIG} are read", file.len()),
            });
        }
        Ok(_) => {}
    }
    let text = std::fs::read_to_string(path).map_err(failed)?;
    GenerationConfig::from_json(&text).map_err(|why| StudentError::Generation { path: path.to_owned(), why })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::student::generation::tests::student;

    fn load(path: &Path) -> Result<Student, StudentError> {
        Student::load(path, BaseWeights::Frozen, DType::F32, &Device::Cpu)
    }

    #[test]
    fn what_is_saved_comes_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("made/student");
        let mut saved = student(1);
        saved.generation = GenerationConfig { top_k: Some(7), repetition_penalty: 1.25, eos: vec![9] };
        saved.save(&path).unwrap();
        let loaded = load(&path).unwrap();
        assert_eq!(loaded.weights_hash().unwrap(), saved.weights_hash().unwrap());
        assert_eq!(loaded.network.config(), saved.network.config());
        assert_eq!(loaded.codec.tokenizer().json(), saved.codec.tokenizer().json());
        assert_eq!(loaded.codec.template().source(), saved.codec.template().source());
        assert_eq!(loaded.codec.template().eos(), "<|im_end|>");
        let eos = vec![saved.codec.end_of_turn(), 9];
        assert_eq!(loaded.generation, GenerationConfig { eos, ..saved.generation });
    }

    #[test]
    fn what_is_no_student_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let error = || load(folder.path()).unwrap_err().to_string();
        assert!(error().contains("is no student"));
        student(1).save(folder.path()).unwrap();
        std::fs::write(folder.path().join("generation_config.json"), "{\"top_k\": \"many\"}").unwrap();
        assert!(error().contains("generation_config.json: `top_k`"), "{}", error());
        std::fs::remove_file(folder.path().join("generation_config.json")).unwrap();
        assert_eq!(load(folder.path()).unwrap().generation, GenerationConfig::default());
        std::fs::remove_file(folder.path().join("tokenizer.json")).unwrap();
        assert!(error().contains("tokenizer.json"));
        std::fs::write(folder.path().join("model.gguf"), b"GGUF").unwrap();
        assert!(load(&folder.path().join("model.gguf")).unwrap_err().to_string().contains("model.gguf"));
    }

    #[test]
    fn a_vocabulary_of_another_model_is_refused() {
        let Student { codec, network, .. } = student(1);
        let mut config = network.config().clone();
        config.vocabulary = 300;
        let weights = weights::random(&config, &crate::base::SeedTree::new(1), &Device::Cpu).unwrap();
        let network = Network::new(config, weights.tensors, BaseWeights::Frozen).unwrap();
        let error = Student::new(network, codec, GenerationConfig::default()).unwrap_err();
        assert!(matches!(error, StudentError::Vocabulary { rows: 300, .. }), "{error}");
    }
}
