//! Turn long rows into a wide table with an order of columns of its own.

use std::collections::BTreeMap;

use crate::base::SeedTree;
use crate::forge::ForgeError;
use crate::forge::draft::{Draft, contains, equals, first_line, informed_work, inspect, python, requirement, verify};
use crate::forge::vocabulary::{Dice, GOODS, MONTHS, PLACES, TEAMS, fill};
use crate::task::TaskBody;

const PIVOT: &str = "import csv

@order@
cells, names = {}, set()
with open('@input@', newline='') as source:
    for row in csv.DictReader(source, delimiter='@delimiter@'):
        key = (row['@row@'], row['month'])
        names.add(row['@row@'])
        cells[key] = cells.get(key, 0) + int(row['@value@'])
with open('@output@', 'w') as target:
    target.write(','.join(['@row@'] + months) + '\\n')
    for name in sorted(names):
        target.write(','.join([name] + [str(cells.get((name, month), 0)) for month in months]) + '\\n')
";

const TOTALS: &str = "with open('@output@') as source:
    lines = source.read().splitlines()
rows = [line.split(',') for line in lines]
sums = [str(sum(int(row[column]) for row in rows[1:])) for column in range(1, len(rows[0]))]
with open('@output@', 'w') as target:
    for row in rows + [['@total@'] + sums]:
        target.write(','.join(row) + ',' + ('@total@' if row is rows[0] else str(sum(map(int, row[1:])))) + '\\n')
";

fn instruction(dice: &mut Dice, [input, output, row, value, total, doc]: [&str; 6]) -> String {
    let constraints = [
        format!("One column per month that occurs in the data, in the order of our business year ({doc} has it)."),
        format!("Rows are sorted by {row}; a combination that does not occur is 0."),
        format!("Add a last column `{total}` with each row's sum and a last row `{total}` with each column's sum."),
    ];
    let intro = match dice.number(0, 1) {
        0 => format!(
            "{input} has one line per ticket. Make a pivot table of it in {output} (comma separated): a row per {row}, a column per month, each cell the sum of `{value}`. The first header cell is `{row}`."
        ),
        _ => format!(
            "Please pivot {input} into {output}: rows are the values of `{row}`, columns the months, cells the summed `{value}`; comma separated, header line starting with `{row}`."
        ),
    };
    dice.listed(&intro, &constraints)
}

pub(super) fn generate(seeds: &SeedTree) -> Result<TaskBody, ForgeError> {
    let dice = &mut Dice::new(seeds, "task");
    let input = format!("{}.csv", dice.pick(&["movements", "usage", "hours", "shipments"]));
    let output = format!("{}.csv", dice.pick(&["pivot", "table", "by_month", "matrix"]));
    let (row, value) = (dice.pick(&["depot", "article", "crew"]), dice.pick(&["units", "count", "hours"]));
    let delimiter = dice.pick(&[",", ";", "|"]);
    let total = dice.pick(&["all", "sum", "total"]);
    // The months wrap round the end of the year, so that their order is not the calendar's.
    let start = dice.count(3, 11);
    let (first, span) = (MONTHS[start], dice.count((14 - start).max(8), 12));
    let months: Vec<&str> = (0..span).map(|i| MONTHS[(start + i) % 12]).collect();
    let names = dice.picks(
        if row == "depot" {
            PLACES
        } else if row == "crew" {
            TEAMS
        } else {
            GOODS
        },
        7,
    );
    let names = &names[..dice.count(3, 7)];

    let mut cells: BTreeMap<(&str, &str), i64> = BTreeMap::new();
    let mut lines = Vec::new();
    for number in 0..dice.count(40, 90) {
        // Every month and every name occurs; the rest is chance, so some cells stay empty.
        let month = if number < span { months[number] } else { dice.pick(&months) };
        let name = names[if number < names.len() { number } else { dice.count(0, names.len() - 1) }];
        let units = dice.number(1, 180);
        *cells.entry((name, month)).or_default() += units;
        lines.push([dice.number(10_000, 99_999).to_string(), month.to_owned(), name.to_owned(), units.to_string()].join(delimiter));
    }
    dice.shuffle(&mut lines);
    let data = format!("{}\n{}\n", ["ticket", "month", row, value].join(delimiter), lines.join("\n"));

    let mut sorted = names.to_vec();
    sorted.sort_unstable();
    let cell = |name: &str, month: &str| cells.iter().filter(|((n, m), _)| *n == name && *m == month).map(|(_, units)| *units).sum::<i64>();
    let line = |name: &str, values: Vec<i64>| {
        let end = values.iter().sum::<i64>();
        let shown: Vec<String> = values.iter().chain([&end]).map(ToString::to_string).collect();
        format!("{name},{}", shown.join(","))
    };
    let header = format!("{row},{},{total}", months.join(","));
    let body: Vec<String> = sorted.iter().map(|name| line(name, months.iter().map(|month| cell(name, month)).collect())).collect();
    let bottom = line(total, months.iter().map(|month| names.iter().map(|name| cell(name, month)).sum()).collect());

    let key = format!("Our business year starts in {first}, and tables show its months in that order.");
    let doc = format!("{}.md", dice.pick(&["docs/reporting", "docs/style", "REPORTS", "docs/house_rules"]));
    let notes = dice.document("House rules for reports", &key);

    let mut draft = Draft::default();
    draft.kept_file(&input, &data)?;
    draft.kept_file(&doc, &notes)?;
    draft.credit("header", first_line(&output, &header));
    let cells = body[0].rsplit_once(',').map_or(body[0].as_str(), |(cells, _)| cells);
    draft.credit("first cells", contains(&output, &format!("\n{cells}")));
    draft.credit("column sums", contains(&output, &format!("\n{bottom}")));
    draft.credit("whole table", equals(&output, &format!("{header}\n{}\n{bottom}\n", body.join("\n"))));

    let script = |template: &str, order: &str| {
        fill(
            template,
            &[
                ("order", order),
                ("input", &input),
                ("output", &output),
                ("delimiter", delimiter),
                ("row", row),
                ("value", value),
                ("total", total),
            ],
        )
    };
    let list = |months: &[&str]| format!("months = '{}'.split()", months.join(" "));
    let calendar: Vec<&str> = MONTHS.iter().copied().filter(|month| months.contains(month)).collect();
    draft.act(inspect(&format!("head -n 5 {input}; cut -d '{delimiter}' -f 2 {input} | sort | uniq -c")));
    draft.act(inspect(&format!("cat {doc}")));
    draft.act(informed_work(python(script(PIVOT, &list(&months))), python(script(PIVOT, &list(&calendar))), &key));
    draft.act(requirement(python(script(TOTALS, ""))));
    draft.act(verify(&format!("cat {output}")));

    let instruction = instruction(dice, [&input, &output, row, value, total, &doc]);
    draft.body("data", "pivot-table", instruction)
}
