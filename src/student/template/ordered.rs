//! JSON objects in the order in which they were written: `serde_json` may sort them, and a model that is shown its own call in another
//! order sees tokens it did not write.

use std::fmt;

use minijinja::Value;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use super::values::{Fields, View};
use crate::student::Trust;

/// The value that `text` writes, if it is a JSON object.
pub(super) fn object(view: &View<'_>, text: &str) -> Option<Value> {
    let mut parser = serde_json::Deserializer::from_str(text);
    let value = Ordered(view).deserialize(&mut parser).ok()?;
    parser.end().ok()?;
    (value.kind() == minijinja::value::ValueKind::Map).then_some(value)
}

#[derive(Clone, Copy)]
struct Ordered<'v>(&'v View<'v>);

impl<'de> DeserializeSeed<'de> for Ordered<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, parser: D) -> Result<Value, D::Error> {
        parser.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Ordered<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::from(()))
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(self.0.text(value, Trust::Plain))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut all = Vec::new();
        while let Some(item) = items.next_element_seed(self)? {
            all.push(item);
        }
        Ok(Value::from(all))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut all: Vec<(String, Value)> = Vec::new();
        while let Some(key) = entries.next_key::<String>()? {
            let key = self.0.key(&key);
            let value = entries.next_value_seed(self)?;
            // As in Python, the last of equal keys counts, in the place of the first.
            match all.iter_mut().find(|(known, _)| *known == key) {
                Some(entry) => entry.1 = value,
                None => all.push((key, value)),
            }
        }
        Ok(Value::from_object(Fields(all)))
    }
}
