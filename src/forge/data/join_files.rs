//! Join two files whose keys are written differently.

use crate::base::SeedTree;
use crate::forge::ForgeError;
use crate::forge::draft::{Draft, contains, equals, first_line, informed_work, inspect, python, requirement, verify};
use crate::forge::vocabulary::{Dice, GOODS, PEOPLE, PLACES, WORDS, fill};
use crate::task::{Probe, TaskBody};

const READ: &str = "import csv, json

people = {}
with open('@left@') as source:
    for line in source:
        record = json.loads(line)
        people[record['@key@']] = record
with open('@right@', newline='') as source:
    orders = list(csv.DictReader(source))
";

const JOIN: &str = "
with open('@output@', 'w') as target:
    target.write('@header@\\n')
    for order in sorted(orders, key=lambda order: int(order['number'])):
        key = order['@foreign@']@strip@
        if key in people:
            person = people[key]
            target.write(f\"{order['number']},{person['name']},{person['town']},{order['item']},{order['quantity']}\\n\")
";

const UNMATCHED: &str = "
missing = {order['@foreign@']@strip@ for order in orders} - set(people)
with open('@unmatched@', 'w') as target:
    for key in sorted(missing):
        target.write(key + '\\n')
";

/// Number, id, item and quantity; at least two ids are unknown.
fn orders<'a>(dice: &mut Dice, known: &'a [String], unknown: &'a [String]) -> Vec<(i64, &'a str, &'static str, i64)> {
    let mut orders: Vec<(i64, &str, &str, i64)> = Vec::new();
    for number in 0..dice.count(18, 45) {
        let id = match number {
            0 | 1 => &unknown[number],
            _ if dice.chance(12) => &unknown[dice.count(0, 3)],
            _ => &known[dice.count(0, known.len() - 1)],
        };
        orders.push((0, id, dice.pick(GOODS), dice.number(1, 60)));
    }
    dice.shuffle(&mut orders);
    // Numbers of one to four digits, so that sorting them as text goes wrong.
    let mut number = dice.number(2, 9);
    for order in &mut orders {
        order.0 = number;
        number += dice.number(1, 40);
    }
    orders
}

/// Twelve to twenty different ids.
fn ids(dice: &mut Dice) -> Vec<String> {
    let mut numbers: Vec<i64> = (100..999).collect();
    dice.shuffle(&mut numbers);
    numbers.truncate(dice.count(8, 16) + 4);
    numbers.iter().map(|number| format!("{}{number}", dice.pick(&["a", "b", "c"]))).collect()
}

fn instruction(dice: &mut Dice, [left, right, output, unmatched, key, foreign, doc, header]: [&str; 8]) -> String {
    let constraints = [
        format!("Some keys in {right} are still written the old way; {doc} explains how they map."),
        "Order the rows by number, as numbers from low to high.".to_owned(),
        format!("Keys of {right} that are not in {left} go to {unmatched} in today's form: each once, one a line, sorted."),
        "Leave the input files as they are.".to_owned(),
    ];
    let intro = match dice.number(0, 2) {
        0 => format!(
            "Join {right} with {left}: the column `{foreign}` refers to `{key}`. Write the matching rows to {output} with the header `{header}`."
        ),
        1 => format!(
            "For every row of {right} look up the record in {left} whose `{key}` is the row's `{foreign}`, and write {output}, a CSV file with the columns `{header}` (header line first), holding the rows that have a match."
        ),
        _ => format!(
            "Please combine {left} and {right} into {output} (comma separated, header `{header}`, matched rows only). `{foreign}` in the CSV file holds the `{key}` of the JSON lines."
        ),
    };
    dice.listed(&intro, &constraints)
}

