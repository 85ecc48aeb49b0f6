//! What is learnt from: one episode, whoever kept it.

use std::collections::BTreeMap;

use crate::harness::{CallForm, HarnessId};
use crate::task::{JobType, SkillName, TaskId};
use crate::trajectory::{Message, Role, ToolSchema, Trajectory};

/// One verified episode of an elite.
#[derive(Debug, Clone, PartialEq)]
pub struct EpisodeText {
    /// The task.
    pub task: TaskId,
    /// The kind of work.
    pub job_type: JobType,
    /// The skill, where whoever kept it says so.
    pub skill: Option<SkillName>,
    /// The harness that played it.
    pub harness: HarnessId,
    /// Everything that was said, in order.
    pub messages: Vec<Message>,
    /// The tools as requests offered them through the endpoint; none where calls are written as text.
    pub tools: Vec<ToolSchema>,
    /// What the model was sent before each reply.
    pub contexts: Contexts,
    /// Replies whose call came to nothing, by their place among the messages.
    pub failures: BTreeMap<usize, FailedReply>,
}

/// What became of a reply's call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailedReply {
    /// The tool did not take it.
    Refused,
    /// It ran and failed.
    Failed,
}

/// What the model was sent before each reply.
#[derive(Debug, Clone, PartialEq)]
pub enum Contexts {
    /// Always all messages before it: the harness edits nothing.
    AppendOnly,
    /// This, per reply that may be learnt.
    Steps(Vec<StepContext>),
}

/// One reply and its request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepContext {
    /// The reply's place among the messages.
    pub reply: usize,
    /// The messages of the request, or why they are not known.
    pub sent: Result<Vec<Message>, String>,
}

impl EpisodeText {
    /// An episode whose harness edits nothing of the past and has calls written in the form `calls`: where they are text, the prompt
    /// holds the tools and requests offer none.
    #[must_use]
    pub fn of(trajectory: &Trajectory, job_type: JobType, skill: SkillName, calls: CallForm) -> Self {
        Self {
            task: trajectory.task,
            job_type,
            skill: Some(skill),
            harness: trajectory.harness,
            messages: trajectory.messages.clone(),
            tools: if calls == CallForm::Native { trajectory.tools.clone() } else { Vec::new() },
            contexts: Contexts::AppendOnly,
            failures: BTreeMap::new(),
        }
    }

    /// The same with known requests.
    #[must_use]
    pub fn with_steps(self, steps: Vec<StepContext>) -> Self {
        Self { contexts: Contexts::Steps(steps), ..self }
    }

    /// Every reply with its request, in order.
    pub(super) fn steps(&self) -> Vec<StepContext> {
        match &self.contexts {
            Contexts::Steps(steps) => steps.clone(),
            Contexts::AppendOnly => {
                let replies = self.messages.iter().enumerate().filter(|(_, message)| message.role == Role::Assistant);
                replies.map(|(reply, _)| StepContext { reply, sent: Ok(self.messages[..reply].to_vec()) }).collect()
            }
        }
    }
}
