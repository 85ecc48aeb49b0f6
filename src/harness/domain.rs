//! The domain of each gene as data: what validation, the template reader and the perturbation all read.

use serde_json::Value;

use super::nearest::suggestion;
use super::{GenePath, HarnessError, ToolName};

/// The values one gene may have.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Domain {
    /// Text. A prompt block is also a template over [`super::PROMPT_VARIABLES`].
    Text {
        /// Longest text in bytes.
        max_bytes: usize,
    },
    /// A whole number.
    Integer {
        /// Smallest value.
        min: u64,
        /// Largest value.
        max: u64,
        /// How it is moved.
        scale: Scale,
    },
    /// A number.
    Real {
        /// Smallest value.
        min: f64,
        /// Largest value.
        max: f64,
    },
    /// One of a few names.
    Choice(&'static [&'static str]),
    /// A tool as it is offered; absent when it is not.
    Tool,
    /// An ordered list of retry rules.
    RetryRules,
    /// The text of a helper script; absent when there is none of that name.
    Script,
}

/// How a number is moved: by steps of equal size, or of equal ratio.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// Equal size.
    Linear,
    /// Equal ratio.
    Log,
}

/// Longest prompt block in bytes.
pub const MAX_BLOCK_BYTES: usize = 8192;
/// Longest prompt, all blocks together, in bytes.
pub const MAX_PROMPT_BYTES: usize = 24_576;
/// Most rules for one fault class.
pub const MAX_RETRY_RULES: usize = 4;
/// Longest helper script in bytes.
pub const MAX_SCRIPT_BYTES: usize = 16_384;
/// Most helper scripts.
pub const MAX_SCRIPTS: usize = 16;

const TEXT: Domain = Domain::Text { max_bytes: MAX_BLOCK_BYTES };
const SWITCH: Domain = Domain::Choice(&["off", "on"]);

const fn linear(min: u64, max: u64) -> Domain {
    Domain::Integer { min, max, scale: Scale::Linear }
}

const fn log(min: u64, max: u64) -> Domain {
    Domain::Integer { min, max, scale: Scale::Log }
}

/// The genes that always exist, in the order of the genome.
const FIXED: [(&str, &str, Domain); 27] = [
    ("prompt", "role", TEXT),
    ("prompt", "routing", TEXT),
    ("prompt", "planning", TEXT),
    ("prompt", "verification", TEXT),
    ("prompt", "recovery", TEXT),
    ("prompt", "output_form", TEXT),
    ("observation", "head_bytes", log(0, 65_536)),
    ("observation", "tail_bytes", log(0, 65_536)),
    ("observation", "keep", log(1, 200)),
    ("observation", "accessibility_tree", Domain::Choice(&["off", "compact", "full"])),
    ("observation", "screenshot", Domain::Choice(&["off", "on_action", "always"])),
    ("memory", "window_tokens", log(1000, 1_000_000)),
    ("memory", "compaction", Domain::Choice(&["none", "drop_oldest", "summarise"])),
    ("memory", "scratchpad", SWITCH),
    ("retry", "provider_transient", Domain::RetryRules),
    ("retry", "malformed_reply", Domain::RetryRules),
    ("retry", "tool_error", Domain::RetryRules),
    ("retry", "failed_self_check", Domain::RetryRules),
    ("limits", "steps", log(1, 200)),
    ("limits", "tokens", log(1000, 5_000_000)),
    ("limits", "seconds", log(1, 7200)),
    ("sampling", "temperature", Domain::Real { min: 0.0, max: 2.0 }),
    ("sampling", "top_p", Domain::Real { min: 0.01, max: 1.0 }),
    ("sampling", "max_output_tokens", log(64, 65_536)),
    ("protocol", "calls", Domain::Choice(&["native", "text"])),
    ("protocol", "finish", Domain::Choice(&["tool", "no_call"])),
    ("protocol", "self_check", Domain::Choice(&["off", "required"])),
];

const TOOL_PARTS: [(&str, Domain); 2] = [("description", Domain::Text { max_bytes: 2048 }), ("timeout_seconds", log(1, 600))];

