//! The journal: steps, in order, each in one transaction with all that follows from it.

use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension as _, params};

use super::StoreError;
use super::codec::{from_json, json_text, sql_count, sql_exact};
use super::folder::Shared;
use super::record::{BirthRows, StepRows, niche_key};
use crate::base::Timestamp;
use crate::evolution::{Effect, Journal, JournalError, StepRecord};
use crate::harness::{Genome, HarnessId, diff};

/// The journal of a run. A committed step is in the write-ahead log.
pub struct StepJournal {
    shared: Arc<Shared>,
}

impl StepJournal {
    pub(super) const fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }
}

impl Journal for StepJournal {
    fn commit(&mut self, record: &StepRecord) -> Result<(), JournalError> {
        let rows = StepRows::new(record).map_err(|error| JournalError(error.to_string()))?;
        let now = self.shared.clock.now();
        let outcome = self.shared.writer.write(|connection| write_step(connection, &rows, now));
        outcome.map_err(|error| JournalError(error.to_string()))
    }
}

fn write_step(connection: &Connection, rows: &StepRows, now: Timestamp) -> Result<(), StoreError> {
    let step = sql_exact("the number of a step", rows.step)?;
    let next: i64 = connection
        .prepare_cached("SELECT coalesce(max(step) + 1, 0) FROM step")
        .and_then(|mut statement| statement.query_row([], |row| row.get(0)))
        .map_err(StoreError::sql("looking for the last step"))?;
    if step != next {
        return Err(StoreError::refused(format!("step {step}"), format!("the next step is {next}")));
    }
    insert_step(connection, rows, step, now).map_err(StoreError::sql("writing a step"))?;
    if let Some(birth) = &rows.birth {
        write_birth(connection, rows, birth, step)?;
    }
    rows.effects
        .iter()
        .try_for_each(|effect| write_effect(connection, effect, step))
        .map_err(StoreError::sql("writing what a step changed"))
}

fn insert_step(connection: &Connection, rows: &StepRows, step: i64, now: Timestamp) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "INSERT INTO step (step, kind, operator, job_type, harness_id, refused, overhead_tokens, overhead_micro_usd,
                               spent_episodes, spent_tokens, spent_micro_usd, committed_at, record)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
        )?
        .execute(params![
            step,
            rows.kind,
            rows.operator.map(crate::lineage::OperatorName::as_str),
            rows.job_type,
            rows.harness.map(|harness| harness.to_string()),
            rows.refused,
            sql_count(rows.overhead.tokens),
            sql_count(rows.overhead.micro_usd),
            sql_count(rows.spent.episodes),
            sql_count(rows.spent.tokens),
            sql_count(rows.spent.micro_usd),
            now.0,
            rows.record,
        ])
        .map(drop)
}

fn write_birth(connection: &Connection, rows: &StepRows, birth: &BirthRows, step: i64) -> Result<(), StoreError> {
    let id = birth.harness.to_string();
    let sql = || StoreError::sql("writing a harness");
    let first = birth.parents.first().map(HarnessId::to_string);
    connection
        .prepare_cached(
            "INSERT INTO harness (id, step, template, depth, genome)
             VALUES (?1, ?2, ?3, coalesce((SELECT depth + 1 FROM harness WHERE id = ?4), 0), ?5)",
        )
        .and_then(|mut statement| statement.execute(params![id, step, birth.template, first, birth.genome_json]))
        .map_err(sql())?;
    for (place, parent) in (0_i64..).zip(&birth.parents) {
        let (changes, hypothesis) = if place == 0 {
            (birth.diff_json.clone(), birth.hypothesis_json.as_deref())
        } else {
            (diff_from(connection, *parent, &birth.genome)?, None)
        };
        connection
            .prepare_cached("INSERT INTO edge (child, place, parent, operator, diff, hypothesis) VALUES (?1, ?2, ?3, ?4, ?5, ?6)")
            .and_then(|mut statement| {
                let operator = rows.operator.map_or("seed", crate::lineage::OperatorName::as_str);
                statement.execute(params![id, place, parent.to_string(), operator, changes, hypothesis])
            })
            .map_err(sql())?;
    }
    Ok(())
}

/// The difference from a second parent, whose genome only the database has at hand.
fn diff_from(connection: &Connection, parent: HarnessId, child: &Genome) -> Result<String, StoreError> {
    let genome: Option<String> = connection
        .prepare_cached("SELECT genome FROM harness WHERE id = ?1")
        .and_then(|mut statement| statement.query_row([parent.to_string()], |row| row.get(0)).optional())
        .map_err(StoreError::sql("reading a parent"))?;
    let genome = genome.ok_or_else(|| StoreError::refused("an edge", format!("its parent {parent} is not in the lineage")))?;
    let parent: Genome = from_json("a genome", genome.as_bytes())?;
    let changes = diff(&parent, child).map_err(|error| StoreError::refused("a difference", error))?;
    json_text("a difference", &changes)
}

fn write_effect(connection: &Connection, effect: &Effect, step: i64) -> rusqlite::Result<()> {
    match effect {
        Effect::NicheTaken { niche, harness, previous, mean, episodes } => {
            let (key, id) = (niche_key(niche), harness.to_string());
            connection
                .prepare_cached(
                    "INSERT INTO niche_history (step, niche, harness_id, previous_id, mean_score, episodes) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
                )?
                .execute(params![step, key, id, previous.map(|previous| previous.to_string()), mean, episodes])?;
            connection
                .prepare_cached(
                    "INSERT INTO niche (niche, job_type, steps_bin, tokens_bin, harness_id, step, mean_score, episodes)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
                     ON CONFLICT (niche) DO UPDATE SET harness_id = excluded.harness_id, step = excluded.step,
                                                       mean_score = excluded.mean_score, episodes = excluded.episodes",
                )?
                .execute(params![key, niche.job_type.as_str(), niche.steps_bin, niche.tokens_bin, id, step, mean, episodes])
        }
        Effect::EliteConfirmed { niche, harness, rate, low, high, episodes, mean_steps, mean_tokens, mean_micro_usd } => connection
            .prepare_cached(
                "INSERT INTO elite (niche, harness_id, step, rate, low, high, episodes, mean_steps, mean_tokens, mean_micro_usd)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
            )?
            .execute(params![
                niche_key(niche),
                harness.to_string(),
                step,
                rate,
                low,
                high,
                episodes,
                mean_steps,
                mean_tokens,
                mean_micro_usd
            ]),
        Effect::HypothesisJudged { harness, judged } => connection
            .prepare_cached(
                "UPDATE edge SET judged_difference = ?2, judged_low = ?3, judged_high = ?4, judged_pairs = ?5
                 WHERE child = ?1 AND place = 0",
            )?
            .execute(params![harness.to_string(), judged.difference, judged.low, judged.high, judged.pairs]),
    }
    .map(drop)
}
