//! The graph itself. It is acyclic because a harness can only be added after its parents, and never changes them.

use std::collections::{BTreeSet, HashMap};

use petgraph::Direction;
use petgraph::graph::{DiGraph, NodeIndex};

use super::{Birth, Hypothesis, JudgedHypothesis, OperatorName};
use crate::harness::{GeneChange, Genome, HarnessId};

/// Where a harness came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// A template.
    Seed {
        /// The template's name.
        template: String,
    },
    /// One or two parents.
    Child {
        /// What made it.
        operator: OperatorName,
        /// From whom; the first parent is the one it is compared with.
        parents: Vec<HarnessId>,
    },
}

/// One harness of the lineage.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Its id.
    pub id: HarnessId,
    /// Its genes.
    pub genome: Genome,
    /// Where it came from.
    pub origin: Origin,
    /// How it differs from its first parent.
    pub diff: Vec<GeneChange>,
    /// What the operator expected.
    pub hypothesis: Option<Hypothesis>,
    /// How that fared, once it is known.
    pub judged: Option<JudgedHypothesis>,
    /// The step that made it.
    pub step: u64,
    /// Edges from a seed along first parents; 0 for a seed.
    pub depth: u32,
}

/// What cannot be done to a lineage. Nothing has changed then.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LineageError {
    /// Harnesses are added once.
    #[error("the lineage holds harness {0} already")]
    Exists(HarnessId),
    /// Parents come before their children.
    #[error("the lineage does not hold harness {0}")]
    Unknown(HarnessId),
    /// A child has one or two different parents.
    #[error("harness {child} names {count} parents: a child has one, or two that differ")]
    Parents {
        /// The child.
        child: HarnessId,
        /// How many it names.
        count: usize,
    },
    /// A seed expects nothing.
    #[error("harness {0} is a seed and has no hypothesis to judge")]
    NothingToJudge(HarnessId),
}

/// The append-only, acyclic graph of harnesses. Edges lead from parent to child and are weighted with the parent's place (0 or 1).
#[derive(Debug, Clone, Default)]
pub struct Lineage {
    graph: DiGraph<Node, u8>,
    index: HashMap<HarnessId, NodeIndex>,
}

impl Lineage {
    /// No harnesses.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a harness that came from `template`. O(1) amortised.
    ///
    /// # Errors
    /// When the lineage holds it already.
    pub fn add_seed(&mut self, birth: Birth, template: &str, step: u64) -> Result<(), LineageError> {
        self.refuse_known(birth.harness)?;
        self.insert(birth, Origin::Seed { template: template.to_owned() }, step, 0);
        Ok(())
    }

    /// Adds a child of `parents`. O(1) amortised.
    ///
    /// # Errors
    /// When the lineage holds the child already, lacks a parent, or the parents are not one or two different harnesses.
    pub fn add_child(&mut self, birth: Birth, operator: OperatorName, parents: &[HarnessId], step: u64) -> Result<(), LineageError> {
        self.refuse_known(birth.harness)?;
        let indices = parents.iter().map(|parent| self.find(*parent)).collect::<Result<Vec<_>, _>>()?;
        let first = match indices.as_slice() {
            [only] => *only,
            [first, second] if first != second => *first,
            _ => return Err(LineageError::Parents { child: birth.harness, count: parents.len() }),
        };
        let depth = self.graph[first].depth.saturating_add(1);
        let child = self.insert(birth, Origin::Child { operator, parents: parents.to_vec() }, step, depth);
        for (place, parent) in (0_u8..).zip(indices) {
            self.graph.add_edge(parent, child, place);
        }
        Ok(())
    }

    /// Notes how the hypothesis of a child fared; a later judgement replaces an earlier one.
    ///
    /// # Errors
    /// When the harness is unknown or a seed.
    pub fn judge(&mut self, id: HarnessId, judged: JudgedHypothesis) -> Result<(), LineageError> {
        let index = self.find(id)?;
        let node = &mut self.graph[index];
        match node.origin {
            Origin::Seed { .. } => Err(LineageError::NothingToJudge(id)),
            Origin::Child { .. } => {
                node.judged = Some(judged);
                Ok(())
            }
        }
    }

