//! Merge environment files, later ones over earlier ones.

use std::collections::{BTreeMap, BTreeSet};

use super::parts::{lines, mode};
use crate::base::SeedTree;
use crate::forge::ForgeError;
use crate::forge::draft::{Draft, equals, informed_work, inspect, requirement, run, verify};
use crate::forge::vocabulary::{Dice, PLACES, TEAMS, WORDS, fill};
use crate::task::{Probe, TaskBody, Variant};

const MERGE: &str = "cat @files@ | sed 's/^export //' | grep -E '^[A-Z_]+=' | awk '{ key = substr($0, 1, index($0, \"=\") - 1); value[key] = $0 } END { for (key in value) print value[key] }' | LC_ALL=C sort@filter@ > @output@";
const CONFLICTS: &str = "for file in @files@; do sed 's/^export //' $file | grep -oE '^[A-Z_]+=' | tr -d = | LC_ALL=C sort -u; done | LC_ALL=C sort | uniq -d > @conflicts@";

pub(super) fn generate(seeds: &SeedTree) -> Result<TaskBody, ForgeError> {
    let dice = &mut Dice::new(seeds, "task");
    let folder = dice.pick(&["config", "env", "settings", "deploy"]);
    let stage = dice.pick(&["staging", "production", "preview", "nightly"]);
    let files = [format!("{folder}/base.env"), format!("{folder}/{stage}.env"), format!("{folder}/local.env")];
    let (output, conflicts) =
        (format!("{}.env", dice.pick(&["merged", "final", "effective"])), dice.pick(&["conflicts.txt", "overridden.txt", "repeated.txt"]));
    let heads = dice.picks(&["MAIL", "CACHE", "QUEUE", "SEARCH", "AUTH", "STORE", "PROXY"], 5);
    let tails = ["HOST", "PORT", "TOKEN_FILE", "TIMEOUT", "REGION", "LEVEL"];
    let mut keys: Vec<String> = heads.iter().flat_map(|head| tails.iter().map(move |tail| format!("{head}_{tail}"))).collect();
    dice.shuffle(&mut keys);
    keys.truncate(dice.count(12, 26));
    let retired = keys[0].clone();

    let mut merged: BTreeMap<&str, String> = BTreeMap::new();
    let (mut seen, mut repeated) = (BTreeSet::new(), BTreeSet::new());
    let mut texts = Vec::new();
    for index in 0..files.len() {
        let mut text = format!("# {} settings, kept by {}\n", ["common", stage, "local"][index], dice.pick(TEAMS));
        let mut order: Vec<usize> = (0..keys.len()).collect();
        dice.shuffle(&mut order);
        for at in order {
            // The first four keys stand in two files at least: the retired one everywhere, the others in the first and the last.
            let there = match (at, index) {
                (0, _) | (1..=3, 0 | 2) => true,
                _ => dice.chance([70, 40, 25][index]),
            };
            if !there {
                continue;
            }
            let value = match dice.number(0, 3) {
                0 => format!("{}.{}.example", dice.pick(WORDS), dice.pick(PLACES)),
                1 => dice.number(1, 65_535).to_string(),
                2 => format!("\"{} = {}\"", dice.pick(WORDS), dice.number(1, 99)),
                _ => format!("/etc/{}/{}", dice.pick(WORDS), dice.code()),
            };
            if dice.chance(20) {
                text.push_str(&format!("\n# {} since {}\n", dice.pick(PLACES), dice.code()));
            }
            text.push_str(&format!("{}{}={value}\n", if dice.chance(25) { "export " } else { "" }, keys[at]));
            if !seen.insert(keys[at].as_str()) {
                repeated.insert(keys[at].as_str());
            }
            merged.insert(&keys[at], value);
        }
        texts.push(text);
    }
    merged.remove(retired.as_str());
    let merged_text: String = merged.iter().map(|(key, value)| format!("{key}={value}\n")).collect();
    let repeated_text: String = repeated.iter().map(|key| format!("{key}\n")).collect();

    let doc = format!("{}.md", dice.pick(&["SETTINGS", "docs/settings", "ENVIRONMENT", "docs/config"]));
    let line = format!("{retired} is retired (see {}): a merged file must not have it any more.", dice.code());
    let notes = dice.document("Settings", &line);
    let mut draft = Draft::default();
    draft.kept_file(&doc, &notes)?;
    for (file, text) in files.iter().zip(&texts) {
        draft.kept_file(file, text)?;
    }
    draft.credit("settings", lines(&output, &merged_text));
    draft.credit("sorted", equals(&output, &merged_text));
    draft.credit("only settings", Probe::FileMatches { path: output.clone(), pattern: r"\A(?:[A-Z_]+=.*\n?)+\z".to_owned() });
    draft.credit("repeated keys", equals(conflicts, &repeated_text));

    let [base, middle, local] = &files;
    let sources = format!("{base} {middle} {local}");
    let values = |files: &str, filter: &str, template: &str| {
        run(&fill(template, &[("files", files), ("filter", filter), ("output", &output), ("conflicts", conflicts)]))
    };
    let filter = format!(" | grep -v '^{retired}='");
    let find_conflicts = values(&sources, "", CONFLICTS);
    draft.act(inspect(&format!("tail -n +1 {sources}")));
    draft.act(inspect(&format!("cat {doc}")));
    draft.act(informed_work(values(&sources, &filter, MERGE), values(&sources, "", MERGE), &line));
    draft.act(requirement(find_conflicts.clone()));
    let mut constraints = vec![
        format!("Where a key is set more than once the last of the three wins: {base}, then {middle}, then {local}."),
        "Write plain KEY=VALUE lines, sorted by key: no comments, no empty lines, no `export`; values as they stand, quotes too."
            .to_owned(),
        format!("{doc} names a key that was retired; leave it out."),
        format!("Write {conflicts}: the keys that more than one of the three files sets, one a line, sorted (the retired one too)."),
    ];
    let private = dice.chance(60);
    if private {
        let bits = dice.pick(&["600", "400", "640"]);
        constraints.remove(0);
        constraints.insert(0, format!("Order of precedence, lowest first: {base}, {middle}, {local}. The result gets mode {bits}."));
        draft.credit("mode", mode(&output, bits));
        draft.act(requirement(run(&format!("chmod {bits} {output}"))));
    }
    draft.act(verify(&format!("cat {output}; cat {conflicts}")));

    let intro = match dice.number(0, 2) {
        0 => format!("Merge the three environment files in {folder}/ into {output}."),
        1 => format!("The {stage} service reads a single file now. Make {output} out of {base}, {middle} and {local}."),
        _ => format!("Please flatten our {stage} settings: one file, {output}, in place of the three in {folder}/."),
    };
    let mut body = draft.body("shell", "merge-env", dice.listed(&intro, &constraints))?;
    let backwards = format!("{local} {middle} {base}");
    body.broken.push(Variant { name: "first wins".to_owned(), acts: vec![values(&backwards, &filter, MERGE), find_conflicts] });
    Ok(body)
}
