use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::harness::{Genome, Harness, HarnessId, diff};

fn genome(number: u32) -> Genome {
    let mut genome = Genome::offering([crate::harness::ToolName::Bash, crate::harness::ToolName::Finish]);
    genome.prompt.role = format!("harness {number}");
    genome
}

fn id(number: u32) -> HarnessId {
    Harness::new(genome(number)).unwrap().id()
}

fn birth(number: u32) -> Birth {
    Birth { harness: id(number), genome: genome(number), diff: Vec::new(), hypothesis: None }
}

fn child_of(number: u32, parent: u32) -> Birth {
    Birth {
        diff: diff(&genome(parent), &genome(number)).unwrap(),
        hypothesis: Some(Hypothesis { text: format!("better than {parent}"), ..Hypothesis::default() }),
        ..birth(number)
    }
}

/// 0 and 1 are seeds; 2 is a child of 0; 3 of 2; 4 of 0; 5 of 3 and 1.
fn small() -> Lineage {
    let mut lineage = Lineage::new();
    lineage.add_seed(birth(0), "minimal", 0).unwrap();
    lineage.add_seed(birth(1), "coder", 1).unwrap();
    lineage.add_child(child_of(2, 0), OperatorName::Perturb, &[id(0)], 2).unwrap();
    lineage.add_child(child_of(3, 2), OperatorName::Rewrite, &[id(2)], 4).unwrap();
    lineage.add_child(child_of(4, 0), OperatorName::Toolswap, &[id(0)], 5).unwrap();
    lineage.add_child(child_of(5, 3), OperatorName::Crossover, &[id(3), id(1)], 6).unwrap();
    lineage
}

fn ids(numbers: &[u32]) -> Vec<HarnessId> {
    numbers.iter().map(|number| id(*number)).collect()
}

#[test]
fn walks_of_a_small_lineage() {
    let lineage = small();
    assert_eq!(lineage.len(), 6);
    assert_eq!(lineage.roots().map(|node| node.id).collect::<Vec<_>>(), ids(&[0, 1]));
    assert_eq!(lineage.parents(id(5)), ids(&[3, 1]));
    assert_eq!(lineage.children(id(0)), ids(&[2, 4]));
    assert_eq!(lineage.children(id(1)), ids(&[5]));
    assert_eq!(lineage.ancestors(id(5)), ids(&[0, 1, 2, 3]));
    assert_eq!(lineage.common_ancestors(id(5), id(2)), ids(&[2, 0]));
    assert_eq!(lineage.common_ancestors(id(4), id(1)), ids(&[]));
    assert_eq!(lineage.path(id(5)).iter().map(|node| node.id).collect::<Vec<_>>(), ids(&[0, 2, 3, 5]));
    assert_eq!(lineage.node(id(5)).unwrap().depth, 3);
    assert!(lineage.path(id(9)).is_empty());
}

#[test]
fn what_cannot_be_added_changes_nothing() {
    let mut lineage = small();
    assert_eq!(lineage.add_seed(birth(2), "again", 9), Err(LineageError::Exists(id(2))));
    assert_eq!(lineage.add_child(birth(7), OperatorName::Prune, &[id(8)], 9), Err(LineageError::Unknown(id(8))));
    for parents in [ids(&[]), ids(&[0, 0]), ids(&[0, 1, 2])] {
        let count = parents.len();
        let refused = lineage.add_child(birth(7), OperatorName::Prune, &parents, 9);
        assert_eq!(refused, Err(LineageError::Parents { child: id(7), count }));
    }
    // Its own parent: it is not there yet when its parents are looked up.
    assert_eq!(lineage.add_child(birth(7), OperatorName::Prune, &[id(7)], 9), Err(LineageError::Unknown(id(7))));
    assert_eq!(lineage.len(), 6);
    assert!(lineage.children(id(0)) == ids(&[2, 4]) && !lineage.contains(id(7)));
}

#[test]
fn hypotheses_are_judged_and_seeds_have_none() {
    let mut lineage = small();
    let judged = JudgedHypothesis { difference: 0.25, low: 0.0, high: 0.5, pairs: 8 };
    lineage.judge(id(3), judged).unwrap();
    assert_eq!(lineage.node(id(3)).unwrap().judged, Some(judged));
    assert_eq!(lineage.judge(id(0), judged), Err(LineageError::NothingToJudge(id(0))));
    assert_eq!(lineage.judge(id(9), judged), Err(LineageError::Unknown(id(9))));
}

#[test]
fn the_tree_is_drawn_with_guides() {
    let names: std::collections::HashMap<HarnessId, u32> = (0..6).map(|number| (id(number), number)).collect();
    let lines = small().draw_tree(|row| {
        let also = row.second_parent.map(|parent| format!(" and {}", names[&parent])).unwrap_or_default();
        format!("{} {}{also}", names[&row.node.id], row.node.made_by())
    });
    assert_eq!(lines, ["0 seed", "├─ 2 perturb", "│  └─ 3 rewrite", "│     └─ 5 crossover and 1", "└─ 4 toolswap", "1 seed"]);
}

