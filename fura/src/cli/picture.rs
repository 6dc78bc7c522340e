//! A run as one SVG picture: how the reward rose, and how far each linear was moved.

use fura::core::runlog::RunHistory;
use fura::core::specialist::Specialist;
use fura::model::Model;
use std::fmt::Write as _;

/// Width and height of the curve's frame.
const CURVE: (f64, f64) = (420.0, 240.0);
/// Left, top, and the space below for labels.
const MARGIN: (f64, f64, f64) = (64.0, 34.0, 46.0);
/// Width of a cell of the heat map, and its height where there is room for all layers.
const CELL: (f64, f64) = (46.0, 22.0);
/// Left edge of the heat map.
const MAP_LEFT: f64 = MARGIN.0 + CURVE.0 + 96.0;
/// Legible on light and dark pages.
const STYLE: &str = "text{font:12px sans-serif;fill:#555}.e{text-anchor:end}.m{text-anchor:middle}\
    .axis{stroke:#888;fill:none}.mean{stroke:#0f8fd0;stroke-width:2;fill:none}.range{fill:#0f8fd0;opacity:.22}\
    @media(prefers-color-scheme:dark){text{fill:#bbb}}";

/// The picture of a run. Left: per generation the population's mean reward, and the range between its worst and best
/// member. Right: for each trained linear the size of its change, `||W' - W||_F / ||W||_F`.
pub(crate) fn svg(history: &RunHistory, model: &Model, specialist: &Specialist) -> String {
    let kinds = model.layout().linears().len() / model.config().layers;
    let changes = changes(model, specialist);
    let layers = changes.len() / kinds;
    let cell = (CELL.1).min(CURVE.1 / layers.max(1) as f64).max(8.0);
    let height = MARGIN.1 + CURVE.1.max(cell * layers as f64) + MARGIN.2;
    let width = MAP_LEFT + CELL.0 * kinds as f64 + 12.0;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\">\n\
         <title>Reward by generation, and the relative change of every trained linear</title>\n<style>{STYLE}</style>\n"
    );
    curve(&mut out, &history.generations);
    heat_map(&mut out, model, specialist, &changes, cell);
    out.push_str("</svg>\n");
    out
}

/// `||W' - W||_F / ||W||_F` of each trained linear: with `W'_k = U_k diag(s_k (1 + c_k)) V_k^T` it is
/// `sqrt(sum (s c)^2 / sum s^2)`.
fn changes(model: &Model, specialist: &Specialist) -> Vec<f64> {
    let layout = specialist.layout();
    let skipped = model.layout().linears().len() - layout.linears().len();
    let of = |l: usize| {
        let (mut change, mut whole) = (0.0, 0.0);
        for (s, c) in
            model.singular_values(skipped + l).iter().zip(&specialist.coordinates()[layout.range(l)])
        {
            let (s, c) = (f64::from(*s), f64::from(*c));
            change += (s * c) * (s * c);
            whole += s * s;
        }
        if whole > 0.0 { (change / whole).sqrt() } else { 0.0 }
    };
    (0..layout.linears().len()).map(of).collect()
}

/// Worst, mean and best reward of a generation's members that have one.
fn summary(rewards: &[f64]) -> Option<[f64; 3]> {
    let there = || rewards.iter().copied().filter(|r| r.is_finite());
    let n = there().count();
    let mean = there().sum::<f64>() / n as f64;
    (n > 0).then(|| [there().fold(f64::INFINITY, f64::min), mean, there().fold(f64::NEG_INFINITY, f64::max)])
}

