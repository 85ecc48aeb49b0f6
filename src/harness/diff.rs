//! Gene-wise difference of two genomes.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{GenePath, Genome, HarnessError};

/// One gene that differs. `None` stands for a gene that is absent (a tool that is not offered).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GeneChange {
    /// Which gene.
    pub path: GenePath,
    /// Its value before.
    pub before: Option<Value>,
    /// Its value after.
    pub after: Option<Value>,
}

/// The genes in which `after` differs from `before`, by address.
///
/// # Errors
/// As [`Genome::genes`].
pub fn diff(before: &Genome, after: &Genome) -> Result<Vec<GeneChange>, HarnessError> {
    let old = before.genes()?;
    let new = after.genes()?;
    let mut paths: Vec<&GenePath> = old.keys().chain(new.keys()).collect();
    paths.sort_unstable();
    paths.dedup();
    Ok(paths
        .into_iter()
        .filter(|path| old.get(path) != new.get(path))
        .map(|path| GeneChange { path: path.clone(), before: old.get(path).cloned(), after: new.get(path).cloned() })
        .collect())
}
