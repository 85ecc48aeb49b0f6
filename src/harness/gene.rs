//! Addresses of genes.

use serde::{Deserialize, Serialize};

/// The address of one gene: `section.key`, for example `prompt.routing`, `tools.bash`, `limits.steps`. The key of a helper
/// script may itself hold dots (`provisioning.count.py`).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct GenePath {
    text: String,
    dot: usize,
}

/// A text that is not a gene's address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not the address of a gene: expected `section.key`")]
pub struct GenePathError(pub String);

impl GenePath {
    /// The address of `key` in `section`.
    #[must_use]
    pub fn new(section: &str, key: &str) -> Self {
        Self { text: format!("{section}.{key}"), dot: section.len() }
    }

    /// The part before the first dot.
    #[must_use]
    pub fn section(&self) -> &str {
        &self.text[..self.dot]
    }

    /// The part after the first dot.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.text[self.dot + 1..]
    }

    /// The whole address.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl std::fmt::Display for GenePath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::str::FromStr for GenePath {
    type Err = GenePathError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once('.') {
            Some((section, key)) if !section.is_empty() && !key.is_empty() => Ok(Self::new(section, key)),
            _ => Err(GenePathError(text.to_owned())),
        }
    }
}

impl TryFrom<String> for GenePath {
    type Error = GenePathError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<GenePath> for String {
    fn from(path: GenePath) -> Self {
        path.text
    }
}
