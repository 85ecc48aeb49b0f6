//! Write a parser for a small format.

use serde_json::{Map, Value, json};

use crate::base::SeedTree;
use crate::forge::ForgeError;
use crate::forge::draft::{Draft, edit, informed_work, inspect, requirement, verify, write};
use crate::forge::vocabulary::{Dice, PLACES, TEAMS, WORDS, fill};
use crate::task::TaskBody;

use super::hidden::{self, Case, PYTHON};

const PARSER: &str = "def value_of(text):
    if '@comma@' in text:
        return [value_of(part.strip()) for part in text.split('@comma@')]
    if text in ('@yes@', '@no@'):
        return text == '@yes@'
    if text.lstrip('-').isdigit():
        return int(text)
    return text


def parse(text):
    records, record = [], {}
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        if not line@remark@:
            continue
        if line == '@fence@':
            records.append(record)
            record = {}
            continue
        key, value = line.split('@equals@', 1)
        record[key.strip()] = value_of(value.strip())
    if record:
        records.append(record)
    return records
";

/// The signs of one format.
struct Format {
    fence: &'static str,
    equals: &'static str,
    comma: &'static str,
    yes: &'static str,
    no: &'static str,
    remark: String,
}

impl Format {
    fn new(dice: &mut Dice) -> Self {
        let (yes, no) = [("yes", "no"), ("on", "off"), ("ja", "nein")][dice.count(0, 2)];
        let mark = dice.pick(&["~", "!", "^", "?", ">"]);
        Self {
            fence: dice.pick(&["%%", "---", "***", "====="]),
            equals: dice.pick(&["=", ":", "->"]),
            comma: dice.pick(&[";", "|", "/"]),
            yes,
            no,
            remark: format!("{mark}{}", dice.pick(&["~", "(", "*", ".", "+"])),
        }
    }

    /// A scalar as text and as value.
    fn scalar(&self, dice: &mut Dice) -> (String, Value) {
        match dice.number(0, 3) {
            0 => {
                let number = dice.number(-90, 900);
                (number.to_string(), json!(number))
            }
            1 if dice.chance(50) => (self.yes.to_owned(), json!(true)),
            1 => (self.no.to_owned(), json!(false)),
            _ => {
                let word = dice.pick(PLACES);
                (word.to_owned(), json!(word))
            }
        }
    }

    /// A text of this format, and its records.
    fn sample(&self, dice: &mut Dice) -> (String, Value) {
        let (mut lines, mut records) = (Vec::new(), Vec::new());
        for number in 0..dice.count(2, 4) {
            if number > 0 {
                lines.push(self.fence.to_owned());
            }
            let mut record = Map::new();
            for key in dice.picks(WORDS, 4) {
                let (mut text, mut value) = self.scalar(dice);
                if dice.chance(25) {
                    let (second, other) = self.scalar(dice);
                    text = format!("{text} {} {second}", self.comma);
                    value = json!([value, other]);
                }
                lines.push(format!("{key} {} {text}", self.equals));
                record.insert(key.to_owned(), value);
                // A remark looks like a setting, so that taking it for one shows.
                if dice.chance(35) || record.len() == 2 {
                    lines.push(format!("{}{} {} {}", self.remark, dice.pick(TEAMS), self.equals, dice.number(1, 99)));
                }
                if dice.chance(15) {
                    lines.push(String::new());
                }
            }
            records.push(Value::Object(record));
        }
        (format!("{}\n", lines.join("\n")), Value::from(records))
    }
}

