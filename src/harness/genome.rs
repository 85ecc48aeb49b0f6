//! The genome as a value: nine sections of genes. Every gene stands exactly two levels deep (`section.key`), so that diff,
//! crossover and perturbation treat all of them alike.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::GenePath;
use crate::base::{content_hash, define_id};

define_id!(
    /// Hash of a genome's canonical bytes.
    HarnessId
);

/// A valid harness: a genome and its id. Immutable; a change makes another harness.
#[derive(Debug, Clone, PartialEq)]
pub struct Harness {
    id: HarnessId,
    genome: Genome,
}

/// A genome that breaks a rule.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum HarnessError {
    /// A gene is outside its domain.
    #[error("gene `{path}`: {reason}")]
    Gene {
        /// The gene.
        path: GenePath,
        /// What is wrong with its value and which values are right.
        reason: String,
    },
    /// The genes together do not form a genome.
    #[error("the genes do not form a harness: {0}")]
    Shape(String),
}

impl Harness {
    /// Normalises and checks `genome` and names it.
    ///
    /// # Errors
    /// As [`Genome::validate`].
    pub fn new(genome: Genome) -> Result<Self, HarnessError> {
        let genome = genome.normalised();
        genome.validate()?;
        let hash = content_hash("harness/1", &genome).map_err(|error| HarnessError::Shape(error.to_string()))?;
        Ok(Self { id: HarnessId::from_hash(&hash), genome })
    }

    /// The id.
    #[must_use]
    pub const fn id(&self) -> HarnessId {
        self.id
    }

    /// The genes.
    #[must_use]
    pub const fn genome(&self) -> &Genome {
        &self.genome
    }
}

/// All genes of a harness.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Genome {
    /// Prompt blocks, minijinja.
    pub prompt: PromptBlocks,
    /// The tools the model is offered, by name.
    pub tools: BTreeMap<ToolName, ToolGene>,
    /// What the model gets to see of the world.
    pub observation: Observation,
    /// What of the past stays in the context.
    pub memory: Memory,
    /// What happens after a failure, per fault class.
    pub retry: RetryTable,
    /// Bounds of one episode.
    pub limits: Limits,
    /// How tokens are drawn.
    pub sampling: Sampling,
    /// How calls are written and how an episode ends.
    pub protocol: Protocol,
    /// Helper scripts put on `PATH` in the sandbox: file name to text.
    pub provisioning: BTreeMap<String, String>,
}

impl Genome {
    /// The default genome with `tools` offered. With at least a tool that can act and `finish` it is valid; without tools,
    /// as [`Genome::default`] has it, none is.
    #[must_use]
    pub fn offering(tools: impl IntoIterator<Item = ToolName>) -> Self {
        Self { tools: tools.into_iter().map(|tool| (tool, ToolGene::default())).collect(), ..Self::default() }
    }

    /// Every gene with its value, by address.
    ///
    /// # Errors
    /// Never for a genome that was built from valid parts; the error is that of JSON.
    pub fn genes(&self) -> Result<BTreeMap<GenePath, Value>, HarnessError> {
        let value = serde_json::to_value(self).map_err(|error| HarnessError::Shape(error.to_string()))?;
        let mut genes = BTreeMap::new();
        if let Value::Object(sections) = value {
            for (section, keys) in sections {
                if let Value::Object(keys) = keys {
                    for (key, value) in keys {
                        genes.insert(GenePath::new(&section, &key), value);
                    }
                }
            }
        }
        Ok(genes)
    }

    /// The genome made of `genes`; a gene that is missing has its default (a tool or script that is missing is absent).
    ///
    /// # Errors
    /// When an address is unknown or a value has the wrong type; the error names the gene.
    pub fn from_genes(genes: &BTreeMap<GenePath, Value>) -> Result<Self, HarnessError> {
        for (path, value) in genes {
            super::domain::check_gene(path, value)?;
        }
        let mut sections = serde_json::Map::new();
        for (path, value) in genes {
            let section = sections.entry(path.section().to_owned()).or_insert_with(|| Value::Object(serde_json::Map::new()));
            if let Value::Object(keys) = section {
                keys.insert(path.key().to_owned(), value.clone());
            }
        }
        serde_json::from_value(Value::Object(sections)).map_err(|error| HarnessError::Shape(error.to_string()))
    }
}

