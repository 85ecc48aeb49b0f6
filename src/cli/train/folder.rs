//! A training folder: whose it is, and what every way of training leaves in it.

use std::path::{Path, PathBuf};

use crate::base::write_whole;
use crate::cli::failure::{Failure, FailureKind};
use crate::student::Student;
use crate::student::lora::save_adapter;
use crate::student::training::{EndReason, TrainingError};

/// The training file, and its copy in a folder that is free for it or its already.
pub(super) struct Claim {
    copy: PathBuf,
    text: String,
}

impl Claim {
    /// On `folder` for the training file `config`, whose copy there is called `name`. Nothing is written.
    pub(super) fn of(folder: &Path, config: &Path, name: &str) -> Result<Self, Failure> {
        let text =
            std::fs::read_to_string(config).map_err(|error| Failure::new(FailureKind::Input, format!("{}: {error}", config.display())))?;
        let copy = folder.join(name);
        match std::fs::read_to_string(&copy) {
            Ok(old) if old == text => Ok(Self { copy, text }),
            Ok(_) => Err(Failure::new(FailureKind::Input, format!("{} was made by another training file", folder.display()))
                .hint(format!("`diff {} {}` shows what changed", copy.display(), config.display()))
                .hint("name another folder with --out")),
            Err(_) if folder.read_dir().is_ok_and(|mut entries| entries.next().is_some()) => {
                let message = format!("{} is not empty and not of this stage of training", folder.display());
                Err(Failure::new(FailureKind::Input, message).hint("name another folder with --out"))
            }
            Err(_) => Ok(Self { copy, text }),
        }
    }

    /// Makes the folder, with the copy in it.
    pub(super) fn take(&self) -> Result<(), Failure> {
        let folder = self.copy.parent().unwrap_or_else(|| Path::new("."));
        std::fs::create_dir_all(folder)
            .and_then(|()| write_whole(&self.copy, self.text.as_bytes()))
            .map_err(|error| Failure::new(FailureKind::Run, format!("{} cannot be written: {error}", folder.display())))
    }
}

/// Writes `student` into `folder`: all of it, and its adapters, if it has some, beside it under the name of their base.
pub(super) fn write_student(student: &Student, adapters_of: Option<&str>, folder: &Path) -> Result<(), Failure> {
    let failed = |error: &dyn std::error::Error| Failure::from_error(FailureKind::Run, error);
    student.save(&folder.join("student")).map_err(|error| failed(&error))?;
    match adapters_of {
        Some(base) => save_adapter(&folder.join("adapter"), &student.network, base).map_err(|error| failed(&error)),
        None => Ok(()),
    }
}

/// What a person knows the student at `path` by.
pub(super) fn base_name(path: &Path) -> String {
    path.file_name().map_or_else(|| "base".to_owned(), |name| name.to_string_lossy().into_owned())
}

/// That the user stopped training, if so it ended.
pub(super) fn stopped(reason: EndReason, steps: u64) -> Result<(), Failure> {
    if reason == EndReason::Stopped {
        let failure = Failure::new(FailureKind::Interrupted, format!("stopped after step {steps}; the state is saved"));
        return Err(failure.hint("the same command goes on"));
    }
    Ok(())
}

/// Why training in `folder` could not go on.
pub(super) fn failed(error: &TrainingError, folder: &Path) -> Failure {
    let kind = match error {
        TrainingError::TooFewRows { .. } | TrainingError::Data(_) | TrainingError::Diverged { .. } => FailureKind::Input,
        _ => FailureKind::Run,
    };
    let failure = Failure::from_error(kind, error);
    match error {
        TrainingError::Io { .. } | TrainingError::Weights(_) => {
            failure.hint(format!("free some space, then the same command goes on from the newest checkpoint in {}", folder.display()))
        }
        _ => failure,
    }
}
