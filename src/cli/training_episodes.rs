//! The episodes a student learns from, out of runs and exports.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::Path;

use super::failure::{Failure, FailureKind};
use super::output::Output;
use super::run_folder;
use crate::episode::sent_steps;
use crate::student::data::{EpisodeText, StepContext, episode_of_openai_line};
use crate::student::recipe::Source;

/// Reads all of them.
pub(super) fn gather(sources: &[Source], output: &Output) -> Result<Vec<EpisodeText>, Failure> {
    let mut episodes = Vec::new();
    for source in sources {
        match source {
            Source::Run(folder) => episodes.extend(of_run(folder, output)?),
            Source::Export(file) => episodes.extend(of_export(file)?),
        }
    }
    if episodes.is_empty() {
        return Err(Failure::new(FailureKind::Input, "the sources hold no solved episode of an elite")
            .hint("`harness-evo elites DIR` shows which niches of a run are confirmed"));
    }
    Ok(episodes)
}

/// With the requests as the harness's memory left them.
fn of_run(folder: &Path, output: &Output) -> Result<Vec<EpisodeText>, Failure> {
    let run = run_folder::open(folder, output)?;
    if !run.banner().is_empty() {
        output.note(&format!("{}: {}", folder.display(), run.banner().trim_end()));
    }
    let rows = run.reader.export_rows().map_err(run.failed())?;
    let mut episodes = Vec::with_capacity(rows.len());
    for row in rows {
        let harness = run.reader.harness(&row.trajectory.harness.to_string()).map_err(run.failed())?;
        let steps = sent_steps(&harness.genome, &row.trajectory.messages);
        let steps = steps.into_iter().map(|step| StepContext { reply: step.reply, sent: step.sent.map_err(|lost| lost.to_string()) });
        episodes.push(EpisodeText::of(&row.trajectory, row.job_type, harness.genome.protocol.calls).with_steps(steps.collect()));
    }
    Ok(episodes)
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
