//! Renders plots: for each point of the axis a group of bars, one for each entrant, with the spread
//! of its windows.

use crate::run::ComparisonResult;
use std::fmt::Write;

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 440.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 48.0;
const BOTTOM: f64 = 96.0;

/// Colours that remain distinct with colour blindness (Okabe and Ito).
const COLOURS: [&str; 8] = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#999999"];

/// Renders the plot of a chart.
pub fn chart(name: &str, outcomes: &[&ComparisonResult]) -> String {
    let mut entrants: Vec<&str> = Vec::new();
    for entry in outcomes.iter().flat_map(|outcome| &outcome.entries) {
        if !entrants.contains(&entry.name.as_str()) {
            entrants.push(&entry.name);
        }
    }
    let highest = outcomes.iter().flat_map(|o| &o.entries).map(|e| e.max()).fold(0.0, f64::max);
    let step = grid_step(highest);
    let top = (highest / step).ceil().max(1.0) * step;
    let mut svg = String::new();
    let _ = writeln!(
        svg,
        r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">
<rect width="100%" height="100%" fill="#ffffff"/>
<text x="{LEFT}" y="22" font-size="16">{}</text>"##,
        escape_xml(name)
    );
    append_grid(&mut svg, step, top, outcomes);
    for (index, outcome) in outcomes.iter().enumerate() {
        append_group(&mut svg, index, outcomes.len(), outcome, &entrants, top);
    }
    append_legend(&mut svg, &entrants);
    svg.push_str("</svg>\n");
    svg
}

fn y(value: f64, top: f64) -> f64 {
    TOP + (HEIGHT - TOP - BOTTOM) * (1.0 - value / top)
}

/// Returns the distance of grid lines: 1, 2 or 5 times a power of ten, so that there are four to
/// ten.
fn grid_step(highest: f64) -> f64 {
    let power = 10f64.powf((highest.max(1e-6) / 5.0).log10().floor());
    let candidates = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power);
    candidates.into_iter().find(|step| highest / step <= 8.0).unwrap_or(10.0 * power)
}

/// Draws the horizontal lines of the grid with their values, and the names of both axes.
fn append_grid(svg: &mut String, step: f64, top: f64, outcomes: &[&ComparisonResult]) {
    let lines = (top / step).round() as usize;
    let right = WIDTH - RIGHT;
    for line in 0..=lines {
        let value = line as f64 * step;
        let y = y(value, top);
        let label = if step < 1.0 { format!("{value:.2}") } else { format!("{value:.0}") };
        let _ = writeln!(
            svg,
            r##"<line x1="{LEFT}" y1="{y:.1}" x2="{right}" y2="{y:.1}" stroke="#dddddd"/>
<text x="{:.1}" y="{:.1}" text-anchor="end">{label}</text>"##,
            LEFT - 6.0,
            y + 4.0
        );
    }
    if let Some(first) = outcomes.first() {
        let middle = (LEFT + right) / 2.0;
        let (unit, axis) = (first.unit.name(), escape_xml(&first.axis));
        let _ = writeln!(svg, r##"<text x="8" y="{:.1}">{unit}</text>"##, TOP - 8.0);
        let _ = writeln!(svg, r##"<text x="{middle}" y="{:.1}" text-anchor="middle">{axis}</text>"##, HEIGHT - 56.0);
    }
}

/// Draws the bars of one point of the axis, group `index` of `groups`: the median, with a line from
/// the smallest to the largest value. Labels are left out if bars are narrow.
fn append_group(
    svg: &mut String,
    index: usize,
    groups: usize,
    outcome: &ComparisonResult,
    entrants: &[&str],
    top: f64,
) {
    let space = (WIDTH - LEFT - RIGHT) / groups as f64;
    let bar_width = (space * 0.8 / entrants.len().max(1) as f64).min(48.0);
    let start = LEFT + space * index as f64 + (space - bar_width * entrants.len() as f64) / 2.0;
    for entry in &outcome.entries {
        let entrant_index = entrants.iter().position(|name| *name == entry.name).unwrap_or(0);
        let x = start + bar_width * entrant_index as f64;
        let (median, low, high) = (y(entry.median(), top), y(entry.min(), top), y(entry.max(), top));
        let (height, middle) = (HEIGHT - BOTTOM - median, x + bar_width * 0.45);
        let colour = COLOURS[entrant_index % COLOURS.len()];
        let _ = writeln!(
            svg,
            r##"<rect x="{x:.1}" y="{median:.1}" width="{:.1}" height="{height:.1}" fill="{colour}"><title>{} {}: {:.2}</title></rect>
<line x1="{middle:.1}" y1="{high:.1}" x2="{middle:.1}" y2="{low:.1}" stroke="#000000"/>"##,
            bar_width * 0.9,
            escape_xml(&entry.name),
            escape_xml(&outcome.x),
            entry.median()
        );
        if bar_width >= 16.0 {
            let label =
                if entry.median() < 10.0 { format!("{:.1}", entry.median()) } else { format!("{:.0}", entry.median()) };
            let _ = writeln!(
                svg,
                r##"<text x="{middle:.1}" y="{:.1}" text-anchor="middle" font-size="10">{label}</text>"##,
                high - 3.0
            );
        }
    }
    let _ = writeln!(
        svg,
        r##"<text x="{:.1}" y="{:.1}" text-anchor="middle">{}</text>"##,
        LEFT + space * (index as f64 + 0.5),
        HEIGHT - BOTTOM + 18.0,
        escape_xml(&outcome.x)
    );
}

fn append_legend(svg: &mut String, entrants: &[&str]) {
    let (mut x, mut y) = (LEFT, HEIGHT - 34.0);
    for (place, name) in entrants.iter().enumerate() {
        let width = 28.0 + 6.6 * name.chars().count() as f64;
        if x + width > WIDTH - RIGHT {
            (x, y) = (LEFT, y + 18.0);
        }
        let colour = COLOURS[place % COLOURS.len()];
        let _ = writeln!(
            svg,
            r##"<rect x="{x:.1}" y="{:.1}" width="12" height="12" fill="{colour}"/><text x="{:.1}" y="{y:.1}">{}</text>"##,
            y - 10.0,
            x + 16.0,
            escape_xml(name)
        );
        x += width;
    }
}

fn escape_xml(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::grid_step;

    #[test]
    fn grids_have_a_few_lines() {
        for highest in [0.02, 0.9, 1.0, 7.3, 41.0, 99.0, 100.0, 246.0, 12_345.0] {
            let lines = highest / grid_step(highest);
            assert!((1.0..=10.0).contains(&lines), "{highest}: {lines} lines");
        }
    }
}
