//! A whole program for a chip: from its pipeline to the text, and to what the text asks of the chip.

use super::passes::{Asked, run_passes};
use super::{halves, narrow, prepare};
use crate::emit::names::Names;
use crate::emit::{EmitError, Emitted, Emitter, Halves, Stop, Target, Unsupported, coalesce};
use crate::rewrite::Sizes;
use ir::passes::Pass;
use ir::*;

/// A condition that is a table in the text, as no gateway decides it.
pub(in crate::emit) struct Check<'a> {
    /// The table's name.
    pub(in crate::emit) name: String,
    /// The code that it is in.
    pub(in crate::emit) body: &'a Body,
    /// The condition.
    pub(in crate::emit) cond: Value,
    /// Entries of the table.
    pub(in crate::emit) entries: u64,
    /// What the condition is where the table hits.
    pub(in crate::emit) holds: bool,
}

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

/// Makes a table of a condition: it hits, or misses, where the branch went one way, or the other.
fn decide_by_table(p: &mut Pipeline, control: ControlId, check: &Check<'_>) {
    let body = &p.controls[control].body;
    let asked = asked(body, check.cond);
    let branches = |data: &BlockData| match &data.term.as_ref()?.term {
        Term::Branch { cond, then, els } if *cond == check.cond => Some([then.clone(), els.clone()]),
        _ => None,
    };
    let Some((block, [then, els])) = body.blocks.iter().find_map(|(block, data)| Some((block, branches(data)?))) else {
        return;
    };
    let name = format!("{}.{}", p.controls[control].name, check.name);
    let keys = asked.iter().enumerate();
    let keys =
        keys.map(|(n, value)| Key::new(format!("asked_{n}"), body.value_type(*value), MatchKind::Ternary)).collect();
    let mut action = |what: &str| {
        let preamble = Preamble { name: format!("{name}_{what}"), hidden: true, ..Preamble::default() };
        p.actions.push(Action { preamble, params: Vec::new(), loc: Loc::default() })
    };
    let (holds, fails) = (action("holds"), action("fails"));
    let preamble = Preamble { name: name.clone(), hidden: true, ..Preamble::default() };
    let default = ActionCall { action: fails, args: Vec::new() };
    let actions = vec![ActionRef::new(holds), ActionRef { default_only: true, ..ActionRef::new(fails) }];
    let table =
        Table { size: Some(check.entries), const_default: true, ..Table::new(preamble, keys, actions, default) };
    let table = p.tables.push(table);
    let (hit, miss) = if check.holds { (then, els) } else { (els, then) };
    let body = &mut p.controls[control].body;
    let mut arm = |action, then| {
        let hit = body.values.push(Type::Bool);
        Arm { action, block: body.push_block(vec![hit], Vec::new(), Term::Jump(then)) }
    };
    let arms = vec![arm(holds, hit), arm(fails, miss)];
    let loc = body.blocks[block].term.as_ref().map_or(Loc::default(), |term| term.loc);
    body.blocks[block].term = Some(TermData { term: Term::Apply { table, keys: asked, arms }, loc });
}

/// What a condition asks for, down to what the packet brings, each once.
fn asked(body: &Body, cond: Value) -> Vec<Value> {
    let (mut found, mut seen, mut todo) = (Vec::new(), vec![cond], vec![cond]);
    let mut states = Vec::new();
    while let Some(value) = todo.pop() {
        match body.definition(value).map(|data| &data.inst) {
            Some(Inst::Const(_)) => {}
            Some(
                inst @ (Inst::Binary(..) | Inst::Unary(..) | Inst::Slice { .. } | Inst::Cast(..) | Inst::Concat(..)),
            ) => {
                inst.for_each_use(|of| {
                    if !seen.contains(&of) {
                        seen.push(of);
                        todo.push(of);
                    }
                });
            }
            // The same variable may have been loaded twice.
            Some(inst) if states.contains(inst) => {}
            other => {
                states.extend(other.cloned());
                found.push(value);
            }
        }
    }
    found
}
