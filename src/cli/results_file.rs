//! Files that commands write results to.

use std::io::Write as _;
use std::path::Path;

use super::failure::{Failure, FailureKind};
use super::output::Output;
use crate::base::write_whole;

/// Writes `bytes` to the file at `path`, whole or not at all, or to stdout where `path` is `-` or none. A path that is there and no
/// regular file (a device, a pipe) is written to, never replaced.
pub(super) fn write(path: Option<&Path>, bytes: &[u8], output: &Output) -> Result<(), Failure> {
    match path.filter(|path| *path != Path::new("-")) {
        None => output.data(&String::from_utf8_lossy(bytes)),
        Some(path) => write_file(path, bytes).map_err(|error| {
            Failure::new(FailureKind::Other, format!("{} cannot be written: {error}", path.display())).hint("nothing was changed there")
        }),
    }
}

fn write_file(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    if std::fs::metadata(path).is_ok_and(|found| !found.is_file()) {
        return std::fs::File::options().write(true).open(path)?.write_all(bytes);
    }
    // A link stays a link: what it points to is replaced.
    let path = &std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    write_whole(path, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_whole_and_a_device_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("a"), folder.path().join("l"));
        std::fs::write(&file, "old").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        write_file(&link, b"new").unwrap();
        assert_eq!(std::fs::read(&file).unwrap(), b"new");
        assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
        write_file(Path::new("/dev/null"), b"gone").unwrap();
        assert!(!std::fs::metadata("/dev/null").unwrap().is_file());
        assert!(write_file(&folder.path().join("none/a"), b"x").is_err());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
    }
}
