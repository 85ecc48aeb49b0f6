//! What may leave the run as training data.

use std::collections::BTreeSet;

use serde::Deserialize;

use super::codec::from_sql;
use super::memo::read_trajectory;
use super::{RunReader, StoreError};
use crate::evolution::StepResult;
use crate::export::{PathStep, Row};
use crate::harness::{Genome, HarnessId};
use crate::lineage::Lineage;
use crate::task::{JobType, SkillName, TaskId};

struct Candidate {
    harness: HarnessId,
    task: TaskId,
    seed: u64,
    job_type: String,
    skill: String,
    split: String,
    hash: String,
    body: Option<Vec<u8>>,
}

/// The harness that an evaluation played, as its folder keeps it beside the episodes.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct EvaluatedHarness {
    /// Its id.
    pub harness: HarnessId,
    /// Its genes.
    pub genome: Genome,
}

#[derive(Deserialize)]
struct Evaluation {
    eval: EvaluatedHarness,
}

impl RunReader {
    /// The harness of an evaluation; none in the folder of a run, whose harnesses are in its lineage.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn evaluated(&self) -> Result<Option<EvaluatedHarness>, StoreError> {
        let meta = self.meta()?;
        Ok(serde_json::from_str::<Evaluation>(&meta.experiment).ok().map(|evaluation| evaluation.eval))
    }

    /// The solved episodes of elites on their own job types, of the search and validate splits; of an evaluation all that its harness
    /// solved there. Only episodes that a committed step counts are taken, so that neither a kill nor the number of workers changes
    /// the result.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn export_rows(&self) -> Result<Vec<Row>, StoreError> {
        let meta = self.meta()?;
        let lineage = self.lineage()?;
        let evaluation = self.evaluated()?.is_some();
        let counted = if evaluation { BTreeSet::new() } else { self.counted_episodes()? };
        let players = if evaluation {
            "SELECT DISTINCT task.job_type, harness_id FROM episode JOIN task ON task.id = task_id"
        } else {
            "SELECT DISTINCT job_type, harness_id FROM elites"
        };
        let query = format!(
            "SELECT episode.harness_id, episode.task_id, episode.seed, task.job_type, task.skill, episode.split,
                    trajectory.hash, trajectory.body
             FROM ({players}) AS player
             JOIN episode ON episode.harness_id = player.harness_id
             JOIN model ON model.id = episode.model_id AND model.fingerprint = ?1
             JOIN task ON task.id = episode.task_id AND task.job_type = player.job_type
             JOIN trajectory ON trajectory.id = episode.trajectory_id
             WHERE episode.passed = 1 AND episode.repeated = 0 AND episode.split IN ('search', 'validate')"
        );
        let candidates = self.rows("looking for solved episodes", &query, [&meta.model.fingerprint], read_candidate)?;
        let mut rows = Vec::new();
        for candidate in candidates {
            let candidate = candidate?;
            if evaluation || counted.contains(&(candidate.harness, candidate.task, candidate.seed)) {
                rows.push(self.export_row(candidate, &lineage, meta.simulated)?);
            }
        }
        Ok(rows)
    }

    fn counted_episodes(&self) -> Result<BTreeSet<(HarnessId, TaskId, u64)>, StoreError> {
        let mut counted = BTreeSet::new();
        for step in self.steps() {
            if let StepResult::Evaluated { evaluations, .. } = step?.result {
                for evaluation in evaluations {
                    counted.extend(evaluation.episodes.iter().map(|episode| (evaluation.harness, episode.task, episode.seed)));
                }
            }
        }
        Ok(counted)
    }

    fn export_row(&self, candidate: Candidate, lineage: &Lineage, simulated: bool) -> Result<Row, StoreError> {
        let what = || format!("an episode of harness {}", candidate.harness);
        let path = lineage.path(candidate.harness);
        let path = path.iter().map(|node| PathStep { harness: node.id, made_by: node.made_by().to_owned() }).collect();
        let row = Row {
            trajectory: read_trajectory(&self.blobs, &candidate.hash, candidate.body)?,
            job_type: JobType::new(&candidate.job_type).map_err(|error| StoreError::value(what(), error))?,
            skill: SkillName::new(&candidate.skill).map_err(|error| StoreError::value(what(), error))?,
            split: super::lookup::named(&what(), candidate.split)?,
            path,
            simulated,
            licence: None,
        };
        Ok(row)
    }
}

fn read_candidate(row: &rusqlite::Row<'_>) -> rusqlite::Result<Result<Candidate, StoreError>> {
    let (harness, task): (String, String) = (row.get(0)?, row.get(1)?);
    let (seed, job_type, skill, split, hash, body) = (row.get(2)?, row.get(3)?, row.get(4)?, row.get(5)?, row.get(6)?, row.get(7)?);
    let parse = || {
        Ok(Candidate {
            harness: harness.parse().map_err(|error| StoreError::value("an episode", error))?,
            task: task.parse().map_err(|error| StoreError::value("an episode", error))?,
            seed: from_sql("the seed of an episode", seed)?,
            job_type,
            skill,
            split,
            hash,
            body,
        })
    };
    Ok(parse())
}
