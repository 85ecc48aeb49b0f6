//! A student from nothing: a vocabulary trained on the episodes it is to learn, our own chat template, random weights.

use candle_core::Device;

use super::config::NetworkConfig;
use super::data::EpisodeText;
use super::generation::GenerationConfig;
use super::network::{BaseWeights, Network, NetworkError};
use super::weights::random;
use super::{ChatCodec, ChatTemplate, GenerationPrompt, Student, StudentError, StudentTokenizer, VocabularySize};
use crate::base::SeedTree;

/// A student of about two million weights beside its embedding, for conversations like those of `episodes`. The same episodes and seed
/// give the same student.
///
/// # Errors
/// When there is no text to make a vocabulary of.
pub fn nano(episodes: &[EpisodeText], size: VocabularySize, seeds: &SeedTree) -> Result<Student, StudentError> {
    let template = ChatTemplate::nano()?;
    let render = |episode: &EpisodeText| template.render(&episode.messages, &episode.tools, GenerationPrompt::Absent);
    let texts = episodes.iter().map(render).collect::<Result<Vec<_>, _>>()?;
    let tokenizer = StudentTokenizer::train(texts.iter().map(String::as_str), size)?;
    let codec = ChatCodec::new(tokenizer, template)?;
    let config = NetworkConfig::nano(size.get(), codec.end_of_turn()).map_err(NetworkError::from)?;
    let weights = random(&config, &seeds.child("weights"), &Device::Cpu)?;
    let network = Network::new(weights.config, weights.tensors, BaseWeights::Train)?;
    Student::new(network, codec, GenerationConfig::default())
}
