//! Properties of the `code` workflows over many seeds, and the routines against a real interpreter.

use std::collections::BTreeSet;
use std::io::Write;
use std::process::{Command, Stdio};

use super::WORKFLOWS;
use super::hidden;
use super::routines::routines;
use crate::base::{Entry, SeedTree};
use crate::forge::vocabulary::Dice;
use crate::task::{ActRole, Probe, Stake, Task};

const SEEDS: u64 = 120;

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
fn hidden_tests_and_evidence_are_not_given_away() {
    for workflow in WORKFLOWS {
        for index in 0..SEEDS {
            let task = workflow.task(index).unwrap();
            let body = task.body();
            let mut shown = body.instruction.clone();
            for (_, entry) in body.files.iter() {
                if let Entry::File { text, .. } = entry {
                    shown.push_str(text);
                }
            }
            assert!(body.files.get("hidden_test.py").is_none());
            let mut words = BTreeSet::new();
            for item in &body.check.items {
                if let Probe::Command { files, stdout_contains, .. } = &item.probe {
                    let word = stdout_contains.clone().unwrap();
                    assert!(!shown.contains(&word) && files.len() == 1);
                    assert!(words.insert(word), "{} {index}: two tests end with the same word", workflow.skill);
                }
            }
            assert!(!words.is_empty());
            assert!(body.check.items.iter().any(|item| item.stake == Stake::Guard), "{} {index}", workflow.skill);
            assert!(body.check.items.iter().filter(|item| item.stake == Stake::Credit).count() >= 2);
            let informed: Vec<_> = body.solution.iter().filter(|act| act.evidence.is_some()).collect();
            assert!(!informed.is_empty());
            for act in informed {
                assert!(!body.instruction.contains(act.evidence.as_deref().unwrap()), "{} {index}", workflow.skill);
                assert!(act.role == ActRole::Requirement || act.slip.is_some());
            }
        }
    }
}

/// What an interpreter says to each of the programs: whether it came to its end.
fn verdicts(programs: &[String]) -> Vec<bool> {
    let list = serde_json::to_string(programs).unwrap();
    let script = format!(
        "import json\nfor program in json.loads({}):\n    try:\n        exec(program, {{'json': json}})\n        print('passed')\n    except Exception:\n        print('failed')\n",
        hidden::literal(&list.into())
    );
    let mut child =
        Command::new("python3").args(["-I", "-B", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("python3 is installed");
    child.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    String::from_utf8(output.stdout).unwrap().lines().map(|line| line == "passed").collect()
}

#[test]
fn right_bodies_pass_and_wrong_ones_fail_in_a_real_interpreter() {
    let (mut programs, mut names) = (Vec::new(), Vec::new());
    for seed in 0..40 {
        let dice = &mut Dice::new(&SeedTree::new(seed), "routines");
        for routine in routines(dice, 10) {
            let cases = routine.cases(dice);
            for (kind, body) in [("right", &routine.right), ("broken", &routine.broken), ("careless", &routine.careless)] {
                programs.push(format!("{}\n{}", routine.source(body), hidden::assertions(&routine.name, &cases)));
                names.push((seed, routine.name.clone(), kind));
            }
        }
    }
    let verdicts = verdicts(&programs);
    assert_eq!(verdicts.len(), programs.len());
    for (passed, (seed, name, kind)) in verdicts.into_iter().zip(names) {
        assert_eq!(passed, kind == "right", "seed {seed}: {name}, {kind}");
    }
}
