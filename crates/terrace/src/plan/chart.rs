//! Plots of parameter sweeps.

use super::heat::escape_xml;
use offload::plan::Sweep;
use plotters::prelude::*;

/// Line colours that remain distinct with colour blindness.
pub const COLOURS: [RGBColor; 6] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(120, 120, 120),
];

/// Renders a sweep as an `<svg>` element: blocks (SRAM solid, TCAM lighter) in per cent of a pipe
/// over the parameter.
pub fn svg(sweep: &Sweep) -> String {
    let mut out = String::new();
    match draw_sweep(sweep, &mut out) {
        Ok(()) => out,
        Err(error) => format!("<p>the plot could not be drawn: {}</p>", escape_xml(&error)),
    }
}

/// Draws the shares of SRAM and TCAM over a parameter as SVG, a colour per line. A vertical bar
/// marks the largest value that fits, if a larger one does not. Shares above 1000% are cut off.
fn draw_sweep(sweep: &Sweep, out: &mut String) -> Result<(), String> {
    let points = || sweep.lines.iter().flat_map(|line| &line.points);
    let right = points().map(|p| p.at).fold(1.0, f64::max);
    let top = points().map(|p| p.sram.max(p.tcam)).filter(|v| v.is_finite()).fold(100.0, f64::max).min(1000.0);
    let failed = |error: DrawingAreaErrorKind<std::io::Error>| error.to_string();
    {
        let area = SVGBackend::with_string(out, (760, 380)).into_drawing_area();
        area.fill(&WHITE).map_err(failed)?;
        let mut chart = ChartBuilder::on(&area)
            .margin(12)
            .x_label_area_size(40)
            .y_label_area_size(56)
            .build_cartesian_2d(0.0..right, 0.0..top * 1.05)
            .map_err(failed)?;
        chart
            .configure_mesh()
            .x_desc(sweep.parameter.as_str())
            .y_desc("% of a pipe")
            .x_label_formatter(&|x| format_axis_number(*x))
            .draw()
            .map_err(failed)?;
        for (n, line) in sweep.lines.iter().enumerate() {
            let colour = COLOURS[n % COLOURS.len()];
            let label = match (&sweep.per, line.value) {
                (Some(per), Some(value)) => format!("{per} {value}"),
                _ => String::new(),
            };
            let sram = line.points.iter().map(|p| (p.at, p.sram));
            chart
                .draw_series(LineSeries::new(sram, colour.stroke_width(2)))
                .map_err(failed)?
                .label(format!("{label} SRAM"))
                .legend(move |(x, y)| PathElement::new(vec![(x, y), (x + 18, y)], colour.stroke_width(2)));
            let tcam = line.points.iter().map(|p| (p.at, p.tcam));
            chart
                .draw_series(LineSeries::new(tcam, colour.mix(0.45).stroke_width(1)))
                .map_err(failed)?
                .label(format!("{label} TCAM"))
                .legend(move |(x, y)| PathElement::new(vec![(x, y), (x + 18, y)], colour.mix(0.45).stroke_width(1)));
            if let Some(fits) = line.reach.fits.filter(|_| line.reach.fails.is_some()) {
                chart
                    .draw_series([PathElement::new(vec![(fits, 0.0), (fits, top)], colour.mix(0.3).stroke_width(1))])
                    .map_err(failed)?;
            }
        }
        chart
            .configure_series_labels()
            .border_style(BLACK.mix(0.2))
            .background_style(WHITE.mix(0.8))
            .draw()
            .map_err(failed)?;
        area.present().map_err(failed)?;
    }
    Ok(())
}

/// Formats a number for an axis.
pub fn format_axis_number(value: f64) -> String {
    match value {
        v if v >= 1e6 => format!("{:.1}M", v / 1e6),
        v if v >= 1e4 => format!("{:.0}k", v / 1e3),
        v if v >= 10.0 => format!("{v:.0}"),
        v => format!("{v:.2}"),
    }
}
