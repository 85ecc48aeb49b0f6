//! A process that is killed loses nothing that was committed.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::sample::{clock, id, meta, records, scored, task, tasks};
use crate::evolution::{Journal as _, StepRecord};
use crate::store::{DATABASE_FILE, RunReader, RunStore};
use crate::task::Split;

/// Names the folder in which a child of [`a_killed_process_loses_nothing_it_committed`] works.
const FOLDER: &str = "HARNESS_EVO_TEST_KILL_FOLDER";

/// The child: records and commits until it is killed, and notes each success beside the run.
#[test]
#[ignore = "the body of the process that another test kills"]
fn writes_until_killed() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let folder = Path::new(&folder);
    let store = RunStore::create(&folder.join("run"), &meta(), &tasks(), clock()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let (mut journal, refused, task) = (store.journal(), records().remove(3), task("shell", Split::Search));
    for step in 0.. {
        runtime.block_on(super::sample::play(&store, id(0), &task, step, scored(0.5)));
        journal.commit(&StepRecord { step, ..refused.clone() }).unwrap();
        std::fs::write(folder.join("done.new"), (step + 1).to_string()).unwrap();
        std::fs::rename(folder.join("done.new"), folder.join("done")).unwrap();
    }
}

fn noted(folder: &Path) -> u64 {
    std::fs::read_to_string(folder.join("done")).map_or(0, |text| text.parse().unwrap())
}

#[test]
fn a_killed_process_loses_nothing_it_committed() {
    for kill_after in [1, 40, 170] {
        let folder = tempfile::tempdir().unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "store::tests::kill::writes_until_killed"])
            .env(FOLDER, folder.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let start = Instant::now();
        while noted(folder.path()) < kill_after && start.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(1));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let promised = noted(folder.path());
        assert!(promised >= kill_after);

        let run = folder.path().join("run");
        let kept = RunReader::open(&run).unwrap().step_count().unwrap();
        assert!(kept >= promised, "{kept} of {promised}");
        // The lock went with the process, and the run goes on.
        let store = RunStore::open(&run, clock()).unwrap();
        let status = store.reader().unwrap().status().unwrap();
        assert!(status.steps == kept && (kept..=kept + 1).contains(&status.scored));
        store.journal().commit(&StepRecord { step: kept, ..records().remove(3) }).unwrap();
    }
}

#[test]
fn a_copy_taken_while_the_run_goes_on_holds_every_committed_step() {
    let folder = tempfile::tempdir().unwrap();
    let store = RunStore::create(folder.path(), &meta(), &tasks(), clock()).unwrap();
    let mut journal = store.journal();
    for (done, record) in (1..).zip(records()) {
        journal.commit(&record).unwrap();
        let copy = tempfile::tempdir().unwrap();
        for name in [DATABASE_FILE.to_owned(), format!("{DATABASE_FILE}-wal")] {
            std::fs::copy(folder.path().join(&name), copy.path().join(&name)).unwrap();
        }
        let reader = RunReader::open(copy.path()).unwrap();
        assert_eq!(reader.steps().collect::<Result<Vec<_>, _>>().unwrap(), records()[..done]);
    }
}
