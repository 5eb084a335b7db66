//! Heat map of a placement: stages by resources for each pipe, as SVG and as text.

use offload::plan::PipeHeat;
use std::fmt::Write;

/// Side of a cell, and the margins left and above for labels, in pixels.
const CELL: f64 = 30.0;
const LEFT: f64 = 150.0;
const TOP: f64 = 40.0;

/// Returns the colour of a utilization, from white over yellow and orange to dark red; values above
/// 1 are purple.
pub fn colour(share: f64) -> String {
    let stops: [(f64, [f64; 3]); 5] = [
        (0.0, [248.0, 248.0, 245.0]),
        (0.4, [254.0, 227.0, 145.0]),
        (0.75, [253.0, 141.0, 60.0]),
        (0.95, [204.0, 36.0, 29.0]),
        (1.0, [128.0, 10.0, 20.0]),
    ];
    if share > 1.0 {
        return "#6a3d9a".to_owned();
    }
    let share = share.clamp(0.0, 1.0);
    let upper = stops.iter().position(|(at, _)| *at >= share).unwrap_or(stops.len() - 1).max(1);
    let ((a, from), (b, to)) = (stops[upper - 1], stops[upper]);
    let along = (share - a) / (b - a);
    let part = |n: usize| (from[n] + (to[n] - from[n]) * along).round() as u8;
    format!("#{:02x}{:02x}{:02x}", part(0), part(1), part(2))
}

/// Escapes text for XML.
pub fn escape_xml(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Returns width and height of a pipe's picture, in pixels.
fn picture_size(pipe: &PipeHeat) -> (f64, f64) {
    let stages = pipe.rows.iter().map(|row| row.used.len()).max().unwrap_or(0);
    (LEFT + CELL * stages as f64 + 70.0, TOP + CELL * pipe.rows.len() as f64 + 10.0)
}

/// Renders all pipes in one picture, one below the other, as a complete SVG file.
pub fn file(pipes: &[PipeHeat]) -> String {
    let width = pipes.iter().map(|pipe| picture_size(pipe).0).fold(0.0, f64::max);
    let height: f64 = pipes.iter().map(|pipe| picture_size(pipe).1).sum();
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\">\n"
    );
    let mut y = 0.0;
    for pipe in pipes {
        out.push_str(&svg(pipe).replacen("<svg ", &format!("<svg y=\"{y}\" "), 1));
        y += picture_size(pipe).1;
    }
    out.push_str("</svg>\n");
    out
}

/// Renders one pipe as an `<svg>` element.
/// Rows are resources, columns stages; the share of the pipe is at the end of each row.
pub fn svg(pipe: &PipeHeat) -> String {
    let stages = pipe.rows.iter().map(|row| row.used.len()).max().unwrap_or(0);
    let (width, height) = picture_size(pipe);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
         font-family=\"sans-serif\" font-size=\"11\" role=\"img\" aria-label=\"{}\">\n",
        escape_xml(&pipe.name)
    );
    let _ =
        writeln!(out, "<text x=\"4\" y=\"14\" font-size=\"13\" font-weight=\"bold\">{}</text>", escape_xml(&pipe.name));
    for stage in 0..stages {
        let x = LEFT + CELL * (stage as f64 + 0.5);
        let _ = writeln!(out, "<text x=\"{x}\" y=\"{}\" text-anchor=\"middle\">{stage}</text>", TOP - 6.0);
    }
    for (index, row) in pipe.rows.iter().enumerate() {
        let y = TOP + CELL * index as f64;
        let middle = y + CELL * 0.62;
        let _ = writeln!(
            out,
            "<text x=\"{}\" y=\"{middle}\" text-anchor=\"end\">{}</text>",
            LEFT - 6.0,
            escape_xml(&row.resource)
        );
        for (stage, (used, available)) in row.used.iter().zip(&row.of).enumerate() {
            append_cell(&mut out, row, stage, y, *used, *available);
        }
        let share = format!("{:.1} %", 100.0 * row.share());
        let _ = writeln!(out, "<text x=\"{}\" y=\"{middle}\">{share}</text>", LEFT + CELL * stages as f64 + 6.0);
    }
    out.push_str("</svg>\n");
    out
}

