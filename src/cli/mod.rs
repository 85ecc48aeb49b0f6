//! The command line: the only place that prints, reads the environment, or exits. One file per command.

mod comparison_table;
mod failure;
mod models;
mod output;
mod reporters;
mod run;
mod session;
mod tasks_check;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

pub use failure::{Failure, FailureKind};

use self::output::{Output, Verbosity};

const EXIT_CODES: &str = "Exit codes: 0 done; 1 other failure; 2 wrong command line, experiment, template or task; 3 a check did not pass; \
4 the machine cannot do it (sandbox, endpoint, key); 5 run folder (missing, in use, damaged, disk full); 130 stopped by the user, `resume` goes on.";

/// Evolves the harness of a teacher agent, keeps specialised elites per job type, and exports what they did.
#[derive(Debug, Parser)]
#[command(name = "harness-evo", version, after_help = EXIT_CODES)]
struct Cli {
    /// Say nothing but results and errors.
    #[arg(long, short, global = true)]
    quiet: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(run::RunArgs),
    Resume(run::ResumeArgs),
}

/// Parses the command line, runs the command, and gives the exit code.
#[must_use]
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are results; everything else is wrong usage.
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { FailureKind::Input.code() } else { 0 });
        }
    };
    let output = Output::new(if cli.quiet { Verbosity::Quiet } else { Verbosity::Normal });
    match execute(&cli.command, &output) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            output.error(&failure.render());
            failure.exit_code()
        }
    }
}

fn execute(command: &Command, output: &Output) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::from_error(FailureKind::Other, &error))?;
    runtime.block_on(async {
        match command {
            Command::Run(args) => run::run(args, output).await,
            Command::Resume(args) => run::resume(args, output).await,
        }
    })
}
