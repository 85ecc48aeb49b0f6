//! Answers to a reply: its calls played in order, or a remark. Every call gets exactly one result, also when the turn ends among them.

use serde_json::Value;
use tokio::time::Instant;

use super::calls::{self, MOST_CALLS, ReadCall};
use super::repair::Repair;
use super::self_check::Look;
use super::stop::Stop;
use super::turn::Turn;
use crate::environment::observe;
use crate::harness::{CallForm, FinishRule, SelfCheck, ToolName};
use crate::model::{ChatReply, StopReason};
use crate::trajectory::{Boundary, ContentPart, Ending, Message};

/// The result of a call that was not played because the turn ended before it.
const NOT_RUN: &str = "not run: the episode has ended";
/// Why an end is not accepted.
const NOT_LOOKED: &str = "error: not finished: nothing was looked at since the last change";

/// One call of a reply, with the id that its result answers.
struct NamedCall {
    id: String,
    read: ReadCall,
}

/// Whether a reply had a malformed call so far.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Right,
    Malformed,
}

impl Turn<'_> {
    /// Takes in a reply and answers it.
    pub(super) async fn answer(&mut self, mut reply: ChatReply) -> Result<(), Stop> {
        let calls = self.read(&mut reply);
        let text = reply.message.joined_text();
        self.conversation.reply(reply.message);
        if !calls.is_empty() {
            return self.play_calls(calls).await;
        }
        if self.clock.is_over() {
            return Err(Stop::Ended(Ending::TimeLimit));
        }
        match self.missing_call(reply.stop, &text) {
            Some(reason) => self.malformed_reply(&reason).await,
            None => {
                self.malformed.reset();
                let refusal = self.finish()?;
                self.refuse_end(refusal, None).await;
                Ok(())
            }
        }
    }

    /// The calls of a reply, whose message is brought into the form of the conversation.
    fn read(&mut self, reply: &mut ChatReply) -> Vec<NamedCall> {
        let message = &mut reply.message;
        let read = match self.genome.protocol.calls {
            CallForm::Native => calls::read_native(&message.tool_calls, &self.offered),
            CallForm::Text => {
                write_as_text(message);
                calls::read_text(&message.joined_text(), &self.offered)
            }
        };
        let mut named = Vec::with_capacity(read.len());
        for (index, mut read) in read.into_iter().enumerate() {
            let id = self.unique_id(message.tool_calls.get(index).map_or("", |call| call.id.as_str()));
            if let Some(call) = message.tool_calls.get_mut(index) {
                call.id.clone_from(&id);
            }
            if index >= MOST_CALLS {
                read.call = Err(format!("not run: a reply may hold at most {MOST_CALLS} calls"));
            } else if let (Err(reason), StopReason::Length) = (&mut read.call, reply.stop) {
                reason.push_str(&self.cut_off());
            }
            named.push(NamedCall { id, read });
        }
        named
    }

    /// `given`, unless it is empty or was used before, as with servers that number the calls of each reply anew.
    fn unique_id(&mut self, given: &str) -> String {
        let id = if given.is_empty() || self.call_ids.contains(given) {
            let mut number = self.call_ids.len() + 1;
            while self.call_ids.contains(&format!("call_{number}")) {
                number += 1;
            }
            format!("call_{number}")
        } else {
            given.to_owned()
        };
        self.call_ids.insert(id.clone());
        id
    }

    fn cut_off(&self) -> String {
        format!("; the reply was cut off at its limit of {} tokens", self.genome.sampling.max_output_tokens)
    }

    /// Why a reply without a call is malformed; `None` when it is an attempt to finish.
    fn missing_call(&self, stop: StopReason, text: &str) -> Option<String> {
        let protocol = &self.genome.protocol;
        let how = match protocol.calls {
            CallForm::Native => "through the tool interface",
            CallForm::Text => "as <tool_call>{\"name\": ..., \"arguments\": {...}}</tool_call>",
        };
        if stop == StopReason::Length {
            Some(format!("the reply holds no tool call{}", self.cut_off()))
        } else if stop == StopReason::Filtered {
            Some("the reply was withheld by the provider's filter".to_owned())
        } else if protocol.calls == CallForm::Native && calls::has_text_calls(text) {
            Some("the call is written as text: call tools through the tool interface".to_owned())
        } else if protocol.finish == FinishRule::Tool {
            Some(format!("the reply holds no tool call: call a tool {how}, or `finish` when everything is done"))
        } else if text.trim().is_empty() {
            Some("the reply is empty".to_owned())
        } else {
            None
        }
    }

    async fn play_calls(&mut self, calls: Vec<NamedCall>) -> Result<(), Stop> {
        let mut form = Form::Right;
        let mut calls = calls.into_iter();
        while let Some(call) = calls.next() {
            if let Err(stop) = self.play_call(call, &mut form).await {
                for rest in calls {
                    self.conversation.observe(&rest.id, &rest.read.name, NOT_RUN.to_owned());
                }
                return Err(stop);
            }
        }
        if form == Form::Right {
            self.malformed.reset();
        }
        Ok(())
    }

    /// Plays one call; its result is in the conversation whatever comes back.
    async fn play_call(&mut self, call: NamedCall, form: &mut Form) -> Result<(), Stop> {
        let NamedCall { id, read: ReadCall { name, call } } = call;
        if self.clock.is_over() {
            self.conversation.observe(&id, &name, NOT_RUN.to_owned());
            return Err(Stop::Ended(Ending::TimeLimit));
        }
        let (tool, arguments) = match call {
            Ok(call) => call,
            Err(reason) => return self.malformed_call(&id, &name, &reason, form).await,
        };
        let began = Instant::now();
        let result = self.terminal.call(tool, &arguments, self.clock.remaining()).await;
        self.tally.tools += began.elapsed();
        let result = result.map_err(|error| {
            self.conversation.observe(&id, &name, "no result: the environment failed".to_owned());
            Stop::fault(Boundary::Sandbox, error)
        })?;
        self.tally.call(tool);
        let before = self.look;
        self.look = before.after(tool, &result);
        if before == Look::Missing && self.look == Look::Taken {
            self.self_checks.reset();
        }
        let text = observe(&result, &self.genome.observation);
        if result.failed {
            return self.tool_error(&id, tool, arguments, text).await;
        }
        self.tool_errors.reset();
        self.last_failure = None;
        if tool != ToolName::Finish {
            self.conversation.observe(&id, &name, text);
            return Ok(());
        }
        match self.finish() {
            Ok(refusal) => {
                self.refuse_end(refusal, Some((&id, &name))).await;
                Ok(())
            }
            Err(stop) => {
                self.conversation.observe(&id, &name, text);
                Err(stop)
            }
        }
    }

    /// Answers a failed call. The turn ends when the rules for failures in a row are spent and the agent still makes the same call with
    /// the same result; without any rule failures are only shown.
    async fn tool_error(&mut self, id: &str, tool: ToolName, arguments: Value, text: String) -> Result<(), Stop> {
        let repair = self.tool_errors.fail();
        let failure = (tool, arguments, text);
        let repeated = self.last_failure.as_ref() == Some(&failure);
        let text = repair.map_or_else(|| failure.2.clone(), |repair| repair.explain(&failure.2));
        self.conversation.observe(id, tool.as_str(), text);
        self.last_failure = Some(failure);
        match repair {
            Some(repair) => {
                self.pause(repair, "tool_error").await;
                Ok(())
            }
            None if repeated && !self.tool_errors.is_lenient() => Err(Stop::Ended(Ending::ToolErrors)),
            None => Ok(()),
        }
    }

    /// Answers a call that cannot be played. A reply counts as malformed once, however many of its calls are.
    async fn malformed_call(&mut self, id: &str, name: &str, reason: &str, form: &mut Form) -> Result<(), Stop> {
        let message = format!("error: {reason}");
        if std::mem::replace(form, Form::Malformed) == Form::Malformed {
            self.conversation.observe(id, name, message);
            return Ok(());
        }
        let repair = self.malformed.fail();
        self.conversation.observe(id, name, repair.map_or_else(|| message.clone(), |repair| repair.explain(&message)));
        self.after_malformed(repair).await
    }

    /// Answers a reply that holds no call.
    async fn malformed_reply(&mut self, reason: &str) -> Result<(), Stop> {
        let message = format!("error: {reason}");
        let repair = self.malformed.fail();
        // The last reply of an episode stays without an answer.
        if let Some(repair) = &repair {
            self.conversation.remark(repair.explain(&message));
        }
        self.after_malformed(repair).await
    }

    async fn after_malformed(&mut self, repair: Option<Repair<'_>>) -> Result<(), Stop> {
        match repair {
            Some(repair) => {
                self.pause(repair, "malformed_reply").await;
                Ok(())
            }
            None => Err(Stop::Ended(Ending::Malformed)),
        }
    }
}

