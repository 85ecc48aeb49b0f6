//! Curves over the steps of a training run, as a picture.

use std::collections::BTreeMap;

use plotters::prelude::*;

/// Width and height in pixels.
const SIZE: (u32, u32) = (800, 480);

/// Values by step.
pub(super) type Points = BTreeMap<u64, f64>;

/// How a curve stands out.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Stroke {
    /// In the foreground.
    Strong,
    /// Behind.
    Faint,
}

/// One curve.
pub(super) struct Curve<'p> {
    pub(super) label: &'static str,
    pub(super) stroke: Stroke,
    pub(super) points: &'p Points,
}

/// Draws those of `curves` that have points as an SVG. Values, named `name`, go from 0 to `top`.
pub(super) fn svg(name: &str, top: f64, curves: &[Curve<'_>]) -> Result<String, DrawingAreaErrorKind<std::io::Error>> {
    let last = curves.iter().filter_map(|curve| curve.points.keys().next_back()).max().copied().unwrap_or(0);
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
        area.fill(&WHITE)?;
        let mut chart =
            ChartBuilder::on(&area).margin(16).x_label_area_size(40).y_label_area_size(56).build_cartesian_2d(0..last.max(1), 0.0..top)?;
        chart.configure_mesh().light_line_style(TRANSPARENT).x_desc("step").y_desc(name).draw()?;
        for Curve { label, stroke, points } in curves.iter().filter(|curve| !curve.points.is_empty()) {
            let style = match stroke {
                Stroke::Strong => RGBColor(30, 90, 200).stroke_width(2),
                Stroke::Faint => RGBColor(150, 150, 150).stroke_width(1),
            };
            let line = LineSeries::new(points.iter().map(|(step, value)| (*step, *value)), style);
            chart.draw_series(line)?.label(*label).legend(move |(x, y)| PathElement::new([(x, y), (x + 20, y)], style));
        }
        chart.configure_series_labels().border_style(BLACK).background_style(WHITE).draw()?;
        area.present()?;
    }
    Ok(text)
}
