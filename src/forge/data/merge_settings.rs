//! Merge layers of JSON settings in an order that has to be looked up.

use serde_json::{Map, Value, json};

use crate::base::SeedTree;
use crate::forge::ForgeError;
use crate::forge::draft::{Draft, informed_work, inspect, python, requirement, verify};
use crate::forge::vocabulary::{Dice, PLACES, TEAMS, WORDS, fill};
use crate::task::{Probe, TaskBody};

const MERGE: &str = "import json

def merge(below, above):
    result = dict(below)
    for key, value in above.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict):
            old = result.get(key)
            result[key] = merge(old if isinstance(old, dict) else {}, value)
        else:
            result[key] = value
    return result

settings = {}
for layer in '@order@'.split():
    with open(f'@folder@/{layer}.json') as source:
        settings = merge(settings, json.load(source))
with open('@output@', 'w') as target:
    json.dump(settings, target)
";

const TIDY: &str = "import json

with open('@output@') as source:
    settings = json.load(source)
with open('@output@', 'w') as target:
    json.dump(settings, target, indent=@indent@, sort_keys=True)
    target.write('\\n')
";

const COUNT: &str = "import json

def leaves(value):
    return sum(map(leaves, value.values())) if isinstance(value, dict) else 1

with open('@output@') as source:
    print(leaves(json.load(source)), file=open('@tally@', 'w'))
";

fn merge(below: &Value, above: &Map<String, Value>) -> Value {
    let mut result = below.as_object().cloned().unwrap_or_default();
    for (key, value) in above {
        match value {
            Value::Null => {
                result.remove(key);
            }
            Value::Object(inner) => {
                let merged = merge(result.get(key).unwrap_or(&Value::Null), inner);
                result.insert(key.clone(), merged);
            }
            plain => {
                result.insert(key.clone(), plain.clone());
            }
        }
    }
    Value::Object(result)
}

fn leaves(value: &Value) -> usize {
    value.as_object().map_or(1, |object| object.values().map(leaves).sum())
}

/// Pretty-prints with sorted keys, as people expect it from a JSON formatter.
fn pretty(value: &Value, indent: usize, depth: usize) -> String {
    let pad = |depth: usize| " ".repeat(indent * depth);
    let lines = |items: Vec<String>, open: char, close: char| {
        if items.is_empty() { format!("{open}{close}") } else { format!("{open}\n{}\n{}{close}", items.join(",\n"), pad(depth)) }
    };
    match value {
        Value::Object(object) => {
            let mut entries: Vec<_> = object.iter().collect();
            entries.sort_by_key(|(key, _)| key.as_str());
            let items = entries.iter().map(|(key, item)| format!("{}\"{key}\": {}", pad(depth + 1), pretty(item, indent, depth + 1)));
            lines(items.collect(), '{', '}')
        }
        Value::Array(items) => {
            lines(items.iter().map(|item| format!("{}{}", pad(depth + 1), pretty(item, indent, depth + 1))).collect(), '[', ']')
        }
        scalar => scalar.to_string(),
    }
}

/// One of the values a setting may have.
fn value(dice: &mut Dice) -> Value {
    match dice.number(0, 4) {
        0 => json!(dice.pick(PLACES)),
        1 => json!(dice.chance(50)),
        2 => json!(dice.picks(TEAMS, 2)),
        _ => json!(dice.number(1, 9000)),
    }
}

