//! Compare two ledgers and report what does not agree.

use crate::base::SeedTree;
use crate::forge::ForgeError;
use crate::forge::draft::{Draft, contains, equals, first_line, informed_work, inspect, python, requirement, verify};
use crate::forge::vocabulary::{Dice, PEOPLE, WORDS, fill, money};
use crate::task::{Probe, TaskBody};

const READ: &str = "import csv, json
from decimal import Decimal

with open('@ours@', newline='') as source:
    ours = {row['ref']: Decimal(row['@amount@']) for row in csv.DictReader(source, delimiter='@delimiter@')}
with open('@theirs@') as source:
    theirs = {entry['reference'].upper(): Decimal(entry['cents']) / 100 for entry in json.load(source)['entries']}
";

const COMPARE: &str = "
with open('@output@', 'w') as target:
    target.write('@header@\\n')
    for ref in sorted(set(ours) | set(theirs)):
        a, b = ours.get(ref), theirs.get(ref)
        if b is None:
            target.write(f'{ref},@only_ours@,{a:.2f},\\n')
        elif a is None:
            target.write(f'{ref},@only_theirs@,,{b:.2f}\\n')
        elif abs(a - b) > Decimal('@tolerance@'):
            target.write(f'{ref},@differs@,{a:.2f},{b:.2f}\\n')
";

const BALANCE: &str = "
balance = {
    'ours': f'{sum(ours.values(), Decimal(0)):.2f}',
    'theirs': f'{sum(theirs.values(), Decimal(0)):.2f}',
    'common': len(set(ours) & set(theirs)),
}
with open('@balance@', 'w') as target:
    json.dump(balance, target)
";

/// Reference, our cents, their cents.
type Entry = (String, Option<i64>, Option<i64>);

/// Entries of every kind, in any order.
fn entries(dice: &mut Dice, tolerance: i64) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    for number in 0..dice.count(20, 45) {
        let cents = dice.number(500, 250_000);
        let kind = if number < 6 { number } else { dice.count(0, 9) };
        let sign = if dice.chance(50) { 1 } else { -1 };
        let (left, right) = match kind {
            0 => (Some(cents), None),
            1 => (None, Some(cents)),
            2 => (Some(cents), Some(cents + sign * dice.number(1, tolerance))),
            3 => (Some(cents), Some(cents + sign * (tolerance + dice.number(1, 400)))),
            // Exactly the tolerance still agrees.
            4 => (Some(cents), Some(cents + sign * tolerance)),
            _ => (Some(cents), Some(cents)),
        };
        entries.push((format!("{}{}{:02}", dice.pick(&["K", "M", "R"]), dice.number(10, 99), number), left, right));
    }
    dice.shuffle(&mut entries);
    entries
}

/// Their side, in another order and with references in either case.
fn statement(dice: &mut Dice, entries: &[Entry]) -> String {
    let mut statement = Vec::new();
    let mut order: Vec<&Entry> = entries.iter().collect();
    dice.shuffle(&mut order);
    for (reference, _, right) in order {
        if let Some(cents) = right {
            let shown = if dice.chance(40) { reference.to_lowercase() } else { reference.clone() };
            statement.push(format!("    {}", serde_json::json!({"reference": shown, "cents": cents})));
        }
    }
    format!("{{\n  \"entries\": [\n{}\n  ]\n}}\n", statement.join(",\n"))
}

fn instruction(
    dice: &mut Dice,
    [ours, theirs, output, balance, amount, only_ours, only_theirs, differs, doc, header]: [&str; 10],
) -> String {
    let constraints = [
        format!(
            "The kinds are `{only_ours}` (not in {theirs}), `{only_theirs}` (not in {ours}) and `{differs}`; an amount that does not exist stays empty, all others have two decimals."
        ),
        format!("Small differences are tolerated, {doc} says how far."),
        format!("References are upper case in the report whatever the case in {theirs}, and the lines are sorted by them."),
        format!(
            "Write the control sums to {balance}: an object with `ours` and `theirs` (each file's total over all its entries as a text with two decimals) and `common` (the number of references in both)."
        ),
    ];
    let intro = match dice.number(0, 1) {
        0 => format!(
            "Reconcile {ours} (column `{amount}`, matched by `ref`) with {theirs} (amounts in cents). Write what does not agree to {output}, comma separated, header `{header}`."
        ),
        _ => format!(
            "Compare our {ours} with {theirs}, whose amounts are in cents, reference by reference (`ref` against `reference`, ours in `{amount}`), and list every disagreement in {output} as CSV with the header `{header}`."
        ),
    };
    dice.listed(&intro, &constraints)
}

