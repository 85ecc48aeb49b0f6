//! The lineage in formats others read: canonical JSON and Graphviz DOT. Neither holds a time or a path of the machine.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;

use super::{Hypothesis, JudgedHypothesis, Lineage, Node, Origin};
use crate::base::canonical_bytes;
use crate::harness::{GeneChange, Genome, HarnessError, HarnessId, diff};

/// Name and version of the JSON format.
pub const LINEAGE_FORMAT: &str = "harness-evo/lineage/1";

/// A lineage that could not be written.
#[derive(Debug, thiserror::Error)]
pub enum LineageExportError {
    /// Two genomes could not be compared.
    #[error("the lineage cannot be exported: {0}")]
    Genome(#[from] HarnessError),
    /// JSON refused a value.
    #[error("the lineage cannot be exported: {0}")]
    Json(#[from] serde_json::Error),
}

#[derive(Serialize)]
struct Document<'a> {
    format: &'static str,
    nodes: Vec<NodeEntry<'a>>,
    edges: Vec<EdgeEntry<'a>>,
}

#[derive(Serialize)]
struct NodeEntry<'a> {
    id: HarnessId,
    step: u64,
    depth: u32,
    made_by: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    template: Option<&'a str>,
    /// Seeds only: any other genome is its first parent's with the edge's changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    genome: Option<&'a Genome>,
}

#[derive(Serialize)]
struct EdgeEntry<'a> {
    child: HarnessId,
    parent: HarnessId,
    /// 0 for the first parent, the one the child is compared with.
    place: usize,
    operator: &'static str,
    diff: Vec<GeneChange>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hypothesis: Option<&'a Hypothesis>,
    #[serde(skip_serializing_if = "Option::is_none")]
    judged: Option<JudgedHypothesis>,
}

impl Lineage {
    /// Canonical JSON: nodes by id, edges by child and place. Every edge carries its own gene-wise difference; hypothesis and
    /// judgement stand on the edge from the first parent.
    ///
    /// # Errors
    /// When a genome cannot be compared or written, which valid genomes can.
    pub fn to_json(&self) -> Result<Vec<u8>, LineageExportError> {
        let mut document = Document { format: LINEAGE_FORMAT, nodes: Vec::new(), edges: Vec::new() };
        for node in self.by_id().into_values() {
            let (template, genome) = match &node.origin {
                Origin::Seed { template } => (Some(template.as_str()), Some(&node.genome)),
                Origin::Child { .. } => (None, None),
            };
            document.nodes.push(NodeEntry { id: node.id, step: node.step, depth: node.depth, made_by: node.made_by(), template, genome });
            self.push_edges(node, &mut document.edges)?;
        }
        Ok(canonical_bytes(&document)?)
    }

    fn push_edges<'a>(&self, node: &'a Node, edges: &mut Vec<EdgeEntry<'a>>) -> Result<(), HarnessError> {
        for (place, parent) in self.parents(node.id).iter().enumerate() {
            let first = place == 0;
            let changes = match self.node(*parent) {
                Some(other) if !first => diff(&other.genome, &node.genome)?,
                _ => node.diff.clone(),
            };
            edges.push(EdgeEntry {
                child: node.id,
                parent: *parent,
                place,
                operator: node.made_by(),
                diff: changes,
                hypothesis: node.hypothesis.as_ref().filter(|_| first),
                judged: node.judged.filter(|_| first),
            });
        }
        Ok(())
    }

    /// Graphviz DOT; the edge from a second parent is dashed.
    #[must_use]
    pub fn to_dot(&self) -> String {
        let mut dot = String::from("digraph lineage {\n  rankdir=LR;\n  node [shape=box, fontname=\"monospace\"];\n");
        let nodes = self.by_id();
        for (id, node) in &nodes {
            let name = match &node.origin {
                Origin::Seed { template } => format!("\\n{}", escape(template)),
                Origin::Child { .. } => String::new(),
            };
            // Writing to a string cannot fail.
            let _ = writeln!(dot, "  \"{id}\" [label=\"{}{name}\"];", id.short());
        }
        for (id, node) in &nodes {
            for (place, parent) in self.parents(*id).iter().enumerate() {
                let style = if place == 0 { "" } else { ", style=dashed" };
                let _ = writeln!(dot, "  \"{parent}\" -> \"{id}\" [label=\"{}\"{style}];", node.made_by());
            }
        }
        dot.push_str("}\n");
        dot
    }

    fn by_id(&self) -> BTreeMap<HarnessId, &Node> {
        self.nodes().map(|node| (node.id, node)).collect()
    }
}

fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace(['\n', '\r'], " ")
}
