//! Repair a settings loader.

use serde_json::{Map, Value, json};

use crate::base::SeedTree;
use crate::forge::ForgeError;
use crate::forge::draft::{Draft, edit, informed_work, inspect, requirement, verify, work};
use crate::forge::vocabulary::{Dice, PLACES, WORDS, fill};
use crate::task::TaskBody;

use super::hidden::{self, PYTHON};

const LOADER: &str = "\"\"\"Settings of @package@: defaults, a file, the environment.\"\"\"

DEFAULTS = @defaults@


def convert(name, text):
    kind = type(DEFAULTS[name])
    if kind is bool:
        return bool(text)
    return kind(text)


def from_environment(settings, environment):
    for name in DEFAULTS:
        variable = '@prefix@_' + name.upper()
        if variable in environment:
            settings[name] = convert(name, environment[variable])


def from_file(settings, path):
    with open(path) as source:
        for line in source:
            line = line.strip()
            if line and not line.startswith('#'):
                name, text = (part.strip() for part in line.split('@equals@', 1))
                settings[name] = convert(name, text)


def load(path, environment):
    settings = dict(DEFAULTS)
@order@    return settings
";

const RUN: &str = "from @package@.@module@ import load
for text, environment, expected in json.loads(@cases@):
    with open('hidden_settings', 'w') as target:
        target.write(text)
    got = load('hidden_settings', environment)
    assert got == expected and json.dumps(got, sort_keys=True) == json.dumps(expected, sort_keys=True), (text, environment, got, expected)
";

const REFUSE: &str = "from @package@.@module@ import load
with open('hidden_settings', 'w') as target:
    target.write('@unknown@ @equals@ 5\\n')
try:
    load('hidden_settings', {})
except ValueError as error:
    assert str(error) == 'unknown setting @unknown@', error
else:
    raise AssertionError('no error')
";

/// A setting's text in a file, and its value.
fn setting(dice: &mut Dice, default: &Value, words: [&str; 2]) -> (String, Value) {
    match default {
        Value::Bool(_) => {
            let value = dice.chance(50);
            (words[usize::from(!value)].to_owned(), json!(value))
        }
        Value::Number(_) => {
            let value = dice.number(1, 9000);
            (value.to_string(), json!(value))
        }
        _ => {
            let value = format!("{} {}", dice.pick(PLACES), dice.number(1, 99));
            (value.clone(), json!(value))
        }
    }
}

fn instruction(dice: &mut Dice, [path, shown, doc, package]: [&str; 4]) -> String {
    let constraints = [
        format!("Truth values do not work at all: {doc} says how they are written."),
        "The environment has to win over the file, and the file over the defaults.".to_owned(),
        "A name that is not among the defaults raises ValueError with the message `unknown setting NAME`.".to_owned(),
        format!("`load(path, environment)` keeps its signature; {shown} stays as it is."),
    ];
    let intro = match dice.number(0, 1) {
        0 => format!("The settings loader {path} has several defects. Please repair it."),
        _ => format!("Operators complain about how {package} reads its settings. Fix {path}."),
    };
    dice.listed(&intro, &constraints)
}

