//! `tojson` as `transformers` has it: Python's `json.dumps` with `ensure_ascii=False`, keys in the order of the value.

use minijinja::value::{Kwargs, ValueKind};
use minijinja::{Error, ErrorKind, Value};

use super::DEEPEST;

/// Most spaces of one level of indentation.
const WIDEST_INDENT: usize = 16;

/// The filter. Of Python's options `indent` is known, and those that `transformers` passes with their usual values.
pub(super) fn tojson(value: &Value, options: Kwargs) -> Result<String, Error> {
    let indent: Option<usize> = options.get("indent")?;
    for known in ["ensure_ascii", "separators", "sort_keys"] {
        let _: Option<Value> = options.get(known)?;
    }
    options.assert_all_used()?;
    let mut out = String::new();
    write(value, indent.map(|width| width.min(WIDEST_INDENT)), 0, &mut out)?;
    Ok(out)
}

fn write(value: &Value, indent: Option<usize>, depth: usize, out: &mut String) -> Result<(), Error> {
    if depth > DEEPEST {
        return Err(refused("tojson: the value is nested too deeply"));
    }
    match value.kind() {
        ValueKind::None => out.push_str("null"),
        ValueKind::Bool => out.push_str(if value.is_true() { "true" } else { "false" }),
        ValueKind::Number if value.is_integer() => out.push_str(&value.to_string()),
        ValueKind::Number => out.push_str(&python_float(f64::try_from(value.clone())?)),
        ValueKind::String => out.push_str(&quoted(value.as_str().unwrap_or_default())),
        ValueKind::Seq | ValueKind::Iterable => {
            let items = value.try_iter()?.collect::<Vec<_>>();
            write_all(('[', ']'), &items, indent, depth, out, |item, out| write(item, indent, depth + 1, out))?;
        }
        ValueKind::Map => {
            let keys = value.try_iter()?.collect::<Vec<_>>();
            write_all(('{', '}'), &keys, indent, depth, out, |key, out| {
                let name = key.as_str().map_or_else(|| key.to_string(), str::to_owned);
                out.push_str(&quoted(&name));
                out.push_str(": ");
                write(&value.get_item(key)?, indent, depth + 1, out)
            })?;
        }
        _ => return Err(refused("tojson: an undefined value or object has no JSON form")),
    }
    Ok(())
}

fn write_all(
    (open, close): (char, char),
    items: &[Value],
    indent: Option<usize>,
    depth: usize,
    out: &mut String,
    mut one: impl FnMut(&Value, &mut String) -> Result<(), Error>,
) -> Result<(), Error> {
    let line = |depth: usize, out: &mut String| {
        if let Some(width) = indent {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', width * depth));
        }
    };
    out.push(open);
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.push_str(if indent.is_some() { "," } else { ", " });
        }
        line(depth + 1, out);
        one(item, out)?;
    }
    if !items.is_empty() {
        line(depth, out);
    }
    out.push(close);
    Ok(())
}

/// Python escapes what `serde_json` escapes.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// A number as Python's `repr` prints it: shortest digits, an exponent of at least two digits below 1e-4 and from 1e16.
fn python_float(number: f64) -> String {
    if number.is_nan() {
        return "NaN".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    let scientific = format!("{number:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if number == 0.0 || (-4..16).contains(&exponent) {
        let plain = format!("{number}");
        return if plain.contains('.') { plain } else { format!("{plain}.0") };
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

fn refused(reason: &'static str) -> Error {
    Error::new(ErrorKind::InvalidOperation, reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_look_like_python() {
        // `repr` of CPython 3.11.
        let cases = [
            (1.0, "1.0"),
            (-0.0, "-0.0"),
            (0.1, "0.1"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (1.5e300, "1.5e+300"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (123_456.789, "123456.789"),
        ];
        for (number, text) in cases {
            assert_eq!(python_float(number), text);
        }
    }
}