#[test]
fn json_does_not_depend_on_the_order_of_siblings() {
    let mut other = Lineage::new();
    other.add_seed(birth(1), "coder", 1).unwrap();
    other.add_seed(birth(0), "minimal", 0).unwrap();
    other.add_child(child_of(4, 0), OperatorName::Toolswap, &[id(0)], 5).unwrap();
    other.add_child(child_of(2, 0), OperatorName::Perturb, &[id(0)], 2).unwrap();
    other.add_child(child_of(3, 2), OperatorName::Rewrite, &[id(2)], 4).unwrap();
    other.add_child(child_of(5, 3), OperatorName::Crossover, &[id(3), id(1)], 6).unwrap();
    assert_eq!(other.to_json().unwrap(), small().to_json().unwrap());
    assert_eq!(other.to_dot(), small().to_dot());
}

#[test]
fn json_names_every_edge_with_its_own_difference() {
    let value: serde_json::Value = serde_json::from_slice(&small().to_json().unwrap()).unwrap();
    assert_eq!(value["format"], "harness-evo/lineage/1");
    assert_eq!(value["nodes"].as_array().unwrap().len(), 6);
    let edges = value["edges"].as_array().unwrap();
    assert_eq!(edges.len(), 5);
    let second = edges.iter().find(|edge| edge["place"] == 1).unwrap();
    assert_eq!(second["parent"], id(1).to_string());
    assert_eq!(second["diff"][0]["before"], "harness 1");
    assert_eq!(second["diff"][0]["after"], "harness 5");
    assert!(second.get("hypothesis").is_none());
    let first = edges.iter().find(|edge| edge["child"] == id(5).to_string() && edge["place"] == 0).unwrap();
    assert_eq!(first["diff"][0]["before"], "harness 3");
    assert_eq!(first["hypothesis"]["text"], "better than 3");
    assert_eq!(first["operator"], "crossover");
}

#[test]
fn dot_quotes_what_a_template_is_called() {
    let mut lineage = Lineage::new();
    lineage.add_seed(birth(0), "a \"b\\", 0).unwrap();
    let short = id(0).short();
    assert!(lineage.to_dot().contains(&format!("[label=\"{short}\\na \\\"b\\\\\"];")), "{}", lineage.to_dot());
}

/// Parents per harness, by number; a seed has none.
fn lineages() -> impl Strategy<Value = Vec<Vec<u32>>> {
    prop::collection::vec((any::<u32>(), any::<u32>(), 0_u8..4), 1..40).prop_map(|draws| {
        (0_u32..)
            .zip(draws)
            .map(|(number, (a, b, kind))| match (number, kind) {
                (0, _) | (_, 0) => Vec::new(),
                (_, 3) if a % number != b % number => vec![a % number, b % number],
                _ => vec![a % number],
            })
            .collect()
    })
}

fn built(parents: &[Vec<u32>]) -> Lineage {
    let mut lineage = Lineage::new();
    for (number, of) in (0_u32..).zip(parents) {
        if of.is_empty() {
            lineage.add_seed(birth(number), "seed", u64::from(number)).unwrap();
        } else {
            lineage.add_child(birth(number), OperatorName::Perturb, &ids(of), u64::from(number)).unwrap();
        }
    }
    lineage
}

/// Reference: the ancestors by their definition, parents and the ancestors of parents.
fn naive_ancestors(parents: &[Vec<u32>], number: u32) -> BTreeSet<u32> {
    parents[number as usize].iter().flat_map(|parent| naive_ancestors(parents, *parent).into_iter().chain([*parent])).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn walks_agree_with_a_naive_reference(parents in lineages()) {
        let lineage = built(&parents);
        let all: Vec<HarnessId> = (0..u32::try_from(parents.len()).unwrap()).map(id).collect();
        for (number, own) in (0_u32..).zip(&all) {
            let naive = naive_ancestors(&parents, number);
            // A harness that were its own ancestor would close a cycle.
            prop_assert!(!naive.contains(&number) && !lineage.ancestors(*own).contains(own));
            prop_assert_eq!(lineage.ancestors(*own), naive.iter().map(|n| all[*n as usize]).collect::<Vec<_>>());

            let path = lineage.path(*own);
            prop_assert_eq!(path.first().unwrap().made_by(), "seed");
            prop_assert_eq!(path.last().unwrap().id, *own);
            prop_assert_eq!(path.len(), lineage.node(*own).unwrap().depth as usize + 1);
            for pair in path.windows(2) {
                prop_assert_eq!(lineage.parents(pair[1].id)[0], pair[0].id);
            }

            let other = number / 2;
            let mut with_self = naive;
            with_self.insert(number);
            let mut of_other = naive_ancestors(&parents, other);
            of_other.insert(other);
            let mut common: Vec<HarnessId> = with_self.intersection(&of_other).map(|n| all[*n as usize]).collect();
            common.reverse();
            prop_assert_eq!(lineage.common_ancestors(*own, all[other as usize]), common);
        }
    }

    #[test]
    fn the_tree_holds_every_harness_once_after_its_first_parent(parents in lineages()) {
        let lineage = built(&parents);
        let rows = lineage.tree();
        let order: Vec<HarnessId> = rows.iter().map(|row| row.node.id).collect();
        prop_assert_eq!(order.iter().collect::<BTreeSet<_>>().len(), parents.len());
        prop_assert_eq!(order.len(), parents.len());
        for row in &rows {
            if let Some(parent) = lineage.parents(row.node.id).first() {
                let at = |id: HarnessId| order.iter().position(|other| *other == id).unwrap();
                prop_assert!(at(*parent) < at(row.node.id));
            }
        }
    }
}
