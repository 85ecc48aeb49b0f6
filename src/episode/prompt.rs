//! The system prompt: the harness's blocks, the text protocol where calls are written as text, and the scratchpad.

use crate::harness::{CallForm, Harness, PromptContext, RenderError, Scratchpad};
use crate::trajectory::ToolSchema;

/// The system prompt without the scratchpad.
///
/// # Errors
/// When a block does not render: a fault of the harness.
pub(super) fn system_prompt(harness: &Harness, context: &PromptContext, tools: &[ToolSchema]) -> Result<String, RenderError> {
    let mut parts = vec![harness.render_prompt(context)?];
    if harness.genome().protocol.calls == CallForm::Text && !tools.is_empty() {
        parts.push(text_protocol(tools));
    }
    parts.retain(|part| !part.is_empty());
    Ok(parts.join("\n\n"))
}

/// `prompt` with the notes at its end, where the harness shows them.
pub(super) fn with_notes(prompt: &str, scratchpad: Scratchpad, notes: &str) -> String {
    if scratchpad == Scratchpad::Off || notes.trim().is_empty() {
        return prompt.to_owned();
    }
    let gap = if prompt.is_empty() { "" } else { "\n\n" };
    format!("{prompt}{gap}Your notes:\n{}", notes.trim_end())
}

/// The tools and how to call them, in the form many open models are trained on.
fn text_protocol(tools: &[ToolSchema]) -> String {
    let schemas: Vec<String> = tools
        .iter()
        .map(|tool| {
            let function = serde_json::json!({ "name": tool.name, "description": tool.description, "parameters": tool.parameters });
            serde_json::json!({ "type": "function", "function": function }).to_string()
        })
        .collect();
    format!(
        "You may call these tools:\n<tools>\n{}\n</tools>\n\nTo call a tool, write its name and arguments as JSON in this form:\n\
         <tool_call>\n{{\"name\": \"the tool\", \"arguments\": {{\"argument\": \"value\"}}}}\n</tool_call>\n\
         Then stop: the result comes in the next message as <tool_response>.",
        schemas.join("\n")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::{Genome, PromptBlocks, ToolGene, ToolName};

    fn harness(role: &str, output_form: &str, calls: CallForm) -> Harness {
        let mut genome = Genome {
            prompt: PromptBlocks { role: role.to_owned(), output_form: output_form.to_owned(), ..PromptBlocks::default() },
            tools: [ToolName::Bash, ToolName::Finish].map(|tool| (tool, ToolGene::default())).into(),
            ..Genome::default()
        };
        genome.protocol.calls = calls;
        Harness::new(genome).unwrap()
    }

    fn prompt(harness: &Harness) -> Result<String, RenderError> {
        let context = PromptContext { seconds_limit: 60, ..PromptContext::of(harness.genome(), "/home/agent", "data") };
        system_prompt(harness, &context, &crate::environment::tool_schemas(harness.genome()))
    }

    #[test]
    fn blocks_stand_in_order_and_the_text_protocol_after_them() {
        let native = harness("In {{ workspace }} for {{ seconds_limit }} s.", "Be brief.", CallForm::Native);
        assert_eq!(prompt(&native).unwrap(), "In /home/agent for 60 s.\n\nBe brief.");
        let text = prompt(&harness("Role.", "", CallForm::Text)).unwrap();
        assert!(text.starts_with("Role.\n\nYou may call these tools:\n<tools>\n{"), "{text}");
        assert!(text.contains("\"name\":\"finish\"") && text.contains("<tool_call>\n{\"name\""), "{text}");
    }

    #[test]
    fn notes_come_last_and_only_where_they_are_shown() {
        assert_eq!(with_notes("P", Scratchpad::On, "n\n"), "P\n\nYour notes:\nn");
        assert_eq!(with_notes("", Scratchpad::On, "n"), "Your notes:\nn");
        assert_eq!(with_notes("P", Scratchpad::On, " "), "P");
        assert_eq!(with_notes("P", Scratchpad::Off, "n"), "P");
    }
}
