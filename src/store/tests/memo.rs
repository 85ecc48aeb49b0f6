use super::sample::{TIMING, clock, faulted, id, key, meta, play, score, scored, task, tasks, trajectory};
use crate::evaluation::EpisodeLog as _;
use crate::store::{BLOBS_FOLDER, EpisodeEnd, EpisodeFilter, OutcomeFilter, RunReader, RunStore};
use crate::task::Split;
use crate::trajectory::{Boundary, Ending, Message, Role};

#[tokio::test]
async fn a_scored_episode_is_found_by_the_whole_key_only() {
    let store = RunStore::in_memory(&meta(), &tasks(), clock()).unwrap();
    let task = task("shell", Split::Search);
    let log = store.episode_log();
    let own = key(id(0), task.id(), 5);
    assert_eq!(log.find(&own).await.unwrap(), None);
    play(&store, id(0), &task, 5, faulted()).await;
    assert_eq!(log.find(&own).await.unwrap(), None, "a fault is no result");
    let exact =
        crate::evaluation::EpisodeScore { score: 1.0 / 3.0, lost_tokens: 77, lost_micro_usd: 3, gui_calls: 4, ..score(task.id(), 5, 0.0) };
    let played = trajectory(id(0), task.id(), 5, scored(1.0 / 3.0));
    log.record(&own, Split::Search, 1, &played, TIMING, Some(&exact)).await.unwrap();
    assert_eq!(log.find(&own).await.unwrap(), Some(exact.clone()));
    assert_eq!(log.trajectory(&own).await.unwrap(), Some(played));
    for other in [key(id(1), task.id(), 5), key(id(0), tasks()[0].id(), 6), key(id(0), task.id(), 4), key(id(0), task.id(), u64::MAX)] {
        assert_eq!(log.find(&other).await.unwrap(), None);
    }
    let elsewhere = crate::evaluation::EpisodeKey { model: "test:other".to_owned(), ..own.clone() };
    assert_eq!(log.find(&elsewhere).await.unwrap(), None);

    // Played again, after all: kept, but the first result stays the result.
    play(&store, id(0), &task, 5, scored(1.0)).await;
    assert_eq!(log.find(&own).await.unwrap(), Some(exact));
    assert_eq!(store.reader().unwrap().status().unwrap().scored, 1);
}

#[tokio::test]
async fn what_contradicts_itself_or_does_not_fit_is_refused() {
    let store = RunStore::in_memory(&meta(), &tasks(), clock()).unwrap();
    let task = task("shell", Split::Search);
    let log = store.episode_log();
    let own = key(id(0), task.id(), 5);
    let (good, bad) = (trajectory(id(0), task.id(), 5, scored(1.0)), trajectory(id(0), task.id(), 5, faulted()));
    assert!(log.record(&own, Split::Search, 0, &good, TIMING, None).await.is_err());
    assert!(log.record(&own, Split::Search, 0, &bad, TIMING, Some(&score(task.id(), 5, 1.0))).await.is_err());
    let huge = key(id(0), task.id(), u64::MAX);
    assert!(log.record(&huge, Split::Search, 0, &good, TIMING, Some(&score(task.id(), 5, 1.0))).await.unwrap_err().0.contains("64-bit"));
    assert!(store.reader().unwrap().episodes(&EpisodeFilter::default()).unwrap().is_empty());
}

