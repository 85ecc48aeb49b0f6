//! One function of a package is wrong; a long test log says which.

use crate::base::SeedTree;
use crate::forge::ForgeError;
use crate::forge::draft::{Draft, contains, edit, informed_work, inspect, requirement, run, verify};
use crate::forge::vocabulary::{Dice, WORDS};
use crate::task::{Act, Probe, TaskBody};

use super::hidden::{self, PYTHON};
use super::routines::{Routine, routines};

/// A visible test program that prints every case of `functions`, so that a failure stands somewhere in the middle.
fn visible_tests(dice: &mut Dice, package: &str, modules: &[(&str, &[Routine])]) -> String {
    let mut text = "import importlib, json, sys\n\nsys.path.insert(0, '.')\nCASES = [\n".to_owned();
    for (module, functions) in modules {
        for function in *functions {
            for (arguments, expected) in function.cases(dice).into_iter().chain(function.cases(dice)) {
                let case = serde_json::json!([module, function.name, arguments, expected]).to_string();
                text.push_str(&format!("    {},\n", hidden::literal(&case.into())));
            }
        }
    }
    text.push_str(&format!(
        "]
failed = 0
for module, name, arguments, expected in map(json.loads, CASES):
    function = getattr(importlib.import_module('{package}.' + module), name)
    shown = f'{{module}}: {{name}}(' + ', '.join(map(repr, arguments)) + ')'
    try:
        got = function(*arguments)
    except Exception as error:
        got = error
    if got == expected:
        print(f'ok    {{shown}} gives {{got!r}}')
    else:
        failed += 1
        print(f'FAIL  {{shown}} gives {{got!r}}, not {{expected!r}}')
print(f'{{len(CASES)}} cases, {{failed}} failed')
sys.exit(failed > 0)
"
    ));
    text
}

pub(super) fn generate(seeds: &SeedTree) -> Result<TaskBody, ForgeError> {
    let dice = &mut Dice::new(seeds, "task");
    let package = dice.pick(WORDS);
    let modules = dice.picks(&["billing", "shapes", "calendar_tools", "texts", "ranges", "tables", "rules"], 3);
    let count = dice.count(5, 7);
    let functions = routines(dice, count);
    // Neither in the first module nor the last function, so that the failure is not at an end of the log.
    let wrong = dice.count(2, count - 2);
    let parts = [&functions[..2], &functions[2..4], &functions[4..]];
    let (module, function) = (modules[if wrong < 4 { 1 } else { 2 }], &functions[wrong]);
    let path = format!("{package}/{module}.py");

    let mut draft = Draft::default();
    draft.file(&format!("{package}/__init__.py"), "")?;
    for (name, part) in modules.iter().zip(parts) {
        let sources: Vec<String> = part.iter().map(|f| f.source(if f.name == function.name { &f.broken } else { &f.right })).collect();
        let (file, text) = (format!("{package}/{name}.py"), sources.join("\n\n"));
        if *name == module { draft.file(&file, &text)? } else { draft.kept_file(&file, &text)? }
    }
    let named: Vec<(&str, &[Routine])> = modules.iter().copied().zip(parts).collect();
    let tests = visible_tests(dice, package, &named);
    draft.kept_file("tests/run.py", &tests)?;
    let changes = format!("# Changes of {package}\n\n- first version\n");
    draft.file("CHANGES.md", &changes)?;

    let import = format!("from {package}.{module} import {}\n", function.name);
    let cases = function.cases(dice);
    draft.credit("the function", hidden::test(dice, &format!("{import}{}", hidden::assertions(&function.name, &cases)))?);
    let line = format!("- fixed: {}", function.name);
    let pattern = format!(r"(?m)\A# Changes of {package}\n\n- first version\n{}\s*\z", regex::escape(&line));
    draft.credit("entry in CHANGES.md", Probe::FileMatches { path: "CHANGES.md".to_owned(), pattern });
    let mut neighbours = String::new();
    for neighbour in parts[if wrong < 4 { 1 } else { 2 }].iter().filter(|f| f.name != function.name) {
        let cases = neighbour.cases(dice);
        neighbours.push_str(&format!("from {package}.{module} import {}\n{}", neighbour.name, hidden::assertions(&neighbour.name, &cases)));
    }
    draft.guard("neighbours unharmed", hidden::test(dice, &neighbours)?);

    let evidence = format!("FAIL  {module}: {}(", function.name);
    let change = |to: &str| edit(&path, &function.source(&function.broken), &function.source(to));
    draft.act(inspect(&format!("{PYTHON} tests/run.py")));
    draft.act(inspect(&format!("cat {path} CHANGES.md")));
    draft.act(informed_work(change(&function.right), change(&function.careless), &evidence));
    draft.act(Act { evidence: Some(evidence), ..requirement(run(&format!("printf '%s\\n' '{line}' >> CHANGES.md"))) });
    draft.act(verify(&format!("{PYTHON} tests/run.py | tail -n 3; tail -n 2 CHANGES.md")));
    draft.guard("older changes kept", contains("CHANGES.md", &changes));

    let constraints = [
        "Exactly one function is wrong; leave all others and the tests as they are, and keep its signature.".to_owned(),
        "The visible cases are only examples: the function has to be right for other arguments too.".to_owned(),
        "Add the line `- fixed: NAME` at the end of CHANGES.md, with the name of the function.".to_owned(),
        format!("For reference, what the functions in question are meant to do: {}", meanings(&functions)),
    ];
    let intro = match dice.number(0, 2) {
        0 => format!("`python3 tests/run.py` reports failures in the package `{package}`. Find the cause and repair it."),
        1 => format!("Something in `{package}/` broke with the last change: tests/run.py fails. Please fix the code."),
        _ => format!(
            "The test program tests/run.py of the package {package} ends with exit status 1. Make it pass by mending the faulty function."
        ),
    };
    hidden::joined(draft.body("code", "fix-function", dice.listed(&intro, &constraints))?)
}

fn meanings(functions: &[Routine]) -> String {
    // In the order of the texts, so that the place says nothing; the names are in the code.
    let mut texts: Vec<String> = functions.iter().map(|f| format!("({}) {}", f.parameters, f.about)).collect();
    texts.sort();
    texts.join(" ")
}
