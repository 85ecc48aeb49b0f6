//! Training files of reinforcement: what the student plays, and what it learns from it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;

use super::experiment::{Reader, read_bounded};
use super::training::{
    AdapterWritten, CheckpointingWritten, OptimisationWritten, SaveWritten, Wrong, adapters, check_name, count, optimisation, positive,
    saving, within, wrong,
};
use super::written::{SandboxWritten, TasksWritten};
use super::{ConfigError, SandboxChoice, TaskCheck};
use crate::student::network::AdapterConfig;
use crate::student::rl::{AdvantageScale, GroupPlan, Normaliser, Objective, PolicyLoss, Rewards, RlRecipe, Truncated};
use crate::task::{SplitTasks, Task};

/// Bytes of a training file at most.
const FILE_BYTES: u64 = 1 << 20;

/// A training run by reinforcement: the recipe, and what is played.
#[derive(Debug, Clone)]
pub struct Reinforcement {
    /// What is learnt.
    pub recipe: RlRecipe,
    /// The student that it starts from.
    pub student: PathBuf,
    /// The harness as it is named: a template file or `DIR:ID`, relative to the training file, or a built-in template.
    pub harness: String,
    /// The tasks of the search split; the other splits are left for evaluations.
    pub tasks: Vec<Arc<Task>>,
    /// Those of them that are proven first.
    pub to_prove: Vec<Arc<Task>>,
    /// The sandbox.
    pub sandbox: SandboxChoice,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ReinforcementWritten {
    name: String,
    #[serde(default)]
    seed: u64,
    harness: String,
    student: StudentWritten,
    #[serde(default)]
    tasks: TasksWritten,
    #[serde(default)]
    rollouts: RolloutsWritten,
    #[serde(default)]
    train: TrainWritten,
    adapter: Option<AdapterWritten>,
    #[serde(default)]
    sandbox: SandboxWritten,
    #[serde(default)]
    save: SaveWritten,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct StudentWritten {
    path: PathBuf,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RolloutsWritten {
    groups: Option<usize>,
    size: Option<usize>,
    replacements: Option<u32>,
    #[serde(default)]
    truncated: TruncatedWritten,
    #[serde(default)]
    rewards: RewardsWritten,
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum TruncatedWritten {
    #[default]
    Mask,
    Learn,
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum RewardsWritten {
    #[default]
    Own,
    Shuffled,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ObjectiveWritten {
    #[default]
    PolicyGradient,
    Rejection,
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum AdvantageWritten {
    #[default]
    Centred,
    Standardised,
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum NormaliserWritten {
    #[default]
    Tokens,
    Rollout,
    Constant,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct TrainWritten {
    steps: Option<u64>,
    #[serde(default)]
    objective: ObjectiveWritten,
    per_group: Option<usize>,
    advantage: Option<AdvantageWritten>,
    normaliser: Option<NormaliserWritten>,
    clip_low: Option<f64>,
    clip_high: Option<f64>,
    ratio_bound: Option<f64>,
    correction_bound: Option<f64>,
    updates: Option<u32>,
    max_length: Option<usize>,
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

/// Reads the training file at `path`. Paths in it are relative to its folder.
///
/// # Errors
/// When a file cannot be read or says something wrong; the error names file, line and key.
pub fn load_reinforcement(path: &Path) -> Result<Reinforcement, ConfigError> {
    parse_reinforcement(&read_bounded(path, FILE_BYTES)?, path)
}

/// Reads the text of a training file that lies at `path`.
///
/// # Errors
/// As [`load_reinforcement`].
pub fn parse_reinforcement(text: &str, path: &Path) -> Result<Reinforcement, ConfigError> {
    let reader = Reader::new(text, path);
    let written: ReinforcementWritten = reader.written()?;
    let (all, own) = reader.tasks(&written.tasks)?;
    let to_prove = match written.tasks.check {
        TaskCheck::Off => Vec::new(),
        TaskCheck::Own => all.iter().take(own).cloned().collect(),
        TaskCheck::All => all.clone(),
    };
    let tasks: Vec<Arc<Task>> = SplitTasks::new(all).search.iter().map(|task| Arc::clone(task.task())).collect();
    if tasks.is_empty() {
        return Err(reader.wrong("tasks", "none of them is of the search split: name more"));
    }
    let sandbox = reader.sandbox(&written.sandbox)?;
    let (student, harness) = (reader.folder().join(&written.student.path), harness(&written.harness, reader.folder()));
    let recipe = recipe(written).map_err(|(key, message)| reader.wrong(&key, message))?;
    if recipe.groups.count > tasks.len() {
        let message = format!("{} groups want as many tasks, and the search split holds {}", recipe.groups.count, tasks.len());
        return Err(reader.wrong("rollouts.groups", message));
    }
    Ok(Reinforcement { recipe, student, harness, tasks, to_prove, sandbox })
}

/// A template file and the folder of `DIR:ID` lie beside the training file.
fn harness(text: &str, folder: &Path) -> String {
    if Path::new(text).extension().is_some_and(|extension| extension == "toml") || text.contains(':') {
        folder.join(text).to_string_lossy().into_owned()
    } else {
        text.to_owned()
    }
}

fn recipe(written: ReinforcementWritten) -> Result<RlRecipe, Wrong> {
    check_name(&written.name)?;
    let ReinforcementWritten { rollouts, train, .. } = &written;
    Ok(RlRecipe {
        seed: written.seed,
        steps: positive("train.steps", train.steps.unwrap_or(50))?,
        groups: GroupPlan {
            count: count("rollouts.groups", rollouts.groups.unwrap_or(8), 1 << 16)?,
            size: count("rollouts.size", rollouts.size.unwrap_or(8), 1024)?,
            replacements: rollouts.replacements.unwrap_or(2),
        },
        objective: objective(train, rollouts)?,
        truncated: match rollouts.truncated {
            TruncatedWritten::Mask => Truncated::Mask,
            TruncatedWritten::Learn => Truncated::Learn,
        },
        rewards: match rollouts.rewards {
            RewardsWritten::Own => Rewards::Own,
            RewardsWritten::Shuffled => Rewards::Shuffled,
        },
        updates: match train.updates.unwrap_or(1) {
            updates @ 1..=64 => updates,
            updates => return wrong("train.updates", format!("{updates} is not between 1 and 64")),
        },
        max_length: count("train.max_length", train.max_length.unwrap_or(4096), 1 << 20)?.max(2),
        optimisation: optimisation(OptimisationWritten {
            // Rewards are scarce and noisy: a tenth of what imitation takes.
            learning_rate: train.learning_rate.or(Some(3e-5)),
            warmup: train.warmup,
            floor: train.floor,
            weight_decay: train.weight_decay.or(Some(0.0)),
            beta1: train.beta1,
            beta2: train.beta2,
            clip: train.clip,
        })?,
        checkpointing: train.checkpointing.into(),
        saving: saving(&SaveWritten { every: written.save.every.or(Some(10)), keep: written.save.keep })?,
        adapters: written.adapter.map(without_dropout).transpose()?,
        name: written.name,
    })
}

fn without_dropout(written: AdapterWritten) -> Result<AdapterConfig, Wrong> {
    let adapters = adapters(written)?;
    if adapters.dropout > 0.0 {
        return wrong(
            "adapter.dropout",
            "is not for reinforcement: a token would be learnt under another distribution than it was drawn from",
        );
    }
    Ok(adapters)
}

fn objective(written: &TrainWritten, rollouts: &RolloutsWritten) -> Result<Objective, Wrong> {
    let set = [
        ("train.advantage", written.advantage.is_some()),
        ("train.normaliser", written.normaliser.is_some()),
        ("train.clip_low", written.clip_low.is_some()),
        ("train.clip_high", written.clip_high.is_some()),
        ("train.ratio_bound", written.ratio_bound.is_some()),
        ("train.correction_bound", written.correction_bound.is_some()),
    ];
    if written.objective == ObjectiveWritten::Rejection {
        if let Some((key, _)) = set.iter().find(|(_, set)| *set) {
            return wrong(key, "belongs to `objective = \"policy_gradient\"`; rejection repeats successes as they are");
        }
        return Ok(Objective::Rejection { per_group: count("train.per_group", written.per_group.unwrap_or(2), 1024)? });
    }
    if written.per_group.is_some() {
        return wrong("train.per_group", "belongs to `objective = \"rejection\"`");
    }
    if rollouts.size == Some(1) {
        return wrong("rollouts.size", "1 leaves nothing to compare an episode with");
    }
    let default = PolicyLoss::default();
    let max_length = u32::try_from(written.max_length.unwrap_or(4096)).unwrap_or(u32::MAX);
    let loss = PolicyLoss {
        clip_low: within("train.clip_low", written.clip_low.unwrap_or(default.clip_low), 0.0, 1.0)?,
        clip_high: within("train.clip_high", written.clip_high.unwrap_or(default.clip_high), 0.0, 10.0)?,
        ratio_bound: written.ratio_bound.map(|bound| within("train.ratio_bound", bound, 1.0, 1e3)).transpose()?,
        correction_bound: match written.correction_bound {
            None => default.correction_bound,
            Some(0.0) => None,
            Some(bound) => Some(within("train.correction_bound", bound, 1.0, 1e3)?),
        },
        normaliser: match written.normaliser.unwrap_or_default() {
            NormaliserWritten::Tokens => Normaliser::Tokens,
            NormaliserWritten::Rollout => Normaliser::Rollout,
            NormaliserWritten::Constant => Normaliser::Constant { tokens: max_length },
        },
    };
    let scale = match written.advantage.unwrap_or_default() {
        AdvantageWritten::Centred => AdvantageScale::None,
        AdvantageWritten::Standardised => AdvantageScale::Deviation,
    };
    Ok(Objective::PolicyGradient { scale, loss })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(extra: &str) -> Result<Reinforcement, String> {
        let start = "name = \"rl\"\nharness = \"shell-first\"\n[student]\npath = \"small\"\n[tasks]\nbuiltin = [\"shell\"]\n";
        parse_reinforcement(&format!("{start}{extra}"), Path::new("files/rl.toml")).map_err(|error| error.to_string())
    }

    #[test]
    fn defaults_are_those_of_dapo_on_the_search_split() {
        let Reinforcement { recipe, student, harness, tasks, to_prove, .. } = parse("").unwrap();
        assert_eq!(student, Path::new("files/small"));
        assert_eq!(harness, "shell-first");
        assert!(to_prove.is_empty() && tasks.len() > 50);
        let Objective::PolicyGradient { scale, loss } = recipe.objective else { panic!() };
        assert_eq!((scale, loss), (AdvantageScale::None, PolicyLoss::default()));
        assert_eq!((loss.clip_low, loss.clip_high, loss.normaliser), (0.2, 0.28, Normaliser::Tokens));
        assert_eq!((recipe.truncated, recipe.updates, recipe.groups.size), (Truncated::Mask, 1, 8));
    }

    #[test]
    fn keys_of_the_other_objective_and_what_cannot_work_are_refused_by_name() {
        for (extra, key) in [
            ("[train]\nobjective = \"rejection\"\nclip_low = 0.1\n", "train.clip_low"),
            ("[train]\nper_group = 2\n", "train.per_group"),
            ("[rollouts]\nsize = 1\n", "rollouts.size"),
            ("[rollouts]\ngroups = 5000\n", "rollouts.groups"),
            ("[train]\nupdates = 0\n", "train.updates"),
            ("[train]\nratio_bound = 0.5\n", "train.ratio_bound"),
            ("[adapter]\nrank = 4\ndropout = 0.1\n", "adapter.dropout"),
        ] {
            let error = parse(extra).unwrap_err();
            assert!(error.contains(key) && error.contains("files/rl.toml:"), "{extra}: {error}");
        }
        let Objective::Rejection { per_group } = parse("[train]\nobjective = \"rejection\"\n").unwrap().recipe.objective else { panic!() };
        assert_eq!(per_group, 2);
    }
}
