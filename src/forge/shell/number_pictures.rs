//! Copy the pictures of a camera roll under numbered names, in the order of their own numbers.

use super::parts::{mode, prints};
use crate::base::SeedTree;
use crate::forge::ForgeError;
use crate::forge::draft::{Draft, equals, informed_work, inspect, requirement, run, verify, work};
use crate::forge::vocabulary::{Dice, PEOPLE, PLACES, WORDS, fill};
use crate::task::TaskBody;

const ROLL: &str = "find @from@ -name '@prefix@*.@old@' -size +0 -printf '%f\\n' | sort @order@";
const COPY: &str = "rm -rf @to@ && mkdir @to@ && n=@start@ && for file in $(@roll@); do
  cp \"@from@/$file\" \"@to@/@album@-$(printf '%03d' \"$n\").@new@\"
  n=$((n + 1))
done";

pub(super) fn generate(seeds: &SeedTree) -> Result<TaskBody, ForgeError> {
    let dice = &mut Dice::new(seeds, "task");
    let (from, to) = (dice.pick(&["camera", "card", "dcim", "import"]), dice.pick(&["album", "pictures", "selected", "print"]));
    let prefix = dice.pick(&["IMG_", "DSC_", "P_", "SHOT_"]);
    let (old, new) = (dice.pick(&["JPG", "JPEG", "jpeg"]), "jpg");
    let start = dice.number(1, 40);
    let album = format!("{}-{}-{}", dice.pick(PLACES), dice.pick(WORDS), dice.number(11, 98));

    // 3 to 9 and 10 to 29 are both there: by text, the second comes first.
    let mut numbers = vec![dice.number(3, 9), dice.number(10, 29)];
    for _ in 0..dice.count(5, 14) {
        let number = dice.number(30, 1400);
        if !numbers.contains(&number) {
            numbers.push(number);
        }
    }
    let failed: Vec<i64> = (0..dice.count(1, 3)).map(|_| dice.number(1401, 1600)).collect();
    numbers.sort_unstable();

    let doc = format!("{}.md", dice.pick(&["ALBUMS", "docs/albums", "INDEX", "docs/rolls"]));
    let person = dice.pick(PEOPLE);
    let line = format!("Pictures whose name starts with `{prefix}` are {person}'s; their album is called `{album}`.");
    let notes = dice.document("Albums", &line);
    let mut draft = Draft::default();
    draft.kept_file(&doc, &notes)?;
    for number in &failed {
        draft.file(&format!("{from}/{prefix}{number}.{old}"), "")?;
    }
    let other = if prefix == "IMG_" { "MOV_" } else { "IMG_" };
    for _ in 0..dice.count(1, 4) {
        draft.kept_file(&format!("{from}/{other}{}.{old}", dice.number(1, 500)), &picture(dice))?;
    }
    let (mut all, mut names, mut pairs) = (String::new(), String::new(), String::new());
    for (number, place) in numbers.iter().zip(start..) {
        let (source, target, text) = (format!("{prefix}{number}.{old}"), format!("{album}-{place:03}.{new}"), picture(dice));
        draft.kept_file(&format!("{from}/{source}"), &text)?;
        all.push_str(&text);
        names.push_str(&format!("{target}\n"));
        pairs.push_str(&format!("{source}\t{target}\n"));
    }
    let first = format!("{to}/{album}-{start:03}.{new}");
    draft.credit("names", prints(&format!("cd {to} && ls | grep '\\.{new}$' | LC_ALL=C sort"), &names));
    draft.credit("pictures in order", prints(&format!("cat {to}/{album}-*.{new}"), &all));
    draft.credit("names.tsv", equals(&format!("{to}/names.tsv"), &pairs));

    let script = |template: &str, order: &str| {
        let start = start.to_string();
        let key = format!("-t_ -k2,2{order}");
        let values = [
            ("from", from),
            ("to", to),
            ("prefix", prefix),
            ("old", old),
            ("new", new),
            ("album", &album),
            ("start", &start),
            ("order", &key),
        ];
        fill(&template.replace("@roll@", ROLL), &values)
    };
    draft.act(inspect(&format!("ls -s {from}; wc -c {doc}")));
    draft.act(inspect(&format!("cat {doc}")));
    draft.act(informed_work(run(&script(COPY, "n")), run(&script(COPY, "")), &line));
    draft.act(requirement(run(&script("paste <(@roll@) <(ls @to@ | grep '\\.@new@$' | LC_ALL=C sort) > @to@/names.tsv", "n"))));
    let mut constraints = vec![
        format!("Count in the order of the camera's numbers (so 9 before 10), from {start:03} upwards, three digits each."),
        "Empty files are failed shots: leave them out, without a gap in the numbers.".to_owned(),
        format!("Write {to}/names.tsv: per picture the old name, a tab and the new name, in the new order."),
    ];
    if dice.chance(50) {
        constraints.push(format!("Make the copies read-only: mode 444. Leave {from}/ as it is."));
        draft.credit("read-only", mode(&first, "444"));
        draft.act(work(run(&format!("chmod 444 {to}/*.{new}")), run(&format!("chmod a-x {to}/*.{new}"))));
    } else {
        constraints.push(format!("Leave {from}/ as it is."));
    }
    draft.act(verify(&format!("ls {to}; head -n 3 {to}/names.tsv")));

    let intro = match dice.number(0, 2) {
        0 => format!(
            "Copy the pictures {from}/{prefix}N.{old} to {to}/ under the names ALBUM-NNN.{new}, where ALBUM is what {doc} calls the album of these pictures."
        ),
        1 => format!(
            "Please sort out {person}'s camera roll: the {prefix}*.{old} files in {from}/ are to be copied to {to}/ as ALBUM-001.{new} and so on. The album's name is in {doc}."
        ),
        _ => format!(
            "Make a numbered copy of {person}'s pictures ({from}/{prefix}*.{old}) in {to}/. A copy is called ALBUM-NNN.{new}; look up the album in {doc}."
        ),
    };
    draft.body("shell", "number-pictures", dice.listed(&intro, &constraints))
}

fn picture(dice: &mut Dice) -> String {
    format!("picture {} {} {}\n", dice.code(), dice.pick(PLACES), dice.number(1, 9999))
}
