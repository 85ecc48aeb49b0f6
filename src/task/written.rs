//! A task as it is written in TOML, and the way from there to a valid [`TaskBody`] and back.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{MapAccess, Visitor, value::MapAccessDeserializer};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use super::probe::parse_mode;
use super::{Act, ActCall, ActRole, Check, CheckItem, JobType, Probe, SkillName, Stake, TaskBody, TaskError, TaskLimits, Variant};
use crate::base::{Entry, Snapshot};

const FILE_MODE: u32 = 0o644;
const FOLDER_MODE: u32 = 0o755;

/// A whole task file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TaskWritten {
    job_type: String,
    skill: String,
    instruction: String,
    #[serde(default)]
    limits: TaskLimits,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    files: BTreeMap<String, FileWritten>,
    check: Vec<ItemWritten>,
    solution: Vec<ActWritten>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    broken: Vec<VariantWritten>,
}

/// An entry of the workspace: a text, or a table.
#[derive(Debug)]
enum FileWritten {
    Text(String),
    Long(LongFile),
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct LongFile {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    hex: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    link: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    folder: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    mode: Option<String>,
}

/// An item of the check: a name, a stake and one probe.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ItemWritten {
    name: String,
    #[serde(default)]
    stake: Stake,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    file_exists: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    file_absent: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    file_equals: Option<PathText>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    file_contains: Option<PathText>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    file_matches: Option<PathPattern>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    json_equals: Option<PathJson>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lines_equal: Option<PathLines>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    file_mode: Option<PathMode>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    link_equals: Option<PathTarget>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    command: Option<CommandWritten>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PathText {
    path: String,
    text: String,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PathPattern {
    path: String,
    pattern: String,
}

/// A JSON value as TOML (`value`), or as JSON text (`json`) where TOML cannot say it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PathJson {
    path: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    value: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    json: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PathLines {
    path: String,
    lines: Vec<String>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PathMode {
    path: String,
    mode: String,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PathTarget {
    path: String,
    target: String,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CommandWritten {
    run: String,
    #[serde(default)]
    exit: i32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stdout_contains: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    files: BTreeMap<String, FileWritten>,
}

/// An act: a role and one call.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ActWritten {
    role: ActRole,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    evidence: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    run: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    python: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    read: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    write: Option<WriteWritten>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    edit: Option<EditWritten>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    slip: Option<CallWritten>,
}

/// One call.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CallWritten {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    run: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    python: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    read: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    write: Option<WriteWritten>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    edit: Option<EditWritten>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WriteWritten {
    path: String,
    content: String,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct EditWritten {
    path: String,
    find: String,
    replace: String,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct VariantWritten {
    name: String,
    acts: Vec<CallWritten>,
}

impl Serialize for FileWritten {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => serializer.serialize_str(text),
            Self::Long(long) => long.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for FileWritten {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextOrTable;

        impl<'de> Visitor<'de> for TextOrTable {
            type Value = FileWritten;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text, or a table with `text`, `hex`, `link` or `folder`")
            }

            fn visit_str<E>(self, text: &str) -> Result<FileWritten, E> {
                Ok(FileWritten::Text(text.to_owned()))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<FileWritten, A::Error> {
                LongFile::deserialize(MapAccessDeserializer::new(map)).map(FileWritten::Long)
            }
        }

        deserializer.deserialize_any(TextOrTable)
    }
}

fn fail<T>(part: &str, reason: impl Into<String>) -> Result<T, TaskError> {
    Err(TaskError::Part { part: part.to_owned(), reason: reason.into() })
}

/// The one value that is there.
fn only<T, const N: usize>(part: &str, names: &str, given: [Option<T>; N]) -> Result<T, TaskError> {
    let mut given = given.into_iter().flatten();
    match (given.next(), given.next()) {
        (Some(one), None) => Ok(one),
        (None, _) => fail(part, format!("needs one of {names}")),
        (Some(_), Some(_)) => fail(part, format!("has more than one of {names}; keep one")),
    }
}

impl TaskWritten {
    /// The body; errors name the part as a path of TOML keys.
    pub(super) fn into_body(self) -> Result<TaskBody, TaskError> {
        let items = self.check.into_iter().enumerate().map(|(index, item)| item.into_item(&format!("check[{index}]")));
        let acts = self.solution.into_iter().enumerate().map(|(index, act)| act.into_act(&format!("solution[{index}]")));
        let broken = self.broken.into_iter().enumerate().map(|(index, variant)| variant.into_variant(&format!("broken[{index}]")));
        Ok(TaskBody {
            job_type: JobType::new(&self.job_type).or_else(|error| fail("job_type", error.to_string()))?,
            skill: SkillName::new(&self.skill).or_else(|error| fail("skill", error.to_string()))?,
            instruction: self.instruction,
            files: into_snapshot(self.files, "files")?,
            limits: self.limits,
            check: Check { items: items.collect::<Result<_, _>>()? },
            solution: acts.collect::<Result<_, _>>()?,
            broken: broken.collect::<Result<_, _>>()?,
        })
    }

    /// How `body` is written.
    pub(super) fn of(body: &TaskBody) -> Self {
        Self {
            job_type: body.job_type.to_string(),
            skill: body.skill.to_string(),
            instruction: body.instruction.clone(),
            limits: body.limits,
            files: of_snapshot(&body.files),
            check: body.check.items.iter().map(ItemWritten::of).collect(),
            solution: body.solution.iter().map(ActWritten::of).collect(),
            broken: body
                .broken
                .iter()
                .map(|variant| VariantWritten { name: variant.name.clone(), acts: variant.acts.iter().map(CallWritten::of).collect() })
                .collect(),
        }
    }
}

fn into_snapshot(files: BTreeMap<String, FileWritten>, part: &str) -> Result<Snapshot, TaskError> {
    let mut snapshot = Snapshot::new();
    for (path, file) in files {
        let part = format!("{part}.{path}");
        let entry = match file {
            FileWritten::Text(text) => Entry::File { text, mode: FILE_MODE },
            FileWritten::Long(long) => long.into_entry(&part)?,
        };
        snapshot.insert(&path, entry).or_else(|error| fail(&part, error.to_string()))?;
    }
    Ok(snapshot)
}

fn of_snapshot(files: &Snapshot) -> BTreeMap<String, FileWritten> {
    let written = |entry: &Entry| {
        let mode_unless = |mode: u32, usual: u32| (mode != usual).then(|| format!("{mode:o}"));
        Some(FileWritten::Long(match entry {
            Entry::File { text, mode: FILE_MODE } => return Some(FileWritten::Text(text.clone())),
            Entry::File { text, mode } => LongFile { text: Some(text.clone()), mode: mode_unless(*mode, FILE_MODE), ..LongFile::default() },
            Entry::Bytes { bytes, mode } => {
                let hex = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
                LongFile { hex: Some(hex), mode: mode_unless(*mode, FILE_MODE), ..LongFile::default() }
            }
            Entry::Folder { mode } => LongFile { folder: Some(true), mode: mode_unless(*mode, FOLDER_MODE), ..LongFile::default() },
            Entry::Link { target } => LongFile { link: Some(target.clone()), ..LongFile::default() },
            Entry::Other => return None,
        }))
    };
    files.iter().filter_map(|(path, entry)| Some((path.to_owned(), written(entry)?))).collect()
}

impl LongFile {
    fn into_entry(self, part: &str) -> Result<Entry, TaskError> {
        let mode = match &self.mode {
            None => None,
            Some(digits) => match parse_mode(digits) {
                Some(mode) => Some(mode),
                None => return fail(&format!("{part}.mode"), format!("`{digits}` is not a mode; write octal digits, for example \"755\"")),
            },
        };
        let file_mode = mode.unwrap_or(FILE_MODE);
        let bytes = match self.hex {
            None => None,
            Some(hex) => match from_hex(&hex) {
                Some(bytes) => Some(Entry::Bytes { bytes, mode: file_mode }),
                None => return fail(&format!("{part}.hex"), "is not an even number of hexadecimal digits"),
            },
        };
        let text = self.text.map(|text| Entry::File { text, mode: file_mode });
        let link = self.link.map(|target| Entry::Link { target });
        let folder = match self.folder {
            Some(false) => return fail(&format!("{part}.folder"), "can only be true; leave it out for a file"),
            Some(true) => Some(Entry::Folder { mode: mode.unwrap_or(FOLDER_MODE) }),
            None => None,
        };
        match only(part, "`text`, `hex`, `link`, `folder`", [text, bytes, link, folder])? {
            Entry::Link { .. } if mode.is_some() => fail(&format!("{part}.mode"), "a link has no mode"),
            Entry::Link { target } if target.is_empty() => fail(&format!("{part}.link"), "is empty"),
            entry => Ok(entry),
        }
    }
}

fn from_hex(digits: &str) -> Option<Vec<u8>> {
    let digits = digits.as_bytes();
    let value = |digit: &u8| char::from(*digit).to_digit(16).and_then(|value| u8::try_from(value).ok());
    if !digits.len().is_multiple_of(2) {
        return None;
    }
    digits.chunks_exact(2).map(|pair| Some((value(&pair[0])? << 4) | value(&pair[1])?)).collect()
}

impl ItemWritten {
    fn into_item(self, part: &str) -> Result<CheckItem, TaskError> {
        let json = self.json_equals.map(|json| json.into_probe(&format!("{part}.json_equals"))).transpose()?;
        let command = self.command.map(|command| command.into_probe(&format!("{part}.command"))).transpose()?;
        let names = "`file_exists`, `file_absent`, `file_equals`, `file_contains`, `file_matches`, `json_equals`, `lines_equal`, \
                     `file_mode`, `link_equals`, `command`";
        let given = [
            self.file_exists.map(|path| Probe::FileExists { path }),
            self.file_absent.map(|path| Probe::FileAbsent { path }),
            self.file_equals.map(|PathText { path, text }| Probe::FileEquals { path, text }),
            self.file_contains.map(|PathText { path, text }| Probe::FileContains { path, text }),
            self.file_matches.map(|PathPattern { path, pattern }| Probe::FileMatches { path, pattern }),
            json,
            self.lines_equal.map(|PathLines { path, lines }| Probe::LinesEqual { path, lines }),
            self.file_mode.map(|PathMode { path, mode }| Probe::FileMode { path, mode }),
            self.link_equals.map(|PathTarget { path, target }| Probe::LinkEquals { path, target }),
            command,
        ];
        Ok(CheckItem { probe: only(part, names, given)?, name: self.name, stake: self.stake })
    }

    fn of(item: &CheckItem) -> Self {
        let mut written = Self { name: item.name.clone(), stake: item.stake, ..Self::default() };
        match item.probe.clone() {
            Probe::FileExists { path } => written.file_exists = Some(path),
            Probe::FileAbsent { path } => written.file_absent = Some(path),
            Probe::FileEquals { path, text } => written.file_equals = Some(PathText { path, text }),
            Probe::FileContains { path, text } => written.file_contains = Some(PathText { path, text }),
            Probe::FileMatches { path, pattern } => written.file_matches = Some(PathPattern { path, pattern }),
            Probe::JsonEquals { path, value } => written.json_equals = Some(PathJson { path, value: None, json: Some(value.to_string()) }),
            Probe::LinesEqual { path, lines } => written.lines_equal = Some(PathLines { path, lines }),
            Probe::FileMode { path, mode } => written.file_mode = Some(PathMode { path, mode }),
            Probe::LinkEquals { path, target } => written.link_equals = Some(PathTarget { path, target }),
            Probe::Command { command, files, exit, stdout_contains } => {
                written.command = Some(CommandWritten { run: command, exit, stdout_contains, files: of_snapshot(&files) });
            }
        }
        written
    }
}

impl PathJson {
    fn into_probe(self, part: &str) -> Result<Probe, TaskError> {
        let parsed = match self.json {
            None => None,
            Some(json) => match serde_json::from_str(&json) {
                Ok(value) => Some(value),
                Err(error) => return fail(&format!("{part}.json"), format!("is not JSON: {error}")),
            },
        };
        let value = only(part, "`value`, `json`", [self.value, parsed])?;
        Ok(Probe::JsonEquals { path: self.path, value })
    }
}

impl CommandWritten {
    fn into_probe(self, part: &str) -> Result<Probe, TaskError> {
        let files = into_snapshot(self.files, &format!("{part}.files"))?;
        Ok(Probe::Command { command: self.run, files, exit: self.exit, stdout_contains: self.stdout_contains })
    }
}

impl ActWritten {
    fn into_act(self, part: &str) -> Result<Act, TaskError> {
        let Self { role, evidence, run, python, read, write, edit, slip } = self;
        let call = CallWritten { run, python, read, write, edit }.into_call(part)?;
        let slip = slip.map(|slip| slip.into_call(&format!("{part}.slip"))).transpose()?;
        Ok(Act { call, role, evidence, slip })
    }

    fn of(act: &Act) -> Self {
        let CallWritten { run, python, read, write, edit } = CallWritten::of(&act.call);
        let slip = act.slip.as_ref().map(CallWritten::of);
        Self { role: act.role, evidence: act.evidence.clone(), run, python, read, write, edit, slip }
    }
}

impl CallWritten {
    fn into_call(self, part: &str) -> Result<ActCall, TaskError> {
        let given = [
            self.run.map(|command| ActCall::Run { command }),
            self.python.map(|code| ActCall::Python { code }),
            self.read.map(|path| ActCall::Read { path }),
            self.write.map(|WriteWritten { path, content }| ActCall::Write { path, content }),
            self.edit.map(|EditWritten { path, find, replace }| ActCall::Edit { path, find, replace }),
        ];
        only(part, "`run`, `python`, `write`, `edit`, `read`", given)
    }

    fn of(call: &ActCall) -> Self {
        let mut written = Self::default();
        match call.clone() {
            ActCall::Run { command } => written.run = Some(command),
            ActCall::Python { code } => written.python = Some(code),
            ActCall::Read { path } => written.read = Some(path),
            ActCall::Write { path, content } => written.write = Some(WriteWritten { path, content }),
            ActCall::Edit { path, find, replace } => written.edit = Some(EditWritten { path, find, replace }),
        }
        written
    }
}

impl VariantWritten {
    fn into_variant(self, part: &str) -> Result<Variant, TaskError> {
        let acts = self.acts.into_iter().enumerate().map(|(index, act)| act.into_call(&format!("{part}.acts[{index}]")));
        Ok(Variant { name: self.name, acts: acts.collect::<Result<_, _>>()? })
    }
}