/// The system prompt, in the order in which the blocks are rendered. An empty block is absent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PromptBlocks {
    /// Who the agent is.
    #[schemars(length(max = 8192))]
    pub role: String,
    /// Which channel (shell, files, GUI) to use for what.
    #[schemars(length(max = 8192))]
    pub routing: String,
    /// How to plan, and how to keep track of what was asked.
    #[schemars(length(max = 8192))]
    pub planning: String,
    /// How to verify before finishing.
    #[schemars(length(max = 8192))]
    pub verification: String,
    /// What to do after an error.
    #[schemars(length(max = 8192))]
    pub recovery: String,
    /// The form of the answer.
    #[schemars(length(max = 8192))]
    pub output_form: String,
}

/// The tools that exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolName {
    /// Runs a command in the persistent shell.
    Bash,
    /// Runs a Python program.
    Python,
    /// Reads a file, whole or in part.
    ReadFile,
    /// Writes a whole file.
    WriteFile,
    /// Replaces one text in a file.
    EditFile,
    /// Lists a folder.
    ListFiles,
    /// Searches files for a pattern.
    Search,
    /// Writes to the scratchpad.
    Notes,
    /// Takes a picture of the desktop.
    Screenshot,
    /// Mouse and keyboard on the desktop.
    ComputerUse,
    /// Ends the episode.
    Finish,
}

impl ToolName {
    /// All tools, in the order in which they are offered.
    pub const ALL: [Self; 11] = [
        Self::Bash,
        Self::Python,
        Self::ReadFile,
        Self::WriteFile,
        Self::EditFile,
        Self::ListFiles,
        Self::Search,
        Self::Notes,
        Self::Screenshot,
        Self::ComputerUse,
        Self::Finish,
    ];

    /// The name the model sees.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Bash => "bash",
            Self::Python => "python",
            Self::ReadFile => "read_file",
            Self::WriteFile => "write_file",
            Self::EditFile => "edit_file",
            Self::ListFiles => "list_files",
            Self::Search => "search",
            Self::Notes => "notes",
            Self::Screenshot => "screenshot",
            Self::ComputerUse => "computer_use",
            Self::Finish => "finish",
        }
    }

    /// The tool the model calls `name`, if there is one.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tool| tool.as_str() == name)
    }
}

/// One tool as it is offered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ToolGene {
    /// What the model is told about it; empty takes the tool's own description.
    #[schemars(length(max = 2048))]
    pub description: String,
    /// Seconds one call may take, 1 to 600.
    #[schemars(range(min = 1, max = 600))]
    pub timeout_seconds: u32,
}

impl Default for ToolGene {
    fn default() -> Self {
        Self { description: String::new(), timeout_seconds: 30 }
    }
}

/// What the model gets to see of the world.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Observation {
    /// Bytes kept from the start of a tool's output, 0 to 65536.
    #[schemars(range(min = 0, max = 65536))]
    pub head_bytes: u32,
    /// Bytes kept from its end, 0 to 65536.
    #[schemars(range(min = 0, max = 65536))]
    pub tail_bytes: u32,
    /// How many past observations stay whole, 1 to 200; older ones are replaced by a line.
    #[schemars(range(min = 1, max = 200))]
    pub keep: u32,
    /// The accessibility tree of the desktop.
    pub accessibility_tree: AccessibilityTree,
    /// Pictures of the desktop.
    pub screenshot: Screenshot,
}

impl Default for Observation {
    fn default() -> Self {
        Self { head_bytes: 2000, tail_bytes: 1000, keep: 20, accessibility_tree: AccessibilityTree::Off, screenshot: Screenshot::Off }
    }
}

/// How much of the accessibility tree is shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AccessibilityTree {
    /// Nothing.
    #[default]
    Off,
    /// Named, visible elements only.
    Compact,
    /// Everything.
    Full,
}

/// When a picture is shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Screenshot {
    /// Only when a tool asks for it.
    #[default]
    Off,
    /// After each action on the desktop.
    OnAction,
    /// With every observation.
    Always,
}

/// What of the past stays in the context.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Memory {
    /// Tokens (estimated) of conversation kept before compaction, 1000 to 1000000.
    #[schemars(range(min = 1000, max = 1000000))]
    pub window_tokens: u32,
    /// What happens beyond the window.
    pub compaction: Compaction,
    /// Notes that survive compaction.
    pub scratchpad: Scratchpad,
}

impl Default for Memory {
    fn default() -> Self {
        Self { window_tokens: 32_000, compaction: Compaction::DropOldest, scratchpad: Scratchpad::Off }
    }
}

