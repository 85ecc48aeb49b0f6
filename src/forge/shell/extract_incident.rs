//! Count the errors of one incident in a long log.

use std::collections::{BTreeMap, BTreeSet};

use super::parts::lines;
use crate::base::SeedTree;
use crate::forge::ForgeError;
use crate::forge::draft::{Draft, equals, informed_work, inspect, run, verify};
use crate::forge::vocabulary::{Dice, PEOPLE, TEAMS, WORDS};
use crate::task::{Act, ActCall, ActRole, TaskBody, Variant};

/// Lines of one stretch of the log, with what counts in it.
#[derive(Default)]
struct Stretch {
    text: String,
    codes: BTreeMap<String, u32>,
    users: BTreeSet<String>,
}

pub(super) fn generate(seeds: &SeedTree) -> Result<TaskBody, ForgeError> {
    let dice = &mut Dice::new(seeds, "task");
    let log = format!("{}.log", dice.pick(&["app", "gateway", "portal", "worker", "backend"]));
    let folder = dice.pick(&["", "logs/", "var/"]);
    let log = format!("{folder}{log}");
    let (report, users) = (dice.pick(&["report.txt", "errors.txt", "counts.txt"]), dice.pick(&["affected.txt", "users.txt", "people.txt"]));
    let teams = dice.picks(TEAMS, 2);
    let (team, other) = (teams[0], teams[1]);
    let (mine, theirs) = (dice.code(), dice.code());
    let codes: Vec<String> = (0..dice.count(4, 7)).map(|_| format!("E{}", dice.number(100, 999))).collect();
    let mut clock = dice.number(6 * 3600, 9 * 3600);

    let count = [dice.count(20, 70), dice.count(14, 30), dice.count(10, 24), dice.count(10, 20), dice.count(6, 14)];
    let mut stretches: Vec<Stretch> = count.into_iter().map(|count| stretch(dice, &codes, &mut clock, count)).collect();
    // Which incident came first is a matter of chance; the marks are what tells them apart.
    let (first, second) = if dice.chance(50) { (1, 3) } else { (3, 1) };
    let line = format!("incident {mine} opened for {team}");
    for (place, code, team) in [(first, &mine, team), (second, &theirs, other)] {
        let text = std::mem::take(&mut stretches[place].text);
        stretches[place].text = format!(
            "{} NOTE desk incident {code} opened for {team}\n{text}{} NOTE desk incident {code} closed\n",
            time(clock),
            time(clock)
        );
    }
    let text: String = stretches.iter().map(|stretch| stretch.text.as_str()).collect();
    let counted = &stretches[first];
    let mut ranked: Vec<(&String, &u32)> = counted.codes.iter().collect();
    ranked.sort_by(|a, b| b.1.cmp(a.1).then(a.0.cmp(b.0)));
    let report_text: String = ranked.iter().map(|(code, count)| format!("{code} {count}\n")).collect();
    let users_text: String = counted.users.iter().map(|user| format!("{user}\n")).collect();

    let mut draft = Draft::default();
    draft.kept_file(&log, &text)?;
    draft.credit("counts", lines(report, &report_text));
    draft.credit("order", equals(report, &report_text));
    draft.credit("users", lines(users, &users_text));
    draft.credit("users sorted", equals(users, &users_text));

    let window = |code: &str| {
        format!("awk '/incident {code} opened/ {{ on = 1; next }} /incident {code} closed/ {{ on = 0 }} on && $2 == \"ERROR\"' {log}")
    };
    let count = |source: &str| {
        run(&format!(
            "{source} | grep -o 'code=[A-Z0-9]*' | cut -d= -f2 | LC_ALL=C sort | uniq -c | awk '{{ print $2, $1 }}' | LC_ALL=C sort -k2,2nr -k1,1 > {report}"
        ))
    };
    let people = |source: &str| run(&format!("{source} | grep -o 'user=[a-z]*' | cut -d= -f2 | LC_ALL=C sort -u > {users}"));
    draft.act(inspect(&format!("wc {log}; head -n 3 {log}")));
    draft.act(inspect(&format!("cat {log}")));
    draft.act(informed_work(count(&window(&mine)), count(&format!("grep ERROR {log}")), &line));
    draft.act(Act { call: people(&window(&mine)), role: ActRole::Requirement, evidence: Some(line), slip: None });
    draft.act(verify(&format!("cat {report}; wc -l {users}")));

    let constraints = [
        format!(
            "Only what was logged between the marks that open and close the incident of the {team} team counts; the log has other incidents too."
        ),
        "Most frequent code first; codes with the same count by name.".to_owned(),
        format!("Also write {users}: every user with an ERROR line in that incident, once, one a line, sorted."),
    ];
    let intro = match dice.number(0, 2) {
        0 => format!(
            "Go through {log} and count the ERROR lines of the {team} incident by their code. Write {report} with one line `CODE COUNT` per code."
        ),
        1 => format!(
            "We need figures on the incident of the {team} team. From {log}, write {report}: for every code on an ERROR line of the incident a line with the code, a blank and how often it came."
        ),
        _ => format!(
            "How often did each error code come up in the {team} incident? The log is {log}; put the answer into {report} as lines of the form `CODE COUNT` (ERROR lines only)."
        ),
    };
    let mut body = draft.body("shell", "extract-incident", dice.listed(&intro, &constraints))?;
    let any_level = window(&mine).replace(" && $2 == \"ERROR\"", "");
    let acts: Vec<ActCall> = vec![count(&any_level), people(&any_level)];
    body.broken.push(Variant { name: "warnings counted too".to_owned(), acts });
    let acts = vec![count(&window(&theirs)), people(&window(&theirs))];
    body.broken.push(Variant { name: "the other incident".to_owned(), acts });
    Ok(body)
}

fn time(clock: i64) -> String {
    format!("{:02}:{:02}:{:02}", clock / 3600 % 24, clock / 60 % 60, clock % 60)
}

/// `count` lines. The first are an ERROR and a WARN that nothing else in the log repeats, so that every stretch and every level counts
/// differently.
fn stretch(dice: &mut Dice, codes: &[String], clock: &mut i64, count: usize) -> Stretch {
    let mut stretch = Stretch::default();
    let own = (format!("E{}", dice.number(1000, 9999)), format!("E{}", dice.number(1000, 9999)));
    for index in 0..count.max(3) {
        *clock += dice.number(1, 40);
        let level = match index {
            0 => "ERROR",
            1 => "WARN",
            _ => ["INFO", "INFO", "WARN", "ERROR", "ERROR"][dice.count(0, 4)],
        };
        let person = dice.pick(PEOPLE).to_lowercase();
        let code = match index {
            0 => &own.0,
            1 => &own.1,
            _ => &codes[dice.count(0, codes.len() - 1)],
        };
        let note = if level == "INFO" { format!("took={}ms", dice.number(3, 900)) } else { format!("code={code}") };
        stretch.text.push_str(&format!("{} {level} {} user={person} {note}\n", time(*clock), dice.pick(WORDS)));
        if level == "ERROR" {
            *stretch.codes.entry(code.clone()).or_default() += 1;
            stretch.users.insert(person);
        }
    }
    stretch
}
