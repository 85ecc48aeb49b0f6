use super::*;
use crate::harness::{Genome, Harness};
use crate::task::{JobType, SkillName, Split, TaskId, Verdict};
use crate::trajectory::{Boundary, ContentPart, Ending, Fault, Message, Outcome, Role, ToolCall, ToolSchema, Trajectory, Usage};

fn scored(score: f64) -> Outcome {
    Outcome::Scored { verdict: Verdict { score, items: Vec::new() }, ending: Ending::Finished }
}

fn row(seed: u64, text: &str) -> Row {
    let mut genome = Genome::offering([crate::harness::ToolName::Bash, crate::harness::ToolName::Finish]);
    genome.prompt.role = "x".to_owned();
    let harness = Harness::new(genome).unwrap().id();
    let mut asks = Message::text(Role::Assistant, "");
    asks.reasoning = Some("look first".to_owned());
    asks.tool_calls = vec![
        ToolCall { id: "a".to_owned(), name: "bash".to_owned(), arguments: r#"{"z": 1, "command": "ls"}"#.to_owned() },
        ToolCall { id: "b".to_owned(), name: "bash".to_owned(), arguments: "{broken".to_owned() },
    ];
    Row {
        trajectory: Trajectory {
            harness,
            model: "tiny".to_owned(),
            task: "00000000000000000000000000000001".parse::<TaskId>().unwrap(),
            seed,
            tools: vec![ToolSchema {
                name: "bash".to_owned(),
                description: "Runs.".to_owned(),
                parameters: serde_json::json!({"type": "object"}),
            }],
            messages: vec![
                Message::text(Role::User, text),
                asks,
                Message::tool_result("a", "f.txt"),
                Message::tool_result("b", "not JSON"),
            ],
            usage: vec![Usage { prompt_tokens: 100, completion_tokens: 10, cached_tokens: 0 }],
            outcome: scored(1.0),
        },
        job_type: JobType::new("shell").unwrap(),
        skill: SkillName::new("list").unwrap(),
        split: Split::Search,
        path: vec![PathStep { harness, made_by: "seed".to_owned() }],
        simulated: true,
        licence: None,
    }
}

fn lines(rows: &[Row]) -> Vec<serde_json::Value> {
    let (bytes, summary) = openai_jsonl(rows).unwrap();
    let lines: Vec<serde_json::Value> = String::from_utf8(bytes).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), summary.written);
    lines
}

#[test]
fn one_line_in_full() {
    let harness = row(1, "").trajectory.harness.to_string();
    let line = String::from_utf8(openai_jsonl(&[row(1, "List.")]).unwrap().0).unwrap().replace(&harness, "H");
    insta::assert_snapshot!(line, @r#"{"messages":[{"content":"List.","role":"user"},{"content":"","reasoning_content":"look first","role":"assistant","tool_calls":[{"function":{"arguments":{"command":"ls","z":1},"name":"bash"},"id":"a","type":"function"},{"function":{"arguments":"{broken","name":"bash"},"id":"b","type":"function"}]},{"content":"f.txt","name":"bash","role":"tool","tool_call_id":"a"},{"content":"not JSON","name":"bash","role":"tool","tool_call_id":"b"}],"metadata":{"calls":"native","format":"harness-evo/openai-jsonl/1","harness":"H","job_type":"shell","lineage":[{"harness":"H","made_by":"seed"}],"model":"tiny","score":1.0,"seed":1,"simulated":true,"skill":"list","split":"search","steps":1,"task":"00000000000000000000000000000001","tokens":110},"tools":"[{\"function\":{\"description\":\"Runs.\",\"name\":\"bash\",\"parameters\":{\"type\":\"object\"}},\"type\":\"function\"}]"}"#);
}

#[test]
fn order_and_repetition_of_the_rows_do_not_matter() {
    let rows = [row(3, "c"), row(1, "a"), row(2, "b")];
    let sorted = openai_jsonl(&rows).unwrap().0;
    let (shuffled, summary) = openai_jsonl(&[rows[1].clone(), rows[2].clone(), rows[0].clone(), rows[1].clone()]).unwrap();
    assert_eq!(shuffled, sorted);
    assert_eq!(summary, Summary { written: 3, duplicates: 1, ..Summary::default() });
    let seeds: Vec<_> = lines(&rows).iter().map(|line| line["metadata"]["seed"].as_u64().unwrap()).collect();
    assert_eq!(seeds, [1, 2, 3]);
}

#[test]
fn episodes_that_say_the_same_are_written_once() {
    let (_, summary) = openai_jsonl(&[row(1, "same"), row(2, "same"), row(3, "other")]).unwrap();
    assert_eq!(summary, Summary { written: 2, duplicates: 1, ..Summary::default() });
    assert_eq!(lines(&[row(2, "same"), row(1, "same")])[0]["metadata"]["seed"], 1);
}

#[test]
fn what_is_not_solved_or_is_sealed_never_leaves() {
    let mut rows = vec![row(1, "a"), row(2, "b"), row(3, "c"), row(4, "d")];
    rows[0].trajectory.outcome = scored(0.99);
    rows[1].trajectory.outcome = Outcome::Faulted { fault: Fault { boundary: Boundary::Check, message: String::new() } };
    rows[2].split = Split::Sealed;
    let (bytes, summary) = openai_jsonl(&rows).unwrap();
    assert_eq!(summary, Summary { written: 1, duplicates: 0, unsolved: 2, sealed: 1 });
    assert!(String::from_utf8(bytes).unwrap().contains(r#""seed":4"#));
}

#[test]
fn calls_written_as_text_stay_text_and_are_marked() {
    let mut text = row(1, "a");
    text.trajectory.messages = vec![
        Message::text(Role::User, "List."),
        Message::text(Role::Assistant, "<tool_call>\n{\"name\": \"bash\", \"arguments\": {}}\n</tool_call>"),
    ];
    let line = &lines(&[text.clone()])[0];
    assert_eq!(line["metadata"]["calls"], "text");
    assert!(line["messages"][1]["content"].as_str().unwrap().starts_with("<tool_call>\n"));
    assert!(line["messages"][1].get("tool_calls").is_none());
    text.trajectory.messages.truncate(1);
    assert_eq!(lines(&[text])[0]["metadata"]["calls"], "none");
}

#[test]
fn pictures_and_licences_are_named() {
    let mut row = row(1, "a");
    row.licence = Some("CC-BY-4.0".to_owned());
    row.trajectory.messages[0].content.push(ContentPart::Image { blob: "ab".to_owned(), media_type: "image/png".to_owned() });
    let line = &lines(&[row])[0];
    assert_eq!(line["metadata"]["licence"], "CC-BY-4.0");
    assert_eq!(line["messages"][0]["content"][1], serde_json::json!({"type": "image", "blob": "ab", "media_type": "image/png"}));
}

#[test]
fn the_file_replaces_the_old_one_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.jsonl");
    std::fs::write(&path, "old").unwrap();
    write_openai_jsonl(&[row(1, "a")], &path).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), openai_jsonl(&[row(1, "a")]).unwrap().0);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    assert!(matches!(write_openai_jsonl(&[], &folder.path().join("no/out.jsonl")), Err(ExportError::Io { .. })));
}
