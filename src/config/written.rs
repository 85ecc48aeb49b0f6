//! An experiment as it is written. Every key has a default but `name`; unknown keys are errors.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::TaskCheck;
use crate::archive::BinEdges;
use crate::evolution::{Baseline, OperatorName, SearchSettings};
use crate::model::{OutputLimitField, PastReasoning, Price, Timeouts};
use crate::sandbox::{BackendKind, Policy};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ExperimentWritten {
    pub(super) name: String,
    #[serde(default)]
    pub(super) description: String,
    #[serde(default)]
    pub(super) seed: u64,
    #[serde(default)]
    pub(super) teacher: TeacherWritten,
    pub(super) rewriter: Option<TeacherWritten>,
    #[serde(default)]
    pub(super) harness: HarnessWritten,
    #[serde(default)]
    pub(super) tasks: TasksWritten,
    #[serde(default)]
    pub(super) budget: BudgetWritten,
    #[serde(default)]
    pub(super) search: SearchWritten,
    #[serde(default)]
    pub(super) archive: BinEdges,
    #[serde(default)]
    pub(super) sandbox: SandboxWritten,
    #[serde(default)]
    pub(super) report: ReportWritten,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum TeacherKind {
    #[default]
    Rehearsal,
    Openai,
    Anthropic,
    Local,
    Replay,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TeacherWritten {
    #[serde(default)]
    pub(super) kind: TeacherKind,
    pub(super) parameters: Option<String>,
    pub(super) recording: Option<String>,
    pub(super) base_url: Option<String>,
    pub(super) model: Option<String>,
    pub(super) api_key_env: Option<String>,
    pub(super) price: Option<Price>,
    pub(super) timeouts: Option<Timeouts>,
    pub(super) output_limit: Option<OutputLimitField>,
    pub(super) past_reasoning: Option<PastReasoning>,
    pub(super) omit: Option<Vec<String>>,
    pub(super) extra_body: Option<serde_json::Map<String, serde_json::Value>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct HarnessWritten {
    pub(super) templates: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct TasksWritten {
    pub(super) builtin: Vec<String>,
    pub(super) skills: Vec<String>,
    pub(super) per_workflow: u64,
    pub(super) folders: Vec<String>,
    pub(super) check: TaskCheck,
}

impl Default for TasksWritten {
    fn default() -> Self {
        Self { builtin: Vec::new(), skills: Vec::new(), per_workflow: 20, folders: Vec::new(), check: TaskCheck::Own }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct BudgetWritten {
    pub(super) episodes: u64,
    pub(super) tokens: Option<u64>,
    pub(super) usd: Option<f64>,
}

impl Default for BudgetWritten {
    fn default() -> Self {
        Self { episodes: 3000, tokens: None, usd: None }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct SearchWritten {
    pub(super) window: u64,
    pub(super) stages: Vec<u32>,
    pub(super) confirm_episodes: u32,
    pub(super) confirm_after: u64,
    pub(super) confidence: f64,
    pub(super) attempts: u32,
    pub(super) max_steps: Option<u64>,
    pub(super) operators: BTreeMap<OperatorName, u32>,
}

impl Default for SearchWritten {
    fn default() -> Self {
        let settings = SearchSettings::default();
        Self {
            window: settings.window,
            stages: settings.stages,
            confirm_episodes: settings.confirm_episodes,
            confirm_after: settings.confirm_after,
            confidence: settings.confidence,
            attempts: 3,
            max_steps: None,
            operators: BTreeMap::new(),
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct SandboxWritten {
    pub(super) backend: Option<BackendKind>,
    pub(super) processes: u32,
    pub(super) memory_mib: u64,
    pub(super) disk_mib: u64,
    pub(super) output_bytes: usize,
    pub(super) seconds: u32,
}

impl Default for SandboxWritten {
    fn default() -> Self {
        let policy = Policy::default();
        Self {
            backend: None,
            processes: policy.processes,
            memory_mib: policy.memory_mib,
            disk_mib: policy.disk_mib,
            output_bytes: policy.output_bytes,
            seconds: policy.seconds,
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ReportWritten {
    pub(super) episodes: u32,
    pub(super) baseline: Baseline,
}

impl Default for ReportWritten {
    fn default() -> Self {
        Self { episodes: 60, baseline: Baseline::Matched }
    }
}
