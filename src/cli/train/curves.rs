//! What the metrics of a training run say, step by step.

use std::path::Path;

use serde::de::DeserializeOwned;

use super::picture::{Curve, Points, Stroke, svg};
use crate::base::write_whole;
use crate::cli::failure::{Failure, FailureKind};
use crate::student::rl::RlEvent;
use crate::student::training::TrainingEvent;

/// Draws the losses in `metrics` as an SVG into `picture`; nothing where no step was taken.
pub(super) fn draw_losses(metrics: &Path, picture: &Path) -> Result<(), Failure> {
    let losses = Losses::of(&events(metrics)?);
    if losses.training.is_empty() {
        return Ok(());
    }
    write(picture, "loss, nats a token", losses.top(), &losses.curves())
}

/// Draws the mean rewards in `metrics` as an SVG into `picture`; nothing where no step was taken.
pub(super) fn draw_rewards(metrics: &Path, picture: &Path) -> Result<(), Failure> {
    let rewards = rewards(&events(metrics)?);
    if rewards.is_empty() {
        return Ok(());
    }
    let mean = moving_mean(&rewards);
    let curves = [
        Curve { label: "of a step", stroke: Stroke::Faint, points: &rewards },
        Curve { label: "mean of the last ten", stroke: Stroke::Strong, points: &mean },
    ];
    write(picture, "reward, of the student as it was at that step", 1.0, &curves)
}

fn write(picture: &Path, name: &str, top: f64, curves: &[Curve<'_>]) -> Result<(), Failure> {
    let failed = |why: &dyn std::fmt::Display| Failure::new(FailureKind::Run, format!("{}: {why}", picture.display()));
    let svg = svg(name, top, curves).map_err(|error| failed(&error))?;
    write_whole(picture, svg.as_bytes()).map_err(|error| failed(&error))
}

/// Events of lines of JSON. A line that a kill cut short is passed over.
fn events<E: DeserializeOwned>(metrics: &Path) -> Result<Vec<E>, Failure> {
    let text =
        std::fs::read_to_string(metrics).map_err(|error| Failure::new(FailureKind::Run, format!("{}: {error}", metrics.display())))?;
    Ok(read(&text))
}

fn read<E: DeserializeOwned>(text: &str) -> Vec<E> {
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// Losses by step, as the last process to take a step left them.
#[derive(Default)]
struct Losses {
    /// Before a step, on its rows.
    training: Points,
    /// After so many steps, on the held-out part.
    held_out: Points,
}

impl Losses {
    fn of(events: &[TrainingEvent]) -> Self {
        let mut losses = Self::default();
        for event in events {
            match event {
                TrainingEvent::Step { step, loss, .. } => drop(losses.training.insert(*step, *loss)),
                TrainingEvent::Evaluated { step, held_out, .. } => drop(losses.held_out.insert(*step, held_out.loss)),
                TrainingEvent::Started { .. } | TrainingEvent::Saved { .. } => {}
            }
        }
        losses
    }

    fn curves(&self) -> [Curve<'_>; 2] {
        [
            Curve { label: "training rows", stroke: Stroke::Faint, points: &self.training },
            Curve { label: "held out", stroke: Stroke::Strong, points: &self.held_out },
        ]
    }

    fn top(&self) -> f64 {
        let highest = self.training.values().chain(self.held_out.values()).copied().fold(0.0, f64::max);
        (highest * 1.05).max(1e-3)
    }
}

/// Mean rewards by step, as the last process to take a step left them.
fn rewards(events: &[RlEvent]) -> Points {
    let reward = |event: &RlEvent| match event {
        RlEvent::Step { step, play, .. } => play.reward.map(|reward| (*step, reward)),
        RlEvent::Started { .. } | RlEvent::Saved { .. } => None,
    };
    events.iter().filter_map(reward).collect()
}

/// Of each point the mean with those of the nine steps before it.
fn moving_mean(points: &Points) -> Points {
    let mean = |step: u64| {
        let (mut sum, mut count) = (0.0, 0.0);
        for value in points.range(step.saturating_sub(9)..=step).map(|(_, value)| *value) {
            sum += value;
            count += 1.0;
        }
        sum / count
    };
    points.keys().map(|step| (*step, mean(*step))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_that_was_taken_twice_counts_once_and_a_cut_line_not_at_all() {
        let step = |step: u64, loss: f64| {
            format!(
                r#"{{"event":"step","step":{step},"loss":{loss},"gradient_norm":1.0,"learning_rate":1e-3,"tokens":8,"trained_tokens":4,"seconds":0.5}}"#
            )
        };
        let evaluated = r#"{"event":"evaluated","step":2,"loss":1.5,"tokens":10,"best":true}"#;
        let text = [&step(0, 4.0), &step(1, 3.0), &step(1, 2.5), evaluated, "{\"event\":\"st"].join("\n");
        let losses = Losses::of(&read(&text));
        assert_eq!(losses.training, Points::from([(0, 4.0), (1, 2.5)]));
        assert_eq!(losses.held_out, Points::from([(2, 1.5)]));
        let svg = svg("loss", losses.top(), &losses.curves()).unwrap();
        assert!(svg.starts_with("<svg") && svg.contains("held out") && svg.contains("training rows"));
    }

    #[test]
    fn a_moving_mean_is_of_ten_steps() {
        let points: Points = (0..12).map(|step| (step, if step < 2 { 1.0 } else { 0.5 })).collect();
        let mean = moving_mean(&points);
        assert_eq!((mean[&0], mean[&1]), (1.0, 1.0));
        assert!((mean[&9] - 0.6).abs() < 1e-12 && (mean[&10] - 0.55).abs() < 1e-12 && (mean[&11] - 0.5).abs() < 1e-12);
    }

    #[test]
    fn rewards_are_of_the_steps_that_have_one() {
        let step = |step: u64, reward: Option<f64>| RlEvent::Step {
            step,
            play: crate::student::rl::PlayFigures { reward, ..Default::default() },
            update: None,
        };
        let lines: Vec<String> =
            [step(0, Some(0.25)), step(1, None), step(2, Some(0.5))].iter().map(|event| serde_json::to_string(event).unwrap()).collect();
        assert_eq!(rewards(&read(&lines.join("\n"))), Points::from([(0, 0.25), (2, 0.5)]));
    }
}
