//! Add a function to a package.

use crate::base::SeedTree;
use crate::forge::ForgeError;
use crate::forge::draft::{Draft, edit, informed_work, inspect, requirement, run, verify};
use crate::forge::vocabulary::{Dice, WORDS};
use crate::task::TaskBody;

use super::hidden::{self, PYTHON};
use super::routines::{Routine, routines};

/// The function with a first statement that refuses its edge case with `code`.
fn refusing(function: &Routine, body: &str, code: &str) -> String {
    function.source(&format!("    if {}:\n        raise ValueError('{code}')\n{body}", function.edge))
}

pub(super) fn generate(seeds: &SeedTree) -> Result<TaskBody, ForgeError> {
    let dice = &mut Dice::new(seeds, "task");
    let package = dice.pick(WORDS);
    let modules = dice.picks(&["core", "shapes", "figures", "texts", "ranges", "tables"], 2);
    let count = dice.count(3, 6);
    let functions = routines(dice, count);
    let (function, others) = (&functions[0], &functions[1..]);
    let module = modules[0];
    let path = format!("{package}/{module}.py");

    let mut draft = Draft::default();
    let (first, second) = others.split_at(others.len() / 2);
    for (name, part) in modules.iter().zip([first, second]) {
        let sources: Vec<String> = part.iter().map(|f| f.source(&f.right)).collect();
        let text = format!("\"\"\"Part of {package}.\"\"\"\n\n\n{}", sources.join("\n\n"));
        let file = format!("{package}/{name}.py");
        if *name == module { draft.file(&file, &text)? } else { draft.kept_file(&file, &text)? }
    }
    let mut exports: String = modules
        .iter()
        .zip([first, second])
        .flat_map(|(m, part)| part.iter().map(move |f| format!("from .{m} import {}\n", f.name)))
        .collect();
    let names: Vec<String> = others.iter().map(|f| format!("'{}'", f.name)).collect();
    exports.push_str(&format!("\n__all__ = [{}]\n", names.join(", ")));
    draft.file(&format!("{package}/__init__.py"), &exports)?;

    let code = dice.code();
    let key = format!("`{}` answers unusable input with the code {code}.", function.name);
    let doc = format!("docs/{}.md", dice.pick(&["errors", "codes", "failures", "contract"]));
    let notes = dice.document(&format!("Error codes of {package}"), &key);
    draft.kept_file(&doc, &notes)?;

    let import = format!("from {package}.{module} import {}\n", function.name);
    let cases = function.cases(dice);
    draft.credit("results", hidden::test(dice, &format!("{import}{}", hidden::assertions(&function.name, &cases)))?);
    let edge = serde_json::Value::from(function.edge_arguments.iter().map(|arguments| serde_json::json!(arguments)).collect::<Vec<_>>());
    let body = format!(
        "{import}for arguments in json.loads({}):\n    try:\n        {}(*arguments)\n    except ValueError as error:\n        assert str(error) == '{code}', error\n    else:\n        raise AssertionError(arguments)\n",
        hidden::literal(&edge.to_string().into()),
        function.name
    );
    draft.credit("error code", hidden::test(dice, &body)?);
    let cases = function.cases(dice);
    let body = format!(
        "import {package}\nfrom {package} import {name}\n{}assert '{name}' in {package}.__all__\n",
        hidden::assertions(&function.name, &cases),
        name = function.name
    );
    draft.credit("export", hidden::test(dice, &body)?);
    let mut body = String::new();
    for other in others {
        let cases = other.cases(dice);
        body.push_str(&format!("from {package} import {}\n{}", other.name, hidden::assertions(&other.name, &cases)));
    }
    draft.guard("other functions unharmed", hidden::test(dice, &body)?);

    let append = |text: &str| run(&format!("cat >> {path} <<'END'\n\n\n{text}END"));
    let export = format!("{package}/__init__.py");
    draft.act(inspect(&format!("cat {export} {path}")));
    draft.act(inspect(&format!("cat {doc}")));
    let right = refusing(function, &function.right, &code);
    draft.act(informed_work(append(&right), append(&function.source(&function.careless)), &key));
    let listed = format!("from .{module} import {name}\n\n__all__ = ['{name}', ", name = function.name);
    draft.act(requirement(edit(&export, "\n__all__ = [", &listed)));
    draft.act(verify(&format!("cat {export}; {PYTHON} -c 'import {package}; print({package}.__all__)'")));

    let constraints = [
        function.about.clone(),
        format!("For {} it raises ValueError; the message is just the code that {doc} gives for this function.", function.edge_words),
        format!(
            "It can be imported from the package itself as well (`from {package} import {}`) and is listed in `__all__`.",
            function.name
        ),
        "Existing functions stay as they are; only the standard library is available.".to_owned(),
    ];
    let signature = format!("{}({})", function.name, function.parameters);
    let intro = match dice.number(0, 2) {
        0 => format!("Add a function `{signature}` to {path}."),
        1 => format!("The package `{package}` needs one more function in {path}: `{signature}`."),
        _ => format!("Please write `def {signature}:` in {path}."),
    };
    hidden::joined(draft.body("code", "add-function", dice.listed(&intro, &constraints))?)
}
