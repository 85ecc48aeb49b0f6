//! The shape of a decoder, as Hugging Face's `config.json` states it.

use serde_json::{Map, Value, json};
use thiserror::Error;

/// A family of decoders the student can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// Qwen3 (dense): queries and keys are normalised per head; the head's width is stated by itself.
    Qwen3,
    /// Llama and what shares its shape (SmolLM2).
    Llama,
}

impl Family {
    /// `model_type` of `config.json`.
    #[must_use]
    pub fn model_type(self) -> &'static str {
        match self {
            Self::Qwen3 => "qwen3",
            Self::Llama => "llama",
        }
    }

    fn architecture(self) -> &'static str {
        match self {
            Self::Qwen3 => "Qwen3ForCausalLM",
            Self::Llama => "LlamaForCausalLM",
        }
    }

    /// Whether queries and keys pass a norm of their own before the rotation.
    #[must_use]
    pub fn normalises_heads(self) -> bool {
        self == Self::Qwen3
    }
}

/// Why a `config.json` cannot be used.
#[derive(Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConfigError {
    /// Not a JSON object.
    #[error("config.json is not a JSON object: {0}")]
    NotAnObject(String),
    /// A key that has no default is absent.
    #[error("config.json has no `{0}`")]
    Missing(&'static str),
    /// A key holds something of another kind or out of range.
    #[error("config.json: `{key}` is {found}, expected {expected}")]
    Wrong {
        /// The key.
        key: &'static str,
        /// What it holds.
        found: String,
        /// What it may hold.
        expected: &'static str,
    },
    /// The networks here are of other families.
    #[error("config.json: model_type `{0}` is not supported (supported: qwen3, llama)")]
    UnknownFamily(String),
    /// A feature of the family that is not implemented.
    #[error("config.json: `{key}` = {found} is not supported")]
    Unsupported {
        /// The key.
        key: &'static str,
        /// What it holds.
        found: String,
    },
}

/// The shape of a decoder.
#[derive(Debug, Clone, PartialEq)]
pub struct NetworkConfig {
    /// Which decoder.
    pub family: Family,
    /// Tokens of the vocabulary (rows of the embedding).
    pub vocabulary: usize,
    /// Width of the residual stream.
    pub hidden: usize,
    /// Width inside the feed-forward block.
    pub intermediate: usize,
    /// Decoder layers.
    pub layers: usize,
    /// Query heads.
    pub heads: usize,
    /// Key and value heads; divides `heads`.
    pub kv_heads: usize,
    /// Width of a head; even.
    pub head_dim: usize,
    /// Added to the mean square inside RMS norms.
    pub norm_epsilon: f64,
    /// Base of the rotary wavelengths.
    pub rope_theta: f64,
    /// Positions the network was made for.
    pub max_positions: usize,
    /// Whether the head is the embedding.
    pub tied: bool,
    /// Tokens that end a generation.
    pub eos: Vec<u32>,
    /// Token that starts a text, if the model has one.
    pub bos: Option<u32>,
}

impl NetworkConfig {
    /// Reads the text of a `config.json`.
    ///
    /// # Errors
    /// Names the key that is missing, wrong or not supported.
    pub fn from_json(text: &str) -> Result<Self, ConfigError> {
        let value: Value = serde_json::from_str(text).map_err(|error| ConfigError::NotAnObject(error.to_string()))?;
        let Value::Object(map) = value else { return Err(ConfigError::NotAnObject("it holds another kind of value".into())) };
        let family = match text_of(&map, "model_type")? {
            "qwen3" => Family::Qwen3,
            "llama" => Family::Llama,
            other => return Err(ConfigError::UnknownFamily(other.into())),
        };
        refuse_unsupported(&map)?;
        let heads = size(&map, "num_attention_heads")?;
        let hidden = size(&map, "hidden_size")?;
        let head_dim = match (present(&map, "head_dim"), family) {
            (None, Family::Llama) => hidden / heads.max(1),
            _ => size(&map, "head_dim")?,
        };
        let kv_heads = match (present(&map, "num_key_value_heads"), family) {
            (None, Family::Llama) => heads,
            _ => size(&map, "num_key_value_heads")?,
        };
        Self {
            family,
            vocabulary: size(&map, "vocab_size")?,
            hidden,
            intermediate: size(&map, "intermediate_size")?,
            layers: size(&map, "num_hidden_layers")?,
            heads,
            kv_heads,
            head_dim,
            norm_epsilon: number(&map, "rms_norm_eps")?,
            rope_theta: rope_theta(&map)?,
            max_positions: size(&map, "max_position_embeddings")?,
            // Absent means untied in both families.
            tied: flag(&map, "tie_word_embeddings")?,
            eos: tokens(&map, "eos_token_id")?,
            bos: tokens(&map, "bos_token_id")?.first().copied(),
        }
        .checked()
    }

