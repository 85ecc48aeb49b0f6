//! Find the gaps of a time series in a log.

use crate::base::SeedTree;
use crate::forge::ForgeError;
use crate::forge::draft::{Draft, contains, equals, first_line, informed_work, inspect, python, requirement, verify};
use crate::forge::vocabulary::{Dice, PLACES, WORDS, fill};
use crate::task::TaskBody;

const READ: &str = "from datetime import datetime, timedelta

form = '%Y-%m-%d %H:%M'
with open('@input@') as source:
    seen = {datetime.strptime(line[:16], form) for line in source if '@mark@' in line}
planned = @planned@
step = timedelta(minutes=@step@)
expected, missing = [], []
moment = min(seen)
while moment <= max(seen):
    if not (planned and planned[0] <= moment.strftime(form) <= planned[1]):
        expected.append(moment)
        if moment not in seen:
            missing.append(moment)
    moment += step
";

const GAPS: &str = "
runs = []
for moment in missing:
    if runs and runs[-1][-1] + step == moment:
        runs[-1].append(moment)
    else:
        runs.append([moment])
with open('@output@', 'w') as target:
    target.write('first,last,slots\\n')
    for run in runs:
        target.write(f'{run[0].strftime(form)},{run[-1].strftime(form)},{len(run)}\\n')
";

const AVAILABILITY: &str = "
hundredths = (20000 * (len(expected) - len(missing)) + len(expected)) // (2 * len(expected))
with open('@share@', 'w') as target:
    target.write(f'{hundredths // 100}.{hundredths % 100:02d}\\n')
";

#[derive(Clone, Copy, PartialEq)]
enum Slot {
    Present,
    Missing,
    Planned,
}

/// Runs of readings with gaps between them, one of them planned.
fn slots(dice: &mut Dice) -> Vec<Slot> {
    let gaps = dice.count(3, 6);
    let planned = dice.count(0, gaps - 1);
    let mut slots = vec![Slot::Present; dice.count(5, 12)];
    for gap in 0..gaps {
        let kind = if gap == planned { Slot::Planned } else { Slot::Missing };
        let length = if gap == planned { dice.count(3, 7) } else { dice.count(1, 6) };
        slots.extend(vec![kind; length]);
        slots.extend(vec![Slot::Present; dice.count(4, 13)]);
    }
    slots
}

/// The log: readings, and lines that are none.
fn log(dice: &mut Dice, slots: &[Slot], mark: &str, stamp: &impl Fn(usize) -> String) -> String {
    let mut lines = Vec::new();
    for (number, slot) in slots.iter().enumerate() {
        let place = dice.pick(PLACES);
        match slot {
            Slot::Present => lines.push(format!("{} {place} {mark}{}", stamp(number), dice.number(100, 999))),
            // Lines that are no readings stand in gaps too.
            _ if dice.chance(40) => lines.push(format!("{} {place} link lost, retry {}", stamp(number), dice.number(1, 9))),
            _ => {}
        }
        if *slot == Slot::Present && dice.chance(8) {
            lines.push(format!("{} {place} battery {}", stamp(number), dice.number(10, 99)));
        }
    }
    // Late lines: a few change places.
    for _ in 0..dice.count(2, 6) {
        let place = dice.count(1, lines.len() - 3);
        lines.swap(place, place + 1);
    }
    format!("{}\n", lines.join("\n"))
}

/// First and last slot of every run of missing slots.
fn gaps(slots: &[Slot]) -> Vec<(usize, usize)> {
    let mut rows: Vec<(usize, usize)> = Vec::new();
    for slot in (0..slots.len()).filter(|slot| slots[*slot] == Slot::Missing) {
        match rows.last_mut() {
            Some(row) if row.1 + 1 == slot => row.1 = slot,
            _ => rows.push((slot, slot)),
        }
    }
    rows
}

