//! Properties of the behaviour model.

use std::sync::Arc;

use serde_json::{Value, json};

use super::conversation::parse_text_call;
use super::{RehearsalParameters, RehearsalTeacher, Scene, forecast};
use crate::base::Snapshot;
use crate::model::{ChatReply, ChatRequest, LanguageModel, ModelError, SamplingParams, ToolChoice};
use crate::task::{Act, ActCall, ActRole, Check, CheckItem, JobType, Probe, SkillName, Stake, Task, TaskBody, TaskLimits};
use crate::trajectory::{Message, RequestTag, Role, ToolSchema};

const EVIDENCE: &str = "records flagged 7731 never count";

fn run(command: &str) -> ActCall {
    ActCall::Run { command: command.to_owned() }
}

fn act(call: ActCall, role: ActRole) -> Act {
    Act { call, role, evidence: None, slip: None }
}

/// A task with two looks, two changes (the second relies on a line of the notes), two requirements and a check.
pub(super) fn task(job_type: &str) -> Arc<Task> {
    let edit = |replace: &str| ActCall::Edit { path: "src/tool.py".into(), find: "limit = 3".into(), replace: replace.into() };
    let write = |content: &str| ActCall::Write { path: "out/report.txt".into(), content: content.into() };
    let main = match job_type {
        "code" => Act { slip: Some(edit("limit = 40")), ..act(edit("limit = 4"), ActRole::Work) },
        "data" => {
            let code = |filter: &str| ActCall::Python { code: format!("print({filter})\n") };
            Act { slip: Some(code("1")), ..act(code("2"), ActRole::Work) }
        }
        _ => Act { slip: Some(run("mv a.log b")), ..act(run("mv a.log b/"), ActRole::Work) },
    };
    let informed = Act { evidence: Some(EVIDENCE.into()), slip: Some(write("all\n")), ..act(write("without 7731\n"), ActRole::Work) };
    let mut files = Snapshot::new();
    files.insert_text("src/tool.py", "limit = 3\n").unwrap();
    files
        .insert_text("notes.md", &format!("{}{EVIDENCE}\n{}", "a line of no importance\n".repeat(200), "another line\n".repeat(300)))
        .unwrap();
    let body = TaskBody {
        job_type: JobType::new(job_type).unwrap(),
        skill: SkillName::new("probe").unwrap(),
        instruction: "Move the log. Write the report without what never counts.".into(),
        files,
        limits: TaskLimits::default(),
        check: Check {
            items: vec![CheckItem {
                name: "report".into(),
                stake: Stake::Credit,
                probe: Probe::FileExists { path: "out/report.txt".into() },
            }],
        },
        solution: vec![
            act(run("ls -la"), ActRole::Inspect),
            act(run("cat notes.md"), ActRole::Inspect),
            main,
            informed,
            act(run("chmod 640 out/report.txt"), ActRole::Requirement),
            act(run("rm -f scratch"), ActRole::Requirement),
            act(run("cat out/report.txt"), ActRole::Verify),
        ],
        broken: Vec::new(),
    };
    Arc::new(Task::new(body).unwrap())
}

pub(super) fn teacher(tasks: &[Arc<Task>]) -> RehearsalTeacher {
    RehearsalTeacher::new(RehearsalParameters::builtin().unwrap(), tasks.iter().cloned())
}

fn tool(name: &str) -> ToolSchema {
    ToolSchema { name: name.into(), description: String::new(), parameters: json!({"type": "object"}) }
}

pub(super) fn scene(system: &str, tools: &[&str]) -> Scene {
    Scene {
        system: system.into(),
        tools: tools.iter().map(|name| tool(name)).collect(),
        temperature: 0.3,
        steps: 60,
        head_bytes: 2000,
        tail_bytes: 1000,
        self_check: None,
        output_bytes: 8000,
    }
}

fn request(system: &str, tools: &[&str], task: &Task, seed: u64) -> ChatRequest {
    ChatRequest {
        messages: vec![Message::text(Role::System, system), Message::text(Role::User, task.body().instruction.clone())],
        tools: tools.iter().map(|name| tool(name)).collect(),
        tool_choice: ToolChoice::Auto,
        sampling: SamplingParams { temperature: 0.3, top_p: 1.0, max_output_tokens: 1024, seed: None },
        tag: RequestTag { task: Some(task.id()), seed, step: 0 },
    }
}

