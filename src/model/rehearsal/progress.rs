//! Where the agent is in the solution, read from its own calls.

use super::conversation::{Call, Conversation, Turn};
use super::playing::{self, Mending, Route};
use crate::task::{Act, ActCall, ActRole, Probe, Task};

/// How an act was played.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Attempt {
    /// As the solution has it.
    Right,
    /// Wrong, but it runs.
    Wrong,
    /// So wrong that the call fails.
    Broken,
}

/// What a call of the past was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TurnKind {
    Act(usize, Attempt),
    Undo(usize),
    Narrow(usize),
    Look,
    LookAround,
    Gui,
    Notes,
    Finish,
    Malformed,
    Other,
}

/// All calls by which an act can be played.
pub(super) struct Rendering {
    pub(super) right: Option<Call>,
    pub(super) route: Route,
    pub(super) wrong: Option<Call>,
    pub(super) broken: Option<Call>,
    pub(super) amend: Option<Call>,
    pub(super) undo: Option<Call>,
    pub(super) narrow: Vec<Call>,
    pub(super) look: Option<Call>,
}

/// The solution in terms of the tools at hand.
pub(super) struct Plan<'a> {
    pub(super) acts: &'a [Act],
    pub(super) renderings: Vec<Rendering>,
    pub(super) around: Option<Call>,
    /// For each act the new files of the result that it names.
    names: Vec<Vec<&'a str>>,
}

impl<'a> Plan<'a> {
    pub(super) fn new(task: &'a Task, offered: &[String]) -> Self {
        let acts = task.body().solution.as_slice();
        let mut last_look: Option<&ActCall> = None;
        let mut renderings = Vec::with_capacity(acts.len());
        for act in acts {
            renderings.push(rendering(act, task, last_look, offered));
            if act.role == ActRole::Inspect {
                last_look = Some(&act.call);
            }
        }
        let results = new_files(task);
        let names = acts.iter().map(|act| results.iter().copied().filter(|path| mentions(&act.call, path)).collect()).collect();
        Self { acts, renderings, around: playing::look_around(offered), names }
    }

    /// Whether act `later` builds on a file that act `earlier` makes: it is lost when `earlier` is done again.
    pub(super) fn builds_on(&self, later: usize, earlier: usize) -> bool {
        earlier < later && self.names[later].iter().any(|path| self.names[earlier].contains(path))
    }

    /// The tools the solution needs.
    pub(super) fn needs(&self, tool: &str) -> bool {
        self.renderings.iter().any(|rendering| rendering.right.as_ref().is_some_and(|call| call.name == tool))
    }

    /// What each turn was. Equal calls of several acts are taken for the next act in order.
    pub(super) fn classify(&self, turns: &[Turn]) -> Vec<TurnKind> {
        let mut frontier = 0;
        turns
            .iter()
            .map(|turn| {
                let kind = turn.call.as_ref().map_or(TurnKind::Malformed, |call| self.kind(call, frontier));
                if let TurnKind::Act(index, _) = kind {
                    frontier = frontier.max(index + 1);
                }
                kind
            })
            .collect()
    }

    fn kind(&self, call: &Call, frontier: usize) -> TurnKind {
        let ahead = frontier..self.acts.len();
        let behind = (0..frontier).rev();
        for index in ahead.chain(behind) {
            if let Some(attempt) = self.renderings[index].attempt(call) {
                return TurnKind::Act(index, attempt);
            }
        }
        let at = |f: &dyn Fn(&Rendering) -> bool| self.renderings.iter().position(f);
        if let Some(index) = at(&|r| r.undo.as_ref() == Some(call)) {
            return TurnKind::Undo(index);
        }
        // Acts that rely on the same text share their ways to see it: the look counts for the next of them.
        let narrows = |index: &usize| self.renderings[*index].narrow.contains(call);
        if let Some(index) = (frontier..self.acts.len()).find(narrows).or_else(|| (0..frontier).find(narrows)) {
            return TurnKind::Narrow(index);
        }
        if self.around.as_ref() == Some(call) {
            return TurnKind::LookAround;
        }
        if at(&|r| r.look.as_ref() == Some(call)).is_some() {
            return TurnKind::Look;
        }
        match call.name.as_str() {
            "screenshot" | "computer_use" => TurnKind::Gui,
            "notes" => TurnKind::Notes,
            "finish" => TurnKind::Finish,
            _ => TurnKind::Other,
        }
    }
}

impl Rendering {
    fn attempt(&self, call: &Call) -> Option<Attempt> {
        let is = |known: &Option<Call>| known.as_ref() == Some(call);
        if is(&self.right) || is(&self.amend) {
            Some(Attempt::Right)
        } else if is(&self.wrong) {
            Some(Attempt::Wrong)
        } else if is(&self.broken) {
            Some(Attempt::Broken)
        } else {
            None
        }
    }
}

