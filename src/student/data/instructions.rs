//! Instructions exchanged between episodes: the control that a gain must not survive.

use std::collections::BTreeMap;

use super::input::{Contexts, EpisodeText};
use crate::base::SeedTree;
use crate::task::{JobType, TaskId};
use crate::trajectory::{Message, Role};

/// Gives every episode the instruction of another task of its job type. Episodes of one task get the same one. A job type with one task
/// keeps its own. Which task gets which depends on the seed and the tasks, not on the order of the episodes.
pub fn shuffle_instructions(episodes: &mut [EpisodeText], seeds: &SeedTree) {
    let mut of_job_type: BTreeMap<JobType, BTreeMap<TaskId, Message>> = BTreeMap::new();
    for episode in episodes.iter() {
        if let Some(instruction) = instruction(&episode.messages) {
            of_job_type.entry(episode.job_type.clone()).or_default().entry(episode.task).or_insert_with(|| instruction.clone());
        }
    }
    let mut given: BTreeMap<TaskId, Message> = BTreeMap::new();
    for tasks in of_job_type.into_values() {
        let mut ring: Vec<(TaskId, Message)> = tasks.into_iter().collect();
        ring.sort_by_cached_key(|(task, _)| seeds.child(&task.to_string()).value());
        let next = ring.iter().cycle().skip(1);
        given.extend(ring.iter().zip(next).map(|((task, _), (_, instruction))| (*task, instruction.clone())));
    }
    for episode in episodes {
        let (Some(own), Some(other)) = (instruction(&episode.messages).cloned(), given.get(&episode.task)) else { continue };
        exchange(&mut episode.messages, &own, other);
        if let Contexts::Steps(steps) = &mut episode.contexts {
            steps.iter_mut().filter_map(|step| step.sent.as_mut().ok()).for_each(|sent| exchange(sent, &own, other));
        }
    }
}

fn instruction(messages: &[Message]) -> Option<&Message> {
    messages.iter().find(|message| message.role == Role::User)
}

/// In place of `own` where it opens the conversation.
fn exchange(messages: &mut [Message], own: &Message, other: &Message) {
    if let Some(first) = messages.iter_mut().find(|message| message.role == Role::User)
        && first == own
    {
        first.clone_from(other);
    }
}
