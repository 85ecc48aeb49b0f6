//! The state of a training run on disk: one folder per saved step, whole or not there.
//!
//! `step-0000000100/` holds `weights.safetensors` (the weights that train), `optimizer.safetensors` (its moments) and `state.json`.
//! It is written under another name and renamed, so that a killed run leaves no half of one.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use candle_core::{DType, Device};
use serde::{Deserialize, Serialize};

use super::TrainingError;
use crate::student::network::Network;
use crate::student::optimizer::{AdamW, AdamWConfig};
use crate::student::weights::{read_tensors, write_tensors, write_text};

const WEIGHTS: &str = "weights.safetensors";
const OPTIMIZER: &str = "optimizer.safetensors";
const STATE: &str = "state.json";
const PREFIX: &str = "step-";

/// Where a run stands, beside its tensors.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrainingState {
    /// Names recipe and data: a checkpoint of another run is refused.
    pub run: String,
    /// Steps taken.
    pub step: u64,
    /// The lowest held-out loss.
    pub best: Option<f64>,
    /// Measurements since then.
    pub since_best: u64,
}

/// The folder of a run's checkpoints.
#[derive(Debug)]
pub struct Checkpoints {
    folder: PathBuf,
    keep: usize,
}

impl Checkpoints {
    /// Checkpoints in `folder`, of which the newest `keep` stay (at least one).
    ///
    /// # Errors
    /// When the folder cannot be made.
    pub fn new(folder: &Path, keep: usize) -> Result<Self, TrainingError> {
        fs::create_dir_all(folder).map_err(TrainingError::io(folder))?;
        Ok(Self { folder: folder.to_owned(), keep: keep.max(1) })
    }

    /// Saves a state, then removes the oldest.
    pub(in crate::student) fn save(&self, state: &TrainingState, network: &Network, optimizer: &AdamW) -> Result<(), TrainingError> {
        let name = format!("{PREFIX}{:010}", state.step);
        let (partial, whole) = (self.folder.join(format!(".{name}")), self.folder.join(name));
        for stale in [&partial, &whole] {
            if stale.exists() {
                fs::remove_dir_all(stale).map_err(TrainingError::io(stale))?;
            }
        }
        fs::create_dir(&partial).map_err(TrainingError::io(&partial))?;
        let weights = network.trainable().into_iter().map(|weight| (weight.name().to_owned(), weight.tensor().clone())).collect();
        write_tensors(&partial.join(WEIGHTS), &weights, &[])?;
        optimizer.save(&partial.join(OPTIMIZER))?;
        let path = partial.join(STATE);
        let text = serde_json::to_string_pretty(state).map_err(|error| TrainingError::damaged(&path, error))?;
        write_text(&path, &text)?;
        fs::rename(&partial, &whole).map_err(TrainingError::io(&whole))?;
        File::open(&self.folder).and_then(|folder| folder.sync_all()).map_err(TrainingError::io(&self.folder))?;
        let saved = self.steps()?;
        for step in saved.iter().rev().skip(self.keep) {
            let old = self.path(*step);
            fs::remove_dir_all(&old).map_err(TrainingError::io(&old))?;
        }
        Ok(())
    }

    /// Puts the newest state into `network`, if there is one.
    pub(in crate::student) fn restore(
        &self,
        run: &str,
        network: &Network,
        config: AdamWConfig,
    ) -> Result<Option<(TrainingState, AdamW)>, TrainingError> {
        let Some(step) = self.steps()?.pop() else { return Ok(None) };
        let folder = self.path(step);
        let path = folder.join(STATE);
        let text = fs::read_to_string(&path).map_err(TrainingError::io(&path))?;
        let state: TrainingState = serde_json::from_str(&text).map_err(|error| TrainingError::damaged(&path, error))?;
        if state.step != step {
            return Err(TrainingError::damaged(&path, format!("it says step {}", state.step)));
        }
        if state.run != run {
            return Err(TrainingError::OtherRun { path: folder });
        }
        let optimizer = AdamW::load(&folder.join(OPTIMIZER), config, network)?;
        let path = folder.join(WEIGHTS);
        let (mut saved, _) = read_tensors(&path, DType::F32, &Device::Cpu)?;
        for weight in network.trainable() {
            let tensor = saved.remove(weight.name()).filter(|tensor| tensor.shape() == weight.tensor().shape());
            let tensor =
                tensor.ok_or_else(|| TrainingError::damaged(&path, format!("`{}` is missing or of another shape", weight.name())))?;
            weight.assign(&tensor.to_device(weight.tensor().device())?.to_dtype(weight.tensor().dtype())?)?;
        }
        Ok(Some((state, optimizer)))
    }

    /// The folder of the checkpoint after `step` steps.
    #[must_use]
    pub fn path(&self, step: u64) -> PathBuf {
        self.folder.join(format!("{PREFIX}{step:010}"))
    }

    /// The saved steps, ascending.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn steps(&self) -> Result<Vec<u64>, TrainingError> {
        let entries = fs::read_dir(&self.folder).map_err(TrainingError::io(&self.folder))?;
        let number = |entry: fs::DirEntry| entry.file_name().to_str()?.strip_prefix(PREFIX)?.parse().ok();
        let mut steps: Vec<u64> = entries.flatten().filter_map(number).collect();
        steps.sort_unstable();
        Ok(steps)
    }
}
