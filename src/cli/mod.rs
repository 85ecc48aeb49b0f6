//! The command line: the only place that prints, reads the environment, or exits. One file per command.

mod failure;
mod figures;
mod logging;
mod output;
mod results_file;
mod run_folder;

mod comparison_table;
mod models;
mod reporters;
mod session;
mod tasks_check;

mod check;
mod doctor;
mod elites;
mod episode;
mod eval;
mod export;
mod harness;
mod init;
mod lineage;
mod run;
mod status;
#[cfg(feature = "student")]
mod student;
#[cfg(feature = "student")]
mod student_files;
#[cfg(feature = "student")]
mod student_plan;
mod tasks;

#[cfg(feature = "student")]
mod train;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

pub use failure::{Failure, FailureKind};

use self::output::{Output, Verbosity};

const EXIT_CODES: &str = "\
Exit codes:
  0    done
  1    other failure (a file that cannot be written, an internal error)
  2    wrong command line, experiment, template, task or id
  3    tasks were proven and some are refused
  4    the machine cannot do it: no sandbox, no endpoint, no key
  5    the run folder: missing, in use, damaged, of another version, disk full
  130  stopped by the user; `resume` goes on

Results go to standard output, everything else to standard error. Ids may be shortened to any unique beginning.
Commands that read a run folder work while another process writes it.

Environment:
  HARNESS_EVO_LOG  what is logged to standard error, for example `debug` or `harness_evo::sandbox=trace`; warnings by default
  NO_COLOR         plain lines instead of a live display (so does a standard error that is no terminal)
  API keys are read from the variables that experiments name, and never stored or logged.

Start with `harness-evo init DIR`.";

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
    Init(init::InitArgs),
    Check(check::CheckArgs),
    Run(run::RunArgs),
    Resume(run::ResumeArgs),
    Status(status::StatusArgs),
    Elites(elites::ElitesArgs),
    Lineage(lineage::LineageArgs),
    Episode(episode::EpisodeArgs),
    Eval(eval::EvalArgs),
    Export(export::ExportArgs),
    #[cfg(feature = "student")]
    Student(student::StudentArgs),
    Tasks(tasks::TasksArgs),
    Harness(harness::HarnessArgs),
    Doctor(doctor::DoctorArgs),
    #[cfg(feature = "student")]
    Train(train::TrainArgs),
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
    match logging::start(&output).and_then(|()| execute(&cli.command, &output)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            output.error(&failure.render());
            failure.exit_code()
        }
    }
}

fn execute(command: &Command, output: &Output) -> Result<(), Failure> {
    match command {
        Command::Init(args) => init::init(args, output),
        Command::Check(args) => check::check(args, output),
        Command::Run(args) => block_on(run::run(args, output)),
        Command::Resume(args) => block_on(run::resume(args, output)),
        Command::Status(args) => status::status(args, output),
        Command::Elites(args) => elites::elites(args, output),
        Command::Lineage(args) => lineage::lineage(args, output),
        Command::Episode(args) => episode::episode(args, output),
        Command::Eval(args) => block_on(eval::eval(args, output)),
        Command::Export(args) => export::export(args, output),
        #[cfg(feature = "student")]
        Command::Student(args) => student::student(args, output),
        Command::Tasks(args) => block_on(tasks::tasks(args, output)),
        Command::Harness(args) => harness::harness(args, output),
        Command::Doctor(args) => block_on(doctor::doctor(args, output)),
        #[cfg(feature = "student")]
        Command::Train(args) => train::train(args, output),
    }
}

fn block_on(command: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::from_error(FailureKind::Other, &error))?;
    runtime.block_on(command)
}