fn append_cell(out: &mut String, row: &offload::plan::HeatRow, stage: usize, y: f64, used: u32, of: u32) {
    let share = if of == 0 { f64::from(used.min(1)) * 2.0 } else { f64::from(used) / f64::from(of) };
    let x = LEFT + CELL * stage as f64;
    let ink = if share > 0.6 { "#fff" } else { "#333" };
    let tables = row.tables.get(stage).map(|names| names.join(", ")).unwrap_or_default();
    let title =
        format!("stage {stage}, {}: {used} of {of}{}{tables}", row.resource, if tables.is_empty() { "" } else { ": " });
    let _ = writeln!(
        out,
        "<g><title>{}</title><rect x=\"{x}\" y=\"{y}\" width=\"{CELL}\" height=\"{CELL}\" fill=\"{}\" stroke=\"#fff\"/>\
         <text x=\"{}\" y=\"{}\" text-anchor=\"middle\" fill=\"{ink}\">{used}</text></g>",
        escape_xml(&title),
        colour(share),
        x + CELL / 2.0,
        y + CELL * 0.62,
    );
}

/// Renders one pipe as text: a line per resource, a block of four columns per stage, darker for
/// fuller stages.
pub fn text(pipe: &PipeHeat) -> String {
    let wide = pipe.rows.iter().map(|row| row.resource.len()).max().unwrap_or(0);
    let stages = pipe.rows.iter().map(|row| row.used.len()).max().unwrap_or(0);
    let mut out = format!("{}\n{:wide$} ", pipe.name, "stage");
    for stage in 0..stages {
        let _ = write!(out, "{stage:>4}");
    }
    out.push('\n');
    for row in &pipe.rows {
        let _ = write!(out, "{:wide$} ", row.resource);
        for (used, of) in row.used.iter().zip(&row.of) {
            let share = f64::from(*used) / f64::from((*of).max(1));
            let shade = [' ', '░', '▒', '▓', '█'][(share * 4.0).ceil().clamp(0.0, 4.0) as usize];
            let _ = write!(out, "{shade}{used:>3}");
        }
        let _ = writeln!(out, "  {:5.1} %", 100.0 * row.share());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use offload::plan::HeatRow;

    fn pipe() -> PipeHeat {
        let row = HeatRow {
            resource: "SRAM <blocks>".to_owned(),
            used: vec![0, 40, 80],
            of: vec![80; 3],
            tables: vec![vec![], vec!["a".to_owned()], vec!["a".to_owned(), "b".to_owned()]],
        };
        PipeHeat { name: "pipe 0".to_owned(), rows: vec![row] }
    }

    #[test]
    fn a_picture_shows_every_stage_and_escapes_names() {
        let picture = svg(&pipe());
        assert_eq!(picture.matches("<rect").count(), 3);
        assert!(picture.contains("stage 2, SRAM &lt;blocks&gt;: 80 of 80: a, b"), "{picture}");
        assert!(picture.contains("50.0 %") && !picture.contains("<blocks>"));
        assert!(picture.contains(&colour(1.0)) && picture.contains(&colour(0.5)));
    }

    #[test]
    fn a_file_is_one_picture() {
        let file = file(&[pipe(), pipe()]);
        assert!(file.starts_with("<svg xmlns") && file.ends_with("</svg>\n"));
        assert_eq!(file.matches("<svg").count(), 3);
        assert_eq!(file.matches("</svg>").count(), 3);
        assert!(file.contains("<svg y=\"0\"") && file.contains("<svg y=\"80\""), "{file}");
    }

    #[test]
    fn a_terminal_shows_the_same() {
        let lines = text(&pipe());
        assert!(lines.contains("SRAM <blocks>    0▒ 40█ 80   50.0 %"), "{lines}");
    }
}
