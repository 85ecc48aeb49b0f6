//! Databases of every released schema version, as SQL, so that a later program is held to reading them.

use std::fmt::Write as _;
use std::path::Path;

use rusqlite::Connection;

use super::sample::{clock, filled};
use crate::evolution::{Journal as _, StepRecord, StepResult};
use crate::store::{DATABASE_FILE, RunReader, RunStore};

const VERSION_1: &str = include_str!("../../../tests/fixtures/run-v1.sql");

/// A database as the statements that make it.
fn dump(connection: &Connection) -> String {
    let strings = |sql: &str| -> Vec<(String, String)> {
        let mut statement = connection.prepare(sql).unwrap();
        statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap().map(Result::unwrap).collect()
    };
    let pragma = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0)).unwrap();
    let mut text = format!("PRAGMA application_id = {};\nPRAGMA user_version = {};\n", pragma("application_id"), pragma("user_version"));
    for (_, sql) in strings("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY rowid") {
        writeln!(text, "{sql};").unwrap();
    }
    for table in ["meta", "model", "task", "step", "harness", "edge", "niche_history", "niche", "elite", "trajectory", "episode", "report"]
    {
        let columns: Vec<String> = strings(&format!("SELECT name, type FROM pragma_table_info('{table}')"))
            .into_iter()
            .map(|(name, _)| format!("quote({name})"))
            .collect();
        for (row, _) in strings(&format!("SELECT {}, '' FROM {table}", columns.join(" || ', ' || "))) {
            writeln!(text, "INSERT INTO {table} VALUES ({row});").unwrap();
        }
    }
    text
}

fn load(folder: &Path, sql: &str) {
    Connection::open(folder.join(DATABASE_FILE)).unwrap().execute_batch(sql).unwrap();
}

/// Writes the fixture of the current version. Run it once when the version is raised; never change an old one.
#[tokio::test]
#[ignore = "writes a file of the repository"]
async fn write_fixture() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/run-v1.sql");
    std::fs::write(path, dump(&filled().await.reader().unwrap().connection)).unwrap();
}

/// The figures are literal: what a later program makes of the sample does not change what version 1 says.
#[test]
fn version_1_is_read_and_written() {
    let folder = tempfile::tempdir().unwrap();
    load(folder.path(), VERSION_1);
    let reader = RunReader::open(folder.path()).unwrap();
    let meta = reader.meta().unwrap();
    assert_eq!((meta.seed, meta.model.name.as_str(), meta.simulated, meta.created_at.0), (7, "tiny", true, 1_767_225_600_000));
    assert_eq!(reader.tasks().unwrap().len(), 6);
    let steps = reader.steps().collect::<Result<Vec<_>, _>>().unwrap();
    assert_eq!(steps.iter().map(|record| record.spent.tokens).collect::<Vec<_>>(), [1000, 2000, 3000, 4000, 5000, 6000, 7000, 8000]);
    let StepResult::Evaluated { evaluations, .. } = &steps[5].result else { panic!("step 5 was evaluated") };
    assert_eq!(evaluations[0].episodes[1].score.to_bits(), (1.0_f64 / 3.0).to_bits());
    let lineage = reader.lineage().unwrap();
    let made: Vec<(&str, u32)> = lineage.nodes().map(|node| (node.made_by(), node.depth)).collect();
    assert_eq!(made, [("seed", 0), ("seed", 0), ("rewrite", 1), ("crossover", 2)]);
    let elites = reader.elites().unwrap();
    assert_eq!(elites.iter().map(|elite| (elite.niche.as_str(), elite.validate_rate)).collect::<Vec<_>>(), [("shell/s0t1", 0.75)]);
    assert_eq!(reader.leaderboard().unwrap().len(), 6);
    assert_eq!(reader.report().unwrap().len(), 3);
    assert_eq!(reader.export_rows().unwrap().len(), 2);
    assert_eq!(reader.status().unwrap().scored, 8);
    drop(reader);
    let store = RunStore::open(folder.path(), clock()).unwrap();
    store.journal().commit(&StepRecord { step: 8, ..steps[3].clone() }).unwrap();
}

#[tokio::test]
async fn a_dump_says_all_that_is_in_a_database() {
    let folder = tempfile::tempdir().unwrap();
    let sql = dump(&filled().await.reader().unwrap().connection);
    load(folder.path(), &sql);
    assert_eq!(dump(&RunReader::open(folder.path()).unwrap().connection), sql);
}
