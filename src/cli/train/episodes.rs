//! The episodes a student learns from, out of runs and exports.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::Path;

use crate::base::SeedTree;
use crate::cli::failure::{Failure, FailureKind};
use crate::cli::output::Output;
use crate::cli::run_folder;
use crate::environment::{CallFailure, told_failure};
use crate::episode::sent_steps;
use crate::student::data::{EpisodeText, FailedReply, StepContext, episode_of_openai_line, shuffle_instructions};
use crate::student::recipe::{Instructions, SftRecipe, Source};
use crate::task::SkillName;
use crate::trajectory::{Message, Role};

/// Reads those that `recipe` selects.
pub(super) fn gather(recipe: &SftRecipe, output: &Output) -> Result<Vec<EpisodeText>, Failure> {
    let mut episodes = Vec::new();
    for source in &recipe.sources {
        match source {
            Source::Run(folder) => episodes.extend(of_run(folder, output)?),
            Source::Export(file) => episodes.extend(of_export(file)?),
        }
    }
    for episode in &mut episodes {
        episode.failures = failures(&episode.messages);
    }
    if episodes.is_empty() {
        return Err(Failure::new(FailureKind::Input, "the sources hold no solved episode of an elite")
            .hint("`harness-evo elites DIR` shows which niches of a run are confirmed"));
    }
    leave_out(&mut episodes, &recipe.selection.without_skills)?;
    if recipe.selection.instructions == Instructions::Shuffled {
        shuffle_instructions(&mut episodes, &SeedTree::new(recipe.seed).child("instructions"));
        output.note("every episode has the instruction of another task: this is a control, not a training of use");
    }
    Ok(episodes)
}

fn leave_out(episodes: &mut Vec<EpisodeText>, skills: &BTreeSet<SkillName>) -> Result<(), Failure> {
    if skills.is_empty() {
        return Ok(());
    }
    if episodes.iter().any(|episode| episode.skill.is_none()) {
        let failure = Failure::new(FailureKind::Input, "`data.without_skills`: an export holds episodes whose skill is not told");
        return Err(failure.hint("write it again with `harness-evo export`, or name the run under `data.runs`"));
    }
    let held: BTreeSet<&SkillName> = episodes.iter().filter_map(|episode| episode.skill.as_ref()).collect();
    if let Some(unknown) = skills.iter().find(|skill| !held.contains(skill)) {
        let names: Vec<String> = held.iter().map(ToString::to_string).collect();
        let failure = Failure::new(FailureKind::Input, format!("`data.without_skills`: no episode has the skill `{unknown}`"));
        return Err(failure.hint(format!("there are {}", names.join(", "))));
    }
    episodes.retain(|episode| episode.skill.as_ref().is_none_or(|skill| !skills.contains(skill)));
    if episodes.is_empty() {
        return Err(Failure::new(FailureKind::Input, "`data.without_skills` leaves no episode to learn from"));
    }
    Ok(())
}

/// With the requests as the harness's memory left them.
fn of_run(folder: &Path, output: &Output) -> Result<Vec<EpisodeText>, Failure> {
    let run = run_folder::open(folder, output)?;
    if !run.banner().is_empty() {
        output.note(&format!("{}: {}", folder.display(), run.banner().trim_end()));
    }
    let rows = run.reader.export_rows().map_err(run.failed())?;
    let evaluated = run.reader.evaluated().map_err(run.failed())?;
    let mut episodes = Vec::with_capacity(rows.len());
    for row in rows {
        let genome = match &evaluated {
            Some(evaluated) => evaluated.genome.clone(),
            None => run.reader.harness(&row.trajectory.harness.to_string()).map_err(run.failed())?.genome,
        };
        let steps = sent_steps(&genome, &row.trajectory.messages);
        let steps = steps.into_iter().map(|step| StepContext { reply: step.reply, sent: step.sent.map_err(|lost| lost.to_string()) });
        let text = EpisodeText::of(&row.trajectory, row.job_type, row.skill, genome.protocol.calls);
        episodes.push(text.with_steps(steps.collect()));
    }
    Ok(episodes)
}

/// Replies of which a call came to nothing. Of calls written as text nothing is told.
fn failures(messages: &[Message]) -> BTreeMap<usize, FailedReply> {
    let mut failures = BTreeMap::new();
    let mut reply = 0;
    for (place, message) in messages.iter().enumerate() {
        match message.role {
            Role::Assistant => reply = place,
            Role::Tool => match told_failure(&message.joined_text()) {
                Some(CallFailure::Refused) => drop(failures.insert(reply, FailedReply::Refused)),
                Some(CallFailure::Failed) => drop(failures.entry(reply).or_insert(FailedReply::Failed)),
                None => {}
            },
            Role::System | Role::User => {}
        }
    }
    failures
}

fn of_export(path: &Path) -> Result<Vec<EpisodeText>, Failure> {
    let unreadable = |error: std::io::Error| Failure::new(FailureKind::Input, format!("{}: {error}", path.display()));
    let file = File::open(path).map_err(unreadable)?;
    let mut episodes = Vec::new();
    for (number, line) in BufReader::new(file).lines().enumerate() {
        let line = line.map_err(unreadable)?;
        if !line.trim().is_empty() {
            let episode = episode_of_openai_line(&line, number + 1);
            episodes.push(episode.map_err(|error| Failure::new(FailureKind::Input, format!("{}: {error}", path.display())))?);
        }
    }
    Ok(episodes)
}
