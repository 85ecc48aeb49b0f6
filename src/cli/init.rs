//! `init`.

use std::path::{Path, PathBuf};

use clap::Args;

use super::failure::{Failure, FailureKind};
use super::output::Output;
use crate::harness::{SpecError, builtin, embedded};

/// Make a folder with a commented experiment, the built-in templates and one own task, ready to run and to change. Overwrites nothing.
#[derive(Debug, Args)]
pub(super) struct InitArgs {
    /// The folder to make; it may exist, but must be empty.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

/// The files of an example, by path in its folder.
fn files() -> Result<Vec<(String, &'static str)>, SpecError> {
    let mut files = vec![
        ("README.md".to_owned(), include_str!("example/README.md")),
        ("experiment.toml".to_owned(), include_str!("example/experiment.toml")),
        ("tasks/newest-release.toml".to_owned(), include_str!("example/newest-release.toml")),
    ];
    let mut embed = |path: String, name: &str| {
        let text = embedded(name).ok_or_else(|| SpecError::Read { file: name.to_owned(), reason: "it is not embedded".to_owned() })?;
        files.push((path, text));
        Ok(())
    };
    embed("rehearsal.toml".to_owned(), "rehearsal.toml")?;
    embed("templates/harness.schema.json".to_owned(), "harness.schema.json")?;
    for template in builtin()? {
        let name = format!("{}.toml", template.name);
        embed(format!("templates/{name}"), &name)?;
    }
    Ok(files)
}

/// Makes an example.
pub(super) fn init(args: &InitArgs, output: &Output) -> Result<(), Failure> {
    let folder = &args.folder;
    let files = files().map_err(|error| Failure::from_error(FailureKind::Other, &error))?;
    refuse_used(folder)?;
    for (path, text) in &files {
        write(&folder.join(path), text)
            .map_err(|error| Failure::new(FailureKind::Other, format!("{} cannot be written: {error}", folder.join(path).display())))?;
    }
    output.data(&files.iter().map(|(path, _)| format!("{}\n", folder.join(path).display())).collect::<String>())?;
    output.note(&format!("next: harness-evo check {0}/experiment.toml; harness-evo run {0}/experiment.toml", folder.display()));
    Ok(())
}

fn refuse_used(folder: &Path) -> Result<(), Failure> {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => {
            return Err(
                Failure::new(FailureKind::Input, format!("{}: {error}", folder.display())).hint("name a folder that is new or empty")
            );
        }
    };
    if entries.count() > 0 {
        let message = format!("{} is not empty, and nothing is overwritten", folder.display());
        return Err(Failure::new(FailureKind::Input, message).hint("name a folder that is new or empty"));
    }
    Ok(())
}

fn write(path: &Path, text: &str) -> std::io::Result<()> {
    use std::io::Write as _;
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    // Refuses what somebody else has made meanwhile.
    std::fs::File::create_new(path)?.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_of_an_experiment_stands_in_the_example_with_its_default() {
        let text = include_str!("example/experiment.toml");
        // Uncommenting what is commented out as `#key = value` or `#[section]` must give an experiment that loads, too.
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files().unwrap() {
            write(&folder.path().join(path), text).unwrap();
        }
        let file = folder.path().join("experiment.toml");
        let plain = crate::config::load(&file, None).unwrap();
        let uncommented: String = text
            .lines()
            .map(|line| match line.strip_prefix('#') {
                Some(rest) if rest.starts_with(|c: char| c.is_ascii_lowercase() || c == '[') => format!("{rest}\n"),
                _ => format!("{line}\n"),
            })
            .collect();
        // The two kinds of endpoints and the budget in money are no defaults; they stand behind `#!`.
        std::fs::write(&file, uncommented).unwrap();
        let full = crate::config::load(&file, None).unwrap();
        assert_eq!(full, plain);
        for key in [
            "kind",
            "parameters",
            "recording",
            "base_url",
            "model",
            "api_key_env",
            "price",
            "timeouts",
            "output_limit",
            "past_reasoning",
            "omit",
            "extra_body",
            "templates",
            "builtin",
            "skills",
            "per_workflow",
            "folders",
            "check",
            "episodes",
            "tokens",
            "usd",
            "window",
            "stages",
            "confirm_episodes",
            "confirm_after",
            "confidence",
            "attempts",
            "max_steps",
            "steps",
            "backend",
            "processes",
            "memory_mib",
            "disk_mib",
            "output_bytes",
            "seconds",
            "baseline",
            "perturb",
            "toolswap",
            "block_swap",
            "rewrite",
            "crossover",
            "prune",
        ] {
            let stands = text.lines().any(|line| line.trim_start_matches(['#', '!', ' ']).starts_with(&format!("{key} =")));
            assert!(stands, "{key}");
        }
    }
}
