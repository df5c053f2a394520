//! The report as a picture: how times are spread, and tokens over time.

use super::statistics::{LoadReport, Spread};
use std::fmt::Write;

/// Sizes in pixels: of a panel's axes, and what stands around them.
const WIDTH: f64 = 320.0;
const HEIGHT: f64 = 200.0;
const LEFT: f64 = 60.0;
const TOP: f64 = 40.0;
const STEP: f64 = WIDTH + LEFT + 30.0;
/// Points of the curve over time.
const SLICES: usize = 60;

impl LoadReport {
    /// An SVG of three panels: the share of requests whose first token came within a time, the same between pieces, and output
    /// tokens a second over the time of the load.
    pub fn picture(&self) -> String {
        let (width, height) = (3.0 * STEP + 10.0, HEIGHT + TOP + 60.0);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
             font-family=\"sans-serif\" font-size=\"12\"><rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
        );
        panel(&mut svg, 0, "time to first token", "ms", "share", &shares(&self.first_token));
        panel(&mut svg, 1, "time between pieces", "ms", "share", &shares(&self.between));
        panel(&mut svg, 2, "output tokens per second", "s", "tokens/s", &self.over_time());
        svg.push_str("</svg>\n");
        svg
    }

    /// Tokens a second by second of the load; a request's tokens are spread over its pieces.
    fn over_time(&self) -> Vec<(f64, f64)> {
        let slice = self.wall.as_secs_f64().max(1e-9) / SLICES as f64;
        let mut counts = [0.0; SLICES];
        for sample in self.samples.iter().filter(|s| s.error.is_none()) {
            let each = sample.tokens() as f64 / sample.pieces.len().max(1) as f64;
            for piece in &sample.pieces {
                counts[((piece.as_secs_f64() / slice) as usize).min(SLICES - 1)] += each;
            }
        }
        counts.iter().enumerate().map(|(i, n)| ((i as f64 + 0.5) * slice, n / slice)).collect()
    }
}

/// Times with the share of those that are not longer; at most a few hundred points.
fn shares(spread: &Spread) -> Vec<(f64, f64)> {
    let count = spread.sorted.len();
    let step = (count / 300).max(1);
    let point = |i: usize| (spread.sorted[i], (i + 1) as f64 / count as f64);
    (0..count).step_by(step).chain(count.checked_sub(1)).map(point).collect()
}

/// A curve with its axes.
fn panel(svg: &mut String, place: usize, title: &str, x_unit: &str, y_unit: &str, points: &[(f64, f64)]) {
    let largest = |pick: fn(&(f64, f64)) -> f64| points.iter().map(pick).fold(0.0, f64::max).max(1e-9);
    let (x_end, y_end) = (largest(|p| p.0), largest(|p| p.1));
    let (left, bottom) = (place as f64 * STEP + LEFT, TOP + HEIGHT);
    let at = |(x, y): &(f64, f64)| format!("{:.1},{:.1}", left + x / x_end * WIDTH, bottom - y / y_end * HEIGHT);
    // Writing to a string cannot fail.
    let _ = writeln!(svg, "<text x=\"{left}\" y=\"{}\" font-weight=\"bold\">{title}</text>", TOP - 14.0);
    for quarter in 0..=4 {
        let share = f64::from(quarter) / 4.0;
        let (x, y) = (left + share * WIDTH, bottom - share * HEIGHT);
        let _ = writeln!(
            svg,
            "<path d=\"M{left} {y}h{WIDTH}M{x} {TOP}v{HEIGHT}\" stroke=\"#ddd\"/>\
             <text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text><text x=\"{x}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            left - 6.0,
            y + 4.0,
            short(share * y_end),
            bottom + 16.0,
            short(share * x_end)
        );
    }
    let _ = writeln!(
        svg,
        "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{x_unit}</text>",
        left + WIDTH / 2.0,
        bottom + 34.0
    );
    let _ = writeln!(svg, "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{y_unit}</text>", left - 6.0, TOP - 14.0);
    let line: Vec<String> = points.iter().map(at).collect();
    let _ =
        writeln!(svg, "<polyline points=\"{}\" fill=\"none\" stroke=\"#2563eb\" stroke-width=\"2\"/>", line.join(" "));
}

fn short(number: f64) -> String {
    match number {
        n if n >= 100.0 => format!("{n:.0}"),
        n if n >= 1.0 => format!("{n:.1}"),
        n => format!("{n:.2}"),
    }
}
