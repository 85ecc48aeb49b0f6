//! Records the replies of a model, and replays them without it.
//!
//! A recording is a file of JSON lines: a header that names the model, then one line per reply, keyed by a hash of the request as it
//! is sent. The episode and step a reply was given to stand beside it, so that replays do not depend on the order in which workers
//! ask: two episodes that send equal requests each get their own reply again.

use std::collections::{BTreeMap, HashMap};
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{ChatReply, ChatRequest, LanguageModel, ModelError, ModelId};
use crate::base::content_hash;
use crate::task::TaskId;

/// Version of the file's form.
const VERSION: u32 = 1;

/// Bytes of one line: the largest reply a client accepts, escaped, fits.
const MAX_LINE_BYTES: u64 = 128 * 1024 * 1024;

/// A recording that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// The file.
    #[error("the recording {path}: {source}")]
    Io {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A line that is none of a recording's. (A last line without its end is what a killed process leaves, and is skipped.)
    #[error("the recording {path}, line {line}: {reason}")]
    Line {
        /// Which file.
        path: PathBuf,
        /// From 1.
        line: usize,
        /// What is wrong.
        reason: String,
    },
    /// It holds the replies of another model.
    #[error("the recording {path} holds replies of `{found}`, not of `{wanted}` as it is configured now: record to another file")]
    OtherModel {
        /// Which file.
        path: PathBuf,
        /// The model it holds.
        found: String,
        /// The model that is to be recorded.
        wanted: String,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    recording: u32,
    model: ModelId,
    price: [u64; 3],
    simulated: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    request: String,
    asker: Asker,
    /// How many replies to the same request of the same asker came before.
    ordinal: u32,
    reply: ChatReply,
}

/// Who asked: the serialised form of a request's tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Asker {
    task: Option<TaskId>,
    seed: u64,
    step: u32,
}

impl Asker {
    const fn of(request: &ChatRequest) -> Self {
        Self { task: request.tag.task, seed: request.tag.seed, step: request.tag.step }
    }
}

/// Hash (hex) of a request as it is sent to `model`: messages, tools, sampling. The tag is not sent.
fn request_key(model: &ModelId, request: &ChatRequest) -> Result<String, ModelError> {
    let sent = json!({
        "model": model.name,
        "messages": request.messages,
        "tools": request.tools,
        "tool_choice": request.tool_choice,
        "sampling": request.sampling,
    });
    let hash = content_hash("model request/1", &sent);
    hash.map(|hash| hash.to_hex()[..32].to_owned())
        .map_err(|error| ModelError::Permanent { message: format!("the request cannot be written as JSON: {error}") })
}

/// A model whose replies are kept in a file as they come.
pub struct Recorder {
    inner: Arc<dyn LanguageModel>,
    path: PathBuf,
    file: Mutex<RecorderFile>,
}

struct RecorderFile {
    file: File,
    /// Replies so far.
    counts: HashMap<(String, Asker), u32>,
}

impl Recorder {
    /// Records `inner` to `path`, appending to a recording of the same model.
    ///
    /// # Errors
    /// When the file cannot be opened or holds something else.
    pub fn open(inner: Arc<dyn LanguageModel>, path: &Path) -> Result<Self, RecordingError> {
        let io = |source| RecordingError::Io { path: path.to_owned(), source };
        let mut file = OpenOptions::new().read(true).append(true).create(true).open(path).map_err(io)?;
        let mut counts = HashMap::new();
        let contents = read_lines(&file, path, |line| {
            *counts.entry((line.request, line.asker)).or_insert(0) += 1;
        })?;
        // A torn last line must not swallow the next one.
        file.set_len(contents.whole_bytes).map_err(io)?;
        match contents.header {
            Some(header) if header.model != *inner.id() => {
                let (found, wanted) = (header.model.name, inner.id().name.clone());
                return Err(RecordingError::OtherModel { path: path.to_owned(), found, wanted });
            }
            Some(_) => {}
            None => {
                let header = Header { recording: VERSION, model: inner.id().clone(), price: inner.price(), simulated: inner.simulated() };
                append(&mut file, &header).map_err(io)?;
            }
        }
        Ok(Self { inner, path: path.to_owned(), file: Mutex::new(RecorderFile { file, counts }) })
    }

    fn keep(&self, request: String, asker: Asker, reply: &ChatReply) -> std::io::Result<()> {
        let mut held = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let count = held.counts.entry((request.clone(), asker)).or_insert(0);
        let ordinal = *count;
        *count += 1;
        append(&mut held.file, &Line { request, asker, ordinal, reply: reply.clone() })
    }
}

/// One write per line, so that lines of a process that dies are whole but for the last.
fn append<T: Serialize>(file: &mut File, value: &T) -> std::io::Result<()> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    file.write_all(&line)
}

#[async_trait::async_trait]
impl LanguageModel for Recorder {
    fn id(&self) -> &ModelId {
        self.inner.id()
    }

    fn price(&self) -> [u64; 3] {
        self.inner.price()
    }

    fn simulated(&self) -> bool {
        self.inner.simulated()
    }

