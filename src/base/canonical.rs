//! One byte form per value, so that equal values have equal ids.

use serde::Serialize;
use serde_json::Value;

/// Canonical JSON: object keys sorted by their UTF-8 bytes, no white space, numbers as `serde_json` prints them.
///
/// # Errors
/// When the value cannot be represented in JSON (a map with keys that are not text).
pub fn canonical_bytes<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>, serde_json::Error> {
    let mut bytes = Vec::new();
    write_sorted(&serde_json::to_value(value)?, &mut bytes)?;
    Ok(bytes)
}

/// BLAKE3 over [`canonical_bytes`], prefixed by a `domain` so that different kinds of value never share an id.
///
/// # Errors
/// As [`canonical_bytes`].
pub fn content_hash<T: Serialize + ?Sized>(domain: &str, value: &T) -> Result<blake3::Hash, serde_json::Error> {
    let mut hasher = blake3::Hasher::new();
    hasher.update(domain.as_bytes());
    hasher.update(&[0]);
    hasher.update(&canonical_bytes(value)?);
    Ok(hasher.finalize())
}

fn write_sorted(value: &Value, out: &mut Vec<u8>) -> Result<(), serde_json::Error> {
    match value {
        Value::Object(map) => {
            // `serde_json` may be built with insertion order by another crate of the tree: sort here, always.
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_unstable_by(|a, b| a.0.as_bytes().cmp(b.0.as_bytes()));
            out.push(b'{');
            for (index, (key, item)) in entries.into_iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                serde_json::to_writer(&mut *out, key)?;
                out.push(b':');
                write_sorted(item, out)?;
            }
            out.push(b'}');
        }
        Value::Array(items) => {
            out.push(b'[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                write_sorted(item, out)?;
            }
            out.push(b']');
        }
        scalar => serde_json::to_writer(&mut *out, scalar)?,
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_sorted_at_every_depth() {
        let value = serde_json::json!({"b": [{"z": 1, "a": "\n"}], "a": 0.5});
        assert_eq!(canonical_bytes(&value).unwrap(), br#"{"a":0.5,"b":[{"a":"\n","z":1}]}"#);
    }

    #[test]
    fn domains_keep_equal_values_apart() {
        assert_ne!(content_hash("task", &1).unwrap(), content_hash("harness", &1).unwrap());
    }
}
