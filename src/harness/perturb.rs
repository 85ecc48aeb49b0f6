//! Small random moves of one gene. The only randomness is the generator that is handed in.

use rand::RngExt;
use rand::seq::{IndexedRandom, SliceRandom};
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};

use super::domain::{MAX_RETRY_RULES, domain};
use super::{BlockLibrary, Domain, GenePath, Harness, HarnessError, RetryRule, Scale};

/// A gene that could not be moved.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum PerturbError {
    /// The harness does not have this gene.
    #[error("the harness has no gene `{0}` to move")]
    Absent(GenePath),
    /// The gene has no other value to move to.
    #[error("gene `{0}` has no other value to move to")]
    Still(GenePath),
    /// The moved gene breaks a rule between genes.
    #[error("the move is not possible: {0}")]
    Broken(#[from] HarnessError),
}

/// `harness` with the gene at `path` moved. `strength` from 0 to 1 says how far: at 1 a number on a logarithmic scale changes by up to
/// a factor of 4, one on a linear scale by up to half of its range. Names change to another name, prompt blocks to another text
/// of `library`, retry rules in one of their parts, tools in their time limit.
///
/// # Errors
/// When the harness has no such gene, the gene has no other value, or another gene forbids the move.
pub fn perturb(
    harness: &Harness,
    path: &GenePath,
    strength: f64,
    library: &BlockLibrary,
    rng: &mut ChaCha8Rng,
) -> Result<Harness, PerturbError> {
    let genes = harness.genome().genes()?;
    let value = genes.get(path).ok_or_else(|| PerturbError::Absent(path.clone()))?;
    let moved = perturb_value(path, value, strength, library, rng).ok_or_else(|| PerturbError::Still(path.clone()))?;
    let child = harness.with_genes([(path.clone(), Some(moved))])?;
    if child.id() == harness.id() { Err(PerturbError::Still(path.clone())) } else { Ok(child) }
}

/// Another value of the gene at `path`, valid in its domain; `None` if there is none. Rules between genes are not looked at.
#[must_use]
pub fn perturb_value(path: &GenePath, value: &Value, strength: f64, library: &BlockLibrary, rng: &mut ChaCha8Rng) -> Option<Value> {
    let domain = domain(path)?;
    let strength = if strength.is_nan() { 0.0 } else { strength.clamp(0.0, 1.0) };
    match domain {
        Domain::Text { .. } => {
            let texts: Vec<&str> = library.texts(path).filter(|text| Some(*text) != value.as_str()).collect();
            texts.choose(rng).map(|text| json!(text))
        }
        Domain::Integer { .. } | Domain::Real { .. } | Domain::Choice(_) => move_scalar(&domain, value, strength, rng),
        Domain::Tool => move_part(&domain, value, "timeout_seconds", strength, rng),
        Domain::RetryRules => move_rules(path.key(), value, strength, library, rng),
        Domain::Script => None,
    }
}

/// The values next to `value` in its domain, in a fixed order: a number a step down and a step up (half and twice on a logarithmic
/// scale, a tenth of the range on a linear one), every other name of a choice, nothing for the rest.
#[must_use]
pub fn neighbours(domain: &Domain, value: &Value) -> Vec<Value> {
    let candidates: Vec<Value> = match *domain {
        Domain::Integer { min, max, scale } => {
            let Some(now) = value.as_u64() else { return Vec::new() };
            let (down, up) = match scale {
                Scale::Log => (now / 2, now.saturating_mul(2).max(now.saturating_add(1))),
                Scale::Linear => {
                    let step = ((max - min) / 10).max(1);
                    (now.saturating_sub(step), now.saturating_add(step))
                }
            };
            vec![json!(down.clamp(min, max)), json!(up.clamp(min, max))]
        }
        Domain::Real { min, max } => {
            let Some(now) = value.as_f64() else { return Vec::new() };
            let step = (max - min) / 10.0;
            vec![json!(hundredths((now - step).clamp(min, max))), json!(hundredths((now + step).clamp(min, max)))]
        }
        Domain::Choice(names) => names.iter().map(|name| json!(name)).collect(),
        _ => Vec::new(),
    };
    candidates.into_iter().filter(|candidate| candidate != value).collect()
}

