//! The conversation of an episode: all that was said, and the part of it that the next request shows.

use crate::environment::elided;
use crate::harness::CallForm;
use crate::trajectory::{ContentPart, Message, Role};

use super::tokens::estimate;

/// What stands in the place of a text that an endpoint would refuse because it is empty.
const NO_TEXT: &str = "(no text)";
/// What stands before a summary of older exchanges.
const SUMMARY_HEADING: &str = "Summary of the work so far (the messages themselves were removed):";

/// A conversation.
#[derive(Debug)]
pub(super) struct Conversation {
    form: CallForm,
    /// The system prompt as it was first rendered; empty for none.
    opening: String,
    instruction: String,
    exchanges: Vec<Exchange>,
    /// Exchanges before this one are no longer shown.
    first_shown: usize,
    /// What is shown in their place.
    summary: Option<String>,
    observations: u32,
}

/// A reply and what it was answered.
#[derive(Debug)]
struct Exchange {
    reply: Message,
    answer: Answer,
}

#[derive(Debug)]
enum Answer {
    /// Nothing yet, or the end.
    None,
    /// Results of the reply's calls, in order.
    Results(Vec<Observation>),
    /// A remark of the harness.
    Remark(String),
}

/// The result of one call as it was shown at the time.
#[derive(Debug)]
struct Observation {
    /// From 1, over the whole episode.
    number: u32,
    call: String,
    tool: String,
    text: String,
}

impl Conversation {
    pub(super) const fn new(form: CallForm, opening: String, instruction: String) -> Self {
        Self { form, opening, instruction, exchanges: Vec::new(), first_shown: 0, summary: None, observations: 0 }
    }

    /// Adds a reply. A message without text and calls gets a placeholder, because endpoints refuse empty messages.
    pub(super) fn reply(&mut self, mut reply: Message) {
        if reply.tool_calls.is_empty() && reply.joined_text().trim().is_empty() {
            reply.content = vec![ContentPart::Text { text: NO_TEXT.to_owned() }];
        }
        self.exchanges.push(Exchange { reply, answer: Answer::None });
    }

    /// Answers one call of the last reply; calls are answered in their order.
    pub(super) fn observe(&mut self, call: &str, tool: &str, text: String) {
        self.observations += 1;
        let observation = Observation { number: self.observations, call: call.to_owned(), tool: tool.to_owned(), text };
        if let Some(last) = self.exchanges.last_mut() {
            match &mut last.answer {
                Answer::Results(results) => results.push(observation),
                Answer::None | Answer::Remark(_) => last.answer = Answer::Results(vec![observation]),
            }
        }
    }

    /// Answers the last reply as a whole.
    pub(super) fn remark(&mut self, text: String) {
        if let Some(last) = self.exchanges.last_mut() {
            last.answer = Answer::Remark(text);
        }
    }

    /// The messages of the next request: `system`, the instruction, a summary if there is one, and the exchanges still shown, with only
    /// the last `keep` observations whole.
    pub(super) fn shown(&self, system: &str, keep: u32) -> Vec<Message> {
        let mut messages = self.head(system);
        if let (Some(summary), Some(user)) = (&self.summary, messages.last_mut()) {
            user.content.push(ContentPart::Text { text: format!("{SUMMARY_HEADING}\n{summary}") });
        }
        let oldest_whole = self.observations.saturating_sub(keep) + 1;
        for exchange in &self.exchanges[self.first_shown..] {
            self.append(exchange, oldest_whole, &mut messages);
        }
        messages
    }

    /// Everything as it was first sent.
    pub(super) fn transcript(&self) -> Vec<Message> {
        let mut messages = self.head(&self.opening);
        for exchange in &self.exchanges {
            self.append(exchange, 0, &mut messages);
        }
        messages
    }

    /// Stops showing the oldest exchanges until the rest is at most `tokens` long (estimated) or only one is left.
    pub(super) fn drop_oldest(&mut self, system: &str, keep: u32, tokens: u64) {
        while self.exchanges.len() - self.first_shown > 1 && estimate(&self.shown(system, keep)) > tokens {
            self.first_shown += 1;
        }
    }

