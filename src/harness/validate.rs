//! Which genomes are harnesses: every gene in its domain, every prompt block a template that renders, and the rules between genes.

use super::domain::{MAX_PROMPT_BYTES, MAX_SCRIPTS, check_gene};
use super::render::check_template;
use super::{FinishRule, GenePath, Genome, HarnessError, PromptBlocks, Scratchpad, ToolName};

/// Tools that can change something or compute something; without any of them no task can be done.
pub(crate) const ACTING: [ToolName; 5] = [ToolName::Bash, ToolName::Python, ToolName::WriteFile, ToolName::EditFile, ToolName::ComputerUse];

impl Genome {
    /// Checks every gene against its domain, every prompt block as a template, and the rules between genes:
    /// `protocol.finish = "tool"` needs the tool `finish`; `memory.scratchpad = "on"` needs the tool `notes` (not the reverse: notes
    /// that nobody shows are a waste, not an error); at least one tool can act; the blocks together hold at most 24576 bytes;
    /// at most 16 helper scripts.
    ///
    /// # Errors
    /// The first gene that breaks a rule.
    pub fn validate(&self) -> Result<(), HarnessError> {
        for (path, value) in self.genes()? {
            check_gene(&path, &value)?;
        }
        for (key, text) in self.prompt.blocks() {
            check_template(text, self).map_err(|reason| HarnessError::Gene { path: GenePath::new("prompt", key), reason })?;
        }
        match self.broken_rules().into_iter().next() {
            Some(rule) => Err(rule.error(self)),
            None => Ok(()),
        }
    }

    /// The rules between genes that do not hold, in the order in which crossover repairs them.
    pub(crate) fn broken_rules(&self) -> Vec<Rule> {
        let offers = |tool| self.tools.contains_key(&tool);
        let mut broken = Vec::new();
        if self.protocol.finish == FinishRule::Tool && !offers(ToolName::Finish) {
            broken.push(Rule::FinishTool);
        }
        if self.memory.scratchpad == Scratchpad::On && !offers(ToolName::Notes) {
            broken.push(Rule::NotesTool);
        }
        if !ACTING.into_iter().any(offers) {
            broken.push(Rule::ActingTool);
        }
        if self.prompt.bytes() > MAX_PROMPT_BYTES {
            broken.push(Rule::PromptSize);
        }
        if self.provisioning.len() > MAX_SCRIPTS {
            broken.push(Rule::ScriptCount);
        }
        broken
    }

    /// The same genome in its one written form: line breaks are `\n`; no white space at the ends of prompt blocks, tool
    /// descriptions and repair texts, where it would not reach the model's understanding but would change the id; no negative zero.
    #[must_use]
    pub fn normalised(mut self) -> Self {
        for (_, text) in self.prompt.blocks_mut() {
            tidy(text);
        }
        for tool in self.tools.values_mut() {
            tidy(&mut tool.description);
        }
        let retry = &mut self.retry;
        for rules in [&mut retry.provider_transient, &mut retry.malformed_reply, &mut retry.tool_error, &mut retry.failed_self_check] {
            for rule in rules {
                tidy(&mut rule.repair);
                // IEEE 754: -0 + 0 = 0.
                rule.jitter += 0.0;
            }
        }
        self.sampling.temperature += 0.0;
        for script in self.provisioning.values_mut() {
            if script.contains('\r') {
                *script = script.replace("\r\n", "\n");
            }
        }
        self
    }
}

fn tidy(text: &mut String) {
    if text.contains('\r') {
        *text = text.replace("\r\n", "\n");
    }
    if text.trim().len() != text.len() {
        *text = text.trim().to_owned();
    }
}

impl PromptBlocks {
    /// All blocks with their keys, in the order in which they are rendered.
    #[must_use]
    pub fn blocks(&self) -> [(&'static str, &str); 6] {
        [
            ("role", self.role.as_str()),
            ("routing", self.routing.as_str()),
            ("planning", self.planning.as_str()),
            ("verification", self.verification.as_str()),
            ("recovery", self.recovery.as_str()),
            ("output_form", self.output_form.as_str()),
        ]
    }

    const fn blocks_mut(&mut self) -> [(&'static str, &mut String); 6] {
        [
            ("role", &mut self.role),
            ("routing", &mut self.routing),
            ("planning", &mut self.planning),
            ("verification", &mut self.verification),
            ("recovery", &mut self.recovery),
            ("output_form", &mut self.output_form),
        ]
    }

    /// Bytes of all blocks.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.blocks().iter().map(|(_, text)| text.len()).sum()
    }
}

/// A rule between genes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rule {
    /// Ending by a call needs the tool.
    FinishTool,
    /// The scratchpad needs the tool that writes it.
    NotesTool,
    /// Something must be able to act.
    ActingTool,
    /// All blocks together are bounded.
    PromptSize,
    /// The number of scripts is bounded.
    ScriptCount,
}

impl Rule {
    fn error(self, genome: &Genome) -> HarnessError {
        let (section, key, reason) = match self {
            Self::FinishTool => (
                "protocol",
                "finish".to_owned(),
                "is `tool`, but the tool `finish` is not offered: offer it (`tools.finish`) or choose `no_call`".to_owned(),
            ),
            Self::NotesTool => (
                "memory",
                "scratchpad".to_owned(),
                "is `on`, but the tool `notes` is not offered: offer it (`tools.notes`) or choose `off`".to_owned(),
            ),
            Self::ActingTool => {
                let names: Vec<&str> = ACTING.into_iter().map(ToolName::as_str).collect();
                ("tools", "bash".to_owned(), format!("no tool that can act is offered: offer at least one of {}", names.join(", ")))
            }
            Self::PromptSize => {
                let longest = genome.prompt.blocks().into_iter().max_by_key(|(_, text)| text.len()).map_or("role", |(key, _)| key);
                let reason = format!(
                    "the prompt blocks hold {} bytes together, of at most {MAX_PROMPT_BYTES}; this one is the longest",
                    genome.prompt.bytes()
                );
                ("prompt", longest.to_owned(), reason)
            }
            Self::ScriptCount => {
                let last = genome.provisioning.keys().next_back().cloned().unwrap_or_default();
                ("provisioning", last, format!("{} helper scripts are too many: at most {MAX_SCRIPTS}", genome.provisioning.len()))
            }
        };
        HarnessError::Gene { path: GenePath::new(section, &key), reason }
    }
}
