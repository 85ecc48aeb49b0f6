//! The block library: texts that operators exchange for a prompt block or a repair text, and helper scripts. Ours is
//! `harness_templates/blocks.toml`, embedded; a user's own templates extend it.

use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use super::domain::is_script_name;
use super::spec::embedded;
use super::{Domain, GenePath, Genome, RetryRule, RetryTable, Template, domain};

/// Texts by what they are for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BlockLibrary {
    /// Texts of prompt blocks.
    #[serde(rename = "block")]
    blocks: Vec<BlockText>,
    /// Repair texts of retry rules.
    #[serde(rename = "repair")]
    repairs: Vec<RepairText>,
    /// Helper scripts.
    #[serde(rename = "script")]
    scripts: Vec<HelperScript>,
}

/// One text for a prompt block.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BlockText {
    /// The block, for example `prompt.routing`.
    pub gene: GenePath,
    /// Its name within the block.
    pub name: String,
    /// What it is meant to do, in one line.
    pub summary: String,
    /// The text, a template.
    pub text: String,
}

/// One repair text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RepairText {
    /// The fault class it is for, for example `retry.tool_error`.
    pub gene: GenePath,
    /// Its name within the class.
    pub name: String,
    /// What it is meant to do, in one line.
    pub summary: String,
    /// The text.
    pub text: String,
}

/// One helper script.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HelperScript {
    /// File name.
    pub name: String,
    /// What it does, in one line.
    pub summary: String,
    /// Its text.
    pub text: String,
}

/// A file that is not a block library.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BlockLibraryError {
    /// It is not the TOML that is expected.
    #[error("not a block library: {0}")]
    Format(String),
    /// An entry is not valid.
    #[error("entry `{name}` for `{gene}`: {reason}")]
    Entry {
        /// What it is for.
        gene: String,
        /// Its name.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
}

/// The embedded library. It is empty if the embedded file is not valid, which a test rules out.
#[must_use]
pub fn block_library() -> &'static BlockLibrary {
    static LIBRARY: LazyLock<BlockLibrary> =
        LazyLock::new(|| embedded("blocks.toml").and_then(|text| BlockLibrary::parse(text).ok()).unwrap_or_default());
    &LIBRARY
}

impl BlockLibrary {
    /// Reads a library from TOML: `[[block]]`, `[[repair]]`, `[[script]]`.
    ///
    /// # Errors
    /// When a key is unknown or missing, or an entry is not valid for its gene.
    pub fn parse(text: &str) -> Result<Self, BlockLibraryError> {
        let mut library: Self = toml::from_str(text).map_err(|error| BlockLibraryError::Format(error.to_string()))?;
        for entry in &mut library.blocks {
            entry.text = entry.text.trim().to_owned();
            check_block(entry)?;
        }
        for entry in &mut library.repairs {
            entry.text = entry.text.trim().to_owned();
            let rules = serde_json::json!([RetryRule { repair: entry.text.clone(), ..RetryRule::default() }]);
            let checked = match domain(&entry.gene) {
                Some(domain @ Domain::RetryRules) => domain.check(&rules),
                _ => Err("is not for a fault class: `gene` must be one of the section `retry`".to_owned()),
            };
            checked.map_err(|reason| failed(entry.gene.as_str(), &entry.name, reason))?;
        }
        for entry in &library.scripts {
            let checked = if is_script_name(&entry.name) {
                Domain::Script.check(&serde_json::Value::String(entry.text.clone()))
            } else {
                Err("is not a plain file name".to_owned())
            };
            checked.map_err(|reason| failed("provisioning", &entry.name, reason))?;
        }
        Ok(library)
    }

    /// This library with the prompt blocks, repair texts and scripts of `templates` added; texts it has already are not repeated.
    #[must_use]
    pub fn extended(&self, templates: &[Template]) -> Self {
        let mut library = self.clone();
        for template in templates {
            library.add_blocks(template);
            library.add_repairs(template);
            for (name, text) in &template.harness.genome().provisioning {
                if !library.scripts.iter().any(|script| script.name == *name) {
                    let summary = format!("from the template {}", template.name);
                    library.scripts.push(HelperScript { name: name.clone(), summary, text: text.clone() });
                }
            }
        }
        library
    }

    /// All texts of prompt blocks.
    #[must_use]
    pub fn blocks(&self) -> &[BlockText] {
        &self.blocks
    }

    /// All helper scripts.
    #[must_use]
    pub fn scripts(&self) -> &[HelperScript] {
        &self.scripts
    }

    /// The texts for the prompt block `gene`, in order.
    pub fn texts<'a>(&'a self, gene: &'a GenePath) -> impl Iterator<Item = &'a str> {
        self.blocks.iter().filter(move |entry| entry.gene == *gene).map(|entry| entry.text.as_str())
    }

    /// The repair texts for the fault class `class` (a key of the section `retry`), in order.
    pub fn repairs<'a>(&'a self, class: &'a str) -> impl Iterator<Item = &'a str> {
        self.repairs.iter().filter(move |entry| entry.gene.key() == class).map(|entry| entry.text.as_str())
    }

    fn add_blocks(&mut self, template: &Template) {
        for (key, text) in template.harness.genome().prompt.blocks() {
            let gene = GenePath::new("prompt", key);
            if !text.is_empty() && !self.texts(&gene).any(|known| known == text) {
                let summary = format!("from the template {}", template.name);
                self.blocks.push(BlockText { gene, name: template.name.clone(), summary, text: text.to_owned() });
            }
        }
    }

    fn add_repairs(&mut self, template: &Template) {
        for (class, rules) in classes(&template.harness.genome().retry) {
            for rule in rules {
                if !rule.repair.is_empty() && !self.repairs(class).any(|known| known == rule.repair) {
                    let summary = format!("from the template {}", template.name);
                    let gene = GenePath::new("retry", class);
                    self.repairs.push(RepairText { gene, name: template.name.clone(), summary, text: rule.repair.clone() });
                }
            }
        }
    }
}

const fn classes(table: &RetryTable) -> [(&'static str, &Vec<RetryRule>); 4] {
    [
        ("provider_transient", &table.provider_transient),
        ("malformed_reply", &table.malformed_reply),
        ("tool_error", &table.tool_error),
        ("failed_self_check", &table.failed_self_check),
    ]
}

/// A block must be valid in any harness, so it is tried with an empty one.
fn check_block(entry: &BlockText) -> Result<(), BlockLibraryError> {
    let fail = |reason: String| failed(entry.gene.as_str(), &entry.name, reason);
    let Some(domain @ Domain::Text { .. }) = domain(&entry.gene) else {
        return Err(fail("is not for a prompt block: `gene` must be one of the section `prompt`".to_owned()));
    };
    domain.check(&serde_json::Value::String(entry.text.clone())).map_err(fail)?;
    super::render::check_template(&entry.text, &Genome::default()).map_err(fail)
}

fn failed(gene: &str, name: &str, reason: String) -> BlockLibraryError {
    BlockLibraryError::Entry { gene: gene.to_owned(), name: name.to_owned(), reason }
}