pub(super) fn generate(seeds: &SeedTree) -> Result<TaskBody, ForgeError> {
    let dice = &mut Dice::new(seeds, "task");
    let (left, right) = (
        format!("{}.jsonl", dice.pick(&["customers", "members", "suppliers", "contacts"])),
        format!("{}.csv", dice.pick(&["orders", "bookings", "deliveries", "requests"])),
    );
    let (output, unmatched) = (
        format!("{}.csv", dice.pick(&["joined", "combined", "matched", "report"])),
        format!("{}.txt", dice.pick(&["unmatched", "unknown_ids", "missing"])),
    );
    let (key, foreign) = (dice.pick(&["id", "code", "ref", "account"]), dice.pick(&["customer", "owner", "party", "client_id"]));
    let prefix = format!("{}/", dice.code());

    let ids = ids(dice);

    let (known, unknown) = ids.split_at(ids.len() - 4);
    let names = dice.picks(PEOPLE, known.len());
    let people: Vec<(&str, &str, &str)> = known.iter().zip(&names).map(|(id, name)| (id.as_str(), *name, dice.pick(PLACES))).collect();
    let left_text: String = people
        .iter()
        .map(|(id, name, town)| format!("{}\n", serde_json::json!({key: id, "name": name, "town": town, "since": dice.number(1998, 2025)})))
        .collect();

    let orders = orders(dice, known, unknown);

    let mut shown = orders.clone();
    dice.shuffle(&mut shown);
    let mut right_text = format!("number,{foreign},item,quantity\n");
    let mut is_first = true;
    for (number, id, item, quantity) in &shown {
        // Some keys carry the prefix of the old system, the first of a known one always.
        let is_known = known.iter().any(|other| other == id);
        let old = (is_first && is_known) || dice.chance(35);
        is_first &= !is_known;
        right_text.push_str(&format!("{number},{}{id},{item},{quantity}\n", if old { &prefix } else { "" }));
    }

    let header = "number,name,town,item,quantity";
    let find = |id: &str| people.iter().find(|person| person.0 == id);
    let body: String = orders
        .iter()
        .filter_map(|(number, id, item, quantity)| find(id).map(|(_, name, town)| format!("{number},{name},{town},{item},{quantity}\n")))
        .collect();
    let mut missing: Vec<&str> = orders.iter().map(|order| order.1).filter(|id| find(id).is_none()).collect();
    missing.sort_unstable();
    missing.dedup();

    let line = format!("Keys taken over from the old system start with `{prefix}`; the rest of such a key is the {key} in use today.");
    let doc = format!("{}.md", dice.pick(&["MIGRATION", "NOTES", "docs/keys", "docs/history"]));
    let title = format!("The move of {}", dice.pick(WORDS));
    let notes = dice.document(&title, &line);

    let mut draft = Draft::default();
    draft.kept_file(&left, &left_text)?;
    draft.kept_file(&right, &right_text)?;
    draft.kept_file(&doc, &notes)?;
    draft.credit("header", first_line(&output, header));
    draft.credit("joined rows", contains(&output, &format!("\n{}", body.trim_end())));
    draft.credit("whole file", equals(&output, &format!("{header}\n{body}")));
    let lines = missing.iter().map(|id| (*id).to_owned()).collect();
    draft.credit("unmatched ids", Probe::LinesEqual { path: unmatched.clone(), lines });
    draft.credit("unmatched order", equals(&unmatched, &missing.join("\n")));

    let script = |part: &str, strip: &str| {
        let strip = fill(strip, &[("prefix", &prefix)]);
        fill(
            &format!("{READ}{part}"),
            &[
                ("left", &left),
                ("right", &right),
                ("key", key),
                ("foreign", foreign),
                ("output", &output),
                ("unmatched", &unmatched),
                ("header", header),
                ("strip", &strip),
            ],
        )
    };
    let strip = ".removeprefix('@prefix@')";
    draft.act(inspect(&format!("head -n 3 {left}; head -n 6 {right}; wc -l {left} {right}")));
    draft.act(inspect(&format!("cat {doc}")));
    draft.act(informed_work(python(script(JOIN, strip)), python(script(JOIN, "")), &line));
    draft.act(requirement(python(script(UNMATCHED, strip))));
    draft.act(verify(&format!("head -n 5 {output}; cat {unmatched}")));

    let instruction = instruction(dice, [&left, &right, &output, &unmatched, key, foreign, &doc, header]);
    draft.body("data", "join-files", instruction)
}
