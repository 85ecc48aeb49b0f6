//! Add an option to a command-line program.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::base::SeedTree;
use crate::forge::ForgeError;
use crate::forge::draft::{Draft, edit, informed_work, inspect, requirement, verify, work};
use crate::forge::vocabulary::{Dice, GOODS, PLACES, WORDS, fill};
use crate::task::TaskBody;

use super::hidden::{self, PYTHON};

const TOOL: &str = "import argparse
import os


def results(path):
    found = {}
    for line in open(path):
        name, number = line.split()
        found[name] = @combine@
    return found


def main():
    parser = argparse.ArgumentParser(description='@about@')
    parser.add_argument('path', help='lines of a name and a number')
    parser.add_argument('--reverse', action='store_true', help='last name first')
    options = parser.parse_args()
    found = results(options.path)
    for name in sorted(found, reverse=options.reverse):
        print(f'{name}: {found[name]}')


if __name__ == '__main__':
    main()
";

const RUN: &str = "import os, subprocess, sys
with open('hidden_data.txt', 'w') as target:
    target.write(json.loads(@data@))
for arguments, variables, status, output, message in json.loads(@runs@):
    done = subprocess.run([sys.executable, '-B', '@tool@', 'hidden_data.txt', *arguments], env={**os.environ, **variables}, capture_output=True, text=True)
    assert done.returncode == status, (arguments, variables, done)
    assert done.stdout == output, (arguments, variables, done)
    assert message in done.stderr, (arguments, variables, done)
";

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Min,
    Max,
    Top,
}

impl Kind {
    fn about(self) -> &'static str {
        match self {
            Self::Min => "only names whose number in the output is at least N are shown",
            Self::Max => "only names whose number in the output is at most N are shown",
            Self::Top => {
                "only the N names with the highest numbers are shown (of equal ones the alphabetically first), still ordered by name"
            }
        }
    }

    /// The lines that apply the option, right or careless.
    fn code(self, option: &str, careless: &str) -> String {
        let kept = match (self, careless) {
            (Self::Min, "") => format!("name: number for name, number in found.items() if number >= options.{option}"),
            (Self::Min, _) => format!("name: number for name, number in found.items() if number > options.{option}"),
            (Self::Max, "") => format!("name: number for name, number in found.items() if number <= options.{option}"),
            (Self::Max, _) => format!("name: number for name, number in found.items() if number < options.{option}"),
            (Self::Top, "") => {
                format!("name: found[name] for name in sorted(found, key=lambda name: (-found[name], name))[:options.{option}]")
            }
            (Self::Top, _) => format!("name: found[name] for name in sorted(found)[:options.{option}]"),
        };
        format!("    if options.{option} is not None:\n        found = {{{kept}}}\n")
    }

    fn keep<'a>(self, found: &BTreeMap<&'a str, i64>, n: i64) -> BTreeMap<&'a str, i64> {
        let entries = found.iter().map(|(name, number)| (*name, *number));
        match self {
            Self::Min => entries.filter(|entry| entry.1 >= n).collect(),
            Self::Max => entries.filter(|entry| entry.1 <= n).collect(),
            Self::Top => {
                let mut entries: Vec<_> = entries.collect();
                entries.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
                entries.into_iter().take(usize::try_from(n).unwrap_or(0)).collect()
            }
        }
    }
}

fn printed(found: &BTreeMap<&str, i64>, reverse: &str) -> String {
    let lines = found.iter().map(|(name, number)| format!("{name}: {number}\n"));
    if reverse.is_empty() { lines.collect() } else { lines.rev().collect() }
}

