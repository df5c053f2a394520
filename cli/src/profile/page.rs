//! A profile as one HTML page that needs nothing else: a bar per layer, a roofline, the tables. No scripts.

use pumex_engine::profile::{Cost, OpCost, Profile, FLAG_OVER};

use super::{cells, head, kinds, layers, About, COST};

const STYLE: &str = "\
body{font:14px system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem;color:#222;background:#fff}
h1{font-size:1.3rem}h2{font-size:1.1rem;margin-top:2rem}svg{width:100%;height:auto}
svg text{font:11px system-ui,sans-serif;fill:currentColor}.axis{stroke:currentColor;stroke-opacity:.25}
.roof{fill:none;stroke:currentColor;stroke-width:1.5}.half{fill:none;stroke:#c33;stroke-dasharray:5 4}
table{border-collapse:collapse;font-variant-numeric:tabular-nums}
th,td{padding:.15rem .6rem;text-align:right;border-bottom:1px solid #8884;white-space:pre}
th:first-child,td:first-child,th.l,td.l{text-align:left}
.key{display:inline-block;margin-right:1rem}.key i{display:inline-block;width:.8em;height:.8em;margin-right:.3em}
@media(prefers-color-scheme:dark){body{color:#ddd;background:#181818}}";

/// Told apart by people who see few colours too; they come again after the last.
const COLOURS: [&str; 10] =
    ["#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#76b7b2", "#edc948", "#b07aa1", "#9c755f", "#ff9da7", "#bab0ac"];

/// Size of the pictures, and what the labels take.
const WIDTH: f64 = 960.0;
const LEFT: f64 = 80.0;
const RIGHT: f64 = 150.0;

/// The whole page.
pub fn html(about: &About, p: &Profile) -> String {
    let mut lines = head(about, p).into_iter();
    let title = lines.next().unwrap_or_default();
    let facts: String = lines.map(|l| format!("<br>{}\n", escape_html(&l))).collect();
    let colours = Colours::new(p);
    let ops: Vec<Vec<String>> = std::iter::once(
        ["layer", "op", "types", "dispatches"].iter().chain(&COST).map(ToString::to_string).collect::<Vec<_>>(),
    )
    .chain(p.ops.iter().map(|op| {
        let w = &op.work;
        let layer = w.layer.map_or(String::new(), |l| l.to_string());
        [layer, w.op.clone(), w.types.clone(), op.cost.dispatches.to_string()]
            .into_iter()
            .chain(cells(&op.cost))
            .collect()
    }))
    .collect();
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title>\n<style>\n{STYLE}\n</style>\
         </head><body>\n<h1>{title}</h1>\n<p>{facts}</p>\n<p>{}</p>\n<h2>Time of each layer by op</h2>\n{}\n\
         <h2>What each op reaches</h2>\n<p>Each dot is an op. The upper line is what its bytes and dispatches allow, the \
         dashed one {FLAG_OVER} times slower.</p>\n{}\n<h2>Kinds of ops</h2>\n{}\n<h2>Layers</h2>\n{}\n\
         <details><summary>All ops</summary>\n{}</details>\n</body></html>\n",
        colours.key(),
        bars(p, &colours),
        roofline(p, &colours),
        table(&kinds(p), 2),
        table(&layers(p), 1),
        table(&ops, 3),
        title = escape_html(&title),
    )
}

fn escape_html(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// A colour for each name of an op.
struct Colours<'a>(Vec<&'a str>);

impl<'a> Colours<'a> {
    fn new(p: &'a Profile) -> Self {
        let mut names: Vec<&str> = Vec::new();
        for kind in &p.kinds {
            if !names.contains(&kind.op.as_str()) {
                names.push(&kind.op);
            }
        }
        Colours(names)
    }

    fn of(&self, op: &OpCost) -> &'static str {
        let at = self.0.iter().position(|n| *n == op.work.op).unwrap_or(0);
        COLOURS[at % COLOURS.len()]
    }

    fn key(&self) -> String {
        let item = |(i, name): (usize, &&str)| {
            let colour = COLOURS[i % COLOURS.len()];
            format!("<span class=\"key\"><i style=\"background:{colour}\"></i>{}</span>", escape_html(name))
        };
        self.0.iter().enumerate().map(item).collect()
    }
}

fn tip(op: &OpCost) -> String {
    let (w, c) = (&op.work, &op.cost);
    let layer = w.layer.map_or(String::new(), |l| format!("layer {l}, "));
    let text = format!(
        "{layer}{} {}: {:.1} us, {:.2} MB, {:.1} GB/s, {:.1} x floor",
        w.op,
        w.types,
        c.us,
        c.bytes as f64 / 1e6,
        c.gb_per_s,
        c.times_floor
    );
    format!("<title>{}</title>", escape_html(&text))
}

/// A bar per layer, as long as its time, in pieces for its ops.
fn bars(p: &Profile, colours: &Colours<'_>) -> String {
    const HIGH: f64 = 16.0;
    let longest = p.layers.iter().map(|l| l.cost.us).fold(1e-9, f64::max);
    let scale = (WIDTH - LEFT - RIGHT) / longest;
    let mut ops = p.ops.iter().peekable();
    let mut out = format!("<svg viewBox=\"0 0 {WIDTH} {}\">\n", HIGH * p.layers.len() as f64);
    for (i, layer) in p.layers.iter().enumerate() {
        let (top, mut x) = (i as f64 * HIGH, LEFT);
        out += &format!("<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>", LEFT - 6.0, top + 12.0, layer.layer);
        let own = ops.peek().and_then(|op| op.work.layer);
        while let Some(op) = ops.next_if(|op| op.work.layer == own) {
            let wide = op.cost.us * scale;
            let colour = colours.of(op);
            out += &format!(
                "<rect x=\"{x:.2}\" y=\"{:.1}\" width=\"{wide:.2}\" height=\"{}\" fill=\"{colour}\">{}</rect>",
                top + 2.0,
                HIGH - 3.0,
                tip(op)
            );
            x += wide;
        }
        let said = format!("{:.1} us, {:.1} GB/s", layer.cost.us, layer.cost.gb_per_s);
        out += &format!("<text x=\"{:.1}\" y=\"{:.1}\">{said}</text>\n", x + 6.0, top + 12.0);
    }
    out + "</svg>"
}

/// Bytes of an op against the speed they are moved at, both by powers of ten, below what bandwidth and dispatches allow.
fn roofline(p: &Profile, colours: &Colours<'_>) -> String {
    const HIGH: f64 = 420.0;
    const BOTTOM: f64 = 40.0;
    let shown: Vec<&OpCost> = p.ops.iter().filter(|op| op.cost.bytes > 0 && op.cost.gb_per_s > 0.0).collect();
    let read = p.roof.bandwidth.read / 1e9;
    let ends = |get: fn(&Cost) -> f64, more: f64| {
        let all = || shown.iter().map(|op| get(&op.cost).log10());
        (all().fold(more, f64::min).floor(), all().fold(more, f64::max).ceil())
    };
    let (x0, x1) = ends(|c| c.bytes as f64, 6.0);
    let (y0, y1) = ends(|c| c.gb_per_s, read.log10());
    let x = |v: f64| LEFT + (v - x0) / (x1 - x0).max(1.0) * (WIDTH - LEFT - 20.0);
    let y = |v: f64| (HIGH - BOTTOM) * (1.0 - (v - y0) / (y1 - y0).max(1.0)) + 8.0;
    let mut out = format!("<svg viewBox=\"0 0 {WIDTH} {}\">\n", HIGH + 16.0);
    for power in x0 as i32..=x1 as i32 {
        let at = x(f64::from(power));
        let (value, unit) = match power {
            ..3 => (power, "B"),
            3..6 => (power - 3, "kB"),
            6..9 => (power - 6, "MB"),
            _ => (power - 9, "GB"),
        };
        let name = format!("{} {unit}", 10f64.powi(value));
        out += &format!("<path class=\"axis\" d=\"M{at:.1} {:.1}V{:.1}\"/>", y(y0), y(y1));
        out += &format!("<text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{name}</text>\n", y(y0) + 16.0);
    }
    for power in y0 as i32..=y1 as i32 {
        let at = y(f64::from(power));
        let name = format!("{} GB/s", 10f64.powi(power));
        out += &format!("<path class=\"axis\" d=\"M{LEFT} {at:.1}H{:.1}\"/>", x(x1));
        out += &format!("<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{name}</text>\n", LEFT - 6.0, at + 4.0);
    }
    // GB/s that `bytes` reach at the most in one dispatch, so much slower.
    let roof = |slower: f64| -> String {
        let points = (0..=100).map(|i| x0 + (x1 - x0) * f64::from(i) / 100.0);
        let points = points
            .map(|v| (v, (10f64.powf(v) / (10f64.powf(v) / read / 1e3 + p.roof.start_us) / 1e3 / slower).log10()));
        points.filter(|(_, g)| *g >= y0).map(|(v, g)| format!("{:.1},{:.1} ", x(v), y(g))).collect()
    };
    out += &format!("<polyline class=\"roof\" points=\"{}\"/>", roof(1.0));
    out += &format!("<polyline class=\"half\" points=\"{}\"/>\n", roof(FLAG_OVER));
    let measured = y(read.log10());
    out += &format!("<path class=\"axis\" stroke-width=\"2\" d=\"M{LEFT} {measured:.1}H{:.1}\"/>", x(x1));
    out +=
        &format!("<text x=\"{:.1}\" y=\"{:.1}\">measured read: {read:.0} GB/s</text>\n", LEFT + 6.0, measured + 14.0);
    for op in shown {
        let (cx, cy) = (x((op.cost.bytes as f64).log10()), y(op.cost.gb_per_s.log10()));
        let colour = colours.of(op);
        out += &format!(
            "<circle cx=\"{cx:.1}\" cy=\"{cy:.1}\" r=\"4\" fill=\"{colour}\" fill-opacity=\".7\">{}</circle>\n",
            tip(op)
        );
    }
    out + "</svg>"
}

/// A table whose first row is its heading and whose first `left` columns are text.
fn table(rows: &[Vec<String>], left: usize) -> String {
    let line = |row: &Vec<String>, tag: &str| {
        let cell = |(i, text): (usize, &String)| {
            let class = if i < left { " class=\"l\"" } else { "" };
            format!("<{tag}{class}>{}</{tag}>", escape_html(text))
        };
        format!("<tr>{}</tr>\n", row.iter().enumerate().map(cell).collect::<String>())
    };
    let rows = rows.iter().enumerate().map(|(i, row)| line(row, if i == 0 { "th" } else { "td" }));
    format!("<table>\n{}</table>\n", rows.collect::<String>())
}
