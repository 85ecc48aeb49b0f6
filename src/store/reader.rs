//! Reading a run, also while another process writes it.

use std::path::Path;
use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension as _};

use super::blobs::Blobs;
use super::codec::{from_json, from_sql, unpack};
use super::folder::RunMeta;
use super::schema::{SchemaVersion, open_for_reading};
use super::{BLOBS_FOLDER, DATABASE_FILE, StoreError};
use crate::base::Timestamp;
use crate::evolution::StepRecord;
use crate::lineage::{Birth, JudgedHypothesis, Lineage, OperatorName};
use crate::model::ModelId;
use crate::task::Task;

/// Steps fetched at a time: a reader never holds the database for long.
const STEP_PAGE: usize = 256;

/// A run opened for reading.
pub struct RunReader {
    pub(super) connection: Connection,
    pub(super) blobs: Arc<Blobs>,
    version: SchemaVersion,
}

impl RunReader {
    /// Opens the run in `folder`. Another process may be writing it.
    ///
    /// # Errors
    /// When there is no run, or its database is damaged or older than this program reads.
    pub fn open(folder: &Path) -> Result<Self, StoreError> {
        let database = folder.join(DATABASE_FILE);
        if !database.is_file() {
            return Err(StoreError::Missing { path: folder.to_owned() });
        }
        let (connection, version) = open_for_reading(&database)?;
        Ok(Self::new(connection, Arc::new(Blobs::Folder(folder.join(BLOBS_FOLDER))), version))
    }

    pub(super) fn new(connection: Connection, blobs: Arc<Blobs>, version: SchemaVersion) -> Self {
        connection.set_prepared_statement_cache_capacity(32);
        Self { connection, blobs, version }
    }

    /// Whether a newer program wrote the run; what it added is not shown then.
    #[must_use]
    pub const fn version(&self) -> SchemaVersion {
        self.version
    }

    /// What the run is.
    ///
    /// # Errors
    /// When the run was never begun or the database cannot be read.
    pub fn meta(&self) -> Result<RunMeta, StoreError> {
        let row = self
            .connection
            .query_row("SELECT experiment, seed, model_name, model_fingerprint, simulated, created_at FROM meta", [], |row| {
                let model = ModelId { name: row.get(2)?, fingerprint: row.get(3)? };
                Ok((row.get(0)?, row.get(1)?, model, row.get(4)?, Timestamp(row.get(5)?)))
            })
            .optional()
            .map_err(StoreError::sql("reading what the run is"))?;
        let (experiment, seed, model, simulated, created_at) = row.ok_or_else(|| StoreError::value("the run", "it was never begun"))?;
        Ok(RunMeta { experiment, seed: from_sql("the seed", seed)?, model, simulated, created_at })
    }

    pub(super) fn has_meta(&self) -> Result<bool, StoreError> {
        let count: i64 = self
            .connection
            .query_row("SELECT count(*) FROM meta", [], |row| row.get(0))
            .map_err(StoreError::sql("reading what the run is"))?;
        Ok(count > 0)
    }

    /// The tasks, by id.
    ///
    /// # Errors
    /// When one cannot be read.
    pub fn tasks(&self) -> Result<Vec<Arc<Task>>, StoreError> {
        let rows: Vec<(String, String)> =
            self.rows("reading the tasks", "SELECT id, body FROM task ORDER BY id", (), |row| Ok((row.get(0)?, row.get(1)?)))?;
        rows.into_iter()
            .map(|(id, body)| {
                let what = || format!("task {id}");
                let task = Task::new(from_json(&what(), body.as_bytes())?).map_err(|error| StoreError::value(what(), error))?;
                if task.id().to_string() == id { Ok(Arc::new(task)) } else { Err(StoreError::value(what(), "its body has another id")) }
            })
            .collect()
    }

    /// How many steps are committed.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn step_count(&self) -> Result<u64, StoreError> {
        let next = self
            .connection
            .query_row("SELECT coalesce(max(step) + 1, 0) FROM step", [], |row| row.get(0))
            .map_err(StoreError::sql("counting steps"))?;
        from_sql("the number of steps", next)
    }

    /// The committed steps in order: what a resumed run replays.
    #[must_use]
    pub const fn steps(&self) -> Steps<'_> {
        Steps { reader: self, page: Vec::new(), next: 0, ended: false }
    }

    /// The lineage, rebuilt from the harnesses and edges of committed steps.
    ///
    /// # Errors
    /// When a row cannot be read or does not fit the others.
    pub fn lineage(&self) -> Result<Lineage, StoreError> {
        let harnesses = self.rows(
            "reading the lineage",
            "SELECT harness.id, harness.step, harness.template, harness.genome,
                    a.operator, a.parent, a.diff, a.hypothesis, a.judged_difference, a.judged_low, a.judged_high, a.judged_pairs, b.parent
             FROM harness
             LEFT JOIN edge AS a ON a.child = harness.id AND a.place = 0
             LEFT JOIN edge AS b ON b.child = harness.id AND b.place = 1
             ORDER BY harness.ordinal",
            (),
            LineageRow::read,
        )?;
        let mut lineage = Lineage::new();
        for row in harnesses {
            row.add_to(&mut lineage)?;
        }
        Ok(lineage)
    }

    /// The bytes of a blob, verified.
    ///
    /// # Errors
    /// When it is missing or damaged.
    pub fn blob(&self, hash: &str) -> Result<Vec<u8>, StoreError> {
        self.blobs.get(hash)
    }

    /// All rows of a query.
    pub(super) fn rows<T>(
        &self,
        doing: &'static str,
        sql: &str,
        values: impl rusqlite::Params,
        read: impl FnMut(&rusqlite::Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, StoreError> {
        let fetch = || {
            let mut statement = self.connection.prepare_cached(sql)?;
            let rows = statement.query_map(values, read)?;
            rows.collect::<rusqlite::Result<Vec<T>>>()
        };
        fetch().map_err(StoreError::sql(doing))
    }

    /// What to add to an error about a value, when a newer program may have written it.
    const fn hint(&self) -> &'static str {
        match self.version {
            SchemaVersion::Current => "",
            SchemaVersion::Newer { .. } => ", because a newer harness-evo wrote it: use that one",
        }
    }
}