#[tokio::test]
async fn episodes_are_listed_by_filter() {
    let store = super::sample::filled().await;
    let reader = store.reader().unwrap();
    let count = |filter: EpisodeFilter| reader.episodes(&filter).unwrap().len();
    assert_eq!(count(EpisodeFilter::default()), 9);
    assert_eq!(count(EpisodeFilter { harness: Some(id(3)), ..EpisodeFilter::default() }), 4);
    assert_eq!(count(EpisodeFilter { split: Some(Split::Validate), ..EpisodeFilter::default() }), 2);
    assert_eq!(count(EpisodeFilter { outcome: OutcomeFilter::Passed, split: Some(Split::Search), ..EpisodeFilter::default() }), 2);
    assert_eq!(count(EpisodeFilter { outcome: OutcomeFilter::Failed, ..EpisodeFilter::default() }), 3);
    assert_eq!(count(EpisodeFilter { limit: Some(3), ..EpisodeFilter::default() }), 3);
    let none = crate::task::JobType::new("data").unwrap();
    assert_eq!(count(EpisodeFilter { job_type: Some(none), ..EpisodeFilter::default() }), 0);

    let fault = reader.episodes(&EpisodeFilter { outcome: OutcomeFilter::Faulted, ..EpisodeFilter::default() }).unwrap().remove(0);
    assert_eq!(fault.ended, EpisodeEnd::Faulted { boundary: Boundary::Provider, message: "429".to_owned() });
    assert_eq!((fault.tokens, fault.micro_usd, fault.timing), (330, None, TIMING));
    let solved =
        reader.episodes(&EpisodeFilter { harness: Some(id(2)), outcome: OutcomeFilter::Passed, ..EpisodeFilter::default() }).unwrap();
    assert_eq!(solved[1].ended, EpisodeEnd::Scored { score: 1.0, ending: Ending::Finished });
    assert_eq!(solved[1].work, Some(("shell".to_owned(), "count".to_owned())));
    assert_eq!(reader.episode(solved[1].id).unwrap(), solved[1]);
    assert_eq!(reader.trajectory(solved[1].id).unwrap(), trajectory(id(2), task("shell", Split::Search).id(), 1, scored(1.0)));
    assert!(reader.episode(99).is_err() && reader.trajectory(99).is_err());
}

#[tokio::test]
async fn a_long_trajectory_lies_in_a_blob_and_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let store = RunStore::create(folder.path(), &meta(), &tasks(), clock()).unwrap();
    let task = task("shell", Split::Search);
    let mut long = trajectory(id(0), task.id(), 5, scored(1.0));
    // Digits of a hash chain do not pack well.
    let mut noise = String::new();
    while noise.len() < 200_000 {
        noise.push_str(blake3::hash(noise.as_bytes()).to_hex().as_str());
    }
    long.messages.push(Message::text(Role::User, noise));
    let own = key(id(0), task.id(), 5);
    store.episode_log().record(&own, Split::Search, 0, &long, TIMING, Some(&score(task.id(), 5, 1.0))).await.unwrap();
    assert_eq!(store.episode_log().trajectory(&own).await.unwrap(), Some(long.clone()));
    drop(store);
    let hash = blake3::hash(&crate::base::canonical_bytes(&long).unwrap()).to_hex().to_string();
    let blob = folder.path().join(BLOBS_FOLDER).join(&hash[..2]).join(&hash[2..]);
    assert!(blob.is_file());
    let reader = RunReader::open(folder.path()).unwrap();
    assert_eq!(reader.trajectory(1).unwrap(), long);
    std::fs::write(blob, b"rubbish").unwrap();
    assert!(reader.trajectory(1).unwrap_err().to_string().contains(&hash));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_workers_record_at_once_beside_the_journal() {
    let folder = tempfile::tempdir().unwrap();
    let store = RunStore::create(folder.path(), &meta(), &tasks(), clock()).unwrap();
    let task = task("shell", Split::Search);
    let mut running = tokio::task::JoinSet::new();
    for seed in 0..300 {
        let (store, task) = (store.clone(), task.clone());
        running.spawn(async move {
            play(&store, id(0), &task, seed, scored(0.5)).await;
            let found = store.episode_log().find(&key(id(0), task.id(), seed)).await.unwrap();
            assert_eq!(found, Some(score(task.id(), seed, 0.5)), "what was recorded is found at once");
        });
    }
    let mut journal = store.journal();
    for record in super::sample::records() {
        tokio::task::yield_now().await;
        crate::evolution::Journal::commit(&mut journal, &record).unwrap();
    }
    while let Some(done) = running.join_next().await {
        done.unwrap();
    }
    assert_eq!(store.reader().unwrap().step_count().unwrap(), 8);
    assert_eq!(store.reader().unwrap().status().unwrap().scored, 300);
}
