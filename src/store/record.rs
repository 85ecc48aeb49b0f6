//! A step as rows.

use crate::archive::Niche;
use crate::base::Amount;
use crate::evolution::{Effect, Refusal, StepPlan, StepRecord, StepResult};
use crate::harness::HarnessId;
use crate::lineage::OperatorName;

use super::StoreError;
use super::codec::{json_text, pack};

/// Everything of a step that the writer puts into tables.
pub(super) struct StepRows {
    pub(super) step: u64,
    pub(super) kind: &'static str,
    pub(super) operator: Option<OperatorName>,
    pub(super) job_type: Option<String>,
    pub(super) harness: Option<HarnessId>,
    pub(super) refused: Option<String>,
    pub(super) overhead: Amount,
    pub(super) spent: Amount,
    pub(super) birth: Option<BirthRows>,
    pub(super) effects: Vec<Effect>,
    /// The whole record, packed.
    pub(super) record: Vec<u8>,
}

/// A new harness and its edges.
pub(super) struct BirthRows {
    pub(super) harness: HarnessId,
    pub(super) template: Option<String>,
    pub(super) parents: Vec<HarnessId>,
    pub(super) genome: crate::harness::Genome,
    pub(super) genome_json: String,
    pub(super) diff_json: String,
    pub(super) hypothesis_json: Option<String>,
}

impl StepRows {
    pub(super) fn new(record: &StepRecord) -> Result<Self, StoreError> {
        refuse_numbers_json_cannot_hold(record)?;
        let (kind, operator, job_type, planned) = match &record.plan {
            StepPlan::Seed { harness, .. } => ("seed", None, None, Some(*harness)),
            StepPlan::Child { operator, job_type, .. } => ("child", Some(*operator), Some(job_type.to_string()), None),
            StepPlan::Confirm { harness, niche } => ("confirm", None, Some(niche.job_type.to_string()), Some(*harness)),
        };
        let (harness, refused, overhead) = match &record.result {
            StepResult::Evaluated { birth, overhead, .. } => (birth.as_ref().map(|birth| birth.harness).or(planned), None, *overhead),
            StepResult::Refused { refusal, overhead } => (None, Some(refusal_text(refusal)), *overhead),
        };
        Ok(Self {
            step: record.step,
            kind,
            operator,
            job_type,
            harness,
            refused,
            overhead,
            spent: record.spent,
            birth: BirthRows::new(record)?,
            effects: record.effects.clone(),
            record: pack("a step", json_text("a step", record)?.as_bytes())?,
        })
    }
}

impl BirthRows {
    fn new(record: &StepRecord) -> Result<Option<Self>, StoreError> {
        let StepResult::Evaluated { birth: Some(birth), .. } = &record.result else { return Ok(None) };
        let (template, parents) = match &record.plan {
            StepPlan::Seed { template, .. } => (Some(template.clone()), Vec::new()),
            StepPlan::Child { parents, .. } => (None, parents.clone()),
            StepPlan::Confirm { .. } => return Err(StoreError::refused("a step", "a confirmation brings no new harness")),
        };
        Ok(Some(Self {
            harness: birth.harness,
            template,
            parents,
            genome: birth.genome.clone(),
            genome_json: json_text("a genome", &birth.genome)?,
            diff_json: json_text("a difference", &birth.diff)?,
            hypothesis_json: birth.hypothesis.as_ref().map(|hypothesis| json_text("a hypothesis", hypothesis)).transpose()?,
        }))
    }
}

pub(super) fn refusal_text(refusal: &Refusal) -> String {
    match refusal {
        Refusal::NoChange => "no change".to_owned(),
        Refusal::Duplicate { harness } => format!("duplicate of {harness}"),
        Refusal::Invalid { reason } => format!("invalid: {reason}"),
        Refusal::OperatorFault { reason } => format!("operator fault: {reason}"),
    }
}

pub(super) fn niche_key(niche: &Niche) -> String {
    niche.to_string()
}

/// JSON writes NaN and infinities as `null`, which could not be read back on resume.
fn refuse_numbers_json_cannot_hold(record: &StepRecord) -> Result<(), StoreError> {
    let mut numbers: Vec<f64> = Vec::new();
    if let StepResult::Evaluated { evaluations, .. } = &record.result {
        numbers.extend(evaluations.iter().flat_map(|evaluation| &evaluation.episodes).map(|episode| episode.score));
    }
    for effect in &record.effects {
        match effect {
            Effect::NicheTaken { mean, .. } => numbers.push(*mean),
            Effect::EliteConfirmed { rate, low, high, mean_steps, mean_tokens, mean_micro_usd, .. } => {
                numbers.extend([*rate, *low, *high, *mean_steps, *mean_tokens, *mean_micro_usd]);
            }
            Effect::HypothesisJudged { judged, .. } => numbers.extend([judged.difference, judged.low, judged.high]),
        }
    }
    if numbers.iter().all(|number| number.is_finite()) {
        Ok(())
    } else {
        Err(StoreError::refused(format!("step {}", record.step), "it holds a number that is not finite"))
    }
}