const RULE_PARTS: [(&str, Domain); 6] = [
    ("attempts", linear(1, 10)),
    ("backoff", Domain::Choice(&["fixed", "exponential"])),
    ("delay_ms", log(0, 60_000)),
    ("cap_ms", log(0, 600_000)),
    ("jitter", Domain::Real { min: 0.0, max: 1.0 }),
    ("repair", Domain::Text { max_bytes: 1024 }),
];

/// The sections of a genome, in order.
pub(crate) const SECTIONS: [&str; 9] =
    ["prompt", "tools", "observation", "memory", "retry", "limits", "sampling", "protocol", "provisioning"];

/// The domain of the gene at `path`; `None` if there is no such gene.
#[must_use]
pub fn domain(path: &GenePath) -> Option<Domain> {
    match path.section() {
        "tools" => ToolName::from_name(path.key()).map(|_| Domain::Tool),
        "provisioning" => is_script_name(path.key()).then_some(Domain::Script),
        section => fixed().find(|(name, key, _)| *name == section && *key == path.key()).map(|(_, _, domain)| domain),
    }
}

/// The addresses of all genes a genome can have, scripts aside, in the order of the genome.
#[must_use]
pub fn gene_paths() -> Vec<GenePath> {
    SECTIONS.iter().flat_map(|section| keys(section).into_iter().map(move |key| GenePath::new(section, key))).collect()
}

/// The keys of `section`; none for an unknown section and for `provisioning`, whose keys are free.
pub(crate) fn keys(section: &str) -> Vec<&'static str> {
    if section == "tools" {
        return ToolName::ALL.into_iter().map(ToolName::as_str).collect();
    }
    fixed().filter(|(name, _, _)| *name == section).map(|(_, key, _)| key).collect()
}

fn fixed() -> impl Iterator<Item = (&'static str, &'static str, Domain)> {
    FIXED.into_iter()
}

/// A plain file name that cannot be taken for an option, a hidden file, or one of the programs the tools themselves start.
pub(crate) fn is_script_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    (1..=64).contains(&name.len())
        && name.bytes().all(plain)
        && !name.starts_with(['.', '-'])
        && !matches!(name, "bash" | "sh" | "env" | "python" | "python3")
}

/// Checks that there is a gene at `path` and that `value` lies in its domain.
pub(crate) fn check_gene(path: &GenePath, value: &Value) -> Result<(), HarnessError> {
    let fail = |reason: String| Err(HarnessError::Gene { path: path.clone(), reason });
    match domain(path) {
        Some(domain) => domain.check(value).or_else(fail),
        None => fail(unknown_gene(path)),
    }
}

/// Why there is no gene at `path`, with the nearest that exists.
pub(crate) fn unknown_gene(path: &GenePath) -> String {
    let (section, key) = (path.section(), path.key());
    match section {
        "provisioning" => format!(
            "`{key}` is not a name for a helper script: use 1 to 64 letters, digits, `.`, `_` and `-`, not starting with `.` or `-`, \
             and not the name of a shell or of Python"
        ),
        _ if !SECTIONS.contains(&section) => format!("there is no section `{section}`{}", suggestion(section, SECTIONS)),
        _ => format!("there is no gene `{key}` in `{section}`{}", hint(key, &keys(section))),
    }
}

/// The nearest of `known`, else all of them.
pub(crate) fn hint(word: &str, known: &[&'static str]) -> String {
    let near = suggestion(word, known.iter().copied());
    if near.is_empty() { format!("; known are {}", quoted(known)) } else { near }
}

fn quoted(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

impl std::fmt::Display for Domain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Text { max_bytes } => write!(f, "text of at most {max_bytes} bytes"),
            Self::Integer { min, max, .. } => write!(f, "a whole number from {min} to {max}"),
            Self::Real { min, max } => write!(f, "a number from {min} to {max}"),
            Self::Choice(names) => write!(f, "one of {}", quoted(names)),
            Self::Tool => f.write_str("a table with any of `description`, `timeout_seconds`"),
            Self::RetryRules => write!(f, "a list of at most {MAX_RETRY_RULES} retry rules"),
            Self::Script => write!(f, "the text of a script that starts with `#!`, at most {MAX_SCRIPT_BYTES} bytes"),
        }
    }
}