fn rendering(act: &Act, task: &Task, last_look: Option<&ActCall>, offered: &[String]) -> Rendering {
    let played = playing::render(&act.call, offered);
    let (right, route) = played.map_or((None, Route::Direct), |(call, route)| (Some(call), route));
    let guess = act.evidence.as_ref().and_then(|evidence| playing::misread(&act.call, evidence));
    let slip = act.slip.clone().or(guess).filter(|slip| *slip != act.call);
    let through = |call: &ActCall| playing::render(call, offered).map(|(call, _)| call);
    let (amend, undo) = match playing::mending(&act.call, slip.as_ref()) {
        Mending::Amend(call) => (through(&call), None),
        Mending::Undo(call) => (None, through(&call)),
        Mending::Again => (None, None),
    };
    let narrow = act.evidence.as_ref().map(|text| playing::narrowings(text, &task.body().files, last_look, offered)).unwrap_or_default();
    Rendering {
        broken: right.as_ref().map(playing::broken),
        wrong: slip.as_ref().and_then(through),
        look: playing::look_after(&act.call, offered),
        right,
        route,
        amend,
        undo,
        narrow,
    }
}

/// Files that the check looks at and that are not there at the start.
fn new_files(task: &Task) -> Vec<&str> {
    let paths = task.body().check.items.iter().filter_map(|item| match &item.probe {
        Probe::FileExists { path }
        | Probe::FileEquals { path, .. }
        | Probe::FileContains { path, .. }
        | Probe::FileMatches { path, .. }
        | Probe::JsonEquals { path, .. }
        | Probe::LinesEqual { path, .. }
        | Probe::FileMode { path, .. } => Some(path.as_str()),
        _ => None,
    });
    let mut paths: Vec<&str> = paths.filter(|path| task.body().files.get(path).is_none()).collect();
    paths.sort_unstable();
    paths.dedup();
    paths
}

fn mentions(call: &ActCall, text: &str) -> bool {
    match call {
        ActCall::Run { command } => command.contains(text),
        ActCall::Python { code } => code.contains(text),
        ActCall::Write { path, .. } | ActCall::Edit { path, .. } | ActCall::Read { path } => path == text,
    }
}

/// The past, sorted.
pub(super) struct Progress {
    pub(super) kinds: Vec<TurnKind>,
    /// The first act that was never tried.
    pub(super) frontier: usize,
}

impl Progress {
    /// Reads the past off `conversation`. What was dropped from it counts only as far as the agent's own notes tell.
    pub(super) fn read(plan: &Plan<'_>, conversation: &Conversation) -> Self {
        let kinds = plan.classify(&conversation.turns);
        let tried = kinds.iter().filter_map(|kind| if let TurnKind::Act(index, _) = kind { Some(index + 1) } else { None }).max();
        let frontier = tried.unwrap_or(0).max(noted_progress(&conversation.notes)).min(plan.acts.len());
        Self { kinds, frontier }
    }

    /// How the act was played last, as far as the conversation shows.
    pub(super) fn attempt(&self, index: usize) -> Option<Attempt> {
        self.kinds.iter().rev().find_map(|kind| match kind {
            TurnKind::Act(act, attempt) if *act == index => Some(*attempt),
            _ => None,
        })
    }

    /// Whether the act was played once, and right.
    pub(super) fn was_right_once(&self, index: usize) -> bool {
        let mut attempts = self.kinds.iter().filter_map(|kind| match kind {
            TurnKind::Act(act, attempt) if *act == index => Some(*attempt),
            _ => None,
        });
        attempts.next() == Some(Attempt::Right) && attempts.next().is_none()
    }

    /// The turn in which the act was played last.
    pub(super) fn last_turn(&self, index: usize) -> Option<usize> {
        self.kinds.iter().rposition(|kind| matches!(kind, TurnKind::Act(act, _) if *act == index))
    }

    /// Turns since the last one that was an act.
    pub(super) fn since_act(&self) -> &[TurnKind] {
        let start = self.kinds.iter().rposition(|kind| matches!(kind, TurnKind::Act(..))).map_or(0, |place| place + 1);
        &self.kinds[start..]
    }

    /// Turns since the last attempt to finish; all of them when there was none.
    pub(super) fn since_finish(&self) -> &[TurnKind] {
        let start = self.kinds.iter().rposition(|kind| *kind == TurnKind::Finish).map_or(0, |place| place + 1);
        &self.kinds[start..]
    }
}

/// The largest number of acts that a `- done:` line tells of.
fn noted_progress(notes: &str) -> usize {
    let lines = notes.lines().filter_map(|line| line.strip_prefix("- done: "));
    lines.filter_map(|line| line.split(' ').next()?.parse().ok()).max().unwrap_or(0)
}
