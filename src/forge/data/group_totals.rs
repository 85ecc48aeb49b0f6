//! Group the rows of a delimited file and sum an amount.

use std::collections::BTreeMap;

use crate::base::SeedTree;
use crate::forge::ForgeError;
use crate::forge::draft::{Draft, contains, equals, first_line, informed_work, inspect, python, requirement, verify};
use crate::forge::vocabulary::{Dice, GOODS, PLACES, TEAMS, WORDS, fill, money};
use crate::task::TaskBody;

const SUM: &str = "import csv
from decimal import Decimal

totals, counts = {}, {}
with open('@input@', newline='') as source:
    for row in csv.DictReader(source, delimiter='@delimiter@'):
@skip@        name = row['@group@']@clean@
        totals[name] = totals.get(name, Decimal(0)) + Decimal(row['@amount@'] or '0')
        counts[name] = counts.get(name, 0) + 1
with open('@output@', 'w') as target:
    target.write('@header@\\n')
    for name in sorted(totals, key=lambda name: (-totals[name], name)):
        target.write(f'{name},{counts[name]},{totals[name]:.2f}\\n')
";

const TOTAL: &str = "from decimal import Decimal

with open('@output@') as source:
    rows = [line.rstrip('\\n').split(',') for line in source][1:]
with open('@output@', 'a') as target:
    target.write(f'TOTAL,{sum(int(row[1]) for row in rows)},{sum((Decimal(row[2]) for row in rows), Decimal(0)):.2f}\\n')
";

/// Whether group names are written in one way.
#[derive(Clone, Copy, PartialEq)]
enum Spelling {
    Even,
    Varied,
}

/// The file, and rows and cents of every group without the void ones.
fn orders<'a>(
    dice: &mut Dice,
    [group, status, amount, delimiter, void]: [&str; 5],
    names: &[&'a str],
    spelling: Spelling,
) -> (String, BTreeMap<&'a str, (i64, i64)>) {
    let untidy = spelling == Spelling::Varied;
    let columns = dice.picks(&["id", group, status, amount, "entered_by"], 5);
    let mut lines = vec![columns.join(delimiter)];
    let mut sums: BTreeMap<&'a str, (i64, i64)> = BTreeMap::new();
    for number in 0..dice.count(24, 70) {
        // The first rows make sure that every group counts and that leaving the void rows in would show.
        let is_void = number < 3 || (number >= 9 && dice.chance(15));
        let name = if (3..9).contains(&number) { names[number % names.len()] } else { dice.pick(names) };
        let cents = dice.number(250, 99_999);
        let is_empty = !is_void && number >= 9 && dice.chance(8);
        if !is_void {
            let sum = sums.entry(name).or_default();
            *sum = (sum.0 + 1, sum.1 + if is_empty { 0 } else { cents });
        }
        let shown = match dice.number(0, 3) {
            0 if untidy => name.to_uppercase(),
            1 if untidy => format!(" {name} "),
            _ => name.to_owned(),
        };
        let cells = columns.iter().map(|column| match *column {
            "id" => (4001 + number).to_string(),
            "entered_by" => dice.pick(WORDS).to_owned(),
            column if column == group => shown.clone(),
            column if column == status => {
                if is_void {
                    void.to_owned()
                } else {
                    dice.pick(&["open", "paid", "sent"]).to_owned()
                }
            }
            _ => {
                if is_empty {
                    String::new()
                } else {
                    money(cents)
                }
            }
        });
        lines.push(cells.collect::<Vec<_>>().join(delimiter));
    }
    // The first nine rows must not stand together.
    let (header, rows) = lines.split_at_mut(1);
    dice.shuffle(rows);
    let data = format!("{}\n{}\n", header[0], rows.join("\n"));
    (data, sums)
}

