//! Just enough of a plotter: panels side by side, points and lines, linear and logarithmic axes, legible on light and
//! dark pages.

use std::fmt::Write;

/// Panels in a row, with one legend below for all.
pub struct Plot {
    pub panels: Vec<Panel>,
}

pub struct Panel {
    pub x: Axis,
    pub y: Axis,
    pub series: Vec<Series>,
}

/// Points of one colour and marker.
pub struct Series {
    pub label: String,
    pub points: Vec<(f64, f64)>,
    pub joined: bool,
}

pub struct Axis {
    label: &'static str,
    low: f64,
    high: f64,
    logarithmic: bool,
}

const PANEL: (f64, f64) = (330.0, 250.0);
const MARGIN: (f64, f64) = (58.0, 12.0);
const LEGEND_COLUMNS: usize = 4;
/// Hues that hold up on white and on near-black, and for the colour-blind (after Okabe and Ito).
const COLOURS: [&str; 7] = ["#d55e00", "#0f8fd0", "#009e73", "#cc5f9e", "#8a8a8a", "#b08a00", "#7a62d0"];
/// One grey with a contrast of about 4 on white and on near-black: a book's theme is not the reader's system theme, so an
/// image cannot ask which of them it is shown on.
const STYLE: &str =
    "text{font:12px sans-serif;fill:#7f7f7f}.a{stroke:#888;fill:none}.g{stroke:#8884;fill:none}";

impl Axis {
    pub fn linear(label: &'static str, low: f64, high: f64) -> Self {
        Self { label, low, high, logarithmic: false }
    }

    pub fn log(label: &'static str, low: f64, high: f64) -> Self {
        Self { label, low, high, logarithmic: true }
    }

    /// Where a value lies between the ends, from 0 to 1; what is outside is drawn on the edge.
    fn place(&self, value: f64) -> f64 {
        let place = match self.logarithmic {
            true => (value.max(self.low) / self.low).ln() / (self.high / self.low).ln(),
            false => (value - self.low) / (self.high - self.low),
        };
        place.clamp(0.0, 1.0)
    }

    fn ticks(&self) -> Vec<f64> {
        let inside = |tick: &f64| *tick >= self.low * 0.999 && *tick <= self.high * 1.001;
        let ticks = match self.logarithmic {
            true => (-3..4).flat_map(|e| [1.0, 2.0, 5.0].map(|m| m * 10f64.powi(e))).collect::<Vec<_>>(),
            false => (0..=6).map(|k| self.low + (self.high - self.low) * f64::from(k) / 6.0).collect(),
        };
        ticks.into_iter().filter(inside).collect()
    }
}

fn colour_of(series: &Series, all: &[String]) -> &'static str {
    COLOURS[all.iter().position(|label| *label == series.label).unwrap_or(0) % COLOURS.len()]
}

impl Plot {
    /// The SVG file's text.
    pub fn render(&self) -> String {
        // A series has one colour in all panels.
        let mut labels: Vec<String> = Vec::new();
        for series in self.panels.iter().flat_map(|panel| &panel.series) {
            if !labels.contains(&series.label) {
                labels.push(series.label.clone());
            }
        }
        let step = MARGIN.0 + PANEL.0 + MARGIN.1;
        let width = step * self.panels.len() as f64;
        let top_of_legend = MARGIN.1 + PANEL.1 + 50.0;
        let height = top_of_legend + 20.0 * labels.len().div_ceil(LEGEND_COLUMNS) as f64;
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\"><style>{STYLE}</style>\n"
        );
        for (k, panel) in self.panels.iter().enumerate() {
            panel.render(&mut out, step * k as f64 + MARGIN.0, &labels);
        }
        for (k, label) in labels.iter().enumerate() {
            let x = MARGIN.0 + (width - MARGIN.0) / LEGEND_COLUMNS as f64 * (k % LEGEND_COLUMNS) as f64;
            let y = top_of_legend + 20.0 * (k / LEGEND_COLUMNS) as f64;
            let colour = COLOURS[k % COLOURS.len()];
            // Writing to a String does not fail.
            let _ = writeln!(out, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\" fill=\"{colour}\"/>");
            let _ = writeln!(out, "<text x=\"{:.1}\" y=\"{:.1}\">{label}</text>", x + 9.0, y + 4.0);
        }
        out.push_str("</svg>\n");
        out
    }
}

impl Panel {
    fn render(&self, out: &mut String, left: f64, labels: &[String]) {
        let bottom = MARGIN.1 + PANEL.1;
        let x = |value| left + PANEL.0 * self.x.place(value);
        let y = |value| bottom - PANEL.1 * self.y.place(value);
        for tick in self.x.ticks() {
            let at = x(tick);
            let _ = writeln!(out, "<path class=\"g\" d=\"M{at:.1} {bottom}V{}\"/>", MARGIN.1);
            let _ = writeln!(
                out,
                "<text x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                bottom + 16.0,
                number(tick)
            );
        }
        for tick in self.y.ticks() {
            let at = y(tick);
            let _ = writeln!(out, "<path class=\"g\" d=\"M{left} {at:.1}h{}\"/>", PANEL.0);
            let _ = writeln!(
                out,
                "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                left - 5.0,
                at + 4.0,
                number(tick)
            );
        }
        let (w, h) = PANEL;
        let _ =
            writeln!(out, "<rect class=\"a\" x=\"{left}\" y=\"{}\" width=\"{w}\" height=\"{h}\"/>", MARGIN.1);
        let (middle, center) = (left + w / 2.0, MARGIN.1 + h / 2.0);
        let _ = writeln!(
            out,
            "<text x=\"{middle}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            bottom + 34.0,
            self.x.label
        );
        let at = left - 44.0;
        let _ = writeln!(
            out,
            "<text x=\"{at}\" y=\"{center}\" text-anchor=\"middle\" transform=\"rotate(-90 {at} {center})\">{}</text>",
            self.y.label
        );
        for series in &self.series {
            let colour = colour_of(series, labels);
            if series.joined {
                let points: Vec<String> =
                    series.points.iter().map(|p| format!("{:.1},{:.1}", x(p.0), y(p.1))).collect();
                let points = points.join(" ");
                let _ = writeln!(
                    out,
                    "<polyline points=\"{points}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\"/>"
                );
            }
            for point in &series.points {
                let (x, y) = (x(point.0), y(point.1));
                let _ = writeln!(
                    out,
                    "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\" fill-opacity=\"0.8\"/>"
                );
            }
        }
    }
}

/// Up to three significant digits, no trailing zeros.
fn number(value: f64) -> String {
    let text = format!("{value:.3}");
    match text.trim_end_matches('0').trim_end_matches('.') {
        "" => "0".to_owned(),
        short => short.to_owned(),
    }
}
