//! Properties of the `data` workflows over many seeds.

use std::collections::BTreeSet;

use super::WORKFLOWS;
use crate::base::Entry;
use crate::task::{ActCall, ActRole, Probe, Stake, Task};

const SEEDS: u64 = 150;

fn texts(task: &Task) -> Vec<(&str, &str)> {
    let files = task.body().files.iter();
    files.filter_map(|(path, entry)| if let Entry::File { text, .. } = entry { Some((path, text.as_str())) } else { None }).collect()
}

#[test]
fn hundreds_of_seeds_give_hundreds_of_instructions_and_tasks() {
    for workflow in WORKFLOWS {
        let tasks: Vec<Task> = (0..SEEDS).map(|index| workflow.task(index).unwrap()).collect();
        assert_eq!(tasks.iter().map(Task::id).collect::<BTreeSet<_>>().len(), tasks.len(), "{}", workflow.skill);
        let instructions: BTreeSet<&str> = tasks.iter().map(|task| task.body().instruction.as_str()).collect();
        assert!(instructions.len() * 10 > tasks.len() * 9, "{}: {} instructions", workflow.skill, instructions.len());
        assert_eq!(workflow.task(7).unwrap(), tasks[7]);
    }
}

#[test]
fn evidence_stands_once_in_one_file_that_is_looked_at_first() {
    for workflow in WORKFLOWS {
        let mut hidden = 0;
        for index in 0..SEEDS {
            let task = workflow.task(index).unwrap();
            let solution = &task.body().solution;
            let at = solution.iter().position(|act| act.evidence.is_some()).unwrap();
            let evidence = solution[at].evidence.as_deref().unwrap();
            assert!(solution[at].slip.is_some());
            assert!(!task.body().instruction.contains(evidence), "{} {index}", workflow.skill);
            let holding: Vec<_> = texts(&task).into_iter().filter(|(_, text)| text.contains(evidence)).collect();
            let [(path, text)] = holding[..] else { panic!("{} {index}: {} files hold it", workflow.skill, holding.len()) };
            assert_eq!(text.matches(evidence).count(), 1);
            let is_read = |call: &ActCall| matches!(call, ActCall::Run { command } if *command == format!("cat {path}"));
            assert!(solution[..at].iter().any(|act| act.role == ActRole::Inspect && is_read(&act.call)), "{} {index}", workflow.skill);
            hidden += u64::from(text.find(evidence).is_some_and(|start| start > 2000));
        }
        // The documents hide it in three of four tasks; five standard errors of 150 draws are 0.18.
        assert!((SEEDS * 57 / 100..SEEDS * 93 / 100).contains(&hidden), "{}: {hidden}", workflow.skill);
    }
}

#[test]
fn inputs_are_guarded_and_nothing_earns_credit_at_the_start() {
    for workflow in WORKFLOWS {
        for index in 0..SEEDS {
            let task = workflow.task(index).unwrap();
            let inputs: BTreeSet<&str> = texts(&task).into_iter().map(|(path, _)| path).collect();
            let mut guarded = BTreeSet::new();
            for item in &task.body().check.items {
                match (&item.stake, &item.probe) {
                    (Stake::Guard, Probe::FileEquals { path, text }) => {
                        assert!(texts(&task).contains(&(path.as_str(), text.as_str())));
                        guarded.insert(path.as_str());
                    }
                    (Stake::Guard, _) => panic!("{}: a guard that compares nothing", workflow.skill),
                    (Stake::Credit, probe) => {
                        let (Probe::FileEquals { path, .. }
                        | Probe::FileContains { path, .. }
                        | Probe::FileMatches { path, .. }
                        | Probe::LinesEqual { path, .. }
                        | Probe::JsonEquals { path, .. }) = probe
                        else {
                            panic!("{}: an unexpected probe", workflow.skill)
                        };
                        assert!(!inputs.contains(path.as_str()) && task.body().instruction.contains(path.as_str()));
                    }
                }
            }
            assert_eq!(guarded, inputs, "{} {index}", workflow.skill);
        }
    }
}
