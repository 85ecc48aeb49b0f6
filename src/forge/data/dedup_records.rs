//! Keep one record per key, by a rule with a tie-break.

use crate::base::SeedTree;
use crate::forge::ForgeError;
use crate::forge::draft::{Draft, contains, equals, first_line, informed_work, inspect, python, requirement, verify};
use crate::forge::vocabulary::{Dice, PEOPLE, PLACES, WORDS, fill};
use crate::task::{Probe, TaskBody};

const KEEP: &str = "import csv

rank = @rank@
best = {}
with open('@input@', newline='') as source:
    for row in csv.DictReader(source):
        key = row['@key@'].lower()
        worth = (row['@updated@'], -rank[row['@origin@']])
        if key not in best or worth > best[key][0]:
            best[key] = (worth, row)
with open('@output@', 'w') as target:
    target.write('@header@\\n')
    for key in sorted(best):
        row = best[key][1]
        target.write(','.join([row['no'], key, row['town'], row['@updated@'], row['@origin@']]) + '\\n')
";

const REMOVED: &str = "import csv

def numbers(path):
    with open(path, newline='') as source:
        return {int(row['no']) for row in csv.DictReader(source)}

with open('@removed@', 'w') as target:
    for number in sorted(numbers('@input@') - numbers('@output@')):
        target.write(f'{number}\\n')
";

struct Record<'a> {
    no: i64,
    /// Which key it belongs to, as an index.
    owner: usize,
    town: &'a str,
    date: String,
    /// Which origin, 0 the most trusted.
    origin: usize,
}

/// What people are known by, `owners` times.
fn keys(dice: &mut Dice, key: &str, owners: usize) -> Vec<String> {
    let people = dice.picks(PEOPLE, owners);
    people
        .iter()
        .map(|name| {
            if key == "email" {
                format!("{}@{}.example", name.to_lowercase(), dice.pick(WORDS))
            } else {
                format!("{}.{}", name.to_lowercase(), dice.number(10, 99))
            }
        })
        .collect()
}

/// One to four records of every owner, in the order of the file.
fn records(dice: &mut Dice, owners: usize) -> Vec<Record<'static>> {
    let year = dice.number(2019, 2025);
    let mut records = Vec::new();
    for owner in 0..owners {
        // The first two keys are tied on the date; for the others chance decides, with different origins.
        let copies = if owner < 2 { 2 } else { dice.count(1, 4) };
        let mut ranks = [0, 1, 2, 3];
        dice.shuffle(&mut ranks);
        let same = format!("{year}-{:02}-{:02}", dice.number(1, 12), dice.number(1, 28));
        for rank in &ranks[..copies] {
            let date = if owner < 2 || dice.chance(30) {
                same.clone()
            } else {
                format!("{year}-{:02}-{:02}", dice.number(1, 12), dice.number(1, 28))
            };
            records.push(Record { no: 0, owner, town: dice.pick(PLACES), date, origin: *rank });
        }
    }
    dice.shuffle(&mut records);
    let mut no = dice.number(5, 90);
    for record in &mut records {
        record.no = no;
        no += dice.number(1, 9);
    }
    dice.shuffle(&mut records);
    // Of the first tied pair the less trusted record comes first, so that taking the first one goes wrong.
    let pair: Vec<usize> = (0..records.len()).filter(|i| records[*i].owner == 0).collect();
    if records[pair[0]].origin < records[pair[1]].origin {
        records.swap(pair[0], pair[1]);
    }
    records
}

fn instruction(dice: &mut Dice, [input, output, removed, key, updated, origin, doc]: [&str; 7]) -> String {
    let constraints = [
        format!("Keep the record with the latest `{updated}`; if several share that date, the one whose {origin} is trusted most ({doc})."),
        format!("Write the {key} in lower case and sort by it; the columns stay as they are."),
        format!("Write the `no` of every record that was left out to {removed}, one a line, in rising order of the numbers."),
    ];
    let intro = match dice.number(0, 2) {
        0 => format!(
            "{input} has several records for the same {key}, which differ in upper and lower case. Write {output} with one record per {key}."
        ),
        1 => format!(
            "Remove the duplicates from {input} and save the result as {output}: two records are the same if their `{key}` is equal apart from case."
        ),
        _ => format!("Please produce {output}, a version of {input} where every {key} (ignoring case) occurs once."),
    };
    dice.listed(&intro, &constraints)
}

