//! Episodes in memory: the teacher against a world in which every act has a canned output. Fast enough to tune parameters with,
//! and to know the best reachable score of a harness before a search looks for it.

use crate::base::{Entry, SeedTree};
use crate::model::{ChatRequest, ModelError, SamplingParams, ToolChoice};
use crate::task::{ActCall, ActRole, Task};
use crate::trajectory::{Message, RequestTag, Role, ToolSchema};

use super::RehearsalTeacher;
use super::conversation::{Call, Conversation};
use super::progress::{Attempt, Plan, TurnKind};

/// What a harness comes to for a forecast.
#[derive(Debug, Clone)]
pub struct Scene {
    /// The system prompt.
    pub system: String,
    /// Tools on offer through the endpoint's own interface.
    pub tools: Vec<ToolSchema>,
    /// Sampling temperature.
    pub temperature: f64,
    /// Replies at most.
    pub steps: u32,
    /// Bytes kept from the start of an observation.
    pub head_bytes: usize,
    /// Bytes kept from its end.
    pub tail_bytes: usize,
    /// What an attempt to finish without a look is answered with; `None` accepts it.
    pub self_check: Option<String>,
    /// Bytes that a look at the initial state prints where it is more than showing one file; what later acts rely on stands anywhere
    /// in it.
    pub output_bytes: usize,
}

/// What came of the episodes of a forecast.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Forecast {
    /// Episodes.
    pub episodes: u32,
    /// Share in which every act that matters was played right in the end.
    pub solved: f64,
    /// Mean replies.
    pub steps: f64,
    /// Mean tokens.
    pub tokens: f64,
}

/// Plays `task` under `scene` with each of `seeds`.
///
/// # Errors
/// When the teacher does not know the task.
pub fn forecast(
    teacher: &RehearsalTeacher,
    scene: &Scene,
    task: &Task,
    seeds: impl IntoIterator<Item = u64>,
) -> Result<Forecast, ModelError> {
    let (mut sum, mut solved) = (Forecast::default(), 0_u32);
    for seed in seeds {
        let (passed, steps, tokens) = episode(teacher, scene, task, seed)?;
        sum.episodes += 1;
        solved += u32::from(passed);
        sum.steps += f64::from(steps);
        #[expect(clippy::cast_precision_loss, reason = "tokens of one episode")]
        let tokens = tokens as f64;
        sum.tokens += tokens;
    }
    let n = f64::from(sum.episodes.max(1));
    Ok(Forecast { episodes: sum.episodes, solved: f64::from(solved) / n, steps: sum.steps / n, tokens: sum.tokens / n })
}

fn episode(teacher: &RehearsalTeacher, scene: &Scene, task: &Task, seed: u64) -> Result<(bool, u32, u64), ModelError> {
    let plan = Plan::new(task, &scene.tools.iter().map(|tool| tool.name.clone()).collect::<Vec<_>>());
    let mut request = opening(scene, task, seed);
    let (mut tokens, mut refusals) = (0, 0);
    let mut steps = 0;
    while steps < scene.steps {
        request.tag.step = steps;
        let reply = teacher.reply(&request)?;
        steps += 1;
        tokens += reply.usage.total();
        let id = reply.message.tool_calls.first().map(|call| call.id.clone());
        request.messages.push(reply.message);
        let conversation = Conversation::read(&request);
        let kinds = plan.classify(&conversation.turns);
        let kind = kinds.last().copied().unwrap_or(TurnKind::Malformed);
        if kind == TurnKind::Finish {
            match &scene.self_check {
                Some(text) if refusals == 0 && !looked(&plan, &kinds) => {
                    refusals += 1;
                    push_result(&mut request, id.as_deref(), text.clone());
                    continue;
                }
                _ => break,
            }
        }
        let call = conversation.turns.last().and_then(|turn| turn.call.clone());
        let text = observation(scene, task, &plan, kind, call.as_ref(), seed);
        push_result(&mut request, id.as_deref(), text);
    }
    let kinds = plan.classify(&Conversation::read(&request).turns);
    Ok((solved(&plan, &kinds), steps, tokens))
}

fn opening(scene: &Scene, task: &Task, seed: u64) -> ChatRequest {
    ChatRequest {
        messages: vec![Message::text(Role::System, scene.system.clone()), Message::text(Role::User, task.body().instruction.clone())],
        tools: scene.tools.clone(),
        tool_choice: ToolChoice::Auto,
        sampling: SamplingParams { temperature: scene.temperature, top_p: 1.0, max_output_tokens: 2048, seed: None },
        tag: RequestTag { task: Some(task.id()), seed, step: 0 },
    }
}

