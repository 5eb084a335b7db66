//! Sweeps: the limit of a parameter up to which the program fits.

use super::report::{Sweep, SweepLine, SweepPoint};
use crate::sizing::Sizing;
use crate::sweep::{find_reach, sweep_points};
use asic::transform::TableSizes;

/// Number of points in the plot of a sweep.
const POINTS: usize = 13;

/// Relative precision of a sweep: 1 %.
const PRECISION: f64 = 0.01;

/// Request for a sweep.
#[derive(Clone, PartialEq, Debug)]
pub struct SweepRequest {
    /// Name of the parameter.
    pub parameter: String,
    /// First value.
    pub from: f64,
    /// Last value.
    pub to: f64,
    /// Name of a second parameter, with its values.
    pub per: Option<(String, Vec<f64>)>,
}

/// Model that a sweep evaluates.
pub trait SweepModel {
    /// Error of an evaluation.
    type Error;
    /// Returns the SRAM and TCAM demand of tables in percent of a pipe.
    ///
    /// # Errors
    /// The program's demand is unknown.
    fn utilization_percent(&mut self, sizes: &TableSizes) -> Result<(f64, f64), Self::Error>;
    /// Returns whether the program fits.
    ///
    /// # Errors
    /// As [`SweepModel::utilization`].
    fn fits(&mut self, sizes: &TableSizes) -> Result<bool, Self::Error>;
}

/// Sweeps a parameter.
///
/// # Errors
/// Message for the user: an unknown parameter, a formula without a value, or an error of the model.
pub fn run_sweep<T: SweepModel>(sizing: &Sizing, request: &SweepRequest, model: &mut T) -> Result<Sweep, String>
where
    T::Error: ToString,
{
    let values = match &request.per {
        Some((_, values)) => values.iter().map(|v| Some(*v)).collect(),
        None => vec![None],
    };
    let mut lines = Vec::new();
    for value in values {
        let sizing = match (&request.per, value) {
            (Some((name, _)), Some(value)) => sizing.with_parameter(name, value)?,
            _ => sizing.clone(),
        };
        let sizes = |parameter_value: f64| -> Result<TableSizes, String> {
            sizing.with_parameter(&request.parameter, parameter_value)?.sizes().map_err(|error| error.to_string())
        };
        let reach = find_reach(request.from, request.to, PRECISION, |parameter_value| {
            model.fits(&sizes(parameter_value)?).map_err(|error| error.to_string())
        })?;
        let mut points = Vec::new();
        for parameter_value in sweep_points(request.from, request.to, POINTS) {
            let (sram, tcam) =
                model.utilization_percent(&sizes(parameter_value)?).map_err(|error| error.to_string())?;
            points.push(SweepPoint { at: parameter_value, sram, tcam });
        }
        lines.push(SweepLine { value, reach, points });
    }
    let per = request.per.as_ref().map(|(name, _)| name.clone());
    Ok(Sweep { parameter: request.parameter.clone(), per, lines })
}

impl std::str::FromStr for SweepRequest {
    type Err = String;

    /// Parses `vms=100k..4M` or `vms=100k..4M/ipv6=0,0.25,1`.
    fn from_str(text: &str) -> Result<SweepRequest, String> {
        let usage_error = || format!("`{text}` is no sweep; write NAME=FROM..TO or NAME=FROM..TO/NAME=VALUE,VALUE");
        let (first, second) = match text.split_once('/') {
            Some((first, second)) => (first, Some(second)),
            None => (text, None),
        };
        let (parameter, range) = first.split_once('=').ok_or_else(usage_error)?;
        let (from, to) = range.split_once("..").ok_or_else(usage_error)?;
        let (from, to) = (parse_number(from)?, parse_number(to)?);
        if !(from >= 0.0 && from < to) {
            return Err(format!("`{range}`: the second number must be the larger one"));
        }
        let per = match second {
            None => None,
            Some(second) => {
                let (name, values) = second.split_once('=').ok_or_else(usage_error)?;
                let values = values.split(',').map(parse_number).collect::<Result<Vec<f64>, String>>()?;
                if values.len() > 8 {
                    return Err("at most 8 lines in a sweep".to_owned());
                }
                Some((name.trim().to_owned(), values))
            }
        };
        Ok(SweepRequest { parameter: parameter.trim().to_owned(), from, to, per })
    }
}

/// Parses a number such as `4M`, `0.25` or `1_000`.
pub fn parse_number(text: &str) -> Result<f64, String> {
    let text = text.trim();
    let (digits, scale) = match text.strip_suffix('M') {
        Some(rest) => (rest, 1e6),
        None => text.strip_suffix('k').map_or((text, 1.0), |rest| (rest, 1e3)),
    };
    let value: Result<f64, _> = digits.replace('_', "").parse();
    match value {
        Ok(value) if value.is_finite() => Ok(value * scale),
        _ => Err(format!("`{text}` is no number; write 4M, 100k, 1_000 or 0.25")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sizing::AllowedNames;

    struct Model;

    impl SweepModel for Model {
        type Error = String;
        fn utilization_percent(&mut self, sizes: &TableSizes) -> Result<(f64, f64), String> {
            Ok((sizes["a"] as f64 / 100.0, 0.0))
        }
        fn fits(&mut self, sizes: &TableSizes) -> Result<bool, String> {
            Ok(sizes["a"] <= 10_000)
        }
    }

    #[test]
    fn a_sweep_has_a_line_for_each_value() {
        let text = "[parameters]\nvms = 1\nper = 1\n[tables]\na = \"vms * per\"\n";
        let sizing =
            Sizing::parse(text, &AllowedNames { tables: vec!["a".to_owned()], ..AllowedNames::default() }).unwrap();
        let ask: SweepRequest = "vms=100..1M/per=1,2,5".parse().unwrap();
        let found = run_sweep(&sizing, &ask, &mut Model).unwrap();
        let reached: Vec<f64> = found.lines.iter().map(|line| line.reach.fits.unwrap()).collect();
        for (reached, wanted) in reached.iter().zip([10_000.0, 5_000.0, 2_000.0]) {
            assert!(*reached <= wanted && *reached > wanted * 0.98, "{reached} {wanted}");
        }
        assert_eq!(found.lines[0].points.len(), POINTS);
        assert!(run_sweep(&sizing, &"nope=1..2".parse().unwrap(), &mut Model).unwrap_err().contains("vms"));
    }

    #[test]
    fn what_is_no_sweep_is_refused() {
        for wrong in
            ["vms", "vms=1", "vms=5..2", "vms=a..b", "vms=1..2/x", "vms=1..2/x=1,2,3,4,5,6,7,8,9", "vms=inf..2"]
        {
            assert!(wrong.parse::<SweepRequest>().is_err(), "{wrong}");
        }
    }
}
