//! Change a few keys of a long configuration file, in the right sections only.

use super::parts::lines;
use crate::base::SeedTree;
use crate::forge::ForgeError;
use crate::forge::draft::{Draft, contains, edit, equals, informed_work, inspect, requirement, run, verify, work};
use crate::forge::vocabulary::{Dice, PLACES, TEAMS, WORDS};
use crate::task::{Probe, TaskBody};

/// A section of the file.
struct Section {
    name: String,
    port: i64,
    timeout: i64,
    workers: i64,
    debug: &'static str,
    owner: &'static str,
}

impl Section {
    fn text(&self) -> String {
        let Self { name, port, timeout, workers, debug, owner } = self;
        format!("[{name}]\nport = {port}\n# seconds\ntimeout = {timeout}\nworkers = {workers}\ndebug = {debug}\nowner = {owner}\n\n")
    }
}

pub(super) fn generate(seeds: &SeedTree) -> Result<TaskBody, ForgeError> {
    let dice = &mut Dice::new(seeds, "task");
    let config =
        format!("{}{}", dice.pick(&["", "etc/", "conf/"]), dice.pick(&["services.conf", "server.ini", "daemon.conf", "stack.ini"]));
    let changes = dice.pick(&["CHANGES.txt", "changelog.txt", "edits.txt"]);
    let wanted = dice.count(6, 14);
    let words = dice.picks(WORDS, wanted);
    let target = words[0];
    let mut ports: Vec<i64> = (3000..9900).step_by(7).collect();
    dice.shuffle(&mut ports);
    let mut names: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    let double = format!("{target}-{}", dice.pick(&["test", "old", "spare"]));
    let exempt = names[1].clone();
    names.push(double.clone());
    let mut sections: Vec<Section> = names
        .into_iter()
        .zip(&ports)
        .enumerate()
        .map(|(index, (name, port))| Section {
            name,
            port: *port,
            timeout: dice.number(5, 55),
            workers: dice.number(1, 16),
            // The exempt section has it on, and so have two others at least.
            debug: if (1..=3).contains(&index) || dice.chance(40) { "on" } else { "off" },
            owner: dice.pick(TEAMS),
        })
        .collect();
    dice.shuffle(&mut sections);
    let before: String = sections.iter().map(Section::text).collect();

    let port = ports[40] + 3;
    let minutes = dice.number(2, 9);
    let place = |name: &str| sections.iter().position(|section| section.name == name).unwrap_or(0);
    let (at, other) = (place(target), place(&double));
    let (old_port, old_timeout, other_port) = (sections[at].port, sections[at].timeout, sections[other].port);
    let kept: String = sections.iter().filter(|section| section.name == exempt).map(Section::text).collect();
    sections[at].port = port;
    sections[at].timeout = minutes * 60;
    for section in sections.iter_mut().filter(|section| section.name != exempt) {
        section.debug = "off";
    }
    let after: String = sections.iter().map(Section::text).collect();

    let doc = format!("{}.md", dice.pick(&["PORTS", "docs/network", "docs/ports", "NETWORK"]));
    let line = format!("Port {port} on the {} hosts is set aside for {target} (request {}).", dice.pick(PLACES), dice.code());
    let notes = dice.document("Ports and hosts", &line);
    let mut draft = Draft::default();
    draft.kept_file(&doc, &notes)?;
    draft.file(&config, &before)?;
    draft.guard(&format!("[{exempt}] unchanged"), contains(&config, &kept));
    let matches = |pattern: String| Probe::FileMatches { path: config.clone(), pattern };
    draft.credit("port", matches(format!(r"(?m)^\[{target}\]\nport = {port}$")));
    draft.credit("timeout", matches(format!(r"(?m)^\[{target}\]\nport = .*\n# seconds\ntimeout = {}$", minutes * 60)));
    draft.credit("whole file", equals(&config, &after));
    draft.credit("changes", lines(changes, &format!("{target} port {old_port} {port}\n{target} timeout {old_timeout} {}\n", minutes * 60)));

    let head = |section: &str, port: i64| format!("[{section}]\nport = {port}\n");
    let timeout = |seconds: i64| run(&format!("sed -i '/^\\[{target}\\]$/,/^\\[/ s/^timeout = .*/timeout = {seconds}/' {config}"));
    draft.act(inspect(&format!("cat {config}")));
    draft.act(inspect(&format!("cat {doc}")));
    draft.act(informed_work(
        edit(&config, &head(target, old_port), &head(target, port)),
        edit(&config, &head(&double, other_port), &head(&double, port)),
        &line,
    ));
    draft.act(work(timeout(minutes * 60), timeout(minutes)));
    draft.act(requirement(run(&format!("sed -i '/^\\[{exempt}\\]$/,/^\\[/! s/^debug = on$/debug = off/' {config}"))));
    draft.act(requirement(run(&format!(
        "printf '%s\\n' '{target} port {old_port} {port}' '{target} timeout {old_timeout} {}' > {changes}",
        minutes * 60
    ))));
    draft.act(verify(&format!("grep -A 5 '^\\[{target}\\]' {config}; grep -c 'debug = on' {config}; cat {changes}")));

    let constraints = [
        format!("The port is the one that {doc} sets aside for {target}; do not mix it up with {double}."),
        format!("Turn debug off in every section but [{exempt}], which stays exactly as it is."),
        format!("Write {changes}: for the port and for the timeout of {target} a line `SECTION KEY OLD NEW`."),
        "Everything else in the file, comments and order too, stays.".to_owned(),
    ];
    let intro = match dice.number(0, 2) {
        0 => format!("In {config}, give the service [{target}] its new port and a timeout of {minutes} minutes."),
        1 => format!(
            "{target} moves to another port. Set it in {config}, and raise the timeout of {target} to {minutes} minutes while you are there."
        ),
        _ => format!(
            "Please change two settings of {target} in {config}: the port (to its reserved one) and the timeout (to {minutes} minutes)."
        ),
    };
    draft.body("shell", "edit-config", dice.listed(&intro, &constraints))
}