pub(super) fn generate(seeds: &SeedTree) -> Result<TaskBody, ForgeError> {
    let dice = &mut Dice::new(seeds, "task");
    let words = dice.picks(WORDS, 4);
    let (package, module) = (words[0], dice.pick(&["settings", "config", "options"]));
    let (prefix, equals) = (words[1].to_uppercase(), dice.pick(&["=", ":"]));
    let spoken = [words[2], words[3]];
    let names = dice.picks(&["port", "title", "verbose", "retries", "owner", "strict", "timeout", "colour", "cache", "depth"], 7);
    let mut defaults: Vec<(&str, Value)> = Vec::new();
    for name in &names[..dice.count(4, 7)] {
        defaults.push((
            name,
            match *name {
                "verbose" | "strict" | "cache" => json!(dice.chance(50)),
                "title" | "owner" | "colour" => json!(dice.pick(PLACES)),
                _ => json!(dice.number(1, 9000)),
            },
        ));
    }
    // There is always one of each kind.
    defaults.push(("debug", json!(dice.chance(50))));
    defaults.push(("limit", json!(dice.number(1, 9000))));
    let literal: Vec<String> = defaults
        .iter()
        .map(|(name, value)| {
            format!("    '{name}': {},\n", value.to_string().replace("true", "True").replace("false", "False").replace('"', "'"))
        })
        .collect();

    let (path, shown) = (format!("{package}/{module}.py"), format!("{package}.conf"));
    let [broken, right, careless] = [
        "    from_environment(settings, environment)\n    from_file(settings, path)\n",
        "    from_file(settings, path)\n    from_environment(settings, environment)\n",
        "    from_file(settings, path)\n    if not environment:\n        from_environment(settings, environment)\n",
    ];
    let signs = [
        ("package", package),
        ("defaults", &format!("{{\n{}}}", literal.concat())),
        ("prefix", &prefix),
        ("equals", equals),
        ("order", broken),
    ];
    let mut draft = Draft::default();
    draft.file(&format!("{package}/__init__.py"), "")?;
    draft.file(&path, &fill(LOADER, &signs))?;
    draft
        .kept_file(&shown, &format!("# Settings of {package}\n{} {equals} {}\n", defaults[0].0, setting(dice, &defaults[0].1, spoken).0))?;
    let key = format!("In settings true is written {} and false {}.", spoken[0], spoken[1]);
    let doc = format!("{}.md", dice.pick(&["docs/settings", "docs/operators", "SETTINGS", "docs/house_style"]));
    let notes = dice.document(&format!("Running {package}"), &key);
    draft.kept_file(&doc, &notes)?;

    let whole = |changes: &[(&str, Value)]| {
        let mut all: Map<String, Value> = defaults.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        all.extend(changes.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
        Value::Object(all)
    };
    let run = |cases: Vec<Value>| {
        let cases = hidden::literal(&Value::from(cases).to_string().into());
        fill(RUN, &[("package", package), ("module", module), ("cases", &cases)])
    };
    let line = |name: &str, text: &str| format!("{name} {equals} {text}\n");
    let truths = [true, false].map(|value| json!([line("debug", spoken[usize::from(!value)]), {}, whole(&[("debug", json!(value))])]));
    draft.credit("truth values", hidden::test(dice, &run(truths.to_vec()))?);
    let mut order = Vec::new();
    for _ in 0..4 {
        // Numbers and texts only: this item is about precedence.
        let plain: Vec<&(&str, Value)> = defaults.iter().filter(|(_, value)| !value.is_boolean()).collect();
        let (mut text, mut environment, mut changes) = ("# a remark\n\n".to_owned(), Map::new(), Vec::new());
        for (name, default) in plain {
            let (in_file, file_value) = setting(dice, default, spoken);
            let is_last = *name == "limit";
            if is_last || dice.chance(60) {
                text.push_str(&line(name, &in_file));
                changes.push((*name, file_value));
            }
            if is_last || dice.chance(40) {
                let (in_environment, value) = setting(dice, default, spoken);
                // One digit more: never what the file says.
                let (shown, value) = if is_last {
                    (format!("1{in_file}"), json!(format!("1{in_file}").parse::<i64>().unwrap_or(0)))
                } else {
                    (in_environment, value)
                };
                environment.insert(format!("{prefix}_{}", name.to_uppercase()), json!(shown));
                changes.push((*name, value));
            }
        }
        order.push(json!([text, environment, whole(&changes)]));
    }
    draft.credit("precedence", hidden::test(dice, &run(order))?);
    let unknown = format!("{}_{}", dice.pick(&["speed", "shade", "angle"]), dice.number(1, 9));
    let refusal = fill(REFUSE, &[("package", package), ("module", module), ("unknown", &unknown), ("equals", equals)]);
    draft.credit("unknown setting", hidden::test(dice, &refusal)?);
    let (text, value) = setting(dice, &json!(1), spoken);
    let before = vec![
        json!(["", {}, whole(&[])]),
        json!([line("limit", &text), {}, whole(&[("limit", value.clone())])]),
        json!(["# none\n", {format!("{prefix}_LIMIT"): text}, whole(&[("limit", value)])]),
    ];
    draft.guard("what worked before", hidden::test(dice, &run(before))?);

    let boolean = |expression: &str| edit(&path, "        return bool(text)\n", expression);
    let right_boolean = format!("        return {{'{}': True, '{}': False}}[text]\n", spoken[0], spoken[1]);
    draft.act(inspect(&format!("cat {path} {shown}")));
    draft.act(inspect(&format!("cat {doc}")));
    draft.act(informed_work(boolean(&right_boolean), boolean("        return text.lower() in ('true', 'yes', 'on', '1')\n"), &key));
    draft.act(work(edit(&path, broken, right), edit(&path, broken, careless)));
    let anchor = "    kind = type(DEFAULTS[name])\n";
    draft.act(requirement(edit(
        &path,
        anchor,
        &format!("    if name not in DEFAULTS:\n        raise ValueError(f'unknown setting {{name}}')\n{anchor}"),
    )));
    draft.act(verify(&format!(
        "tail -n 6 {path}; {PYTHON} -c 'import {package}.{module} as m; print(m.load(\"/dev/null\", {{\"{prefix}_LIMIT\": \"77\"}}))'"
    )));

    let instruction = instruction(dice, [&path, &shown, &doc, package]);
    hidden::joined(draft.body("code", "fix-config-loader", instruction)?)
}
