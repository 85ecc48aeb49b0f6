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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evolution::TaskTexts;
    use crate::model::rehearsal::{RehearsalParameters, RehearsalTeacher};

    fn sampling() -> SamplingParams {
        SamplingParams { temperature: 0.7, top_p: 1.0, max_output_tokens: 2048, seed: None }
    }

    fn episode(ending: Ending, actions: &[&str], items: &[&str]) -> FailedEpisode {
        FailedEpisode {
            instruction: "Do {{ it }}.".to_owned(),
            ending: ending_name(ending),
            score: "0.00".to_owned(),
            steps: 9,
            actions: actions.iter().map(|text| (*text).to_owned()).collect(),
            items: items.iter().map(|text| (*text).to_owned()).collect(),
        }
    }

    fn genome() -> Genome {
        let mut genome = Genome::offering([ToolName::Bash, ToolName::Screenshot, ToolName::Finish]);
        genome.prompt.role = "You work in {{ workspace }}.".to_owned();
        genome
    }

    fn teacher() -> RehearsalTeacher {
        RehearsalTeacher::new(RehearsalParameters::builtin().unwrap(), [])
    }

    /// The edits the rehearsal proposes for one digest under many seeds.
    fn edits(episodes: Vec<FailedEpisode>, past: Vec<String>) -> Vec<Edit> {
        let (genome, job_type, teacher) = (genome(), JobType::new("shell").unwrap(), teacher());
        let prompt = RewritePrompt::builtin(RewriteBounds::default()).unwrap();
        let digest = FailureDigest { genome: &genome, job_type: &job_type, episodes, past };
        let edit = |seed| {
            let request = prompt.request(&digest, &sampling(), seed, 0).unwrap();
            prompt.read(&teacher.reply(&request).unwrap(), &genome, &TaskTexts::default()).unwrap()
        };
        (0..200).map(edit).collect()
    }

    fn share(edits: &[Edit], genes: &[&str]) -> f64 {
        let count = edits.iter().filter(|edit| genes.contains(&edit.assignments[0].path.as_str())).count();
        f64::from(u32::try_from(count).unwrap()) / f64::from(u32::try_from(edits.len()).unwrap())
    }

    #[test]
    fn the_rehearsal_reads_the_failures_and_is_right_as_often_as_stated() {
        let clicks = ["- call: screenshot {}\n  result: no display: this environment is a terminal"; 4];
        let by_class = [
            (episode(Ending::Finished, &clicks, &[]), "prompt.routing"),
            (episode(Ending::StepLimit, &["- call: bash {\"command\":\"ls\"}"], &[]), "limits.steps"),
            (episode(Ending::Finished, &["- call: bash {}\n  result: a [... 900 bytes left out ...] b"], &["- ok x: y"]), "prompt.routing"),
            (episode(Ending::Finished, &[], &["- FAIL mode: is 644"]), "prompt.planning"),
        ];
        for (episode, gene) in by_class {
            let edits = edits(vec![episode], Vec::new());
            let about = |edit: &&Edit| edit.assignments.iter().any(|assignment| assignment.path.as_str() == gene);
            let right = edits.iter().filter(|edit| !edit.hypothesis.fixes.is_empty()).filter(about).count();
            // The stated skill is 0.7; four standard errors of 200 draws are 0.13.
            assert!((114..=166).contains(&right), "{gene}: {right}");
        }
    }

    #[test]
    fn what_failed_before_is_not_proposed_again() {
        let failing = || vec![episode(Ending::StepLimit, &[], &[])];
        let first = edits(failing(), Vec::new());
        let tried = first.iter().find(|edit| !edit.hypothesis.fixes.is_empty()).unwrap().hypothesis.text.clone();
        assert!(
            edits(failing(), vec![format!("{tried} (difference -0.10 over 12 pairs)")]).iter().all(|edit| edit.hypothesis.text != tried)
        );
        assert!(share(&first, &["limits.steps"]) > 0.5);
    }

    #[test]
    fn a_request_is_bounded_and_templates_in_tasks_stay_text() {
        let (genome, job_type) = (genome(), JobType::new("shell").unwrap());
        let bounds = RewriteBounds { bytes: 6000, ..RewriteBounds::default() };
        let prompt = RewritePrompt::builtin(bounds).unwrap();
        let long = "- call: bash x".repeat(120);
        let episodes: Vec<FailedEpisode> = (0..4).map(|_| episode(Ending::Finished, &[&long], &[])).collect();
        let digest = FailureDigest { genome: &genome, job_type: &job_type, episodes, past: Vec::new() };
        let request = prompt.request(&digest, &sampling(), 1, 0).unwrap();
        let user = request.messages[1].joined_text();
        assert!(user.len() <= 6000 && user.contains("Episode 1") && !user.contains("Episode 4"), "{}", user.len());
        assert!(user.contains("Do {{ it }}.") && user.contains("prompt.role = \"You work in {{ workspace }}.\""), "{user}");
        assert_eq!(request.tag.task, None);
    }
}
