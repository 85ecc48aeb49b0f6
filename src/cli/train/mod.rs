//! `train`: one file per way of training, and what they share.

mod folder;
mod metrics;
mod picture;

mod curves;
mod episodes;
mod supervised;
mod supervised_display;

mod reinforcement;
mod reinforcement_display;
mod self_play;

use clap::{Args, Subcommand};

use super::failure::Failure;
use super::output::Output;
use crate::student::data::Learns;

const GOES_ON: &str = "\
Ctrl-C saves the state; the same command goes on from the newest checkpoint. So it does after a kill; steps taken since the checkpoint
then stand in metrics.jsonl twice, with a line `started` between.";

/// Train the student.
#[derive(Debug, Args)]
pub(super) struct TrainArgs {
    #[command(subcommand)]
    stage: Stage,
}

#[derive(Debug, Subcommand)]
enum Stage {
    /// Learn every token of the solved episodes, instructions and observations too: how the world of the tasks looks. Its student is
    /// what `sft` then starts from, as `student.path`.
    #[command(after_help = supervised_help())]
    Midtrain(supervised::StageArgs),
    /// Supervised fine-tuning on the replies of the solved episodes: those of a run's elites, or of an evaluation kept with `--out`.
    #[command(after_help = supervised_help())]
    Sft(supervised::StageArgs),
    /// Reinforcement learning on episodes that the student plays itself, in sandboxes, on tasks of the search split.
    #[command(after_help = reinforcement_help())]
    Rl(reinforcement::RlArgs),
}

fn supervised_help() -> String {
    format!("{}\n{GOES_ON}", supervised::FOLDER)
}

fn reinforcement_help() -> String {
    format!("{}\n{GOES_ON}", reinforcement::FOLDER)
}

/// Trains the student.
pub(super) fn train(args: &TrainArgs, output: &Output) -> Result<(), Failure> {
    match &args.stage {
        Stage::Midtrain(args) => supervised::fit(args, Learns::Everything, output),
        Stage::Sft(args) => supervised::fit(args, Learns::Replies, output),
        Stage::Rl(args) => reinforcement::reinforcement(args, output),
    }
}
