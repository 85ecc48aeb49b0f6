//! Files into a sandbox and out of it, through an open folder: no path is ever looked up from the root, no link followed.
//!
//! Writing happens before anything untrusted runs, reading after everything is dead, so nothing races with either.

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, Timespec, Timestamps, chmodat, fchmod, futimens, mkdirat, openat, readlinkat, statat, symlinkat,
    utimensat,
};

use super::SandboxError;
use super::cage::{DiskUse, MOST_FILES};
use super::session::io_error;
use crate::base::{Entry, Snapshot};

/// What may be taken out of a workspace.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// Bytes of all files together. Files beyond are named, not read: [`Entry::Other`].
    pub(super) bytes: u64,
    /// Entries. More are an error: a shortened listing would hide what is missing from it.
    pub(super) entries: usize,
    /// Folders inside folders. What lies deeper is not entered: the folder is [`Entry::Other`].
    pub(super) depth: usize,
}

/// When every file that is put in was written: 2026-01-01 00:00 UTC. What a listing shows must not hang on when an episode was played.
const WRITTEN: Timestamps = Timestamps { last_access: NEW_YEAR, last_modification: NEW_YEAR };
const NEW_YEAR: Timespec = Timespec { tv_sec: 1_767_225_600, tv_nsec: 0 };

const FOLDER: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Who owns what is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner {
    /// The user of this process.
    Caller,
    /// Another user and group of the same number; this process must be root.
    Id(u32),
}

impl Owner {
    /// The number of the other user.
    pub(super) const fn other(self) -> Option<u32> {
        match self {
            Self::Caller => None,
            Self::Id(id) => Some(id),
        }
    }
}

/// Writes the snapshot into `folder`, which must be empty or trusted.
pub(super) fn write(folder: BorrowedFd<'_>, files: &Snapshot, owner: Owner) -> Result<(), SandboxError> {
    if files.is_empty() {
        return Ok(());
    }
    match owner {
        Owner::Caller => write_all(folder, files),
        Owner::Id(id) => std::thread::scope(|scope| {
            // The file system identity belongs to a thread: this one ends with it.
            let writer = scope.spawn(|| {
                become_for_files(id);
                write_all(folder, files)
            });
            writer.join().unwrap_or_else(|_| Err(SandboxError::Ended("the writer of its files ended early".to_owned())))
        }),
    }
}

#[expect(unsafe_code, reason = "there is no safe wrapper for the file system identity of one thread")]
fn become_for_files(id: u32) {
    // SAFETY: both calls only change credentials of the calling thread and take plain integers.
    unsafe {
        libc::setfsgid(id);
        libc::setfsuid(id);
    }
}

fn write_all(folder: BorrowedFd<'_>, files: &Snapshot) -> Result<(), SandboxError> {
    // Those that only lie on the way to a file have no mode of their own.
    let mut folders = BTreeMap::new();
    for (path, entry) in files.iter() {
        write_entry(folder, path, entry).map_err(|source| io_error(format!("writing `{path}` into the workspace"), source))?;
        for (end, _) in path.match_indices('/') {
            folders.entry(&path[..end]).or_insert(None);
        }
        if let Entry::Folder { mode } = entry {
            folders.insert(path, Some(*mode));
        }
    }
    // Modes and times of folders come last and from the inside out: one without write permission must not stop its own content.
    for (path, mode) in folders.into_iter().rev() {
        let set = || -> io::Result<()> {
            let (parent, name) = parent_of(folder, path)?;
            let folder = openat(&parent, name, FOLDER, Mode::empty())?;
            futimens(&folder, &WRITTEN)?;
            mode.map_or(Ok(()), |mode| Ok(fchmod(&folder, permissions(mode))?))
        };
        set().map_err(|source| io_error(format!("setting the mode of `{path}`"), source))?;
    }
    futimens(folder, &WRITTEN).map_err(|error| io_error("setting the time of the workspace", error))
}

