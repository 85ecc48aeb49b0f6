//! Adapters in PEFT's layout: `adapter_config.json` and `adapter_model.safetensors`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use candle_core::{DType, Device, Tensor};
use serde_json::{Map, Value, json};
use thiserror::Error;

use super::network::{AdapterConfig, Network, NetworkError, Projection, Scaling};
use super::weights::{WeightsError, read_tensors, write_tensors, write_text};

const CONFIG: &str = "adapter_config.json";
const FACTORS: &str = "adapter_model.safetensors";
/// What PEFT puts before a module's name.
const PREFIX: &str = "base_model.model.";

/// Why an adapter cannot be read or written.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum AdapterError {
    /// A file of it.
    #[error(transparent)]
    Weights(#[from] WeightsError),
    /// It does not fit the network.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// A configuration that is damaged or of a kind that is not supported.
    #[error("{path}: {why}")]
    Config {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
}

/// An adapter read from a folder.
#[derive(Debug, Clone)]
pub struct AdapterFiles {
    /// Its shape.
    pub config: AdapterConfig,
    /// Its factors, named `MODULE.lora_A.weight` and `MODULE.lora_B.weight`.
    pub factors: BTreeMap<String, Tensor>,
}

/// Writes the network's adapters as PEFT reads them. `base` names the model they stand beside: a name or a path
/// relative to where they are used, never one of this machine.
///
/// # Errors
/// Where the network has no adapters, and those of the system.
pub fn save_adapter(folder: &Path, network: &Network, base: &str) -> Result<(), AdapterError> {
    let config = network.adapters().ok_or_else(|| NetworkError::Adapters("the network has none to save".into()))?;
    let factors = network.adapter_weights()?.into_iter().map(|(name, tensor)| (format!("{PREFIX}{name}"), tensor)).collect();
    std::fs::create_dir_all(folder).map_err(WeightsError::io(folder))?;
    write_tensors(&folder.join(FACTORS), &factors, &[])?;
    write_text(&folder.join(CONFIG), &config_json(config, base))?;
    Ok(())
}

/// The keys that PEFT has had for long: an unknown one stops older versions.
fn config_json(config: &AdapterConfig, base: &str) -> String {
    let targets: Vec<&str> = config.targets.iter().map(|target| target.name()).collect();
    let value = json!({
        "alpha_pattern": {},
        "base_model_name_or_path": base,
        "bias": "none",
        "fan_in_fan_out": false,
        "inference_mode": true,
        "init_lora_weights": true,
        "layers_pattern": null,
        "layers_to_transform": null,
        "lora_alpha": config.alpha,
        "lora_dropout": config.dropout,
        "modules_to_save": null,
        "peft_type": "LORA",
        "r": config.rank,
        "rank_pattern": {},
        "revision": null,
        "target_modules": targets,
        "task_type": "CAUSAL_LM",
        "use_dora": false,
        "use_rslora": config.scaling == Scaling::RankStabilised,
    });
    format!("{value:#}\n")
}

/// Reads an adapter that PEFT or [`save_adapter`] wrote; give it to [`Network::with_adapter_weights`].
///
/// # Errors
/// Names the file, and what in it is missing, damaged or of a kind that is not supported (other methods than LoRA,
/// biases, patterns of ranks, modules saved whole).
pub fn load_adapter(folder: &Path) -> Result<AdapterFiles, AdapterError> {
    let path = folder.join(CONFIG);
    let text = std::fs::read_to_string(&path).map_err(WeightsError::io(&path))?;
    let config = parse_config(&text).map_err(|why| AdapterError::Config { path, why })?;
    let path = folder.join(FACTORS);
    let (tensors, _) = read_tensors(&path, DType::F32, &Device::Cpu)?;
    let mut factors = BTreeMap::new();
    for (name, tensor) in tensors {
        let Some(short) = name.strip_prefix(PREFIX) else {
            return Err(WeightsError::tensor(&path, &name, format!("does not begin with `{PREFIX}`")).into());
        };
        factors.insert(short.to_owned(), tensor);
    }
    Ok(AdapterFiles { config, factors })
}

fn parse_config(text: &str) -> Result<AdapterConfig, String> {
    let map: Map<String, Value> = serde_json::from_str(text).map_err(|error| format!("not a JSON object: {error}"))?;
    refuse_unsupported(&map)?;
    let rank = map.get("r").and_then(Value::as_u64).and_then(|rank| usize::try_from(rank).ok()).ok_or("`r` is missing or not a size")?;
    let alpha = map.get("lora_alpha").and_then(Value::as_f64).ok_or("`lora_alpha` is missing or not a number")?;
    let dropout = map.get("lora_dropout").map_or(Some(0.0), Value::as_f64).ok_or("`lora_dropout` is not a number")?;
    let scaling = match map.get("use_rslora").and_then(Value::as_bool) {
        Some(true) => Scaling::RankStabilised,
        _ => Scaling::Standard,
    };
    let names = map.get("target_modules").and_then(Value::as_array).ok_or("`target_modules` is missing or not a list of names")?;
    let target = |name: &Value| {
        let name = name.as_str().unwrap_or_default();
        Projection::from_name(name).ok_or_else(|| format!("`target_modules` names `{name}`, which is no linear map of these decoders"))
    };
    let targets = names.iter().map(target).collect::<Result<BTreeSet<_>, _>>()?;
    Ok(AdapterConfig { rank, alpha, dropout, scaling, targets })
}

fn refuse_unsupported(map: &Map<String, Value>) -> Result<(), String> {
    let empty = |value: &Value| match value {
        Value::Null | Value::Bool(false) => true,
        Value::Object(map) => map.is_empty(),
        Value::Array(list) => list.is_empty(),
        _ => false,
    };
    let kind = map.get("peft_type").and_then(Value::as_str).unwrap_or_default();
    if kind != "LORA" {
        return Err(format!("`peft_type` is `{kind}`: only LORA is supported"));
    }
    if map.get("bias").is_some_and(|bias| bias.as_str() != Some("none")) {
        return Err("`bias` is not \"none\"".into());
    }
    let unsupported = [
        "alpha_pattern",
        "fan_in_fan_out",
        "layer_replication",
        "layers_to_transform",
        "lora_bias",
        "modules_to_save",
        "rank_pattern",
        "target_parameters",
        "trainable_token_indices",
        "use_dora",
        "use_qalora",
    ];
    match unsupported.into_iter().find(|key| map.get(*key).is_some_and(|value| !empty(value))) {
        Some(key) => Err(format!("`{key}` is set: not supported")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::SeedTree;
    use crate::student::config::NetworkConfig;
    use crate::student::network::BaseWeights;
    use crate::student::weights::random;

    #[test]
    fn an_adapter_comes_back_as_it_was() {
        let config = NetworkConfig::nano(30, 0).unwrap();
        let weights = random(&config, &SeedTree::new(1), &Device::Cpu).unwrap();
        let adapter = AdapterConfig {
            rank: 4,
            alpha: 8.0,
            dropout: 0.25,
            scaling: Scaling::RankStabilised,
            targets: BTreeSet::from([Projection::Query, Projection::Down]),
        };
        let network =
            Network::new(config, weights.tensors, BaseWeights::Frozen).unwrap().with_adapters(&adapter, &SeedTree::new(2)).unwrap();
        let folder = tempfile::tempdir().unwrap();
        save_adapter(folder.path(), &network, "base").unwrap();
        let read = load_adapter(folder.path()).unwrap();
        assert_eq!(read.config, adapter);
        let written = network.adapter_weights().unwrap();
        assert_eq!(written.len(), 5 * 2 * 2);
        assert!(written.keys().eq(read.factors.keys()));
        for (name, tensor) in written {
            assert_eq!(tensor.to_vec2::<f32>().unwrap(), read.factors[&name].to_vec2::<f32>().unwrap(), "{name}");
        }
    }

    #[test]
    fn other_kinds_are_refused() {
        let with = |key: &str, value: Value| {
            let mut map = json!({"peft_type": "LORA", "r": 2, "lora_alpha": 4, "target_modules": ["q_proj"]});
            map[key] = value;
            parse_config(&map.to_string())
        };
        assert!(with("bias", json!("none")).is_ok());
        for (key, value) in [
            ("peft_type", json!("IA3")),
            ("bias", json!("all")),
            ("use_dora", json!(true)),
            ("rank_pattern", json!({"q_proj": 3})),
            ("modules_to_save", json!(["lm_head"])),
            ("target_modules", json!(["conv"])),
            ("target_modules", json!("all-linear")),
            ("r", json!(-1)),
        ] {
            let error = with(key, value).unwrap_err();
            assert!(error.contains(key), "{key}: {error}");
        }
    }
}