fn instruction(dice: &mut Dice, [input, output, share, mark, step, doc, header]: [&str; 7]) -> String {
    let constraints = [
        format!("Only lines with `{mark}` are readings, and they are not quite in order."),
        format!("{doc} mentions a planned downtime: its slots are neither expected nor missing."),
        format!(
            "Write the share of expected slots that have a reading to {share}: a percentage with two decimals (rounded half up), only the number."
        ),
        "Times are written as in the log.".to_owned(),
    ];
    let intro = match dice.number(0, 1) {
        0 => format!(
            "{input} should have a reading every {step} minutes from its first to its last one. List the gaps in {output}: CSV with the header `{header}`, one line per run of consecutive missing slots (first and last missing time, number of slots), oldest first."
        ),
        _ => format!(
            "Find the holes in {input}, where a reading is due every {step} minutes between the earliest and the latest one, and write them to {output} with the header `{header}`: for each run of missing times the first, the last and how many, in order of time."
        ),
    };
    dice.listed(&intro, &constraints)
}

pub(super) fn generate(seeds: &SeedTree) -> Result<TaskBody, ForgeError> {
    let dice = &mut Dice::new(seeds, "task");
    let input = format!("{}.log", dice.pick(&["meter", "sensor", "probe", "gauge"]));
    let (output, share) = (
        format!("{}.csv", dice.pick(&["gaps", "outages", "holes"])),
        format!("{}.txt", dice.pick(&["availability", "coverage", "uptime"])),
    );
    let mark = dice.pick(&["value=", "reading=", "level="]);
    let step = [5, 10, 15, 20, 30][dice.count(0, 4)];
    let (year, month, day) = (dice.number(2019, 2025), dice.number(1, 12), dice.number(1, 24));
    let start = dice.number(0, 40) * step;
    let stamp = |slot: usize| {
        let minute = start + step * i64::try_from(slot).unwrap_or(0);
        format!("{year}-{month:02}-{:02} {:02}:{:02}", day + minute / 1440, minute / 60 % 24, minute % 60)
    };

    let slots = slots(dice);

    let log = log(dice, &slots, mark, &stamp);

    let inside: Vec<usize> = (0..slots.len()).filter(|slot| slots[*slot] == Slot::Planned).collect();
    let window = (stamp(inside[0]), stamp(inside[inside.len() - 1]));
    let key = format!("Planned downtime from {} up to and including {}.", window.0, window.1);
    let doc = format!("{}.md", dice.pick(&["docs/operations", "docs/calendar", "DIARY", "station_book"]));
    let title = format!("Diary of station {}", dice.pick(WORDS));
    let notes = dice.document(&title, &key);

    let rows = gaps(&slots);

    let body: Vec<String> = rows.iter().map(|(first, last)| format!("{},{},{}", stamp(*first), stamp(*last), last - first + 1)).collect();
    let present = slots.iter().filter(|slot| **slot == Slot::Present).count();
    let expected = present + slots.iter().filter(|slot| **slot == Slot::Missing).count();
    // Hundredths of a per cent, half up.
    let hundredths = (present * 20_000 + expected) / (2 * expected);

    let mut draft = Draft::default();
    draft.kept_file(&input, &log)?;
    draft.kept_file(&doc, &notes)?;
    let header = "first,last,slots";
    draft.credit("header", first_line(&output, header));
    draft.credit("last gap", contains(&output, &format!("\n{}", body[body.len() - 1])));
    draft.credit("all gaps", equals(&output, &format!("{header}\n{}\n", body.join("\n"))));
    draft.credit("availability", equals(&share, &format!("{}.{:02}", hundredths / 100, hundredths % 100)));

    let script = |part: &str, planned: &str| {
        let values = [
            ("planned", planned),
            ("input", input.as_str()),
            ("output", &output),
            ("share", &share),
            ("mark", mark),
            ("step", &step.to_string()),
        ];
        fill(&format!("{READ}{part}"), &values)
    };
    let planned = format!("('{}', '{}')", window.0, window.1);
    draft.act(inspect(&format!("wc -l {input}; head -n 12 {input}")));
    draft.act(inspect(&format!("cat {doc}")));
    draft.act(informed_work(python(script(GAPS, &planned)), python(script(GAPS, "None")), &key));
    draft.act(requirement(python(script(AVAILABILITY, &planned))));
    draft.act(verify(&format!("cat {output} {share}")));

    let instruction = instruction(dice, [&input, &output, &share, mark, &step.to_string(), &doc, header]);
    draft.body("data", "series-gaps", instruction)
}
