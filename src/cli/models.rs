//! Opens the models an experiment names. The only place that reads keys from the environment.

#[cfg(feature = "student")]
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;

use super::failure::{Failure, FailureKind};
#[cfg(feature = "student")]
use super::student_plan;
use crate::config::Teacher;
use crate::model::rehearsal::{RehearsalParameters, RehearsalTeacher};
use crate::model::{EndpointConfig, LanguageModel, NoBlobs, Recorder, Replayer, Secret, connect, reachability};
#[cfg(feature = "student")]
use crate::student::memory::{Numbers, generation_memory};
#[cfg(feature = "student")]
use crate::student::{Student, StudentModel, generation::DecodingLimits, network::BaseWeights};
use crate::task::Task;

/// Requests that a local teacher answers at a time; more wait.
const AT_ONCE: usize = 8;

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
        Teacher::Local { model } => return student(Path::new(model), AT_ONCE),
        Teacher::Replay { recording } => {
            let replayer = Replayer::open(Path::new(recording)).map_err(|error| Failure::from_error(FailureKind::Input, &error))?;
            Arc::new(replayer)
        }
    };
    Ok(OpenedModel { model })
}

/// Opens the model that a command line names: `rehearsal` for `tasks`, or `student:DIR`, which answers `at_once` requests at a time.
pub(super) fn named(text: &str, tasks: &[Arc<Task>], at_once: usize) -> Result<OpenedModel, Failure> {
    if text == "rehearsal" {
        let model = RehearsalTeacher::new(rehearsal_parameters(None)?, tasks.iter().cloned());
        return Ok(OpenedModel { model: Arc::new(model) });
    }
    match text.strip_prefix("student:") {
        Some(path) if !path.is_empty() => student(Path::new(path), at_once),
        _ => {
            let failure = Failure::new(FailureKind::Input, format!("`{text}` names no model"));
            let meant = if Path::new(text).exists() { format!("did you mean `student:{text}`?") } else { similar(text) };
            Err(failure.hint(meant))
        }
    }
}

fn similar(text: &str) -> String {
    let word = text.split(':').next().unwrap_or_default();
    match ["rehearsal", "student:DIR"].into_iter().find(|name| strsim::jaro_winkler(name.trim_end_matches(":DIR"), word) > 0.85) {
        Some(name) => format!("did you mean `{name}`?"),
        None => "models are `student:DIR` and `rehearsal`".to_owned(),
    }
}

#[cfg(feature = "student")]
fn student(path: &Path, at_once: usize) -> Result<OpenedModel, Failure> {
    let student = load_student(path)?;
    let rows = NonZeroUsize::new(at_once).unwrap_or(NonZeroUsize::MIN);
    let limits = DecodingLimits { rows, ..DecodingLimits::default() };
    // The name enters trajectories: nothing of this machine's folders.
    let name = path.file_name().map_or_else(|| "student".to_owned(), |name| name.to_string_lossy().into_owned());
    let model = StudentModel::start(Arc::new(student), &name, Vec::new(), limits)
        .map_err(|error| Failure::from_error(FailureKind::Environment, &error))?;
    Ok(OpenedModel { model: Arc::new(model) })
}

/// A student for generation: in half precision on a GPU where the program was built for one, else in single precision.
#[cfg(feature = "student")]
pub(super) fn load_student(path: &Path) -> Result<Student, Failure> {
    let device = candle_core::Device::cuda_if_available(0).map_err(|error| Failure::from_error(FailureKind::Environment, &error))?;
    let numbers = if device.is_cpu() { candle_core::DType::F32 } else { candle_core::DType::BF16 };
    if device.is_cpu()
        && let Some(config) = student_plan::shape(path)
    {
        student_plan::refuse_too_large(path, "generation with", generation_memory(&config, Numbers::Single, 0))?;
    }
    Student::load(path, BaseWeights::Frozen, numbers, &device).map_err(|error| Failure::from_error(FailureKind::Input, &error))
}

#[cfg(not(feature = "student"))]
fn student(_path: &Path, _at_once: usize) -> Result<OpenedModel, Failure> {
    Err(Failure::new(FailureKind::Input, "this program was built without the student").hint("build it with its default features"))
}

/// What keeps the weights at `path` from being played with here, as far as their shape and the memory say.
#[cfg(feature = "student")]
pub(super) fn local_problem(path: &Path) -> Option<Failure> {
    if path.is_file() {
        return None;
    }
    let fits = |config| student_plan::refuse_too_large(path, "generation with", generation_memory(&config, Numbers::Single, 0));
    student_plan::read(path).and_then(fits).err()
}

#[cfg(not(feature = "student"))]
pub(super) fn local_problem(path: &Path) -> Option<Failure> {
    student(path, AT_ONCE).err()
}

/// The highest price of a token of `teacher`, in millionths of a US dollar per million tokens. Nobody is asked.
pub(super) fn worst_price(teacher: &Teacher) -> Result<u64, Failure> {
    let prices = match teacher {
        Teacher::Rehearsal { parameters } => RehearsalTeacher::new(rehearsal_parameters(parameters.as_deref())?, []).price(),
        Teacher::Local { .. } => [0; 3],
        Teacher::Endpoint { endpoint, .. } => [endpoint.price.prompt, endpoint.price.cached, endpoint.price.completion],
        Teacher::Replay { recording } => {
            Replayer::open(Path::new(recording)).map_err(|error| Failure::from_error(FailureKind::Input, &error))?.price()
        }
    };
    Ok(prices.into_iter().max().unwrap_or(0))
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
