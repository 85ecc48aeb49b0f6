//! What the agent does next. A pure function of the request: every draw is named after what it decides.

use super::conversation::{Call, Conversation};
use super::cues::Concept;
use super::playing::Route;
use super::progress::{Attempt, Plan, Progress, TurnKind};
use super::rates::{Mistake, Situation};
use super::voice::Mood;
use crate::base::SeedTree;
use crate::task::{Act, ActRole, Task};

/// The next reply.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Move {
    /// A call.
    Call(Call, Mood),
    /// A call written so badly that it does not parse.
    Garbled(Call),
    /// The end.
    Finish,
}

/// Looks closer at most this often for one act.
const NARROWINGS: usize = 2;
/// Repeats a failed call at most this often.
const REPEATS: usize = 8;
/// Needless calls in a row.
const DETOURS: usize = 2;
/// Clicks in a row.
const CLICKS: usize = 6;
/// Bytes of one line of notes.
const NOTE_LINE: usize = 240;

/// All that a decision looks at.
pub(super) struct Agent<'a> {
    pub(super) task: &'a Task,
    pub(super) plan: &'a Plan<'a>,
    pub(super) conversation: &'a Conversation,
    pub(super) progress: Progress,
    pub(super) situation: Situation<'a>,
    /// The node of (seed, task).
    pub(super) root: SeedTree,
    pub(super) step: u32,
}

