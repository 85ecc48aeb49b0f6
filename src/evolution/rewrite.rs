//! The request to a rewriting model: what failed under a harness, in bounded form, and how its reply is read.

use minijinja::{Environment, Value, context};

use super::edit::{Edit, EditError, TaskTexts, clip};
use crate::harness::{Genome, HarnessError, ToolName};
use crate::model::{ChatReply, ChatRequest, SamplingParams, ToolChoice};
use crate::task::{ItemResult, JobType, SearchTask};
use crate::trajectory::{Ending, Message, Outcome, RequestTag, Role, ToolCall, Trajectory};

const SYSTEM: &str = include_str!("../../harness_templates/operators/rewrite_system.jinja");
const USER: &str = include_str!("../../harness_templates/operators/rewrite_user.jinja");

/// Calls shown from the start and from the end of an episode.
const FIRST_CALLS: usize = 4;
const LAST_CALLS: usize = 8;
/// Bytes of an instruction, a call, a result, a check item, a gene.
const INSTRUCTION_BYTES: usize = 600;
const CALL_BYTES: usize = 200;
const RESULT_BYTES: usize = 160;
const ITEM_BYTES: usize = 200;
const GENE_BYTES: usize = 4000;
/// Edits shown that did not help.
const PAST_EDITS: usize = 8;

/// A request that cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum RewriteError {
    /// A template does not parse or render.
    #[error("the operator template does not render: {0:#}")]
    Template(#[from] minijinja::Error),
    /// The parent's genes cannot be listed.
    #[error(transparent)]
    Harness(#[from] HarnessError),
}

/// One failed episode, cut down to what an editor needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedEpisode {
    instruction: String,
    ending: &'static str,
    score: String,
    steps: u32,
    actions: Vec<String>,
    items: Vec<String>,
}

/// What a rewriting model is shown.
#[derive(Debug, Clone)]
pub struct FailureDigest<'a> {
    /// The parent.
    pub genome: &'a Genome,
    /// The kind of work the child is for.
    pub job_type: &'a JobType,
    /// Failed episodes, the most telling first.
    pub episodes: Vec<FailedEpisode>,
    /// Edits of this parent that did not help, in one line each, with their hypothesis.
    pub past: Vec<String>,
}

/// Bounds of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RewriteBounds {
    /// Genes one edit may change.
    pub edits: usize,
    /// Episodes shown.
    pub episodes: usize,
    /// Bytes of the user message; episodes that do not fit are left out.
    pub bytes: usize,
}

impl Default for RewriteBounds {
    fn default() -> Self {
        Self { edits: 4, episodes: 4, bytes: 32 * 1024 }
    }
}

/// Builds requests and reads replies.
#[derive(Debug)]
pub struct RewritePrompt {
    environment: Environment<'static>,
    bounds: RewriteBounds,
}

impl FailedEpisode {
    /// What `trajectory` shows of how `task` was not solved; `None` when it was solved or not scored.
    #[must_use]
    pub fn new(task: &SearchTask, trajectory: &Trajectory) -> Option<Self> {
        let Outcome::Scored { verdict, ending } = &trajectory.outcome else { return None };
        if verdict.passed() {
            return None;
        }
        Some(Self {
            instruction: one_line(&task.task().body().instruction, INSTRUCTION_BYTES),
            ending: ending_name(*ending),
            score: format!("{:.2}", verdict.score),
            steps: trajectory.steps(),
            actions: actions(&trajectory.messages),
            items: verdict.items.iter().map(item_line).collect(),
        })
    }

    fn value(&self) -> Value {
        context! {
            instruction => self.instruction.clone(),
            ending => self.ending,
            score => self.score.clone(),
            steps => self.steps,
            actions => self.actions.clone(),
            items => self.items.clone(),
        }
    }
}

impl RewritePrompt {
    /// With the templates that come with the program.
    ///
    /// # Errors
    /// When they do not parse, which a test excludes.
    pub fn builtin(bounds: RewriteBounds) -> Result<Self, RewriteError> {
        Self::new(SYSTEM.to_owned(), USER.to_owned(), bounds)
    }

    /// With other templates.
    ///
    /// # Errors
    /// When they do not parse.
    pub fn new(system: String, user: String, bounds: RewriteBounds) -> Result<Self, RewriteError> {
        let mut environment = Environment::new();
        environment.set_undefined_behavior(minijinja::UndefinedBehavior::Strict);
        environment.add_template_owned("system", system)?;
        environment.add_template_owned("user", user)?;
        Ok(Self { environment, bounds })
    }

