//! Rename a function across code and configuration.

use crate::base::SeedTree;
use crate::forge::ForgeError;
use crate::forge::draft::{Draft, informed_work, inspect, python, requirement, run, verify, work};
use crate::forge::vocabulary::{Dice, GOODS, PLACES, TEAMS, WORDS, fill};
use crate::task::TaskBody;

use super::hidden::{self, PYTHON};

const MAIN: &str = "import importlib
import sys

def load(path):
    table = {}
    for line in open(path):
        if '=' in line and not line.startswith('#'):
            name, target = line.strip().split(' = ')
            table[name] = target
    return table

def call(command, *numbers):
    module, function = load('commands.ini')[command].split(':')
    return getattr(importlib.import_module(module), function)(*numbers)

if __name__ == '__main__':
    print(call(sys.argv[1], *map(int, sys.argv[2:])))
";

const ALIAS: &str = "import re

with open('@core@') as source:
    text = source.read()
text += '''

def @old@(*arguments):
    import warnings
    warnings.warn('@old@ is now @new@', DeprecationWarning, stacklevel=2)
    return @new@(*arguments)
'''
with open('@core@', 'w') as target:
    target.write(text)
";

/// A long table of commands in which `line` stands somewhere behind the first third.
fn command_table(dice: &mut Dice, package: &str, line: &str) -> String {
    let mut lines = Vec::new();
    for number in 0..dice.count(70, 130) {
        let (good, place) = (dice.pick(GOODS), dice.pick(PLACES));
        lines.push(match number % 7 {
            0 => format!("# {} looks after these", dice.pick(TEAMS)),
            _ => format!("{place}_{good}_{number} = {package}.extra:{}", dice.pick(&["double", "negate", "identity"])),
        });
    }
    let place = dice.count(lines.len() * 2 / 5, lines.len() * 3 / 5);
    lines.insert(place, line.to_owned());
    format!("# command = module:function\n{}\n", lines.join("\n"))
}

fn instruction(dice: &mut Dice, [core, old, new]: [&str; 3]) -> String {
    let constraints = [
        "Change every place that uses the old name, code and configuration alike; nothing else changes.".to_owned(),
        format!(
            "Code that others wrote still calls the old name: keep `{old}` in {core} as a function with the same results that emits a DeprecationWarning."
        ),
        "No code of this project may use the old name or trigger that warning.".to_owned(),
    ];
    let intro = match dice.number(0, 1) {
        0 => format!("Rename the function `{old}` of {core} to `{new}` throughout this project."),
        _ => format!("The name `{old}` ({core}) has outlived its meaning. From now on it is `{new}`, everywhere in this folder."),
    };
    dice.listed(&intro, &constraints)
}