pub(super) fn generate(seeds: &SeedTree) -> Result<TaskBody, ForgeError> {
    let dice = &mut Dice::new(seeds, "task");
    let word = dice.pick(WORDS);
    let (module, suffix) = (format!("{word}_{}", dice.pick(&["reader", "format", "parser"])), &word[..3]);
    let format = Format::new(dice);

    let mut draft = Draft::default();
    let sample = format!("samples/{}.{suffix}", dice.pick(PLACES));
    // The sample in the workspace is one without remarks.
    let plain: Vec<String> = format.sample(dice).0.lines().filter(|line| !line.starts_with(&format.remark)).map(str::to_owned).collect();
    draft.kept_file(&sample, &format!("{}\n", plain.join("\n")))?;
    let key = format!("Remarks are lines that start with `{}`.", format.remark);
    let doc = format!("docs/{}.md", dice.pick(&["format", "files", "interchange", "history"]));
    let notes = dice.document(&format!("The {suffix} format"), &key);
    draft.kept_file(&doc, &notes)?;

    let import = format!("from {module} import parse\n");
    let cases: Vec<Case> = (0..6).map(|_| format.sample(dice)).map(|(text, records)| (vec![json!(text)], records)).collect();
    draft.credit("records", hidden::test(dice, &format!("{import}{}", hidden::assertions("parse", &cases)))?);
    let text = plain.join("\n");
    let line = plain.len() + 2;
    let bad = json!(format!("{text}\n\n{} {}\n", dice.pick(TEAMS), dice.number(1, 99)));
    let body = format!(
        "{import}try:\n    parse({})\nexcept ValueError as error:\n    assert str(error) == 'line {line}', error\nelse:\n    raise AssertionError('no error')\n",
        hidden::literal(&bad)
    );
    draft.credit("error", hidden::test(dice, &body)?);
    let small: Vec<Case> = vec![
        (vec![json!("")], json!([])),
        (vec![json!(format!("\n{} only a remark\n", format.remark))], json!([])),
        (vec![json!(format!("  a {} 1  \n", format.equals))], json!([{"a": 1}])),
        (vec![json!(format!("a{}b{}c", format.equals, format.equals))], json!([{"a": format!("b{}c", format.equals)}])),
    ];
    draft.credit("small texts", hidden::test(dice, &format!("{import}{}", hidden::assertions("parse", &small)))?);

    let path = format!("{module}.py");
    let source = |remark: &str| {
        let signs = [("fence", format.fence), ("equals", format.equals), ("comma", format.comma), ("yes", format.yes), ("no", format.no)];
        write(&path, &fill(&fill(PARSER, &signs), &[("remark", remark)]))
    };
    draft.act(inspect(&format!("ls -R; cat {sample}")));
    draft.act(inspect(&format!("cat {doc}")));
    draft.act(informed_work(source(&format!(" or line.startswith('{}')", format.remark)), source(" or line.startswith('#')"), &key));
    let anchor = format!("        key, value = line.split('{}', 1)\n", format.equals);
    let refuse = format!("        if '{}' not in line:\n            raise ValueError(f'line {{number}}')\n{anchor}", format.equals);
    draft.act(requirement(edit(&path, &anchor, &refuse)));
    draft.act(verify(&format!("{PYTHON} -c 'import {module}; print({module}.parse(open(\"{sample}\").read()))'")));

    let constraints = [
        format!("Lines are `key {} value` (blanks around both do not count; the first `{}` separates); a line `{}` ends a record; blank lines and remarks ({doc} tells what a remark is) are skipped. A text without settings gives an empty list.", format.equals, format.equals, format.fence),
        format!("A value with `{}` is a list of such values; `{}` and `{}` become True and False, whole numbers (perhaps negative) int, everything else stays text.", format.comma, format.yes, format.no),
        "A line that is none of these raises ValueError with the message `line N`, N being its number counted from 1, blank lines and remarks included.".to_owned(),
    ];
    let intro = match dice.number(0, 1) {
        0 => format!(
            "Write {path} with a function `parse(text)` that reads our .{suffix} files and returns a list of records, each a dict. {sample} is an example."
        ),
        _ => format!(
            "We need a parser for files such as {sample}: a function `parse(text)` in a new file {path}, which returns one dict per record, in order, as a list."
        ),
    };
    hidden::joined(draft.body("code", "write-parser", dice.listed(&intro, &constraints))?)
}
