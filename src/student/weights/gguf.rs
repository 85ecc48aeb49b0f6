//! Weights from a GGUF file, dequantised for training (candle's reader of the format).

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use candle_core::quantized::gguf_file::{Content, Value};
use candle_core::{DType, Device, Tensor};

use super::{Weights, WeightsError};
use crate::student::config::{Family, NetworkConfig};
use crate::student::network;

/// Reads a GGUF file of the architectures `llama` and `qwen3`; every weight is dequantised to `dtype` on `device`.
///
/// # Errors
/// Names the file, and the key or tensor that is missing, damaged or not supported.
pub fn load_gguf(path: &Path, dtype: DType, device: &Device) -> Result<Weights, WeightsError> {
    let mut file = BufReader::new(File::open(path).map_err(WeightsError::io(path))?);
    let content = Content::read(&mut file).map_err(|error| WeightsError::damaged(path, error))?;
    let config = read_config(path, &content)?;
    if content.tensor_infos.contains_key("rope_freqs.weight") {
        return Err(WeightsError::unsupported(path, "scaled rotary frequencies (rope_freqs.weight)"));
    }
    let mut tensors = BTreeMap::new();
    for (name, _) in network::weights(&config) {
        let stored = stored_name(&name).ok_or_else(|| WeightsError::tensor(path, &name, "has no name in this format"))?;
        if !content.tensor_infos.contains_key(&stored) {
            return Err(WeightsError::tensor(path, &stored, "is missing"));
        }
        let tensor = content
            .tensor(&mut file, &stored, &Device::Cpu)
            .and_then(|tensor| tensor.dequantize(&Device::Cpu))
            .and_then(|tensor| in_halves(&config, &name, tensor))
            .and_then(|tensor| tensor.to_device(device)?.to_dtype(dtype))
            .map_err(|error| WeightsError::tensor(path, &stored, error))?;
        tensors.insert(name, tensor);
    }
    Ok(Weights { config, tensors })
}

/// The name of a weight in a GGUF file.
fn stored_name(name: &str) -> Option<String> {
    match name {
        "model.embed_tokens.weight" => return Some("token_embd.weight".into()),
        "model.norm.weight" => return Some("output_norm.weight".into()),
        "lm_head.weight" => return Some("output.weight".into()),
        _ => {}
    }
    let (layer, part) = name.strip_prefix("model.layers.")?.split_once('.')?;
    let part = match part.strip_suffix(".weight")? {
        "self_attn.q_proj" => "attn_q",
        "self_attn.k_proj" => "attn_k",
        "self_attn.v_proj" => "attn_v",
        "self_attn.o_proj" => "attn_output",
        "self_attn.q_norm" => "attn_q_norm",
        "self_attn.k_norm" => "attn_k_norm",
        "mlp.gate_proj" => "ffn_gate",
        "mlp.up_proj" => "ffn_up",
        "mlp.down_proj" => "ffn_down",
        "input_layernorm" => "attn_norm",
        "post_attention_layernorm" => "ffn_norm",
        _ => return None,
    };
    Some(format!("blk.{layer}.{part}.weight"))
}

/// Files of the `llama` architecture hold the rows of queries and keys in the order of neighbouring pairs; the networks
/// here rotate halves against each other.
fn in_halves(config: &NetworkConfig, name: &str, tensor: Tensor) -> candle_core::Result<Tensor> {
    let heads = match () {
        () if config.family != Family::Llama => return Ok(tensor),
        () if name.ends_with("self_attn.q_proj.weight") => config.heads,
        () if name.ends_with("self_attn.k_proj.weight") => config.kv_heads,
        () => return Ok(tensor),
    };
    let (width_out, width_in) = tensor.dims2()?;
    let pairs = tensor.reshape((heads, width_out / heads / 2, 2, width_in))?;
    pairs.transpose(1, 2)?.contiguous()?.reshape((width_out, width_in))
}