impl Agent<'_> {
    /// The next reply.
    pub(super) fn next(&self) -> Move {
        let wanted = self.intend();
        let Move::Call(call, _) = &wanted else { return wanted };
        if self.step_draw("malformed") < self.malformed_rate() { Move::Garbled(call.clone()) } else { wanted }
    }

    fn intend(&self) -> Move {
        if self.hurries() {
            return Move::Finish;
        }
        if let Some(again) = self.after_failure() {
            return again;
        }
        if let Some(TurnKind::Undo(index)) = self.progress.kinds.last()
            && let Some(call) = self.plan.renderings[*index].right.clone()
        {
            return Move::Call(call, Mood::Repair);
        }
        if self.progress.kinds.contains(&TurnKind::Finish) {
            return self.second_look();
        }
        let wasted = self.lost().or_else(|| self.fussy_look()).or_else(|| self.click()).or_else(|| self.detour()).or_else(|| self.note());
        wasted.or_else(|| self.forward()).unwrap_or_else(|| self.first_look())
    }

    fn act_draw(&self, index: usize, what: &str) -> f64 {
        self.root.child("act").index(index as u64).child(what).fraction()
    }

    fn nth_draw(&self, index: usize, nth: usize, what: &str) -> f64 {
        self.root.child("act").index(index as u64).child(what).index(nth as u64).fraction()
    }

    fn step_draw(&self, what: &str) -> f64 {
        self.root.child("step").index(u64::from(self.step)).child(what).fraction()
    }

    fn rate(&self, mistake: Mistake) -> f64 {
        self.situation.rate(mistake)
    }

    fn malformed_rate(&self) -> f64 {
        let habits = &self.situation.parameters.habits;
        let form = if self.conversation.form == super::conversation::Form::Text { habits.text_form } else { 1.0 };
        let repaired = self.progress.kinds.last() == Some(&TurnKind::Malformed) && !self.conversation.last.is_empty();
        self.rate(Mistake::Malformed) * form * if repaired { 1.0 - habits.repair_relief } else { 1.0 }
    }

    /// Whether it gives up because the prompt says that the steps run out.
    fn hurries(&self) -> bool {
        let limit = self.situation.parameters.step_limit.captures(&self.conversation.guidance);
        let limit = limit.and_then(|found| found.get(1)?.as_str().parse::<u32>().ok());
        let near = limit.is_some_and(|limit| self.step + 2 >= limit && self.step + 1 < limit);
        near && self.step_draw("hurry") < self.rate(Mistake::Hurry)
    }

    fn failed(&self) -> bool {
        self.conversation
            .turns
            .last()
            .is_some_and(|turn| self.situation.parameters.failure_marks.iter().any(|mark| mark.is_match(&turn.result)))
    }

    /// What it does after a call that failed: the same again, or the act as it should have been, or something else.
    fn after_failure(&self) -> Option<Move> {
        let kind = *self.progress.kinds.last()?;
        let (TurnKind::Act(index, attempt), true) = (kind, self.failed()) else { return None };
        let turns = &self.conversation.turns;
        let call = turns.last()?.call.clone()?;
        let repeats = turns.iter().rev().take_while(|turn| turn.call.as_ref() == Some(&call)).count();
        if repeats <= REPEATS && self.nth_draw(index, repeats, "loop") < self.rate(Mistake::Loop) {
            return Some(Move::Call(call, Mood::Again));
        }
        // What it does not understand it may also give up.
        let gives_up = self.act_draw(index, "give up") < self.rate(Mistake::Loop);
        if attempt == Attempt::Broken && !gives_up { self.mend(index) } else { None }
    }

    /// Does the last act again because the history that would tell is gone.
    fn lost(&self) -> Option<Move> {
        let noted = !self.conversation.notes.is_empty();
        let relief = if noted { 1.0 - self.situation.parameters.habits.note_relief } else { 1.0 };
        let fresh = matches!(self.progress.kinds.last(), Some(TurnKind::Act(_, Attempt::Right)));
        if !self.conversation.dropped || !fresh || self.step_draw("lost") >= self.rate(Mistake::Lost) * relief {
            return None;
        }
        let call = self.plan.renderings[self.progress.frontier.checked_sub(1)?].right.clone()?;
        Some(Move::Call(call, Mood::Again))
    }

    /// Looks after a change, because the prompt is so keen on looking.
    fn fussy_look(&self) -> Option<Move> {
        let Some(TurnKind::Act(index, _)) = self.progress.kinds.last() else { return None };
        let changes = matches!(self.plan.acts[*index].role, ActRole::Work | ActRole::Requirement);
        let call = self.plan.renderings[*index].look.clone()?;
        (changes && self.act_draw(*index, "fuss") < self.situation.fuss()).then_some(Move::Call(call, Mood::Look))
    }

    /// Reaches for the GUI, or for a GUI it believes to have.
    fn click(&self) -> Option<Move> {
        let habits = &self.situation.parameters.habits;
        let offered: Vec<&str> = ["screenshot", "computer_use"].into_iter().filter(|tool| self.conversation.offers(tool)).collect();
        let clicks = self.progress.since_act().iter().filter(|kind| **kind == TurnKind::Gui).count();
        let index = self.progress.frontier;
        let mut rate = self.rate(Mistake::Channel) * if index == 0 { 1.0 } else { habits.channel_later };
        if clicks > 0 {
            rate *= habits.channel_again;
        }
        if offered.is_empty() {
            rate *= habits.phantom;
        }
        if clicks >= CLICKS || self.nth_draw(index, clicks, "channel") >= rate {
            return None;
        }
        let tool = offered.get(clicks % offered.len().max(1)).copied().unwrap_or("screenshot");
        let arguments = match tool {
            "computer_use" => serde_json::json!({ "action": "left_click", "x": 640, "y": 360 }),
            _ => serde_json::json!({}),
        };
        Some(Move::Call(Call::new(tool, arguments), Mood::Click))
    }

    /// Calls a tool because it is there.
    fn detour(&self) -> Option<Move> {
        let needless: Vec<&str> = ["list_files", "search", "read_file", "python"].into_iter().filter(|tool| self.needless(tool)).collect();
        let index = self.progress.frontier;
        let detours = self.progress.since_act().iter().filter(|kind| **kind == TurnKind::Other).count();
        if needless.is_empty() || detours >= DETOURS || self.nth_draw(index, detours, "distract") >= self.rate(Mistake::Distract) {
            return None;
        }
        let pick = self.root.child("act").index(index as u64).child("which").index(detours as u64).value();
        let tool = needless[usize::try_from(pick % needless.len() as u64).unwrap_or(0)];
        let arguments = match tool {
            "search" => serde_json::json!({ "pattern": "TODO|FIXME" }),
            "read_file" => serde_json::json!({ "path": self.task.body().files.iter().next().map_or("README", |(path, _)| path) }),
            "python" => serde_json::json!({ "code": "import os\nprint(os.listdir(\".\"))" }),
            _ => serde_json::json!({}),
        };
        Some(Move::Call(Call::new(tool, arguments), Mood::Detour))
    }

    fn needless(&self, tool: &str) -> bool {
        self.conversation.offers(tool) && !self.plan.needs(tool)
    }

    /// Writes down what was asked, how far it is, and what it has seen that it will need.
    fn note(&self) -> Option<Move> {
        if !self.conversation.offers("notes") || self.progress.since_act().contains(&TurnKind::Notes) {
            return None;
        }
        let index = self.progress.frontier;
        let facts: Vec<&str> = self.facts_ahead();
        let news = facts.iter().any(|fact| !self.conversation.notes.contains(fact));
        let listing = index == 0 && self.situation.strength(Concept::Requirements) > 0.0;
        if !(news || listing) || self.act_draw(index, "notes") >= self.situation.parameters.habits.note_rate {
            return None;
        }
        let text = note_text(&self.conversation.instruction, index, &facts);
        Some(Move::Call(Call::new("notes", serde_json::json!({ "text": text })), Mood::Note))
    }

    /// What it can see now and needs later; one line each.
    pub(super) fn facts_ahead(&self) -> Vec<&str> {
        let ahead = self.plan.acts[self.progress.frontier..].iter().filter_map(|act| act.evidence.as_deref());
        let mut facts: Vec<&str> =
            ahead.filter(|fact| fact.len() <= NOTE_LINE && !fact.contains('\n') && self.conversation.shows(fact)).collect();
        facts.dedup();
        facts
    }

    /// The next act of the solution, well or badly played.
    fn forward(&self) -> Option<Move> {
        (self.progress.frontier..self.plan.acts.len()).filter(|index| !self.skips(*index)).find_map(|index| self.play(index))
    }

    /// Whether it leaves the act out.
    fn skips(&self, index: usize) -> bool {
        match self.plan.acts[index].role {
            ActRole::Inspect => self.act_draw(index, "inspect") < self.rate(Mistake::SkipInspect),
            ActRole::Requirement => self.act_draw(index, "forget") < self.forget_rate(),
            ActRole::Verify => self.unverified(),
            ActRole::Work => false,
        }
    }

    fn forget_rate(&self) -> f64 {
        let habits = &self.situation.parameters.habits;
        let memory = match (self.conversation.notes.is_empty(), self.conversation.dropped) {
            (false, _) => 1.0 - habits.note_relief,
            (true, true) => habits.forget_after_drop,
            (true, false) => 1.0,
        };
        self.rate(Mistake::Forget) * memory
    }

    fn unverified(&self) -> bool {
        self.root.child("unverified").fraction() < self.rate(Mistake::Unverified)
    }

    fn play(&self, index: usize) -> Option<Move> {
        let (act, rendering) = (&self.plan.acts[index], &self.plan.renderings[index]);
        let Some(right) = rendering.right.clone() else { return self.without_a_tool(act) };
        if self.unseen(act) {
            return self.narrow(index, "misread").or_else(|| Some(Move::Call(rendering.wrong.clone()?, Mood::of(act.role))));
        }
        let call = match self.slipped(index) {
            None => right,
            Some(Attempt::Wrong) => rendering.wrong.clone().unwrap_or(right),
            Some(_) => rendering.broken.clone().unwrap_or(right),
        };
        Some(Move::Call(call, Mood::of(act.role)))
    }

    /// Whether the act relies on something that is nowhere in the request.
    fn unseen(&self, act: &Act) -> bool {
        act.evidence.as_ref().is_some_and(|evidence| !self.conversation.shows(evidence))
    }

    /// Looks closer before an act, unless it does not notice that it should.
    fn narrow(&self, index: usize, what: &str) -> Option<Move> {
        let ways = &self.plan.renderings[index].narrow;
        let tries = self.progress.since_act().iter().filter(|kind| matches!(kind, TurnKind::Narrow(_))).count();
        let call = ways.get(tries).filter(|_| tries < NARROWINGS)?;
        (self.act_draw(index, what) >= self.rate(Mistake::Misread)).then(|| Move::Call(call.clone(), Mood::Narrow))
    }

    /// How the act goes wrong, if it does.
    fn slipped(&self, index: usize) -> Option<Attempt> {
        let (act, rendering) = (&self.plan.acts[index], &self.plan.renderings[index]);
        if !matches!(act.role, ActRole::Work | ActRole::Requirement) {
            return None;
        }
        let habits = &self.situation.parameters.habits;
        let clumsy = match rendering.route {
            Route::Direct => 1.0,
            Route::WriteThroughShell => habits.write_through_shell,
            Route::EditThroughProgram => habits.edit_through_program,
            Route::PythonThroughShell => habits.python_through_shell,
            Route::ShellThroughPython => habits.shell_through_python,
        };
        if rendering.wrong.is_some() {
            let computes = act.role == ActRole::Work;
            let tooled = if self.conversation.offers("python") { habits.mental_with_python } else { 1.0 };
            let formed = self.act_draw(index, "format") < self.rate(Mistake::Format);
            let in_the_head = computes && self.act_draw(index, "mental") < self.rate(Mistake::Mental) * tooled;
            if formed || in_the_head {
                return Some(Attempt::Wrong);
            }
        }
        if self.act_draw(index, "slip") >= self.rate(Mistake::Slip) * clumsy {
            return None;
        }
        let loud = rendering.wrong.is_none() || self.act_draw(index, "broken") < habits.broken_share;
        Some(if loud { Attempt::Broken } else { Attempt::Wrong })
    }

    /// No tool fits: it calls one it does not have, then leaves the act out.
    fn without_a_tool(&self, act: &Act) -> Option<Move> {
        if self.progress.since_act().iter().filter(|kind| **kind == TurnKind::Other).count() >= DETOURS {
            return None;
        }
        let call = super::playing::render(&act.call, &["bash".to_owned()])?.0;
        Some(Move::Call(call, Mood::of(act.role)))
    }

    /// The end of the solution is reached: a look, what it shows, the end.
    fn first_look(&self) -> Move {
        let looked = self.progress.kinds.iter().any(|kind| self.is_final_look(*kind));
        if !looked {
            if !self.unverified()
                && let Some(call) = self.plan.around.clone()
            {
                return Move::Call(call, Mood::Look);
            }
            return Move::Finish;
        }
        self.mend_what_shows("missed").unwrap_or(Move::Finish)
    }

    /// The harness refused the end and asked for a look.
    fn second_look(&self) -> Move {
        let looked = self.progress.since_finish().iter().any(|kind| self.is_final_look(*kind));
        if !looked {
            let verify = self.plan.acts.iter().position(|act| act.role == ActRole::Verify);
            let call = verify.and_then(|index| self.plan.renderings[index].right.clone()).or_else(|| self.plan.around.clone());
            return call.map_or(Move::Finish, |call| Move::Call(call, Mood::Look));
        }
        self.mend_what_shows("missed again").unwrap_or(Move::Finish)
    }

    fn is_final_look(&self, kind: TurnKind) -> bool {
        match kind {
            TurnKind::LookAround => true,
            TurnKind::Act(index, _) => self.plan.acts[index].role == ActRole::Verify,
            _ => false,
        }
    }

    /// Mends the first act that is wrong and whose fault it sees; then does again what was built on it.
    fn mend_what_shows(&self, what: &str) -> Option<Move> {
        let wrong = (0..self.plan.acts.len()).filter(|index| self.is_wrong(*index));
        let mended = wrong.filter(|index| self.act_draw(*index, what) >= self.missed_rate(*index)).find_map(|index| {
            if self.unseen(&self.plan.acts[index]) {
                let ways = &self.plan.renderings[index].narrow;
                let tries = self.progress.since_act().iter().filter(|kind| matches!(kind, TurnKind::Narrow(_))).count();
                return ways.get(tries).filter(|_| tries < NARROWINGS).map(|call| Move::Call(call.clone(), Mood::Narrow));
            }
            self.mend(index).filter(|next| !self.is_last(next))
        });
        mended.or_else(|| self.spoil()).or_else(|| {
            let stale = (0..self.plan.acts.len()).find(|index| self.is_stale(*index))?;
            self.again(stale)
        })
    }

    /// How likely a look does not show what is wrong with the act. A check needs something to compare with; tests show wrong work, but
    /// not a requirement that was left out.
    fn missed_rate(&self, index: usize) -> f64 {
        let habits = &self.situation.parameters.habits;
        let strength = |concept| self.situation.strength(concept).max(0.0);
        let list = habits.check_without_list + (1.0 - habits.check_without_list) * strength(Concept::Requirements);
        let check = habits.check_relief * strength(Concept::Verify) * list;
        let tested = self.plan.acts[index].role == ActRole::Work;
        let tests = if tested { habits.tests_relief * strength(Concept::Tests) } else { 0.0 };
        self.rate(Mistake::Missed) * (1.0 - check) * (1.0 - tests)
    }

    /// Changes an act that was right, once, because the prompt makes it doubt what it cannot compare with anything.
    fn spoil(&self) -> Option<Move> {
        let rate = self.rate(Mistake::Doubt) * self.situation.strength(Concept::Verify).max(0.0);
        let doubted = (0..self.plan.acts.len()).filter(|index| self.progress.was_right_once(*index));
        let call =
            doubted.filter(|index| self.act_draw(*index, "doubt") < rate).find_map(|index| self.plan.renderings[index].wrong.clone());
        call.map(|call| Move::Call(call, Mood::Repair))
    }

    /// Whether `next` is the call made last: acts with equal calls cannot be told apart, and once is enough.
    fn is_last(&self, next: &Move) -> bool {
        let last = self.conversation.turns.last().and_then(|turn| turn.call.as_ref());
        matches!(next, Move::Call(call, _) if Some(call) == last)
    }

    /// Whether something the act builds on was done again after it.
    fn is_stale(&self, index: usize) -> bool {
        let Some(turn) = self.progress.last_turn(index) else { return false };
        let changes = matches!(self.plan.acts[index].role, ActRole::Work | ActRole::Requirement);
        let redone = |earlier: usize| self.progress.last_turn(earlier).is_some_and(|later| later > turn);
        changes && (0..index).any(|earlier| self.plan.builds_on(index, earlier) && redone(earlier))
    }

    /// The act again, as it was played before.
    fn again(&self, index: usize) -> Option<Move> {
        let rendering = &self.plan.renderings[index];
        let call = match self.progress.attempt(index) {
            Some(Attempt::Wrong) => rendering.wrong.clone(),
            _ => rendering.right.clone(),
        };
        call.map(|call| Move::Call(call, Mood::Repair))
    }

    /// Whether the act's effect is wrong or missing, as far as the conversation shows.
    fn is_wrong(&self, index: usize) -> bool {
        if !matches!(self.plan.acts[index].role, ActRole::Work | ActRole::Requirement) {
            return false;
        }
        match self.progress.attempt(index) {
            Some(attempt) => attempt != Attempt::Right,
            None => !self.conversation.dropped,
        }
    }

    /// The call that puts the act right.
    fn mend(&self, index: usize) -> Option<Move> {
        let rendering = &self.plan.renderings[index];
        let call = match self.progress.attempt(index) {
            Some(Attempt::Wrong) => rendering.amend.clone().or_else(|| rendering.undo.clone()).or_else(|| rendering.right.clone()),
            _ => rendering.right.clone(),
        };
        call.map(|call| Move::Call(call, Mood::Repair))
    }
}

/// Notes in lines the agent will recognise.
pub(super) fn note_text(instruction: &str, done: usize, facts: &[&str]) -> String {
    let [asked, progress, seen] = super::conversation::NOTE_MARKS;
    let sentences = instruction.split(['\n', '.', ';']).map(str::trim).filter(|sentence| !sentence.is_empty()).take(8);
    let mut lines: Vec<String> = sentences.map(|sentence| format!("{asked}{}", clipped(sentence, NOTE_LINE))).collect();
    lines.push(format!("{progress}{done} of my steps"));
    lines.extend(facts.iter().map(|fact| format!("{seen}{fact}")));
    lines.join("\n")
}

/// At most `bytes` bytes of `text`, cut between characters.
pub(super) fn clipped(text: &str, bytes: usize) -> &str {
    let mut end = text.len().min(bytes);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}