/// The calls of an episode in which every call succeeds and prints `output(call)`.
fn episode(teacher: &RehearsalTeacher, mut request: ChatRequest, output: impl Fn(&str, &Value) -> String) -> Vec<(String, Value)> {
    let mut calls = Vec::new();
    for step in 0..60 {
        request.tag.step = step;
        let reply = teacher.reply(&request).unwrap();
        let Some(call) = reply.message.tool_calls.first().cloned() else { break };
        request.messages.push(reply.message);
        let Ok(arguments) = serde_json::from_str::<Value>(&call.arguments) else {
            request.messages.push(Message::tool_result(&call.id, "error: the arguments are no JSON"));
            continue;
        };
        let text = output(&call.name, &arguments);
        request.messages.push(Message::tool_result(&call.id, text));
        calls.push((call.name.clone(), arguments));
        if call.name == "finish" {
            break;
        }
    }
    calls
}

fn solved(teacher: &RehearsalTeacher, scene: &Scene, task: &Task, seeds: u64) -> f64 {
    forecast(teacher, scene, task, 0..seeds).unwrap().solved
}

/// Guidance for everything, in words of its own.
const GUIDED: &str = "Use the shell for files and text, never the GUI.
List every requirement of the instruction and tick each one off. Look at the files before you change anything.
Output may be cut: narrow it with grep or tail and look at the part you need.
Write exactly the format asked for. Compute with a program, not in your head.
Before you finish, check the result with a command and compare it with what was asked. Run the tests after each change.
After an error read the message and find its cause; never repeat the same call. Take short steps, one call at a time.";

#[test]
fn equal_requests_get_equal_replies_and_the_step_order_does_not_matter() {
    let task = task("data");
    let (a, b) = (teacher(&[Arc::clone(&task)]), teacher(&[Arc::clone(&task), super::tests::task("code")]));
    let mut requests = Vec::new();
    let mut next = request("You work.", &["bash", "finish"], &task, 5);
    for step in 0..8 {
        next.tag.step = step;
        requests.push(next.clone());
        let reply = a.reply(&next).unwrap();
        let id = reply.message.tool_calls.first().map(|call| call.id.clone()).unwrap_or_default();
        next.messages.push(reply.message);
        next.messages.push(Message::tool_result(&id, "ok"));
    }
    let forwards: Vec<ChatReply> = requests.iter().map(|request| a.reply(request).unwrap()).collect();
    let mut backwards: Vec<ChatReply> = requests.iter().rev().map(|request| b.reply(request).unwrap()).collect();
    backwards.reverse();
    assert_eq!(forwards, backwards);
    assert!(a.simulated());
    assert_eq!(a.id(), b.id());
}

#[test]
fn seeds_differ() {
    let task = task("shell");
    let teacher = teacher(&[Arc::clone(&task)]);
    let play =
        |seed| episode(&teacher, request("You work.", &["bash", "screenshot", "computer_use", "finish"], &task, seed), |_, _| "ok".into());
    assert!((1..20).any(|seed| play(seed) != play(0)));
}

#[test]
fn a_task_it_does_not_know_is_an_error() {
    let teacher = teacher(&[]);
    let task = task("shell");
    assert!(matches!(teacher.reply(&request("", &["bash"], &task, 0)), Err(ModelError::Permanent { .. })));
    let mut other = request("", &["bash"], &task, 0);
    other.tag.task = None;
    assert!(matches!(teacher.reply(&other), Err(ModelError::Permanent { .. })));
}

#[test]
fn guidance_about_requirements_only_takes_away_forgetting() {
    let task = task("shell");
    let teacher = teacher(&[Arc::clone(&task)]);
    let ends = |system: &str, seed| {
        let calls = episode(&teacher, request(system, &["bash", "finish"], &task, seed), |_, _| EVIDENCE.into());
        let done = |command: &str| calls.iter().any(|(_, arguments)| arguments["command"] == command);
        (done("chmod 640 out/report.txt"), done("rm -f scratch"))
    };
    let mut gained = 0;
    for seed in 0..150 {
        let plain = ends("You work at a terminal.", seed);
        let guided = ends("You work at a terminal. List every requirement of the instruction and tick each one off.", seed);
        assert!(guided.0 >= plain.0 && guided.1 >= plain.1, "seed {seed}: {plain:?} {guided:?}");
        gained += u32::from(guided.0 && !plain.0) + u32::from(guided.1 && !plain.1);
    }
    assert!(gained > 30, "{gained}");
}

#[test]
fn routing_guidance_only_takes_away_clicks() {
    let task = task("shell");
    let teacher = teacher(&[Arc::clone(&task)]);
    let tools = ["bash", "screenshot", "computer_use", "finish"];
    let clicks = |system: &str, seed| {
        let calls = episode(&teacher, request(system, &tools, &task, seed), |name, _| match name {
            "screenshot" | "computer_use" => "no display: this environment is a terminal".into(),
            _ => EVIDENCE.into(),
        });
        calls.iter().filter(|(name, _)| matches!(name.as_str(), "screenshot" | "computer_use")).count()
    };
    let (mut plain, mut towards, mut away) = (0, 0, 0);
    for seed in 0..100 {
        plain += clicks("You work.", seed);
        towards += clicks("You work. Use the shell for files and text, the GUI only for what has no command.", seed);
        away += clicks("You work. Begin with a screenshot and use the mouse.", seed);
    }
    assert!(towards * 10 < plain && plain < away, "{towards} {plain} {away}");
}

