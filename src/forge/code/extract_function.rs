//! Extract a repeated calculation without changing behaviour.

use serde_json::json;

use crate::base::SeedTree;
use crate::forge::ForgeError;
use crate::forge::draft::{Draft, informed_work, inspect, python, requirement, verify, work, write};
use crate::forge::vocabulary::{Dice, GOODS, PLACES, WORDS, fill};
use crate::task::TaskBody;

use super::hidden::{self, Case, PYTHON};

const REPLACE: &str = "block = '''@block@'''
with open('@path@') as source:
    text = source.read()
text = text.replace(block, '    value = @name@(value)\\n'@limit@)
with open('@path@', 'w') as target:
    target.write('from @module@ import @name@\\n\\n\\n' + text)
";

const USES: &str = "import @module@
calls = []
@module@.@name@ = lambda value: calls.append(value) or 5
import @user@
for function in @functions@:
    calls.clear()
    getattr(@user@, function)(17)
    assert len(calls) == 1, function
assert '@line@' not in open('@user@.py').read()
";

/// The repeated calculation: a multiplication with remainder, and a correction.
#[derive(Clone, Copy)]
struct Block {
    factor: i64,
    addend: i64,
    modulus: i64,
    correction: i64,
}

impl Block {
    fn first_line(self) -> String {
        format!("value = (value * {} + {}) % {}", self.factor, self.addend, self.modulus)
    }

    fn text(self) -> String {
        format!("    {}\n    if value > {}:\n        value -= {}\n", self.first_line(), self.modulus / 2, self.correction)
    }

    fn value(self, value: i64) -> i64 {
        let value = (value * self.factor + self.addend) % self.modulus;
        if value > self.modulus / 2 { value - self.correction } else { value }
    }
}

/// A function around the block: what is added before and after.
struct Around {
    name: String,
    before: i64,
    after: i64,
}

impl Around {
    fn source(&self, block: Block) -> String {
        format!("def {}(number):\n    value = number + {}\n{}    return value + {}\n", self.name, self.before, block.text(), self.after)
    }

    fn cases(&self, dice: &mut Dice, block: Block) -> Vec<Case> {
        (0..8)
            .map(|_| dice.number(0, 4000))
            .map(|number| (vec![json!(number)], json!(block.value(number + self.before) + self.after)))
            .collect()
    }
}

/// A function that has nothing to do with it.
fn filler(dice: &mut Dice, number: usize) -> String {
    let (good, place) = (dice.pick(GOODS), dice.pick(PLACES));
    format!(
        "def {good}_{number}(count):\n    \"\"\"How many of {good} {place} orders for `count`, in packs of {pack}.\"\"\"\n    packs = count // {pack}\n    if count % {pack}:\n        packs += 1\n    return packs * {pack} + {}\n",
        dice.number(1, 20),
        pack = dice.number(2, 24)
    )
}

pub(super) fn generate(seeds: &SeedTree) -> Result<TaskBody, ForgeError> {
    let dice = &mut Dice::new(seeds, "task");
    let users = dice.picks(&["report", "billing", "stock", "dispatch", "nightly"], 2);
    let (main, other) = (users[0], users[1]);
    let (module, word) = (dice.pick(&["shared", "basis", "steps"]), dice.pick(WORDS));
    let name = format!("{}_{word}", dice.pick(&["settle", "adjust", "fold"]));
    let block = Block {
        factor: dice.number(11, 97),
        addend: dice.number(3, 99),
        modulus: dice.number(1_001, 9_999),
        correction: dice.number(2, 40),
    };
    let words = dice.picks(WORDS, 5);
    let mut around: Vec<Around> =
        words.iter().map(|word| Around { name: format!("{word}_code"), before: dice.number(1, 300), after: dice.number(1, 300) }).collect();
    let last = around.split_off(4);
    around.truncate(dice.count(2, 4));

    let mut sources = Vec::new();
    let long = if dice.chance(80) { dice.count(9, 16) } else { 1 };
    for number in 0..long {
        sources.push(filler(dice, number));
    }
    for (number, function) in around.iter().enumerate() {
        sources.push(function.source(block));
        sources.push(filler(dice, 20 + number));
    }
    if long > 1 {
        for number in 30..30 + dice.count(3, 8) {
            sources.push(filler(dice, number));
        }
    }
    let path = |module: &str| format!("{module}.py");
    let mut draft = Draft::default();
    draft.file(&path(main), &sources.join("\n\n"))?;
    draft.file(&path(other), &[filler(dice, 50), last[0].source(block), filler(dice, 51)].join("\n\n"))?;

    let cases: Vec<Case> = (0..12).map(|_| dice.number(0, 9000)).map(|number| (vec![json!(number)], json!(block.value(number)))).collect();
    draft.credit("the function", hidden::test(dice, &format!("from {module} import {name}\n{}", hidden::assertions(&name, &cases)))?);
    let mut before = String::new();
    for (user, functions) in [(main, &around), (other, &last)] {
        let names: Vec<&str> = functions.iter().map(|function| function.name.as_str()).collect();
        let values = [
            ("module", module),
            ("name", name.as_str()),
            ("user", user),
            ("line", &block.first_line()),
            ("functions", &json!(names).to_string()),
        ];
        draft.credit(&format!("used in {user}.py"), hidden::test(dice, &fill(USES, &values))?);
        for function in functions {
            let cases = function.cases(dice, block);
            before.push_str(&format!("from {user} import {}\n{}", function.name, hidden::assertions(&function.name, &cases)));
        }
    }
    draft.guard("behaviour", hidden::test(dice, &before)?);

    let script = |user: &str, limit: &str| {
        let values = [
            ("block", block.text()),
            ("path", path(user)),
            ("name", name.clone()),
            ("module", module.to_owned()),
            ("limit", limit.to_owned()),
        ];
        let values: Vec<(&str, &str)> = values.iter().map(|(key, value)| (*key, value.as_str())).collect();
        python(fill(REPLACE, &values))
    };
    let function = |block: Block| {
        write(
            &path(module),
            &format!("def {name}(value):\n    \"\"\"The calculation all codes share.\"\"\"\n{}    return value\n", block.text()),
        )
    };
    draft.act(inspect(&format!("wc -l *.py; cat {}", path(main))));
    draft.act(inspect(&format!("wc {}; grep -n '^def' {}", path(other), path(other))));
    draft.act(informed_work(function(block), function(Block { correction: block.correction + 1, ..block }), &block.first_line()));
    draft.act(work(script(main, ""), script(main, ", 1")));
    draft.act(requirement(script(other, "")));
    draft.act(verify(&format!(
        "head -n 12 {}; {PYTHON} -c 'import {main}, {other}; print({main}.{}(17), {other}.{}(17))'",
        path(other),
        around[0].name,
        last[0].name
    )));

    let constraints = [
        format!("The function belongs into a new module {} and takes and returns one number.", path(module)),
        format!("{} has a copy of the calculation too.", path(other)),
        "No result of any existing function may change, and no copy may be left.".to_owned(),
    ];
    let intro = match dice.number(0, 1) {
        0 => format!(
            "Several functions in {} repeat the same three lines of arithmetic. Move them into a function `{name}(value)` and call it instead.",
            path(main)
        ),
        _ => format!(
            "Refactor {}: the calculation that its `..._code` functions have in common is to become `{name}(value)`, called by each of them once.",
            path(main)
        ),
    };
    hidden::joined(draft.body("code", "extract-function", dice.listed(&intro, &constraints))?)
}
