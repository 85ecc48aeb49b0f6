//! Pictures of messages: the messages name blobs, the wire wants bytes.

use base64::Engine as _;

use super::ModelError;

/// A source of blobs by hash.
pub trait Blobs: Send + Sync {
    /// The bytes of the blob whose hash is `blob` (hex).
    ///
    /// # Errors
    /// When there is no such blob or it cannot be read.
    fn read(&self, blob: &str) -> Result<Vec<u8>, BlobError>;
}

/// A blob that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the picture {blob} cannot be read: {reason}")]
pub struct BlobError {
    /// Its hash.
    pub blob: String,
    /// Why.
    pub reason: String,
}

/// No blobs: for runs whose messages are text only.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoBlobs;

impl Blobs for NoBlobs {
    fn read(&self, blob: &str) -> Result<Vec<u8>, BlobError> {
        Err(BlobError { blob: blob.to_owned(), reason: "this run keeps no pictures".to_owned() })
    }
}

/// The blob in base64 (RFC 4648, with padding), as both wire formats want it.
pub(super) fn base64_of(blobs: &dyn Blobs, blob: &str) -> Result<String, ModelError> {
    let bytes = blobs.read(blob).map_err(|error| ModelError::Permanent { message: error.to_string() })?;
    Ok(base64::engine::general_purpose::STANDARD.encode(bytes))
}