#[test]
fn what_it_sees_decides_what_it_writes() {
    let task = task("data");
    let teacher = teacher(&[Arc::clone(&task)]);
    let system = "Look at the files before you change anything.";
    let writes = |notes: &str, seed| {
        let calls = episode(&teacher, request(system, &["bash", "write_file", "finish"], &task, seed), |_, arguments| {
            if arguments["command"] == "cat notes.md" { notes.to_owned() } else { "ok".to_owned() }
        });
        let written: Vec<String> = calls
            .iter()
            .filter(|(name, _)| name == "write_file")
            .map(|(_, a)| a["content"].as_str().unwrap_or_default().to_owned())
            .collect();
        written
    };
    let (mut right_seen, mut right_cut) = (0, 0);
    for seed in 0..200 {
        right_seen += u32::from(writes(&format!("x\n{EVIDENCE}\ny"), seed).contains(&"without 7731\n".to_owned()));
        right_cut += u32::from(writes("x\n[... 900 bytes left out ...]\ny", seed).contains(&"without 7731\n".to_owned()));
    }
    assert!(right_seen > 40, "{right_seen}");
    // Without the text only a closer look gives it, and this world shows nothing new.
    assert_eq!(right_cut, 0);
}

#[test]
fn guidance_about_cut_output_makes_it_look_closer() {
    let task = task("data");
    let teacher = teacher(&[Arc::clone(&task)]);
    let guidance = "Output may be cut: narrow it with grep or tail and look at the part you need.";
    let narrowed = |system: &str, seed| {
        let calls = episode(&teacher, request(system, &["bash", "finish"], &task, seed), |_, arguments| {
            let shows = arguments["command"].as_str().is_some_and(|command| command.starts_with("sed -n '197,"));
            if shows { EVIDENCE.to_owned() } else { "ok".to_owned() }
        });
        calls.iter().any(|(_, arguments)| {
            arguments["command"].as_str().is_some_and(|c| c.contains("cat > out/report.txt") && c.contains("without 7731"))
        })
    };
    let count = |system: &str| (0..100).filter(|seed| narrowed(system, *seed)).count();
    let (plain, guided) = (count("You work."), count(guidance));
    assert!(guided > 2 * plain, "{plain} {guided}");
}

#[test]
fn text_calls_parse_back_and_garbled_ones_do_not() {
    let task = task("code");
    let teacher = teacher(&[Arc::clone(&task)]);
    let system = "Work.\n<tools>\n{\"type\":\"function\",\"function\":{\"name\":\"bash\"}}\n{\"type\":\"function\",\"function\":{\"name\":\"finish\"}}\n</tools>\n<tool_call>\n{\"name\": \"the tool\", \"arguments\": {}}\n</tool_call>";
    let (mut parsed, mut broken) = (0, 0);
    for seed in 0..300 {
        let mut text = request(system, &[], &task, seed);
        text.sampling.temperature = 1.5;
        let said = teacher.reply(&text).unwrap().message.joined_text();
        let inside = said.split_once("<tool_call>").and_then(|(_, rest)| rest.split_once("</tool_call>")).unwrap().0;
        match parse_text_call(inside) {
            Some(call) => {
                assert!(["bash", "screenshot"].contains(&call.name.as_str()), "{}", call.name);
                parsed += 1;
            }
            None => broken += 1,
        }
    }
    assert!(parsed > 200 && broken > 3, "{parsed} {broken}");
}

#[test]
fn a_text_conversation_is_followed_to_its_end() {
    let task = task("shell");
    let teacher = teacher(&[Arc::clone(&task)]);
    let system = format!("{GUIDED}\n<tools>\n{{\"name\":\"bash\"}}\n{{\"name\":\"finish\"}}\n</tools>\n<tool_call>\n");
    let mut ended = 0;
    for seed in 0..40 {
        let mut next = request(&system, &[], &task, seed);
        for step in 0..40 {
            next.tag.step = step;
            let reply = teacher.reply(&next).unwrap();
            let text = reply.message.joined_text();
            next.messages.push(reply.message);
            if text.contains("\"name\":\"finish\"") {
                ended += 1;
                break;
            }
            next.messages.push(Message::text(Role::User, format!("<tool_response name=\"bash\">\n{EVIDENCE}\n</tool_response>")));
        }
    }
    assert_eq!(ended, 40);
}

