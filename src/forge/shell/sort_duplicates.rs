//! Move duplicate files out of the way, keeping the copy in the folder that counts.

use super::parts::{listing, prints};
use crate::base::SeedTree;
use crate::forge::ForgeError;
use crate::forge::draft::{Draft, equals, informed_work, inspect, requirement, run, verify};
use crate::forge::vocabulary::{Dice, GOODS, PLACES, WORDS, fill};
use crate::task::{ActCall, TaskBody, Variant};

const SORT: &str = "if [ -d @trash@ ]; then cp -a @trash@/. . && rm -rf @trash@; fi
for folder in @order@; do find @root@/$folder -type f @size@ | LC_ALL=C sort; done | while IFS= read -r file; do
  echo \"$(sha256sum < \"$file\") $file\"
done | awk 'seen[$1]++ { print $3 }' | while IFS= read -r file; do
  mkdir -p \"@trash@/$(dirname \"$file\")\" && mv \"$file\" \"@trash@/$file\"
done";

pub(super) fn generate(seeds: &SeedTree) -> Result<TaskBody, ForgeError> {
    let dice = &mut Dice::new(seeds, "task");
    let (root, trash) = (dice.pick(&["library", "pictures", "shared", "papers"]), dice.pick(&["trash", "duplicates", "removed", "aside"]));
    let list = dice.pick(&["removed.txt", "duplicates.txt", "moved.txt"]);
    let kind = dice.pick(&["txt", "md", "dat", "note"]);
    let wanted = dice.count(3, 4);
    let mut order = dice.picks(PLACES, wanted);
    // The order by name must go wrong in the folder that counts most.
    let mut by_name = order.clone();
    by_name.sort_unstable();
    if order[0] == by_name[0] {
        order.rotate_left(1);
    }
    let mut names: Vec<String> = GOODS.iter().chain(WORDS).map(|name| format!("{name}-{}", dice.number(1, 60))).collect();
    dice.shuffle(&mut names);
    let mut names = names.into_iter();
    let mut path = |folder: &str| format!("{root}/{folder}/{}.{kind}", names.next().unwrap_or_default());

    let doc = format!("{}.md", dice.pick(&["FOLDERS", "docs/archive", "COPIES", "docs/folders"]));
    let ranking = order.join(", then ");
    let line = format!("Where a file is kept more than once, the copy to trust is the one in {ranking}.");
    let notes = dice.document("The folders", &line);
    let mut draft = Draft::default();
    draft.kept_file(&doc, &notes)?;
    let (mut stay, mut gone) = (Vec::new(), Vec::new());
    for _ in 0..dice.count(4, 9) {
        let file = path(order[dice.count(0, order.len() - 1)]);
        draft.kept_file(&file, &format!("{} {}\n", dice.code(), dice.pick(WORDS)))?;
        stay.push(file);
    }
    for folder in [order[0], order[1]] {
        let file = path(folder);
        draft.kept_file(&file, "")?;
        stay.push(file);
    }
    for group in 0..dice.count(3, 6) {
        let text = format!("{} {} {}\n", dice.code(), dice.pick(GOODS), group);
        // The first group lies in the folder that counts most and in the one that comes first by name.
        let mut places: Vec<usize> = (0..order.len()).collect();
        dice.shuffle(&mut places);
        places.truncate(dice.count(2, order.len()));
        if group == 0 {
            places = vec![0, order.iter().position(|folder| *folder == by_name[0]).unwrap_or(1)];
        }
        places.sort_unstable();
        for (rank, place) in places.iter().enumerate() {
            let file = path(order[*place]);
            draft.file(&file, &text)?;
            if rank == 0 {
                stay.push(file);
            } else {
                if gone.is_empty() {
                    draft.credit("a duplicate kept aside", equals(&format!("{trash}/{file}"), &text));
                }
                gone.push(file);
            }
        }
    }
    draft.credit("what stays", prints(&format!("find {root} -type f | LC_ALL=C sort"), &listing(&stay)));
    draft.credit("what was moved", prints(&format!("cd {trash} && find . -type f -printf '%P\\n' | LC_ALL=C sort"), &listing(&gone)));
    draft.credit("list", equals(list, &listing(&gone)));

    let script =
        |order: &[&str], size: &str| run(&fill(SORT, &[("root", root), ("trash", trash), ("order", &order.join(" ")), ("size", size)]));
    let record = run(&format!("(cd {trash} && find . -type f -printf '%P\\n') | LC_ALL=C sort > {list}"));
    draft.act(inspect(&format!("find {root} -type f -printf '%s %p\\n' | LC_ALL=C sort -k2; wc -c {doc}")));
    draft.act(inspect(&format!("cat {doc}")));
    draft.act(informed_work(script(&order, "-size +0"), script(&by_name, "-size +0"), &line));
    draft.act(requirement(record.clone()));
    draft.act(verify(&format!("find {root} {trash} -type f | LC_ALL=C sort; cat {list}")));

    let constraints = [
        format!("Which copy stays is a matter of the folder: {doc} gives the order."),
        format!("Do not delete anything: move the other copies to {trash}/, under their whole path ({trash}/{root}/FOLDER/NAME)."),
        "Two empty files are not duplicates; leave them where they are.".to_owned(),
        format!("Write {list} with the old paths of the moved files, one a line, sorted."),
    ];
    let intro = match dice.number(0, 2) {
        0 => format!(
            "The folders in {root}/ hold the same files several times, under different names. Keep one copy of each content and put the others aside."
        ),
        1 => format!("Find files with identical content below {root}/ and clear them up, so that every content is there once."),
        _ => {
            format!("{root}/ grew out of several disks and has duplicates (same bytes, another name). Please take the surplus copies out.")
        }
    };
    let mut body = draft.body("shell", "sort-duplicates", dice.listed(&intro, &constraints))?;
    let acts: Vec<ActCall> = vec![script(&order, ""), record];
    body.broken.push(Variant { name: "empty files taken for duplicates".to_owned(), acts });
    Ok(body)
}
