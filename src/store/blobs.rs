//! Content-addressed blobs: `blobs/ab/cdef...`, named by BLAKE3, packed with zstd, written aside and renamed, verified when read.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::StoreError;
use super::codec::{MAX_UNPACKED, pack, unpack};

/// Where blobs are kept.
#[derive(Debug)]
pub(super) enum Blobs {
    /// In files below this folder.
    Folder(PathBuf),
    /// In memory, for tests and benches.
    Memory(Mutex<BTreeMap<String, Vec<u8>>>),
}

impl Blobs {
    /// Keeps `bytes` and returns their name. What is there already is not written again.
    pub(super) fn put(&self, bytes: &[u8]) -> Result<String, StoreError> {
        let packed = pack("a blob", bytes)?;
        let hash = blake3::hash(bytes).to_hex().to_string();
        self.put_packed(&hash, &packed)?;
        Ok(hash)
    }

    /// Keeps bytes that are packed already, under the hash of what they unpack to.
    pub(super) fn put_packed(&self, hash: &str, packed: &[u8]) -> Result<(), StoreError> {
        match self {
            Self::Memory(blobs) => {
                blobs.lock().unwrap_or_else(PoisonError::into_inner).insert(hash.to_owned(), packed.to_owned());
                Ok(())
            }
            Self::Folder(folder) => {
                let path = path_of(folder, hash);
                // A file of another length is what a power cut left of it: write it again.
                if std::fs::metadata(&path).is_ok_and(|found| found.len() == packed.len() as u64) {
                    return Ok(());
                }
                let parent = path.parent().unwrap_or(folder);
                std::fs::create_dir_all(parent).map_err(StoreError::io(parent))?;
                let mut file = tempfile::Builder::new().prefix(".new-").tempfile_in(parent).map_err(StoreError::io(parent))?;
                file.write_all(packed).map_err(StoreError::io(&path))?;
                file.persist(&path).map_err(|error| StoreError::io(&path)(error.error))?;
                Ok(())
            }
        }
    }

    /// The bytes named `hash`, verified.
    pub(super) fn get(&self, hash: &str) -> Result<Vec<u8>, StoreError> {
        let problem = |problem: String| StoreError::Blob { hash: hash.to_owned(), problem };
        if hash.len() != 64 || !hash.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
            return Err(problem("not named by a BLAKE3 hash".to_owned()));
        }
        let packed = match self {
            Self::Memory(blobs) => blobs.lock().unwrap_or_else(PoisonError::into_inner).get(hash).cloned(),
            Self::Folder(folder) => read_bounded(&path_of(folder, hash))?,
        };
        let packed = packed.ok_or_else(|| problem("missing".to_owned()))?;
        let bytes = unpack("a blob", &packed).map_err(|error| problem(format!("damaged ({error})")))?;
        verify(hash, &bytes)?;
        Ok(bytes)
    }
}

/// Checks that `bytes` are what `hash` names.
pub(super) fn verify(hash: &str, bytes: &[u8]) -> Result<(), StoreError> {
    if blake3::hash(bytes).to_hex().as_str() == hash {
        Ok(())
    } else {
        Err(StoreError::Blob { hash: hash.to_owned(), problem: "not what its name says".to_owned() })
    }
}

fn path_of(folder: &Path, hash: &str) -> PathBuf {
    let (head, tail) = hash.split_at(2);
    folder.join(head).join(tail)
}

fn read_bounded(path: &Path) -> Result<Option<Vec<u8>>, StoreError> {
    let file = match std::fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(StoreError::io(path)(error)),
    };
    let mut bytes = Vec::new();
    file.take(MAX_UNPACKED as u64).read_to_end(&mut bytes).map_err(StoreError::io(path))?;
    Ok(Some(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blob_comes_back_and_lies_where_its_hash_says() {
        let folder = tempfile::tempdir().unwrap();
        let blobs = Blobs::Folder(folder.path().to_owned());
        let hash = blobs.put(b"abc").unwrap();
        // The BLAKE3 test vector for "abc".
        assert_eq!(hash, "6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85");
        assert_eq!(blobs.put(b"abc").unwrap(), hash);
        assert_eq!(blobs.get(&hash).unwrap(), b"abc");
        let files: Vec<_> = std::fs::read_dir(folder.path().join("64")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(files, [&hash[2..]]);
    }

    #[test]
    fn damage_is_seen_and_healed_by_writing_again() {
        let folder = tempfile::tempdir().unwrap();
        let blobs = Blobs::Folder(folder.path().to_owned());
        let hash = blobs.put(b"some text").unwrap();
        let other = blobs.put(b"some tex!").unwrap();
        std::fs::copy(path_of(folder.path(), &other), path_of(folder.path(), &hash)).unwrap();
        assert!(matches!(blobs.get(&hash), Err(StoreError::Blob { .. })));
        std::fs::write(path_of(folder.path(), &hash), b"").unwrap();
        assert!(matches!(blobs.get(&hash), Err(StoreError::Blob { .. })));
        blobs.put(b"some text").unwrap();
        assert_eq!(blobs.get(&hash).unwrap(), b"some text");
        assert!(matches!(blobs.get(&"0".repeat(64)), Err(StoreError::Blob { .. })));
        assert!(matches!(blobs.get("../../etc/passwd"), Err(StoreError::Blob { .. })));
    }
}
