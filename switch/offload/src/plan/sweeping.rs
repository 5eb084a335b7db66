//! Sweeps: how far a parameter can go until the program does not fit any more.

use super::report::{Sweep, SweepLine, SweepPoint};
use crate::sizing::Sizing;
use crate::sweep::{reach, steps};
use asic::rewrite::Sizes;

/// Points that a plot of a sweep has.
const POINTS: usize = 13;

/// Precision of a sweep: 1 %.
const PRECISION: f64 = 0.01;

/// What is swept.
#[derive(Clone, PartialEq, Debug)]
pub struct SweepAsk {
    /// The parameter.
    pub parameter: String,
    /// From here.
    pub from: f64,
    /// To here.
    pub to: f64,
    /// A second parameter, with the values of its lines.
    pub per: Option<(String, Vec<f64>)>,
}

/// What tables ask for (SRAM and TCAM in per cent of a pipe) with so many entries, and whether they fit.
pub trait Try {
    /// Why it cannot be said.
    type Error;
    /// Shares of a pipe's SRAM and TCAM, in per cent.
    ///
    /// # Errors
    /// If the program's demand cannot be told.
    fn shares(&mut self, sizes: &Sizes) -> Result<(f64, f64), Self::Error>;
    /// Whether it fits.
    ///
    /// # Errors
    /// As [`Try::shares`].
    fn fits(&mut self, sizes: &Sizes) -> Result<bool, Self::Error>;
}

/// Sweeps a parameter.
///
/// # Errors
/// Texts for people: a parameter that is not there, a formula without value, or what `tries` says.
pub fn sweep<T: Try>(sizing: &Sizing, ask: &SweepAsk, tries: &mut T) -> Result<Sweep, String>
where
    T::Error: ToString,
{
    let values = match &ask.per {
        Some((_, values)) => values.iter().map(|v| Some(*v)).collect(),
        None => vec![None],
    };
    let mut lines = Vec::new();
    for value in values {
        let sizing = match (&ask.per, value) {
            (Some((name, _)), Some(value)) => sizing.with(name, value)?,
            _ => sizing.clone(),
        };
        let sizes = |at: f64| -> Result<Sizes, String> {
            sizing.with(&ask.parameter, at)?.sizes().map_err(|error| error.to_string())
        };
        let found =
            reach(ask.from, ask.to, PRECISION, |at| tries.fits(&sizes(at)?).map_err(|error| error.to_string()))?;
        let mut points = Vec::new();
        for at in steps(ask.from, ask.to, POINTS) {
            let (sram, tcam) = tries.shares(&sizes(at)?).map_err(|error| error.to_string())?;
            points.push(SweepPoint { at, sram, tcam });
        }
        lines.push(SweepLine { value, reach: found, points });
    }
    let per = ask.per.as_ref().map(|(name, _)| name.clone());
    Ok(Sweep { parameter: ask.parameter.clone(), per, lines })
}

impl std::str::FromStr for SweepAsk {
    type Err = String;

    /// `vms=100k..4M`, or `vms=100k..4M/ipv6=0,0.25,1`.
    fn from_str(text: &str) -> Result<SweepAsk, String> {
        let form = || format!("`{text}` is no sweep; write NAME=FROM..TO or NAME=FROM..TO/NAME=VALUE,VALUE");
        let (first, second) = match text.split_once('/') {
            Some((first, second)) => (first, Some(second)),
            None => (text, None),
        };
        let (parameter, range) = first.split_once('=').ok_or_else(form)?;
        let (from, to) = range.split_once("..").ok_or_else(form)?;
        let (from, to) = (number(from)?, number(to)?);
        if !(from >= 0.0 && from < to) {
            return Err(format!("`{range}`: the second number must be the larger one"));
        }
        let per = match second {
            None => None,
            Some(second) => {
                let (name, values) = second.split_once('=').ok_or_else(form)?;
                let values = values.split(',').map(number).collect::<Result<Vec<f64>, String>>()?;
                if values.len() > 8 {
                    return Err("at most 8 lines in a sweep".to_owned());
                }
                Some((name.trim().to_owned(), values))
            }
        };
        Ok(SweepAsk { parameter: parameter.trim().to_owned(), from, to, per })
    }
}

/// A number as people write it: `4M`, `0.25`, `1_000`.
pub fn number(text: &str) -> Result<f64, String> {
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
    use crate::sizing::Names;

    struct Model;

    impl Try for Model {
        type Error = String;
        fn shares(&mut self, sizes: &Sizes) -> Result<(f64, f64), String> {
            Ok((sizes["a"] as f64 / 100.0, 0.0))
        }
        fn fits(&mut self, sizes: &Sizes) -> Result<bool, String> {
            Ok(sizes["a"] <= 10_000)
        }
    }

    #[test]
    fn a_sweep_has_a_line_for_each_value() {
        let text = "[parameters]\nvms = 1\nper = 1\n[tables]\na = \"vms * per\"\n";
        let sizing = Sizing::parse(text, &Names { tables: vec!["a".to_owned()], ..Names::default() }).unwrap();
        let ask: SweepAsk = "vms=100..1M/per=1,2,5".parse().unwrap();
        let found = sweep(&sizing, &ask, &mut Model).unwrap();
        let reached: Vec<f64> = found.lines.iter().map(|line| line.reach.fits.unwrap()).collect();
        for (reached, wanted) in reached.iter().zip([10_000.0, 5_000.0, 2_000.0]) {
            assert!(*reached <= wanted && *reached > wanted * 0.98, "{reached} {wanted}");
        }
        assert_eq!(found.lines[0].points.len(), POINTS);
        assert!(sweep(&sizing, &"nope=1..2".parse().unwrap(), &mut Model).unwrap_err().contains("vms"));
    }

    #[test]
    fn what_is_no_sweep_is_refused() {
        for wrong in
            ["vms", "vms=1", "vms=5..2", "vms=a..b", "vms=1..2/x", "vms=1..2/x=1,2,3,4,5,6,7,8,9", "vms=inf..2"]
        {
            assert!(wrong.parse::<SweepAsk>().is_err(), "{wrong}");
        }
    }
}
