//! Prompt blocks as templates: what they may use, and rendering within bounds.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use minijinja::machinery::{Instruction, Token, get_compiled_template, tokenize};
use minijinja::syntax::SyntaxConfig;
use minijinja::{AutoEscape, Environment, ErrorKind, Template, UndefinedBehavior, context};

use super::nearest::suggestion;
use super::{Genome, Harness};

/// The variables a prompt block may use: `tools` and `helpers` are lists of names, `workspace` and `job_type` texts, the limits
/// numbers.
pub const PROMPT_VARIABLES: [&str; 7] = ["tools", "workspace", "job_type", "step_limit", "token_limit", "seconds_limit", "helpers"];

/// Fuel of one block: bounds instructions and memory (about 64 bytes a unit), whatever the template does.
const FUEL: u64 = 100_000;
/// Most tags of one block.
const MAX_TAGS: usize = 150;
/// Most words and signs of one tag.
const MAX_TAG_TOKENS: usize = 100;
/// Longest rendered prompt in bytes.
const MAX_RENDERED_BYTES: usize = 65_536;

/// What the templates of a harness are told about the episode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptContext {
    /// Names of the tools that are offered, in their order.
    pub tools: Vec<String>,
    /// Path of the workspace as the agent sees it.
    pub workspace: String,
    /// The kind of work.
    pub job_type: String,
    /// Model replies.
    pub step_limit: u32,
    /// Tokens, prompt and completion.
    pub token_limit: u64,
    /// Wall time in seconds.
    pub seconds_limit: u32,
    /// File names of the helper scripts on `PATH`.
    pub helpers: Vec<String>,
}

/// A prompt that does not render.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RenderError {
    /// A block failed.
    #[error("prompt block `{block}` does not render: {reason}")]
    Block {
        /// Key of the block.
        block: String,
        /// Why.
        reason: String,
    },
    /// The prompt is too long.
    #[error("the rendered prompt holds {bytes} bytes, of at most {MAX_RENDERED_BYTES}: shorten its blocks")]
    TooLong {
        /// How long it is.
        bytes: usize,
    },
}

impl PromptContext {
    /// What `genome` itself says: its tools, limits and scripts, in `workspace`, for `job_type`.
    #[must_use]
    pub fn of(genome: &Genome, workspace: &str, job_type: &str) -> Self {
        Self {
            tools: genome.tools.keys().map(|tool| tool.as_str().to_owned()).collect(),
            workspace: workspace.to_owned(),
            job_type: job_type.to_owned(),
            step_limit: genome.limits.steps,
            token_limit: genome.limits.tokens,
            seconds_limit: genome.limits.seconds,
            helpers: genome.provisioning.keys().cloned().collect(),
        }
    }

    fn value(&self) -> minijinja::Value {
        context! {
            tools => self.tools.clone(),
            workspace => self.workspace.clone(),
            job_type => self.job_type.clone(),
            step_limit => self.step_limit,
            token_limit => self.token_limit,
            seconds_limit => self.seconds_limit,
            helpers => self.helpers.clone(),
        }
    }
}

impl Harness {
    /// The prompt: all blocks that are not empty once rendered, in order, joined by a blank line.
    ///
    /// # Errors
    /// When a block fails on these values, uses more than its share of work, or the whole is too long.
    pub fn render_prompt(&self, context: &PromptContext) -> Result<String, RenderError> {
        let environment = environment();
        let value = context.value();
        let mut parts = Vec::new();
        for (block, text) in self.genome().prompt.blocks() {
            let rendered = environment
                .template_from_str(text)
                .and_then(|template| template.render(value.clone()))
                .map_err(|error| RenderError::Block { block: block.to_owned(), reason: reason(&error) })?;
            if !rendered.trim().is_empty() {
                parts.push(rendered.trim().to_owned());
            }
        }
        let prompt = parts.join("\n\n");
        if prompt.len() > MAX_RENDERED_BYTES {
            return Err(RenderError::TooLong { bytes: prompt.len() });
        }
        Ok(prompt)
    }
}

/// Checks one block: it parses, uses only [`PROMPT_VARIABLES`], only known filters and tests, nothing that reaches beyond the block,
/// and renders on sample values.
pub(crate) fn check_template(text: &str, genome: &Genome) -> Result<(), String> {
    if !text.contains("{{") && !text.contains("{%") && !text.contains("{#") {
        return Ok(());
    }
    let environment = environment();
    check_size(environment, text)?;
    let template = environment.template_from_str(text).map_err(|error| reason(&error))?;
    check_language(environment, &template)?;
    let unknown: BTreeSet<String> = template.undeclared_variables(false).into_iter().collect();
    if let Some(name) = unknown.iter().find(|name| !PROMPT_VARIABLES.contains(&name.as_str())) {
        return Err(format!(
            "uses the unknown variable `{name}`{}; known are {}",
            suggestion(name, PROMPT_VARIABLES),
            PROMPT_VARIABLES.map(|known| format!("`{known}`")).join(", ")
        ));
    }
    let own = PromptContext::of(genome, "/home/agent", "shell");
    let bare = PromptContext { tools: vec!["bash".to_owned()], helpers: Vec::new(), job_type: "desktop".to_owned(), ..own.clone() };
    for sample in [own, bare] {
        let rendered = template.render(sample.value()).map_err(|error| reason(&error))?;
        if rendered.len() > MAX_RENDERED_BYTES {
            return Err(format!("renders to {} bytes, of at most {MAX_RENDERED_BYTES}", rendered.len()));
        }
    }
    Ok(())
}

