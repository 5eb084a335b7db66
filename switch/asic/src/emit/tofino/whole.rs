//! A whole program for a chip: from its pipeline to the text, and to what the text asks of the chip.

use super::check_table::{Check, decide_by_table};
use super::passes::{Asked, run_passes};
use super::{halves, narrow, prepare};
use crate::emit::names::Names;
use crate::emit::{EmitError, Emitted, Emitter, Halves, Stop, Target, Unsupported, coalesce};
use crate::rewrite::Sizes;
use ir::passes::Pass;
use ir::*;

/// A pipeline in the shape in which it is written.
struct Shaped {
    prepared: prepare::Prepared,
    /// The metadata's name.
    meta: String,
    bridge_bytes: Option<u32>,
}

/// What writing gives.
struct Written<'a> {
    text: String,
    left_out: Vec<Unsupported>,
    checks: Vec<Check<'a>>,
}

/// Writes a PNA pipeline for a chip.
pub(in crate::emit) fn emit(
    pipeline: &Pipeline,
    target: Target,
    sizes: &Sizes,
    halves: Halves,
) -> Result<Emitted, EmitError> {
    let shaped = Shaped::new(pipeline, target, halves, &mut |_, _| {})?;
    let Written { text, left_out, .. } = shaped.write(target, sizes)?;
    Ok(Emitted { text, left_out, bridge_bytes: shaped.bridge_bytes })
}

/// The pipeline as its text for a chip has it, so that it can be planned: without what is left out, in as few steps, cut into the pipe's halves,
/// and with the tables that the text has besides. Those that decide conditions have their keys and size, and no entries, so this is nothing to be run.
///
/// # Errors
/// As for [`crate::emit::emit_over`], and for an architecture that is no chip's.
pub fn laid_out(pipeline: &Pipeline, target: Target, sizes: &Sizes, halves: Halves) -> Result<Pipeline, EmitError> {
    for_a_chip(pipeline, target)?;
    let shaped = Shaped::new(pipeline, target, halves, &mut |_, _| {})?;
    let written = shaped.write(target, sizes)?;
    let mut out = shaped.prepared.pipeline.clone();
    for check in &written.checks {
        let of = shaped.prepared.pipeline.controls.iter().find(|(_, control)| std::ptr::eq(&control.body, check.body));
        if let Some((control, _)) = of {
            decide_by_table(&mut out, control, check);
        }
    }
    Ok(out)
}

/// Runs the passes of a chip over a PNA pipeline, as [`crate::emit::emit_over`] does; `observe` sees the pipeline after each.
///
/// # Errors
/// As for [`crate::emit::emit_over`], and for an architecture that is no chip's.
pub fn observe_passes(
    pipeline: &Pipeline,
    target: Target,
    halves: Halves,
    mut observe: impl FnMut(&Pass<Asked>, &Pipeline),
) -> Result<(), EmitError> {
    for_a_chip(pipeline, target)?;
    Shaped::new(pipeline, target, halves, &mut observe).map(drop)
}

/// Refuses an architecture that is no chip's.
fn for_a_chip(pipeline: &Pipeline, target: Target) -> Result<(), EmitError> {
    if target.is_tofino() {
        return Ok(());
    }
    let what = Unsupported::new(pipeline, Loc::default(), "there is no chip of this architecture to be planned for");
    Err(EmitError::Unsupported { target: target.name(), what })
}

impl Shaped {
    /// The pipeline's shape; `observe` sees it after each pass.
    fn new(
        pipeline: &Pipeline,
        target: Target,
        halves: Halves,
        observe: &mut dyn FnMut(&Pass<Asked>, &Pipeline),
    ) -> Result<Shaped, EmitError> {
        if pipeline.arch != Arch::Pna {
            let what = "it is written for v1model; programs for the chip are written for PNA";
            let what = Unsupported::new(pipeline, Loc::default(), what);
            return Err(EmitError::Unsupported { target: target.name(), what });
        }
        let plain = coalesce::coalesce(pipeline);
        let storage = Names::new(&plain, "", None).storage;
        let (hdr, meta) = (storage.hdr, storage.meta);
        let mut prepared = prepare::prepare(&plain, &meta);
        let mut bridge_bytes = None;
        if halves == Halves::Both
            && let Some(split) = halves::halves(&prepared.pipeline, &prepared.deparsed, &hdr, halves::depth(target))
        {
            bridge_bytes = Some(split.bytes);
            prepared.pipeline = split.pipeline;
        }
        let asked: Vec<VarId> = prepared.deparsed.iter().map(|sum| sum.wanted).collect();
        run_passes(&mut prepared.pipeline, &asked, observe);
        narrow::keys(&mut prepared.pipeline);
        Ok(Shaped { prepared, meta, bridge_bytes })
    }

    fn write<'a>(&'a self, target: Target, sizes: &'a Sizes) -> Result<Written<'a>, EmitError> {
        let mut emitter = Emitter::new(&self.prepared.pipeline, target, sizes, Some(&self.meta));
        emitter.left_out = self.prepared.left_out.clone();
        loop {
            match emitter.tofino(&self.prepared.deparsed) {
                Ok(text) => return Ok(Written { text, left_out: emitter.left_out, checks: emitter.checks }),
                Err(Stop::Again) => emitter.reset(),
                Err(Stop::Refused(what)) => return Err(EmitError::Unsupported { target: target.name(), what }),
            }
        }
    }
}