/// Never set-user-id or set-group-id: nothing inside may gain rights by them.
fn permissions(mode: u32) -> Mode {
    Mode::from_raw_mode(mode & 0o1777)
}

fn write_entry(root: BorrowedFd<'_>, path: &str, entry: &Entry) -> io::Result<()> {
    let (parent, name) = parent_of(root, path)?;
    match entry {
        Entry::File { text, mode } => write_file(parent.as_fd(), name, text.as_bytes(), *mode),
        Entry::Bytes { bytes, mode } => write_file(parent.as_fd(), name, bytes, *mode),
        Entry::Folder { .. } => match mkdirat(&parent, name, Mode::RWXU) {
            Err(rustix::io::Errno::EXIST) => Ok(()),
            other => Ok(other?),
        },
        Entry::Link { target } => {
            symlinkat(target, &parent, name)?;
            Ok(utimensat(&parent, name, &WRITTEN, AtFlags::SYMLINK_NOFOLLOW)?)
        }
        Entry::Other => Ok(()),
    }
}

fn write_file(parent: BorrowedFd<'_>, name: &str, bytes: &[u8], mode: u32) -> io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut file = File::from(openat(parent, name, flags, Mode::RUSR | Mode::WUSR)?);
    file.write_all(bytes)?;
    futimens(&file, &WRITTEN)?;
    Ok(fchmod(&file, permissions(mode))?)
}

/// The folder that holds `path`, created where it is missing, and the last component.
fn parent_of<'p>(root: BorrowedFd<'_>, path: &'p str) -> io::Result<(OwnedFd, &'p str)> {
    let (parents, name) = path.rsplit_once('/').map_or((None, path), |(parents, name)| (Some(parents), name));
    let mut folder = root.try_clone_to_owned()?;
    for part in parents.into_iter().flat_map(|parents| parents.split('/')) {
        match mkdirat(&folder, part, Mode::RWXU) {
            Ok(()) => {
                folder = openat(&folder, part, FOLDER, Mode::empty())?;
                fchmod(&folder, Mode::from_raw_mode(0o755))?;
            }
            Err(rustix::io::Errno::EXIST) => folder = openat(&folder, part, FOLDER, Mode::empty())?,
            Err(error) => return Err(error.into()),
        }
    }
    Ok((folder, name))
}

/// Reads `folder` and all below it. Every process that could change it must be dead.
pub(super) fn read(folder: BorrowedFd<'_>, bounds: Bounds) -> Result<Snapshot, SandboxError> {
    let mut reader = Reader { files: Snapshot::new(), bounds, bytes: 0 };
    reader.folder(folder, "", 0)?;
    Ok(reader.files)
}

struct Reader {
    files: Snapshot,
    bounds: Bounds,
    bytes: u64,
}

