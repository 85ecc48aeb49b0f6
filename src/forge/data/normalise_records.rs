//! Bring dates, decimals and currencies of several offices into one form.

use crate::base::SeedTree;
use crate::forge::ForgeError;
use crate::forge::draft::{Draft, contains, equals, first_line, informed_work, inspect, python, requirement, verify};
use crate::forge::vocabulary::{Dice, MONTHS, PLACES, fill, money};
use crate::task::{Probe, TaskBody};

const READ: &str = "import csv
from datetime import datetime
from decimal import Decimal, ROUND_HALF_UP

def date(text):
    for form in ('%Y-%m-%d', '%d.%m.%Y', '%d/%m/%Y', '%d %b %Y'):
        try:
            return datetime.strptime(text, form).date().isoformat()
        except ValueError:
            pass
    return None

with open('@input@', newline='') as source:
    rows = list(csv.DictReader(source, delimiter=';'))
";

const CONVERT: &str = "
rates = {@rates@}
done = []
for row in rows:
    if date(row['date']) is None:
        continue
    digits = row['@amount@'].replace('.', '').replace(',', '')
    amount = Decimal(digits) / 100 * Decimal(rates[row['currency']])
    done.append((date(row['date']), row['@id@'], amount.quantize(Decimal('0.01'), ROUND_HALF_UP)))
with open('@output@', 'w') as target:
    target.write('@header@\\n')
    for day, number, amount in sorted(done):
        target.write(f'{number},{day},{amount}\\n')
";

const REJECT: &str = "
with open('@rejects@', 'w') as target:
    for row in rows:
        if date(row['date']) is None:
            target.write(row['@id@'] + '\\n')
";

/// `cents` as an office writes it; always with two decimals.
fn shown_amount(dice: &mut Dice, cents: i64) -> String {
    let plain = money(cents);
    let (whole, rest) = plain.split_at(plain.len() - 3);
    let grouped = |mark: &str| {
        if whole.len() > 3 { format!("{}{mark}{}", &whole[..whole.len() - 3], &whole[whole.len() - 3..]) } else { whole.to_owned() }
    };
    match dice.number(0, 3) {
        0 => plain.clone(),
        1 => plain.replace('.', ","),
        2 => format!("{}{}", grouped("."), rest.replace('.', ",")),
        _ => format!("{}{rest}", grouped(",")),
    }
}

fn shown_date(dice: &mut Dice, year: i64, month: i64, day: i64) -> String {
    match dice.number(0, 3) {
        0 => format!("{year}-{month:02}-{day:02}"),
        1 => format!("{day:02}.{month:02}.{year}"),
        2 => format!("{day:02}/{month:02}/{year}"),
        _ => format!("{day} {} {year}", usize::try_from(month - 1).ok().and_then(|index| MONTHS.get(index)).copied().unwrap_or("Non")),
    }
}

fn instruction(dice: &mut Dice, [input, output, rejects, id, base, doc, header]: [&str; 7]) -> String {
    let constraints = [
        "Dates become YYYY-MM-DD (where only numbers are given, the day comes before the month, except when the year comes first)."
            .to_owned(),
        format!(
            "Amounts become {base} at the book rates of {doc}, rounded half up to two decimals, with a point and no grouping; every amount in the input has two decimals, after a point or a comma."
        ),
        format!("Sort by date, then by {id}."),
        format!(
            "A date that does not exist makes the row invalid: leave it out and write its `{id}` to {rejects} instead, one a line in the order of the input."
        ),
    ];
    let intro = match dice.number(0, 1) {
        0 => format!("Our offices fill in {input} each in their own way. Write {output} in one form: comma separated, header `{header}`."),
        _ => format!("Normalise {input} (separated by semicolons) into {output}, a comma-separated file with the header `{header}`."),
    };
    dice.listed(&intro, &constraints)
}

