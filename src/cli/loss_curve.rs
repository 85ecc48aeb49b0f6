//! The loss of a training run as a picture.

use std::collections::BTreeMap;
use std::path::Path;

use plotters::prelude::*;

use super::failure::{Failure, FailureKind};
use crate::base::write_whole;
use crate::student::training::TrainingEvent;

/// Width and height in pixels.
const SIZE: (u32, u32) = (800, 480);

/// Losses by step, as the last process to take a step left them.
#[derive(Default)]
struct Curves {
    /// Before a step, on its rows.
    training: BTreeMap<u64, f64>,
    /// After so many steps, on the held-out part.
    held_out: BTreeMap<u64, f64>,
}

/// Draws the events of `metrics` as an SVG into `picture`; nothing where no step was taken.
pub(super) fn draw(metrics: &Path, picture: &Path) -> Result<(), Failure> {
    let failed = |path: &Path, why: &dyn std::fmt::Display| Failure::new(FailureKind::Run, format!("{}: {why}", path.display()));
    let text = std::fs::read_to_string(metrics).map_err(|error| failed(metrics, &error))?;
    let curves = Curves::of(&text);
    if curves.training.is_empty() {
        return Ok(());
    }
    let svg = curves.svg().map_err(|error| failed(picture, &error))?;
    write_whole(picture, svg.as_bytes()).map_err(|error| failed(picture, &error))
}

impl Curves {
    /// Of lines of JSON. A line that a kill cut short is passed over.
    fn of(text: &str) -> Self {
        let mut curves = Self::default();
        for event in text.lines().filter_map(|line| serde_json::from_str(line).ok()) {
            match event {
                TrainingEvent::Step { step, loss, .. } => drop(curves.training.insert(step, loss)),
                TrainingEvent::Evaluated { step, held_out, .. } => drop(curves.held_out.insert(step, held_out.loss)),
                TrainingEvent::Started { .. } | TrainingEvent::Saved { .. } => {}
            }
        }
        curves
    }

    fn svg(&self) -> Result<String, DrawingAreaErrorKind<std::io::Error>> {
        let losses = || self.training.values().chain(self.held_out.values()).copied();
        let highest = losses().fold(0.0, f64::max);
        let last = self.training.keys().chain(self.held_out.keys()).max().copied().unwrap_or(0);
        let mut text = String::new();
        {
            let area = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
            area.fill(&WHITE)?;
            let mut chart = ChartBuilder::on(&area)
                .margin(16)
                .x_label_area_size(40)
                .y_label_area_size(56)
                .build_cartesian_2d(0..last.max(1), 0.0..(highest * 1.05).max(1e-3))?;
            chart.configure_mesh().light_line_style(TRANSPARENT).x_desc("step").y_desc("loss, nats a token").draw()?;
            let line = |curve: &BTreeMap<u64, f64>| curve.iter().map(|(step, loss)| (*step, *loss)).collect::<Vec<_>>();
            let (grey, blue) = (RGBColor(150, 150, 150), RGBColor(30, 90, 200));
            chart.draw_series(LineSeries::new(line(&self.training), grey))?.label("training rows").legend(move |at| key(at, grey));
            if !self.held_out.is_empty() {
                let held_out = LineSeries::new(line(&self.held_out), blue.stroke_width(2));
                chart.draw_series(held_out)?.label("held out").legend(move |at| key(at, blue));
            }
            chart.configure_series_labels().border_style(BLACK).background_style(WHITE).draw()?;
            area.present()?;
        }
        Ok(text)
    }
}

/// The stroke beside a label.
fn key((x, y): (i32, i32), colour: RGBColor) -> PathElement<(i32, i32)> {
    PathElement::new([(x, y), (x + 20, y)], colour.stroke_width(2))
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
        let curves = Curves::of(&text);
        assert_eq!(curves.training, BTreeMap::from([(0, 4.0), (1, 2.5)]));
        assert_eq!(curves.held_out, BTreeMap::from([(2, 1.5)]));
        let svg = curves.svg().unwrap();
        assert!(svg.starts_with("<svg") && svg.contains("held out") && svg.contains("training rows"));
    }
}
