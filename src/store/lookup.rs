//! Look-ups: harnesses by the start of their id, episodes by filter, trajectories.

use rusqlite::OptionalExtension as _;
use rusqlite::types::Value;

use super::codec::{from_json, from_sql};
use super::memo::read_trajectory;
use super::tables::StoredHarness;
use super::{RunReader, StoreError};
use crate::base::Timestamp;
use crate::harness::HarnessId;
use crate::task::{JobType, Split, TaskId};
use crate::trajectory::{Boundary, Ending, Timing, Trajectory};

/// What has ids that are looked up by prefix.
#[derive(Debug, Clone, Copy)]
enum Table {
    Harness,
    Task,
}

impl Table {
    const fn name(self) -> &'static str {
        match self {
            Self::Harness => "harness",
            Self::Task => "task",
        }
    }
}

/// Most candidates an error names.
const CANDIDATES: usize = 8;

/// Which episodes to list. `None` everywhere lists all, up to `limit`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EpisodeFilter {
    /// Of this harness.
    pub harness: Option<HarnessId>,
    /// Of this kind of work.
    pub job_type: Option<JobType>,
    /// On this split.
    pub split: Option<Split>,
    /// Of this task.
    pub task: Option<TaskId>,
    /// With this outcome.
    pub outcome: OutcomeFilter,
    /// At most so many, the newest first; none for all.
    pub limit: Option<u32>,
}

/// Which outcomes to list.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OutcomeFilter {
    /// Every attempt.
    #[default]
    Any,
    /// Solved.
    Passed,
    /// Scored, not solved.
    Failed,
    /// Faults.
    Faulted,
}

/// One attempt at an episode.
#[derive(Debug, Clone, PartialEq)]
pub struct EpisodeRow {
    /// Its number in this run, in the order of arrival.
    pub id: i64,
    /// The harness.
    pub harness: HarnessId,
    /// The task.
    pub task: TaskId,
    /// The kind of work and the skill, if the run knows the task.
    pub work: Option<(String, String)>,
    /// The split.
    pub split: Split,
    /// The episode's seed.
    pub seed: u64,
    /// Which attempt, from 0.
    pub attempt: u32,
    /// How it ended.
    pub ended: EpisodeEnd,
    /// Model replies.
    pub steps: u32,
    /// Prompt and completion tokens.
    pub tokens: u64,
    /// Price in millionths of a US dollar; none for a fault.
    pub micro_usd: Option<u64>,
    /// Where the time went.
    pub timing: Timing,
    /// When it was recorded.
    pub created_at: Timestamp,
}

/// How a listed episode ended.
#[derive(Debug, Clone, PartialEq)]
pub enum EpisodeEnd {
    /// The check decided.
    Scored {
        /// In `[0, 1]`.
        score: f64,
        /// What ended the agent's turn.
        ending: Ending,
    },
    /// Something other than the agent failed.
    Faulted {
        /// Where.
        boundary: Boundary,
        /// What.
        message: String,
    },
}

impl RunReader {
    /// The harness whose id starts with `prefix`.
    ///
    /// # Errors
    /// When there is none or several; then some of them are named.
    pub fn harness(&self, prefix: &str) -> Result<StoredHarness, StoreError> {
        let id = self.unique(Table::Harness, prefix)?;
        let row = self
            .connection
            .query_row("SELECT id, step, depth, template, genome FROM harness WHERE id = ?1", [&id], |row| {
                Ok((row.get::<_, i64>(1)?, row.get::<_, u32>(2)?, row.get::<_, Option<String>>(3)?, row.get::<_, String>(4)?))
            })
            .map_err(StoreError::sql("reading a harness"))?;
        let (step, depth, template, genome) = row;
        let what = format!("harness {id}");
        Ok(StoredHarness {
            id: id.parse().map_err(|error| StoreError::value(&what, error))?,
            step: from_sql("the step of a harness", step)?,
            depth,
            template,
            genome: from_json(&what, genome.as_bytes())?,
        })
    }

