//! Rows for people and programs: elites, leaderboard, report, status.

use rusqlite::{Connection, Row, params};

use super::codec::from_sql;
use super::lookup::named;
use super::{RunReader, StoreError};
use crate::base::{Amount, Timestamp};
use crate::evaluation::Interval;
use crate::evolution::ComparisonRow;
use crate::harness::{Genome, HarnessId};
use crate::task::{JobType, Split};
use crate::trajectory::Boundary;

/// A harness of the run.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredHarness {
    /// Its id.
    pub id: HarnessId,
    /// The step that made it.
    pub step: u64,
    /// Edges from a seed along first parents.
    pub depth: u32,
    /// The template, for a seed.
    pub template: Option<String>,
    /// Its genes.
    pub genome: Genome,
}

/// A row of the view `elites`.
#[derive(Debug, Clone, PartialEq)]
pub struct EliteRow {
    /// The kind of work.
    pub job_type: JobType,
    /// The niche, for example `shell/s0t1`.
    pub niche: String,
    /// Its holder.
    pub harness: HarnessId,
    /// Solved share on the validate split.
    pub validate_rate: f64,
    /// Lower end of its interval.
    pub validate_low: f64,
    /// Upper end.
    pub validate_high: f64,
    /// Over how many episodes.
    pub episodes: u32,
    /// Mean model replies.
    pub mean_steps: f64,
    /// Mean tokens.
    pub mean_tokens: f64,
    /// Mean price in millionths of a US dollar.
    pub mean_micro_usd: f64,
    /// Mean score on the search split when it took the niche.
    pub search_mean: f64,
    /// The step that confirmed it.
    pub step: u64,
}

/// A row of the view `leaderboard`.
#[derive(Debug, Clone, PartialEq)]
pub struct LeaderRow {
    /// The kind of work.
    pub job_type: JobType,
    /// The split; never sealed.
    pub split: Split,
    /// From 1.
    pub rank: u32,
    /// The harness.
    pub harness: HarnessId,
    /// Mean score.
    pub mean_score: f64,
    /// Solved share.
    pub solved_rate: f64,
    /// Over how many episodes.
    pub episodes: u32,
    /// Mean model replies.
    pub mean_steps: f64,
    /// Mean tokens.
    pub mean_tokens: f64,
    /// Mean price in millionths of a US dollar.
    pub mean_micro_usd: f64,
}

/// Where a run stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// Committed steps.
    pub steps: u64,
    /// Of these, proposals of which no child came.
    pub refused: u64,
    /// Harnesses.
    pub harnesses: u64,
    /// Niches with a holder.
    pub niches: u64,
    /// Holders that are confirmed.
    pub elites: u64,
    /// Scored episodes, with those of steps in flight.
    pub scored: u64,
    /// Attempts that faulted, by boundary.
    pub faults: Vec<(Boundary, u64)>,
    /// Spent, as of the last committed step.
    pub spent: Amount,
    /// When the last step was committed.
    pub last_step_at: Option<Timestamp>,
}

pub(super) fn insert_report(connection: &Connection, row: &ComparisonRow) -> rusqlite::Result<()> {
    connection
        .prepare_cached("INSERT INTO report VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)")?
        .execute(params![
            row.job_type.as_str(),
            row.split.as_str(),
            row.role.as_str(),
            row.label,
            row.harness.to_string(),
            row.rate.mean,
            row.rate.low,
            row.rate.high,
            row.episodes,
            row.best_of,
            row.gain.map(|gain| gain.mean),
            row.gain.map(|gain| gain.low),
            row.gain.map(|gain| gain.high),
            row.mean_steps,
            row.mean_tokens,
            row.mean_micro_usd,
        ])
        .map(drop)
}

fn interval(row: &Row<'_>, first: usize) -> rusqlite::Result<Interval> {
    Ok(Interval { mean: row.get(first)?, low: row.get(first + 1)?, high: row.get(first + 2)? })
}