impl Reader {
    fn folder(&mut self, folder: BorrowedFd<'_>, prefix: &str, depth: usize) -> Result<(), SandboxError> {
        let failed = |source: io::Error| io_error(format!("reading the folder `{prefix}` of the workspace"), source);
        let mut names = Vec::new();
        let listing = openat(folder, c".", FOLDER, Mode::empty()).map_err(|error| failed(error.into()))?;
        for entry in Dir::new(listing).map_err(|error| failed(error.into()))? {
            let entry = entry.map_err(|error| failed(error.into()))?;
            if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
                names.push(entry.file_name().to_owned());
            }
            if names.len() + self.files.len() > self.bounds.entries {
                return Err(SandboxError::Overfull { entries: self.bounds.entries });
            }
        }
        // In the order of names: which files fit the byte limit must not hang on the order of the file system.
        names.sort();
        for name in names {
            let path = format!("{prefix}{}", name.to_string_lossy());
            self.entry(folder, &name, path, depth).map_err(|error| match error {
                EntryError::Sandbox(error) => error,
                EntryError::Io(source) => failed(source),
            })?;
        }
        Ok(())
    }

    fn entry(&mut self, folder: BorrowedFd<'_>, name: &CStr, path: String, depth: usize) -> Result<(), EntryError> {
        let stat = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
        let mode = stat.st_mode & 0o7777;
        let entry = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => self.file(folder, name, mode, u64::try_from(stat.st_size).unwrap_or(u64::MAX))?,
            FileType::Symlink => {
                let target = readlinkat(folder, name, Vec::new())?;
                Entry::Link { target: target.to_string_lossy().into_owned() }
            }
            FileType::Directory if depth < self.bounds.depth => {
                self.insert(&path, Entry::Folder { mode });
                let below = open_anyway(folder, name, FOLDER, mode)?;
                self.folder(below.as_fd(), &format!("{path}/"), depth + 1)?;
                return Ok(());
            }
            _ => Entry::Other,
        };
        self.insert(&path, entry);
        Ok(())
    }

    fn file(&mut self, folder: BorrowedFd<'_>, name: &CStr, mode: u32, size: u64) -> io::Result<Entry> {
        if self.bytes.saturating_add(size) > self.bounds.bytes {
            return Ok(Entry::Other);
        }
        self.bytes += size;
        let file = File::from(open_anyway(folder, name, OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK, mode)?);
        let mut bytes = Vec::new();
        file.take(size).read_to_end(&mut bytes)?;
        Ok(match String::from_utf8(bytes) {
            Ok(text) => Entry::File { text, mode },
            Err(error) => Entry::Bytes { bytes: error.into_bytes(), mode },
        })
    }

    /// A name from a folder listing is never empty, `.`, `..` or with a slash, so it always fits a snapshot.
    fn insert(&mut self, path: &str, entry: Entry) {
        if let Err(error) = self.files.insert(path, entry) {
            tracing::warn!(%error, "an entry of a workspace was left out");
        }
    }
}

/// Adds what lies in `folder` to `found`, while programs may change it. A tree too deep to be followed counts as too many files.
pub(super) fn measure(folder: BorrowedFd<'_>, found: &mut DiskUse) {
    measure_below(folder, 0, found);
}

fn measure_below(folder: BorrowedFd<'_>, depth: usize, found: &mut DiskUse) {
    const DEEPEST: usize = 128;
    if depth > DEEPEST {
        found.files = u64::MAX;
        return;
    }
    let Ok(listing) = Dir::read_from(folder) else { return };
    for entry in listing.flatten() {
        if matches!(entry.file_name().to_bytes(), b"." | b"..") {
            continue;
        }
        let Ok(stat) = statat(folder, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW) else { continue };
        found.files = found.files.saturating_add(1);
        found.bytes = found.bytes.saturating_add(u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(512));
        if found.files > MOST_FILES {
            return;
        }
        if FileType::from_raw_mode(stat.st_mode) == FileType::Directory
            && let Ok(below) = openat(folder, entry.file_name(), FOLDER, Mode::empty())
        {
            measure_below(below.as_fd(), depth + 1, found);
        }
    }
}

enum EntryError {
    Sandbox(SandboxError),
    Io(io::Error),
}

impl From<SandboxError> for EntryError {
    fn from(error: SandboxError) -> Self {
        Self::Sandbox(error)
    }
}

impl From<io::Error> for EntryError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<rustix::io::Errno> for EntryError {
    fn from(error: rustix::io::Errno) -> Self {
        Self::Io(error.into())
    }
}

/// Opens for reading; where the mode forbids it to its own user, the mode gives way (the snapshot keeps the old one).
fn open_anyway(folder: BorrowedFd<'_>, name: &CStr, flags: OFlags, mode: u32) -> io::Result<OwnedFd> {
    match openat(folder, name, flags, Mode::empty()) {
        Err(rustix::io::Errno::ACCESS) => {
            chmodat(folder, name, Mode::from_raw_mode(mode | 0o700), AtFlags::empty())?;
            Ok(openat(folder, name, flags, Mode::empty())?)
        }
        other => Ok(other?),
    }
}
