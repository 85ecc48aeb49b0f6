//! The log of episodes: what was played is never paid for twice.

use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension as _, params};

use super::StoreError;
use super::codec::{from_json, from_sql, pack, sql_count, sql_exact, unpack};
use super::folder::Shared;
use crate::base::{Timestamp, canonical_bytes};
use crate::evaluation::{EpisodeKey, EpisodeLog, EpisodeScore, LogError};
use crate::task::Split;
use crate::trajectory::{Outcome, Timing, Trajectory};

/// Packed trajectories up to this size stand in the database: below it a row is cheaper than a file.
const INLINE_BYTES: usize = 48 * 1024;

/// The episode log of a run.
#[derive(Clone)]
pub struct StoredEpisodes {
    shared: Arc<Shared>,
}

/// An attempt at an episode, ready to be written.
struct AttemptRow {
    key: EpisodeKey,
    seed: i64,
    split: Split,
    attempt: u32,
    trajectory: TrajectoryRow,
    timing: Timing,
    score: Option<EpisodeScore>,
    ended: Ended,
    steps: u32,
    prompt_tokens: u64,
    completion_tokens: u64,
    model_name: String,
}

struct TrajectoryRow {
    hash: String,
    body: Option<Vec<u8>>,
}

enum Ended {
    Scored { ending: String },
    Faulted { boundary: String, message: String },
}

impl StoredEpisodes {
    pub(super) const fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    fn row(
        &self,
        key: &EpisodeKey,
        split: Split,
        attempt: u32,
        trajectory: &Trajectory,
        timing: Timing,
        score: Option<&EpisodeScore>,
    ) -> Result<AttemptRow, StoreError> {
        let ended = match &trajectory.outcome {
            Outcome::Scored { ending, .. } => Ended::Scored { ending: name_of(ending)? },
            Outcome::Faulted { fault } => Ended::Faulted { boundary: name_of(&fault.boundary)?, message: fault.message.clone() },
        };
        if matches!(ended, Ended::Scored { .. }) != score.is_some() {
            return Err(StoreError::refused("an episode", "its outcome and its score disagree on whether it was scored"));
        }
        if score.is_some_and(|score| !score.score.is_finite()) {
            return Err(StoreError::refused("an episode", "its score is not a finite number"));
        }
        let usage = trajectory.total_usage();
        Ok(AttemptRow {
            key: key.clone(),
            seed: sql_exact("the seed of an episode", key.seed)?,
            split,
            attempt,
            trajectory: self.keep(trajectory)?,
            timing,
            score: score.cloned(),
            ended,
            steps: trajectory.steps(),
            prompt_tokens: usage.prompt_tokens,
            completion_tokens: usage.completion_tokens,
            model_name: trajectory.model.clone(),
        })
    }

    /// Packs a trajectory; a long one is written to a blob here, before the row that names it.
    fn keep(&self, trajectory: &Trajectory) -> Result<TrajectoryRow, StoreError> {
        let bytes = canonical_bytes(trajectory).map_err(|error| StoreError::refused("a trajectory", error))?;
        let hash = blake3::hash(&bytes).to_hex().to_string();
        let packed = pack("a trajectory", &bytes)?;
        if packed.len() <= INLINE_BYTES {
            return Ok(TrajectoryRow { hash, body: Some(packed) });
        }
        self.shared.blobs.put_packed(&hash, &packed)?;
        Ok(TrajectoryRow { hash, body: None })
    }

    fn find_score(&self, key: &EpisodeKey) -> Result<Option<EpisodeScore>, StoreError> {
        let Ok(seed) = i64::try_from(key.seed) else { return Ok(None) };
        let connection = self.shared.finder();
        let columns = connection
            .prepare_cached(
                "SELECT score, steps, tokens, micro_usd, lost_tokens, lost_micro_usd, shell_calls, gui_calls FROM episode
                 WHERE harness_id = ?1 AND task_id = ?2 AND seed = ?3
                   AND model_id = (SELECT id FROM model WHERE fingerprint = ?4) AND outcome = 'scored' AND repeated = 0",
            )
            .and_then(|mut statement| {
                let values = params![key.harness.to_string(), key.task.to_string(), seed, key.model];
                statement.query_row(values, |row| {
                    let counts = [row.get(2)?, row.get(3)?, row.get(4)?, row.get(5)?];
                    Ok((row.get::<_, f64>(0)?, row.get::<_, u32>(1)?, counts, row.get::<_, u32>(6)?, row.get::<_, u32>(7)?))
                })
            })
            .optional()
            .map_err(StoreError::sql("looking for an episode"))?;
        let Some((score, steps, counts, shell_calls, gui_calls)) = columns else { return Ok(None) };
        let count = |index: usize| from_sql("a count of an episode", counts[index]);
        let (tokens, micro_usd, lost_tokens, lost_micro_usd) = (count(0)?, count(1)?, count(2)?, count(3)?);
        let (task, seed) = (key.task, key.seed);
        Ok(Some(EpisodeScore { task, seed, score, steps, tokens, micro_usd, lost_tokens, lost_micro_usd, shell_calls, gui_calls }))
    }

