//! Move files over a size limit out of a tree, keeping their folders.

use super::parts::{absent, prints};
use crate::base::SeedTree;
use crate::forge::ForgeError;
use crate::forge::draft::{Draft, equals, informed_work, inspect, requirement, run, verify};
use crate::forge::vocabulary::{Dice, GOODS, PLACES, WORDS, fill};
use crate::task::TaskBody;

const MOVE: &str =
    "find @from@ -type f -name '*.@kind@' -size +@limit@ ! -path '@from@/@keep@/*' | LC_ALL=C sort | while IFS= read -r file; do
  to=\"@to@/${file#@from@/}\"
  mkdir -p \"$(dirname \"$to\")\" && mv \"$file\" \"$to\"
done";

/// A file of the tree: path below the tree, and size in bytes.
struct Sized {
    path: String,
    bytes: i64,
}

pub(super) fn generate(seeds: &SeedTree) -> Result<TaskBody, ForgeError> {
    let dice = &mut Dice::new(seeds, "task");
    let (from, to) = (dice.pick(&["inbox", "uploads", "share", "data"]), dice.pick(&["cold", "large", "offload", "big"]));
    let kinds = dice.picks(&["csv", "json", "log", "txt", "dat", "xml"], 3);
    let (kind, others) = (kinds[0], &kinds[1..]);
    // Between two multiples of 1024, so that a limit rounded to whole kibibytes picks other files.
    let kib = dice.number(1, 2);
    let limit = kib * 1024 + dice.number(150, 850);
    let wanted = dice.count(3, 5);
    let folders = dice.picks(PLACES, wanted);
    let keep = dice.pick(&["pinned", "keep", "reserved"]);

    let mut names = GOODS.iter().flat_map(|name| [(*name).to_owned(), format!("{name}-{}", dice.number(2, 40))]).collect::<Vec<_>>();
    dice.shuffle(&mut names);
    let mut names = names.into_iter();
    let mut file =
        |folder: &str, kind: &str, bytes: i64| Sized { path: format!("{folder}/{}.{kind}", names.next().unwrap_or_default()), bytes };
    let emptied = folders[0];
    let mut moved = vec![file(emptied, kind, limit + dice.number(1, 60)), file(folders[1], kind, limit + 1 + dice.number(0, 40))];
    let mut stay = vec![
        file(folders[1], kind, limit),
        file(folders[1], others[0], limit + dice.number(100, 900)),
        file(keep, kind, limit + dice.number(300, 900)),
        file(&format!("{}/{}", folders[2], dice.pick(WORDS)), kind, dice.number(40, limit - 20)),
    ];
    for _ in 0..dice.count(5, 14) {
        let folder = folders[dice.count(1, folders.len() - 1)];
        let folder = if dice.chance(30) { format!("{folder}/{}", dice.pick(WORDS)) } else { folder.to_owned() };
        let chosen = if dice.chance(60) { kind } else { others[dice.count(0, 1)] };
        let bytes = if dice.chance(40) { limit + dice.number(1, 900) } else { dice.number(30, limit) };
        let list = if chosen == kind && bytes > limit { &mut moved } else { &mut stay };
        list.push(file(&folder, chosen, bytes));
    }

    let doc = format!("{}.md", dice.pick(&["STORAGE", "docs/storage", "QUOTAS", "POLICY"]));
    let line = format!("Rule {}: a .{kind} file of more than {limit} bytes does not belong on this disk.", dice.code());
    let notes = dice.document("Storage rules", &line);
    let mut draft = Draft::default();
    draft.kept_file(&doc, &notes)?;
    for Sized { path, bytes } in &stay {
        draft.kept_file(&format!("{from}/{path}"), &filler(dice, *bytes))?;
    }
    moved.sort_by(|a, b| a.path.cmp(&b.path));
    for Sized { path, bytes } in &moved {
        let text = filler(dice, *bytes);
        draft.file(&format!("{from}/{path}"), &text)?;
        draft.credit(&format!("{path} moved"), equals(&format!("{to}/{path}"), &text));
    }
    let mut rest: Vec<String> = stay.iter().map(|file| format!("{from}/{}\n", file.path)).collect();
    rest.sort_unstable();
    draft.credit("the rest stays", prints(&format!("find {from} -type f | LC_ALL=C sort"), &rest.concat()));
    let manifest: String = moved.iter().map(|file| format!("{} {}\n", file.bytes, file.path)).collect();
    draft.credit("manifest", equals(&format!("{to}/MANIFEST.txt"), &manifest));

    let script = |limit: &str| run(&fill(MOVE, &[("from", from), ("to", to), ("kind", kind), ("limit", limit), ("keep", keep)]));
    draft.act(inspect(&format!("find {from} -type f -printf '%s %p\\n' | LC_ALL=C sort -k2; wc -c {doc}")));
    draft.act(inspect(&format!("cat {doc}")));
    draft.act(informed_work(script(&format!("{limit}c")), script(&format!("{}k", kib + 1)), &line));
    draft.act(requirement(run(&format!(
        "(cd {to} && find . -type f ! -name MANIFEST.txt -printf '%s %P\\n') | LC_ALL=C sort -k2 > {to}/MANIFEST.txt"
    ))));
    let mut constraints = vec![
        format!("{doc} gives the limit; a file of exactly that size stays."),
        format!("Nothing below {from}/{keep}/ is moved, and no file of another kind."),
        format!("Write {to}/MANIFEST.txt with a line `BYTES PATH` for every moved file, the path relative to {to}/, sorted by path."),
    ];
    if dice.chance(60) {
        constraints.push(format!("Remove folders below {from}/ that are empty afterwards."));
        draft.credit("no empty folder", absent(&format!("{from}/{emptied}")));
        draft.act(requirement(run(&format!("find {from} -mindepth 1 -type d -empty -delete"))));
    }
    draft.act(verify(&format!("find {from} {to} -type f | LC_ALL=C sort; cat {to}/MANIFEST.txt")));

    let intro = match dice.number(0, 2) {
        0 => format!(
            "Move all .{kind} files below {from}/ that are larger than the limit to {to}/, each into the folder of the same name there (so {from}/a/b.{kind} becomes {to}/a/b.{kind})."
        ),
        1 => format!(
            "Our disk is full. Find the .{kind} files in {from}/ (folders inside it too) that are over the size limit for this disk, and move them to {to}/ with their folders: {from}/x/y.{kind} goes to {to}/x/y.{kind}."
        ),
        _ => format!("Take the oversized .{kind} files out of {from}/. They belong in {to}/, under the same relative path."),
    };
    draft.body("shell", "move-large-files", dice.listed(&intro, &constraints))
}

/// A text of exactly `bytes` bytes.
fn filler(dice: &mut Dice, bytes: i64) -> String {
    let mut text = String::new();
    let bytes = usize::try_from(bytes).unwrap_or(0);
    let word = dice.pick(WORDS);
    while text.len() < bytes {
        text.push_str(&format!("{word};{};{}\n", dice.number(0, 99_999), dice.pick(GOODS)));
    }
    text.truncate(bytes.saturating_sub(1));
    text.push('\n');
    text
}