    /// The request for an edit. `seed` and `step` name it among the operator's requests.
    ///
    /// # Errors
    /// When a template does not render.
    pub fn request(
        &self,
        digest: &FailureDigest<'_>,
        sampling: &SamplingParams,
        seed: u64,
        step: u32,
    ) -> Result<ChatRequest, RewriteError> {
        let tool_names = ToolName::ALL.map(ToolName::as_str);
        let system = self.environment.get_template("system")?.render(context! { max_edits => self.bounds.edits, tool_names })?;
        let mut shown = digest.episodes.len().min(self.bounds.episodes);
        let mut user = self.user(digest, shown)?;
        while user.len() > self.bounds.bytes && shown > 0 {
            shown -= 1;
            user = self.user(digest, shown)?;
        }
        Ok(ChatRequest {
            messages: vec![Message::text(Role::System, system), Message::text(Role::User, user)],
            tools: Vec::new(),
            tool_choice: ToolChoice::None,
            sampling: sampling.clone(),
            tag: RequestTag { task: None, seed, step },
        })
    }

    /// The edit of `parent` in a reply.
    ///
    /// # Errors
    /// See [`EditError`].
    pub fn read(&self, reply: &ChatReply, parent: &Genome, tasks: &TaskTexts) -> Result<Edit, EditError> {
        Edit::parse(&reply.message.joined_text(), parent, self.bounds.edits, tasks)
    }

    fn user(&self, digest: &FailureDigest<'_>, shown: usize) -> Result<String, RewriteError> {
        let genes = digest.genome.genes()?;
        let genes: Vec<String> = genes.iter().map(|(path, value)| format!("{path} = {}", gene_text(value))).collect();
        let past: Vec<String> = digest.past.iter().rev().take(PAST_EDITS).map(|edit| one_line(edit, CALL_BYTES * 2)).collect();
        let template = self.environment.get_template("user")?;
        Ok(template.render(context! {
            job_type => digest.job_type.as_str(),
            genes,
            episodes => digest.episodes[..shown].iter().map(FailedEpisode::value).collect::<Vec<_>>(),
            past,
        })?)
    }
}

/// A gene's value as JSON on one line; a long text is cut, so that it stays JSON.
fn gene_text(value: &serde_json::Value) -> String {
    match value.as_str() {
        Some(text) if text.len() > GENE_BYTES => serde_json::Value::String(format!("{} [...]", clip(text, GENE_BYTES))).to_string(),
        _ => value.to_string(),
    }
}

const fn ending_name(ending: Ending) -> &'static str {
    match ending {
        Ending::Finished => "finished",
        Ending::StepLimit => "step_limit",
        Ending::TokenLimit => "token_limit",
        Ending::TimeLimit => "time_limit",
        Ending::Malformed => "malformed",
        Ending::ToolErrors => "tool_errors",
    }
}

fn item_line(item: &ItemResult) -> String {
    let sign = if item.passed { "ok" } else { "FAIL" };
    format!("- {sign} {}: {}", one_line(&item.name, ITEM_BYTES), one_line(&item.evidence, ITEM_BYTES))
}

fn one_line(text: &str, bytes: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let short = clip(&line, bytes);
    if short.len() < line.len() { format!("{short} ...") } else { line }
}

/// The calls of an episode with what came back: the first few and the last.
fn actions(messages: &[Message]) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for message in messages {
        match message.role {
            Role::Assistant if message.tool_calls.is_empty() => {
                lines.push(format!("- call: {}", one_line(written_call(&message.joined_text()), CALL_BYTES)));
            }
            Role::Assistant => lines.extend(message.tool_calls.iter().map(call_line)),
            Role::Tool | Role::User => {
                if let Some(line) = lines.last_mut() {
                    line.push_str(&format!("\n  result: {}", result_text(&message.joined_text())));
                }
            }
            Role::System => {}
        }
    }
    if lines.len() > FIRST_CALLS + LAST_CALLS {
        let left_out = lines.len() - FIRST_CALLS - LAST_CALLS;
        let tail = lines.split_off(lines.len() - LAST_CALLS);
        lines.truncate(FIRST_CALLS);
        lines.push(format!("({left_out} calls are not shown)"));
        lines.extend(tail);
    }
    lines
}

fn call_line(call: &ToolCall) -> String {
    format!("- call: {} {}", call.name, one_line(&call.arguments, CALL_BYTES))
}

/// The part of a reply in text form that is the call.
fn written_call(text: &str) -> &str {
    text.split_once("<tool_call>").map_or(text, |(_, call)| call)
}

/// Start and end of a result; a mark of cut output and a failure's last line survive.
fn result_text(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.len() <= RESULT_BYTES {
        return line;
    }
    let head = clip(&line, RESULT_BYTES / 2);
    let mut start = line.len() - RESULT_BYTES / 2;
    while !line.is_char_boundary(start) {
        start += 1;
    }
    let mark = text.lines().find(|line| line.starts_with("[... ") && line.ends_with(" bytes left out ...]"));
    let mark = mark.map(|mark| format!(" {mark}")).unwrap_or_default();
    format!("{head} ...{mark} ... {}", &line[start..])
}