    /// The id of the task whose id starts with `prefix`.
    ///
    /// # Errors
    /// When there is none or several; then some of them are named.
    pub fn task_id(&self, prefix: &str) -> Result<TaskId, StoreError> {
        self.unique(Table::Task, prefix)?.parse().map_err(|error| StoreError::value("a task", error))
    }

    /// Ids are looked up as a range of the index, so that it costs the same in a long run.
    fn unique(&self, table: Table, prefix: &str) -> Result<String, StoreError> {
        let kind = table.name();
        let sql = format!("SELECT id FROM {kind} WHERE id >= ?1 AND id < ?1 || 'g' ORDER BY id LIMIT ?2");
        let none = || StoreError::NoSuchId { kind, prefix: prefix.to_owned() };
        if prefix.is_empty() || !prefix.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
            return Err(none());
        }
        let limit = i64::try_from(CANDIDATES).unwrap_or(i64::MAX);
        let mut found: Vec<String> = self.rows("looking for an id", &sql, (prefix, limit), |row| row.get(0))?;
        if found.len() > 1 {
            return Err(StoreError::Ambiguous { kind, prefix: prefix.to_owned(), candidates: found });
        }
        found.pop().ok_or_else(none)
    }

    /// The attempts that match, the newest first.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn episodes(&self, filter: &EpisodeFilter) -> Result<Vec<EpisodeRow>, StoreError> {
        let mut conditions = vec!["1".to_owned()];
        let mut values: Vec<Value> = Vec::new();
        let mut require = |column: &str, value: String| {
            values.push(Value::Text(value));
            conditions.push(format!("{column} = ?{}", values.len()));
        };
        if let Some(harness) = filter.harness {
            require("episode.harness_id", harness.to_string());
        }
        if let Some(job_type) = &filter.job_type {
            require("task.job_type", job_type.to_string());
        }
        if let Some(split) = filter.split {
            require("episode.split", split.as_str().to_owned());
        }
        if let Some(task) = filter.task {
            require("episode.task_id", task.to_string());
        }
        conditions.push(filter.outcome.condition().to_owned());
        let limit = filter.limit.map_or(-1, i64::from);
        let sql = format!("{EPISODE_COLUMNS} WHERE {} ORDER BY episode.id DESC LIMIT {limit}", conditions.join(" AND "));
        let raw = self.rows("listing episodes", &sql, rusqlite::params_from_iter(values), RawEpisode::read)?;
        raw.into_iter().map(RawEpisode::parse).collect()
    }

    /// The attempt numbered `id`.
    ///
    /// # Errors
    /// When there is none or it cannot be read.
    pub fn episode(&self, id: i64) -> Result<EpisodeRow, StoreError> {
        let raw = self.rows("reading an episode", &format!("{EPISODE_COLUMNS} WHERE episode.id = ?1"), [id], RawEpisode::read)?;
        let none = || StoreError::NoSuchId { kind: "episode", prefix: id.to_string() };
        raw.into_iter().next().ok_or_else(none)?.parse()
    }

    /// What happened in the attempt numbered `id`.
    ///
    /// # Errors
    /// When there is no such attempt, or its trajectory is missing or damaged.
    pub fn trajectory(&self, id: i64) -> Result<Trajectory, StoreError> {
        let found: Option<(String, Option<Vec<u8>>)> = self
            .connection
            .prepare_cached(
                "SELECT trajectory.hash, trajectory.body FROM episode JOIN trajectory ON trajectory.id = episode.trajectory_id
                 WHERE episode.id = ?1",
            )
            .and_then(|mut statement| statement.query_row([id], |row| Ok((row.get(0)?, row.get(1)?))).optional())
            .map_err(StoreError::sql("reading a trajectory"))?;
        let (hash, body) = found.ok_or_else(|| StoreError::NoSuchId { kind: "episode", prefix: id.to_string() })?;
        read_trajectory(&self.blobs, &hash, body)
    }
}