/// Bounds the tags before anything is compiled: the compiler recurses over an expression such as `1+1+1+...` (and over a chain of
/// `elif`) without a guard of its own, so that a long one would overflow the stack.
fn check_size(environment: &Environment<'_>, text: &str) -> Result<(), String> {
    let (mut tags, mut tokens) = (0, 0);
    for token in tokenize(text, false, environment.syntax().clone()) {
        match token.map_err(|error| reason(&error))?.0 {
            Token::VariableStart | Token::BlockStart => {
                tags += 1;
                tokens = 0;
            }
            _ => tokens += 1,
        }
        if tags > MAX_TAGS {
            return Err(format!("holds more than {MAX_TAGS} tags: write the text plainly"));
        }
        if tokens > MAX_TAG_TOKENS {
            return Err(format!("holds a tag of more than {MAX_TAG_TOKENS} words and signs: split it"));
        }
    }
    Ok(())
}

/// Looks at the compiled template, so that a mistake in a branch that the samples do not take is found too.
fn check_language(environment: &Environment<'_>, template: &Template<'_, '_>) -> Result<(), String> {
    let compiled = get_compiled_template(template);
    if !compiled.blocks.is_empty() {
        return Err(beyond("block"));
    }
    let mut index = 0;
    while let Some(instruction) = compiled.instructions.get(index) {
        index += 1;
        match instruction {
            Instruction::ApplyFilter(name, ..) => {
                known(environment.empty_state().apply_filter(name, &[]).err(), ErrorKind::UnknownFilter, "filter", name)?;
            }
            Instruction::PerformTest(name, ..) => {
                known(environment.empty_state().perform_test(name, &[]).err(), ErrorKind::UnknownTest, "test", name)?;
            }
            Instruction::CallFunction(name, _) => return Err(format!("calls `{name}`, but a prompt block has no functions")),
            Instruction::CallMethod(name, _) => return Err(format!("calls `.{name}()`, but a prompt block has no methods: use a filter")),
            Instruction::CallObject(_) | Instruction::FastRecurse => return Err(beyond("a call")),
            Instruction::CallBlock(_) | Instruction::FastSuper => return Err(beyond("block")),
            Instruction::LoadBlocks => return Err(beyond("extends")),
            Instruction::Include(_) => return Err(beyond("include")),
            Instruction::ExportLocals => return Err(beyond("import")),
            Instruction::BuildMacro(..) => return Err(beyond("macro")),
            _ => {}
        }
    }
    Ok(())
}

/// Tells a filter or test that does not exist from one that merely wants arguments, by the error of a call without any.
fn known(error: Option<minijinja::Error>, unknown: ErrorKind, what: &str, name: &str) -> Result<(), String> {
    match error {
        Some(error) if error.kind() == unknown => Err(format!("uses the unknown {what} `{name}`")),
        _ => Ok(()),
    }
}

fn beyond(tag: &str) -> String {
    format!("uses `{tag}`, but a prompt block stands alone: write the text itself")
}

/// Made once: its tables of filters and tests cost more than a block takes to render.
fn environment<'source>() -> &'static Environment<'source> {
    static ENVIRONMENT: LazyLock<Environment<'static>> = LazyLock::new(new_environment);
    &ENVIRONMENT
}

fn new_environment() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    if let Ok(syntax) = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build() {
        environment.set_syntax(syntax);
    }
    environment.set_fuel(Some(FUEL));
    environment.set_debug(false);
    environment
}

