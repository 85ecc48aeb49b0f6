use super::sample::{clock, filled, id, meta, records, tasks};
use crate::evolution::{Effect, Journal as _, StepRecord};
use crate::harness::diff;
use crate::lineage::Lineage;
use crate::store::{RunReader, RunStore, StoreError};

#[tokio::test]
async fn steps_come_back_as_they_were() {
    let folder = tempfile::tempdir().unwrap();
    let store = RunStore::create(folder.path(), &meta(), &tasks(), clock()).unwrap();
    super::sample::fill(&store).await;
    drop(store);
    let reader = RunReader::open(folder.path()).unwrap();
    assert_eq!(reader.steps().collect::<Result<Vec<_>, _>>().unwrap(), records());
    assert_eq!(reader.meta().unwrap(), meta());
    assert_eq!(reader.tasks().unwrap(), tasks());
}

#[test]
fn steps_are_read_across_pages() {
    let store = RunStore::in_memory(&meta(), &[], clock()).unwrap();
    let mut journal = store.journal();
    let refused = records().remove(3);
    for step in 0..600 {
        journal.commit(&StepRecord { step, ..refused.clone() }).unwrap();
    }
    let numbers: Vec<u64> = store.reader().unwrap().steps().map(|record| record.unwrap().step).collect();
    assert_eq!(numbers, (0..600).collect::<Vec<_>>());
}

#[test]
fn a_step_out_of_order_is_refused_and_leaves_nothing() {
    let store = RunStore::in_memory(&meta(), &[], clock()).unwrap();
    let mut journal = store.journal();
    let records = records();
    journal.commit(&records[0]).unwrap();
    assert!(journal.commit(&records[0]).unwrap_err().0.contains("the next step is 1"));
    assert!(journal.commit(&records[2]).unwrap_err().0.contains("the next step is 1"));
    // A child whose parent is unknown: the whole step is undone.
    let orphan = StepRecord { step: 1, ..records[5].clone() };
    assert!(journal.commit(&orphan).is_err());
    let status = store.reader().unwrap().status().unwrap();
    assert_eq!((status.steps, status.harnesses), (1, 1));
    journal.commit(&records[1]).unwrap();
}

#[test]
fn a_number_that_json_cannot_hold_is_refused_before_it_is_written() {
    let store = RunStore::in_memory(&meta(), &[], clock()).unwrap();
    let mut record = records().remove(0);
    if let Effect::NicheTaken { mean, .. } = &mut record.effects[0] {
        *mean = f64::NAN;
    }
    assert!(store.journal().commit(&record).unwrap_err().0.contains("not finite"));
    assert_eq!(store.reader().unwrap().step_count().unwrap(), 0);
}

#[tokio::test]
async fn the_lineage_is_rebuilt_with_judgements_and_both_parents() {
    let lineage: Lineage = filled().await.reader().unwrap().lineage().unwrap();
    assert_eq!(lineage.len(), 4);
    assert_eq!(lineage.parents(id(3)), [id(2), id(1)]);
    assert_eq!(lineage.node(id(3)).unwrap().depth, 2);
    let second = lineage.node(id(2)).unwrap();
    assert_eq!((second.step, second.judged.unwrap().pairs), (2, 3));
    assert_eq!(second.hypothesis.as_ref().unwrap().text, "better than 0");
    assert_eq!(second.diff, diff(&super::sample::genome(0), &super::sample::genome(2)).unwrap());
    assert_eq!(lineage.roots().map(|node| node.id).collect::<Vec<_>>(), [id(0), id(1)]);
}

#[tokio::test]
async fn ids_are_found_by_unique_prefix() {
    let store = filled().await;
    let reader = store.reader().unwrap();
    let whole = id(3).to_string();
    let found = reader.harness(&whole).unwrap();
    assert_eq!((found.id, found.depth, found.step, found.template), (id(3), 2, 5, None));
    assert_eq!(reader.harness(&whole[..12]).unwrap().id, id(3));
    assert_eq!(reader.harness(&id(1).to_string()).unwrap().template.as_deref(), Some("coder"));
    let task = tasks()[0].id();
    assert_eq!(reader.task_id(&task.to_string()[..10]).unwrap(), task);
    for wrong in ["", "xyz", "ABC", "'; DROP TABLE harness; --", &"0".repeat(40)] {
        assert!(matches!(reader.harness(wrong), Err(StoreError::NoSuchId { .. })), "{wrong}");
    }
}

#[test]
fn an_ambiguous_prefix_names_its_candidates() {
    let store = RunStore::in_memory(&meta(), &[], clock()).unwrap();
    let mut journal = store.journal();
    // Of 17 harnesses at least two share their first digit.
    for number in 0..17 {
        let plan = crate::evolution::StepPlan::Seed { harness: id(number), template: "t".to_owned() };
        let birth = super::sample::birth(number, None);
        journal.commit(&super::sample::evaluated(number.into(), plan, Some(birth), Vec::new(), Vec::new())).unwrap();
    }
    let reader = store.reader().unwrap();
    let mut ids: Vec<String> = (0..17).map(|number| id(number).to_string()).collect();
    ids.sort();
    let digit = ids.windows(2).find(|pair| pair[0][..1] == pair[1][..1]).unwrap()[0][..1].to_owned();
    let expected: Vec<String> = ids.into_iter().filter(|id| id.starts_with(&digit)).take(8).collect();
    match reader.harness(&digit) {
        Err(StoreError::Ambiguous { candidates, .. }) => assert_eq!(candidates, expected),
        other => panic!("{other:?}"),
    }
}
