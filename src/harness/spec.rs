//! Template files: TOML to a checked [`Harness`], with errors that name file, line and the nearest right key or value.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use include_dir::{Dir, include_dir};
use serde_json::{Value, json};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::domain::{SECTIONS, hint, keys, unknown_gene};
use super::nearest::suggestion;
use super::{Domain, GenePath, Genome, Harness, HarnessError, domain};

/// A seed harness with its name.
#[derive(Debug, Clone, PartialEq)]
pub struct Template {
    /// Its name: 1 to 40 letters, digits, `-` and `_`.
    pub name: String,
    /// What it is for, in a few lines.
    pub description: String,
    /// The harness.
    pub harness: Harness,
}

/// A template file that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// It cannot be read.
    #[error("{file}: cannot be read: {reason}")]
    Read {
        /// The file.
        file: String,
        /// Why.
        reason: String,
    },
    /// Something in it is wrong.
    #[error("{file}:{line}: {message}")]
    Line {
        /// The file.
        file: String,
        /// The line, from 1.
        line: usize,
        /// What is wrong and what is right.
        message: String,
    },
}

static TEMPLATES: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/harness_templates");

/// The embedded seeds, in the order in which a search takes them up.
const SEEDS: [&str; 7] = ["minimal", "shell-first", "gui-first", "careful", "coder", "hybrid", "analyst"];

/// Longest template file in bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;
/// Longest description in bytes.
const MAX_DESCRIPTION_BYTES: usize = 2048;

/// The text of a file of `harness_templates/`, by its path there.
#[must_use]
pub fn embedded(path: &str) -> Option<&'static str> {
    TEMPLATES.get_file(path).and_then(include_dir::File::contents_utf8)
}

/// All text files of `harness_templates/` with their paths there, by path: what `init` writes out.
#[must_use]
pub fn embedded_files() -> Vec<(&'static str, &'static str)> {
    let mut files = Vec::new();
    let mut folders = vec![&TEMPLATES];
    while let Some(folder) = folders.pop() {
        folders.extend(folder.dirs());
        files.extend(folder.files().filter_map(|file| Some((file.path().to_str()?, file.contents_utf8()?))));
    }
    files.sort_unstable();
    files
}

/// The embedded seeds: `minimal`, `shell-first`, `gui-first`, `careful`, `coder`, `hybrid`, `analyst`.
///
/// # Errors
/// When an embedded template is not valid, which a test rules out.
pub fn builtin() -> Result<Vec<Template>, SpecError> {
    SEEDS
        .iter()
        .map(|name| {
            let file = format!("{name}.toml");
            let text = embedded(&file).ok_or_else(|| SpecError::Read { file: file.clone(), reason: "it is not embedded".to_owned() })?;
            parse(&file, text)
        })
        .collect()
}

/// Reads the template file at `path`.
///
/// # Errors
/// When it cannot be read or is not a valid template.
pub fn load(path: &Path) -> Result<Template, SpecError> {
    let file = path.display().to_string();
    let failed = |reason: String| SpecError::Read { file: file.clone(), reason };
    let mut text = String::new();
    let opened = std::fs::File::open(path).map_err(|error| failed(error.to_string()))?;
    opened.take(MAX_FILE_BYTES + 1).read_to_string(&mut text).map_err(|error| failed(error.to_string()))?;
    if text.len() as u64 > MAX_FILE_BYTES {
        return Err(failed(format!("it is larger than {MAX_FILE_BYTES} bytes, which no template needs")));
    }
    parse(&file, &text)
}

/// Reads a template from `text`. `file` stands in errors, and its stem names the template if the text does not.
///
/// # Errors
/// When it is not a valid template.
pub fn parse(file: &str, text: &str) -> Result<Template, SpecError> {
    let reader = Reader { file, text };
    let document =
        DeTable::parse(text).map_err(|error| reader.at(error.span().map_or(0, |span| span.start), error.message().to_owned()))?;
    let mut written = Written::default();
    for (key, value) in document.get_ref() {
        reader.top_level(&mut written, key, value)?;
    }
    reader.finish(written)
}

/// What a file says, before it is a harness.
#[derive(Default)]
struct Written {
    name: Option<String>,
    description: String,
    genes: BTreeMap<GenePath, Value>,
    /// Where each gene stands, in bytes.
    places: BTreeMap<GenePath, usize>,
    /// Where each section first stands.
    sections: BTreeMap<String, usize>,
}

struct Reader<'a> {
    file: &'a str,
    text: &'a str,
}

type Node<'a> = Spanned<DeValue<'a>>;

