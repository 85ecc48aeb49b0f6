//! Filter JSON lines, correct them, rank them and keep the best.

use crate::base::SeedTree;
use crate::forge::ForgeError;
use crate::forge::draft::{Draft, contains, equals, informed_work, inspect, python, requirement, verify};
use crate::forge::vocabulary::{Dice, PLACES, WORDS, fill};
use crate::task::{Probe, TaskBody};

const RANK: &str = "import json

kept = []
with open('@input@') as source:
    for line in source:
        record = json.loads(line)
        score = record['@metric@']
@correct@        if score >= @floor@ and record['@label@'] != '@barred@':
            kept.append((-score, record['@name@']))
kept.sort()
with open('@output@', 'w') as target:
    for place, (score, name) in enumerate(kept[:@top@], 1):
        target.write(f'{place}\\t{name}\\t{-score}\\n')
";

const META: &str = "import json

with open('@output@') as source:
    rows = [line.rstrip('\\n').split('\\t') for line in source]
best = {'listed': len(rows), 'lowest': int(rows[-1][2]), 'sum': sum(int(row[2]) for row in rows)}
with open('@meta@', 'w') as target:
    json.dump(best, target)
";

/// Name, shown score and label of every record. Scores are close, with ties, so that order by name and the correction both matter.
fn records(dice: &mut Dice, floor: i64, labels: &[&'static str]) -> Vec<(String, i64, &'static str)> {
    let (barred, faulty) = (labels[0], labels[1]);
    let mut records = Vec::new();
    for number in 0..dice.count(26, 60) {
        let shown = match number {
            // The best of all is barred; the next best reads too high.
            0 => (floor + 500, barred),
            1 => (floor + 400, faulty),
            2..12 => (floor + 200 + 3 * dice.number(0, 6), labels[dice.count(2, 3)]),
            _ => (floor + dice.number(-70, 260), labels[dice.count(0, 3)]),
        };
        let (place, round) = (PLACES[number % PLACES.len()], number / PLACES.len());
        records.push((format!("{place}-{}{round}", dice.number(1, 9)), shown.0, shown.1));
    }
    records
}

fn instruction(dice: &mut Dice, [input, output, meta, metric, name, label, barred, floor, top, doc]: [&str; 10]) -> String {
    let constraints = [
        format!("Correct the {metric} first: {doc} tells which records were recorded wrongly and by how much."),
        format!("Leave out records whose {label} is `{barred}` and those whose corrected {metric} is below {floor}."),
        format!("Equal values are ordered by {name}."),
        format!(
            "Also write {meta}, a JSON object with `listed` (rows in {output}), `lowest` (the last row's {metric}) and `sum` (of the listed values)."
        ),
    ];
    let intro = match dice.number(0, 2) {
        0 => format!(
            "List the {top} records of {input} with the highest {metric} in {output}: place (from 1), {name} and {metric}, separated by tabs, no header."
        ),
        1 => format!(
            "Who is ahead? Write {output} with the top {top} of {input} by `{metric}`, one a line, as rank<TAB>{name}<TAB>{metric} and nothing else."
        ),
        _ => format!(
            "Make a tab-separated file {output} without a header: the {top} highest entries of {input} by `{metric}`, columns rank, `{name}`, `{metric}`."
        ),
    };
    dice.listed(&intro, &constraints)
}

pub(super) fn generate(seeds: &SeedTree) -> Result<TaskBody, ForgeError> {
    let dice = &mut Dice::new(seeds, "task");
    let input = format!("{}.jsonl", dice.pick(&["runs", "stations", "entries", "probes", "trials"]));
    let output = format!("{}.tsv", dice.pick(&["ranking", "top", "leaders", "best"]));
    let meta = output.replace(".tsv", ".meta.json");
    let (metric, name, label) = (
        dice.pick(&["score", "reading", "points", "yield"]),
        dice.pick(&["name", "station", "unit"]),
        dice.pick(&["grade", "kind", "source"]),
    );
    let (top, floor) = (dice.count(5, 9), dice.number(80, 200));
    let labels = dice.picks(WORDS, 4);
    let (barred, faulty) = (labels[0], labels[1]);
    let offset = dice.number(41, 97);

    let records = records(dice, floor, &labels);

    let mut ranked: Vec<(i64, &str)> = records
        .iter()
        .filter(|record| record.2 != barred)
        .map(|(name, shown, label)| (if *label == faulty { shown - offset } else { *shown }, name.as_str()))
        .filter(|(score, _)| *score >= floor)
        .collect();
    ranked.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(b.1)));
    ranked.truncate(top);

    let mut shown = records.clone();
    dice.shuffle(&mut shown);
    let mut text = String::new();
    for (id, score, kind) in &shown {
        text.push_str(&format!("{}\n", serde_json::json!({name: id, metric: score, label: kind, "batch": dice.number(1, 40)})));
    }
    let key = format!("Where {label} is `{faulty}`, every {metric} was recorded {offset} too high.");
    let doc = format!("{}.log", dice.pick(&["calibration", "maintenance", "service"]));
    let title = format!("Service book {}", dice.code());
    let notes = dice.document(&title, &key);

    let body: Vec<String> = ranked.iter().enumerate().map(|(place, (score, name))| format!("{}\t{name}\t{score}", place + 1)).collect();
    let sum: i64 = ranked.iter().map(|row| row.0).sum();
    let lowest = ranked.last().map_or(0, |row| row.0);

    let mut draft = Draft::default();
    draft.kept_file(&input, &text)?;
    draft.kept_file(&doc, &notes)?;
    draft.credit("ranking", equals(&output, &body.join("\n")));
    draft.credit("first three", contains(&output, &body[..3.min(body.len())].join("\n")));
    draft.credit(
        "summary",
        Probe::JsonEquals { path: meta.clone(), value: serde_json::json!({"listed": ranked.len(), "lowest": lowest, "sum": sum}) },
    );

    let script = |template: &str, correct: &str| {
        fill(
            template,
            &[
                ("input", &input),
                ("output", &output),
                ("meta", &meta),
                ("metric", metric),
                ("name", name),
                ("label", label),
                ("barred", barred),
                ("floor", &floor.to_string()),
                ("top", &top.to_string()),
                ("correct", correct),
            ],
        )
    };
    let correct = format!("        if record['{label}'] == '{faulty}':\n            score -= {offset}\n");
    draft.act(inspect(&format!("wc -l {input}; head -n 4 {input}")));
    draft.act(inspect(&format!("cat {doc}")));
    draft.act(informed_work(python(script(RANK, &correct)), python(script(RANK, "")), &key));
    draft.act(requirement(python(script(META, ""))));
    draft.act(verify(&format!("cat {output} {meta}")));

    let instruction = instruction(dice, [&input, &output, &meta, metric, name, label, barred, &floor.to_string(), &top.to_string(), &doc]);
    draft.body("data", "top-ranking", instruction)
}
