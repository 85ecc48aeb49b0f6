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
    // Called again, with more episodes, it plays only those; another evaluation is not mixed in.
    let more = json(&["--split", "search", "--episodes", "7", "--seed", "5", "--json", "--out", text(&folder)]);
    assert_eq!(more["rows"][0]["episodes"], 7);
    let after: Value = serde_json::from_str(&stdout(&["episode", "list", text(&folder), "--json"])).unwrap();
    assert_eq!(after["episodes"].as_array().unwrap().len(), 7);
    let other = program().args(eval(&["--split", "search", "--seed", "6", "--out", text(&folder)])).output().unwrap();
    assert_eq!(other.status.code(), Some(5), "{}", String::from_utf8_lossy(&other.stderr));
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

/// A folder with a student that knows nothing.
#[cfg(feature = "student")]
fn untrained(folder: &std::path::Path) {
    use candle_core::Device;
    use harness_evo::base::SeedTree;
    use harness_evo::student::config::NetworkConfig;
    use harness_evo::student::generation::GenerationConfig;
    use harness_evo::student::network::{BaseWeights, Network};
    use harness_evo::student::{ChatCodec, ChatTemplate, Student, StudentTokenizer, VocabularySize, weights};

    let tokenizer = StudentTokenizer::train(["ls -l and cat notes.txt"; 4], VocabularySize::new(512).unwrap()).unwrap();
    let codec = ChatCodec::new(tokenizer, ChatTemplate::nano().unwrap()).unwrap();
    let mut config = NetworkConfig::nano(512, codec.end_of_turn()).unwrap();
    (config.hidden, config.intermediate, config.layers, config.head_dim) = (32, 48, 2, 8);
    let weights = weights::random(&config, &SeedTree::new(1), &Device::Cpu).unwrap();
    let network = Network::new(weights.config, weights.tensors, BaseWeights::Frozen).unwrap();
    Student::new(network, codec, GenerationConfig::default()).unwrap().save(folder).unwrap();
}

#[cfg(feature = "student")]
#[test]
fn a_student_plays_and_speaks_the_same_every_time() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("untrained");
    untrained(&folder);
    let speak = |seed: &str| -> Value {
        let arguments = ["--quiet", "student", "generate", text(&folder), "ls", "--tokens", "12", "--seed", seed, "--json"];
        let mut spoken: Value = serde_json::from_str(&stdout(&arguments)).unwrap();
        assert!(spoken["seconds"].take().is_f64());
        spoken
    };
    let spoken = speak("1");
    assert_eq!(spoken, speak("1"));
    assert_ne!(spoken["completion_token_ids"], speak("2")["completion_token_ids"]);
    assert_eq!(spoken["logprobs"].as_array().unwrap().len(), spoken["completion_token_ids"].as_array().unwrap().len());

    if no_sandbox() {
        return;
    }
    // It says nothing that is a call, and that is a score of 0, not a fault.
    let model = format!("student:{}", text(&folder));
    let play = |workers: &str| -> Value {
        let arguments = ["--quiet", "eval", "--model", &model, "--harness", "minimal", "--split", "search", "--episodes", "3"];
        let arguments = [&arguments[..], &TASKS[..], &["--json", "--workers", workers]].concat();
        serde_json::from_str(&stdout(&arguments)).unwrap()
    };
    // One request at a time, because several round otherwise.
    let played = play("1");
    assert_eq!(played, play("1"));
    let beside = play("3");
    assert_eq!((&beside["rows"][0]["episodes"], &beside["rows"][0]["faulted"]), (&3.into(), &0.into()), "{beside}");
    assert_eq!((&played["model"]["name"], &played["simulated"]), (&"untrained".into(), &Value::Bool(false)));
    let row = &played["rows"][0];
    assert_eq!((&row["episodes"], &row["faulted"], &row["solved"]), (&3.into(), &0.into(), &0.0.into()), "{played}");
    assert!(row["tokens"].as_f64().unwrap() > 100.0, "{played}");
}