    /// The text of a `config.json` that `transformers` reads back as this network. `rope_theta` is written at both
    /// places it may be looked for.
    #[must_use]
    pub fn to_json(&self) -> String {
        let eos = match self.eos.as_slice() {
            [] => Value::Null,
            [one] => json!(one),
            several => json!(several),
        };
        let value = json!({
            "architectures": [self.family.architecture()],
            "attention_bias": false,
            "attention_dropout": 0.0,
            "bos_token_id": self.bos,
            "dtype": "float32",
            "eos_token_id": eos,
            "head_dim": self.head_dim,
            "hidden_act": "silu",
            "hidden_size": self.hidden,
            "initializer_range": 0.02,
            "intermediate_size": self.intermediate,
            "max_position_embeddings": self.max_positions,
            "model_type": self.family.model_type(),
            "num_attention_heads": self.heads,
            "num_hidden_layers": self.layers,
            "num_key_value_heads": self.kv_heads,
            "rms_norm_eps": self.norm_epsilon,
            "rope_parameters": { "rope_theta": self.rope_theta, "rope_type": "default" },
            "rope_theta": self.rope_theta,
            "tie_word_embeddings": self.tied,
            "use_cache": true,
            "vocab_size": self.vocabulary,
        });
        format!("{value:#}\n")
    }

    /// The embedded default student: a small Qwen3 (2.0 M parameters without the embedding) for a vocabulary of
    /// `vocabulary` tokens, of which `eos` ends a turn.
    ///
    /// # Errors
    /// [`ConfigError::Wrong`] for an empty vocabulary.
    pub fn nano(vocabulary: usize, eos: u32) -> Result<Self, ConfigError> {
        Self {
            family: Family::Qwen3,
            vocabulary,
            hidden: 192,
            intermediate: 512,
            layers: 5,
            heads: 4,
            kv_heads: 2,
            head_dim: 48,
            norm_epsilon: 1e-6,
            rope_theta: 10_000.0,
            max_positions: 8192,
            tied: true,
            eos: vec![eos],
            bos: None,
        }
        .checked()
    }

    /// The same configuration if its sizes fit together.
    ///
    /// # Errors
    /// Names the first size that does not.
    pub fn checked(self) -> Result<Self, ConfigError> {
        let sizes = [
            ("vocab_size", self.vocabulary),
            ("hidden_size", self.hidden),
            ("intermediate_size", self.intermediate),
            ("num_hidden_layers", self.layers),
            ("num_attention_heads", self.heads),
            ("num_key_value_heads", self.kv_heads),
            ("head_dim", self.head_dim),
            ("max_position_embeddings", self.max_positions),
        ];
        for (key, size) in sizes {
            // Far above any decoder; keeps products of two sizes within an `isize`.
            if size == 0 || size > 1 << 28 {
                return Err(ConfigError::Wrong { key, found: size.to_string(), expected: "a size between 1 and 2^28" });
            }
        }
        if !self.heads.is_multiple_of(self.kv_heads) {
            let found = format!("{} for {} heads", self.kv_heads, self.heads);
            return Err(ConfigError::Wrong { key: "num_key_value_heads", found, expected: "a divisor of num_attention_heads" });
        }
        if !self.head_dim.is_multiple_of(2) {
            return Err(ConfigError::Wrong { key: "head_dim", found: self.head_dim.to_string(), expected: "an even number" });
        }
        for (key, value) in [("rms_norm_eps", self.norm_epsilon), ("rope_theta", self.rope_theta)] {
            if !value.is_finite() || value <= 0.0 {
                return Err(ConfigError::Wrong { key, found: value.to_string(), expected: "a positive number" });
            }
        }
        Ok(self)
    }

