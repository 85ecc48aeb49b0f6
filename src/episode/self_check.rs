//! Whether the agent has looked at its result before it finishes.

use crate::environment::ToolResult;
use crate::harness::ToolName;

/// What the agent has seen since it last changed something.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Look {
    /// Nothing.
    #[default]
    Missing,
    /// A successful look.
    Taken,
}

impl Look {
    /// The state after a call of `tool`. A command or program that succeeds and prints something is a look; one that prints nothing has
    /// shown nothing and can only have changed something.
    pub(super) fn after(self, tool: ToolName, result: &ToolResult) -> Self {
        if result.failed {
            return self;
        }
        match tool {
            ToolName::ReadFile | ToolName::ListFiles | ToolName::Search => Self::Taken,
            ToolName::Bash | ToolName::Python if result.text.trim().is_empty() => Self::Missing,
            ToolName::Bash | ToolName::Python => Self::Taken,
            ToolName::WriteFile | ToolName::EditFile => Self::Missing,
            ToolName::Notes | ToolName::Screenshot | ToolName::ComputerUse | ToolName::Finish => self,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(text: &str, failed: bool) -> ToolResult {
        ToolResult { text: text.to_owned(), gap: None, status: None, failed }
    }

    #[test]
    fn a_look_counts_until_the_next_change() {
        let look = Look::default();
        assert_eq!(look, Look::Missing);
        let look = look.after(ToolName::ReadFile, &result("x", false));
        assert_eq!(look, Look::Taken);
        assert_eq!(look.after(ToolName::Notes, &result("noted", false)), Look::Taken);
        assert_eq!(look.after(ToolName::WriteFile, &result("error: no", true)), Look::Taken, "a failed change changes nothing");
        assert_eq!(look.after(ToolName::EditFile, &result("edited", false)), Look::Missing);
        assert_eq!(look.after(ToolName::Bash, &result("", false)), Look::Missing);
        assert_eq!(Look::Missing.after(ToolName::Bash, &result("total 0", false)), Look::Taken);
        assert_eq!(Look::Missing.after(ToolName::Search, &result("error: x", true)), Look::Missing);
    }
}
