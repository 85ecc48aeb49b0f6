//! Genomes as template files, made to be read: long texts over several lines, every gene written out.

use std::fmt::Write as _;

use super::{Genome, HarnessError, RetryRule, Template};

/// `genome` as a template file. Reading it gives the same genome.
///
/// # Errors
/// As [`Genome::genes`].
pub fn to_toml(genome: &Genome) -> Result<String, HarnessError> {
    let mut out = String::new();
    write_genome(&mut out, genome).map_err(|error| HarnessError::Shape(error.to_string()))?;
    Ok(out)
}

/// `template` as a template file, with its name and description.
///
/// # Errors
/// As [`Genome::genes`].
pub fn to_toml_named(template: &Template) -> Result<String, HarnessError> {
    let head = format!("name = {}\ndescription = {}\n", quoted(&template.name), quoted(&template.description));
    Ok(head + "\n" + &to_toml(template.harness.genome())?)
}

fn write_genome(out: &mut String, genome: &Genome) -> std::fmt::Result {
    writeln!(out, "[prompt]")?;
    for (key, text) in genome.prompt.blocks() {
        writeln!(out, "{key} = {}", quoted(text))?;
    }
    for (tool, gene) in &genome.tools {
        writeln!(out, "\n[tools.{}]", tool.as_str())?;
        writeln!(out, "description = {}\ntimeout_seconds = {}", quoted(&gene.description), gene.timeout_seconds)?;
    }
    write_scalars(out, genome)?;
    write_retry(out, genome)?;
    if !genome.provisioning.is_empty() {
        writeln!(out, "\n[provisioning]")?;
        for (name, text) in &genome.provisioning {
            writeln!(out, "{} = {}", single_line(name), quoted(text))?;
        }
    }
    Ok(())
}

/// The sections that hold numbers and names only, in the order and spelling of their JSON form.
fn write_scalars(out: &mut String, genome: &Genome) -> std::fmt::Result {
    let genes = genome.genes().map_err(|_| std::fmt::Error)?;
    for section in ["observation", "memory", "limits", "sampling", "protocol"] {
        writeln!(out, "\n[{section}]")?;
        for key in super::domain::keys(section) {
            if let Some(value) = genes.get(&super::GenePath::new(section, key)) {
                writeln!(out, "{key} = {value}")?;
            }
        }
    }
    Ok(())
}

fn write_retry(out: &mut String, genome: &Genome) -> std::fmt::Result {
    let retry = &genome.retry;
    let classes = [
        ("provider_transient", &retry.provider_transient),
        ("malformed_reply", &retry.malformed_reply),
        ("tool_error", &retry.tool_error),
        ("failed_self_check", &retry.failed_self_check),
    ];
    for (class, rules) in classes {
        for RetryRule { attempts, backoff, delay_ms, cap_ms, jitter, repair } in rules {
            let backoff = serde_json::to_value(backoff).map_err(|_| std::fmt::Error)?;
            writeln!(out, "\n[[retry.{class}]]\nattempts = {attempts}\nbackoff = {backoff}\ndelay_ms = {delay_ms}\ncap_ms = {cap_ms}")?;
            writeln!(out, "jitter = {jitter:?}\nrepair = {}", quoted(repair))?;
        }
    }
    Ok(())
}

/// A TOML string: over several lines if the text has several; with literal quotes where that spares escapes.
fn quoted(text: &str) -> String {
    if !text.contains('\n') {
        return single_line(text);
    }
    let odd = text.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\t'));
    if text.contains('\\') && !text.contains("'''") && !text.ends_with('\'') && !odd {
        return format!("'''\n{text}'''");
    }
    let mut out = String::from("\"\"\"\n");
    let mut quotes = 0;
    for c in text.chars() {
        quotes = if c == '"' { quotes + 1 } else { 0 };
        match c {
            // Two quotes in a row may stand bare, a third would end the string.
            '"' if quotes == 3 => {
                out.push_str("\\\"");
                quotes = 0;
            }
            '\n' | '\t' | '"' => out.push(c),
            _ => push_escaped(&mut out, c),
        }
    }
    if out.ends_with('"') && quotes > 0 {
        out.pop();
        out.push_str("\\\"");
    }
    out + "\"\"\""
}

fn single_line(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        if c == '"' { out.push_str("\\\"") } else { push_escaped(&mut out, c) }
    }
    out + "\""
}

fn push_escaped(out: &mut String, c: char) {
    match c {
        '\\' => out.push_str("\\\\"),
        '\n' => out.push_str("\\n"),
        '\t' => out.push_str("\\t"),
        c if c.is_control() => out.push_str(&format!("\\u{:04X}", u32::from(c))),
        c => out.push(c),
    }
}