#[test]
fn errors_are_repeated_without_guidance() {
    let task = task("shell");
    let teacher = teacher(&[Arc::clone(&task)]);
    let repeats = |system: &str| -> usize {
        let one = |seed| {
            let calls = episode(&teacher, request(system, &["bash", "finish"], &task, seed), |_, _| "bash: no\n[exit 1]".into());
            calls.windows(2).filter(|pair| pair[0] == pair[1]).count()
        };
        (0..40).map(one).sum()
    };
    let (plain, guided) =
        (repeats("You work."), repeats("After an error read the message and find its cause; never repeat the same call."));
    assert!(guided * 3 < plain, "{guided} {plain}");
}

#[test]
fn dropped_history_is_survived_and_summaries_carry_what_matters() {
    let task = task("data");
    let teacher = teacher(&[Arc::clone(&task)]);
    let system = "You keep the memory of an agent. Older steps are replaced by your summary.";
    let mut ask = request(system, &[], &task, 3);
    ask.messages[1] = Message::text(
        Role::User,
        format!(
            "The task:\nMove the log. Write the report.\n\n[agent]\nLooking.\nbash {{\"command\":\"ls -la\"}}\n\n[environment]\nx\n\n[agent]\nbash {{\"command\":\"cat notes.md\"}}\n\n[environment]\n{EVIDENCE}\n"
        ),
    );
    let summary = teacher.reply(&ask).unwrap().message.joined_text();
    assert!(summary.contains("- done: 2 of my steps") && summary.contains(&format!("- seen: {EVIDENCE}")), "{summary}");
    // With the summary in the place of its first steps it goes on with the third act, and can still write the report.
    let calls = (0..60).map(|seed| {
        let mut next = request(GUIDED, &["bash", "write_file", "python", "finish"], &task, seed);
        next.messages[1] = Message::text(Role::User, format!("{}\nSummary of the work so far:\n{summary}", task.body().instruction));
        next.tag.step = 2;
        teacher.reply(&next).unwrap().message.tool_calls[0].clone()
    });
    assert!(calls.filter(|call| call.name == "python").count() > 40);
}

#[test]
fn a_look_only_helps_with_guidance() {
    let task = task("code");
    let teacher = teacher(&[Arc::clone(&task)]);
    let tools = ["bash", "python", "edit_file", "write_file", "read_file", "finish"];
    let rate = |system: &str, self_check: Option<&str>| {
        let scene = Scene { self_check: self_check.map(str::to_owned), head_bytes: 9000, ..scene(system, &tools) };
        solved(&teacher, &scene, &task, 200)
    };
    let demand = Some("Look at the result, then finish.");
    let tests = "Run the tests after each change. Do not finish while one fails.";
    let (none, demanded) = (rate("You work.", None), rate("You work.", demand));
    let (told, both) = (rate(tests, None), rate(tests, demand));
    assert!((demanded - none).abs() < 0.06, "{none} {demanded}");
    assert!(told > none + 0.05, "{none} {told}");
    assert!(both >= told, "{told} {both}");
}

#[test]
fn checking_pays_only_with_a_list_to_compare_with() {
    let task = task("shell");
    let teacher = teacher(&[Arc::clone(&task)]);
    let rate = |system: &str| solved(&teacher, &Scene { head_bytes: 20_000, ..scene(system, &["bash", "finish"]) }, &task, 300);
    let (list, check) = ("List every requirement and tick it off.", "Before finishing, verify the result with a command.");
    let (none, checked, listed, both) = (rate(""), rate(check), rate(list), rate(&format!("{list} {check}")));
    assert!(checked < none + 0.1 && listed > none + 0.05, "{none} {checked} {listed}");
    assert!(both > listed + 0.05 && both > checked + 0.2, "{listed} {checked} {both}");
}

#[test]
fn without_a_fitting_tool_it_ends_without_success() {
    let task = task("shell");
    let teacher = teacher(&[Arc::clone(&task)]);
    let forecast = forecast(&teacher, &scene("You work.", &["screenshot", "computer_use", "finish"]), &task, 0..50).unwrap();
    assert!(forecast.solved < 1e-9 && forecast.steps < 60.0, "{forecast:?}");
}

#[test]
fn usage_is_estimated_from_the_real_texts() {
    let task = task("shell");
    let teacher = teacher(&[Arc::clone(&task)]);
    let usage = |system: &str| teacher.reply(&request(system, &["bash", "finish"], &task, 1)).unwrap().usage;
    let (short, long) = (usage("abcd"), usage(&"abcd".repeat(101)));
    assert_eq!(long.prompt_tokens - short.prompt_tokens, 100);
    assert!(short.completion_tokens > 0);
}