    /// What a summary that lets the rest fit `tokens` has to cover: the earlier summary and the oldest exchanges still shown, as a
    /// text. `None` when only one exchange is left. The exchanges stay shown until [`Self::summarised`].
    pub(super) fn to_summarise(&self, system: &str, keep: u32, tokens: u64) -> Option<Summary> {
        let mut rest = estimate(&self.shown(system, keep));
        let mut end = self.first_shown;
        let mut messages = Vec::new();
        let oldest_whole = self.observations.saturating_sub(keep) + 1;
        while self.exchanges.len() - end > 1 && rest > tokens {
            let mut one = Vec::new();
            self.append(&self.exchanges[end], oldest_whole, &mut one);
            rest = rest.saturating_sub(estimate(&one));
            messages.append(&mut one);
            end += 1;
        }
        if end == self.first_shown {
            return None;
        }
        let mut text = format!("The task:\n{}\n", self.instruction);
        if let Some(summary) = &self.summary {
            text.push_str(&format!("\nSummary so far:\n{summary}\n"));
        }
        for message in &messages {
            text.push_str(&as_text(message));
        }
        Some(Summary { end, text })
    }

    /// Shows `text` in the place of what `summary` covers. An empty text leaves the earlier summary.
    pub(super) fn summarised(&mut self, summary: &Summary, text: &str) {
        self.first_shown = summary.end;
        if !text.trim().is_empty() {
            self.summary = Some(text.trim().to_owned());
        }
    }

    fn head(&self, system: &str) -> Vec<Message> {
        let user = Message::text(Role::User, self.instruction.clone());
        if system.trim().is_empty() { vec![user] } else { vec![Message::text(Role::System, system), user] }
    }

    fn append(&self, exchange: &Exchange, oldest_whole: u32, messages: &mut Vec<Message>) {
        messages.push(exchange.reply.clone());
        match (&exchange.answer, self.form) {
            (Answer::None, _) => {}
            (Answer::Remark(text), _) => messages.push(Message::text(Role::User, text.clone())),
            (Answer::Results(results), CallForm::Native) => {
                messages.extend(results.iter().map(|result| Message::tool_result(&result.call, result.shown(oldest_whole))));
            }
            (Answer::Results(results), CallForm::Text) => {
                let blocks: Vec<String> = results.iter().map(|result| wrapped(&result.tool, &result.shown(oldest_whole))).collect();
                messages.push(Message::text(Role::User, blocks.join("\n")));
            }
        }
    }
}

/// A summary to be made.
#[derive(Debug)]
pub(super) struct Summary {
    /// The first exchange it does not cover.
    end: usize,
    /// What it covers.
    pub(super) text: String,
}

impl Observation {
    fn shown(&self, oldest_whole: u32) -> String {
        if self.number < oldest_whole { elided(self.number, self.text.len()) } else { self.text.clone() }
    }
}

