//! Point links at the newest release that may run, and remove those that lead nowhere.

use super::parts::{absent, lines, link};
use crate::base::{Entry, SeedTree};
use crate::forge::ForgeError;
use crate::forge::draft::{Draft, informed_work, inspect, requirement, run, verify, work};
use crate::forge::vocabulary::{Dice, TEAMS, WORDS};
use crate::task::TaskBody;

/// A version `major.minor.patch`.
type Version = [i64; 3];

pub(super) fn generate(seeds: &SeedTree) -> Result<TaskBody, ForgeError> {
    let dice = &mut Dice::new(seeds, "task");
    let releases = dice.pick(&["releases", "versions", "builds"]);
    let (apps_folder, current) = (dice.pick(&["apps", "services", "sites"]), dice.pick(&["current", "live", "active"]));
    let status = dice.pick(&["STATUS.txt", "VERSIONS.txt", "links.txt"]);
    let wanted = dice.count(3, 5);
    let apps = dice.picks(WORDS, wanted);
    let versions: Vec<Vec<Version>> = apps.iter().map(|_| version_list(dice)).collect();
    let withdrawn = dice.count(0, apps.len() - 1);
    let of = |app: usize, back: usize| text(&versions[app][versions[app].len() - 1 - back]);

    let doc = format!("{}.md", dice.pick(&["RELEASES", "docs/releases", "CHANGES", "docs/operations"]));
    let line = format!(
        "{} {} was withdrawn by {} ({}): nothing may point to it.",
        apps[withdrawn],
        of(withdrawn, 0),
        dice.pick(TEAMS),
        dice.code()
    );
    let notes = dice.document("Releases", &line);
    let mut draft = Draft::default();
    draft.kept_file(&doc, &notes)?;
    let mut states = Vec::new();
    for (index, app) in apps.iter().enumerate() {
        for version in &versions[index] {
            draft.kept_file(&format!("{releases}/{app}-{}/VERSION", text(version)), &format!("{}\n", text(version)))?;
        }
        let [major, minor, _] = versions[index][0];
        let lost = format!("{app}-{}", text(&[major, minor - 1, dice.number(0, 9)]));
        let target = format!("../../{releases}/{lost}");
        draft.entry(&format!("{apps_folder}/{app}/{current}"), Entry::Link { target })?;
        let chosen = of(index, usize::from(index == withdrawn));
        draft.credit(&format!("{app} link"), link(&format!("{apps_folder}/{app}/{current}"), &format!("../../{releases}/{app}-{chosen}")));
        states.push(format!("{app} {chosen}\n"));
    }
    let tools = dice.picks(&["start", "stop", "check", "report", "clean", "sync", "watch"], 5);
    let (good, dead) = tools.split_at(dice.count(2, 3));
    for tool in good {
        draft.kept_file(&format!("tools/{tool}.sh"), &format!("# {}\n", dice.code()))?;
        let target = format!("../tools/{tool}.sh");
        draft.entry(&format!("bin/{tool}"), Entry::Link { target: target.clone() })?;
        draft.guard(&format!("bin/{tool} stays"), link(&format!("bin/{tool}"), &target));
    }
    for tool in dead {
        draft.entry(&format!("bin/{tool}"), Entry::Link { target: format!("../tools/{tool}-{}.sh", dice.number(2, 9)) })?;
        draft.credit(&format!("bin/{tool} removed"), absent(&format!("bin/{tool}")));
    }
    states.sort_unstable();
    draft.credit("status", lines(status, &states.concat()));

    let names = apps.join(" ");
    let newest = |sort: &str| {
        run(&format!(
            "for app in {names}; do\n  newest=$(ls {releases} | grep \"^$app-[0-9]\" | {sort} | tail -n 1)\n  ln -sfn \"../../{releases}/$newest\" \"{apps_folder}/$app/{current}\"\ndone"
        ))
    };
    let app = apps[withdrawn];
    let point = |version: &str| run(&format!("ln -sfn ../../{releases}/{app}-{version} {apps_folder}/{app}/{current}"));
    draft.act(inspect(&format!("ls {releases}; find {apps_folder} bin -type l -printf '%p -> %l\\n' | LC_ALL=C sort; wc -c {doc}")));
    draft.act(inspect(&format!("cat {doc}")));
    draft.act(work(newest("sort -V"), newest("LC_ALL=C sort")));
    draft.act(informed_work(point(&of(withdrawn, 1)), point(&of(withdrawn, 0)), &line));
    draft.act(requirement(run("find bin -xtype l -delete")));
    draft.act(requirement(run(&format!(
        "for app in {names}; do echo \"$app $(cat {apps_folder}/$app/{current}/VERSION)\"; done | LC_ALL=C sort > {status}"
    ))));
    draft.act(verify(&format!("find {apps_folder} bin -type l -printf '%p -> %l\\n' | LC_ALL=C sort; cat {status}")));

    let constraints = [
        format!(
            "Newest means the highest version number, part by part (2.10.0 is newer than 2.9.3); what {doc} says was withdrawn does not count."
        ),
        format!("Keep the links relative, in the form ../../{releases}/APP-VERSION."),
        "Remove links in bin/ that lead nowhere; leave the working ones alone.".to_owned(),
        format!("Write {status} with a line `APP VERSION` for every app."),
    ];
    let intro = match dice.number(0, 2) {
        0 => format!(
            "The links {apps_folder}/APP/{current} lead to releases that were deleted. Point each of them at the newest release of its app in {releases}/."
        ),
        1 => format!(
            "After a clean-up of {releases}/ every {apps_folder}/*/{current} is broken. Repair them: each has to lead to its own app's newest release."
        ),
        _ => format!(
            "Please repair the symbolic links below {apps_folder}/. Each one called {current} should point to the newest version of that app which is still in {releases}/."
        ),
    };
    draft.body("shell", "repair-links", dice.listed(&intro, &constraints))
}

/// Ascending versions whose two newest have two-digit minors, after one with minor 9 or less: sorted as text the order is another.
fn version_list(dice: &mut Dice) -> Vec<Version> {
    let major = dice.number(1, 4);
    let mut minor = dice.number(3, 6);
    let mut list = vec![[major, minor, dice.number(0, 9)]];
    for _ in 0..dice.count(1, 2) {
        minor += 1;
        list.push([major, minor, dice.number(0, 12)]);
    }
    let high = dice.number(10, 14);
    list.push([major, high, dice.number(0, 9)]);
    list.push([major, high + dice.number(1, 5), dice.number(0, 9)]);
    list
}

fn text(version: &Version) -> String {
    format!("{}.{}.{}", version[0], version[1], version[2])
}