impl Domain {
    /// The parts of a value that is a table (of each element for a list of tables).
    pub(crate) const fn parts(&self) -> &'static [(&'static str, Self)] {
        match self {
            Self::Tool => &TOOL_PARTS,
            Self::RetryRules => &RULE_PARTS,
            _ => &[],
        }
    }

    /// Checks one value.
    ///
    /// # Errors
    /// What is wrong with it and what is right.
    pub fn check(&self, value: &Value) -> Result<(), String> {
        let wrong = || Err(format!("{} is not {self}", shown(value)));
        match self {
            Self::Text { max_bytes } => match value.as_str() {
                Some(text) => check_text(text, *max_bytes),
                None => wrong(),
            },
            Self::Integer { min, max, .. } => match value.as_u64() {
                Some(number) if (*min..=*max).contains(&number) => Ok(()),
                _ => wrong(),
            },
            Self::Real { min, max } => match value.as_f64() {
                Some(number) if (*min..=*max).contains(&number) => Ok(()),
                _ => wrong(),
            },
            Self::Choice(names) => match value.as_str() {
                Some(name) if names.contains(&name) => Ok(()),
                Some(name) => Err(format!("`{name}` is not {self}{}", suggestion(name, names.iter().copied()))),
                None => wrong(),
            },
            Self::Tool => self.check_parts(value),
            Self::RetryRules => match value.as_array() {
                Some(rules) if rules.len() <= MAX_RETRY_RULES => rules.iter().enumerate().try_for_each(|(index, rule)| {
                    self.check_parts(rule).and_then(|()| check_cap(rule)).map_err(|reason| format!("rule {}: {reason}", index + 1))
                }),
                Some(rules) => Err(format!("{} rules are too many: at most {MAX_RETRY_RULES}", rules.len())),
                None => wrong(),
            },
            Self::Script => match value.as_str() {
                Some(text) if text.starts_with("#!") => check_text(text, MAX_SCRIPT_BYTES),
                _ => wrong(),
            },
        }
    }

    fn check_parts(&self, value: &Value) -> Result<(), String> {
        let Some(table) = value.as_object() else { return Err(format!("{} is not a table", shown(value))) };
        for (key, part) in table {
            let known = self.parts();
            let Some((_, domain)) = known.iter().find(|(name, _)| name == key) else {
                let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
                return Err(format!("there is no key `{key}`{}", hint(key, &names)));
            };
            domain.check(part).map_err(|reason| format!("`{key}`: {reason}"))?;
        }
        Ok(())
    }
}

fn check_text(text: &str, max_bytes: usize) -> Result<(), String> {
    if text.len() > max_bytes {
        return Err(format!("{} bytes are too many: at most {max_bytes}", text.len()));
    }
    match text.chars().find(|c| c.is_control() && !matches!(c, '\n' | '\t')) {
        Some(c) => Err(format!("holds the control character U+{:04X}; only line breaks and tabs may stand in a text", u32::from(c))),
        None => Ok(()),
    }
}

/// A rule's cap must not lie below its first delay. Parts that are not given have their defaults.
fn check_cap(rule: &Value) -> Result<(), String> {
    let default = super::RetryRule::default();
    let part = |key: &str, default: u32| rule.get(key).and_then(Value::as_u64).unwrap_or_else(|| u64::from(default));
    let (delay, cap) = (part("delay_ms", default.delay_ms), part("cap_ms", default.cap_ms));
    if cap < delay { Err(format!("`cap_ms` {cap} is below `delay_ms` {delay}; it must be at least as long")) } else { Ok(()) }
}

/// A value for an error: short.
fn shown(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(40) {
        Some((end, _)) => format!("`{}...`", &text[..end]),
        None => format!("`{text}`"),
    }
}