pub(super) fn generate(seeds: &SeedTree) -> Result<TaskBody, ForgeError> {
    let dice = &mut Dice::new(seeds, "task");
    let input = format!("{}_{}.csv", dice.pick(&["invoices", "expenses", "receipts", "claims"]), dice.pick(PLACES));
    let (output, rejects) = (
        format!("{}.csv", dice.pick(&["normalised", "uniform", "booked"])),
        format!("{}.txt", dice.pick(&["rejects", "bad_dates", "refused"])),
    );
    let (id, amount) = (dice.pick(&["no", "voucher", "ref"]), dice.pick(&["amount", "gross", "sum"]));
    let currencies = dice.picks(&["CHF", "NOK", "GBP", "PLN", "SEK", "DKK"], 2);
    let base = dice.pick(&["EUR", "USD"]);
    let rates = [dice.number(1_111, 9_899), dice.number(11_111, 19_899)];
    let year = dice.number(2018, 2025);

    let (mut data, mut rows, mut refused) = (format!("{id};date;{amount};currency\n"), Vec::new(), Vec::new());
    for number in 0..dice.count(18, 45) {
        let reference = format!("{}{:03}", dice.pick(&["A", "B", "C"]), number + 1);
        let cents = if dice.chance(50) { dice.number(100_000, 999_999) } else { dice.number(1_000, 99_999) };
        let which = if number < 2 { number } else { dice.count(0, 2) };
        let currency = currencies.get(which).copied().unwrap_or(base);
        let is_refused = matches!(number, 4 | 9) || dice.chance(6);
        let (month, day) = if is_refused { (2, dice.number(30, 31)) } else { (dice.number(1, 12), dice.number(1, 28)) };
        let date = shown_date(dice, year, month, day);
        data.push_str(&format!("{reference};{date};{};{currency}\n", shown_amount(dice, cents)));
        if is_refused {
            refused.push(reference);
        } else {
            // Rates have four decimals; half a cent goes up.
            let converted = rates.get(which).map_or(cents, |rate| (cents * rate + 5_000) / 10_000);
            rows.push((format!("{year}-{month:02}-{day:02}"), reference, converted));
        }
    }
    rows.sort();
    let header = format!("{id},date,{}", base.to_lowercase());
    let body: Vec<String> = rows.iter().map(|(date, reference, cents)| format!("{reference},{date},{}", money(*cents))).collect();

    let shown = |rate: i64| format!("{}.{:04}", rate / 10_000, rate % 10_000);
    let key = format!("Book rates: 1 {} = {} {base}, 1 {} = {} {base}.", currencies[0], shown(rates[0]), currencies[1], shown(rates[1]));
    let doc = format!("{}.md", dice.pick(&["docs/accounting", "docs/rates", "ACCOUNTING", "policy"]));
    let notes = dice.document("Accounting handbook", &key);

    let mut draft = Draft::default();
    draft.kept_file(&input, &data)?;
    draft.kept_file(&doc, &notes)?;
    draft.credit("header", first_line(&output, &header));
    draft.credit("first rows", contains(&output, &format!("\n{}", body[..3].join("\n"))));
    draft.credit("whole file", equals(&output, &format!("{header}\n{}\n", body.join("\n"))));
    draft.credit("refused", Probe::LinesEqual { path: rejects.clone(), lines: refused.clone() });
    draft.credit("order of the refused", equals(&rejects, &refused.join("\n")));

    let script = |part: &str, rates: [i64; 2]| {
        let table = format!("'{base}': '1', '{}': '{}', '{}': '{}'", currencies[0], shown(rates[0]), currencies[1], shown(rates[1]));
        fill(
            &format!("{READ}{part}"),
            &[
                ("input", &input),
                ("output", &output),
                ("rejects", &rejects),
                ("id", id),
                ("amount", amount),
                ("header", &header),
                ("rates", &table),
            ],
        )
    };
    draft.act(inspect(&format!("wc -l {input}; head -n 12 {input}")));
    draft.act(inspect(&format!("cat {doc}")));
    draft.act(informed_work(python(script(CONVERT, rates)), python(script(CONVERT, [10_000, 10_000])), &key));
    draft.act(requirement(python(script(REJECT, rates))));
    draft.act(verify(&format!("head -n 5 {output}; cat {rejects}")));

    let instruction = instruction(dice, [&input, &output, &rejects, id, base, &doc, &header]);
    draft.body("data", "normalise-records", instruction)
}
