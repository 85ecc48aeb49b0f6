//! `train` as a user runs it, on hand-written exports and tasks.
#![cfg(feature = "student")]

use std::path::Path;

use assert_cmd::Command;
use serde_json::{Value, json};

use crate::cli::{no_sandbox, stdout, text};

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
    stage("sft", config, out)
}

fn stage(stage: &str, config: &Path, out: &Path) -> assert_cmd::assert::Assert {
    Command::cargo_bin("harness-evo").unwrap().args(["train", stage]).arg(config).arg("--out").arg(out).assert()
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

/// What a training said on standard error.
fn told(said: &assert_cmd::assert::Assert) -> String {
    String::from_utf8(said.get_output().stderr.clone()).unwrap()
}

#[test]
fn an_evaluation_is_learnt_from_in_two_stages_and_as_a_control() {
    if no_sandbox() {
        return;
    }
    let root = tempfile::tempdir().unwrap();
    let kept = root.path().join("kept");
    let play = ["--quiet", "eval", "--model", "rehearsal", "--harness", "shell-first", "--builtin", "--job-type", "shell"];
    let chosen = ["--per-workflow", "4", "--split", "search", "--episodes", "40", "--json", "--out", text(&kept)];
    let played: Value = serde_json::from_str(&stdout(&[&play[..], &chosen[..]].concat())).unwrap();
    let solved = (played["rows"][0]["solved"].as_f64().unwrap() * 40.0).round();
    assert!(solved >= 4.0, "{played}");
    let export = root.path().join("solved.jsonl");
    stdout(&["--quiet", "export", text(&kept), "--format", "openai-jsonl", "--out", text(&export)]);
    // Episodes with the same text are written once.
    let lines = std::fs::read_to_string(&export).unwrap().lines().count();
    assert!(lines >= 3 && lines as f64 <= solved, "{lines} of {solved}");

    let write = |name: &str, student: &str, data: &str| {
        let path = root.path().join(name);
        let text = format!(
            "name = \"kept\"\n[student]\n{student}\n[data]\nruns = [\"kept\"]\nmax_length = 4096\nheld_out = 0.0\n{data}\n[train]\nsteps = 1\nrows = 1\n"
        );
        std::fs::write(&path, text).unwrap();
        path
    };
    let vocabulary = "vocabulary = 1024";
    let first = root.path().join("first");
    let midtrained = told(&stage("midtrain", &write("midtrain.toml", vocabulary, ""), &first).success());
    let learnt = |text: &str| -> Vec<usize> {
        let line = text.lines().find(|line| line.starts_with("shell ")).unwrap().to_owned();
        line.split_whitespace().skip(1).map(|cell| cell.parse().unwrap()).collect()
    };
    // Columns: episodes, train, held out, tokens, learnt, replies, ...
    let cells = learnt(&midtrained);
    assert_eq!(cells[3], cells[4], "midtraining learns every token: {midtrained}");
    // The same folder is not taken for another stage.
    let refused = told(&stage("sft", &root.path().join("midtrain.toml"), &first).code(2));
    assert!(refused.contains("not of this stage"), "{refused}");

    let path = "path = \"first/student\"";
    let tuned = told(&train(&write("sft.toml", path, ""), &root.path().join("second")).success());
    assert!(learnt(&tuned)[4] < learnt(&tuned)[3], "{tuned}");

    let shuffled = write("control.toml", vocabulary, "instructions = \"shuffled\"");
    let control = told(&train(&shuffled, &root.path().join("control")).success());
    assert!(control.contains("this is a control"), "{control}");

    let fewer = write("fewer.toml", vocabulary, "without_skills = [\"sort-duplicates\"]");
    let without = told(&train(&fewer, &root.path().join("fewer")).success());
    assert!(learnt(&without)[0] < learnt(&tuned)[0], "{without}");
    let wrong = write("wrong.toml", vocabulary, "without_skills = [\"sort-duplicate\"]");
    let refused = told(&train(&wrong, &root.path().join("wrong")).code(2));
    assert!(refused.contains("no episode has the skill") && refused.contains("sort-duplicates"), "{refused}");
}

/// Tasks of which doing nothing solves the one half, and the other half cannot be solved in a few steps.
fn write_tasks(folder: &Path) {
    std::fs::create_dir(folder).unwrap();
    for number in 0..12 {
        let (path, text) = if number % 2 == 0 { ("here.txt", "here") } else { ("made.txt", "made") };
        let task = format!(
            "job_type = \"shell\"\nskill = \"wait-{number}\"\ninstruction = \"Number {number}: see to it that {path} says {text}.\"\n\
             [files]\n\"here.txt\" = \"here\"\n[[check]]\nname = \"text\"\nfile_equals = {{ path = \"{path}\", text = \"{text}\" }}\n\
             [[solution]]\nrole = \"work\"\nrun = \"printf {text} > {path}\"\n"
        );
        std::fs::write(folder.join(format!("wait-{number}.toml")), task).unwrap();
    }
}

/// One short reply to each task.
fn write_short_harness(path: &Path) {
    let minimal = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("harness_templates/minimal.toml")).unwrap();
    std::fs::write(path, format!("{minimal}\n[limits]\nsteps = 1\n\n[sampling]\nmax_output_tokens = 64\n")).unwrap();
}

fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let (path, name) = entry.map(|entry| (entry.path(), entry.file_name())).unwrap();
        if path.is_dir() {
            copy_folder(&path, &to.join(name));
        } else {
            std::fs::copy(path, to.join(name)).unwrap();
        }
    }
}

fn lines(path: &Path) -> Vec<Value> {
    std::fs::read_to_string(path).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_student_learns_from_what_it_plays_and_the_same_command_goes_on() {
    if no_sandbox() {
        return;
    }
    let root = tempfile::tempdir().unwrap();
    write_export(&root.path().join("words.jsonl"), 12);
    train(&write_config(root.path(), ""), &root.path().join("small")).success();
    write_tasks(&root.path().join("tasks"));
    write_short_harness(&root.path().join("short.toml"));
    let write = |name: &str, extra: &str| {
        let path = root.path().join(name);
        let text = format!(
            "name = \"played\"\nseed = 3\nharness = \"short.toml\"\n[student]\npath = \"small/student\"\n[tasks]\nfolders = [\"tasks\"]\n\
             check = \"off\"\n[rollouts]\ngroups = 4\nsize = 2\nreplacements = 0\ntruncated = \"learn\"\n{extra}\n[save]\nevery = 1\n"
        );
        std::fs::write(&path, text).unwrap();
        path
    };
    let rl = |config: &Path, out: &Path| {
        let words = ["train", "rl", "--workers", "1"];
        Command::cargo_bin("harness-evo").unwrap().args(words).arg(config).arg("--out").arg(out).assert()
    };
    let config = write("rl.toml", "[train]\nobjective = \"rejection\"\nsteps = 2\nlearning_rate = 1e-3");
    let (one, two) = (root.path().join("one"), root.path().join("two"));
    let said = told(&rl(&config, &one).success());
    assert!(said.contains("step 2/2: reward ") && said.contains("mismatch"), "{said}");
    let events = lines(&one.join("metrics.jsonl"));
    let kinds: Vec<&str> = events.iter().map(|event| event["event"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["started", "step", "saved", "step", "saved"]);
    let first = &events[1];
    assert_eq!((first["groups"].as_u64(), first["rollouts"].as_u64(), first["faulted"].as_u64()), (Some(4), Some(8), Some(0)), "{first}");
    // Solved is what a group teaches; the rest is dead.
    let (solved, dead) = (first["solved"].as_u64().unwrap(), first["dead"].as_u64().unwrap());
    assert!(solved == 2 * (4 - dead) && (1..4).contains(&dead), "{first}");
    // What was drawn has the probability that training computes for it.
    let mismatch = first["update"]["mismatch"].as_f64().unwrap();
    assert!((0.0..1e-3).contains(&mismatch), "{first}");
    let played = lines(&one.join("rollouts.jsonl"));
    assert_eq!(played.len(), 16);
    let rewards: f64 = played[..8].iter().map(|rollout| rollout["reward"].as_f64().unwrap()).sum();
    assert!((rewards / 8.0 - first["reward"].as_f64().unwrap()).abs() < 1e-12);
    assert!(played.iter().all(|rollout| rollout["trajectory"]["messages"].as_array().unwrap().len() >= 2));
    let picture = std::fs::read_to_string(one.join("reward.svg")).unwrap();
    assert!(picture.starts_with("<svg") && picture.contains("mean of the last ten"));

    // What was played before a stop is not played again; the weights are the same.
    copy_folder(&one, &two);
    let weights = |folder: &Path| std::fs::read(folder.join("student/model.safetensors")).unwrap();
    std::fs::remove_dir_all(two.join("checkpoints/step-0000000002")).unwrap();
    std::fs::remove_dir_all(two.join("student")).unwrap();
    let said = told(&rl(&config, &two).success());
    assert!(said.contains("from step 1 on"), "{said}");
    assert!(weights(&one) == weights(&two), "a run that went on differs");
    assert!(weights(&one) != weights(&root.path().join("small")), "nothing was learnt");

    // Neither does a run go on from another start.
    let small = root.path().join("small/student/model.safetensors");
    std::fs::copy(one.join("student/model.safetensors"), &small).unwrap();
    assert!(told(&rl(&config, &two).code(5)).contains("another start"));

    // Another file does not get the folder, and what cannot be is said by its key.
    let other = write("other.toml", "[train]\nsteps = 2");
    assert!(told(&rl(&other, &one).code(2)).contains("another training file"));
    let wrong = write("wrong.toml", "[train]\nstep = 2");
    assert!(told(&rl(&wrong, &root.path().join("new")).code(2)).contains("did you mean `steps`"));
    assert!(!root.path().join("new").exists());
}

#[test]
fn weights_on_this_machine_are_a_teacher_without_a_server() {
    if no_sandbox() {
        return;
    }
    let root = tempfile::tempdir().unwrap();
    write_export(&root.path().join("words.jsonl"), 12);
    train(&write_config(root.path(), ""), &root.path().join("small")).success();
    write_short_harness(&root.path().join("short.toml"));
    let write = |name: &str, teacher: &str| {
        let path = root.path().join(name);
        let text = format!(
            "name = \"local\"\nseed = 3\n[teacher]\nkind = \"local\"\n{teacher}\n[rewriter]\nkind = \"rehearsal\"\n[harness]\n\
             templates = [\"short.toml\"]\n[tasks]\nbuiltin = [\"data\"]\nskills = [\"top-ranking\", \"group-totals\"]\nper_workflow = 6\n\
             [budget]\nepisodes = 20\n[search]\nwindow = 2\nstages = [2]\nconfirm_episodes = 2\nconfirm_after = 2\n[report]\nepisodes = 2\nbaseline = \"off\"\n"
        );
        std::fs::write(&path, text).unwrap();
        path
    };
    let experiment = write("local.toml", "model = \"small/student\"");
    assert!(stdout(&["check", text(&experiment)]).contains("the weights in "));
    let run = root.path().join("run");
    let table = stdout(&["--quiet", "run", text(&experiment), "--workers", "1", "--out", text(&run)]);
    // Real weights, and so no simulation.
    assert!(!table.contains("SIMULATED") && table.contains("data"), "{table}");
    let played = stdout(&["episode", "list", text(&run), "--limit", "100"]);
    assert!(played.lines().count() > 10 && !played.contains("provider"), "{played}");

    let refused = |experiment: &Path, code: i32| {
        let said = Command::cargo_bin("harness-evo").unwrap().args(["--quiet", "run"]).arg(experiment).assert().code(code);
        told(&said)
    };
    assert!(refused(&write("none.toml", "model = \"nothing\""), 2).contains("nothing is no student"));
    let wrong = refused(&write("wrong.toml", "model = \"small/student\"\nbase_url = \"http://127.0.0.1:1/v1\""), 2);
    assert!(wrong.contains("wrong.toml:6") && wrong.contains("`local` takes `model`"), "{wrong}");
    let doctor = Command::cargo_bin("harness-evo").unwrap().arg("doctor").arg(root.path().join("none.toml")).assert().code(4);
    assert!(String::from_utf8_lossy(&doctor.get_output().stdout).contains("nothing"));
}

#[test]
fn what_does_not_fit_is_refused_before_its_weights_are_read() {
    let root = tempfile::tempdir().unwrap();
    // The shape of Qwen3-4B a hundred times as deep: no machine of today has the memory.
    let config = json!({
        "model_type": "qwen3", "vocab_size": 151_936, "hidden_size": 2560, "intermediate_size": 9728, "num_hidden_layers": 3600,
        "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "rms_norm_eps": 1e-6, "rope_theta": 5e6,
        "max_position_embeddings": 262_144, "tie_word_embeddings": true, "eos_token_id": 151_645, "hidden_act": "silu",
    });
    let folder = root.path().join("deep");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("config.json"), config.to_string()).unwrap();
    write_export(&root.path().join("words.jsonl"), 12);
    let path = root.path().join("deep.toml");
    std::fs::write(&path, "name = \"deep\"\n[student]\npath = \"deep\"\n[data]\nexports = [\"words.jsonl\"]\n").unwrap();
    let refused = told(&train(&path, &root.path().join("out")).code(4));
    assert!(refused.contains("are free") && refused.contains("student plan"), "{refused}");
    assert!(!root.path().join("out").exists());

    let plan = |arguments: &[&str]| -> Value {
        serde_json::from_str(&stdout(&[&["student", "plan", text(&folder), "--json"], arguments].concat())).unwrap()
    };
    let none = plan(&["--gpu-memory", "24GiB"]);
    assert_eq!(none["generation"]["fits"], false);
    assert!(none["training"].as_array().unwrap().iter().all(|way| way["longest_row"].is_null()), "{none}");
    let all = plan(&["--memory", "900000GiB"]);
    assert!(all["training"].as_array().unwrap().iter().all(|way| way["longest_row"] == 262_144), "{all}");
    // 388,956,160 of the embedding, 100,930,816 of each layer, 2,560 of the last norm.
    assert_eq!(all["parameters"], 388_956_160_u64 + 3600 * 100_930_816 + 2560);
}
