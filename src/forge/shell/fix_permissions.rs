//! Bring the modes of a deployed tree in order, with one exception.

use super::parts::{listing, mode, prints};
use crate::base::{Entry, SeedTree};
use crate::forge::ForgeError;
use crate::forge::draft::{Draft, equals, informed_work, inspect, requirement, run, verify, work};
use crate::forge::vocabulary::{Dice, TEAMS, WORDS};
use crate::task::TaskBody;

pub(super) fn generate(seeds: &SeedTree) -> Result<TaskBody, ForgeError> {
    let dice = &mut Dice::new(seeds, "task");
    let root = dice.pick(&["site", "deploy", "release", "app"]);
    let (script_mode, config_mode) = (dice.pick(&["750", "700", "710"]), dice.pick(&["640", "600", "660"]));
    let key_mode = dice.pick(&["400", "600"]);
    let extra = dice.pick(&["755", "754", "751"]);
    let names = dice.picks(WORDS, 18);
    let (scripts, rest) = names.split_at(dice.count(3, 6));
    let (configs, rest) = rest.split_at(dice.count(3, 5));
    let (keys, shared) = rest.split_at(dice.count(2, 3));
    let shared = &shared[..3];
    let special = scripts[dice.count(0, scripts.len() - 1)];
    let (kind, ending) = (dice.pick(&["bin", "scripts", "jobs"]), dice.pick(&["conf", "ini", "cfg"]));

    let doc = format!("{}.md", dice.pick(&["OPERATIONS", "docs/access", "ACCOUNTS", "docs/hosting"]));
    let line = format!(
        "{special}.sh is also started by the {} team's own account, so its mode is {extra} (ticket {}).",
        dice.pick(TEAMS),
        dice.code()
    );
    let notes = dice.document("Accounts and access", &line);
    let mut draft = Draft::default();
    draft.kept_file(&doc, &notes)?;
    let put = |draft: &mut Draft, dice: &mut Dice, path: String, modes: [u32; 4]| -> Result<(), ForgeError> {
        let text = format!("# {} {}\n{}\n", dice.pick(WORDS), dice.number(1, 999), dice.code());
        let mode = modes[dice.count(0, 3)];
        draft.entry(&path, Entry::File { text: text.clone(), mode })?;
        draft.guard(&format!("{path} unchanged"), equals(&path, &text));
        Ok(())
    };
    for name in scripts {
        put(&mut draft, dice, format!("{root}/{kind}/{name}.sh"), [0o644, 0o777, 0o664, 0o600])?;
    }
    for name in configs {
        put(&mut draft, dice, format!("{root}/etc/{name}.{ending}"), [0o644, 0o666, 0o755, 0o664])?;
    }
    for name in keys {
        put(&mut draft, dice, format!("{root}/keys/{name}.pem"), [0o644, 0o640, 0o664, 0o666])?;
        draft.credit(&format!("{name}.pem mode"), mode(&format!("{root}/keys/{name}.pem"), key_mode));
    }
    for name in shared {
        put(&mut draft, dice, format!("{root}/shared/{name}.txt"), [0o666, 0o662, 0o646, 0o622])?;
    }

    let usual: Vec<String> = scripts.iter().filter(|name| **name != special).map(|name| format!("{name}.sh {script_mode}")).collect();
    let find = format!("find {root}/{kind} -name '*.sh' ! -name {special}.sh -printf '%f %m\\n' | LC_ALL=C sort");
    draft.credit("script modes", prints(&find, &listing(&usual)));
    let config_modes: Vec<String> = configs.iter().map(|name| format!("{name}.{ending} {config_mode}")).collect();
    draft.credit("config modes", prints(&format!("find {root}/etc -type f -printf '%f %m\\n' | LC_ALL=C sort"), &listing(&config_modes)));
    draft.credit("the exception", mode(&format!("{root}/{kind}/{special}.sh"), extra));

    let all = |scripts: &str, configs: &str| {
        run(&format!(
            "find {root}/{kind} -name '*.sh' -exec chmod {scripts} {{}} + && find {root}/etc -name '*.{ending}' -exec chmod {configs} {{}} +"
        ))
    };
    draft.act(inspect(&format!("find {root} -type f -printf '%m %p\\n' | LC_ALL=C sort -k2; wc -c {doc}")));
    draft.act(inspect(&format!("cat {doc}")));
    draft.act(work(all(script_mode, config_mode), all("+x", "go-w")));
    let exception = |bits: &str| run(&format!("chmod {bits} {root}/{kind}/{special}.sh"));
    draft.act(informed_work(exception(extra), exception(script_mode), &line));
    draft.act(requirement(run(&format!("find {root}/keys -type f -exec chmod {key_mode} {{}} +"))));
    let mut constraints = vec![
        format!("One script is an exception; {doc} says which, and what its mode is."),
        format!("The keys in {root}/keys/ get mode {key_mode}."),
        "Change modes only, no file's content and no name.".to_owned(),
    ];
    if dice.chance(60) {
        constraints
            .push(format!("Nobody but owner and group may write to the files in {root}/shared/; leave their other bits as they are."));
        draft.credit("shared files", prints(&format!("find {root}/shared -type f -perm /002"), ""));
        draft.act(requirement(run(&format!("chmod -R o-w {root}/shared"))));
    }
    draft.act(verify(&format!("find {root} -type f -printf '%m %p\\n' | LC_ALL=C sort -k2")));

    let intro = match dice.number(0, 2) {
        0 => format!(
            "After the last deployment the modes in {root}/ are a mess. Set every script ({root}/{kind}/*.sh) to {script_mode} and every configuration file ({root}/etc/*.{ending}) to {config_mode}."
        ),
        1 => format!(
            "Please tidy the permissions below {root}/: scripts in {root}/{kind}/ are to have mode {script_mode}, the .{ending} files in {root}/etc/ mode {config_mode}."
        ),
        _ => format!(
            "An audit found wrong permissions in {root}/. Wanted: {script_mode} for the .sh files in {root}/{kind}/ and {config_mode} for the .{ending} files in {root}/etc/."
        ),
    };
    draft.body("shell", "fix-permissions", dice.listed(&intro, &constraints))
}
