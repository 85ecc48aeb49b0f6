//! A model folder in Hugging Face's layout: `config.json` and `model.safetensors`, or shards with an index.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use candle_core::{DType, Device, Tensor};
use serde::Deserialize;

use super::safetensors::{read_tensors, write_tensors, write_text};
use super::{Weights, WeightsError};
use crate::student::config::NetworkConfig;

const CONFIG: &str = "config.json";
const SINGLE: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";

#[derive(Deserialize)]
struct Index {
    weight_map: BTreeMap<String, String>,
}

/// Reads a model folder; weights are converted to `dtype` on `device`.
///
/// # Errors
/// Names the file and tensor that is missing, damaged or not supported.
pub fn load(folder: &Path, dtype: DType, device: &Device) -> Result<Weights, WeightsError> {
    let path = folder.join(CONFIG);
    let text = std::fs::read_to_string(&path).map_err(WeightsError::io(&path))?;
    let config = NetworkConfig::from_json(&text).map_err(|source| WeightsError::Config { path, source })?;
    let index = folder.join(INDEX);
    let tensors =
        if index.is_file() { load_shards(folder, &index, dtype, device)? } else { read_tensors(&folder.join(SINGLE), dtype, device)?.0 };
    Ok(Weights { config, tensors })
}

fn load_shards(folder: &Path, index: &Path, dtype: DType, device: &Device) -> Result<BTreeMap<String, Tensor>, WeightsError> {
    let text = std::fs::read_to_string(index).map_err(WeightsError::io(index))?;
    let Index { weight_map } = serde_json::from_str(&text).map_err(|error| WeightsError::damaged(index, error))?;
    let shards: BTreeSet<&String> = weight_map.values().collect();
    let mut tensors = BTreeMap::new();
    for shard in shards {
        // A name within the folder: the index is foreign and must not lead elsewhere.
        if PathBuf::from(shard).file_name().and_then(|name| name.to_str()) != Some(shard) {
            return Err(WeightsError::damaged(index, format!("`{shard}` is not a file of its folder")));
        }
        tensors.extend(read_tensors(&folder.join(shard), dtype, device)?.0);
    }
    match weight_map.iter().find(|(name, _)| !tensors.contains_key(*name)) {
        Some((name, shard)) => Err(WeightsError::tensor(&folder.join(shard), name, "is in the index but not in the shard")),
        None => Ok(tensors),
    }
}

/// Writes a model folder that `transformers` loads. The folder is made if needed; each file takes its place only when
/// it is complete, the configuration last.
///
/// # Errors
/// Those of the system.
pub fn save(folder: &Path, weights: &Weights) -> Result<(), WeightsError> {
    std::fs::create_dir_all(folder).map_err(WeightsError::io(folder))?;
    write_tensors(&folder.join(SINGLE), &weights.tensors, &[])?;
    write_text(&folder.join(CONFIG), &weights.config.to_json())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::SeedTree;
    use crate::student::network::{BaseWeights, Network};
    use crate::student::weights::random;

    fn small() -> Weights {
        let mut config = NetworkConfig::nano(50, 0).unwrap();
        (config.hidden, config.intermediate, config.layers, config.head_dim) = (16, 24, 2, 8);
        random(&config, &SeedTree::new(1), &Device::Cpu).unwrap()
    }

    fn loads(folder: &Path) -> Result<Weights, WeightsError> {
        load(folder, DType::F32, &Device::Cpu)
    }

    #[test]
    fn a_saved_folder_is_loaded_whole_or_in_shards() {
        let folder = tempfile::tempdir().unwrap();
        let weights = small();
        save(folder.path(), &weights).unwrap();
        let same = |read: &Weights| {
            assert_eq!(read.config, weights.config);
            assert_eq!(read.tensors.len(), weights.tensors.len());
            for (name, tensor) in &weights.tensors {
                let numbers = |t: &Tensor| t.flatten_all().unwrap().to_vec1::<f32>().unwrap();
                assert_eq!(numbers(&read.tensors[name]), numbers(tensor), "{name}");
            }
        };
        same(&loads(folder.path()).unwrap());
        // The same in two shards.
        let (mut even, mut odd) = (BTreeMap::new(), BTreeMap::new());
        let mut map = serde_json::Map::new();
        for (i, (name, tensor)) in weights.tensors.clone().into_iter().enumerate() {
            map.insert(name.clone(), if i % 2 == 0 { "even.safetensors" } else { "odd.safetensors" }.into());
            if i % 2 == 0 { &mut even } else { &mut odd }.insert(name, tensor);
        }
        std::fs::remove_file(folder.path().join(SINGLE)).unwrap();
        write_tensors(&folder.path().join("even.safetensors"), &even, &[]).unwrap();
        write_tensors(&folder.path().join("odd.safetensors"), &odd, &[]).unwrap();
        let index = |map: &serde_json::Map<String, serde_json::Value>| {
            std::fs::write(folder.path().join(INDEX), serde_json::json!({ "weight_map": map }).to_string()).unwrap();
        };
        index(&map);
        same(&loads(folder.path()).unwrap());
        map.insert("ghost".into(), "odd.safetensors".into());
        index(&map);
        assert!(loads(folder.path()).unwrap_err().to_string().contains("`ghost`"));
        map.insert("ghost".into(), "../odd.safetensors".into());
        index(&map);
        assert!(loads(folder.path()).unwrap_err().to_string().contains("not a file of its folder"));
    }

    #[test]
    fn what_does_not_fit_the_configuration_is_named() {
        let weights = small();
        let make = |change: &dyn Fn(&mut BTreeMap<String, Tensor>)| {
            let mut tensors = weights.tensors.clone();
            change(&mut tensors);
            Network::new(weights.config.clone(), tensors, BaseWeights::Frozen).map_or_else(|error| error.to_string(), |_| String::new())
        };
        assert_eq!(make(&|_| ()), "");
        let name = "model.layers.1.mlp.up_proj.weight";
        let zeros = |shape: (usize, usize)| Tensor::zeros(shape, DType::F32, &Device::Cpu).unwrap();
        assert!(make(&|t| drop(t.remove(name))).contains(name));
        assert!(make(&|t| drop(t.insert(name.into(), zeros((24, 15))))).contains("[24, 15]"));
        assert!(make(&|t| drop(t.insert("visual.x".into(), zeros((1, 1))))).contains("`visual.x`"));
        let nowhere = loads(Path::new("/nonexistent/model")).unwrap_err().to_string();
        assert!(nowhere.contains("/nonexistent/model/config.json"), "{nowhere}");
    }
}
