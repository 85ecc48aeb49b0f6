//! Folders of this machine that sandboxes stand on: one per backend value, with what all its sessions share, and one per session.
//!
//! A folder is held by a lock on a file in it. What a killed program left behind has no holder and is removed by the next one.

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{AtFlags, Dir, FileType, FlockOperation, Mode, OFlags, chmodat, flock, openat, renameat, unlinkat};

use super::SandboxError;
use super::session::io_error;

const PREFIX: &str = "harness-evo-sandbox-";
const LOCK: &str = "held";
const SHELL: &str = "etc/sandbox";

/// What all sessions of a backend share.
#[derive(Debug)]
pub(super) struct Ground {
    root: PathBuf,
    _held: File,
    sessions: AtomicU64,
    first: Mutex<BTreeMap<String, String>>,
}

impl Ground {
    /// Lays it out in the machine's folder for temporary files, and removes what killed programs left there.
    ///
    /// The shell is a copy that may be executed but not read. The kernel therefore shields its process: nothing it starts can look
    /// into its memory or its open files, where the exit status of a command travels.
    pub(super) fn new() -> Result<Self, SandboxError> {
        let base = std::env::temp_dir();
        let failed = |source: io::Error| io_error(format!("laying out a sandbox in {}", base.display()), source);
        remove_abandoned(&base);
        let root = tempfile::Builder::new().prefix(PREFIX).tempdir_in(&base).map_err(failed)?;
        let lay = || -> io::Result<File> {
            let held = File::create(root.path().join(LOCK))?;
            flock(&held, FlockOperation::NonBlockingLockExclusive)?;
            fs::set_permissions(root.path(), Permissions::from_mode(0o711))?;
            lay_etc(&root.path().join("etc"))?;
            let shell = root.path().join(SHELL);
            open_folder(&shell)?;
            fs::copy("/bin/bash", shell.join("bash"))?;
            fs::set_permissions(shell.join("bash"), Permissions::from_mode(0o111))?;
            Ok(held)
        };
        let held = lay().map_err(failed)?;
        Ok(Self { root: root.keep(), _held: held, sessions: AtomicU64::new(0), first: Mutex::default() })
    }

    /// A folder that stands for `/etc`: names and libraries, nothing of this machine's configuration. The folder of the shell is in it,
    /// because each mount is time that every session pays.
    pub(super) fn etc(&self) -> PathBuf {
        self.root.join("etc")
    }

    /// The folder of the shell.
    pub(super) fn shell(&self) -> PathBuf {
        self.root.join(SHELL)
    }

    /// The name, in the folder of the shell, of a file with `text` that a shell reads when it starts. Sessions with the same limits share it.
    pub(super) fn first(&self, text: &str) -> Result<String, SandboxError> {
        let mut known = self.first.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(name) = known.get(text) {
            return Ok(name.clone());
        }
        let name = format!("first-{}", known.len());
        let path = self.shell().join(&name);
        write_new(&path, text.as_bytes(), 0o644).map_err(|source| io_error(format!("writing {}", path.display()), source))?;
        known.insert(text.to_owned(), name.clone());
        Ok(name)
    }

    /// A file of the backend's own.
    pub(super) fn write(&self, name: &str, bytes: &[u8]) -> Result<PathBuf, SandboxError> {
        let path = self.root.join(name);
        fs::write(&path, bytes).map_err(|source| io_error(format!("writing {}", path.display()), source))?;
        Ok(path)
    }

    /// The folder of a new session, with `helpers` in it.
    pub(super) fn session(&self, helpers: &BTreeMap<String, String>) -> Result<SessionFolder, SandboxError> {
        let path = self.root.join(format!("s{}", self.sessions.fetch_add(1, Ordering::Relaxed)));
        let lay = || -> io::Result<()> {
            open_folder(&path)?;
            if !helpers.is_empty() {
                open_folder(&path.join("helpers"))?;
            }
            for (name, text) in helpers {
                if name.is_empty() || name.contains('/') || matches!(name.as_str(), "." | "..") {
                    return Err(io::Error::other(format!("`{name}` cannot be the name of a helper script")));
                }
                write_new(&path.join("helpers").join(name), text.as_bytes(), 0o755)?;
            }
            Ok(())
        };
        let laid = lay();
        let folder = SessionFolder { path };
        laid.map(|()| folder).map_err(|source| io_error("laying out the folder of a session", source))
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        remove(&self.root);
    }
}

/// The folder of one session: helper scripts, the command being run and its input. Programs inside may only read it.
#[derive(Debug)]
pub(super) struct SessionFolder {
    path: PathBuf,
}

impl SessionFolder {
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Puts the next command and its input, if it has one, where the shell looks for them.
    pub(super) fn put(&self, command: &str, stdin: Option<&str>) -> Result<(), SandboxError> {
        self.replace("command", command)?;
        stdin.map_or(Ok(()), |text| self.replace("stdin", text))
    }

    /// A new file each time: a program of an earlier command may still read the old one.
    fn replace(&self, name: &str, text: &str) -> Result<(), SandboxError> {
        let path = self.path.join(name);
        let swap = || -> io::Result<()> {
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            write_new(&path, text.as_bytes(), 0o644)
        };
        swap().map_err(|source| io_error(format!("handing over the {name} file of a session"), source))
    }
}

impl Drop for SessionFolder {
    fn drop(&mut self) {
        remove(&self.path);
    }
}

/// A folder that others may enter and list, whatever the file mode mask of this process.
fn open_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o755).create(path)?;
    fs::set_permissions(path, Permissions::from_mode(0o755))
}