impl OutcomeFilter {
    const fn condition(self) -> &'static str {
        match self {
            Self::Any => "1",
            Self::Passed => "episode.passed = 1",
            Self::Failed => "episode.passed = 0",
            Self::Faulted => "episode.outcome = 'faulted'",
        }
    }
}

const EPISODE_COLUMNS: &str = "SELECT episode.id, episode.harness_id, episode.task_id, task.job_type, task.skill, episode.split,
       episode.seed, episode.attempt, episode.score, episode.ending, episode.boundary, episode.fault, episode.steps, episode.tokens,
       episode.micro_usd, episode.total_ms, episode.model_ms, episode.tools_ms, episode.sandbox_ms, episode.check_ms, episode.created_at
FROM episode LEFT JOIN task ON task.id = episode.task_id";

/// A row as SQL gives it.
struct RawEpisode {
    id: i64,
    harness: String,
    task: String,
    work: Option<(String, String)>,
    split: String,
    seed: i64,
    attempt: u32,
    score: Option<f64>,
    ending: Option<String>,
    boundary: Option<String>,
    fault: Option<String>,
    steps: u32,
    tokens: i64,
    micro_usd: Option<i64>,
    times: [i64; 5],
    created_at: i64,
}

impl RawEpisode {
    fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<Self> {
        let (job_type, skill): (Option<String>, Option<String>) = (row.get(3)?, row.get(4)?);
        Ok(Self {
            id: row.get(0)?,
            harness: row.get(1)?,
            task: row.get(2)?,
            work: job_type.zip(skill),
            split: row.get(5)?,
            seed: row.get(6)?,
            attempt: row.get(7)?,
            score: row.get(8)?,
            ending: row.get(9)?,
            boundary: row.get(10)?,
            fault: row.get(11)?,
            steps: row.get(12)?,
            tokens: row.get(13)?,
            micro_usd: row.get(14)?,
            times: [row.get(15)?, row.get(16)?, row.get(17)?, row.get(18)?, row.get(19)?],
            created_at: row.get(20)?,
        })
    }

    fn parse(self) -> Result<EpisodeRow, StoreError> {
        let what = format!("episode {}", self.id);
        let value = |reason: String| StoreError::value(&what, reason);
        let ended = match (self.score, self.ending, self.boundary) {
            (Some(score), Some(ending), _) => EpisodeEnd::Scored { score, ending: named(&what, ending)? },
            (_, _, Some(boundary)) => EpisodeEnd::Faulted { boundary: named(&what, boundary)?, message: self.fault.unwrap_or_default() },
            _ => return Err(value("it has neither a score nor a fault".to_owned())),
        };
        let [total_ms, model_ms, tools_ms, sandbox_ms, check_ms] = self.times;
        let time = |number| from_sql("a time of an episode", number);
        Ok(EpisodeRow {
            id: self.id,
            harness: self.harness.parse().map_err(|error| value(format!("{error}")))?,
            task: self.task.parse().map_err(|error| value(format!("{error}")))?,
            work: self.work,
            split: named(&what, self.split)?,
            seed: from_sql("the seed of an episode", self.seed)?,
            attempt: self.attempt,
            ended,
            steps: self.steps,
            tokens: from_sql("the tokens of an episode", self.tokens)?,
            micro_usd: self.micro_usd.map(|number| from_sql("the price of an episode", number)).transpose()?,
            timing: Timing {
                total_ms: time(total_ms)?,
                model_ms: time(model_ms)?,
                tools_ms: time(tools_ms)?,
                sandbox_ms: time(sandbox_ms)?,
                check_ms: time(check_ms)?,
            },
            created_at: Timestamp(self.created_at),
        })
    }
}

/// A unit variant from its name, as in JSON.
pub(super) fn named<T: serde::de::DeserializeOwned>(what: &str, name: String) -> Result<T, StoreError> {
    serde_json::from_value(serde_json::Value::String(name)).map_err(|error| StoreError::value(what, error))
}
