//! Compare two trees and collect what changed.

use super::parts::{lines, listing, prints};
use crate::base::SeedTree;
use crate::forge::ForgeError;
use crate::forge::draft::{Draft, equals, informed_work, inspect, requirement, run, verify};
use crate::forge::vocabulary::{Dice, GOODS, TEAMS, WORDS, fill};
use crate::task::TaskBody;

const COMPARE: &str = "names() { (cd \"$1\" && find . -type f -printf '%P\\n' | LC_ALL=C sort); }
(
  export LC_ALL=C
  comm -13 <(names @old@) <(names @new@) | sed 's/^/A /'
  comm -23 <(names @old@) <(names @new@) | sed 's/^/D /'
  comm -12 <(names @old@) <(names @new@) | while IFS= read -r name; do cmp -s \"@old@/$name\" \"@new@/$name\" || echo \"M $name\"; done
)@filter@ | LC_ALL=C sort -k2 > @report@";
const COLLECT: &str = "rm -rf @patch@ && mkdir @patch@ && grep '^[AM] ' @report@ | cut -c3- | while IFS= read -r name; do
  mkdir -p \"$(dirname \"@patch@/$name\")\" && cp \"@new@/$name\" \"@patch@/$name\"
done";

pub(super) fn generate(seeds: &SeedTree) -> Result<TaskBody, ForgeError> {
    let dice = &mut Dice::new(seeds, "task");
    let stem = dice.pick(&["site", "release", "mirror", "tree"]);
    let (old, new) = if dice.chance(50) {
        (format!("{stem}-{}", dice.number(1, 4)), format!("{stem}-{}", dice.number(5, 9)))
    } else {
        (format!("{stem}.before"), format!("{stem}.after"))
    };
    let (report, patch) = (dice.pick(&["changes.txt", "diff.txt", "delta.txt"]), dice.pick(&["patch", "update", "upload"]));
    let ignored = format!("{}{}", dice.pick(&["q", "k", "w", "z"]), dice.number(11, 98));
    let kinds = dice.picks(&["html", "css", "js", "txt", "json", "md"], 3);
    let folders = dice.picks(WORDS, 4);

    let mut names: Vec<String> = GOODS.iter().map(|name| (*name).to_owned()).collect();
    dice.shuffle(&mut names);
    let mut names = names.into_iter();
    let mut file = |dice: &mut Dice, kind: Option<&str>| {
        let folder = folders[dice.count(0, folders.len() - 1)];
        let kind = kind.unwrap_or_else(|| kinds[dice.count(0, kinds.len() - 1)]);
        let name = names.next().unwrap_or_default();
        if dice.chance(25) { format!("{name}.{kind}") } else { format!("{folder}/{name}.{kind}") }
    };
    let doc = format!("{}.md", dice.pick(&["BUILD", "docs/build", "PUBLISHING", "docs/release"]));
    let line =
        format!("Files that end in .{ignored} are made anew by every build of the {} team and never count as a change.", dice.pick(TEAMS));
    let notes = dice.document("How releases are made", &line);
    let mut draft = Draft::default();
    draft.kept_file(&doc, &notes)?;

    let (mut changes, mut patched): (Vec<(String, char)>, Vec<String>) = (Vec::new(), Vec::new());
    let same = dice.count(3, 7);
    let kinds_of_change = [('=', same), ('M', dice.count(2, 4)), ('A', dice.count(1, 3)), ('D', dice.count(1, 3))];
    for (change, count) in kinds_of_change {
        // One more of each kind is made by the build, and ignored.
        for index in 0..=count {
            let path = if index == count { file(dice, Some(&ignored)) } else { file(dice, None) };
            let (before, after) = (content(dice), content(dice));
            let after = if change == '=' { before.clone() } else { after };
            if change != 'A' {
                draft.kept_file(&format!("{old}/{path}"), &before)?;
            }
            if change != 'D' {
                draft.kept_file(&format!("{new}/{path}"), &after)?;
            }
            if change != '=' && index < count {
                if change != 'D' {
                    patched.push(path.clone());
                }
                if change == 'M' && index == 0 {
                    draft.credit("a changed file", equals(&format!("{patch}/{path}"), &after));
                }
                changes.push((path, change));
            }
        }
    }
    changes.sort_unstable();
    let report_text: String = changes.iter().map(|(path, change)| format!("{change} {path}\n")).collect();
    let deleted: Vec<&String> = changes.iter().filter(|(_, change)| *change == 'D').map(|(path, _)| path).collect();
    draft.credit("changes", lines(report, &report_text));
    draft.credit("order", equals(report, &report_text));
    draft.credit(
        "collected files",
        prints(&format!("cd {patch} && find . -type f ! -name DELETED -printf '%P\\n' | LC_ALL=C sort"), &listing(&patched)),
    );

    let script = |template: &str, filter: &str| {
        run(&fill(template, &[("old", &old), ("new", &new), ("report", report), ("patch", patch), ("filter", filter)]))
    };
    draft.act(inspect(&format!("find {old} {new} -type f | LC_ALL=C sort; wc -c {doc}")));
    draft.act(inspect(&format!("cat {doc}")));
    draft.act(informed_work(script(COMPARE, &format!(" | grep -v '\\.{ignored}$'")), script(COMPARE, ""), &line));
    draft.act(requirement(script(COLLECT, "")));
    let mut constraints = vec![
        format!("{doc} says which files never count as a change."),
        "Sort the lines by path.".to_owned(),
        format!("Copy every added or modified file from {new}/ to {patch}/, in the folders it has there."),
    ];
    if dice.chance(50) {
        constraints.push(format!("Write {patch}/DELETED with the paths of the deleted files, one a line, sorted."));
        draft.credit("deleted files", equals(&format!("{patch}/DELETED"), &listing(&deleted)));
        draft.act(requirement(run(&format!("grep '^D ' {report} | cut -c3- > {patch}/DELETED"))));
    } else {
        constraints.push(format!("Leave {old}/ and {new}/ as they are."));
    }
    draft.act(verify(&format!("cat {report}; find {patch} -type f | LC_ALL=C sort")));

    let intro = match dice.number(0, 2) {
        0 => format!(
            "Compare {old}/ with {new}/ and write {report}: a line `A PATH` for every file that was added, `D PATH` for a deleted and `M PATH` for a modified one, paths relative to the two folders."
        ),
        1 => format!(
            "What changed from {old}/ to {new}/? Put it into {report}, one line per file: A (added), M (modified) or D (deleted), a blank, and the path within the folder."
        ),
        _ => format!(
            "We are about to publish {new}/ over {old}/. List the differences in {report} as lines `LETTER PATH` (A added, D deleted, M content modified; path without the top folder)."
        ),
    };
    draft.body("shell", "compare-folders", dice.listed(&intro, &constraints))
}

fn content(dice: &mut Dice) -> String {
    format!("{} {}\n{}\n", dice.pick(WORDS), dice.number(1, 9999), dice.code())
}
