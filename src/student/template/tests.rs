use std::path::Path;

use serde::Deserialize;

use super::*;
use crate::trajectory::{Role, ToolCall};

/// A rendering of `transformers`; see `tests/fixtures/student/templates.py`.
#[derive(Deserialize)]
pub(crate) struct Golden {
    template: String,
    case: String,
    messages: Vec<Message>,
    tools: Vec<ToolSchema>,
    generation: bool,
    text: String,
}

pub(crate) fn fixture(name: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/student").join(name)).unwrap()
}

pub(crate) fn goldens() -> Vec<Golden> {
    serde_json::from_str(&fixture("templates.json")).unwrap()
}

/// The conversation of a golden case.
pub(crate) fn case(name: &str) -> (Vec<Message>, Vec<ToolSchema>) {
    let golden = goldens().into_iter().find(|golden| golden.case == name).unwrap();
    (golden.messages, golden.tools)
}

pub(crate) fn template(name: &str) -> ChatTemplate {
    let source = if name == "nano" { NANO_TEMPLATE.to_owned() } else { fixture(&format!("{name}.jinja")) };
    ChatTemplate::new(&source, "<|bos|>", "<|im_end|>").unwrap()
}

fn rendered(template: &ChatTemplate, golden: &Golden) -> Result<String, TemplateError> {
    let prompt = if golden.generation { GenerationPrompt::Added } else { GenerationPrompt::Absent };
    template.render(&golden.messages, &golden.tools, prompt)
}

#[test]
fn renderings_equal_those_of_transformers() {
    let goldens = goldens();
    assert!(goldens.len() > 25);
    for golden in goldens {
        let text = rendered(&template(&golden.template), &golden).unwrap();
        assert_eq!(text, golden.text, "{} {}", golden.template, golden.case);
    }
}

/// Published templates are not ours to keep here. `HARNESS_EVO_TEMPLATES` names the file that `templates.py --all` writes.
#[test]
fn published_templates_render_as_in_transformers() {
    #[derive(Deserialize)]
    struct Published {
        name: String,
        source: String,
        cases: Vec<Golden>,
    }
    let Some(path) = std::env::var_os("HARNESS_EVO_TEMPLATES") else {
        eprintln!("skipped: HARNESS_EVO_TEMPLATES is not set");
        return;
    };
    let published: Vec<Published> = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let (mut equal, mut different) = (0, Vec::new());
    for one in &published {
        let template = match ChatTemplate::new(&one.source, "<|bos|>", "<|im_end|>") {
            Ok(template) => template,
            Err(error) => {
                different.push(format!("{}: {error}", one.name));
                continue;
            }
        };
        for golden in &one.cases {
            match rendered(&template, golden) {
                Ok(text) if text == golden.text => equal += 1,
                Ok(text) => {
                    let at = text.bytes().zip(golden.text.bytes()).take_while(|(a, b)| a == b).count();
                    let from = text.floor_char_boundary(at.saturating_sub(40));
                    let end = text.ceil_char_boundary((at + 60).min(text.len()));
                    different.push(format!("{} {}: {:?}", one.name, golden.case, &text[from..end]));
                }
                Err(error) => different.push(format!("{} {}: {error}", one.name, golden.case)),
            }
        }
    }
    eprintln!("{equal} renderings equal, {} not:\n{}", different.len(), different.join("\n"));
    let ours = ["qwen", "smol", "lenml", "models"];
    let relevant: Vec<_> = different.iter().filter(|line| ours.iter().any(|name| line.starts_with(name))).collect();
    assert!(relevant.is_empty(), "{relevant:?}");
}

#[test]
fn a_template_that_does_not_end_is_stopped() {
    let endless = "{% for a in range(100000) %}{% for b in range(100000) %}{% set x = a * b %}{% endfor %}{% endfor %}";
    let template = ChatTemplate::new(endless, "", "").unwrap();
    assert!(matches!(template.render(&[], &[], GenerationPrompt::Absent), Err(TemplateError::Render(_))));
    let deep = "{% macro again() %}{{ again() }}{% endmacro %}{{ again() }}";
    let template = ChatTemplate::new(deep, "", "").unwrap();
    assert!(matches!(template.render(&[], &[], GenerationPrompt::Absent), Err(TemplateError::Render(_))));
    let wide = "{% for a in range(1000) %}{{ messages[0].content * 10000 }}{% endfor %}";
    let template = ChatTemplate::new(wide, "", "").unwrap();
    let error = template.render(&[Message::text(Role::User, "0123456789")], &[], GenerationPrompt::Absent).unwrap_err();
    assert!(error.to_string().contains("longer than 67108864 bytes"), "{error}");
}

#[test]
fn what_is_wrong_with_a_template_is_said() {
    assert!(matches!(ChatTemplate::new("{% if %}", "", ""), Err(TemplateError::Syntax(_))));
    assert!(matches!(ChatTemplate::new(&"x".repeat(LONGEST_TEMPLATE + 1), "", ""), Err(TemplateError::TooLong { .. })));
    let refusing = ChatTemplate::new("{{ raise_exception('roles must alternate') }}", "", "").unwrap();
    let error = refusing.render(&[], &[], GenerationPrompt::Absent).unwrap_err().to_string();
    assert!(error.contains("roles must alternate"), "{error}");
    assert!(matches!(ChatTemplate::from_folder(Path::new("/nowhere")), Err(TemplateError::Missing(_))));
}

#[test]
fn a_folder_gives_its_template_and_tokens() {
    let folder = tempfile::tempdir().unwrap();
    let config = r#"{"bos_token": null, "eos_token": {"content": "<e>"}, "chat_template": [{"name": "default", "template": "d"}]}"#;
    std::fs::write(folder.path().join("tokenizer_config.json"), config).unwrap();
    let template = ChatTemplate::from_folder(folder.path()).unwrap();
    assert_eq!((template.source(), template.bos(), template.eos()), ("d", "", "<e>"));
    std::fs::write(folder.path().join("chat_template.jinja"), "j{{ eos_token }}").unwrap();
    let template = ChatTemplate::from_folder(folder.path()).unwrap();
    assert_eq!(template.render(&[], &[], GenerationPrompt::Absent).unwrap(), "j<e>");
}

#[test]
fn the_day_is_always_the_same() {
    let template = ChatTemplate::new("{{ strftime_now('%d %b %Y') }}", "", "").unwrap();
    assert_eq!(template.render(&[], &[], GenerationPrompt::Absent).unwrap(), "01 Jan 2026");
}

#[test]
fn arguments_that_are_no_json_are_shown_as_they_are() {
    let call = ToolCall { id: "a".to_owned(), name: "bash".to_owned(), arguments: "{broken".to_owned() };
    let message = Message { tool_calls: vec![call], ..Message::text(Role::Assistant, "") };
    let text = template("nano").render(&[message], &[], GenerationPrompt::Absent).unwrap();
    assert_eq!(text, "<|im_start|>assistant\n<tool_call>\n{\"name\": \"bash\", \"arguments\": {broken}\n</tool_call><|im_end|>\n");
}
