//! Make an existing function answer an edge case as the conventions of its project say.

use serde_json::{Value, json};

use crate::base::SeedTree;
use crate::forge::ForgeError;
use crate::forge::draft::{Draft, edit, informed_work, inspect, requirement, run, verify};
use crate::forge::vocabulary::{Dice, WORDS};
use crate::task::{Probe, TaskBody};

use super::hidden::{self, Case, PYTHON};
use super::routines::routines;

pub(super) fn generate(seeds: &SeedTree) -> Result<TaskBody, ForgeError> {
    let dice = &mut Dice::new(seeds, "task");
    let package = dice.pick(WORDS);
    let (module, other_module) = (dice.pick(&["core", "engine", "logic"]), dice.pick(&["extras", "shared", "basis"]));
    let count = dice.count(3, 6);
    let functions = routines(dice, count);
    let target = dice.count(0, 1);
    let function = &functions[target];
    let (own, others) = functions.split_at(2);
    let path = format!("{package}/{module}.py");
    let old = [dice.number(0, 4), dice.number(0, 12), dice.number(0, 30)];
    let version = |last: i64| format!("{}.{}.{last}", old[0], old[1]);

    let mut draft = Draft::default();
    let init = format!("{package}/__init__.py");
    draft.file(&init, &format!("\"\"\"The package {package}.\"\"\"\n\n__version__ = '{}'\n", version(old[2])))?;
    let sources = |part: &[super::routines::Routine]| part.iter().map(|f| f.source(&f.right)).collect::<Vec<_>>().join("\n\n");
    draft.file(&path, &sources(own))?;
    draft.kept_file(&format!("{package}/{other_module}.py"), &sources(others))?;

    let answer: Value = match dice.number(0, 2) {
        0 => json!(-dice.number(1000, 9999)),
        1 => json!(dice.code()),
        _ => json!([dice.code(), dice.number(1, 99)]),
    };
    // JSON numbers, texts without quotes and lists of them are Python literals.
    let literal = answer.to_string().replace('"', "'").replace(',', ", ");
    let key = format!("A function that has nothing to work on returns {literal}.");
    let doc = format!("{}.md", dice.pick(&["docs/conventions", "CONTRIBUTING", "docs/style", "docs/api"]));
    let notes = dice.document(&format!("Conventions of {package}"), &key);
    draft.kept_file(&doc, &notes)?;

    let import = format!("from {package}.{module} import {}\n", function.name);
    let edges: Vec<Case> = function.edge_arguments.iter().map(|arguments| (arguments.clone(), answer.clone())).collect();
    draft.credit("edge case", hidden::test(dice, &format!("{import}{}", hidden::assertions(&function.name, &edges)))?);
    draft.credit("version", Probe::FileContains { path: init.clone(), text: format!("__version__ = '{}'", version(old[2] + 1)) });
    let mut before = String::new();
    for neighbour in own {
        let cases = neighbour.cases(dice);
        before.push_str(&format!("from {package}.{module} import {}\n{}", neighbour.name, hidden::assertions(&neighbour.name, &cases)));
    }
    draft.guard("everything else as before", hidden::test(dice, &before)?);

    let head = function.source("");
    let change = |answer: &str| edit(&path, &head, &format!("{head}    if {}:\n        return {answer}\n", function.edge));
    draft.act(inspect(&format!("cat {path} {init}")));
    draft.act(inspect(&format!("cat {doc}")));
    draft.act(informed_work(change(&literal), change("None"), &key));
    draft.act(requirement(run(&format!("sed -i \"s/^__version__ = .*/__version__ = '{}'/\" {init}", version(old[2] + 1)))));
    draft.act(verify(&format!("cat {init}; {PYTHON} -c 'import {package}.{module}; print(\"imports\")'")));

    let constraints = [
        format!("The value to return is laid down in {doc}."),
        "All other arguments give the same results as now, and the other functions stay as they are.".to_owned(),
        format!("Raise the last part of `__version__` in {init} by one."),
    ];
    let (name, words) = (&function.name, function.edge_words);
    let intro = match dice.number(0, 2) {
        0 => format!("`{name}` in {path} does not follow our conventions when it is given {words}. Make it do so."),
        1 => format!(
            "Users report that `{name}({})` ({path}) misbehaves for {words}: handle this case as our conventions demand.",
            function.parameters
        ),
        _ => format!("Teach `{name}` in {path} to treat {words} the way this project does everywhere."),
    };
    hidden::joined(draft.body("code", "handle-edge-case", dice.listed(&intro, &constraints))?)
}