fn curve(out: &mut String, generations: &[Vec<f64>]) {
    let points: Vec<(usize, [f64; 3])> =
        generations.iter().enumerate().filter_map(|(g, r)| Some((g, summary(r)?))).collect();
    let low = points.iter().map(|p| p.1[0]).fold(f64::INFINITY, f64::min);
    let high = points.iter().map(|p| p.1[2]).fold(f64::NEG_INFINITY, f64::max);
    let (left, top, _) = MARGIN;
    let bottom = top + CURVE.1;
    let _ = writeln!(
        out,
        "<text x=\"{left}\" y=\"{}\">reward: mean of the population, worst to best</text>",
        top - 14.0
    );
    let _ = writeln!(
        out,
        "<path class=\"axis\" d=\"M{left} {top}V{bottom}H{}\"/>\n<text class=\"m\" x=\"{}\" y=\"{}\">generation</text>",
        left + CURVE.0,
        left + CURVE.0 / 2.0,
        bottom + 34.0
    );
    if points.is_empty() {
        return;
    }
    let last = generations.len().saturating_sub(1).max(1);
    let span = if high > low { high - low } else { 1.0 };
    let x = |g: usize| left + CURVE.0 * g as f64 / last as f64;
    let y = |r: f64| bottom - CURVE.1 * (r - low) / span;
    for i in 0..=4 {
        let (share, r) = (f64::from(i) / 4.0, low + span * f64::from(i) / 4.0);
        let g = (last as f64 * share).round() as usize;
        let _ = writeln!(
            out,
            "<text class=\"e\" x=\"{:.1}\" y=\"{:.1}\">{r:.3}</text><text class=\"m\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            left - 8.0,
            y(r) + 4.0,
            x(g),
            bottom + 17.0,
            g + 1
        );
    }
    let line = |k: usize, points: &mut dyn Iterator<Item = &(usize, [f64; 3])>| -> String {
        points.map(|(g, r)| format!(" {:.1},{:.1}", x(*g), y(r[k]))).collect()
    };
    let _ = writeln!(
        out,
        "<polygon class=\"range\" points=\"{}{}\"/>\n<polyline class=\"mean\" points=\"{}\"/>",
        line(0, &mut points.iter()),
        line(2, &mut points.iter().rev()),
        line(1, &mut points.iter())
    );
}

fn heat_map(out: &mut String, model: &Model, specialist: &Specialist, changes: &[f64], cell: f64) {
    let linears = specialist.layout().linears();
    let kinds = model.layout().linears().len() / model.config().layers;
    let first = model.config().layers - linears.len() / kinds;
    let most = changes.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    let top = MARGIN.1;
    let _ = writeln!(
        out,
        "<text x=\"{MAP_LEFT}\" y=\"{}\">change of each linear, % of its Frobenius norm</text>",
        top - 14.0
    );
    for (l, (linear, change)) in linears.iter().zip(changes).enumerate() {
        let (row, column) = (l / kinds, l % kinds);
        let (x, y) = (MAP_LEFT + CELL.0 * column as f64, top + cell * row as f64);
        let share = change / most;
        let _ = writeln!(
            out,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"#d55e00\" fill-opacity=\"{:.3}\">\
             <title>{}: {:.2} %</title></rect>",
            CELL.0 - 1.0,
            cell - 1.0,
            0.08 + 0.82 * share,
            escaped(&linear.name),
            100.0 * change
        );
        if cell >= 14.0 {
            let _ = writeln!(
                out,
                "<text class=\"m\" x=\"{:.1}\" y=\"{:.1}\">{:.1}</text>",
                x + CELL.0 / 2.0,
                y + cell / 2.0 + 4.0,
                100.0 * change
            );
        }
        if column == 0 {
            let _ = writeln!(
                out,
                "<text class=\"e\" x=\"{:.1}\" y=\"{:.1}\">layer {}</text>",
                MAP_LEFT - 6.0,
                y + cell / 2.0 + 4.0,
                first + row
            );
        }
    }
    let below = top + cell * (linears.len() / kinds) as f64 + 15.0;
    for (column, linear) in linears.iter().take(kinds).enumerate() {
        let kind = linear.name.rsplit(['.', '_']).find(|part| *part != "weight").unwrap_or(&linear.name);
        let x = MAP_LEFT + CELL.0 * (column as f64 + 0.5);
        let _ = writeln!(out, "<text class=\"m\" x=\"{x:.1}\" y=\"{below:.1}\">{}</text>", escaped(kind));
    }
}

/// Names come from a file; in XML three characters need care.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generation_without_rewards_is_left_out_and_the_curve_stays_finite() {
        assert_eq!(summary(&[f64::NAN, f64::INFINITY]), None);
        assert_eq!(summary(&[1.0, f64::NAN, 3.0]), Some([1.0, 2.0, 3.0]));
        let mut out = String::new();
        curve(&mut out, &[vec![f64::NAN, f64::NAN], vec![0.5, 0.5], vec![0.5, 0.5]]);
        assert!(out.contains("polyline") && !out.contains("NaN") && !out.contains("inf"), "{out}");
        let mut out = String::new();
        curve(&mut out, &[]);
        assert!(!out.contains("NaN") && !out.contains("polyline"), "{out}");
    }

    #[test]
    fn names_cannot_break_the_markup() {
        assert_eq!(escaped("a<b>&c"), "a&lt;b&gt;&amp;c");
    }
}
