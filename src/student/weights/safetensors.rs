//! Files of tensors in the safetensors format.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use candle_core::{DType, Device, Tensor};
use safetensors::SafeTensorError;
use safetensors::tensor::{Metadata, TensorInfo};

use super::WeightsError;
use crate::base::write_whole;

/// Bytes of a header at most: the format's own limit.
const MOST_HEADER: u64 = 100_000_000;

/// The tensors of a file and its free-form metadata.
pub(crate) type Contents = (BTreeMap<String, Tensor>, HashMap<String, String>);

/// Reads the tensors of a file and its free-form metadata; each is converted to `dtype` on `device` as it is read, so
/// that the file is never in memory as a whole.
///
/// # Errors
/// Names the file, and the tensor that is damaged, of a number type that is not floating point, or past the file's end.
pub(crate) fn read_tensors(path: &Path, dtype: DType, device: &Device) -> Result<Contents, WeightsError> {
    let mut file = File::open(path).map_err(WeightsError::io(path))?;
    let size = file.metadata().map_err(WeightsError::io(path))?.len();
    let (start, metadata) = read_header(path, &mut file, size)?;
    let mut infos: Vec<(String, &TensorInfo)> = metadata.tensors().into_iter().collect();
    infos.sort_by_key(|(_, info)| info.data_offsets.0);
    let mut tensors = BTreeMap::new();
    for (name, info) in infos {
        let (from, to) = (info.data_offsets.0 as u64, info.data_offsets.1 as u64);
        // That the places follow each other and fit the shapes was checked when the header was read.
        if from > to || start.checked_add(to).is_none_or(|end| end > size) {
            let why = format!("lies at bytes {from} to {to} of the data of a file of {size} bytes");
            return Err(WeightsError::tensor(path, &name, why));
        }
        let stored = DType::try_from(info.dtype).ok().filter(|dtype| matches!(dtype, DType::F32 | DType::F16 | DType::BF16));
        let stored = stored
            .ok_or_else(|| WeightsError::tensor(path, &name, format!("numbers of type {:?} (f32, f16 and bf16 are read)", info.dtype)))?;
        let mut bytes = vec![0; info.data_offsets.1 - info.data_offsets.0];
        file.seek(SeekFrom::Start(start + from)).map_err(WeightsError::io(path))?;
        file.read_exact(&mut bytes).map_err(WeightsError::io(path))?;
        let tensor = Tensor::from_raw_buffer(&bytes, stored, &info.shape, &Device::Cpu)
            .and_then(|tensor| tensor.to_device(device)?.to_dtype(dtype))
            .map_err(|error| WeightsError::tensor(path, &name, error))?;
        tensors.insert(name, tensor);
    }
    Ok((tensors, metadata.metadata().clone().unwrap_or_default()))
}

/// The header, and where the data begins. The library's own reader of headers wants the whole file in memory.
fn read_header(path: &Path, file: &mut File, size: u64) -> Result<(u64, Metadata), WeightsError> {
    let mut length = [0; 8];
    file.read_exact(&mut length).map_err(|_| WeightsError::damaged(path, "too short for a safetensors file"))?;
    let header = u64::from_le_bytes(length);
    if header > MOST_HEADER || header + 8 > size {
        return Err(WeightsError::damaged(path, format!("its header claims {header} bytes, the file has {size}")));
    }
    let mut text = Vec::new();
    file.take(header).read_to_end(&mut text).map_err(WeightsError::io(path))?;
    let metadata = serde_json::from_slice(&text).map_err(|error| WeightsError::damaged(path, format!("its header: {error}")))?;
    Ok((header + 8, metadata))
}

/// Writes tensors to a file that takes the place of `path` only when it is complete.
///
/// # Errors
/// Those of the system and of candle.
pub(crate) fn write_tensors(path: &Path, tensors: &BTreeMap<String, Tensor>, metadata: &[(&str, String)]) -> Result<(), WeightsError> {
    let mut host = BTreeMap::new();
    for (name, tensor) in tensors {
        host.insert(name.as_str(), tensor.detach().to_device(&Device::Cpu)?.contiguous()?);
    }
    // `transformers` and `peft` ask for this key.
    let mut header = HashMap::from([("format".to_owned(), "pt".to_owned())]);
    header.extend(metadata.iter().map(|(key, value)| ((*key).to_owned(), value.clone())));
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
    let partial = tempfile::NamedTempFile::new_in(folder).map_err(WeightsError::io(folder))?;
    safetensors::serialize_to_file(host, Some(header), partial.path()).map_err(|error| match error {
        SafeTensorError::IoError(source) => WeightsError::io(path)(source),
        other => WeightsError::damaged(path, other),
    })?;
    put_in_place(partial, path)
}

/// Writes a text to a file that takes the place of `path` only when it is complete.
///
/// # Errors
/// Those of the system.
pub(crate) fn write_text(path: &Path, text: &str) -> Result<(), WeightsError> {
    write_whole(path, text.as_bytes()).map_err(WeightsError::io(path))
}

fn put_in_place(partial: tempfile::NamedTempFile, path: &Path) -> Result<(), WeightsError> {
    // Opened again: the library may have replaced the file that the handle is of.
    let file = File::open(partial.path()).map_err(WeightsError::io(path))?;
    file.sync_all().map_err(WeightsError::io(path))?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        file.set_permissions(std::fs::Permissions::from_mode(0o644)).map_err(WeightsError::io(path))?;
    }
    partial.persist(path).map_err(|error| WeightsError::io(path)(error.error))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some() -> BTreeMap<String, Tensor> {
        let data = Tensor::arange(0_f32, 6.0, &Device::Cpu).unwrap().reshape((2, 3)).unwrap();
        BTreeMap::from([("b".to_owned(), data.to_dtype(DType::BF16).unwrap()), ("a".to_owned(), data.t().unwrap())])
    }

    #[test]
    fn tensors_come_back_in_the_type_asked_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("some.safetensors");
        write_tensors(&path, &some(), &[("step", "7".into())]).unwrap();
        let (read, metadata) = read_tensors(&path, DType::F32, &Device::Cpu).unwrap();
        assert_eq!(metadata["step"], "7");
        assert_eq!(read["a"].to_vec2::<f32>().unwrap(), [[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]]);
        assert_eq!(read["b"].to_vec2::<f32>().unwrap(), [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn damage_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("some.safetensors");
        write_tensors(&path, &some(), &[]).unwrap();
        let whole = std::fs::read(&path).unwrap();
        let error = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            read_tensors(&path, DType::F32, &Device::Cpu).unwrap_err().to_string()
        };
        let cut = error(&whole[..whole.len() - 1]);
        assert!(cut.contains("some.safetensors") && cut.contains("tensor `"), "{cut}");
        assert!(error(&whole[..5]).contains("too short"));
        assert!(error(b"{\"this\": \"is not one\"}").contains("header claims"));
        let mut garbled = whole.clone();
        garbled[9] = b'!';
        assert!(error(&garbled).contains("damaged"));
    }
}
