//! An experiment, resolved: everything a run needs, so that a run folder can be resumed without the files it was made from.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::Teacher;
use super::written::{BudgetWritten, ExperimentWritten, HarnessWritten, SandboxWritten, TasksWritten};
use crate::base::{Amount, TomlPlace};
use crate::evolution::{Baseline, FinaleSettings, OperatorName, SearchSettings, comparison_episodes};
use crate::forge::{ForgeError, workflows};
use crate::harness::{BlockLibrary, Genome, Harness, SpecError, Template, block_library, builtin, load as load_template};
use crate::sandbox::{BackendKind, Policy};
use crate::task::{JobType, Task, TaskFileError, read_task_folder};

/// Bytes of an experiment file at most.
const FILE_BYTES: u64 = 1 << 20;
/// Tasks of one workflow at most.
const PER_WORKFLOW: u64 = 2000;

/// An experiment that cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A file cannot be read.
    #[error("{}: {source}", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Something is written wrong.
    #[error("{}:{place}", path.display())]
    Written {
        /// The file.
        path: PathBuf,
        /// Where and what.
        place: TomlPlace,
    },
    /// A template.
    #[error(transparent)]
    Template(#[from] SpecError),
    /// A task file.
    #[error(transparent)]
    Task(#[from] TaskFileError),
    /// A built-in workflow is at fault.
    #[error("a built-in workflow made something that is not a task: {0}")]
    Forge(#[from] ForgeError),
}

/// Which tasks are proven (reference solution passes, doing nothing scores 0, broken solutions fail) before a run starts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskCheck {
    /// None.
    Off,
    /// Those from the experiment's own folders.
    #[default]
    Own,
    /// All.
    All,
}

/// A seed harness.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Seed {
    /// The template's name.
    pub template: String,
    /// Its genes.
    pub genome: Genome,
}

/// Which sandbox, and what it allows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxChoice {
    /// The backend; none takes the strongest that works.
    pub backend: Option<BackendKind>,
    /// What it allows.
    pub policy: Policy,
}

/// A resolved experiment. Its tasks are kept beside it (in the store they are a table of their own).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Experiment {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// The model that plays.
    pub teacher: Teacher,
    /// The model that rewrites, if it is another.
    pub rewriter: Option<Teacher>,
    /// Seed harnesses.
    pub seeds: Vec<Seed>,
    /// What block swaps draw from.
    pub library: BlockLibrary,
    /// The kinds of work, in the order of their names.
    pub job_types: Vec<JobType>,
    /// Settings of the search.
    pub search: SearchSettings,
    /// How often a faulted episode is tried.
    pub attempts: u32,
    /// The comparison at the end.
    pub report_episodes: u32,
    /// Whether the baseline is played.
    pub baseline: Baseline,
    /// What the comparison may spend.
    pub report_limit: Amount,
    /// The sandbox.
    pub sandbox: SandboxChoice,
    /// Which tasks are proven first.
    pub task_check: TaskCheck,
    /// The tasks.
    #[serde(skip)]
    pub tasks: Vec<Arc<Task>>,
    /// How many of them, at the start of the list, are from the experiment's own folders.
    #[serde(skip)]
    pub own_tasks: usize,
}

impl Experiment {
    /// What the whole run may spend.
    #[must_use]
    pub const fn limit(&self) -> Amount {
        self.search.limit.plus(self.report_limit)
    }

    /// Settings of the comparison.
    #[must_use]
    pub const fn finale(&self) -> FinaleSettings {
        FinaleSettings { episodes: self.report_episodes, baseline: self.baseline, limit: self.report_limit }
    }
}

/// Reads the experiment in the file at `path`. Paths in it are relative to its folder. `seed` overrides its seed.
///
/// # Errors
/// When a file cannot be read or says something wrong; the error names file, line and key.
pub fn load(path: &Path, seed: Option<u64>) -> Result<Experiment, ConfigError> {
    let text = read_bounded(path, FILE_BYTES)?;
    parse(&text, path, seed)
}

