//! Whole runs against an OpenAI-compatible server that this project did not write, clean and with injected faults.

use std::path::Path;

use assert_cmd::Command;
use serde_json::Value;

use super::mock_llm::{FaultProxy, MockLlm, agent_rules, with_refusals};

/// Tasks of which the scripted agent solves those that ask for `hi` and no other.
fn write_tasks(folder: &Path) {
    std::fs::create_dir_all(folder).unwrap();
    for index in 0..30 {
        let word = if index % 3 == 0 { "bye" } else { "hi" };
        let text = format!(
            "job_type = \"greeting\"\nskill = \"say-{word}\"\ninstruction = \"Write the word {word} to hello.txt; this is note {index}.\"\n\
             [[check]]\nname = \"word\"\nfile_equals = {{ path = \"hello.txt\", text = \"{word}\\n\" }}\n\
             [[solution]]\nrole = \"work\"\nrun = \"echo {word} > hello.txt\"\nslip = {{ run = \"echo wrong > hello.txt\" }}\n"
        );
        std::fs::write(folder.join(format!("task-{index:02}.toml")), text).unwrap();
    }
}

fn run(folder: &Path, name: &str, base_url: &str) -> Value {
    let experiment = format!(
        "name = \"{name}\"\n[teacher]\nkind = \"openai\"\nbase_url = \"{base_url}\"\nmodel = \"scripted\"\ntimeouts = {{ first_byte_ms = 700 }}\n\
         [harness]\ntemplates = [\"minimal\", \"careful\"]\n[tasks]\nfolders = [\"tasks\"]\ncheck = \"off\"\n[budget]\nepisodes = 60\n\
         [search]\nwindow = 4\nstages = [2, 5]\nconfirm_episodes = 6\nconfirm_after = 3\nattempts = 6\n\
         [search.operators]\nrewrite = 0\n[report]\nepisodes = 5\nbaseline = \"off\"\n"
    );
    let file = folder.join(format!("{name}.toml"));
    std::fs::write(&file, experiment).unwrap();
    let out = folder.join(name);
    Command::cargo_bin("harness-evo").unwrap().arg("--quiet").arg("run").arg(&file).arg("--out").arg(&out).assert().success();
    let exported = folder.join(format!("{name}.json"));
    let export = ["lineage", "export", "--format", "json", "--out"];
    Command::cargo_bin("harness-evo").unwrap().args(&export[..2]).arg(&out).args(&export[2..]).arg(&exported).assert().success();
    serde_json::from_slice(&std::fs::read(&exported).unwrap()).unwrap()
}

/// Scored episodes as (harness, task, seed, score), and the number of faulted attempts.
fn episodes(folder: &Path) -> (Vec<(String, String, i64, f64)>, usize) {
    let database = rusqlite::Connection::open(folder.join("run.db")).unwrap();
    let mut query = database
        .prepare("SELECT harness_id, task_id, seed, score FROM episode WHERE score IS NOT NULL AND repeated = 0 ORDER BY 1, 2, 3")
        .unwrap();
    let rows = query.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))).unwrap();
    let faults: i64 = database.query_row("SELECT count(*) FROM episode WHERE score IS NULL", [], |row| row.get(0)).unwrap();
    (rows.map(Result::unwrap).collect(), usize::try_from(faults).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn faults_of_a_real_server_change_no_score_and_no_decision() {
    let Some(clean) = MockLlm::start(&agent_rules("echo hi > hello.txt")) else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_owned();
    write_tasks(&path.join("tasks"));
    let url = clean.base_url();
    let at = path.clone();
    let calm = tokio::task::spawn_blocking(move || run(&at, "calm", &url)).await.unwrap();
    drop(clean);

    let Some(mock) = MockLlm::start(&with_refusals(&agent_rules("echo hi > hello.txt"), 400)) else { return };
    let proxy = FaultProxy::start(mock.address()).await;
    let url = proxy.base_url();
    let at = path.clone();
    let stormy = tokio::task::spawn_blocking(move || run(&at, "stormy", &url)).await.unwrap();

    assert!(proxy.harmed() >= 5, "the proxy did harm: {}", proxy.harmed());
    assert_eq!(calm, stormy, "the same harnesses, with the same hypotheses judged alike");
    let (scores, _) = episodes(&path.join("calm"));
    let (again, _) = episodes(&path.join("stormy"));
    assert!(scores.len() > 30, "{}", scores.len());
    assert_eq!(scores, again, "no fault became a score");
    let solved = scores.iter().filter(|row| row.3 >= 1.0).count();
    assert!(solved > 0 && solved < scores.len(), "the agent solves some tasks and not others: {solved} of {}", scores.len());
}
