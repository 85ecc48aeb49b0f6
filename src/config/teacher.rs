//! Which model plays, as data.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::written::{TeacherKind, TeacherWritten};
use crate::model::rehearsal::RehearsalParameters;
use crate::model::{EndpointConfig, EndpointKind};

/// A model to be opened. Holds no secret.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Teacher {
    /// The built-in simulation.
    Rehearsal {
        /// Its parameter file; none is the built-in one.
        parameters: Option<String>,
    },
    /// A model behind an endpoint.
    Endpoint {
        /// Where and how.
        endpoint: Box<EndpointConfig>,
        /// The file its replies are recorded to.
        recording: Option<String>,
    },
    /// Weights on this machine.
    Local {
        /// A folder in Hugging Face's layout, or a GGUF file.
        model: String,
    },
    /// Recorded replies.
    Replay {
        /// The file.
        recording: String,
    },
}

impl Teacher {
    /// Checks what is written under `section`. Paths are relative to `folder`.
    pub(super) fn new(written: TeacherWritten, section: &str, folder: &Path) -> Result<Self, (String, String)> {
        let place = |key: &str| format!("{section}.{key}");
        let resolve = |path: &str| folder.join(path).display().to_string();
        if let Some(key) = misplaced(&written) {
            return Err((place(key), format!("does not belong to a teacher of this kind; {}", wanted(written.kind))));
        }
        match written.kind {
            TeacherKind::Rehearsal => {
                let Some(path) = written.parameters else { return Ok(Self::Rehearsal { parameters: None }) };
                let path = resolve(&path);
                let text =
                    std::fs::read_to_string(&path).map_err(|error| (place("parameters"), format!("{path} cannot be read: {error}")))?;
                RehearsalParameters::parse(&text, &path).map_err(|error| (place("parameters"), error.to_string()))?;
                Ok(Self::Rehearsal { parameters: Some(text) })
            }
            TeacherKind::Replay => match written.recording {
                Some(recording) => Ok(Self::Replay { recording: resolve(&recording) }),
                None => Err((place("recording"), "is missing: name the file of recorded replies".to_owned())),
            },
            TeacherKind::Local => match written.model {
                Some(model) => Ok(Self::Local { model: resolve(&model) }),
                None => Err((place("model"), "is missing: name a folder in Hugging Face's layout, or a .gguf file".to_owned())),
            },
            TeacherKind::Openai | TeacherKind::Anthropic => {
                let kind = if written.kind == TeacherKind::Openai { EndpointKind::OpenAi } else { EndpointKind::Anthropic };
                let missing = |key: &str, what: &str| (place(key), format!("is missing: {what}"));
                let endpoint = EndpointConfig {
                    kind,
                    base_url: written.base_url.ok_or_else(|| missing("base_url", "for example \"http://127.0.0.1:8000/v1\""))?,
                    model: written.model.ok_or_else(|| missing("model", "the model's name, as the endpoint lists it"))?,
                    api_key_env: written.api_key_env,
                    price: written.price.unwrap_or_default(),
                    timeouts: written.timeouts.unwrap_or_default(),
                    output_limit: written.output_limit.unwrap_or_default(),
                    past_reasoning: written.past_reasoning.unwrap_or_default(),
                    omit: written.omit.unwrap_or_default(),
                    extra_body: written.extra_body.unwrap_or_default(),
                };
                Ok(Self::Endpoint { endpoint: Box::new(endpoint), recording: written.recording.map(|path| resolve(&path)) })
            }
        }
    }
}

const fn wanted(kind: TeacherKind) -> &'static str {
    match kind {
        TeacherKind::Rehearsal => "`rehearsal` takes `parameters`",
        TeacherKind::Local => "`local` takes `model`",
        TeacherKind::Replay => "`replay` takes `recording`",
        TeacherKind::Openai | TeacherKind::Anthropic => {
            "endpoints take `base_url`, `model`, `api_key_env`, `price`, `timeouts`, `output_limit`, `past_reasoning`, `omit`, `extra_body`, `recording`"
        }
    }
}

/// The first key that says nothing for this kind: a key that is silently ignored is a trap.
fn misplaced(written: &TeacherWritten) -> Option<&'static str> {
    // The first is a local model's own.
    let endpoint_keys = [
        ("model", written.model.is_some()),
        ("base_url", written.base_url.is_some()),
        ("api_key_env", written.api_key_env.is_some()),
        ("price", written.price.is_some()),
        ("timeouts", written.timeouts.is_some()),
        ("output_limit", written.output_limit.is_some()),
        ("past_reasoning", written.past_reasoning.is_some()),
        ("omit", written.omit.is_some()),
        ("extra_body", written.extra_body.is_some()),
    ];
    let given = |keys: &[(&'static str, bool)]| keys.iter().find(|(_, given)| *given).map(|(key, _)| *key);
    let keys = match written.kind {
        TeacherKind::Openai | TeacherKind::Anthropic => &[],
        TeacherKind::Local => &endpoint_keys[1..],
        TeacherKind::Rehearsal | TeacherKind::Replay => &endpoint_keys[..],
    };
    let first = given(keys);
    first.or_else(|| (written.kind != TeacherKind::Rehearsal && written.parameters.is_some()).then_some("parameters")).or_else(|| {
        (matches!(written.kind, TeacherKind::Rehearsal | TeacherKind::Local) && written.recording.is_some()).then_some("recording")
    })
}
