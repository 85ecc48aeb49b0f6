//! Content ids: 128-bit BLAKE3 prefixes, written as 32 lower-case hex digits.

/// Why a text is not an id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not an id: expected 32 lower-case hexadecimal digits")]
pub struct IdError {
    /// What was given.
    pub text: String,
}

/// Defines a newtype over 16 bytes that prints, parses and serialises as 32 hex digits.
macro_rules! define_id {
    ($(#[$meta:meta])* $name:ident) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name([u8; 16]);

        impl $name {
            /// The id of content whose BLAKE3 hash is `hash`: its first 128 bits.
            #[must_use]
            pub fn from_hash(hash: &blake3::Hash) -> Self {
                let mut bytes = [0; 16];
                bytes.copy_from_slice(&hash.as_bytes()[..16]);
                Self(bytes)
            }

            /// The raw bytes.
            #[must_use]
            pub const fn as_bytes(&self) -> &[u8; 16] {
                &self.0
            }

            /// The first eight hex digits: for people, not for keys.
            #[must_use]
            pub fn short(&self) -> String {
                self.to_string()[..8].to_owned()
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                for byte in self.0 {
                    write!(f, "{byte:02x}")?;
                }
                Ok(())
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "{}({self})", stringify!($name))
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::base::IdError;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                let error = || $crate::base::IdError { text: text.to_owned() };
                if text.len() != 32 || !text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')) {
                    return Err(error());
                }
                let mut bytes = [0; 16];
                for (index, byte) in bytes.iter_mut().enumerate() {
                    *byte = u8::from_str_radix(&text[2 * index..2 * index + 2], 16).map_err(|_| error())?;
                }
                Ok(Self(bytes))
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = <String as serde::Deserialize>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}
pub(crate) use define_id;

#[cfg(test)]
mod tests {
    use crate::task::TaskId as ProbeId;

    #[test]
    fn an_id_survives_text_and_json() {
        let id = ProbeId::from_hash(&blake3::hash(b"abc"));
        // The BLAKE3 test vector for "abc" starts with these bytes.
        assert_eq!(id.to_string(), "6437b3ac38465133ffb63b75273a8db5");
        assert_eq!(id.to_string().parse::<ProbeId>().unwrap(), id);
        let json = serde_json::to_string(&id).unwrap();
        assert_eq!(serde_json::from_str::<ProbeId>(&json).unwrap(), id);
    }

    #[test]
    fn text_that_is_no_id_is_refused() {
        for text in ["", "6437", "6437B3AC38465133FFB63B75273A8DB5", "zz37b3ac38465133ffb63b75273a8db5"] {
            assert!(text.parse::<ProbeId>().is_err(), "{text}");
        }
    }
}