pub(super) fn generate(seeds: &SeedTree) -> Result<TaskBody, ForgeError> {
    let dice = &mut Dice::new(seeds, "task");
    let (input, output) = (
        format!("{}.csv", dice.pick(&["contacts", "members", "leads", "accounts"])),
        format!("{}.csv", dice.pick(&["clean", "unique", "merged", "kept"])),
    );
    let removed = format!("{}.txt", dice.pick(&["removed", "dropped", "duplicates"]));
    let (key, updated, origin) = (
        dice.pick(&["email", "login", "handle"]),
        dice.pick(&["updated", "changed_on", "last_seen"]),
        dice.pick(&["origin", "source", "system"]),
    );
    let origins = dice.picks(WORDS, 4);
    let owners = dice.count(9, 18);
    let keys = keys(dice, key, owners);

    let records = records(dice, keys.len());

    let mut data = format!("no,{key},town,{updated},{origin}\n");
    for record in &records {
        let shown = match dice.number(0, 2) {
            0 => keys[record.owner].to_uppercase(),
            _ => keys[record.owner].clone(),
        };
        data.push_str(&format!("{},{shown},{},{},{}\n", record.no, record.town, record.date, origins[record.origin]));
    }
    let mut kept: Vec<(&str, &Record<'_>)> = keys
        .iter()
        .enumerate()
        .filter_map(|(owner, key)| {
            let copies = records.iter().filter(|record| record.owner == owner);
            copies.max_by(|a, b| a.date.cmp(&b.date).then(b.origin.cmp(&a.origin))).map(|record| (key.as_str(), record))
        })
        .collect();
    kept.sort_by_key(|(key, _)| *key);
    let header = format!("no,{key},town,{updated},{origin}");
    let body: Vec<String> = kept
        .iter()
        .map(|(key, record)| format!("{},{key},{},{},{}", record.no, record.town, record.date, origins[record.origin]))
        .collect();
    let mut gone: Vec<i64> = records.iter().map(|record| record.no).filter(|no| kept.iter().all(|(_, record)| record.no != *no)).collect();
    gone.sort_unstable();
    let gone: Vec<String> = gone.iter().map(ToString::to_string).collect();

    let line = format!("Trust in the systems, from most to least: {}.", origins.join(", "));
    let doc = format!("{}.md", dice.pick(&["docs/systems", "SYSTEMS", "docs/master_data", "about"]));
    let notes = dice.document("Where records come from", &line);

    let mut draft = Draft::default();
    draft.kept_file(&input, &data)?;
    draft.kept_file(&doc, &notes)?;
    draft.credit("header", first_line(&output, &header));
    draft.credit("first rows", contains(&output, &format!("\n{}", body[..4].join("\n"))));
    draft.credit("whole file", equals(&output, &format!("{header}\n{}\n", body.join("\n"))));
    draft.credit("removed numbers", Probe::LinesEqual { path: removed.clone(), lines: gone.clone() });
    draft.credit("order of the removed", equals(&removed, &gone.join("\n")));

    let script = |template: &str, rank: &str| {
        fill(
            template,
            &[
                ("rank", rank),
                ("input", &input),
                ("output", &output),
                ("removed", &removed),
                ("header", &header),
                ("key", key),
                ("updated", updated),
                ("origin", origin),
            ],
        )
    };
    let ranks = format!("{{name: place for place, name in enumerate('{}'.split())}}", origins.join(" "));
    let flat = format!("dict.fromkeys('{}'.split(), 0)", origins.join(" "));
    draft.act(inspect(&format!("wc -l {input}; head -n 8 {input}")));
    draft.act(inspect(&format!("cat {doc}")));
    draft.act(informed_work(python(script(KEEP, &ranks)), python(script(KEEP, &flat)), &line));
    draft.act(requirement(python(script(REMOVED, ""))));
    draft.act(verify(&format!("wc -l {output} {removed}; head -n 4 {output}")));

    let instruction = instruction(dice, [&input, &output, &removed, key, updated, origin, &doc]);
    draft.body("data", "dedup-records", instruction)
}
