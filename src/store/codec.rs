//! Values to bytes and back: canonical JSON, zstd, BLAKE3, and numbers that SQL can hold.

use std::cell::RefCell;

use serde::{Serialize, de::DeserializeOwned};

use super::StoreError;
use crate::base::canonical_bytes;

/// Fast and good enough: higher levels cost more time per episode than they save in space.
const ZSTD_LEVEL: i32 = 1;

/// Most bytes one stored value may unpack to, so that a damaged length cannot exhaust memory.
pub(super) const MAX_UNPACKED: usize = 256 * 1024 * 1024;

pub(super) fn json_text<T: Serialize + ?Sized>(what: &str, value: &T) -> Result<String, StoreError> {
    let bytes = canonical_bytes(value).map_err(|error| StoreError::refused(what, error))?;
    String::from_utf8(bytes).map_err(|error| StoreError::refused(what, error))
}

pub(super) fn from_json<T: DeserializeOwned>(what: &str, bytes: &[u8]) -> Result<T, StoreError> {
    serde_json::from_slice(bytes).map_err(|error| StoreError::value(what, error))
}

pub(super) fn pack(what: &str, bytes: &[u8]) -> Result<Vec<u8>, StoreError> {
    if bytes.len() > MAX_UNPACKED {
        return Err(StoreError::refused(what, format!("{} bytes are more than {MAX_UNPACKED}", bytes.len())));
    }
    // Setting a compressor up costs more than packing a short value: each thread keeps one.
    thread_local! {
        static COMPRESSOR: RefCell<Option<zstd::bulk::Compressor<'static>>> = const { RefCell::new(None) };
    }
    let packed = COMPRESSOR.with_borrow_mut(|kept| {
        let compressor = match kept {
            Some(compressor) => compressor,
            None => kept.insert(zstd::bulk::Compressor::new(ZSTD_LEVEL)?),
        };
        compressor.compress(bytes)
    });
    packed.map_err(|error| StoreError::refused(what, error))
}

pub(super) fn unpack(what: &str, packed: &[u8]) -> Result<Vec<u8>, StoreError> {
    use std::io::Read as _;
    let fail = |error: std::io::Error| StoreError::value(what, error);
    let decoder = zstd::stream::read::Decoder::new(packed).map_err(fail)?;
    let mut bytes = Vec::new();
    decoder.take(MAX_UNPACKED as u64 + 1).read_to_end(&mut bytes).map_err(fail)?;
    if bytes.len() > MAX_UNPACKED {
        return Err(StoreError::value(what, format!("it unpacks to more than {MAX_UNPACKED} bytes")));
    }
    Ok(bytes)
}

/// Counts and sums that only inform: SQL integers have a sign, and "no limit" becomes the largest of them.
pub(super) fn sql_count(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Numbers that must come back as they were.
pub(super) fn sql_exact(what: &str, number: u64) -> Result<i64, StoreError> {
    i64::try_from(number).map_err(|_| StoreError::refused(what, format!("{number} does not fit a signed 64-bit integer")))
}

/// Columns that are never negative, read back.
pub(super) fn from_sql(what: &'static str, number: i64) -> Result<u64, StoreError> {
    u64::try_from(number).map_err(|_| StoreError::value(what, format!("{number} is negative")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_bytes_come_back_and_rubbish_does_not() {
        let bytes = b"abc".repeat(10_000);
        let packed = pack("test", &bytes).unwrap();
        assert!(packed.len() < bytes.len() / 10);
        assert_eq!(unpack("test", &packed).unwrap(), bytes);
        assert!(unpack("test", b"no zstd").is_err());
        assert!(unpack("test", &packed[..packed.len() / 2]).is_err());
    }

    #[test]
    fn doubles_survive_json_exactly() {
        // Parsers that take a short cut get the last bit of some of these wrong.
        for bits in [0x3fd5_5555_5555_5555_u64, 0x3fb9_9999_9999_999a, 0x4341_c379_37e0_7fff, 0x0010_0000_0000_0001, 0x3fe8_5b1e_ea5a_4d2f]
        {
            let number = f64::from_bits(bits);
            let text = json_text("number", &number).unwrap();
            assert_eq!(from_json::<f64>("number", text.as_bytes()).unwrap().to_bits(), bits, "{text}");
        }
        let mut state = 1_u64;
        for _ in 0..20_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let number = (state >> 11) as f64 / 9_007_199_254_740_992.0;
            let text = json_text("number", &number).unwrap();
            assert_eq!(from_json::<f64>("number", text.as_bytes()).unwrap().to_bits(), number.to_bits(), "{text}");
        }
    }
}