    fn find_trajectory(&self, key: &EpisodeKey) -> Result<Option<Trajectory>, StoreError> {
        let Ok(seed) = i64::try_from(key.seed) else { return Ok(None) };
        let found: Option<(String, Option<Vec<u8>>)> = self
            .shared
            .finder()
            .prepare_cached(
                "SELECT trajectory.hash, trajectory.body FROM episode JOIN trajectory ON trajectory.id = episode.trajectory_id
                 WHERE harness_id = ?1 AND task_id = ?2 AND seed = ?3
                   AND model_id = (SELECT id FROM model WHERE fingerprint = ?4) AND outcome = 'scored' AND repeated = 0",
            )
            .and_then(|mut statement| {
                let values = params![key.harness.to_string(), key.task.to_string(), seed, key.model];
                statement.query_row(values, |row| Ok((row.get(0)?, row.get(1)?))).optional()
            })
            .map_err(StoreError::sql("looking for a trajectory"))?;
        found.map(|(hash, body)| read_trajectory(&self.shared.blobs, &hash, body)).transpose()
    }
}

/// Unpacks and verifies a trajectory from its row.
pub(super) fn read_trajectory(blobs: &super::blobs::Blobs, hash: &str, body: Option<Vec<u8>>) -> Result<Trajectory, StoreError> {
    let bytes = match body {
        Some(packed) => {
            let bytes = unpack("a trajectory", &packed)?;
            super::blobs::verify(hash, &bytes)?;
            bytes
        }
        None => blobs.get(hash)?,
    };
    from_json("a trajectory", &bytes)
}

#[async_trait::async_trait]
impl EpisodeLog for StoredEpisodes {
    async fn find(&self, key: &EpisodeKey) -> Result<Option<EpisodeScore>, LogError> {
        self.find_score(key).map_err(|error| LogError(error.to_string()))
    }

    async fn trajectory(&self, key: &EpisodeKey) -> Result<Option<Trajectory>, LogError> {
        self.find_trajectory(key).map_err(|error| LogError(error.to_string()))
    }

    async fn record(
        &self,
        key: &EpisodeKey,
        split: Split,
        attempt: u32,
        trajectory: &Trajectory,
        timing: Timing,
        score: Option<&EpisodeScore>,
    ) -> Result<(), LogError> {
        let row = self.row(key, split, attempt, trajectory, timing, score).map_err(|error| LogError(error.to_string()))?;
        let now = self.shared.clock.now();
        let outcome = self.shared.writer.write_async(move |connection| row.insert(connection, now)).await;
        outcome.map_err(|error| LogError(error.to_string()))
    }
}

impl AttemptRow {
    fn insert(&self, connection: &Connection, now: Timestamp) -> Result<(), StoreError> {
        self.insert_parts(connection).and_then(|()| self.insert_row(connection, now)).map_err(StoreError::sql("writing an episode"))
    }

    fn insert_parts(&self, connection: &Connection) -> rusqlite::Result<()> {
        connection
            .prepare_cached("INSERT INTO model (fingerprint, name) VALUES (?1, ?2) ON CONFLICT (fingerprint) DO NOTHING")?
            .execute(params![self.key.model, self.model_name])?;
        connection
            .prepare_cached("INSERT INTO trajectory (hash, body) VALUES (?1, ?2) ON CONFLICT (hash) DO NOTHING")?
            .execute(params![self.trajectory.hash, self.trajectory.body])
            .map(drop)
    }

    fn insert_row(&self, connection: &Connection, now: Timestamp) -> rusqlite::Result<()> {
        let (outcome, ending, boundary, fault) = match &self.ended {
            Ended::Scored { ending } => ("scored", Some(ending), None, None),
            Ended::Faulted { boundary, message } => ("faulted", None, Some(boundary), Some(message)),
        };
        let score = self.score.as_ref();
        let tokens = score.map_or(self.prompt_tokens.saturating_add(self.completion_tokens), |score| score.tokens);
        connection
            .prepare_cached(
                "INSERT INTO episode (harness_id, task_id, seed, model_id, split, attempt, outcome, repeated, score, passed, ending,
                                      boundary, fault, steps, tokens, prompt_tokens, completion_tokens, micro_usd, lost_tokens,
                                      lost_micro_usd, shell_calls, gui_calls, total_ms, model_ms, tools_ms, sandbox_ms, check_ms,
                                      trajectory_id, created_at)
                 SELECT ?1, ?2, ?3, model.id, ?5, ?6, ?7,
                        EXISTS (SELECT 1 FROM episode WHERE harness_id = ?1 AND task_id = ?2 AND seed = ?3
                                AND model_id = model.id AND outcome = 'scored'),
                        ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24, ?25, ?26,
                        (SELECT id FROM trajectory WHERE hash = ?27), ?28
                 FROM model WHERE fingerprint = ?4",
            )?
            .execute(params![
                self.key.harness.to_string(),
                self.key.task.to_string(),
                self.seed,
                self.key.model,
                self.split.as_str(),
                self.attempt,
                outcome,
                score.map(|score| score.score),
                score.map(EpisodeScore::passed),
                ending,
                boundary,
                fault,
                score.map_or(self.steps, |score| score.steps),
                sql_count(tokens),
                sql_count(self.prompt_tokens),
                sql_count(self.completion_tokens),
                score.map(|score| sql_count(score.micro_usd)),
                score.map(|score| sql_count(score.lost_tokens)),
                score.map(|score| sql_count(score.lost_micro_usd)),
                score.map(|score| score.shell_calls),
                score.map(|score| score.gui_calls),
                sql_count(self.timing.total_ms),
                sql_count(self.timing.model_ms),
                sql_count(self.timing.tools_ms),
                sql_count(self.timing.sandbox_ms),
                sql_count(self.timing.check_ms),
                self.trajectory.hash,
                now.0,
            ])
            .map(drop)
    }
}

/// The name of a unit variant, as in JSON.
fn name_of(value: &impl serde::Serialize) -> Result<String, StoreError> {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(name)) => Ok(name),
        other => Err(StoreError::refused("an outcome", format!("{other:?} is not a name"))),
    }
}
