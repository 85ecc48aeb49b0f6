//! The system prompt: the harness's blocks, the text protocol where calls are written as text, and the scratchpad.

use minijinja::{Environment, UndefinedBehavior, context};

use crate::harness::{CallForm, Genome, Harness, Scratchpad};
use crate::trajectory::ToolSchema;

/// The system prompt without the scratchpad.
///
/// # Errors
/// When a block does not render: a fault of the harness.
pub(super) fn system_prompt(
    harness: &Harness,
    workspace: &str,
    job_type: &str,
    seconds: u32,
    tools: &[ToolSchema],
) -> Result<String, String> {
    let genome = harness.genome();
    let mut parts = vec![blocks(genome, workspace, job_type, seconds, tools)?];
    if genome.protocol.calls == CallForm::Text && !tools.is_empty() {
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

fn blocks(genome: &Genome, workspace: &str, job_type: &str, seconds: u32, tools: &[ToolSchema]) -> Result<String, String> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    let context = context! {
        tools => tools.iter().map(|tool| tool.name.clone()).collect::<Vec<_>>(),
        workspace, job_type,
        step_limit => genome.limits.steps, token_limit => genome.limits.tokens, seconds_limit => seconds,
        helpers => genome.provisioning.keys().cloned().collect::<Vec<_>>(),
    };
    let blocks = &genome.prompt;
    let mut rendered = Vec::new();
    for block in [&blocks.role, &blocks.routing, &blocks.planning, &blocks.verification, &blocks.recovery, &blocks.output_form] {
        let text = environment.render_str(block, context.clone()).map_err(|error| error.to_string())?;
        if !text.trim().is_empty() {
            rendered.push(text.trim().to_owned());
        }
    }
    Ok(rendered.join("\n\n"))
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
    use crate::harness::PromptBlocks;

    fn harness(role: &str, output_form: &str, calls: CallForm) -> Harness {
        let mut genome = Genome {
            prompt: PromptBlocks { role: role.to_owned(), output_form: output_form.to_owned(), ..PromptBlocks::default() },
            tools: [(crate::harness::ToolName::Finish, crate::harness::ToolGene::default())].into(),
            ..Genome::default()
        };
        genome.protocol.calls = calls;
        Harness::new(genome).unwrap()
    }

    fn prompt(harness: &Harness) -> Result<String, String> {
        system_prompt(harness, "/home/agent", "data", 60, &crate::environment::tool_schemas(harness.genome()))
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