fn reason(error: &minijinja::Error) -> String {
    let what = error.detail().map_or_else(|| error.kind().to_string(), |detail| format!("{}: {detail}", error.kind()));
    match error.line() {
        Some(line) => format!("{what} (line {line} of the block)"),
        None => what,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::{PromptBlocks, ToolGene, ToolName};

    fn harness(role: &str, routing: &str) -> Harness {
        Harness::new(genome(role, routing)).unwrap()
    }

    fn genome(role: &str, routing: &str) -> Genome {
        let tools = [ToolName::Bash, ToolName::Finish].map(|tool| (tool, ToolGene::default())).into();
        Genome {
            prompt: PromptBlocks { role: role.into(), routing: routing.into(), ..PromptBlocks::default() },
            tools,
            ..Genome::default()
        }
    }

    fn refusal(role: &str) -> String {
        genome(role, "").validate().unwrap_err().to_string()
    }

    #[test]
    fn blocks_are_rendered_in_order_and_joined_by_a_blank_line() {
        let harness = harness(
            "You work in {{ workspace }}.\n",
            "{% if 'bash' in tools %}\nUse bash.\n{% endif %}\n{% for tool in tools %}\n- {{ loop.index }} {{ tool }}\n{% endfor %}",
        );
        let context = PromptContext::of(harness.genome(), "/home/agent", "data");
        assert_eq!(harness.render_prompt(&context).unwrap(), "You work in /home/agent.\n\nUse bash.\n- 1 bash\n- 2 finish");
    }

    #[test]
    fn a_block_that_renders_to_nothing_leaves_no_gap() {
        let harness = harness("{% if job_type == 'code' %}Run the tests.{% endif %}", "Go.");
        assert_eq!(harness.render_prompt(&PromptContext::of(harness.genome(), "/w", "data")).unwrap(), "Go.");
        assert_eq!(harness.render_prompt(&PromptContext::of(harness.genome(), "/w", "code")).unwrap(), "Run the tests.\n\nGo.");
    }

    #[test]
    fn text_is_not_escaped() {
        assert_eq!(
            harness("a < b & \"c\" {{ job_type }}", "").render_prompt(&PromptContext::of(&genome("", ""), "/w", "<x>")).unwrap(),
            "a < b & \"c\" <x>"
        );
    }

    #[test]
    fn an_unknown_variable_is_found_wherever_it_stands() {
        for text in [
            "{{ workspce }}",
            "{% if job_type == 'never' %}{% for t in tools %}{{ workspce }}{% endfor %}{% endif %}",
            "{% for t in workspce %}{% endfor %}",
            "{{ tools | join(workspce) }}",
            "{% set a = workspce %}",
        ] {
            let message = refusal(text);
            assert!(
                message.contains("`prompt.role`") && message.contains("`workspce`") && message.contains("did you mean `workspace`?"),
                "{text}: {message}"
            );
        }
    }

    #[test]
    fn mistakes_in_branches_not_taken_are_found() {
        let inside = |code: &str| refusal(&format!("{{% if job_type == 'never' %}}{code}{{% endif %}}"));
        assert!(inside("{{ job_type | uper }}").contains("filter `uper`"));
        assert!(inside("{{ job_type is evn }}").contains("test `evn`"));
        assert!(inside("{% include 'secret' %}").contains("include"));
        assert!(inside("{{ range(3) }}").contains("range"));
    }

    #[test]
    fn reaching_beyond_the_block_is_refused() {
        for text in [
            "{% extends 'a' %}",
            "{% block a %}x{% endblock %}",
            "{% import 'a' as b %}",
            "{% macro m() %}x{% endmacro %}{{ m() }}",
            "{% for t in tools recursive %}{{ loop(tools) }}{% endfor %}",
            "{% if 0 %}{{ job_type.uper() }}{% endif %}",
            "{{ (job_type)() }}",
        ] {
            assert!(genome(text, "").validate().is_err(), "{text}");
        }
        assert!(refusal("{{ tools ").contains("prompt.role"));
        assert!(refusal("{{ job_type.nothing }}").contains("line 1"));
    }

    #[test]
    fn a_template_can_neither_hang_nor_blow_up() {
        for text in [
            "{{ 'x' * 1000000000 }}",
            "{% set a = 'x' * 60000 %}{{ a }}{{ a }}",
            "{% for a in 'x' * 1000 %}{% for b in 'x' * 1000 %}{% for c in 'x' * 1000 %}{{ step_limit }}{% endfor %}{% endfor %}{% endfor %}",
        ] {
            assert!(genome(text, "").validate().is_err(), "{text}");
        }
    }

    #[test]
    fn deep_nesting_is_an_error_not_a_crash() {
        let nested = |open: &str, inner: &str, close: &str, depth: usize| open.repeat(depth) + inner + &close.repeat(depth);
        for text in [
            nested("{% if 1 %}", "x", "{% endif %}", 390),
            format!("{{{{ {} }}}}", nested("(", "1", ")", 4000)),
            format!("{{{{ {} }}}}", nested("[", "1", "]", 4000)),
            format!("{{{{ {}1 }}}}", "-".repeat(8000)),
            format!("{{{{ {}1 }}}}", "not ".repeat(2000)),
            format!("{{{{ 1{} }}}}", "|int".repeat(2000)),
            format!("{{{{ 1{} }}}}", "+1".repeat(4000)),
            format!("{{{{ 1{} }}}}", " if 1 else 1".repeat(600)),
            format!("{{{{ '}}}}' {} }}}}", "~1".repeat(3000)),
            format!("{{% if 0 %}}{}{{% endif %}}", "{% elif 0 %}".repeat(600)),
            format!("{{{{ job_type{} }}}}", "[0]".repeat(2000)),
        ] {
            assert!(refusal(&text).contains("`prompt.role`"), "{text}");
        }
        let most = nested("{% if 1 %}", "x", "{% endif %}", 70);
        assert!(genome(&most, "").validate().is_ok());
        let longest = format!("{{{{ 1{} }}}}", "+1".repeat(49));
        assert!(genome(&longest, "").validate().is_ok());
    }
}