struct LineageRow {
    id: String,
    step: i64,
    template: Option<String>,
    genome: String,
    operator: Option<String>,
    first: Option<String>,
    diff: Option<String>,
    hypothesis: Option<String>,
    judged: Option<JudgedHypothesis>,
    second: Option<String>,
}

impl LineageRow {
    fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<Self> {
        let judged = match row.get::<_, Option<f64>>(8)? {
            Some(difference) => Some(JudgedHypothesis { difference, low: row.get(9)?, high: row.get(10)?, pairs: row.get(11)? }),
            None => None,
        };
        Ok(Self {
            id: row.get(0)?,
            step: row.get(1)?,
            template: row.get(2)?,
            genome: row.get(3)?,
            operator: row.get(4)?,
            first: row.get(5)?,
            diff: row.get(6)?,
            hypothesis: row.get(7)?,
            judged,
            second: row.get(12)?,
        })
    }

    fn add_to(self, lineage: &mut Lineage) -> Result<(), StoreError> {
        let what = format!("harness {}", self.id);
        let parse = |id: &String| id.parse().map_err(|error| StoreError::value(&what, error));
        let step = from_sql("the step of a harness", self.step)?;
        let harness = parse(&self.id)?;
        let birth = Birth {
            harness,
            genome: from_json(&what, self.genome.as_bytes())?,
            diff: self.diff.as_ref().map(|diff| from_json(&what, diff.as_bytes())).transpose()?.unwrap_or_default(),
            hypothesis: self.hypothesis.as_ref().map(|hypothesis| from_json(&what, hypothesis.as_bytes())).transpose()?,
        };
        let parents = self.first.iter().chain(&self.second).map(parse).collect::<Result<Vec<_>, _>>()?;
        let added = match &self.operator {
            Some(name) => {
                let operator = OperatorName::ALL.into_iter().find(|operator| operator.as_str() == name);
                let operator = operator.ok_or_else(|| StoreError::value(&what, format!("`{name}` is no operator")))?;
                lineage.add_child(birth, operator, &parents, step)
            }
            None => lineage.add_seed(birth, self.template.as_deref().unwrap_or_default(), step),
        };
        let judged = added.and_then(|()| self.judged.map_or(Ok(()), |judged| lineage.judge(harness, judged)));
        judged.map_err(|error| StoreError::value(&what, error))
    }
}

/// Committed steps in order. Ends after the first error.
pub struct Steps<'a> {
    reader: &'a RunReader,
    /// Packed records to come, the next one last.
    page: Vec<(i64, Vec<u8>)>,
    next: u64,
    ended: bool,
}

impl Steps<'_> {
    fn fetch(&mut self) -> Result<Option<StepRecord>, StoreError> {
        if self.page.is_empty() {
            let sql = "SELECT step, record FROM step WHERE step >= ?1 ORDER BY step LIMIT ?2";
            let from = super::codec::sql_count(self.next);
            let values = (from, i64::try_from(STEP_PAGE).unwrap_or(i64::MAX));
            self.page = self.reader.rows("reading steps", sql, values, |row| Ok((row.get(0)?, row.get(1)?)))?;
            self.page.reverse();
        }
        let Some((number, packed)) = self.page.pop() else { return Ok(None) };
        let what = format!("step {number}");
        let bytes = unpack(&what, &packed)?;
        let record: StepRecord = serde_json::from_slice(&bytes).map_err(|error| StoreError::Value {
            what: what.clone(),
            hint: self.reader.hint(),
            reason: error.to_string(),
        })?;
        if record.step != self.next || u64::try_from(number) != Ok(self.next) {
            return Err(StoreError::value(what, format!("step {} was expected", self.next)));
        }
        self.next += 1;
        Ok(Some(record))
    }
}

impl Iterator for Steps<'_> {
    type Item = Result<StepRecord, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let fetched = self.fetch().transpose();
        self.ended = !matches!(fetched, Some(Ok(_)));
        fetched
    }
}