/// The text of the file at `path`, which may have `most` bytes.
pub(super) fn read_bounded(path: &Path, most: u64) -> Result<String, ConfigError> {
    use std::io::Read as _;
    let unreadable = |source| ConfigError::Read { path: path.to_owned(), source };
    let mut text = String::new();
    let read = std::fs::File::open(path).map_err(unreadable)?.take(most + 1).read_to_string(&mut text).map_err(unreadable)?;
    if read as u64 > most {
        return Err(unreadable(std::io::Error::other(format!("larger than {most} bytes, which no such file needs"))));
    }
    Ok(text)
}

/// Reads an experiment from `text`; `path` is what errors call it and where relative paths start.
///
/// # Errors
/// As [`load`].
pub fn parse(text: &str, path: &Path, seed: Option<u64>) -> Result<Experiment, ConfigError> {
    let reader = Reader::new(text, path);
    reader.resolve(reader.written()?, seed)
}

/// A file of settings, for what is wrong in it.
pub(super) struct Reader<'a> {
    text: &'a str,
    path: &'a Path,
    folder: &'a Path,
}

impl<'a> Reader<'a> {
    /// Of the `text` of the file at `path`.
    pub(super) fn new(text: &'a str, path: &'a Path) -> Self {
        Self { text, path, folder: path.parent().unwrap_or_else(|| Path::new("")) }
    }

    /// What is written in the file.
    pub(super) fn written<W: DeserializeOwned>(&self) -> Result<W, ConfigError> {
        toml::from_str(self.text)
            .map_err(|error| ConfigError::Written { path: self.path.to_owned(), place: TomlPlace::of_error(self.text, &error) })
    }