fn instruction(dice: &mut Dice, [input, output, group, amount, doc, header]: [&str; 6], remark: Option<String>) -> String {
    let mut constraints = vec![
        format!("Test entries do not count; {doc} says how to recognise them."),
        "Sort by total from high to low, equal totals by name.".to_owned(),
        "The last line is the grand total: TOTAL, the number of rows, the sum (`TOTAL,<rows>,<sum>`).".to_owned(),
    ];
    constraints.extend(remark);
    let intro = match dice.number(0, 2) {
        0 => format!(
            "Sum the column `{amount}` of {input} for each {group} and write the result to {output}, comma separated, with the header `{header}` and two decimals. An empty {amount} is 0."
        ),
        1 => format!(
            "I need a summary of {input}: per {group} the number of rows and the total {amount} (an empty one is 0). Put it into {output} as CSV with the header line `{header}`; totals have two decimals."
        ),
        _ => format!(
            "From {input} make {output}: a comma-separated file with the header `{header}` and one line per {group}, where total is the sum of `{amount}` with exactly two decimals and an empty `{amount}` counts as 0."
        ),
    };
    dice.listed(&intro, &constraints)
}

pub(super) fn generate(seeds: &SeedTree) -> Result<TaskBody, ForgeError> {
    let dice = &mut Dice::new(seeds, "task");
    let word = dice.pick(WORDS);
    let (input, output) = (format!("{word}_orders.csv"), format!("{}_by_group.csv", dice.pick(&["totals", "sums", "revenue", "spend"])));
    let group = dice.pick(&["region", "branch", "team", "product", "depot"]);
    let (status, amount) = (dice.pick(&["status", "state", "flag"]), dice.pick(&["amount", "net", "value", "charge"]));
    let (delimiter, delimiter_code) = [(",", ","), (";", ";"), ("|", "|"), ("\t", "\\t")][dice.count(0, 3)];
    let void = dice.code();
    let spelling = if dice.chance(45) { Spelling::Varied } else { Spelling::Even };
    let untidy = spelling == Spelling::Varied;
    let names = dice.picks(
        if group == "product" {
            GOODS
        } else if group == "team" {
            TEAMS
        } else {
            PLACES
        },
        6,
    );
    let names = &names[..dice.count(3, 6)];

    let signs = [group, status, amount, delimiter, &void];
    let (data, sums) = orders(dice, signs, names, spelling);

    let key = format!("Rows whose {status} is `{void}` are test entries and never count in any report.");
    let doc = format!("docs/{}.md", dice.pick(&["data_notes", "handbook", "readme", "conventions"]));
    let notes = dice.document(&format!("Notes on {input}"), &key);

    let mut order: Vec<_> = sums.iter().map(|(name, (count, sum))| (*name, *count, *sum)).collect();
    order.sort_by(|a, b| b.2.cmp(&a.2).then(a.0.cmp(b.0)));
    let header = format!("{group},rows,total");
    let body: String = order.iter().map(|(name, count, sum)| format!("{name},{count},{}\n", money(*sum))).collect();
    let (count, sum) = order.iter().fold((0, 0), |all, group| (all.0 + group.1, all.1 + group.2));
    let total = format!("TOTAL,{count},{}", money(sum));

    let mut draft = Draft::default();
    draft.kept_file(&input, &data)?;
    draft.kept_file(&doc, &notes)?;
    draft.credit("header", first_line(&output, &header));
    draft.credit("group rows", contains(&output, &format!("\n{body}")));
    draft.credit("total row", contains(&output, &format!("\n{total}")));
    draft.credit("whole file", equals(&output, &format!("{header}\n{body}{total}\n")));

    let skip = format!("        if row['{status}'] == '{void}':\n            continue\n");
    let values = |skip: &str| {
        fill(
            SUM,
            &[
                ("input", &input),
                ("output", &output),
                ("delimiter", delimiter_code),
                ("group", group),
                ("amount", amount),
                ("header", &header),
                ("clean", if untidy { ".strip().lower()" } else { "" }),
                ("skip", skip),
            ],
        )
    };
    draft.act(inspect(&format!("wc -l {input}; head -n 6 {input}")));
    draft.act(inspect(&format!("cat {doc}")));
    draft.act(informed_work(python(values(&skip)), python(values("")), &key));
    draft.act(requirement(python(fill(TOTAL, &[("output", &output)]))));
    draft.act(verify(&format!("cat {output}")));

    let remark =
        untidy.then(|| format!("Spelling of the {group} varies in case and surrounding blanks; write it in lower case without blanks."));
    let instruction = instruction(dice, [&input, &output, group, amount, &doc, &header], remark);
    draft.body("data", "group-totals", instruction)
}
