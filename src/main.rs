//! The `harness-evo` program.

use std::process::ExitCode;

fn main() -> ExitCode {
    harness_evo::cli::main()
}
