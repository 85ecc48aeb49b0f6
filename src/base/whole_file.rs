//! Files that are whole or not there.

use std::io::Write as _;
use std::path::Path;

/// Writes `bytes` to `path`: first aside, then renamed, and on the disk when this returns. What was there before stays until then.
///
/// # Errors
/// Those of the system; nothing was changed then.
pub fn write_whole(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
    // The mode of a file that was made without a second thought; the process's mask applies.
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o666);
    let mut file = tempfile::Builder::new().prefix(".harness-evo-").permissions(mode).tempfile_in(folder)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}
