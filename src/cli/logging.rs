//! Logs, on stderr.

use tracing_subscriber::EnvFilter;

use super::failure::{Failure, FailureKind};
use super::output::Output;

/// The variable that says what is logged, for example `debug` or `harness_evo::sandbox=trace`.
pub(super) const VARIABLE: &str = "HARNESS_EVO_LOG";

/// Starts logging as [`VARIABLE`] says: warnings by default, nothing when quiet.
pub(super) fn start(output: &Output) -> Result<(), Failure> {
    let wanted = std::env::var(VARIABLE).ok().filter(|text| !text.trim().is_empty());
    let text = wanted.as_deref().unwrap_or(if output.is_quiet() { "off" } else { "warn" });
    let filter = EnvFilter::try_new(text).map_err(|error| {
        Failure::from_error(FailureKind::Input, &error)
            .hint(format!("{VARIABLE} holds a filter, for example `debug` or `harness_evo=trace`"))
    })?;
    let subscriber = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(false);
    // Whoever uses this as a library may have a subscriber already.
    let _ = subscriber.try_init();
    Ok(())
}