pub(super) fn generate(seeds: &SeedTree) -> Result<TaskBody, ForgeError> {
    let dice = &mut Dice::new(seeds, "task");
    let tool = format!("{}.py", dice.pick(WORDS));
    let kind = [Kind::Min, Kind::Max, Kind::Top][dice.count(0, 2)];
    let option = match kind {
        Kind::Min => dice.pick(&["least", "min", "above"]),
        Kind::Max => dice.pick(&["most", "max", "below"]),
        Kind::Top => dice.pick(&["top", "best", "first"]),
    };
    let way = dice.count(0, 2);
    let (combine, about) = [
        ("found.get(name, 0) + int(number)", "Sums the numbers of each name."),
        ("max(found.get(name, 0), int(number))", "Finds the highest number of each name."),
        ("found.get(name, 0) + 1", "Counts the lines of each name."),
    ][way];

    // Names with different results, one at a time until there are enough.
    let pool = if dice.chance(50) { GOODS } else { PLACES };
    let names = dice.picks(pool, 8);
    let (mut rows, mut found) = (Vec::new(), BTreeMap::new());
    for (place, name) in names.iter().enumerate() {
        // The number of lines rises with the place in random order, so that counts differ too.
        for _ in 0..=place {
            let number = dice.number(10, 90);
            rows.push(format!("{name} {number}\n"));
            let result = found.entry(*name).or_insert(0);
            *result = [*result + number, number.max(*result), *result + 1][way];
        }
    }
    dice.shuffle(&mut rows);
    let mut numbers: Vec<i64> = found.values().copied().collect();
    numbers.sort_unstable();
    let (lowest, n) =
        if kind == Kind::Top { (1, dice.number(2, 4)) } else { (numbers[0].min(dice.number(2, 9)), numbers[dice.count(2, 5)]) };
    let variable = format!("{}_{}", dice.pick(WORDS).to_uppercase(), dice.code().replace('-', "_"));

    let mut draft = Draft::default();
    draft.file(&tool, &fill(TOOL, &[("combine", combine), ("about", about)]))?;
    let key = format!("The environment variable for `--{option}` is {variable}.");
    let doc = format!("{}.md", dice.pick(&["docs/options", "docs/environment", "OPTIONS", "docs/manual"]));
    let notes = dice.document(&format!("Options of {tool}"), &key);
    draft.kept_file(&doc, &notes)?;
    draft.file("example.txt", &rows.iter().take(9).map(String::as_str).collect::<String>())?;

    let flag = format!("--{option}");
    let program = |runs: &[Value]| {
        let (data, runs) = (Value::from(rows.concat()).to_string(), Value::from(runs.to_vec()).to_string());
        fill(RUN, &[("tool", &tool), ("data", &hidden::literal(&data.into())), ("runs", &hidden::literal(&runs.into()))])
    };
    let none = json!({});
    let kept = kind.keep(&found, n);
    let with_option = [
        json!([[flag, n.to_string()], none, 0, printed(&kept, ""), ""]),
        json!([[flag, n.to_string(), "--reverse"], none, 0, printed(&kept, "reverse"), ""]),
    ];
    draft.credit("option", hidden::test(dice, &program(&with_option))?);
    let other = if kind == Kind::Top { n + 2 } else { numbers[6] };
    let from_environment = [
        json!([[], {variable.as_str(): n.to_string()}, 0, printed(&kept, ""), ""]),
        json!([[flag, n.to_string()], {variable.as_str(): other.to_string()}, 0, printed(&kept, ""), ""]),
    ];
    draft.credit("environment", hidden::test(dice, &program(&from_environment))?);
    let message = format!("{flag} must be at least {lowest}");
    let refusals = [
        json!([[flag, (lowest - 1).to_string()], none, 2, "", message]),
        json!([[flag, lowest.to_string()], none, 0, printed(&kind.keep(&found, lowest), ""), ""]),
    ];
    draft.credit("refusal", hidden::test(dice, &program(&refusals))?);
    let before = [json!([[], none, 0, printed(&found, ""), ""]), json!([["--reverse"], none, 0, printed(&found, "reverse"), ""])];
    draft.guard("as before without it", hidden::test(dice, &program(&before))?);

    let anchor = "    options = parser.parse_args()\n";
    let add = |default: &str| {
        edit(
            &tool,
            anchor,
            &format!("    parser.add_argument('{flag}', type=int, metavar='N'{default}, help='{}')\n{anchor}", kind.about()),
        )
    };
    let apply = |careless: &str| {
        let anchor = "    found = results(options.path)\n";
        edit(&tool, anchor, &format!("{anchor}{}", kind.code(option, careless)))
    };
    draft.act(inspect(&format!("cat {tool}; {PYTHON} {tool} example.txt")));
    draft.act(inspect(&format!("cat {doc}")));
    draft.act(informed_work(add(&format!(", default=os.environ.get('{variable}')")), add(""), &key));
    draft.act(work(apply(""), apply("careless")));
    let refuse =
        format!("{anchor}    if options.{option} is not None and options.{option} < {lowest}:\n        parser.error('{message}')\n");
    draft.act(requirement(edit(&tool, anchor, &refuse)));
    draft.act(verify(&format!(
        "{PYTHON} {tool} example.txt {flag} {n}; {PYTHON} {tool} example.txt {flag} {}; {PYTHON} {tool} --help",
        lowest - 1
    )));

    let constraints = [
        format!("If the option is absent, the environment variable that {doc} names for it gives N; the option wins where both are there."),
        format!(
            "N below {lowest} is refused like any wrong argument: exit status 2 and a message on standard error that holds `{message}`."
        ),
        "With neither option nor variable everything stays as it is; `--reverse` works along with it.".to_owned(),
    ];
    let intro = match dice.number(0, 1) {
        0 => format!("Give the program {tool} an option `{flag} N` (a whole number): {}.", kind.about()),
        _ => format!("{tool} needs a new flag. With `{flag} N`, N a whole number, {}.", kind.about()),
    };
    hidden::joined(draft.body("code", "add-flag", dice.listed(&intro, &constraints))?)
}
