//! The lineage as a tree: every harness under its first parent.

use std::collections::HashMap;

use super::{Lineage, Node, Origin};
use crate::harness::HarnessId;

/// Where a harness stands among its siblings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// A seed.
    Root,
    /// A sibling follows.
    Inner,
    /// No sibling follows.
    Last,
}

/// One line of a drawn tree.
#[derive(Debug, Clone, Copy)]
pub struct TreeRow<'a> {
    /// The harness.
    pub node: &'a Node,
    /// Where it stands.
    pub place: Place,
    /// The parent under which it is not drawn, for a child of two.
    pub second_parent: Option<HarnessId>,
}

impl Lineage {
    /// All harnesses, each after its first parent, seeds and siblings in the order in which they were added.
    #[must_use]
    pub fn tree(&self) -> Vec<TreeRow<'_>> {
        let mut children: HashMap<HarnessId, Vec<&Node>> = HashMap::new();
        for node in self.nodes() {
            if let Some(parent) = self.parents(node.id).first() {
                children.entry(*parent).or_default().push(node);
            }
        }
        // A stack, not recursion: a lineage may be thousands of generations deep.
        let mut open: Vec<(&Node, Place)> = self.roots().map(|root| (root, Place::Root)).collect();
        open.reverse();
        let mut rows = Vec::with_capacity(self.len());
        while let Some((node, place)) = open.pop() {
            rows.push(TreeRow { node, place, second_parent: self.parents(node.id).get(1).copied() });
            let siblings = children.remove(&node.id).unwrap_or_default();
            let last = siblings.len().saturating_sub(1);
            let placed = siblings.into_iter().enumerate().rev();
            open.extend(placed.map(|(index, child)| (child, if index == last { Place::Last } else { Place::Inner })));
        }
        rows
    }

    /// The tree as lines of text: guides, then what `label` says of the harness.
    pub fn draw_tree(&self, mut label: impl FnMut(&TreeRow<'_>) -> String) -> Vec<String> {
        let mut guides: Vec<&str> = Vec::new();
        self.tree()
            .iter()
            .map(|row| {
                let above = (row.node.depth as usize).saturating_sub(1);
                guides.truncate(above);
                let mut line = guides.concat();
                match row.place {
                    Place::Root => {}
                    Place::Inner => line.push_str("├─ "),
                    Place::Last => line.push_str("└─ "),
                }
                match row.place {
                    Place::Root => guides.clear(),
                    Place::Inner => guides.push("│  "),
                    Place::Last => guides.push("   "),
                }
                line.push_str(&label(row));
                line
            })
            .collect()
    }
}

impl Node {
    /// The operator's name, or `seed`.
    #[must_use]
    pub const fn made_by(&self) -> &'static str {
        match &self.origin {
            Origin::Seed { .. } => "seed",
            Origin::Child { operator, .. } => operator.as_str(),
        }
    }
}