    /// Numbers in the network; a tied head counts once.
    #[must_use]
    pub fn parameters(&self) -> usize {
        let attention = self.hidden * self.head_dim * (2 * self.heads + 2 * self.kv_heads);
        let head_norms = if self.family.normalises_heads() { 2 * self.head_dim } else { 0 };
        let layer = attention + head_norms + 3 * self.hidden * self.intermediate + 2 * self.hidden;
        let embedding = self.vocabulary * self.hidden * if self.tied { 1 } else { 2 };
        embedding + self.layers * layer + self.hidden
    }
}

fn present<'a>(map: &'a Map<String, Value>, key: &str) -> Option<&'a Value> {
    map.get(key).filter(|value| !value.is_null())
}

fn wrong(key: &'static str, found: &Value, expected: &'static str) -> ConfigError {
    ConfigError::Wrong { key, found: shown(found), expected }
}

/// A value as an error shows it: cut, since the file is foreign.
fn shown(value: &Value) -> String {
    value.to_string().chars().take(80).collect()
}

fn text_of<'a>(map: &'a Map<String, Value>, key: &'static str) -> Result<&'a str, ConfigError> {
    let value = present(map, key).ok_or(ConfigError::Missing(key))?;
    value.as_str().ok_or_else(|| wrong(key, value, "a text"))
}

fn size(map: &Map<String, Value>, key: &'static str) -> Result<usize, ConfigError> {
    let value = present(map, key).ok_or(ConfigError::Missing(key))?;
    value.as_u64().and_then(|size| usize::try_from(size).ok()).ok_or_else(|| wrong(key, value, "a size"))
}

fn number(map: &Map<String, Value>, key: &'static str) -> Result<f64, ConfigError> {
    let value = present(map, key).ok_or(ConfigError::Missing(key))?;
    value.as_f64().ok_or_else(|| wrong(key, value, "a number"))
}

fn flag(map: &Map<String, Value>, key: &'static str) -> Result<bool, ConfigError> {
    let Some(value) = present(map, key) else { return Ok(false) };
    value.as_bool().ok_or_else(|| wrong(key, value, "true or false"))
}

fn tokens(map: &Map<String, Value>, key: &'static str) -> Result<Vec<u32>, ConfigError> {
    let Some(value) = present(map, key) else { return Ok(Vec::new()) };
    let token = |value: &Value| value.as_u64().and_then(|id| u32::try_from(id).ok());
    match value {
        Value::Array(values) => values.iter().map(token).collect(),
        one => token(one).map(|id| vec![id]),
    }
    .ok_or_else(|| wrong(key, value, "a token id or a list of them"))
}

/// At the top (transformers 4) or inside `rope_parameters` (transformers 5).
fn rope_theta(map: &Map<String, Value>) -> Result<f64, ConfigError> {
    match present(map, "rope_parameters") {
        Some(Value::Object(inner)) if present(inner, "rope_theta").is_some() => number(inner, "rope_theta"),
        Some(Value::Object(_)) | None => number(map, "rope_theta"),
        Some(other) => Err(wrong("rope_parameters", other, "an object")),
    }
}

