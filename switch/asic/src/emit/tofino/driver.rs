//! Driver of the Tofino back-end: from a pipeline to the source and its resource requirements.

use super::check_table::{CheckTable, decide_by_table};
use super::passes::{ExternallyReadVars, run_passes};
use super::{gress_split, legalize, port_narrowing};
use crate::emit::names::EmittedNames;
use crate::emit::{
    EmitAbort, EmitError, EmitTarget, EmittedProgram, GressUse, P4Emitter, UnsupportedConstruct, coalesce,
};
use crate::transform::TableSizes;
use ir::passes::Pass;
use ir::*;

/// Pipeline after legalization and all passes.
struct TofinoPipeline {
    prepared: legalize::LegalizedPipeline,
    /// Name of the metadata parameter.
    meta: String,
    bridge_bytes: Option<u32>,
}

/// Emitted source with the omitted constructs.
struct WrittenProgram<'a> {
    text: String,
    left_out: Vec<UnsupportedConstruct>,
    checks: Vec<CheckTable<'a>>,
}

/// Emits a PNA pipeline for a chip.
pub(in crate::emit) fn emit(
    pipeline: &Pipeline,
    target: EmitTarget,
    sizes: &TableSizes,
    halves: GressUse,
) -> Result<EmittedProgram, EmitError> {
    let shaped = TofinoPipeline::new(pipeline, target, halves, &mut |_, _| {})?;
    let WrittenProgram { text, left_out, .. } = shaped.write_text(target, sizes)?;
    Ok(EmittedProgram { text, left_out, bridge_bytes: shaped.bridge_bytes })
}

/// Returns the pipeline that the emitted source describes, for placement: without omitted
/// constructs, after all passes, split into gresses, with the added tables. Tables that evaluate
/// conditions have keys and a size but no entries, so the pipeline is not executable.
///
/// # Errors
/// As for [`crate::emit::emit_with_gresses`], and for an architecture without a chip.
pub fn pipeline_for_planning(
    pipeline: &Pipeline,
    target: EmitTarget,
    sizes: &TableSizes,
    halves: GressUse,
) -> Result<Pipeline, EmitError> {
    require_chip_architecture(pipeline, target)?;
    let shaped = TofinoPipeline::new(pipeline, target, halves, &mut |_, _| {})?;
    let written = shaped.write_text(target, sizes)?;
    let mut out = shaped.prepared.pipeline.clone();
    for check in &written.checks {
        let of = shaped.prepared.pipeline.controls.iter().find(|(_, control)| std::ptr::eq(&control.body, check.body));
        if let Some((control, _)) = of {
            decide_by_table(&mut out, control, check);
        }
    }
    Ok(out)
}

/// Runs the passes of a chip over a PNA pipeline as [`crate::emit::emit_with_gresses`] does;
/// `observe` receives the pipeline after each.
///
/// # Errors
/// As for [`crate::emit::emit_with_gresses`], and for an architecture without a chip.
pub fn observe_passes(
    pipeline: &Pipeline,
    target: EmitTarget,
    halves: GressUse,
    mut observe: impl FnMut(&Pass<ExternallyReadVars>, &Pipeline),
) -> Result<(), EmitError> {
    require_chip_architecture(pipeline, target)?;
    TofinoPipeline::new(pipeline, target, halves, &mut observe).map(drop)
}

/// Returns an error for an architecture without a chip.
fn require_chip_architecture(pipeline: &Pipeline, target: EmitTarget) -> Result<(), EmitError> {
    if target.is_tofino() {
        return Ok(());
    }
    let what = UnsupportedConstruct::new(
        pipeline,
        SourceLoc::default(),
        "there is no chip of this architecture, so nothing can be placed",
    );
    Err(EmitError::Unsupported { target: target.name(), what })
}

impl TofinoPipeline {
    /// Legalizes and optimises a pipeline; `observe` receives it after each pass.
    fn new(
        pipeline: &Pipeline,
        target: EmitTarget,
        gresses: GressUse,
        observe: &mut dyn FnMut(&Pass<ExternallyReadVars>, &Pipeline),
    ) -> Result<TofinoPipeline, EmitError> {
        if pipeline.arch != Arch::Pna {
            let reason = "it is written for v1model; programs for the chip are written for PNA";
            let reason = UnsupportedConstruct::new(pipeline, SourceLoc::default(), reason);
            return Err(EmitError::Unsupported { target: target.name(), what: reason });
        }
        let coalesced = coalesce::coalesce(pipeline);
        let storage = EmittedNames::new(&coalesced, "", None).storage;
        let (hdr, meta) = (storage.hdr, storage.meta);
        let mut prepared = legalize::legalize(&coalesced, &meta);
        let mut bridge_bytes = None;
        if gresses == GressUse::Both
            && let Some(split) = gress_split::split_for_emission(
                &prepared.pipeline,
                &prepared.deparser_checksums,
                &hdr,
                gress_split::egress_parse_limit(target),
            )
        {
            bridge_bytes = Some(split.bridge_bytes);
            prepared.pipeline = split.pipeline;
        }
        let externally_read: Vec<VarId> = prepared.deparser_checksums.iter().map(|sum| sum.update_flag).collect();
        run_passes(&mut prepared.pipeline, &externally_read, observe);
        port_narrowing::narrow_port_keys(&mut prepared.pipeline);
        Ok(TofinoPipeline { prepared, meta, bridge_bytes })
    }

    fn write_text<'a>(&'a self, target: EmitTarget, sizes: &'a TableSizes) -> Result<WrittenProgram<'a>, EmitError> {
        let mut emitter = P4Emitter::new(&self.prepared.pipeline, target, sizes, Some(&self.meta));
        emitter.left_out = self.prepared.left_out.clone();
        loop {
            match emitter.tofino_text(&self.prepared.deparser_checksums) {
                Ok(text) => {
                    return Ok(WrittenProgram { text, left_out: emitter.left_out, checks: emitter.check_tables });
                }
                Err(EmitAbort::Retry) => emitter.reset(),
                Err(EmitAbort::Refused(what)) => return Err(EmitError::Unsupported { target: target.name(), what }),
            }
        }
    }
}