pub(super) fn generate(seeds: &SeedTree) -> Result<TaskBody, ForgeError> {
    let dice = &mut Dice::new(seeds, "task");
    let (ours, theirs) =
        (format!("{}.csv", dice.pick(&["ledger", "books", "journal"])), format!("{}.json", dice.pick(&["bank", "statement", "partner"])));
    let (output, balance) = (
        format!("{}.csv", dice.pick(&["differences", "reconciliation", "open_items"])),
        format!("{}.json", dice.pick(&["balance", "sums", "control"])),
    );
    let amount = dice.pick(&["amount", "booked", "value"]);
    let delimiter = dice.pick(&[",", ";", "|"]);
    let (only_ours, only_theirs, differs) =
        [("missing_there", "missing_here", "amount"), ("only_ours", "only_theirs", "differs"), ("unpaid", "unknown", "mismatch")]
            [dice.count(0, 2)];
    let tolerance = dice.number(11, 89);

    let mut entries = entries(dice, tolerance);

    let mut ledger = [["day", "ref", "party", amount].join(delimiter), String::new()].join("\n");
    for (reference, left, _) in &entries {
        if let Some(cents) = left {
            let cells = [dice.number(1, 28).to_string(), reference.clone(), dice.pick(PEOPLE).to_owned(), money(*cents)];
            ledger.push_str(&format!("{}\n", cells.join(delimiter)));
        }
    }
    let statement = statement(dice, &entries);

    entries.sort();
    let header = "ref,kind,ours,theirs";
    let body: Vec<String> = entries
        .iter()
        .filter_map(|(reference, left, right)| match (left, right) {
            (Some(a), None) => Some(format!("{reference},{only_ours},{},", money(*a))),
            (None, Some(b)) => Some(format!("{reference},{only_theirs},,{}", money(*b))),
            (Some(a), Some(b)) if (a - b).abs() > tolerance => Some(format!("{reference},{differs},{},{}", money(*a), money(*b))),
            _ => None,
        })
        .collect();
    let sums = serde_json::json!({
        "ours": money(entries.iter().filter_map(|entry| entry.1).sum()),
        "theirs": money(entries.iter().filter_map(|entry| entry.2).sum()),
        "common": entries.iter().filter(|entry| entry.1.is_some() && entry.2.is_some()).count(),
    });

    let key = format!("Differences of up to and including {} are bank charges and count as agreement.", money(tolerance));
    let doc = format!("{}.md", dice.pick(&["docs/closing", "docs/bank", "PROCEDURE", "closing_rules"]));
    let title = format!("Monthly closing at {}", dice.pick(WORDS));
    let notes = dice.document(&title, &key);

    let mut draft = Draft::default();
    draft.kept_file(&ours, &ledger)?;
    draft.kept_file(&theirs, &statement)?;
    draft.kept_file(&doc, &notes)?;
    draft.credit("header", first_line(&output, header));
    draft.credit("first item", contains(&output, &format!("\n{}\n", body[0])));
    draft.credit("whole report", equals(&output, &format!("{header}\n{}\n", body.join("\n"))));
    draft.credit("control sums", Probe::JsonEquals { path: balance.clone(), value: sums });

    let script = |part: &str, tolerance: i64| {
        fill(
            &format!("{READ}{part}"),
            &[
                ("ours", &ours),
                ("theirs", &theirs),
                ("output", &output),
                ("balance", &balance),
                ("amount", amount),
                ("delimiter", delimiter),
                ("header", header),
                ("only_ours", only_ours),
                ("only_theirs", only_theirs),
                ("differs", differs),
                ("tolerance", &money(tolerance)),
            ],
        )
    };
    draft.act(inspect(&format!("head -n 5 {ours}; head -n 8 {theirs}; wc -l {ours} {theirs}")));
    draft.act(inspect(&format!("cat {doc}")));
    draft.act(informed_work(python(script(COMPARE, tolerance)), python(script(COMPARE, 0)), &key));
    draft.act(requirement(python(script(BALANCE, tolerance))));
    draft.act(verify(&format!("cat {output} {balance}")));

    let instruction = instruction(dice, [&ours, &theirs, &output, &balance, amount, only_ours, only_theirs, differs, &doc, header]);
    draft.body("data", "reconcile-ledgers", instruction)
}
