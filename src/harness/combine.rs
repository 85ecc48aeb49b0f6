//! Other harnesses from given ones: assignment of genes, and combination of two parents gene by gene.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::validate::{ACTING, Rule};
use super::{GenePath, Genome, Harness, HarnessError, ToolName};

/// One of two parents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The first.
    First,
    /// The second.
    Second,
}

impl Harness {
    /// This harness with some genes set to other values. `None` takes a tool or a script away and gives any other gene its default.
    ///
    /// # Errors
    /// When an address is unknown, a value lies outside its domain, or the result breaks a rule between genes.
    pub fn with_genes(&self, assignments: impl IntoIterator<Item = (GenePath, Option<Value>)>) -> Result<Self, HarnessError> {
        let mut genes = self.genome().genes()?;
        for (path, value) in assignments {
            match value {
                Some(value) => {
                    genes.insert(path, value);
                }
                None if super::domain(&path).is_some() => {
                    genes.remove(&path);
                }
                None => return Err(HarnessError::Gene { reason: super::domain::unknown_gene(&path), path }),
            }
        }
        Self::new(Genome::from_genes(&genes)?)
    }
}

/// The child that has each gene from the parent that `pick` names. `pick` is asked once for every gene that either parent has, in the
/// order of the addresses; a tool or script that the picked parent lacks is absent in the child.
///
/// Where the picks break a rule between genes, the child is repaired with genes of the parents only:
/// - `protocol.finish = "tool"` without `finish`: the tool comes from the parent that offers it, the first if both do;
/// - the scratchpad without `notes`: likewise;
/// - no tool that can act: all such tools of the first parent;
/// - prompt blocks too long together: all blocks of the first parent;
/// - too many helper scripts: all scripts of the first parent.
///
/// # Errors
/// When the child is not a harness all the same, for example because a template of one parent does not render with the tools of
/// the other.
pub fn crossover(first: &Harness, second: &Harness, mut pick: impl FnMut(&GenePath) -> Side) -> Result<Harness, HarnessError> {
    let (a, b) = (first.genome().genes()?, second.genome().genes()?);
    let paths: BTreeSet<&GenePath> = a.keys().chain(b.keys()).collect();
    let mut genes = BTreeMap::new();
    for path in paths {
        let parent = match pick(path) {
            Side::First => &a,
            Side::Second => &b,
        };
        if let Some(value) = parent.get(path) {
            genes.insert(path.clone(), value.clone());
        }
    }
    for rule in Genome::from_genes(&genes)?.broken_rules() {
        repair(&mut genes, rule, &a, &b);
    }
    Harness::new(Genome::from_genes(&genes)?)
}

type Genes = BTreeMap<GenePath, Value>;

fn repair(genes: &mut Genes, rule: Rule, first: &Genes, second: &Genes) {
    match rule {
        Rule::FinishTool => offer(genes, ToolName::Finish, first, second),
        Rule::NotesTool => offer(genes, ToolName::Notes, first, second),
        Rule::ActingTool => {
            for tool in ACTING {
                let path = GenePath::new("tools", tool.as_str());
                if let Some(value) = first.get(&path) {
                    genes.insert(path, value.clone());
                }
            }
        }
        Rule::PromptSize => take_section(genes, "prompt", first),
        Rule::ScriptCount => take_section(genes, "provisioning", first),
    }
}

fn offer(genes: &mut Genes, tool: ToolName, first: &Genes, second: &Genes) {
    let path = GenePath::new("tools", tool.as_str());
    if let Some(value) = first.get(&path).or_else(|| second.get(&path)) {
        genes.insert(path, value.clone());
    }
}

fn take_section(genes: &mut Genes, section: &str, parent: &Genes) {
    genes.retain(|path, _| path.section() != section);
    genes.extend(parent.iter().filter(|(path, _)| path.section() == section).map(|(path, value)| (path.clone(), value.clone())));
}
