//! Cuts off what a chip's architecture has no form for.

use super::{At, Cut, CutError, MAX_STOPS, Options, Stop, cut, cuttable};
use asic::emit::{EmitError, Emitted, Halves, Target, Unsupported, emit_over};
use asic::rewrite::Sizes;
use ir::{Block, ExternFn, Inst, InstData, Loc, Pipeline};
use std::collections::BTreeMap;

/// A program for a chip, and what is left to the tier below.
#[derive(Clone, Debug)]
pub struct Divided {
    /// The chip's part, written. What it leaves out is not cut off: it is in the parser, or only counts.
    pub emitted: Emitted,
    /// Both halves; none if the chip can do all of it, or all that could be cut off.
    pub cut: Option<Cut>,
    /// What was cut off because it has no form.
    pub without_form: Vec<Unsupported>,
}

/// Why a program was not divided.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum DivideError {
    /// The architecture has no form for something that cannot be cut off.
    #[error(transparent)]
    Emit(#[from] EmitError),
    /// It cannot be cut where it would have to be.
    #[error("it cannot be cut where {target} has no form for what it does: {error}")]
    Cut {
        /// The architecture.
        target: &'static str,
        /// Why.
        error: CutError,
    },
}

/// Writes for an architecture what that can express of a program: packets that need more leave to the tier below with a bridge header.
///
/// # Errors
/// [`DivideError`].
pub fn divide(
    pipeline: &Pipeline,
    target: Target,
    sizes: &Sizes,
    halves: Halves,
    options: Options,
) -> Result<Divided, DivideError> {
    let refused = |error| DivideError::Cut { target: target.name(), error };
    let (mut stops, mut without_form) = (Stops::new(), Vec::new());
    loop {
        let cut = match stops.is_empty() {
            true => None,
            false => Some(cut(pipeline, &stops.all(pipeline), options).map_err(refused)?),
        };
        let upper = cut.as_ref().map_or(pipeline, |cut| &cut.upper);
        let emitted = emit_over(upper, target, sizes, halves);
        let found: &[Unsupported] = match &emitted {
            Ok(emitted) => &emitted.left_out,
            Err(EmitError::Unsupported { what, .. }) => std::slice::from_ref(what),
        };
        let mut more = false;
        for what in found {
            if stops.add(pipeline, what) {
                without_form.push(what.clone());
                more = true;
            }
        }
        if !more {
            return Ok(Divided { emitted: emitted?, cut, without_form });
        }
        if stops.count() > MAX_STOPS {
            return Err(refused(CutError::TooMany(stops.count())));
        }
    }
}

/// Places in the control that can be cut, of each block the first one: an instruction, or the end.
struct Stops(BTreeMap<Block, (usize, String)>);

impl Stops {
    fn new() -> Stops {
        Stops(BTreeMap::new())
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn count(&self) -> usize {
        self.0.len()
    }

    /// Adds the places of something that the chip has no form for; whether there were any that were not known.
    fn add(&mut self, pipeline: &Pipeline, what: &Unsupported) -> bool {
        let mut more = false;
        for (block, at) in places(pipeline, what.loc) {
            let known = self.0.entry(block).or_insert((usize::MAX, String::new()));
            if at < known.0 {
                *known = (at, what.what.clone());
                more = true;
            }
        }
        more
    }

    fn all(&self, pipeline: &Pipeline) -> Vec<Stop> {
        let Some((control, declared)) = cuttable(pipeline) else {
            return Vec::new();
        };
        let stop = |(block, (at, why)): (&Block, &(usize, String))| {
            let insts = declared.body.blocks[*block].insts.len();
            let at = if *at < insts { At::Inst(*at) } else { At::Term };
            Stop { control, block: *block, at, hot: false, why: why.clone() }
        };
        self.0.iter().map(stop).collect()
    }
}

/// Where in the control something is that is written there in the program: by block, the first of its instructions, or their number for the block's end.
/// What is declared there is where it is used. What only counts is nowhere: no packet shall leave, dropped ones least of all, to be counted.
fn places(pipeline: &Pipeline, loc: Loc) -> BTreeMap<Block, usize> {
    let mut places = BTreeMap::new();
    let Some((_, control)) = cuttable(pipeline).filter(|_| loc.line > 0) else {
        return places;
    };
    let declared = |inst: &Inst| match inst {
        Inst::Extern { object: Some(object), .. } => pipeline.externs.get(*object).is_some_and(|o| o.loc == loc),
        _ => false,
    };
    let counts =
        |inst: &Inst| matches!(inst, Inst::Extern { func: ExternFn::CounterCount | ExternFn::DirectCounterCount, .. });
    for (block, data) in control.body.blocks.iter() {
        let here = |data: &InstData| (data.loc == loc || declared(&data.inst)) && !counts(&data.inst);
        let end = data.term.as_ref().filter(|term| term.loc == loc).map(|_| data.insts.len());
        if let Some(at) = data.insts.iter().position(here).or(end) {
            places.insert(block, at);
        }
    }
    places
}