fn write_new(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    file.write_all(bytes)?;
    file.set_permissions(Permissions::from_mode(mode))
}

/// Files of `/etc` that programs need to start, copied: the machine's own may be links to anywhere.
const COPIED: [&str; 5] = ["ld.so.cache", "magic", "mime.types", "services", "protocols"];

fn lay_etc(etc: &Path) -> io::Result<()> {
    open_folder(etc)?;
    for (name, text) in [
        (
            "passwd",
            "root:x:0:0:root:/root:/bin/sh\nagent:x:1000:1000:agent:/home/agent:/bin/bash\nnobody:x:65534:65534:nobody:/:/bin/false\n",
        ),
        ("group", "root:x:0:\nagent:x:1000:\nnogroup:x:65534:\n"),
        ("hosts", "127.0.0.1 localhost\n"),
        ("hostname", "sandbox\n"),
        ("nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n"),
    ] {
        write_new(&etc.join(name), text.as_bytes(), 0o644)?;
    }
    for name in COPIED {
        if let Ok(bytes) = fs::read(Path::new("/etc").join(name)) {
            write_new(&etc.join(name), &bytes, 0o644)?;
        }
    }
    // `awk`, `vi` and others are links through here.
    let alternatives = etc.join("alternatives");
    open_folder(&alternatives)?;
    for entry in fs::read_dir("/etc/alternatives").into_iter().flatten().flatten() {
        if let Ok(target) = fs::read_link(entry.path()) {
            symlink(target, alternatives.join(entry.file_name()))?;
        }
    }
    Ok(())
}

/// Removes folders of this kind that nobody holds. Those of other users cannot be removed and stay.
fn remove_abandoned(base: &Path) {
    for entry in fs::read_dir(base).into_iter().flatten().flatten() {
        let ours = entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX));
        if !ours || !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        let free = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NOFOLLOW)
            .open(entry.path().join(LOCK))
            .is_ok_and(|file| flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok());
        if free {
            remove(&entry.path());
        }
    }
}

/// Removes a folder whatever untrusted programs made of it: any depth, any modes, no link followed.
fn remove(path: &Path) {
    let opened = rustix::fs::open(path, OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty());
    let emptied = opened.map_err(io::Error::from).and_then(|folder| empty(folder.as_fd())).and_then(|()| fs::remove_dir(path));
    if let Err(error) = emptied {
        tracing::warn!(%error, path = %path.display(), "a sandbox folder could not be removed");
    }
}

/// Empties `top`. A folder below another is first moved up to `top`, so that depth costs neither stack nor open files.
fn empty(top: BorrowedFd<'_>) -> io::Result<()> {
    let mut moved = 0_u64;
    loop {
        let names = listing(top)?;
        if names.is_empty() {
            return Ok(());
        }
        for name in names {
            if !is_folder(top, &name)? {
                unlinkat(top, &name, AtFlags::empty())?;
                continue;
            }
            // Its own mode may forbid what we do here; a failure shows in the next call.
            let _ = chmodat(top, &name, Mode::RWXU, AtFlags::empty());
            let folder = openat(top, &name, OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
            for below in listing(folder.as_fd())? {
                if is_folder(folder.as_fd(), &below)? {
                    let _ = chmodat(&folder, &below, Mode::RWXU, AtFlags::empty());
                    moved += 1;
                    renameat(&folder, &below, top, format!("{PREFIX}moved-{moved}"))?;
                } else {
                    unlinkat(&folder, &below, AtFlags::empty())?;
                }
            }
            unlinkat(top, &name, AtFlags::REMOVEDIR)?;
        }
    }
}

fn is_folder(at: BorrowedFd<'_>, name: &CStr) -> io::Result<bool> {
    let stat = rustix::fs::statat(at, name, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
}

fn listing(folder: BorrowedFd<'_>) -> io::Result<Vec<std::ffi::CString>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
            names.push(entry.file_name().to_owned());
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hostile_tree_is_removed_whole_and_what_links_point_to_stays() {
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("kept"), "x").unwrap();
        let top = outside.path().join("tree");
        fs::create_dir(&top).unwrap();
        symlink(outside.path(), top.join("link")).unwrap();
        // Deeper than there may be open files, and than a path may be long.
        let mut folder = rustix::fs::open(&top, OFlags::DIRECTORY, Mode::empty()).unwrap();
        for _ in 0..3000 {
            rustix::fs::mkdirat(&folder, "d", Mode::RWXU).unwrap();
            folder = openat(&folder, "d", OFlags::DIRECTORY, Mode::empty()).unwrap();
        }
        rustix::fs::mkdirat(&folder, "locked", Mode::empty()).unwrap();
        remove(&top);
        assert!(!top.exists());
        assert!(outside.path().join("kept").exists());
    }

    #[test]
    fn only_folders_without_a_holder_are_abandoned() {
        let base = tempfile::tempdir().unwrap();
        for name in ["dead", "alive"] {
            fs::create_dir(base.path().join(format!("{PREFIX}{name}"))).unwrap();
            File::create(base.path().join(format!("{PREFIX}{name}/{LOCK}"))).unwrap();
        }
        let held = File::open(base.path().join(format!("{PREFIX}alive/{LOCK}"))).unwrap();
        flock(&held, FlockOperation::NonBlockingLockExclusive).unwrap();
        remove_abandoned(base.path());
        assert!(!base.path().join(format!("{PREFIX}dead")).exists());
        assert!(base.path().join(format!("{PREFIX}alive")).exists());
    }
}
