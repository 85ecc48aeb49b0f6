//! `train sft` as a user runs it, on a hand-written export.
#![cfg(feature = "student")]

use std::path::Path;

use assert_cmd::Command;
use serde_json::{Value, json};

fn write_export(path: &Path, count: usize) {
    let line = |number: usize| {
        let word = ["red", "green", "blue"][number % 3];
        json!({
            "messages": [
                {"role": "system", "content": "Answer with the word."},
                {"role": "user", "content": format!("Number {number} has the word {word}. Which word?")},
                {"role": "assistant", "content": word},
            ],
            "tools": "[]",
            "metadata": {
                "task": format!("{:032x}", 0xabc_0000 + number), "job_type": "words", "harness": "0123456789abcdef0123456789abcdef", "calls": "text",
            },
        })
        .to_string()
    };
    std::fs::write(path, (0..count).map(line).collect::<Vec<_>>().join("\n")).unwrap();
}

fn write_config(folder: &Path, extra: &str) -> std::path::PathBuf {
    let path = folder.join("words.toml");
    let text = format!(
        "name = \"words\"\nseed = 2\n[student]\nvocabulary = 512\n[data]\nexports = [\"words.jsonl\"]\nmax_length = 96\nheld_out = 0.2\n\
         [train]\nsteps = 4\nrows = 1\nlearning_rate = 1e-3\n[save]\nevery = 2\n{extra}"
    );
    std::fs::write(&path, text).unwrap();
    path
}

fn train(config: &Path, out: &Path) -> assert_cmd::assert::Assert {
    Command::cargo_bin("harness-evo").unwrap().args(["train", "sft"]).arg(config).arg("--out").arg(out).assert()
}

#[test]
fn a_student_is_trained_from_nothing_and_the_same_command_goes_on() {
    let root = tempfile::tempdir().unwrap();
    write_export(&root.path().join("words.jsonl"), 12);
    let config = write_config(root.path(), "");
    let (one, two) = (root.path().join("one"), root.path().join("two"));
    let said = train(&config, &one).success();
    let text = String::from_utf8(said.get_output().stdout.clone()).unwrap();
    assert!(text.contains("4 steps") && text.contains("held-out loss"), "{text}");
    let events: Vec<Value> =
        std::fs::read_to_string(one.join("metrics.jsonl")).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let kinds: Vec<&str> = events.iter().map(|event| event["event"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["started", "step", "step", "saved", "step", "step", "evaluated", "saved"]);
    for file in ["config.json", "model.safetensors", "tokenizer.json", "chat_template.jinja", "generation_config.json"] {
        assert!(one.join("student").join(file).is_file(), "{file}");
    }

    // A run whose last checkpoint was lost takes the same steps again, and needs the export no more.
    train(&config, &two).success();
    std::fs::remove_dir_all(two.join("checkpoints/step-0000000004")).unwrap();
    std::fs::remove_file(root.path().join("words.jsonl")).unwrap();
    let weights = |folder: &Path| std::fs::read(folder.join("student/model.safetensors")).unwrap();
    std::fs::remove_dir_all(two.join("student")).unwrap();
    let said = train(&config, &two).success();
    assert!(String::from_utf8_lossy(&said.get_output().stderr).contains("from step 2 on"));
    assert!(weights(&one) == weights(&two), "the weights differ");
}

#[test]
fn adapters_leave_files_of_their_own() {
    let root = tempfile::tempdir().unwrap();
    write_export(&root.path().join("words.jsonl"), 12);
    let config = write_config(root.path(), "[adapter]\nrank = 2\ntargets = [\"q_proj\", \"v_proj\"]\n");
    let out = root.path().join("out");
    train(&config, &out).success();
    let adapter: Value = serde_json::from_str(&std::fs::read_to_string(out.join("adapter/adapter_config.json")).unwrap()).unwrap();
    assert_eq!((adapter["r"].as_u64(), adapter["peft_type"].as_str()), (Some(2), Some("LORA")));
    assert!(out.join("adapter/adapter_model.safetensors").is_file() && out.join("student/model.safetensors").is_file());

    // The adapter beside its base is the student that was written.
    let merged = root.path().join("merged");
    let student = |words: &[&str], paths: &[&Path]| {
        let said = Command::cargo_bin("harness-evo").unwrap().arg("student").args(words).args(paths).assert().success();
        String::from_utf8(said.get_output().stdout.clone()).unwrap()
    };
    let shown = |path: &Path| -> Value { serde_json::from_str(&student(&["show", "--json"], &[path])).unwrap() };
    student(&["merge"], &[&out.join("start"), &out.join("adapter"), Path::new("--out"), &merged]);
    let (ours, again, start) = (shown(&out.join("student")), shown(&merged), shown(&out.join("start")));
    assert_eq!(ours, again);
    assert_ne!(ours["weights_hash"], start["weights_hash"]);
    assert_eq!((ours["family"].as_str(), ours["vocabulary"].as_u64()), (Some("qwen3"), Some(512)));
    assert!(student(&["show"], &[&merged]).contains("turn ends    with `<|im_end|>`"));
}

#[test]
fn what_is_wrong_is_said_before_anything_is_trained() {
    let root = tempfile::tempdir().unwrap();
    write_export(&root.path().join("words.jsonl"), 12);
    let out = root.path().join("out");
    let said = |config: &Path, out: &Path, code: i32| {
        let said = train(config, out).code(code);
        String::from_utf8(said.get_output().stderr.clone()).unwrap()
    };
    let text = said(&write_config(root.path(), "evry = 3\n"), &out, 2);
    assert!(text.contains("words.toml:15") && text.contains("did you mean `every`"), "{text}");
    let text = said(&write_config(root.path(), "[adapter]\nrank = 2\ntargets = [\"q_prj\"]\n"), &out, 2);
    assert!(text.contains("adapter.targets") && text.contains("q_proj"), "{text}");
    assert!(!out.exists());

    let config = write_config(root.path(), "");
    std::fs::write(root.path().join("words.jsonl"), "{\"messages\": []}\n").unwrap();
    let text = said(&config, &out, 2);
    assert!(text.contains("words.jsonl") && text.contains("line 1"), "{text}");

    // A corrected file may have the folder.
    assert!(!out.exists());
    write_export(&root.path().join("words.jsonl"), 12);
    train(&write_config(root.path(), "keep = 1\n"), &out).success();

    // A folder that holds something else is left alone.
    let full = root.path().join("full");
    std::fs::create_dir(&full).unwrap();
    std::fs::write(full.join("mine"), "").unwrap();
    let text = said(&config, &full, 2);
    assert!(text.contains("not empty"), "{text}");
    assert_eq!(std::fs::read_dir(&full).unwrap().count(), 1);
}