    async fn complete(&self, request: &ChatRequest) -> Result<ChatReply, ModelError> {
        let key = request_key(self.inner.id(), request)?;
        let reply = self.inner.complete(request).await?;
        self.keep(key, Asker::of(request), &reply).map_err(|error| ModelError::Permanent {
            message: format!("a reply could not be kept in the recording {}: {error}; make room or record elsewhere", self.path.display()),
        })?;
        Ok(reply)
    }
}

/// A model that answers from a recording. It has the recorded model's id and prices.
pub struct Replayer {
    path: PathBuf,
    header: Header,
    /// The replies to a request by asker, in the order in which they were given.
    replies: HashMap<String, BTreeMap<Asker, Vec<ChatReply>>>,
    /// How many replies each asker has had.
    given: Mutex<HashMap<(String, Asker), usize>>,
}

impl Replayer {
    /// Loads the recording at `path`.
    ///
    /// # Errors
    /// When it cannot be read or is none.
    pub fn open(path: &Path) -> Result<Self, RecordingError> {
        let file = File::open(path).map_err(|source| RecordingError::Io { path: path.to_owned(), source })?;
        let mut replies: HashMap<String, BTreeMap<Asker, Vec<ChatReply>>> = HashMap::new();
        let contents = read_lines(&file, path, |line| {
            replies.entry(line.request).or_default().entry(line.asker).or_default().push(line.reply);
        })?;
        let reason = || "empty: expected a header that names the model".to_owned();
        let header = contents.header.ok_or_else(|| RecordingError::Line { path: path.to_owned(), line: 1, reason: reason() })?;
        Ok(Self { path: path.to_owned(), header, replies, given: Mutex::default() })
    }

    /// The asker's own replies, one after the other and then the last again; for an asker the recording does not know, what the
    /// first one (by task, seed and step) was told.
    fn find(&self, key: &str, asker: Asker) -> Option<ChatReply> {
        let by_asker = self.replies.get(key)?;
        let own = by_asker.get(&asker).or_else(|| by_asker.values().next())?;
        let mut given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        let count = given.entry((key.to_owned(), asker)).or_insert(0);
        let reply = own.get(*count).or_else(|| own.last())?;
        *count += 1;
        Some(reply.clone())
    }
}

#[async_trait::async_trait]
impl LanguageModel for Replayer {
    fn id(&self) -> &ModelId {
        &self.header.model
    }

    fn price(&self) -> [u64; 3] {
        self.header.price
    }

    fn simulated(&self) -> bool {
        self.header.simulated
    }

    async fn complete(&self, request: &ChatRequest) -> Result<ChatReply, ModelError> {
        let key = request_key(&self.header.model, request)?;
        self.find(&key, Asker::of(request)).ok_or_else(|| {
            let asker = Asker::of(request);
            let task = asker.task.map_or_else(|| "no task".to_owned(), |task| format!("task {task}"));
            let said = request.messages.last().map(|message| super::refusal::excerpt(&message.joined_text())).unwrap_or_default();
            ModelError::Permanent {
                message: format!(
                    "the recording {} has no reply to request {key} ({task}, seed {}, step {}; its last message: {said}): \
                     record this experiment again, or replay it with the harnesses and tasks it was recorded with",
                    self.path.display(),
                    asker.seed,
                    asker.step
                ),
            }
        })
    }
}

struct Contents {
    header: Option<Header>,
    /// Bytes up to the end of the last whole line.
    whole_bytes: u64,
}

/// Reads a recording line by line; an empty file has no header.
fn read_lines(file: &File, path: &Path, mut each: impl FnMut(Line)) -> Result<Contents, RecordingError> {
    let io = |source| RecordingError::Io { path: path.to_owned(), source };
    let mut reader = BufReader::new(file);
    reader.seek(SeekFrom::Start(0)).map_err(io)?;
    let mut contents = Contents { header: None, whole_bytes: 0 };
    let mut bytes = Vec::new();
    for number in 1.. {
        bytes.clear();
        let read = reader.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut bytes).map_err(io)?;
        let wrong = |reason: String| RecordingError::Line { path: path.to_owned(), line: number, reason };
        if bytes.last() != Some(&b'\n') {
            if read as u64 == MAX_LINE_BYTES {
                return Err(wrong(format!("longer than {MAX_LINE_BYTES} bytes")));
            }
            break;
        }
        if contents.header.is_none() {
            contents.header = Some(parse_header(&bytes).map_err(wrong)?);
        } else {
            each(serde_json::from_slice(&bytes).map_err(|error| wrong(error.to_string()))?);
        }
        contents.whole_bytes += read as u64;
    }
    Ok(contents)
}

fn parse_header(bytes: &[u8]) -> Result<Header, String> {
    let header: Header = serde_json::from_slice(bytes).map_err(|error| format!("no header of a recording: {error}"))?;
    if header.recording != VERSION {
        return Err(format!("version {} of the form; this program reads version {VERSION}", header.recording));
    }
    Ok(header)
}

#[cfg(test)]
#[path = "recording_tests.rs"]
mod tests;