fn move_scalar(domain: &Domain, value: &Value, strength: f64, rng: &mut ChaCha8Rng) -> Option<Value> {
    let others = neighbours(domain, value);
    let moved = match *domain {
        Domain::Integer { min, max, scale } => value.as_u64().map(|now| json!(move_integer(now, min, max, scale, strength, rng))),
        Domain::Real { min, max } => {
            value.as_f64().map(|now| json!(hundredths((now + draw(rng) * strength * (max - min) / 2.0).clamp(min, max))))
        }
        _ => None,
    };
    // A move too small to be seen, or against the wall, becomes a step to a neighbour.
    moved.filter(|moved| moved != value).or_else(|| others.choose(rng).cloned())
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "values below 2^23, clamped before the cast"
)]
fn move_integer(now: u64, min: u64, max: u64, scale: Scale, strength: f64, rng: &mut ChaCha8Rng) -> u64 {
    let (now, low, high) = (now as f64, min as f64, max as f64);
    let moved = match scale {
        // The offset lets a scale that starts at 0 leave it: a thousandth of the range counts as one step there.
        Scale::Log => {
            let offset = if min == 0 { high / 1000.0 } else { 0.0 };
            (now + offset) * (draw(rng) * strength * 4.0_f64.ln()).exp() - offset
        }
        Scale::Linear => now + draw(rng) * strength * (high - low) / 2.0,
    };
    two_digits(moved.clamp(low, high)).clamp(low, high) as u64
}

/// Uniform in [-1, 1), by 53 bits.
fn draw(rng: &mut ChaCha8Rng) -> f64 {
    rng.random::<f64>() * 2.0 - 1.0
}

/// Two decimals: nobody means more, and ids stay readable.
fn hundredths(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

/// Two leading digits, whole: 31847 becomes 32000.
fn two_digits(value: f64) -> f64 {
    let mut unit = 1.0;
    while value / unit >= 100.0 {
        unit *= 10.0;
    }
    (value / unit).round() * unit
}

/// `table` with its part `key` moved.
fn move_part(domain: &Domain, table: &Value, key: &str, strength: f64, rng: &mut ChaCha8Rng) -> Option<Value> {
    let (_, part) = domain.parts().iter().find(|(name, _)| *name == key)?;
    let moved = move_scalar(part, table.get(key)?, strength, rng)?;
    let mut table = table.clone();
    *table.get_mut(key)? = moved;
    Some(table)
}

/// The ways to move a list of rules. `Repair` stands twice because texts matter most.
const RULE_MOVES: [RuleMove; 8] = [
    RuleMove::Part("attempts"),
    RuleMove::Part("backoff"),
    RuleMove::Part("delay_ms"),
    RuleMove::Part("jitter"),
    RuleMove::Repair,
    RuleMove::Repair,
    RuleMove::Add,
    RuleMove::Remove,
];

#[derive(Clone, Copy)]
enum RuleMove {
    Part(&'static str),
    Repair,
    Add,
    Remove,
}

/// The first possible of the moves in a random order. There always is one: an empty list can be added to, another shortened.
fn move_rules(class: &str, value: &Value, strength: f64, library: &BlockLibrary, rng: &mut ChaCha8Rng) -> Option<Value> {
    let rules = value.as_array()?;
    let repairs: Vec<&str> = library.repairs(class).collect();
    let mut moves = RULE_MOVES;
    moves.shuffle(rng);
    let index = if rules.is_empty() { 0 } else { rng.random_range(0..rules.len()) };
    moves.into_iter().find_map(|chosen| move_rule(rules, index, chosen, strength, &repairs, rng)).map(Value::Array)
}

fn move_rule(rules: &[Value], index: usize, chosen: RuleMove, strength: f64, repairs: &[&str], rng: &mut ChaCha8Rng) -> Option<Vec<Value>> {
    let mut rules = rules.to_vec();
    match chosen {
        RuleMove::Add if rules.len() < MAX_RETRY_RULES => {
            let repair = repairs.choose(rng).copied().unwrap_or_default().to_owned();
            rules.push(serde_json::to_value(RetryRule { repair, ..RetryRule::default() }).ok()?);
        }
        RuleMove::Add => return None,
        RuleMove::Remove => {
            rules.get(index)?;
            rules.remove(index);
        }
        RuleMove::Repair => {
            let repair = rules.get_mut(index)?.get_mut("repair")?;
            let others: Vec<&str> = repairs.iter().copied().filter(|text| Some(*text) != repair.as_str()).collect();
            *repair = json!(others.choose(rng)?);
        }
        RuleMove::Part(part) => {
            let rule = rules.get_mut(index)?;
            *rule = raise_cap(move_part(&Domain::RetryRules, rule, part, strength, rng)?)?;
        }
    }
    Some(rules)
}

/// A rule whose cap is not below its delay.
fn raise_cap(mut rule: Value) -> Option<Value> {
    let delay = rule.get("delay_ms")?.as_u64()?;
    if rule.get("cap_ms")?.as_u64()? < delay {
        *rule.get_mut("cap_ms")? = json!(delay);
    }
    Some(rule)
}
