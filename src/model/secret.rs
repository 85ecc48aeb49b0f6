//! A key that cannot be printed by accident.

/// A secret value, for example an API key. It has no `Display` and no serialised form, and its `Debug` shows nothing of it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

/// A text that cannot be a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// Nothing but white space.
    #[error("the key is empty")]
    Empty,
    /// It cannot stand in a header.
    #[error("the key holds characters other than visible ASCII: it was probably cut or pasted wrongly")]
    Unprintable,
}

impl Secret {
    /// Takes `text` as a key. White space around it, such as the line break of a file, is dropped.
    ///
    /// # Errors
    /// When nothing is left, or when it holds characters that no header may carry.
    pub fn new(text: &str) -> Result<Self, SecretError> {
        let text = text.trim();
        if text.is_empty() {
            return Err(SecretError::Empty);
        }
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(SecretError::Unprintable);
        }
        Ok(Self(text.to_owned()))
    }

    /// The value: for headers and for redaction only.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(hidden)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_hides_the_value_and_white_space_is_dropped() {
        let secret = Secret::new(" key-4711\n").unwrap();
        assert_eq!(secret.expose(), "key-4711");
        assert_eq!(format!("{secret:?}"), "Secret(hidden)");
    }

    #[test]
    fn texts_that_no_header_may_carry_are_refused() {
        assert_eq!(Secret::new(" \n"), Err(SecretError::Empty));
        assert_eq!(Secret::new("two\nlines"), Err(SecretError::Unprintable));
        assert_eq!(Secret::new("schlüssel"), Err(SecretError::Unprintable));
    }
}