impl<'a> Turn<'a> {
    /// Ends the turn, or says under which rule the end is refused. Once the rules are spent the end is accepted as it is.
    fn finish(&mut self) -> Result<Repair<'a>, Stop> {
        if self.genome.protocol.self_check == SelfCheck::Required && self.look == Look::Missing {
            return self.self_checks.fail().ok_or(Stop::Ended(Ending::Finished));
        }
        Err(Stop::Ended(Ending::Finished))
    }

    /// Answers a refused end: the call, or the reply as a whole.
    async fn refuse_end(&mut self, refusal: Repair<'_>, call: Option<(&str, &str)>) {
        let text = refusal.explain(NOT_LOOKED);
        match call {
            Some((id, name)) => self.conversation.observe(id, name, text),
            None => self.conversation.remark(text),
        }
        self.pause(refusal, "failed_self_check").await;
    }
}

/// Writes calls that a server parsed out of a text back into it, where the harness has calls in the text.
fn write_as_text(message: &mut Message) {
    for call in std::mem::take(&mut message.tool_calls) {
        let arguments = if call.arguments.trim().is_empty() { "{}" } else { call.arguments.as_str() };
        let name = Value::String(call.name);
        let text = format!("<tool_call>\n{{\"name\": {name}, \"arguments\": {arguments}}}\n</tool_call>");
        message.content.push(ContentPart::Text { text });
    }
}
