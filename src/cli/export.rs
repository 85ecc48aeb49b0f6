//! `export`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::failure::{Failure, FailureKind};
use super::output::Output;
use super::{results_file, run_folder};
use crate::export::openai_jsonl;

/// Write the verified episodes of elites as training data. Solved episodes only, never of sealed tasks; the same run gives the same bytes.
#[derive(Debug, Args)]
pub(super) struct ExportArgs {
    /// The folder of the run.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// The format.
    #[arg(long, value_enum)]
    format: ExportFormat,
    /// The file to write, whole or not at all; `-` is standard output.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

/// The formats there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ExportFormat {
    /// One JSON object a line: `messages`, `tools`, `metadata`, as OpenAI and TRL read tool-use data.
    OpenaiJsonl,
}

/// Writes the verified episodes of elites.
pub(super) fn export(args: &ExportArgs, output: &Output) -> Result<(), Failure> {
    let run = run_folder::open(&args.folder, output)?;
    let rows = run.reader.export_rows().map_err(run.failed())?;
    let (bytes, summary) = match args.format {
        ExportFormat::OpenaiJsonl => openai_jsonl(&rows).map_err(|error| Failure::from_error(FailureKind::Other, &error))?,
    };
    results_file::write(Some(&args.out), &bytes, output)?;
    output.note(&format!(
        "{} episodes written to {}; left out: {} duplicates, {} not solved, {} of sealed tasks",
        summary.written,
        args.out.display(),
        summary.duplicates,
        summary.unsolved,
        summary.sealed
    ));
    if summary.written == 0 {
        output.note("there is nothing to train on yet: `harness-evo elites DIR` shows which niches are confirmed");
    }
    Ok(())
}
