//! The tools as a model sees them: one table of parameters per tool serves the JSON schema and the validation of calls.

use serde_json::{Map, Value, json};

use crate::harness::{Genome, ToolName};
use crate::trajectory::ToolSchema;

/// One parameter of a tool.
#[derive(Debug, Clone, Copy)]
pub(super) struct Parameter {
    /// Its name.
    pub(super) name: &'static str,
    /// The type of its value.
    pub(super) kind: Kind,
    /// Whether a call may leave it out.
    pub(super) need: Need,
    /// What the model is told about it.
    about: &'static str,
}

/// The type of a parameter's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Any text.
    Text,
    /// A whole number, not below the bound.
    Integer {
        /// The smallest value.
        least: u64,
    },
}

/// Whether a call may leave a parameter out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Need {
    /// It must stand in every call.
    Required,
    /// It may be absent or null.
    Optional,
}

impl Kind {
    /// The name of the type in JSON schema.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Text => "string",
            Self::Integer { .. } => "integer",
        }
    }
}

const fn text(name: &'static str, about: &'static str) -> Parameter {
    Parameter { name, kind: Kind::Text, need: Need::Required, about }
}

const fn optional(name: &'static str, kind: Kind, about: &'static str) -> Parameter {
    Parameter { name, kind, need: Need::Optional, about }
}

const PATH: Parameter = text("path", "Path of the file, relative to the workspace.");

/// The parameters of `tool`, in the order of its schema.
pub(super) const fn parameters(tool: ToolName) -> &'static [Parameter] {
    match tool {
        ToolName::Bash => &const { [text("command", "The command line, for bash.")] },
        ToolName::Python => &const { [text("code", "The program. Only what it prints is seen.")] },
        ToolName::ReadFile => {
            &const {
                [
                    PATH,
                    optional("offset", Kind::Integer { least: 1 }, "Number of the first line to read, from 1."),
                    optional("limit", Kind::Integer { least: 1 }, "How many lines to read."),
                ]
            }
        }
        ToolName::WriteFile => &const { [PATH, text("content", "The whole text of the file.")] },
        ToolName::EditFile => {
            &const {
                [
                    PATH,
                    text("find", "The text to replace, exactly as it stands in the file; it must occur exactly once."),
                    text("replace", "The text that takes its place."),
                ]
            }
        }
        ToolName::ListFiles => {
            &const { [optional("path", Kind::Text, "Path of the folder, relative to the workspace; the workspace itself if left out.")] }
        }
        ToolName::Search => {
            &const {
                [
                    text("pattern", "An extended regular expression, as for grep -E."),
                    optional("path", Kind::Text, "File or folder to search, relative to the workspace; all of it if left out."),
                ]
            }
        }
        ToolName::Notes => &const { [text("text", "The new text of the notes. It replaces the old one.")] },
        ToolName::Screenshot => &[],
        ToolName::ComputerUse => {
            &const {
                [
                    text("action", "One of move, click, double_click, right_click, drag, scroll, type, key, wait."),
                    optional("x", Kind::Integer { least: 0 }, "Pixels from the left edge of the screen."),
                    optional("y", Kind::Integer { least: 0 }, "Pixels from the top edge of the screen."),
                    optional("text", Kind::Text, "The text to type, or the key to press."),
                ]
            }
        }
        ToolName::Finish => &const { [optional("summary", Kind::Text, "What was done, in a sentence or two.")] },
    }
}

