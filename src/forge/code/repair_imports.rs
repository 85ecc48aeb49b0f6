//! Break an import cycle.

use crate::base::SeedTree;
use crate::forge::ForgeError;
use crate::forge::draft::{Draft, edit, informed_work, inspect, requirement, verify, work, write};
use crate::forge::vocabulary::{Dice, PEOPLE, TEAMS, WORDS};
use crate::task::TaskBody;

use super::hidden::{self, PYTHON};

/// A start-up log long enough that the traceback behind it is far from its head.
fn startup(dice: &mut Dice) -> String {
    let mut text = String::new();
    for step in 0..dice.count(45, 110) {
        let line = match step % 3 {
            0 => format!("step {step}: {} checks in, {} waiting\n", dice.pick(PEOPLE), dice.number(1, 90)),
            1 => format!("step {step}: queue of {} opened in {} ms\n", dice.pick(TEAMS), dice.number(2, 400)),
            _ => format!("step {step}: {} is ready\n", dice.pick(WORDS)),
        };
        text.push_str(&line);
    }
    text
}

pub(super) fn generate(seeds: &SeedTree) -> Result<TaskBody, ForgeError> {
    let dice = &mut Dice::new(seeds, "task");
    let package = dice.pick(WORDS);
    let modules = dice.picks(&["orders", "prices", "stock", "people", "routes", "labels"], 3);
    let shared = dice.pick(&["constants", "shared", "basics", "parameters"]);
    let (front, middle, back) = (modules[0], modules[1], modules[2]);
    let has_middle = dice.chance(55);
    let constant = format!("{}_{}", dice.pick(&["LIMIT", "BASE", "FACTOR", "QUOTA"]), dice.pick(TEAMS).to_uppercase());
    let value = dice.number(1_000, 9_999);
    let (entry, inner, step) = (format!("{front}_total"), format!("{back}_value"), format!("{middle}_share"));
    let (modulus, addend, factor) = (dice.number(101, 997), dice.number(2, 99), dice.number(2, 9));

    let path = |module: &str| format!("{package}/{module}.py");
    let (next, called) = if has_middle { (middle, &step) } else { (back, &inner) };
    let definition = format!("{constant} = {value}\n\n\n");
    let import_front = format!("from {package}.{next} import {called}\n");
    let import_back = format!("from {package}.{front} import {constant}\n");
    let mut draft = Draft::default();
    draft.file(&format!("{package}/__init__.py"), "")?;
    draft.file(&path(front), &format!("{import_front}\n{definition}def {entry}(number):\n    return {called}(number) + {addend}\n"))?;
    if has_middle {
        draft.kept_file(
            &path(middle),
            &format!("from {package}.{back} import {inner}\n\n\ndef {step}(number):\n    return {factor} * {inner}(number)\n"),
        )?;
    }
    draft.file(&path(back), &format!("{import_back}\n\ndef {inner}(number):\n    return number * {constant} % {modulus}\n"))?;
    let log = startup(dice);
    draft.kept_file("startup.log", &log)?;
    let main = format!(
        "import sys\n\nfor line in open('startup.log'):\n    print(line, end='', flush=True)\n\nfrom {package}.{front} import {entry}\n\nprint('result:', {entry}(int(sys.argv[1])))\n"
    );
    draft.kept_file("main.py", &main)?;

    let result = |number: i64| (number * value % modulus) * if has_middle { factor } else { 1 } + addend;
    let numbers: Vec<i64> = (0..4).map(|_| dice.number(10, 5_000)).collect();
    let mut body = format!("from {package}.{front} import {entry}\n");
    body.extend(numbers.iter().map(|number| format!("assert {entry}({number}) == {}\n", result(*number))));
    draft.credit("results", hidden::test(dice, &body)?);
    let body = format!(
        "import sys\nfrom {package}.{back} import {inner}\nassert {inner}({}) == {}\nassert '{package}.{front}' not in sys.modules\n",
        numbers[0],
        numbers[0] * value % modulus
    );
    draft.credit("no cycle", hidden::test(dice, &body)?);
    let once = format!(
        "import re\nfrom {package}.{shared} import {constant}\nassert {constant} == {value}\nfor module in ('{front}', '{back}'):\n    assert not re.search(r'^\\s*{constant}\\s*=', open('{package}/' + module + '.py').read(), re.M), module\n"
    );
    draft.credit("one definition", hidden::test(dice, &once)?);
    let offered = format!(
        "from {package}.{shared} import {constant} as original\nfrom {package}.{front} import {constant}\nassert {constant} == original == {value}\n"
    );
    draft.credit("old place still offers it", hidden::test(dice, &offered)?);

    let evidence = format!("cannot import name '{constant}' from partially initialized module '{package}.{front}'");
    let import_shared = format!("from {package}.{shared} import {constant}\n");
    draft.act(inspect(&format!("{PYTHON} main.py {}", numbers[0])));
    draft.act(inspect(&format!("tail -n +1 {package}/*.py")));
    let content =
        |value: i64| write(&path(shared), &format!("\"\"\"What several modules of {package} need.\"\"\"\n\n{constant} = {value}\n"));
    draft.act(informed_work(content(value), content(value + 1), &evidence));
    let late = format!("\n\ndef {inner}(number):\n    return number * {constant} % {modulus}\n");
    draft.act(work(
        edit(&path(back), &import_back, &import_shared),
        // The import at the end of the file is still one of the cycle.
        write(&path(back), &format!("{}\n\n{import_back}", late.trim_start())),
    ));
    let comment = format!("# The number that {front} works with.\n");
    draft.act(work(edit(&path(front), &definition, "\n"), edit(&path(front), &definition, &format!("{comment}{definition}"))));
    draft.act(requirement(edit(&path(front), &import_front, &format!("{import_front}{import_shared}"))));
    draft.act(verify(&format!("{PYTHON} main.py {} | tail -n 1; {PYTHON} -c 'import {package}.{back}'", numbers[1])));

    let constraints = [
        format!(
            "What the modules need from each other moves to a new module {package}/{shared}.py, which imports nothing of the package, and is defined there only."
        ),
        format!("`{back}` must be importable without loading `{front}`; no imports inside functions."),
        "Other projects still import the moved name from its old module: it has to stay available there.".to_owned(),
        "Results do not change; main.py and startup.log stay as they are.".to_owned(),
    ];
    let intro = match dice.number(0, 1) {
        0 => format!(
            "`python3 main.py {}` dies with an ImportError after its start-up messages. Repair the package `{package}`.",
            numbers[0]
        ),
        _ => format!(
            "Two modules of `{package}` import each other, so main.py no longer starts (try `python3 main.py {}`). Untangle them.",
            numbers[0]
        ),
    };
    hidden::joined(draft.body("code", "repair-imports", dice.listed(&intro, &constraints))?)
}
