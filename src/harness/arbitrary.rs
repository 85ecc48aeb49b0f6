//! Valid genomes for property tests, drawn from the domains of the genes.

use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::domain::{Domain, domain, gene_paths};
use super::{GenePath, Genome, Harness};

/// Texts with everything that TOML, JSON and minijinja could trip over.
fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        "[a-z \"'\\\\#=\\[\\]\n\té€]{0,12}",
        Just("\"\"\"".to_owned()),
        Just("'''".to_owned()),
        Just("\\".to_owned()),
        Just("{{ workspace }}".to_owned()),
        Just("{% if \"bash\" in tools %}\nx\n{% endif %}".to_owned()),
    ];
    vec(piece, 0..6).prop_map(|pieces| pieces.concat())
}

fn value(domain: Domain) -> BoxedStrategy<Value> {
    match domain {
        Domain::Text { .. } => text().prop_map(|text| json!(text)).boxed(),
        Domain::Integer { min, max, .. } => prop_oneof![Just(min), Just(max), min..=max].prop_map(|number| json!(number)).boxed(),
        Domain::Real { min, max } => prop_oneof![Just(min), Just(max), min..=max].prop_map(|number| json!(number)).boxed(),
        Domain::Choice(names) => proptest::sample::select(names).prop_map(|name| json!(name)).boxed(),
        Domain::Tool => table(domain).boxed(),
        Domain::RetryRules => vec(table(domain), 0..=4).prop_map(Value::Array).boxed(),
        Domain::Script => text().prop_map(|text| json!(format!("#!/bin/sh\n{text}"))).boxed(),
    }
}

fn table(domain: Domain) -> impl Strategy<Value = Value> {
    let parts: Vec<BoxedStrategy<(String, Value)>> =
        domain.parts().iter().map(|(name, part)| value(*part).prop_map(|value| ((*name).to_owned(), value)).boxed()).collect();
    parts.prop_map(|parts| {
        let mut table: Map<String, Value> = parts.into_iter().collect();
        let (delay, cap) = (table.get("delay_ms").and_then(Value::as_u64), table.get("cap_ms").and_then(Value::as_u64));
        if let (Some(delay), Some(cap)) = (delay, cap) {
            table.insert("cap_ms".to_owned(), json!(cap.max(delay)));
        }
        Value::Object(table)
    })
}

/// Any valid harness.
pub(crate) fn harness() -> impl Strategy<Value = Harness> {
    let genes: Vec<BoxedStrategy<Option<(GenePath, Value)>>> = gene_paths()
        .into_iter()
        .chain(["peek", "count.py"].map(|name| GenePath::new("provisioning", name)))
        .map(|path| {
            let domain = domain(&path).unwrap();
            let absent = matches!(domain, Domain::Tool | Domain::Script);
            let needed = ["tools.bash", "tools.finish", "tools.notes"].contains(&path.as_str());
            let present = value(domain).prop_map(move |value| Some((path.clone(), value)));
            if absent && !needed { prop_oneof![Just(None), present].boxed() } else { present.boxed() }
        })
        .collect();
    genes.prop_map(|genes| Harness::new(Genome::from_genes(&genes.into_iter().flatten().collect()).unwrap()).unwrap())
}