/// What a model is told about `tool` when the harness has no description of its own.
const fn default_description(tool: ToolName) -> &'static str {
    match tool {
        ToolName::Bash => {
            "Run a command in a persistent bash shell. The working directory and variables stay from call to call. Returns standard \
             output and standard error together; a failed command ends with its exit status."
        }
        ToolName::Python => {
            "Run a Python 3 program in the workspace and return what it prints. Nothing is kept between calls except files."
        }
        ToolName::ReadFile => "Read a text file of the workspace, whole or a range of lines.",
        ToolName::WriteFile => "Write a whole text file, replacing what was there. Missing folders are made.",
        ToolName::EditFile => "Replace one piece of text in a file. `find` must occur exactly once; include enough of the text around it.",
        ToolName::ListFiles => "List the files and folders of the workspace or of one of its folders, three levels deep, with sizes.",
        ToolName::Search => "Search files for a regular expression. Returns matching lines as path:line:text.",
        ToolName::Notes => "Write down what must not be forgotten. The notes stay in view even when older messages are removed.",
        ToolName::Screenshot => "Take a picture of the desktop.",
        ToolName::ComputerUse => "Use the mouse and keyboard on the desktop.",
        ToolName::Finish => "End the task. Call it once everything that was asked for is done.",
    }
}

/// The tools a harness offers, in the order of [`ToolName::ALL`], with its own descriptions where it has them.
#[must_use]
pub fn tool_schemas(genome: &Genome) -> Vec<ToolSchema> {
    ToolName::ALL.into_iter().filter_map(|tool| genome.tools.get(&tool).map(|gene| schema(tool, &gene.description))).collect()
}

fn schema(tool: ToolName, description: &str) -> ToolSchema {
    let description = if description.trim().is_empty() { default_description(tool) } else { description };
    let mut properties = Map::new();
    let mut required = Vec::new();
    for parameter in parameters(tool) {
        let mut property = json!({ "type": parameter.kind.as_str(), "description": parameter.about });
        if let (Kind::Integer { least }, Value::Object(fields)) = (parameter.kind, &mut property) {
            fields.insert("minimum".to_owned(), json!(least));
        }
        properties.insert(parameter.name.to_owned(), property);
        if parameter.need == Need::Required {
            required.push(parameter.name);
        }
    }
    let parameters = json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false });
    ToolSchema { name: tool.as_str().to_owned(), description: description.to_owned(), parameters }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::harness::ToolGene;

    #[test]
    fn tools_come_in_their_order_with_the_description_of_the_harness() {
        let genome = Genome {
            tools: BTreeMap::from([
                (ToolName::Finish, ToolGene::default()),
                (ToolName::Bash, ToolGene { description: "Shell.".to_owned(), ..ToolGene::default() }),
                (ToolName::ReadFile, ToolGene { description: " \n".to_owned(), ..ToolGene::default() }),
            ]),
            ..Genome::default()
        };
        let schemas = tool_schemas(&genome);
        assert_eq!(schemas.iter().map(|schema| schema.name.as_str()).collect::<Vec<_>>(), ["bash", "read_file", "finish"]);
        assert_eq!(schemas[0].description, "Shell.");
        assert!(schemas[1].description.starts_with("Read a text file"));
        assert_eq!(schemas[1].parameters["required"], json!(["path"]));
        assert_eq!(schemas[1].parameters["properties"]["offset"]["minimum"], json!(1));
        assert_eq!(schemas[1].parameters["additionalProperties"], json!(false));
    }

    #[test]
    fn every_tool_has_the_parameters_that_were_agreed() {
        let agreed = [
            ("bash", vec!["command"]),
            ("python", vec!["code"]),
            ("read_file", vec!["path", "offset?", "limit?"]),
            ("write_file", vec!["path", "content"]),
            ("edit_file", vec!["path", "find", "replace"]),
            ("list_files", vec!["path?"]),
            ("search", vec!["pattern", "path?"]),
            ("notes", vec!["text"]),
            ("screenshot", vec![]),
            ("computer_use", vec!["action", "x?", "y?", "text?"]),
            ("finish", vec!["summary?"]),
        ];
        let ours = ToolName::ALL.map(|tool| {
            let names = parameters(tool)
                .iter()
                .map(|parameter| if parameter.need == Need::Optional { format!("{}?", parameter.name) } else { parameter.name.to_owned() });
            (tool.as_str(), names.collect::<Vec<_>>())
        });
        assert_eq!(ours.to_vec(), agreed.map(|(tool, names)| (tool, names.into_iter().map(str::to_owned).collect())).to_vec());
    }
}