/// What happens when the conversation outgrows its window.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Compaction {
    /// Nothing: the episode ends when the model's own limit is reached.
    None,
    /// The oldest exchanges are dropped.
    #[default]
    DropOldest,
    /// The model summarises the oldest exchanges.
    Summarise,
}

/// The scratchpad that the `notes` tool writes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Scratchpad {
    /// None.
    #[default]
    Off,
    /// Shown at the end of the system prompt.
    On,
}

/// What happens after a failure: per fault class an ordered list of rules. The first rule is used until its attempts are
/// spent, then the next; after the last the failure stands.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RetryTable {
    /// The endpoint failed in a way that may pass: 429, 5xx, a stall, a closed connection.
    #[schemars(length(max = 4))]
    pub provider_transient: Vec<RetryRule>,
    /// The reply had no call that could be parsed, or named a tool that is not offered.
    #[schemars(length(max = 4))]
    pub malformed_reply: Vec<RetryRule>,
    /// A tool ran and failed.
    #[schemars(length(max = 4))]
    pub tool_error: Vec<RetryRule>,
    /// The agent's own check before finishing failed or was missing.
    #[schemars(length(max = 4))]
    pub failed_self_check: Vec<RetryRule>,
}

/// One rule of the retry table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RetryRule {
    /// How many times it applies in a row, 1 to 10.
    #[schemars(range(min = 1, max = 10))]
    pub attempts: u32,
    /// How the delay grows.
    pub backoff: Backoff,
    /// First delay in milliseconds, 0 to 60000.
    #[schemars(range(min = 0, max = 60000))]
    pub delay_ms: u32,
    /// Longest delay in milliseconds, at least `delay_ms`, at most 600000.
    #[schemars(range(min = 0, max = 600000))]
    pub cap_ms: u32,
    /// Share of the delay drawn at random, 0 to 1.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub jitter: f64,
    /// What the model is told; empty sends the bare error.
    #[schemars(length(max = 1024))]
    pub repair: String,
}

impl Default for RetryRule {
    fn default() -> Self {
        Self { attempts: 2, backoff: Backoff::Exponential, delay_ms: 500, cap_ms: 20_000, jitter: 0.5, repair: String::new() }
    }
}

/// How the delay of a retry grows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Backoff {
    /// The same delay each time.
    Fixed,
    /// Twice the last delay.
    #[default]
    Exponential,
}

/// Bounds of one episode. The episode enforces them, not the model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Model replies, 1 to 200.
    #[schemars(range(min = 1, max = 200))]
    pub steps: u32,
    /// Prompt and completion tokens, 1000 to 5000000.
    #[schemars(range(min = 1000, max = 5000000))]
    pub tokens: u64,
    /// Wall time in seconds, 1 to 7200.
    #[schemars(range(min = 1, max = 7200))]
    pub seconds: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self { steps: 20, tokens: 200_000, seconds: 300 }
    }
}

/// How tokens are drawn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Sampling {
    /// 0 to 2.
    #[schemars(range(min = 0.0, max = 2.0))]
    pub temperature: f64,
    /// 0.01 to 1.
    #[schemars(range(min = 0.01, max = 1.0))]
    pub top_p: f64,
    /// Tokens of one reply, 64 to 65536.
    #[schemars(range(min = 64, max = 65536))]
    pub max_output_tokens: u32,
}

impl Default for Sampling {
    fn default() -> Self {
        Self { temperature: 0.7, top_p: 1.0, max_output_tokens: 2048 }
    }
}

/// How calls are written and how an episode ends.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Protocol {
    /// How the model writes tool calls.
    pub calls: CallForm,
    /// What ends an episode.
    pub finish: FinishRule,
    /// Whether the harness asks for a check before it accepts the end.
    pub self_check: SelfCheck,
}

/// How the model writes tool calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CallForm {
    /// The endpoint's own tool-call interface.
    #[default]
    Native,
    /// `<tool_call>{"name": ..., "arguments": ...}</tool_call>` in the text; the schemas stand in the system prompt.
    Text,
}

/// What ends an episode.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FinishRule {
    /// A call of `finish`, which must be offered; a reply without a call is malformed.
    #[default]
    Tool,
    /// A reply without a tool call, or a call of `finish`.
    NoCall,
}

/// Whether the harness asks for a check before it accepts the end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SelfCheck {
    /// No.
    #[default]
    Off,
    /// The first attempt to finish without a look at the result since the last change is answered with the repair text of
    /// `retry.failed_self_check`.
    Required,
}
