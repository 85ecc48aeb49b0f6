//! The JSON schema of template files, for editors. Checked in as `harness_templates/harness.schema.json`.

use serde_json::{Value, json};

use super::{Genome, MAX_SCRIPT_BYTES, MAX_SCRIPTS, ToolName};

/// The schema of a template file: the genome, a name and a description.
#[must_use]
pub fn json_schema() -> Value {
    let mut schema = schemars::schema_for!(Genome).to_value();
    schema["title"] = json!("harness-evo template");
    schema["description"] = json!("A seed harness: a name, what it is for, and the genes that differ from the defaults.");
    schema["properties"]["name"] = json!({
        "description": "Its name; by default that of the file.", "type": "string", "pattern": "^[A-Za-z0-9_-]{1,40}$"
    });
    schema["properties"]["description"] = json!({ "description": "What it is for.", "type": "string", "maxLength": 2048 });
    let tools: serde_json::Map<String, Value> =
        ToolName::ALL.into_iter().map(|tool| (tool.as_str().to_owned(), json!({ "$ref": "#/$defs/ToolGene" }))).collect();
    schema["properties"]["tools"]["properties"] = Value::Object(tools);
    schema["properties"]["tools"]["additionalProperties"] = json!(false);
    let scripts = &mut schema["properties"]["provisioning"];
    scripts["maxProperties"] = json!(MAX_SCRIPTS);
    scripts["propertyNames"] = json!({ "pattern": "^[A-Za-z0-9_][A-Za-z0-9._-]{0,63}$" });
    scripts["additionalProperties"] = json!({ "type": "string", "pattern": "^#!", "maxLength": MAX_SCRIPT_BYTES });
    schema
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::{Domain, domain, gene_paths};

    fn checked_in() -> std::path::PathBuf {
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("harness_templates/harness.schema.json")
    }

    #[test]
    fn the_checked_in_schema_is_current() {
        let text = std::fs::read_to_string(checked_in()).unwrap_or_default();
        let current: Value = serde_json::from_str(&text).unwrap_or_default();
        assert_eq!(current, json_schema(), "write it anew: cargo test --lib harness::schema -- --ignored");
    }

    #[test]
    #[ignore = "writes the schema"]
    fn write_the_schema() {
        std::fs::write(checked_in(), serde_json::to_string_pretty(&json_schema()).unwrap() + "\n").unwrap();
    }

    /// The schema's bounds are written at the fields, those of the domains in a table: they must be the same.
    #[test]
    fn schema_and_domains_agree_on_every_gene() {
        let schema = json_schema();
        for path in gene_paths() {
            let section = &schema["properties"][path.section()];
            let section = match section["$ref"].as_str() {
                Some(reference) => schema.pointer(reference.trim_start_matches('#')).unwrap(),
                None => section,
            };
            let gene = &section["properties"][path.key()];
            check(&schema, path.as_str(), gene, &domain(&path).unwrap());
        }
    }

    fn check(schema: &Value, name: &str, gene: &Value, domain: &Domain) {
        match *domain {
            Domain::Text { max_bytes } => assert_eq!(gene["maxLength"], json!(max_bytes), "{name}"),
            Domain::Integer { min, max, .. } => {
                assert_eq!((gene["minimum"].as_u64(), gene["maximum"].as_u64()), (Some(min), Some(max)), "{name}")
            }
            Domain::Real { min, max } => assert_eq!((gene["minimum"].as_f64(), gene["maximum"].as_f64()), (Some(min), Some(max)), "{name}"),
            Domain::Choice(names) => {
                let variants = referred(schema, gene);
                let listed: Vec<&str> =
                    variants["oneOf"].as_array().unwrap().iter().filter_map(|variant| variant["const"].as_str()).collect();
                assert_eq!(listed, names, "{name}");
            }
            Domain::Tool => parts(schema, name, referred(schema, gene), domain),
            Domain::RetryRules => {
                assert_eq!(gene["maxItems"], json!(4), "{name}");
                parts(schema, name, referred(schema, &gene["items"]), domain);
            }
            Domain::Script => {}
        }
    }

    fn parts(schema: &Value, name: &str, table: &Value, domain: &Domain) {
        for (key, part) in domain.parts() {
            check(schema, &format!("{name}.{key}"), &table["properties"][*key], part);
        }
    }

    fn referred<'a>(schema: &'a Value, value: &'a Value) -> &'a Value {
        value["$ref"].as_str().map_or(value, |reference| schema.pointer(reference.trim_start_matches('#')).unwrap())
    }
}
