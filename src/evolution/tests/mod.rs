//! A whole search against a known answer, without model, sandbox or database.

mod world;

use proptest::prelude::*;

use self::world::{World, run, run_from};
use super::{Effect, Phase, StepPlan, StepResult};
use crate::task::{JobType, Split};

#[tokio::test]
async fn the_journal_does_not_depend_on_workers_or_delays() {
    let one = run(&World::new(3).workers(1)).await;
    assert!(one.records.len() > 20, "{}", one.records.len());
    for (workers, delay_seed) in [(4, 1), (8, 2), (16, 3)] {
        let many = run(&World::new(3).workers(workers).delays(delay_seed)).await;
        assert_eq!(one.records, many.records, "{workers} workers");
    }
    let other = run(&World::new(4).workers(1)).await;
    assert_ne!(one.records, other.records, "another seed is another search");
}

#[tokio::test]
async fn a_resumed_search_goes_on_as_if_it_had_never_stopped() {
    let whole = run(&World::new(5).workers(4)).await;
    for kept in [0, 1, 7, 20, whole.records.len()] {
        let resumed = run_from(&World::new(5).workers(3).delays(9), &whole.records[..kept]).await;
        assert_eq!(resumed.records, whole.records[kept..], "after {kept} steps");
    }
}

#[tokio::test]
async fn a_journal_of_another_experiment_is_refused() {
    let other = run(&World::new(6).workers(4)).await;
    let mut search = World::new(7).search();
    let error = other.records.iter().find_map(|record| search.replay(record).err());
    assert!(error.unwrap().to_string().contains("was made with other settings"));
}

#[tokio::test]
async fn the_budget_is_never_overshot_and_played_episodes_are_what_was_spent() {
    for limit in [330, 500, 733] {
        let ran = run(&World::new(8).workers(8).episodes(limit)).await;
        let spent = ran.search.ledger().spent();
        assert!(spent.episodes <= limit, "{} of {limit}", spent.episodes);
        assert_eq!(spent.episodes, ran.played, "every played episode is paid for once");
        assert_eq!(ran.search.ledger().reserved().episodes, 0);
        assert_eq!(ran.search.phase(), Phase::Done);
    }
}

#[tokio::test]
async fn faults_change_costs_but_no_decision() {
    let clean = run(&World::new(9).workers(4)).await;
    let faulty = run(&World::new(9).workers(4).faults(0.3)).await;
    let decisions = |records: &[super::StepRecord]| -> Vec<(StepPlan, Vec<Effect>)> {
        records.iter().map(|record| (record.plan.clone(), record.effects.clone())).collect()
    };
    assert_eq!(decisions(&clean.records), decisions(&faulty.records));
    let lost: u64 = faulty.records.iter().map(|record| record.spent.tokens).max().unwrap_or(0);
    assert!(lost > clean.records.iter().map(|record| record.spent.tokens).max().unwrap_or(0), "faulted attempts cost tokens");
}

#[tokio::test]
async fn the_search_finds_what_each_job_type_wants() {
    let ran = run(&World::new(10).workers(8).episodes(4000)).await;
    for job in ["alpha", "beta"] {
        let job_type = JobType::new(job).unwrap();
        let (_, seed) = ran.search.best_seed(&job_type).unwrap();
        let (_, elite) = ran.search.archive().elite_of(&job_type).expect("an elite");
        let seed_rate = ran.true_rate(seed, job);
        let best = ran.search.population().get(elite.harness).unwrap().harness.clone();
        assert!(ran.true_rate(&best, job) > seed_rate + 0.15, "{job}: {} after {seed_rate}", ran.true_rate(&best, job));
    }
}

#[tokio::test]
async fn search_steps_see_search_tasks_and_confirmations_see_validate_tasks() {
    let ran = run(&World::new(11).workers(4)).await;
    let mut confirmations = 0;
    for record in &ran.records {
        let StepResult::Evaluated { evaluations, .. } = &record.result else { continue };
        let expected = if matches!(record.plan, StepPlan::Confirm { .. }) { Split::Validate } else { Split::Search };
        confirmations += u32::from(expected == Split::Validate);
        for evaluation in evaluations {
            assert_eq!(evaluation.split, expected);
            assert!(evaluation.episodes.iter().all(|score| ran.split_of(score.task) == expected));
        }
    }
    assert!(confirmations > 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn every_elite_is_a_member_and_stands_in_a_cell_of_its_job_type(seed in 0_u64..1000) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let ran = runtime.block_on(run(&World::new(seed).workers(4)));
        for (niche, cell) in ran.search.archive().cells() {
            prop_assert!(ran.search.population().get(cell.holder.harness).is_some());
            if let Some(elite) = cell.elite {
                let member = ran.search.population().get(elite.harness).unwrap();
                prop_assert_eq!(member.scores(&niche.job_type, Split::Validate).len(), elite.episodes as usize);
            }
        }
    }
}
