//! The parameter file: as written, and checked.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use regex::Regex;
use serde::Deserialize;
use toml::Spanned;

use super::cues::{Concept, CueSet};
use super::rates::{Mistake, MistakeRule, Profile};
use super::rewriting::{FailureClass, Proposal, RewriteHabits};
use crate::base::content_hash;

const BUILTIN: &str = include_str!("../../../harness_templates/rehearsal.toml");

/// A parameter file that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParametersError {
    /// It is not TOML, or has a key or type that does not belong there.
    #[error("{origin}:{line}: {message}")]
    Syntax {
        /// The file.
        origin: String,
        /// From 1.
        line: usize,
        /// What is wrong.
        message: String,
    },
    /// A value is out of its range.
    #[error("{origin}:{line}: `{key}` {reason}")]
    Value {
        /// The file.
        origin: String,
        /// From 1.
        line: usize,
        /// The key.
        key: String,
        /// What is wrong and what is right.
        reason: String,
    },
}

/// The parameters of a rehearsal teacher, checked.
#[derive(Debug, Clone)]
pub struct RehearsalParameters {
    pub(super) name: String,
    pub(super) hash: String,
    pub(super) price: [u64; 3],
    pub(super) first_cue: f64,
    pub(super) cues: BTreeMap<Concept, CueSet>,
    pub(super) failure_marks: Vec<Regex>,
    pub(super) step_limit: Regex,
    pub(super) rules: BTreeMap<Mistake, MistakeRule>,
    pub(super) habits: Habits,
    pub(super) profiles: BTreeMap<String, Profile>,
    pub(super) rewrite: RewriteHabits,
}