    /// What paths in it start from.
    pub(super) const fn folder(&self) -> &'a Path {
        self.folder
    }

    pub(super) fn wrong(&self, key: &str, message: impl Into<String>) -> ConfigError {
        ConfigError::Written { path: self.path.to_owned(), place: TomlPlace::of_key(self.text, key, message.into()) }
    }

    fn resolve(&self, written: ExperimentWritten, seed: Option<u64>) -> Result<Experiment, ConfigError> {
        if written.name.trim().is_empty() {
            return Err(self.wrong("name", "is empty"));
        }
        let teacher = Teacher::new(written.teacher, "teacher", self.folder).map_err(|(key, message)| self.wrong(&key, message))?;
        let rewriter = written
            .rewriter
            .map(|rewriter| Teacher::new(rewriter, "rewriter", self.folder))
            .transpose()
            .map_err(|(key, message)| self.wrong(&key, message))?;
        let templates = self.templates(&written.harness)?;
        let (tasks, own_tasks) = self.tasks(&written.tasks)?;
        let mut job_types: Vec<JobType> = tasks.iter().map(|task| task.job_type().clone()).collect();
        job_types.sort();
        job_types.dedup();
        if job_types.is_empty() {
            return Err(self.wrong("tasks", "there are no tasks: name job types under `builtin`, or folders with task files"));
        }
        let mut search = self.search(&written.search, &written.archive)?;
        search.seed = seed.unwrap_or(written.seed);
        let comparison = comparison_episodes(u64::try_from(job_types.len()).unwrap_or(u64::MAX), written.report.episodes);
        let (search_limit, report_limit) = self.share(&written.budget, written.report.baseline, comparison)?;
        search.limit = search_limit;
        if !(1..=10).contains(&written.search.attempts) {
            return Err(self.wrong("search.attempts", "must be 1 to 10"));
        }
        Ok(Experiment {
            name: written.name,
            description: written.description,
            teacher,
            rewriter,
            library: block_library().extended(&templates),
            seeds: templates.into_iter().map(|t| Seed { template: t.name, genome: t.harness.genome().clone() }).collect(),
            job_types,
            search,
            attempts: written.search.attempts,
            report_episodes: written.report.episodes,
            baseline: written.report.baseline,
            report_limit,
            sandbox: self.sandbox(&written.sandbox)?,
            task_check: written.tasks.check,
            tasks,
            own_tasks,
        })
    }

    /// Templates by name or by path; all built-in ones by default.
    fn templates(&self, written: &HarnessWritten) -> Result<Vec<Template>, ConfigError> {
        let known = builtin()?;
        if written.templates.is_empty() {
            return Ok(known);
        }
        let mut chosen: Vec<Template> = Vec::new();
        for (index, name) in written.templates.iter().enumerate() {
            let template = if let Some(template) = known.iter().find(|template| template.name == *name) {
                template.clone()
            } else if Path::new(name).extension().is_some_and(|extension| extension == "toml") {
                load_template(&self.folder.join(name))?
            } else {
                let names: Vec<&str> = known.iter().map(|template| template.name.as_str()).collect();
                let message = format!("`{name}` is neither a built-in template ({}) nor a path that ends in .toml", names.join(", "));
                return Err(self.wrong(&format!("harness.templates[{index}]"), message));
            };
            if chosen.iter().any(|other| other.name == template.name || other.harness.id() == template.harness.id()) {
                return Err(self.wrong(&format!("harness.templates[{index}]"), format!("`{name}` is there twice")));
            }
            chosen.push(template);
        }
        Ok(chosen)
    }

    /// The tasks, and how many of them, at the start of the list, are from the file's own folders.
    pub(super) fn tasks(&self, written: &TasksWritten) -> Result<(Vec<Arc<Task>>, usize), ConfigError> {
        if written.per_workflow == 0 || written.per_workflow > PER_WORKFLOW {
            return Err(self.wrong("tasks.per_workflow", format!("must be 1 to {PER_WORKFLOW}")));
        }
        let mut tasks = Vec::new();
        for (index, folder) in written.folders.iter().enumerate() {
            let found = read_task_folder(&self.folder.join(folder))?;
            if found.is_empty() {
                return Err(self.wrong(&format!("tasks.folders[{index}]"), format!("`{folder}` holds no *.toml files")));
            }
            tasks.extend(found.into_iter().map(Arc::new));
        }
        let own = tasks.len();
        let all = workflows();
        self.known_names("tasks.builtin", &written.builtin, all.iter().map(|workflow| workflow.job_type))?;
        self.known_names("tasks.skills", &written.skills, all.iter().map(|workflow| workflow.skill))?;
        // Own tasks alone are a complete set; without them the built-in ones are.
        let every = written.builtin.is_empty() && written.folders.is_empty();
        for workflow in all {
            let chosen = every || written.builtin.iter().any(|name| name == workflow.job_type);
            if chosen && (written.skills.is_empty() || written.skills.iter().any(|name| name == workflow.skill)) {
                for index in 0..written.per_workflow {
                    tasks.push(Arc::new(workflow.task(index)?));
                }
            }
        }
        Ok((tasks, own))
    }

    fn known_names<'n>(&self, key: &str, names: &[String], known: impl Iterator<Item = &'n str>) -> Result<(), ConfigError> {
        let mut known: Vec<&str> = known.collect();
        known.sort_unstable();
        known.dedup();
        for (index, name) in names.iter().enumerate() {
            if !known.contains(&name.as_str()) {
                return Err(self.wrong(&format!("{key}[{index}]"), format!("there is no `{name}`; known are {}", known.join(", "))));
            }
        }
        Ok(())
    }

    fn search(&self, written: &super::written::SearchWritten, edges: &crate::archive::BinEdges) -> Result<SearchSettings, ConfigError> {
        for (key, edges) in [("archive.steps", &edges.steps), ("archive.tokens", &edges.tokens)] {
            if edges.len() > 32 || edges.iter().any(|edge| !edge.is_finite()) || edges.windows(2).any(|pair| pair[0] >= pair[1]) {
                return Err(self.wrong(key, "must be an ascending list of at most 32 numbers"));
            }
        }
        if written.window > 1024 {
            return Err(self.wrong("search.window", "must be 1 to 1024"));
        }
        let mut operators = SearchSettings::default().operators;
        for (operator, weight) in &written.operators {
            if *weight > 1_000_000 {
                return Err(self.wrong(&format!("search.operators.{}", operator.as_str()), "must be 0 to 1000000"));
            }
            operators.insert(*operator, *weight);
        }
        debug_assert_eq!(operators.len(), OperatorName::ALL.len());
        Ok(SearchSettings {
            seed: 0,
            window: written.window,
            stages: written.stages.clone(),
            confirm_episodes: written.confirm_episodes,
            confirm_after: written.confirm_after,
            confidence: written.confidence,
            operators,
            edges: edges.clone(),
            limit: Amount::UNLIMITED,
            max_steps: written.max_steps.unwrap_or(u64::MAX),
        })
    }

    /// Splits the budget: the comparison first, then the search; a matched baseline gets as much as the search.
    fn share(&self, budget: &BudgetWritten, baseline: Baseline, comparison: u64) -> Result<(Amount, Amount), ConfigError> {
        let left = budget.episodes.checked_sub(comparison).filter(|left| *left > 0).ok_or_else(|| {
            let message = format!(
                "{} episodes do not even cover the comparison at the end, which takes {comparison}: raise it, or lower `report.episodes`",
                budget.episodes
            );
            self.wrong("budget.episodes", message)
        })?;
        let search = match baseline {
            Baseline::Matched => left / 2,
            Baseline::Off => left,
        };
        let part = |total: Option<u64>| {
            let of = |total: u64| u64::try_from(u128::from(total) * u128::from(search) / u128::from(budget.episodes)).unwrap_or(u64::MAX);
            total.map_or((u64::MAX, u64::MAX), |total| (of(total), total - of(total)))
        };
        let micro_usd = match budget.usd {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to be between 0 and 1e12")]
            Some(usd) if (0.0..=1e6).contains(&usd) => Some((usd * 1e6).round() as u64),
            Some(_) => return Err(self.wrong("budget.usd", "must be between 0 and 1000000")),
            None => None,
        };
        let (search_tokens, report_tokens) = part(budget.tokens);
        let (search_usd, report_usd) = part(micro_usd);
        Ok((
            Amount { episodes: search, tokens: search_tokens, micro_usd: search_usd },
            Amount { episodes: budget.episodes - search, tokens: report_tokens, micro_usd: report_usd },
        ))
    }

    pub(super) fn sandbox(&self, written: &SandboxWritten) -> Result<SandboxChoice, ConfigError> {
        let range = |key: &str, value: u64, low: u64, high: u64| {
            if (low..=high).contains(&value) {
                Ok(())
            } else {
                Err(self.wrong(&format!("sandbox.{key}"), format!("must be {low} to {high}")))
            }
        };
        range("processes", u64::from(written.processes), 8, 4096)?;
        range("memory_mib", written.memory_mib, 64, 1 << 20)?;
        range("disk_mib", written.disk_mib, 1, 1 << 16)?;
        range("output_bytes", written.output_bytes as u64, 1024, 1 << 26)?;
        range("seconds", u64::from(written.seconds), 1, 7200)?;
        let policy = Policy {
            processes: written.processes,
            memory_mib: written.memory_mib,
            disk_mib: written.disk_mib,
            output_bytes: written.output_bytes,
            seconds: written.seconds,
        };
        Ok(SandboxChoice { backend: written.backend, policy })
    }
}

/// The seeds of an experiment as harnesses.
impl Seed {
    /// The harness.
    ///
    /// # Errors
    /// When the genome is not valid, which only a damaged run folder can cause.
    pub fn harness(&self) -> Result<Harness, crate::harness::HarnessError> {
        Harness::new(self.genome.clone())
    }
}