/// A result in the form of the text protocol.
fn wrapped(tool: &str, text: &str) -> String {
    // The name is the model's own when it called a tool that does not exist.
    let name: String = tool.chars().filter(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-')).take(64).collect();
    let end = if text.ends_with('\n') { "" } else { "\n" };
    format!("<tool_response name=\"{name}\">\n{text}{end}</tool_response>")
}

/// A message for a reader who is not part of the conversation.
fn as_text(message: &Message) -> String {
    let who = match message.role {
        Role::Assistant => "agent",
        Role::System | Role::User | Role::Tool => "environment",
    };
    let mut text = format!("\n[{who}]\n{}\n", message.joined_text().trim());
    for call in &message.tool_calls {
        text.push_str(&format!("{} {}\n", call.name, call.arguments));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trajectory::ToolCall;

    fn calling(ids: &[&str]) -> Message {
        let tool_calls =
            ids.iter().map(|id| ToolCall { id: (*id).to_owned(), name: "bash".to_owned(), arguments: "{}".to_owned() }).collect();
        Message { tool_calls, content: Vec::new(), ..Message::text(Role::Assistant, "") }
    }

    fn texts(messages: &[Message]) -> Vec<String> {
        messages.iter().map(Message::joined_text).collect()
    }

    fn three_exchanges(form: CallForm) -> Conversation {
        let mut conversation = Conversation::new(form, "sys".to_owned(), "do it".to_owned());
        for (index, id) in ["a", "b", "c"].iter().enumerate() {
            conversation.reply(if form == CallForm::Native {
                calling(&[id])
            } else {
                Message::text(Role::Assistant, format!("call {id}"))
            });
            conversation.observe(id, "bash", format!("result {index}"));
        }
        conversation
    }

    #[test]
    fn only_the_last_observations_stay_whole_in_a_request() {
        let conversation = three_exchanges(CallForm::Native);
        let shown = texts(&conversation.shown("sys2", 1));
        assert_eq!(shown, ["sys2", "do it", "", "[observation 1 elided: 8 bytes]", "", "[observation 2 elided: 8 bytes]", "", "result 2"]);
        assert_eq!(texts(&conversation.transcript()), ["sys", "do it", "", "result 0", "", "result 1", "", "result 2"]);
    }

    #[test]
    fn text_results_share_one_message() {
        let mut conversation = Conversation::new(CallForm::Text, String::new(), "do it".to_owned());
        conversation.reply(Message::text(Role::Assistant, ""));
        conversation.observe("", "bash", "one\n".to_owned());
        conversation.observe("", "no\"such", "two".to_owned());
        assert_eq!(
            texts(&conversation.shown("", 9)),
            [
                "do it",
                "(no text)",
                "<tool_response name=\"bash\">\none\n</tool_response>\n<tool_response name=\"nosuch\">\ntwo\n</tool_response>"
            ]
        );
    }

    #[test]
    fn the_oldest_exchanges_are_dropped_until_the_rest_fits() {
        let mut conversation = three_exchanges(CallForm::Native);
        // System: 1 + 4 tokens, instruction: 2 + 4; each exchange: (4 + 2 bytes of the call = 2 tokens) + 4, and 2 + 4.
        assert_eq!(estimate(&conversation.shown("sys", 9)), 5 + 6 + 3 * 12);
        conversation.drop_oldest("sys", 9, 5 + 6 + 24);
        assert_eq!(texts(&conversation.shown("sys", 9)), ["sys", "do it", "", "result 1", "", "result 2"]);
        conversation.drop_oldest("sys", 9, 0);
        assert_eq!(texts(&conversation.shown("sys", 9)), ["sys", "do it", "", "result 2"], "the last exchange stays");
        assert_eq!(conversation.transcript().len(), 8);
    }

    #[test]
    fn a_summary_takes_the_place_of_what_it_covers() {
        let mut conversation = three_exchanges(CallForm::Text);
        let summary = conversation.to_summarise("sys", 9, 60).unwrap();
        assert!(summary.text.starts_with("The task:\ndo it\n"), "{}", summary.text);
        assert!(summary.text.contains("[agent]\ncall a") && summary.text.contains("result 0"), "{}", summary.text);
        conversation.summarised(&summary, " a was called \n");
        let shown = conversation.shown("sys", 9);
        assert_eq!(shown[1].joined_text(), format!("do it\n{SUMMARY_HEADING}\na was called"));
        assert_eq!(shown[1].content[0], ContentPart::Text { text: "do it".to_owned() }, "the instruction itself is unchanged");
        let next = conversation.to_summarise("sys", 9, 0).unwrap();
        assert!(next.text.contains("Summary so far:\na was called"), "{}", next.text);
        conversation.summarised(&next, "");
        assert!(conversation.shown("sys", 9)[1].joined_text().ends_with("a was called"));
        assert!(conversation.to_summarise("sys", 9, 0).is_none());
    }
}