fn push_result(request: &mut ChatRequest, id: Option<&str>, text: String) {
    request.messages.push(id.map_or_else(|| Message::text(Role::User, text.clone()), |id| Message::tool_result(id, text.clone())));
}

/// Whether there was a look after the last change.
fn looked(plan: &Plan<'_>, kinds: &[TurnKind]) -> bool {
    let role = |index: usize| plan.acts[index].role;
    let change = |kind: &TurnKind| matches!(kind, TurnKind::Act(i, _) if matches!(role(*i), ActRole::Work | ActRole::Requirement));
    let start = kinds.iter().rposition(change).map_or(0, |place| place + 1);
    kinds[start..].iter().any(|kind| match kind {
        TurnKind::Look | TurnKind::LookAround => true,
        TurnKind::Act(index, _) => role(*index) == ActRole::Verify,
        _ => false,
    })
}

/// Whether every act that changes something was played right in the end.
fn solved(plan: &Plan<'_>, kinds: &[TurnKind]) -> bool {
    (0..plan.acts.len()).filter(|index| matches!(plan.acts[*index].role, ActRole::Work | ActRole::Requirement)).all(|index| {
        let last = kinds.iter().rev().find_map(|kind| match kind {
            TurnKind::Act(act, attempt) if *act == index => Some(*attempt),
            _ => None,
        });
        last == Some(Attempt::Right)
    })
}

fn observation(scene: &Scene, task: &Task, plan: &Plan<'_>, kind: TurnKind, call: Option<&Call>, seed: u64) -> String {
    let offered = |call: &Call| scene.tools.iter().any(|tool| tool.name == call.name);
    match kind {
        TurnKind::Act(_, Attempt::Broken) => "bash: syntax error\n[exit 2]".to_owned(),
        TurnKind::Act(index, _) if plan.acts[index].role == ActRole::Inspect => match shown_file(task, &plan.acts[index].call) {
            Some(text) => cut(scene, text),
            None => {
                let facts: Vec<&str> = plan.acts[index..].iter().filter_map(|act| act.evidence.as_deref()).collect();
                cut(scene, &long_output(scene, &facts, &SeedTree::new(seed).child("output").index(index as u64)))
            }
        },
        TurnKind::Narrow(index) => plan.acts[index].evidence.clone().unwrap_or_default(),
        TurnKind::Gui if call.is_some_and(offered) => "no display: this environment is a terminal".to_owned(),
        TurnKind::Malformed => "error: the call does not parse".to_owned(),
        _ => match call {
            Some(call) if !offered(call) => format!("error: there is no tool `{}`", call.name),
            _ => "ok".to_owned(),
        },
    }
}

/// The file that a look shows, if that is all it does.
fn shown_file<'a>(task: &'a Task, call: &ActCall) -> Option<&'a str> {
    let path = match call {
        ActCall::Read { path } => path.as_str(),
        ActCall::Run { command } => command.strip_prefix("cat ")?.trim(),
        _ => return None,
    };
    match task.body().files.get(path) {
        Some(Entry::File { text, .. }) => Some(text),
        _ => None,
    }
}

/// An output of `scene.output_bytes` bytes with the facts at random places.
fn long_output(scene: &Scene, facts: &[&str], node: &SeedTree) -> String {
    let lines = scene.output_bytes / 40;
    let mut output: Vec<String> = (0..lines).map(|line| format!("{line:06} . . . . . . . . . . . . . . . .")).collect();
    for (index, fact) in facts.iter().enumerate() {
        let at = usize::try_from(node.index(index as u64).value() % (output.len().max(1) as u64)).unwrap_or(0);
        output.insert(at.min(output.len()), (*fact).to_owned());
    }
    output.join("\n")
}

/// What the harness lets through.
fn cut(scene: &Scene, text: &str) -> String {
    if text.len() <= scene.head_bytes + scene.tail_bytes {
        return text.to_owned();
    }
    let head: String = text.chars().take(scene.head_bytes).collect();
    let tail: String = text.chars().skip(text.chars().count().saturating_sub(scene.tail_bytes)).collect();
    format!("{head}\n[... {} bytes left out ...]\n{tail}", text.len().saturating_sub(head.len() + tail.len()))
}
