//! A student from nothing: a vocabulary trained on the episodes it is to learn, our own chat template, random weights.

use candle_core::Device;

use super::config::{ConfigError, NetworkConfig};
use super::data::EpisodeText;
use super::generation::GenerationConfig;
use super::network::{BaseWeights, Network, NetworkError};
use super::weights::{WeightsError, random};
use super::{
    ChatCodec, ChatTemplate, CodecError, GenerationPrompt, Student, StudentError, StudentTokenizer, TemplateError, TokenizerError,
    VocabularySize,
};
use crate::base::SeedTree;

/// A student that cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum NanoError {
    /// The vocabulary.
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),
    /// The template.
    #[error(transparent)]
    Template(#[from] TemplateError),
    /// The two do not fit.
    #[error(transparent)]
    Codec(#[from] CodecError),
    /// The shape.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The weights.
    #[error(transparent)]
    Weights(#[from] WeightsError),
    /// The network.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// The parts do not fit.
    #[error(transparent)]
    Student(#[from] StudentError),
}

/// A student of about two million weights beside its embedding, for conversations like those of `episodes`. The same episodes and seed
/// give the same student.
///
/// # Errors
/// When there is no text to make a vocabulary of.
pub fn nano(episodes: &[EpisodeText], size: VocabularySize, seeds: &SeedTree) -> Result<Student, NanoError> {
    let template = ChatTemplate::nano()?;
    let render = |episode: &EpisodeText| template.render(&episode.messages, &episode.tools, GenerationPrompt::Absent);
    let texts = episodes.iter().map(render).collect::<Result<Vec<_>, _>>()?;
    let tokenizer = StudentTokenizer::train(texts.iter().map(String::as_str), size)?;
    let codec = ChatCodec::new(tokenizer, template)?;
    let config = NetworkConfig::nano(size.get(), codec.end_of_turn())?;
    let weights = random(&config, &seeds.child("weights"), &Device::Cpu)?;
    let network = Network::new(weights.config, weights.tensors, BaseWeights::Train)?;
    Ok(Student::new(network, codec, GenerationConfig::default())?)
}