fn refuse_unsupported(map: &Map<String, Value>) -> Result<(), ConfigError> {
    for key in ["attention_bias", "mlp_bias", "use_sliding_window"] {
        if flag(map, key)? {
            return Err(ConfigError::Unsupported { key, found: "true".into() });
        }
    }
    if let Some(activation) = present(map, "hidden_act")
        && activation.as_str() != Some("silu")
    {
        return Err(ConfigError::Unsupported { key: "hidden_act", found: shown(activation) });
    }
    for key in ["rope_scaling", "rope_parameters"] {
        let Some(Value::Object(rope)) = present(map, key) else { continue };
        let kind = present(rope, "rope_type").or_else(|| present(rope, "type"));
        if let Some(kind) = kind
            && kind.as_str() != Some("default")
        {
            return Err(ConfigError::Unsupported { key, found: shown(kind) });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The published configuration of Qwen3-4B-Instruct-2507, keys that matter.
    const QWEN3_4B: &str = r#"{"architectures":["Qwen3ForCausalLM"],"attention_bias":false,"bos_token_id":151643,"eos_token_id":151645,
        "head_dim":128,"hidden_act":"silu","hidden_size":2560,"intermediate_size":9728,"max_position_embeddings":262144,
        "model_type":"qwen3","num_attention_heads":32,"num_hidden_layers":36,"num_key_value_heads":8,"rms_norm_eps":1e-06,
        "rope_scaling":null,"rope_theta":5000000,"sliding_window":null,"tie_word_embeddings":true,"use_sliding_window":false,"vocab_size":151936}"#;

    fn smollm2() -> Value {
        json!({"model_type": "llama", "hidden_size": 576, "intermediate_size": 1536, "num_hidden_layers": 30, "num_attention_heads": 9,
            "num_key_value_heads": 3, "rms_norm_eps": 1e-5, "rope_parameters": {"rope_theta": 1e5, "rope_type": "default"},
            "max_position_embeddings": 8192, "vocab_size": 49152, "tie_word_embeddings": true, "eos_token_id": [2, 0]})
    }

    #[test]
    fn published_configurations_have_their_published_sizes() {
        // The model card says 4.0 B parameters, 3.6 B of them outside the embedding: 4,022,468,096 counted by transformers.
        assert_eq!(NetworkConfig::from_json(QWEN3_4B).unwrap().parameters(), 4_022_468_096);
        let small = NetworkConfig::from_json(&smollm2().to_string()).unwrap();
        assert_eq!(small.parameters(), 134_515_008);
        assert_eq!((small.head_dim, small.rope_theta, small.eos.as_slice()), (64, 1e5, [2, 0].as_slice()));
    }

    #[test]
    fn what_is_written_is_read_back() {
        for config in [
            NetworkConfig::from_json(QWEN3_4B).unwrap(),
            NetworkConfig::from_json(&smollm2().to_string()).unwrap(),
            NetworkConfig::nano(4096, 3).unwrap(),
        ] {
            assert_eq!(NetworkConfig::from_json(&config.to_json()).unwrap(), config);
        }
    }

    #[test]
    fn a_nano_student_has_two_to_five_million_parameters() {
        for vocabulary in [2048, 4096, 8192] {
            let count = NetworkConfig::nano(vocabulary, 0).unwrap().parameters();
            assert!((2_000_000..5_000_000).contains(&count), "{count}");
        }
        assert!(NetworkConfig::nano(0, 0).is_err());
    }

    #[test]
    fn errors_name_the_key() {
        let with = |key: &str, value: Value| {
            let mut config = smollm2();
            config[key] = value;
            NetworkConfig::from_json(&config.to_string()).unwrap_err().to_string()
        };
        for key in ["vocab_size", "hidden_size", "rms_norm_eps", "max_position_embeddings", "num_hidden_layers"] {
            assert_eq!(with(key, Value::Null), format!("config.json has no `{key}`"));
        }
        assert!(with("model_type", json!("mamba")).contains("`mamba` is not supported"));
        assert!(with("num_key_value_heads", json!(4)).contains("num_key_value_heads"));
        assert!(with("rope_scaling", json!({"rope_type": "llama3"})).contains("rope_scaling"));
        assert!(with("hidden_size", json!("wide")).contains("`hidden_size` is \"wide\""));
        assert!(with("attention_bias", json!(true)).contains("attention_bias"));
    }
}