fn read_config(path: &Path, content: &Content) -> Result<NetworkConfig, WeightsError> {
    let keys = Keys { path, values: &content.metadata };
    let architecture = keys.text("general.architecture")?;
    let family = match architecture.as_str() {
        "llama" => Family::Llama,
        "qwen3" => Family::Qwen3,
        other => return Err(WeightsError::unsupported(path, format!("architecture `{other}` (llama and qwen3 are)"))),
    };
    let key = |name: &str| format!("{architecture}.{name}");
    if let Some(kind) = content.metadata.get(&key("rope.scaling.type")).and_then(|value| value.to_string().ok())
        && kind != "none"
    {
        return Err(WeightsError::unsupported(path, format!("rotary scaling `{kind}`")));
    }
    let heads = keys.size(&key("attention.head_count"))?;
    let hidden = keys.size(&key("embedding_length"))?;
    let embedding =
        content.tensor_infos.get("token_embd.weight").ok_or_else(|| WeightsError::tensor(path, "token_embd.weight", "is missing"))?;
    let optional = |name: &str| content.metadata.contains_key(name).then(|| keys.size(name)).transpose();
    let config = NetworkConfig {
        family,
        vocabulary: embedding.shape.dims().first().copied().unwrap_or(0),
        hidden,
        intermediate: keys.size(&key("feed_forward_length"))?,
        layers: keys.size(&key("block_count"))?,
        heads,
        kv_heads: optional(&key("attention.head_count_kv"))?.unwrap_or(heads),
        head_dim: optional(&key("attention.key_length"))?.unwrap_or(hidden / heads.max(1)),
        norm_epsilon: rounded(keys.number(&key("attention.layer_norm_rms_epsilon"))?),
        // The format's default.
        rope_theta: if content.metadata.contains_key(&key("rope.freq_base")) {
            rounded(keys.number(&key("rope.freq_base"))?)
        } else {
            10_000.0
        },
        max_positions: keys.size(&key("context_length"))?,
        tied: !content.tensor_infos.contains_key("output.weight"),
        eos: keys.token("tokenizer.ggml.eos_token_id")?.into_iter().collect(),
        bos: keys.token("tokenizer.ggml.bos_token_id")?,
    };
    config.checked().map_err(|source| WeightsError::Config { path: path.to_owned(), source })
}

/// The shortest decimal of a single-precision number: `1e-5` is stored as the `f32` next to it.
fn rounded(value: f32) -> f64 {
    value.to_string().parse().unwrap_or_else(|_| f64::from(value))
}

/// The metadata of a file.
struct Keys<'a> {
    path: &'a Path,
    values: &'a HashMap<String, Value>,
}

