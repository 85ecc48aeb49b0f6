//! Training files to recipes.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::ConfigError;
use crate::base::TomlPlace;
use crate::student::VocabularySize;
use crate::student::data::{DataConfig, FailedCalls, Learns, Overlong, Pictures};
use crate::student::network::{AdapterConfig, Checkpointing, Projection, Scaling};
use crate::student::recipe::{
    Base, EpisodeSelection, EvaluationPlan, Instructions, Length, Optimisation, Rows, SavingPlan, SftRecipe, Source,
};
use crate::task::SkillName;

/// Bytes of a training file at most.
const FILE_BYTES: u64 = 1 << 20;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TrainingWritten {
    name: String,
    #[serde(default)]
    seed: u64,
    #[serde(default)]
    student: StudentWritten,
    data: DataWritten,
    #[serde(default)]
    train: TrainWritten,
    adapter: Option<AdapterWritten>,
    #[serde(default)]
    evaluate: EvaluateWritten,
    #[serde(default)]
    save: SaveWritten,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct StudentWritten {
    path: Option<PathBuf>,
    vocabulary: Option<usize>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct DataWritten {
    #[serde(default)]
    runs: Vec<PathBuf>,
    #[serde(default)]
    exports: Vec<PathBuf>,
    max_length: Option<usize>,
    #[serde(default)]
    overlong: OverlongWritten,
    held_out: Option<f64>,
    #[serde(default)]
    failed_calls: FailedCallsWritten,
    #[serde(default)]
    instructions: InstructionsWritten,
    #[serde(default)]
    without_skills: BTreeSet<String>,
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum FailedCallsWritten {
    Learn,
    #[default]
    SkipRefused,
    Skip,
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum InstructionsWritten {
    #[default]
    Own,
    Shuffled,
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum OverlongWritten {
    #[default]
    Drop,
    CutOldest,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct TrainWritten {
    epochs: Option<u64>,
    steps: Option<u64>,
    row_length: Option<usize>,
    rows: Option<usize>,
    rows_at_a_time: Option<usize>,
    learning_rate: Option<f64>,
    warmup: Option<f64>,
    floor: Option<f64>,
    weight_decay: Option<f64>,
    beta1: Option<f64>,
    beta2: Option<f64>,
    clip: Option<f64>,
    #[serde(default)]
    checkpointing: CheckpointingWritten,
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum CheckpointingWritten {
    #[default]
    Off,
    EveryLayer,
}

impl From<CheckpointingWritten> for Checkpointing {
    fn from(written: CheckpointingWritten) -> Self {
        match written {
            CheckpointingWritten::Off => Self::Off,
            CheckpointingWritten::EveryLayer => Self::EveryLayer,
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AdapterWritten {
    rank: usize,
    alpha: Option<f64>,
    dropout: Option<f64>,
    #[serde(default)]
    rank_stabilised: bool,
    targets: Option<BTreeSet<String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct EvaluateWritten {
    every: Option<u64>,
    patience: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SaveWritten {
    pub(super) every: Option<u64>,
    pub(super) keep: Option<usize>,
}

/// How weights move, as far as it is written.
#[derive(Debug, Clone, Copy)]
pub(super) struct OptimisationWritten {
    pub(super) learning_rate: Option<f64>,
    pub(super) warmup: Option<f64>,
    pub(super) floor: Option<f64>,
    pub(super) weight_decay: Option<f64>,
    pub(super) beta1: Option<f64>,
    pub(super) beta2: Option<f64>,
    pub(super) clip: Option<f64>,
}

/// What is wrong with a key.
pub(super) type Wrong = (String, String);

pub(super) fn wrong<T>(key: &str, message: impl Into<String>) -> Result<T, Wrong> {
    Err((key.to_owned(), message.into()))
}

/// Reads the training file at `path`. Paths in it are relative to its folder.
///
/// # Errors
/// When the file cannot be read or says something wrong; the error names file, line and key.
pub fn load_training(path: &Path) -> Result<SftRecipe, ConfigError> {
    let text = super::experiment::read_bounded(path, FILE_BYTES)?;
    parse_training(&text, path)
}

/// Reads the text of a training file that lies at `path`.
///
/// # Errors
/// As [`load_training`].
pub fn parse_training(text: &str, path: &Path) -> Result<SftRecipe, ConfigError> {
    let at = |place| ConfigError::Written { path: path.to_owned(), place };
    let written: TrainingWritten = toml::from_str(text).map_err(|error| at(TomlPlace::of_error(text, &error)))?;
    let folder = path.parent().unwrap_or_else(|| Path::new("."));
    recipe(written, folder).map_err(|(key, message)| at(TomlPlace::of_key(text, &key, message)))
}

fn recipe(written: TrainingWritten, folder: &Path) -> Result<SftRecipe, Wrong> {
    check_name(&written.name)?;
    let data = data(&written.data)?;
    let row_length = written.train.row_length.unwrap_or(data.max_length);
    if row_length < data.max_length {
        return wrong(
            "train.row_length",
            format!("{row_length} is less than data.max_length, {}: a sample must fit a row", data.max_length),
        );
    }
    Ok(SftRecipe {
        name: written.name,
        seed: written.seed,
        base: base(written.student, folder)?,
        sources: sources(&written.data, folder)?,
        selection: EpisodeSelection {
            without_skills: skills(&written.data)?,
            instructions: match written.data.instructions {
                InstructionsWritten::Own => Instructions::Own,
                InstructionsWritten::Shuffled => Instructions::Shuffled,
            },
        },
        data,
        rows: rows(&written.train, row_length)?,
        length: length(&written.train)?,
        optimisation: optimisation(OptimisationWritten {
            learning_rate: written.train.learning_rate,
            warmup: written.train.warmup,
            floor: written.train.floor,
            weight_decay: written.train.weight_decay,
            beta1: written.train.beta1,
            beta2: written.train.beta2,
            clip: written.train.clip,
        })?,
        adapters: written.adapter.map(adapters).transpose()?,
        checkpointing: written.train.checkpointing.into(),
        evaluation: EvaluationPlan {
            every: positive("evaluate.every", written.evaluate.every.unwrap_or(EvaluationPlan::default().every))?,
            patience: written.evaluate.patience.map(|patience| positive("evaluate.patience", patience)).transpose()?,
        },
        saving: saving(&written.save)?,
    })
}

/// Checks what names a folder.
pub(super) fn check_name(name: &str) -> Result<(), Wrong> {
    if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c)) {
        return wrong("name", "takes letters, digits, `-`, `_` and `.`: it names a folder");
    }
    Ok(())
}

pub(super) fn saving(written: &SaveWritten) -> Result<SavingPlan, Wrong> {
    let default = SavingPlan::default();
    Ok(SavingPlan {
        every: positive("save.every", written.every.unwrap_or(default.every))?,
        keep: count("save.keep", written.keep.unwrap_or(default.keep), 1000)?,
    })
}

fn base(written: StudentWritten, folder: &Path) -> Result<Base, Wrong> {
    match (written.path, written.vocabulary) {
        (Some(_), Some(_)) => wrong("student.vocabulary", "does not belong to a student with a `path`: it brings its own vocabulary"),
        (Some(path), None) => Ok(Base::Path(folder.join(path))),
        (None, size) => match VocabularySize::new(size.unwrap_or(VocabularySize::default().get())) {
            Ok(vocabulary) => Ok(Base::Nano { vocabulary }),
            Err(error) => wrong("student.vocabulary", error.to_string()),
        },
    }
}

fn sources(written: &DataWritten, folder: &Path) -> Result<Vec<Source>, Wrong> {
    let runs = written.runs.iter().map(|path| Source::Run(folder.join(path)));
    let sources: Vec<Source> = runs.chain(written.exports.iter().map(|path| Source::Export(folder.join(path)))).collect();
    if sources.is_empty() { wrong("data", "names neither `runs` nor `exports`: there is nothing to learn from") } else { Ok(sources) }
}

fn skills(written: &DataWritten) -> Result<BTreeSet<SkillName>, Wrong> {
    let name = |text: &String| SkillName::new(text).map_err(|error| ("data.without_skills".to_owned(), error.to_string()));
    written.without_skills.iter().map(name).collect()
}

fn data(written: &DataWritten) -> Result<DataConfig, Wrong> {
    let default = DataConfig::default();
    let held_out = written.held_out.unwrap_or(default.held_out);
    if !(0.0..1.0).contains(&held_out) {
        return wrong("data.held_out", format!("{held_out} is not a share of the tasks, 0 to less than 1"));
    }
    Ok(DataConfig {
        max_length: count("data.max_length", written.max_length.unwrap_or(default.max_length), 1 << 20)?.max(2),
        overlong: match written.overlong {
            OverlongWritten::Drop => Overlong::Drop,
            OverlongWritten::CutOldest => Overlong::CutOldest,
        },
        pictures: Pictures::None,
        held_out,
        learns: Learns::default(),
        failed_calls: match written.failed_calls {
            FailedCallsWritten::Learn => FailedCalls::Learn,
            FailedCallsWritten::SkipRefused => FailedCalls::SkipRefused,
            FailedCallsWritten::Skip => FailedCalls::Skip,
        },
    })
}

fn rows(written: &TrainWritten, length: usize) -> Result<Rows, Wrong> {
    let per_step = count("train.rows", written.rows.unwrap_or(4), 1 << 16)?;
    let per_pass = count("train.rows_at_a_time", written.rows_at_a_time.unwrap_or(1), per_step)?;
    Ok(Rows { length: count("train.row_length", length, 1 << 20)?, per_step, per_pass })
}

fn length(written: &TrainWritten) -> Result<Length, Wrong> {
    match (written.epochs, written.steps) {
        (Some(_), Some(_)) => wrong("train.steps", "stands beside `epochs`: give one of the two"),
        (None, Some(steps)) => Ok(Length::Steps(positive("train.steps", steps)?)),
        (epochs, None) => Ok(Length::Epochs(positive("train.epochs", epochs.unwrap_or(3))?)),
    }
}

pub(super) fn optimisation(written: OptimisationWritten) -> Result<Optimisation, Wrong> {
    let default = Optimisation::default();
    Ok(Optimisation {
        learning_rate: within("train.learning_rate", written.learning_rate.unwrap_or(default.learning_rate), 1e-9, 1.0)?,
        warmup: within("train.warmup", written.warmup.unwrap_or(default.warmup), 0.0, 1.0)?,
        floor: within("train.floor", written.floor.unwrap_or(default.floor), 0.0, 1.0)?,
        weight_decay: within("train.weight_decay", written.weight_decay.unwrap_or(default.weight_decay), 0.0, 10.0)?,
        beta1: within("train.beta1", written.beta1.unwrap_or(default.beta1), 0.0, 0.9999)?,
        beta2: within("train.beta2", written.beta2.unwrap_or(default.beta2), 0.0, 0.999_999)?,
        clip: within("train.clip", written.clip.unwrap_or(default.clip), 1e-6, 1e6)?,
    })
}

pub(super) fn within(key: &str, value: f64, low: f64, high: f64) -> Result<f64, Wrong> {
    if (low..=high).contains(&value) { Ok(value) } else { wrong(key, format!("{value} is not between {low} and {high}")) }
}

pub(super) fn adapters(written: AdapterWritten) -> Result<AdapterConfig, Wrong> {
    let targets = match written.targets {
        None => Projection::ALL.into_iter().collect(),
        Some(names) => {
            let projection = |name: &String| {
                Projection::ALL.into_iter().find(|projection| projection.name() == name).ok_or_else(|| {
                    let known = Projection::ALL.map(Projection::name).join(", ");
                    ("adapter.targets".to_owned(), format!("`{name}` is none of {known}"))
                })
            };
            names.iter().map(projection).collect::<Result<BTreeSet<_>, _>>()?
        }
    };
    let rank = count("adapter.rank", written.rank, 1024)?;
    #[expect(clippy::cast_precision_loss, reason = "a rank is small")]
    let alpha = written.alpha.unwrap_or(2.0 * rank as f64);
    let dropout = written.dropout.unwrap_or(0.0);
    if !(0.0..1.0).contains(&dropout) {
        return wrong("adapter.dropout", format!("{dropout} is not in [0, 1)"));
    }
    if !(alpha.is_finite() && alpha > 0.0) {
        return wrong("adapter.alpha", format!("{alpha} is not a positive number"));
    }
    let scaling = if written.rank_stabilised { Scaling::RankStabilised } else { Scaling::Standard };
    Ok(AdapterConfig { rank, alpha, dropout, scaling, targets })
}

pub(super) fn positive(key: &str, value: u64) -> Result<u64, Wrong> {
    if value == 0 { wrong(key, "must be at least 1") } else { Ok(value) }
}

pub(super) fn count(key: &str, value: usize, most: usize) -> Result<usize, Wrong> {
    if (1..=most).contains(&value) { Ok(value) } else { wrong(key, format!("{value} is not between 1 and {most}")) }
}