    /// The harness `id`.
    #[must_use]
    pub fn node(&self, id: HarnessId) -> Option<&Node> {
        self.index.get(&id).map(|index| &self.graph[*index])
    }

    /// Whether `id` was added.
    #[must_use]
    pub fn contains(&self, id: HarnessId) -> bool {
        self.index.contains_key(&id)
    }

    /// How many harnesses there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.graph.node_count()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All harnesses in the order in which they were added.
    pub fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.graph.node_weights()
    }

    /// The seeds in the order in which they were added.
    pub fn roots(&self) -> impl Iterator<Item = &Node> {
        self.nodes().filter(|node| matches!(node.origin, Origin::Seed { .. }))
    }

    /// The parents of `id`, first parent first; none for a seed or an unknown harness.
    #[must_use]
    pub fn parents(&self, id: HarnessId) -> &[HarnessId] {
        match self.node(id).map(|node| &node.origin) {
            Some(Origin::Child { parents, .. }) => parents,
            Some(Origin::Seed { .. }) | None => &[],
        }
    }

    /// The children of `id` (as first or second parent), in the order in which they were added.
    #[must_use]
    pub fn children(&self, id: HarnessId) -> Vec<HarnessId> {
        let Some(index) = self.index.get(&id) else { return Vec::new() };
        self.ids(self.graph.neighbors_directed(*index, Direction::Outgoing).collect())
    }

    /// Every harness from which `id` descends, without itself, in the order in which they were added.
    #[must_use]
    pub fn ancestors(&self, id: HarnessId) -> Vec<HarnessId> {
        let Some(start) = self.index.get(&id) else { return Vec::new() };
        let mut found = self.with_ancestors(*start);
        found.remove(start);
        self.ids(found.into_iter().collect())
    }

    /// The harnesses from which both descend, each counting as its own ancestor; the one added last (the nearest) first.
    #[must_use]
    pub fn common_ancestors(&self, a: HarnessId, b: HarnessId) -> Vec<HarnessId> {
        let (Some(a), Some(b)) = (self.index.get(&a), self.index.get(&b)) else { return Vec::new() };
        let (of_a, of_b) = (self.with_ancestors(*a), self.with_ancestors(*b));
        let mut common = self.ids(of_a.intersection(&of_b).copied().collect());
        common.reverse();
        common
    }

    /// The way from a seed to `id` along first parents, both ends included; empty for an unknown harness.
    #[must_use]
    pub fn path(&self, id: HarnessId) -> Vec<&Node> {
        let mut path: Vec<&Node> = std::iter::successors(self.node(id), |node| match &node.origin {
            Origin::Child { parents, .. } => parents.first().and_then(|parent| self.node(*parent)),
            Origin::Seed { .. } => None,
        })
        .collect();
        path.reverse();
        path
    }

    fn refuse_known(&self, id: HarnessId) -> Result<(), LineageError> {
        if self.contains(id) { Err(LineageError::Exists(id)) } else { Ok(()) }
    }

    fn find(&self, id: HarnessId) -> Result<NodeIndex, LineageError> {
        self.index.get(&id).copied().ok_or(LineageError::Unknown(id))
    }

    fn insert(&mut self, birth: Birth, origin: Origin, step: u64, depth: u32) -> NodeIndex {
        let Birth { harness: id, genome, diff, hypothesis } = birth;
        let index = self.graph.add_node(Node { id, genome, origin, diff, hypothesis, judged: None, step, depth });
        self.index.insert(id, index);
        index
    }

    fn with_ancestors(&self, start: NodeIndex) -> BTreeSet<NodeIndex> {
        let mut found = BTreeSet::from([start]);
        let mut open = vec![start];
        while let Some(index) = open.pop() {
            open.extend(self.graph.neighbors_directed(index, Direction::Incoming).filter(|parent| found.insert(*parent)));
        }
        found
    }

    /// Node indices grow with every addition and nothing is removed: their order is the order of birth.
    fn ids(&self, mut indices: Vec<NodeIndex>) -> Vec<HarnessId> {
        indices.sort_unstable();
        indices.into_iter().map(|index| self.graph[index].id).collect()
    }
}