pub(super) fn generate(seeds: &SeedTree) -> Result<TaskBody, ForgeError> {
    let dice = &mut Dice::new(seeds, "task");
    let folder = dice.pick(&["layers", "settings", "conf.d", "profiles"]);
    let output = format!("{}.json", dice.pick(&["merged", "effective", "settings_final", "result"]));
    let tally = format!("{}.txt", dice.pick(&["tally", "leaves", "number_of_settings"]));
    let indent = dice.count(1, 4);
    let mut layers = dice.picks(WORDS, 4);
    layers.truncate(dice.count(3, 4));
    let mut alphabetical = layers.clone();
    alphabetical.sort_unstable();
    if layers.last() == alphabetical.last() {
        layers.reverse();
    }
    let sections = dice.count(3, 5);
    let sections = dice.picks(TEAMS, sections);
    let keys = dice.picks(&["limit", "mode", "host", "retries", "colour", "window", "paths", "level", "owner"], 6);

    let mut contents: Vec<Map<String, Value>> = Vec::new();
    for (number, layer) in layers.iter().enumerate() {
        let mut content = Map::new();
        // Every layer sets this one, so that the order shows.
        content.insert("stamp".to_owned(), json!(format!("{layer}-{}", dice.number(100, 999))));
        for (place, section) in sections.iter().enumerate() {
            let mut inner = Map::new();
            for key in dice.picks(&keys, 4) {
                inner.insert(key.to_owned(), if number > 0 && dice.chance(20) { Value::Null } else { value(dice) });
            }
            if dice.chance(60) {
                inner.insert("cache".to_owned(), json!({ dice.pick(WORDS): dice.number(1, 99), "size": dice.number(1, 99) }));
            }
            // The weakest layer has all sections, the others most.
            if number == 0 || place == 0 || dice.chance(75) {
                content.insert((*section).to_owned(), Value::Object(inner));
            }
        }
        contents.push(content);
    }
    let merged = contents.iter().fold(Value::Null, |below, above| merge(&below, above));

    let key = format!("Precedence, weakest layer first: {}.", layers.join(" < "));
    let doc = format!("{}.md", dice.pick(&["docs/settings", "docs/layers", "README", "OPERATIONS"]));
    let notes = dice.document("How this system is configured", &key);

    let mut draft = Draft::default();
    for (layer, content) in layers.iter().zip(&contents) {
        draft.kept_file(&format!("{folder}/{layer}.json"), &pretty(&Value::Object(content.clone()), 2, 0))?;
    }
    draft.kept_file(&doc, &notes)?;
    draft.credit("values", Probe::JsonEquals { path: output.clone(), value: merged.clone() });
    draft.credit("form", Probe::FileEquals { path: output.clone(), text: pretty(&merged, indent, 0) });
    draft.credit("count", Probe::FileMatches { path: tally.clone(), pattern: format!(r"\A{}\s*\z", leaves(&merged)) });

    let script = |template: &str, order: &[&str]| {
        fill(
            template,
            &[("order", &order.join(" ")), ("folder", folder), ("output", &output), ("tally", &tally), ("indent", &indent.to_string())],
        )
    };
    draft.act(inspect(&format!("ls {folder}; cat {folder}/{}.json", layers[0])));
    draft.act(inspect(&format!("cat {doc}")));
    draft.act(informed_work(python(script(MERGE, &layers)), python(script(MERGE, &alphabetical)), &key));
    draft.act(requirement(python(script(TIDY, &layers))));
    draft.act(requirement(python(script(COUNT, &layers))));
    draft.act(verify(&format!("cat {output} {tally}")));

    let constraints = [
        format!("Stronger layers win over weaker ones; {doc} has their order."),
        "Objects are merged key by key at every depth, anything else (lists too) is replaced, and a null removes the key.".to_owned(),
        format!(
            "The file has sorted keys at every depth and an indent of {indent}, as a JSON pretty printer with one item per line writes it."
        ),
        format!("Write the number of leaf settings in {output} (values that are not objects; a list is one) to {tally}, just the number."),
    ];
    let intro = match dice.number(0, 1) {
        0 => format!("Merge the {} JSON files in {folder}/ into {output}.", layers.len()),
        _ => format!(
            "The settings in {folder}/ come in {} layers. Work out the effective settings and write them to {output}.",
            layers.len()
        ),
    };
    draft.body("data", "merge-settings", dice.listed(&intro, &constraints))
}