impl Keys<'_> {
    fn value(&self, key: &str) -> Result<&Value, WeightsError> {
        self.values.get(key).ok_or_else(|| WeightsError::damaged(self.path, format!("it has no key `{key}`")))
    }

    fn wrong(&self, key: &str) -> WeightsError {
        WeightsError::damaged(self.path, format!("its key `{key}` holds a value of another kind or out of range"))
    }

    fn text(&self, key: &str) -> Result<String, WeightsError> {
        self.value(key)?.to_string().cloned().map_err(|_| self.wrong(key))
    }

    fn size(&self, key: &str) -> Result<usize, WeightsError> {
        let value = self.value(key)?;
        let size = value.to_u32().map(u64::from).or_else(|_| value.to_u64());
        size.ok().and_then(|size| usize::try_from(size).ok()).ok_or_else(|| self.wrong(key))
    }

    fn number(&self, key: &str) -> Result<f32, WeightsError> {
        self.value(key)?.to_f32().map_err(|_| self.wrong(key))
    }

    fn token(&self, key: &str) -> Result<Option<u32>, WeightsError> {
        self.values.get(key).map(|value| value.to_u32().map_err(|_| self.wrong(key))).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::SeedTree;
    use crate::student::weights::random;
    use candle_core::quantized::{GgmlDType, QTensor, gguf_file};

    /// Writes weights as a converter would: rows of queries and keys in pairs for `llama`.
    fn write(path: &Path, architecture: &str, weights: &Weights) {
        let config = &weights.config;
        let key = |name: &str| format!("{architecture}.{name}");
        let size = |n: usize| Value::U32(u32::try_from(n).unwrap());
        #[expect(clippy::cast_possible_truncation, reason = "the format stores single precision")]
        let metadata = [
            ("general.architecture".to_owned(), Value::String(architecture.to_owned())),
            (key("embedding_length"), size(config.hidden)),
            (key("block_count"), size(config.layers)),
            (key("feed_forward_length"), size(config.intermediate)),
            (key("attention.head_count"), size(config.heads)),
            (key("attention.head_count_kv"), size(config.kv_heads)),
            (key("attention.key_length"), size(config.head_dim)),
            (key("attention.layer_norm_rms_epsilon"), Value::F32(config.norm_epsilon as f32)),
            (key("rope.freq_base"), Value::F32(config.rope_theta as f32)),
            (key("context_length"), size(config.max_positions)),
            ("tokenizer.ggml.eos_token_id".to_owned(), Value::U32(config.eos[0])),
        ];
        let tensors: Vec<(String, QTensor)> = weights
            .tensors
            .iter()
            .map(|(name, tensor)| {
                let mut tensor = tensor.clone();
                if architecture == "llama" && (name.ends_with("q_proj.weight") || name.ends_with("k_proj.weight")) {
                    let (rows, columns) = tensor.dims2().unwrap();
                    let half = config.head_dim / 2;
                    let order: Vec<u32> = (0..rows)
                        .map(|row| {
                            let (head, within) = (row / config.head_dim, row % config.head_dim);
                            u32::try_from(head * config.head_dim + within / 2 + within % 2 * half).unwrap()
                        })
                        .collect();
                    tensor = tensor.index_select(&Tensor::new(order, &Device::Cpu).unwrap(), 0).unwrap().reshape((rows, columns)).unwrap();
                }
                (stored_name(name).unwrap(), QTensor::quantize(&tensor, GgmlDType::F32).unwrap())
            })
            .collect();
        let metadata: Vec<(&str, &Value)> = metadata.iter().map(|(key, value)| (key.as_str(), value)).collect();
        let tensors: Vec<(&str, &QTensor)> = tensors.iter().map(|(name, tensor)| (name.as_str(), tensor)).collect();
        gguf_file::write(&mut File::create(path).unwrap(), &metadata, &tensors).unwrap();
    }

    #[test]
    fn both_architectures_come_back_as_they_were() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("small.gguf");
        for family in [Family::Llama, Family::Qwen3] {
            let mut config = NetworkConfig::nano(40, 7).unwrap();
            (config.family, config.hidden, config.intermediate, config.layers, config.head_dim) = (family, 16, 24, 2, 8);
            let weights = random(&config, &SeedTree::new(3), &Device::Cpu).unwrap();
            write(&path, family.model_type(), &weights);
            let read = load_gguf(&path, DType::F32, &Device::Cpu).unwrap();
            assert_eq!(read.config, config);
            for (name, tensor) in &weights.tensors {
                let numbers = |t: &Tensor| t.flatten_all().unwrap().to_vec1::<f32>().unwrap();
                assert_eq!(numbers(&read.tensors[name]), numbers(tensor), "{name}");
            }
        }
    }

    #[test]
    fn foreign_files_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("foreign.gguf");
        let error = || load_gguf(&path, DType::F32, &Device::Cpu).unwrap_err().to_string();
        assert!(error().contains("foreign.gguf"));
        std::fs::write(&path, b"no such thing").unwrap();
        assert!(error().contains("damaged"));
        let config = NetworkConfig::nano(8, 0).unwrap();
        let none = Weights { config, tensors: BTreeMap::new() };
        write(&path, "mamba", &none);
        assert!(error().contains("architecture `mamba`"));
        write(&path, "qwen3", &none);
        assert!(error().contains("token_embd.weight"));
    }
}
