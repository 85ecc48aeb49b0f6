//! What a model's `generation_config.json` says.

use serde_json::{Value, json};

use super::{GenerationError, Sampling};

/// How a model's makers want it to be drawn from, as far as a request does not say otherwise.
#[derive(Debug, Clone, PartialEq)]
pub struct GenerationConfig {
    /// The most probable tokens that are drawn from; all where there is none.
    pub top_k: Option<usize>,
    /// See [`Sampling::with_repetition_penalty`].
    pub repetition_penalty: f64,
    /// Tokens that end a reply, beside the end of a turn.
    pub eos: Vec<u32>,
}

impl Default for GenerationConfig {
    /// The network's own distribution.
    fn default() -> Self {
        Self { top_k: None, repetition_penalty: 1.0, eos: Vec::new() }
    }
}

impl GenerationConfig {
    /// Reads the text of a `generation_config.json`. Keys it does not know, or `null`, are left out, as `transformers` does;
    /// temperature and top-p come with every request.
    ///
    /// # Errors
    /// A sentence about what is wrong.
    pub fn from_json(text: &str) -> Result<Self, String> {
        let value: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let Value::Object(map) = value else { return Err("it is not a JSON object".to_owned()) };
        let present = |key: &str| map.get(key).filter(|value| !value.is_null());
        let top_k = match present("top_k") {
            None => None,
            // 0 is how `transformers` writes "all".
            Some(value) => match value.as_u64().and_then(|top_k| usize::try_from(top_k).ok()) {
                Some(top_k) => Some(top_k).filter(|top_k| *top_k > 0),
                None => return Err("`top_k` is not a number of tokens".to_owned()),
            },
        };
        let repetition_penalty = match present("repetition_penalty") {
            None => 1.0,
            Some(value) => value.as_f64().ok_or("`repetition_penalty` is not a number")?,
        };
        let token = |value: &Value| value.as_u64().and_then(|id| u32::try_from(id).ok());
        let eos = match present("eos_token_id") {
            None => Some(Vec::new()),
            Some(Value::Array(list)) => list.iter().map(token).collect(),
            Some(one) => token(one).map(|id| vec![id]),
        };
        let eos = eos.ok_or("`eos_token_id` is neither a token id nor a list of them")?;
        let config = Self { top_k, repetition_penalty, eos };
        config.sampling(0.0, 1.0).map_err(|error| error.to_string())?;
        Ok(config)
    }

    /// The text of a `generation_config.json` that `transformers` reads back.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut value = json!({"do_sample": true, "eos_token_id": self.eos, "repetition_penalty": self.repetition_penalty});
        // Absent means 50 to older versions of `transformers`.
        value["top_k"] = json!(self.top_k.unwrap_or(0));
        format!("{value:#}\n")
    }

    /// How tokens are drawn at a request's `temperature` and `top_p`.
    ///
    /// # Errors
    /// As [`Sampling::new`] and what follows it.
    pub fn sampling(&self, temperature: f64, top_p: f64) -> Result<Sampling, GenerationError> {
        Sampling::new(temperature, top_p)?.with_top_k(self.top_k)?.with_repetition_penalty(self.repetition_penalty)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read_and_written() {
        // The published file of Qwen3-4B-Instruct-2507.
        let qwen = r#"{"bos_token_id": 151643, "do_sample": true, "eos_token_id": [151645, 151643], "pad_token_id": 151643,
            "temperature": 0.7, "top_k": 20, "top_p": 0.8, "transformers_version": "4.51.0"}"#;
        let config = GenerationConfig::from_json(qwen).unwrap();
        assert_eq!(config, GenerationConfig { top_k: Some(20), repetition_penalty: 1.0, eos: vec![151_645, 151_643] });
        for config in [config, GenerationConfig::default()] {
            assert_eq!(GenerationConfig::from_json(&config.to_json()).unwrap(), config);
        }
        assert_eq!(GenerationConfig::from_json("{}").unwrap(), GenerationConfig::default());
        for (text, part) in [
            ("[]", "object"),
            (r#"{"top_k": -1}"#, "top_k"),
            (r#"{"repetition_penalty": 0}"#, "penalty"),
            ("{", "EOF"),
            (r#"{"eos_token_id": "x"}"#, "eos"),
        ] {
            assert!(GenerationConfig::from_json(text).unwrap_err().contains(part), "{text}");
        }
    }
}
