//! Opens the models an experiment names. The only place that reads keys from the environment.

use std::path::Path;
use std::sync::Arc;

use super::failure::{Failure, FailureKind};
use crate::config::Teacher;
use crate::model::rehearsal::{RehearsalParameters, RehearsalTeacher};
use crate::model::{EndpointConfig, LanguageModel, NoBlobs, Recorder, Replayer, Secret, connect, reachability};
use crate::task::Task;

/// A model ready to play.
#[derive(Clone)]
pub(super) struct OpenedModel {
    pub(super) model: Arc<dyn LanguageModel>,
}

/// Opens `teacher` for `tasks` (which only the rehearsal looks at). An endpoint is asked whether it is there, so that a wrong
/// address or key is found before anything is spent.
pub(super) async fn open(teacher: &Teacher, tasks: &[Arc<Task>]) -> Result<OpenedModel, Failure> {
    let model: Arc<dyn LanguageModel> = match teacher {
        Teacher::Rehearsal { parameters } => {
            Arc::new(RehearsalTeacher::new(rehearsal_parameters(parameters.as_deref())?, tasks.iter().cloned()))
        }
        Teacher::Endpoint { endpoint, recording } => open_endpoint(endpoint, recording.as_deref()).await?,
        Teacher::Replay { recording } => {
            let replayer = Replayer::open(Path::new(recording)).map_err(|error| Failure::from_error(FailureKind::Input, &error))?;
            Arc::new(replayer)
        }
    };
    Ok(OpenedModel { model })
}

fn rehearsal_parameters(text: Option<&str>) -> Result<RehearsalParameters, Failure> {
    let parsed = match text {
        Some(text) => RehearsalParameters::parse(text, "rehearsal parameters"),
        None => RehearsalParameters::builtin(),
    };
    parsed.map_err(|error| Failure::from_error(FailureKind::Input, &error))
}

async fn open_endpoint(endpoint: &EndpointConfig, recording: Option<&str>) -> Result<Arc<dyn LanguageModel>, Failure> {
    let environment = |error: &dyn std::error::Error| {
        Failure::from_error(FailureKind::Environment, error).hint("`harness-evo doctor EXPERIMENT` looks closer")
    };
    let key = key(endpoint)?;
    reachability(endpoint, key.as_ref()).await.map_err(|error| environment(&error))?;
    let model = connect(endpoint, key, Arc::new(NoBlobs)).map_err(|error| environment(&error))?;
    match recording {
        None => Ok(model),
        Some(path) => {
            let recorder = Recorder::open(model, Path::new(path)).map_err(|error| Failure::from_error(FailureKind::Input, &error))?;
            Ok(Arc::new(recorder))
        }
    }
}

/// The key of an endpoint, from the variable its configuration names.
pub(super) fn key(endpoint: &EndpointConfig) -> Result<Option<Secret>, Failure> {
    let Some(variable) = &endpoint.api_key_env else { return Ok(None) };
    let missing = || {
        Failure::new(
            FailureKind::Environment,
            format!("the endpoint {} needs a key, but the variable {variable} is not set", endpoint.base_url),
        )
        .hint(format!("export {variable}=... ; the key is never stored or logged"))
    };
    let text = std::env::var(variable).map_err(|_| missing())?;
    Secret::new(&text)
        .map(Some)
        .map_err(|error| Failure::from_error(FailureKind::Environment, &error).hint(format!("look at the variable {variable}")))
}
