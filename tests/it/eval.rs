//! `eval`: a model under a harness over a split.

use serde_json::Value;

use crate::cli::{no_sandbox, program, stdout, text};

const TASKS: [&str; 7] = ["--builtin", "--job-type", "data", "--skill", "top-ranking", "--per-workflow", "8"];

fn eval(arguments: &[&str]) -> Vec<String> {
    let all = [&["--quiet", "eval", "--model", "rehearsal", "--harness", "minimal"], &TASKS[..], arguments].concat();
    all.into_iter().map(str::to_owned).collect()
}

fn json(arguments: &[&str]) -> Value {
    let arguments = eval(arguments);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    serde_json::from_str(&stdout(&arguments)).unwrap()
}

#[test]
fn the_same_seed_gives_the_same_figures_and_episodes_are_kept() {
    if no_sandbox() {
        return;
    }
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("kept");
    let first = json(&["--split", "search", "--episodes", "6", "--seed", "5", "--json", "--out", text(&folder)]);
    let again = json(&["--split", "search", "--episodes", "6", "--seed", "5", "--json", "--workers", "1"]);
    assert_eq!(first, again);
    assert_eq!((&first["simulated"], &first["split"], &first["seed"]), (&Value::Bool(true), &"search".into(), &5.into()));
    let row = &first["rows"][0];
    assert_eq!((&row["job_type"], &row["episodes"], &row["faulted"]), (&"data".into(), &6.into(), &0.into()));

    // The figures are those of the episodes that were kept.
    let kept: Value = serde_json::from_str(&stdout(&["episode", "list", text(&folder), "--json"])).unwrap();
    let episodes = kept["episodes"].as_array().unwrap();
    assert_eq!(episodes.len(), 6);
    let mean = |key: &str| episodes.iter().map(|episode| episode[key].as_f64().unwrap()).sum::<f64>() / 6.0;
    for (figure, key) in [("score", "score"), ("steps", "steps"), ("tokens", "tokens")] {
        assert!((row[figure].as_f64().unwrap() - mean(key)).abs() < 1e-9, "{figure}: {row} {kept}");
    }
    let solved = episodes.iter().filter(|episode| episode["score"] == 1.0).count();
    assert!((row["solved"].as_f64().unwrap() * 6.0 - f64::from(u32::try_from(solved).unwrap())).abs() < 1e-9);
}

#[test]
fn wrong_names_are_explained() {
    for (model, harness, part) in [
        ("rehersal", "minimal", "did you mean `rehearsal`?"),
        ("gpt", "minimal", "models are `student:DIR` and `rehearsal`"),
        ("student:", "minimal", "names no model"),
        ("student:nowhere", "minimal", "nowhere"),
        ("rehearsal", "minimial", "built-in templates are"),
    ] {
        let output =
            program().args(["eval", "--model", model, "--harness", harness]).args(TASKS).args(["--split", "search"]).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains(part) && output.stdout.is_empty(), "{model} {harness}: {stderr}");
    }
    let output = program().args(["eval", "--model", "rehearsal", "--harness", "minimal"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}