impl Reader<'_> {
    fn at(&self, place: usize, message: String) -> SpecError {
        let line = 1 + self.text.as_bytes().iter().take(place).filter(|byte| **byte == b'\n').count();
        SpecError::Line { file: self.file.to_owned(), line, message }
    }

    fn top_level(&self, written: &mut Written, key: &Spanned<std::borrow::Cow<'_, str>>, value: &Node<'_>) -> Result<(), SpecError> {
        let (name, place) = (key.get_ref().as_ref(), key.span().start);
        match name {
            "name" => {
                let text = self.string(name, value)?;
                if !is_template_name(&text) {
                    let message = format!("key `name`: `{text}` is not a name: use 1 to 40 letters, digits, `-` and `_`");
                    return Err(self.at(value.span().start, message));
                }
                written.name = Some(text);
            }
            "description" => {
                let text = self.string(name, value)?;
                if text.len() > MAX_DESCRIPTION_BYTES {
                    let message = format!("key `description`: {} bytes are too many: at most {MAX_DESCRIPTION_BYTES}", text.len());
                    return Err(self.at(value.span().start, message));
                }
                text.trim().clone_into(&mut written.description);
            }
            section if SECTIONS.contains(&section) => {
                written.sections.insert(section.to_owned(), place);
                let DeValue::Table(table) = value.get_ref() else {
                    return Err(self.at(place, format!("key `{section}`: must be a table of genes")));
                };
                for (key, value) in table {
                    self.gene(written, section, key, value)?;
                }
            }
            _ => {
                let known = ["name", "description"].into_iter().chain(SECTIONS);
                let near = suggestion(name, known.clone());
                let tail = if near.is_empty() { format!("; known are {}", known.collect::<Vec<_>>().join(", ")) } else { near };
                return Err(self.at(place, format!("key `{name}`: there is no such key or section{tail}")));
            }
        }
        Ok(())
    }

    fn gene(
        &self,
        written: &mut Written,
        section: &str,
        key: &Spanned<std::borrow::Cow<'_, str>>,
        value: &Node<'_>,
    ) -> Result<(), SpecError> {
        let path = GenePath::new(section, key.get_ref());
        let place = key.span().start;
        let Some(domain) = domain(&path) else {
            let mut message = format!("key `{path}`: {}", unknown_gene(&path));
            if let Some(home) = home_of(key.get_ref(), section) {
                message.push_str(&format!("; `{}` belongs to `{home}`", key.get_ref()));
            }
            return Err(self.at(place, message));
        };
        let value = self.value(path.as_str(), &domain, value)?;
        written.places.insert(path.clone(), place);
        written.genes.insert(path, value);
        Ok(())
    }

    /// `node` as the value of a gene or of a part of one, checked against its domain.
    fn value(&self, name: &str, domain: &Domain, node: &Node<'_>) -> Result<Value, SpecError> {
        let place = node.span().start;
        let value = match (domain, node.get_ref()) {
            (Domain::Tool, DeValue::Table(table)) => self.parts(name, domain, table)?,
            (Domain::RetryRules, DeValue::Array(items)) => {
                let rules: Result<Vec<Value>, SpecError> = items
                    .iter()
                    .map(|item| match item.get_ref() {
                        DeValue::Table(table) => {
                            let rule = self.parts(name, domain, table)?;
                            let checked = domain.check(&json!([rule]));
                            checked.map_err(|reason| self.at(item.span().start, format!("key `{name}`: {reason}")))?;
                            Ok(rule)
                        }
                        _ => Err(self.at(item.span().start, format!("key `{name}`: a retry rule must be a table"))),
                    })
                    .collect();
                Value::Array(rules?)
            }
            (Domain::Real { .. }, DeValue::Integer(number)) => number.as_str().parse::<f64>().map_or(Value::Null, |number| json!(number)),
            (_, scalar) => plain(scalar).ok_or_else(|| self.at(place, format!("key `{name}`: must be {domain}")))?,
        };
        domain.check(&value).map_err(|reason| self.at(place, format!("key `{name}`: {reason}")))?;
        Ok(value)
    }

    fn parts(&self, name: &str, domain: &Domain, table: &DeTable<'_>) -> Result<Value, SpecError> {
        let known = domain.parts();
        let mut parts = serde_json::Map::new();
        for (key, value) in table {
            let part_name = format!("{name}.{}", key.get_ref());
            let Some((_, part)) = known.iter().find(|(known, _)| known == key.get_ref()) else {
                let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
                let message = format!("key `{part_name}`: there is no such key{}", hint(key.get_ref(), &names));
                return Err(self.at(key.span().start, message));
            };
            parts.insert(key.get_ref().to_string(), self.value(&part_name, part, value)?);
        }
        Ok(Value::Object(parts))
    }

    fn string(&self, name: &str, node: &Node<'_>) -> Result<String, SpecError> {
        match node.get_ref() {
            DeValue::String(text) => Ok(text.to_string()),
            _ => Err(self.at(node.span().start, format!("key `{name}`: must be text"))),
        }
    }

    fn finish(&self, written: Written) -> Result<Template, SpecError> {
        let harness = Genome::from_genes(&written.genes).and_then(Harness::new).map_err(|error| match error {
            HarnessError::Gene { path, reason } => {
                let section = || written.sections.get(path.section());
                let place = written.places.get(&path).or_else(section).copied().unwrap_or(0);
                self.at(place, format!("key `{path}`: {reason}"))
            }
            HarnessError::Shape(_) => self.at(0, error.to_string()),
        })?;
        let stem = || Path::new(self.file).file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
        let name = written.name.unwrap_or_else(stem);
        if !is_template_name(&name) {
            return Err(self.at(0, format!("the file's name `{name}` cannot name a template: add the key `name`")));
        }
        Ok(Template { name, description: written.description, harness })
    }
}

/// A scalar as JSON; `None` for what no gene is made of (dates, infinities, tables, lists).
fn plain(value: &DeValue<'_>) -> Option<Value> {
    match value {
        DeValue::String(text) => Some(json!(text)),
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix()).ok().map(|number| json!(number)),
        DeValue::Float(number) => number.as_str().parse::<f64>().ok().filter(|number| number.is_finite()).map(|number| json!(number)),
        DeValue::Boolean(value) => Some(json!(value)),
        _ => None,
    }
}

/// Another section that has `key`.
fn home_of(key: &str, section: &str) -> Option<&'static str> {
    SECTIONS.into_iter().find(|other| *other != section && keys(other).contains(&key))
}

fn is_template_name(name: &str) -> bool {
    (1..=40).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
}