impl RunReader {
    /// The elites, by job type, the best first.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn elites(&self) -> Result<Vec<EliteRow>, StoreError> {
        let sql = "SELECT job_type, niche, harness_id, validate_rate, validate_low, validate_high, episodes, mean_steps, mean_tokens,
                          mean_micro_usd, search_mean, step FROM elites";
        self.rows("reading the elites", sql, (), |row| {
            Ok(EliteRow {
                job_type: parsed(row, 0)?,
                niche: row.get(1)?,
                harness: parsed(row, 2)?,
                validate_rate: row.get(3)?,
                validate_low: row.get(4)?,
                validate_high: row.get(5)?,
                episodes: row.get(6)?,
                mean_steps: row.get(7)?,
                mean_tokens: row.get(8)?,
                mean_micro_usd: row.get(9)?,
                search_mean: row.get(10)?,
                step: row.get::<_, u32>(11)?.into(),
            })
        })
    }

    /// Harnesses by job type and split, the best first.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn leaderboard(&self) -> Result<Vec<LeaderRow>, StoreError> {
        let sql = "SELECT job_type, split, rank, harness_id, mean_score, solved_rate, episodes, mean_steps, mean_tokens, mean_micro_usd
                   FROM leaderboard";
        self.rows("reading the leaderboard", sql, (), |row| {
            Ok(LeaderRow {
                job_type: parsed(row, 0)?,
                split: name(row, 1)?,
                rank: row.get(2)?,
                harness: parsed(row, 3)?,
                mean_score: row.get(4)?,
                solved_rate: row.get(5)?,
                episodes: row.get(6)?,
                mean_steps: row.get(7)?,
                mean_tokens: row.get(8)?,
                mean_micro_usd: row.get(9)?,
            })
        })
    }

    /// The final table, by job type, split and role; empty before the run's end.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn report(&self) -> Result<Vec<ComparisonRow>, StoreError> {
        let sql = "SELECT * FROM report ORDER BY job_type, split,
                   CASE role WHEN 'seed' THEN 0 WHEN 'baseline' THEN 1 WHEN 'elite' THEN 2 ELSE 3 END, label";
        self.rows("reading the report", sql, (), |row| {
            let gain: Option<f64> = row.get(10)?;
            Ok(ComparisonRow {
                job_type: parsed(row, 0)?,
                split: name(row, 1)?,
                role: name(row, 2)?,
                label: row.get(3)?,
                harness: parsed(row, 4)?,
                rate: interval(row, 5)?,
                episodes: row.get(8)?,
                best_of: row.get(9)?,
                gain: gain.map(|_| interval(row, 10)).transpose()?,
                mean_steps: row.get(13)?,
                mean_tokens: row.get(14)?,
                mean_micro_usd: row.get(15)?,
            })
        })
    }

    /// Where the run stands.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn status(&self) -> Result<Status, StoreError> {
        let count = |sql: &str| {
            let number = self.connection.query_row(sql, [], |row| row.get(0)).map_err(StoreError::sql("reading the status"))?;
            from_sql("a count", number)
        };
        let last = self.rows(
            "reading the status",
            "SELECT spent_episodes, spent_tokens, spent_micro_usd, committed_at FROM step ORDER BY step DESC LIMIT 1",
            (),
            |row| Ok(([row.get(0)?, row.get(1)?, row.get(2)?], Timestamp(row.get(3)?))),
        )?;
        let spent = match last.first() {
            Some(([episodes, tokens, micro_usd], _)) => Amount {
                episodes: from_sql("spent episodes", *episodes)?,
                tokens: from_sql("spent tokens", *tokens)?,
                micro_usd: from_sql("spent money", *micro_usd)?,
            },
            None => Amount::default(),
        };
        let faults = self.rows(
            "reading the status",
            "SELECT boundary, count(*) FROM episode WHERE outcome = 'faulted' GROUP BY boundary ORDER BY boundary",
            (),
            |row| Ok((row.get::<_, String>(0)?, row.get(1)?)),
        )?;
        let faults = faults.into_iter().map(|(boundary, number)| Ok((named("a fault", boundary)?, from_sql("a count of faults", number)?)));
        Ok(Status {
            steps: self.step_count()?,
            refused: count("SELECT count(*) FROM step WHERE refused IS NOT NULL")?,
            harnesses: count("SELECT count(*) FROM harness")?,
            niches: count("SELECT count(*) FROM niche")?,
            elites: count("SELECT count(*) FROM elites")?,
            scored: count("SELECT count(*) FROM episode WHERE outcome = 'scored' AND repeated = 0")?,
            faults: faults.collect::<Result<_, StoreError>>()?,
            spent,
            last_step_at: last.first().map(|(_, at)| *at),
        })
    }
}

/// A text column that parses.
fn parsed<T>(row: &Row<'_>, column: usize) -> rusqlite::Result<T>
where
    T: TextColumn,
{
    let text: String = row.get(column)?;
    T::parse(&text).map_err(|error| rusqlite::Error::FromSqlConversionFailure(column, rusqlite::types::Type::Text, error))
}

/// A text column that names a unit variant.
fn name<T: serde::de::DeserializeOwned>(row: &Row<'_>, column: usize) -> rusqlite::Result<T> {
    let text: String = row.get(column)?;
    serde_json::from_value(serde_json::Value::String(text))
        .map_err(|error| rusqlite::Error::FromSqlConversionFailure(column, rusqlite::types::Type::Text, Box::new(error)))
}

trait TextColumn: Sized {
    fn parse(text: &str) -> Result<Self, Box<dyn std::error::Error + Send + Sync>>;
}

impl TextColumn for HarnessId {
    fn parse(text: &str) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        Ok(text.parse()?)
    }
}

impl TextColumn for JobType {
    fn parse(text: &str) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        Ok(Self::new(text)?)
    }
}