/// Numbers that belong to no single mistake.
#[derive(Debug, Clone)]
pub(super) struct Habits {
    pub(super) broken_share: f64,
    pub(super) channel_later: f64,
    pub(super) channel_again: f64,
    pub(super) phantom: f64,
    pub(super) note_rate: f64,
    pub(super) note_relief: f64,
    pub(super) forget_after_drop: f64,
    pub(super) text_form: f64,
    pub(super) repair_relief: f64,
    pub(super) write_through_shell: f64,
    pub(super) edit_through_program: f64,
    pub(super) python_through_shell: f64,
    pub(super) shell_through_python: f64,
    pub(super) mental_with_python: f64,
    pub(super) tests_relief: f64,
    pub(super) check_relief: f64,
    pub(super) check_without_list: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileSpec {
    name: String,
    #[serde(default)]
    price: [u64; 3],
    first_cue: Spanned<f64>,
    failure_marks: Vec<Spanned<String>>,
    step_limit: Spanned<String>,
    cues: BTreeMap<Concept, CueSpec>,
    habits: HabitsSpec,
    mistakes: BTreeMap<Mistake, MistakeSpec>,
    profiles: Spanned<BTreeMap<String, ProfileSpec>>,
    rewrite: RewriteSpec,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CueSpec {
    favours: Vec<Spanned<String>>,
    #[serde(default)]
    opposes: Vec<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HabitsSpec {
    broken_share: Spanned<f64>,
    channel_later: Spanned<f64>,
    channel_again: Spanned<f64>,
    phantom: Spanned<f64>,
    note_rate: Spanned<f64>,
    note_relief: Spanned<f64>,
    forget_after_drop: Spanned<f64>,
    text_form: Spanned<f64>,
    repair_relief: Spanned<f64>,
    write_through_shell: Spanned<f64>,
    edit_through_program: Spanned<f64>,
    python_through_shell: Spanned<f64>,
    shell_through_python: Spanned<f64>,
    mental_with_python: Spanned<f64>,
    tests_relief: Spanned<f64>,
    check_relief: Spanned<f64>,
    check_without_list: Spanned<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MistakeSpec {
    base: Spanned<f64>,
    #[serde(default)]
    relief: BTreeMap<Concept, Spanned<f64>>,
    harm: Option<Spanned<f64>>,
    heat: Option<Spanned<f64>>,
    strain: Option<Spanned<f64>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ProfileSpec {
    prompt_threshold: Spanned<f64>,
    prompt_slope: Spanned<f64>,
    tool_slope: Spanned<f64>,
    #[serde(default)]
    rates: BTreeMap<Mistake, Spanned<f64>>,
    #[serde(default)]
    weights: BTreeMap<Concept, Spanned<f64>>,
    #[serde(default)]
    clutter: BTreeMap<Concept, Spanned<f64>>,
    #[serde(default)]
    fuss: BTreeMap<Concept, Spanned<f64>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RewriteSpec {
    marker: Spanned<String>,
    summary_marker: Spanned<String>,
    skill: Spanned<f64>,
    second: Spanned<f64>,
    classes: Vec<ClassSpec>,
    blunders: Vec<Proposal>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ClassSpec {
    name: String,
    marks: Vec<Spanned<String>>,
    weight: Spanned<f64>,
    repeats: Option<Spanned<f64>>,
    remedies: Vec<Proposal>,
}

/// Checks values against the text they came from, so that errors name the line.
struct Checker<'a> {
    text: &'a str,
    origin: &'a str,
}

impl Checker<'_> {
    fn line(&self, at: usize) -> usize {
        self.text.as_bytes().iter().take(at).filter(|byte| **byte == b'\n').count() + 1
    }

    fn refuse<T>(&self, at: usize, key: &str, reason: String) -> Result<T, ParametersError> {
        Err(ParametersError::Value { origin: self.origin.to_owned(), line: self.line(at), key: key.to_owned(), reason })
    }

    fn number(&self, key: &str, value: &Spanned<f64>, range: RangeInclusive<f64>) -> Result<f64, ParametersError> {
        let number = *value.get_ref();
        if range.contains(&number) {
            Ok(number)
        } else {
            self.refuse(value.span().start, key, format!("is {number}, but must be {} to {}", range.start(), range.end()))
        }
    }

    fn share(&self, key: &str, value: &Spanned<f64>) -> Result<f64, ParametersError> {
        self.number(key, value, 0.0..=1.0)
    }

    fn factor(&self, key: &str, value: &Spanned<f64>) -> Result<f64, ParametersError> {
        self.number(key, value, 0.0..=20.0)
    }

    fn optional(&self, key: &str, value: Option<&Spanned<f64>>) -> Result<f64, ParametersError> {
        value.map_or(Ok(0.0), |value| self.factor(key, value))
    }

    fn map<K: Ord + Copy + std::fmt::Debug>(
        &self,
        key: &str,
        values: &BTreeMap<K, Spanned<f64>>,
        range: RangeInclusive<f64>,
    ) -> Result<BTreeMap<K, f64>, ParametersError> {
        values.iter().map(|(name, value)| Ok((*name, self.number(&format!("{key}.{name:?}"), value, range.clone())?))).collect()
    }

    fn regex(&self, key: &str, value: &Spanned<String>) -> Result<Regex, ParametersError> {
        match Regex::new(value.get_ref()) {
            Ok(regex) => Ok(regex),
            Err(error) => self.refuse(value.span().start, key, format!("is not a regular expression: {error}")),
        }
    }

    fn regexes(&self, key: &str, values: &[Spanned<String>]) -> Result<Vec<Regex>, ParametersError> {
        values.iter().map(|value| self.regex(key, value)).collect()
    }

    fn habits(&self, spec: &HabitsSpec) -> Result<Habits, ParametersError> {
        Ok(Habits {
            broken_share: self.share("habits.broken_share", &spec.broken_share)?,
            channel_later: self.share("habits.channel_later", &spec.channel_later)?,
            channel_again: self.share("habits.channel_again", &spec.channel_again)?,
            phantom: self.share("habits.phantom", &spec.phantom)?,
            note_rate: self.share("habits.note_rate", &spec.note_rate)?,
            note_relief: self.share("habits.note_relief", &spec.note_relief)?,
            forget_after_drop: self.factor("habits.forget_after_drop", &spec.forget_after_drop)?,
            text_form: self.factor("habits.text_form", &spec.text_form)?,
            repair_relief: self.share("habits.repair_relief", &spec.repair_relief)?,
            write_through_shell: self.factor("habits.write_through_shell", &spec.write_through_shell)?,
            edit_through_program: self.factor("habits.edit_through_program", &spec.edit_through_program)?,
            python_through_shell: self.factor("habits.python_through_shell", &spec.python_through_shell)?,
            shell_through_python: self.factor("habits.shell_through_python", &spec.shell_through_python)?,
            check_without_list: self.share("habits.check_without_list", &spec.check_without_list)?,
            check_relief: self.share("habits.check_relief", &spec.check_relief)?,
            tests_relief: self.share("habits.tests_relief", &spec.tests_relief)?,
            mental_with_python: self.factor("habits.mental_with_python", &spec.mental_with_python)?,
        })
    }

    fn rule(&self, mistake: Mistake, spec: &MistakeSpec) -> Result<MistakeRule, ParametersError> {
        let key = |part: &str| format!("mistakes.{}.{part}", format!("{mistake:?}").to_lowercase());
        Ok(MistakeRule {
            base: self.share(&key("base"), &spec.base)?,
            relief: self.map(&key("relief"), &spec.relief, 0.0..=1.0)?,
            harm: self.optional(&key("harm"), spec.harm.as_ref())?,
            heat: self.optional(&key("heat"), spec.heat.as_ref())?,
            strain: self.optional(&key("strain"), spec.strain.as_ref())?,
        })
    }

    fn profile(&self, name: &str, spec: &ProfileSpec) -> Result<Profile, ParametersError> {
        let key = |part: &str| format!("profiles.{name}.{part}");
        Ok(Profile {
            rates: self.map(&key("rates"), &spec.rates, 0.0..=20.0)?,
            weights: self.map(&key("weights"), &spec.weights, 0.0..=2.0)?,
            prompt_threshold: self.number(&key("prompt_threshold"), &spec.prompt_threshold, 0.0..=1e6)?,
            prompt_slope: self.factor(&key("prompt_slope"), &spec.prompt_slope)?,
            tool_slope: self.factor(&key("tool_slope"), &spec.tool_slope)?,
            clutter: self.map(&key("clutter"), &spec.clutter, 0.0..=20.0)?,
            fuss: self.map(&key("fuss"), &spec.fuss, 0.0..=1.0)?,
        })
    }

    fn rewrite(&self, spec: RewriteSpec) -> Result<RewriteHabits, ParametersError> {
        let mut classes = Vec::with_capacity(spec.classes.len());
        for class in spec.classes {
            let key = |part: &str| format!("rewrite.classes.{}.{part}", class.name);
            classes.push(FailureClass {
                marks: self.regexes(&key("marks"), &class.marks)?,
                weight: self.factor(&key("weight"), &class.weight)?,
                repeats: self.optional(&key("repeats"), class.repeats.as_ref())?,
                name: class.name,
                remedies: class.remedies,
            });
        }
        Ok(RewriteHabits {
            marker: self.regex("rewrite.marker", &spec.marker)?,
            summary_marker: self.regex("rewrite.summary_marker", &spec.summary_marker)?,
            skill: self.share("rewrite.skill", &spec.skill)?,
            second: self.share("rewrite.second", &spec.second)?,
            classes,
            blunders: spec.blunders,
        })
    }
}

impl RehearsalParameters {
    /// The parameters that come with the program.
    ///
    /// # Errors
    /// When the embedded file is broken, which a test excludes.
    pub fn builtin() -> Result<Self, ParametersError> {
        Self::parse(BUILTIN, "harness_templates/rehearsal.toml")
    }

    /// The text of [`Self::builtin`], for users who want to write their own.
    #[must_use]
    pub const fn builtin_text() -> &'static str {
        BUILTIN
    }

    /// Reads parameters; `origin` names the file in errors.
    ///
    /// # Errors
    /// When the text is not such a file, a key is unknown or missing, or a value is out of its range.
    pub fn parse(text: &str, origin: &str) -> Result<Self, ParametersError> {
        let check = Checker { text, origin };
        let syntax = |error: toml::de::Error| ParametersError::Syntax {
            origin: origin.to_owned(),
            line: error.span().map_or(1, |span| check.line(span.start)),
            message: error.message().to_owned(),
        };
        let value: toml::Value = toml::from_str(text).map_err(syntax)?;
        let spec: FileSpec = toml::from_str(text).map_err(syntax)?;
        let hash = content_hash("rehearsal/1", &value).map_err(|error| ParametersError::Syntax {
            origin: origin.to_owned(),
            line: 1,
            message: error.to_string(),
        })?;
        let mut cues = BTreeMap::new();
        for (concept, cue) in &spec.cues {
            let key = format!("cues.{concept:?}").to_lowercase();
            cues.insert(*concept, CueSet { favours: check.regexes(&key, &cue.favours)?, opposes: check.regexes(&key, &cue.opposes)? });
        }
        let mut rules = BTreeMap::new();
        for (mistake, rule) in &spec.mistakes {
            rules.insert(*mistake, check.rule(*mistake, rule)?);
        }
        let mut profiles = BTreeMap::new();
        for (name, profile) in spec.profiles.get_ref() {
            profiles.insert(name.clone(), check.profile(name, profile)?);
        }
        if !profiles.contains_key("default") {
            return check.refuse(
                spec.profiles.span().start,
                "profiles",
                "needs a profile `default` for job types it does not name".to_owned(),
            );
        }
        Ok(Self {
            hash: hash.to_hex()[..16].to_owned(),
            price: spec.price,
            first_cue: check.share("first_cue", &spec.first_cue)?,
            failure_marks: check.regexes("failure_marks", &spec.failure_marks)?,
            step_limit: check.regex("step_limit", &spec.step_limit)?,
            habits: check.habits(&spec.habits)?,
            rewrite: check.rewrite(spec.rewrite)?,
            name: spec.name,
            cues,
            rules,
            profiles,
        })
    }

    /// The profile of a job type.
    pub(super) fn profile(&self, job_type: &str) -> Option<&Profile> {
        self.profiles.get(job_type).or_else(|| self.profiles.get("default"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_builtin_file_is_valid_and_knows_every_concept_and_mistake() {
        let parameters = RehearsalParameters::builtin().unwrap();
        assert!(Concept::ALL.iter().all(|concept| parameters.cues.contains_key(concept)));
        assert!(Mistake::ALL.iter().all(|mistake| parameters.rules.contains_key(mistake)));
    }

    #[test]
    fn comments_do_not_change_the_hash_and_numbers_do() {
        let hash = |text: &str| RehearsalParameters::parse(text, "p").unwrap().hash;
        assert_eq!(hash(BUILTIN), hash(&format!("# another comment\n{BUILTIN}")));
        assert_ne!(hash(BUILTIN), hash(&BUILTIN.replacen("skill = 0.", "skill = 0.0", 1)));
    }

    #[test]
    fn an_unknown_key_is_named_with_its_line() {
        let text = format!("colour = 1\n{BUILTIN}");
        match RehearsalParameters::parse(&text, "own.toml").unwrap_err() {
            ParametersError::Syntax { origin, line, message } => {
                assert_eq!((origin.as_str(), line), ("own.toml", 1));
                assert!(message.contains("colour"), "{message}");
            }
            other => panic!("{other}"),
        }
    }

    #[test]
    fn a_rate_out_of_range_is_named_with_its_line() {
        let line_of = |needle: &str, text: &str| text.lines().position(|line| line.starts_with(needle)).unwrap() + 1;
        let skill = BUILTIN.lines().find(|line| line.starts_with("skill = ")).unwrap();
        let text = BUILTIN.replacen(skill, "skill = 1.5", 1);
        match RehearsalParameters::parse(&text, "own.toml").unwrap_err() {
            ParametersError::Value { line, key, .. } => assert_eq!((line, key.as_str()), (line_of("skill", &text), "rewrite.skill")),
            other => panic!("{other}"),
        }
    }

    #[test]
    fn a_broken_expression_and_a_missing_default_profile_are_refused() {
        let marker = BUILTIN.lines().find(|line| line.starts_with("marker = ")).unwrap();
        let text = BUILTIN.replacen(marker, "marker = '('", 1);
        assert!(matches!(RehearsalParameters::parse(&text, "p"), Err(ParametersError::Value { key, .. }) if key == "rewrite.marker"));
        let text = BUILTIN.replace("[profiles.default", "[profiles.other");
        assert!(matches!(RehearsalParameters::parse(&text, "p"), Err(ParametersError::Value { key, .. }) if key == "profiles"));
    }
}