pub(super) fn generate(seeds: &SeedTree) -> Result<TaskBody, ForgeError> {
    let dice = &mut Dice::new(seeds, "task");
    let words = dice.picks(WORDS, 3);
    let package = words[0];
    let (old, new) = (
        format!("{}_{}", dice.pick(&["calc", "do", "get"]), words[1]),
        format!("{}_{}", dice.pick(&["compute", "derive", "total"]), words[2]),
    );
    let (factor, shift) = (dice.number(3, 29), dice.number(2, 90));
    let core = format!("{package}/core.py");
    let users = dice.picks(&["report", "invoice", "forecast", "audit", "digest"], 4);
    let users = &users[..dice.count(2, 4)];

    let mut draft = Draft::default();
    draft.file(&format!("{package}/__init__.py"), "")?;
    draft.file(
        &core,
        &format!("def {old}(a, b):\n    return {factor} * a - b + {shift}\n\n\ndef limit(value):\n    return max(0, value)\n"),
    )?;
    draft.file(
        &format!("{package}/extra.py"),
        "def double(a):\n    return 2 * a\n\n\ndef negate(a):\n    return -a\n\n\ndef identity(a):\n    return a\n",
    )?;
    let mut weights = Vec::new();
    for user in users {
        let weight = dice.number(2, 50);
        let text = if dice.chance(50) {
            format!("from {package}.core import {old}, limit\n\n\ndef {user}(a, b):\n    return limit({old}(a, b)) + {weight}\n")
        } else {
            format!(
                "from {package} import core\n\n\ndef {user}(a, b):\n    value = core.{old}(a, b)\n    return core.limit(value) + {weight}\n"
            )
        };
        draft.file(&format!("{package}/{user}.py"), &text)?;
        weights.push((*user, weight));
    }
    draft.kept_file("main.py", MAIN)?;
    let command = format!("{}_{}", dice.pick(PLACES), dice.code().to_lowercase().replace('-', "_"));
    let line = format!("{command} = {package}.core:{old}");
    let table = command_table(dice, package, &line);
    draft.file("commands.ini", &table)?;

    let cases: Vec<(i64, i64)> = (0..5).map(|_| (dice.number(5, 60), dice.number(1, 9))).collect();
    let value = |(a, b): (i64, i64)| factor * a - b + shift;
    let expect = |function: &str, add: i64, limit: bool| -> String {
        cases
            .iter()
            .map(|(a, b)| {
                format!("assert {function}({a}, {b}) == {}\n", if limit { value((*a, *b)).max(0) } else { value((*a, *b)) } + add)
            })
            .collect()
    };
    let body =
        format!("import {package}.core as core\n{}assert core.{new}.__name__ == '{new}'\n", expect(&format!("core.{new}"), 0, false));
    draft.credit("new name", hidden::test(dice, &body)?);
    let alias = format!(
        "import warnings\nimport {package}.core as core\nwith warnings.catch_warnings(record=True) as seen:\n    warnings.simplefilter('always')\n    assert core.{old}({a}, {b}) == {}\nassert any(issubclass(entry.category, DeprecationWarning) for entry in seen)\n",
        value(cases[0]),
        a = cases[0].0,
        b = cases[0].1
    );
    draft.credit("alias that warns", hidden::test(dice, &alias)?);
    let through = "import warnings\nwarnings.simplefilter('error')\n";
    let body: String = weights
        .iter()
        .map(|(user, weight)| {
            format!(
                "from {package}.{user} import {user}\n{}assert '{old}' not in open('{package}/{user}.py').read()\n",
                expect(user, *weight, true)
            )
        })
        .collect();
    draft.credit("callers", hidden::test(dice, &format!("{through}{body}"))?);
    let body = format!("{through}import main\nassert main.call('{command}', {}, {}) == {}\n", cases[1].0, cases[1].1, value(cases[1]));
    draft.credit("command table", hidden::test(dice, &format!("{body}assert '{old}' not in open('commands.ini').read()\n"))?);
    let others = table.replace(&format!("{line}\n"), "");
    let rest = format!(
        "lines = [line for line in open('commands.ini') if not line.startswith('{command} ')]\nassert ''.join(lines).rstrip() == {}.rstrip()\n",
        hidden::literal(&others.into())
    );
    draft.guard("other commands unchanged", hidden::test(dice, &rest)?);
    let body: String =
        weights.iter().map(|(user, weight)| format!("from {package}.{user} import {user}\n{}", expect(user, *weight, true))).collect();
    draft.guard("behaviour", hidden::test(dice, &body)?);

    draft.act(inspect(&format!("ls {package}; tail -n +1 {package}/*.py")));
    draft.act(inspect("cat main.py commands.ini"));
    draft.act(work(run(&format!("sed -i 's/\\b{old}\\b/{new}/g' {package}/*.py")), run(&format!("sed -i 's/\\b{old}\\b/{new}/g' {core}"))));
    let entry = |entry: &str, to: &str| run(&format!("sed -i 's/^{entry} = .*/{entry} = {package}.core:{to}/' commands.ini"));
    draft.act(informed_work(entry(&command, &new), entry(&format!("{new}_command"), &new), &line));
    draft.act(requirement(python(fill(ALIAS, &[("core", &core), ("old", &old), ("new", &new)]))));
    draft.act(verify(&format!("grep -rnw {old} . ; {PYTHON} main.py {command} 7 2")));

    let instruction = instruction(dice, [&core, &old, &new]);
    hidden::joined(draft.body("code", "rename-api", instruction)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_entry_is_where_a_head_and_tail_do_not_reach() {
        for index in 0..50 {
            let text = command_table(&mut Dice::new(&SeedTree::new(index), "t"), "p", "the entry");
            let at = text.find("the entry").unwrap();
            assert!(at + MAIN.len() > 1400 && text.len() - at > 1000, "{at} of {}", text.len());
        }
    }
}
