//! Conversion of a PNA pipeline to v1model.
//!
//! v1model ports have 9 bits, and 510 is the CPU port. A packet without a verdict is dropped in
//! PNA, so the pipeline marks each packet to be dropped first. Hashes and checksums over one list
//! of fields become `hash`; other checksums become arithmetic (`checksum_arithmetic`). A construct
//! without a counterpart is an error that names it.

use super::UnsupportedConstruct;
use super::checksum_arithmetic::expand_checksums;
use ir::*;
use num_bigint::BigUint;
use std::collections::BTreeMap;

/// CPU port of v1model.
const V1MODEL_CPU: u32 = 510;
/// CPU port of PNA.
const PNA_CPU: u32 = 0xffff_fffd;

/// Converts a pipeline.
///
/// # Errors
/// The first construct without a counterpart, with its location.
pub(super) fn to_v1model(p: &Pipeline) -> Result<Pipeline, UnsupportedConstruct> {
    let mut converter = V1ModelConverter { p: p.clone(), old: p };
    expand_checksums(&mut converter.p)?;
    converter.convert_blocks()?;
    converter.convert_intrinsics()?;
    converter.check_tables()?;
    let ids: Vec<ControlId> = converter.p.controls.iter().map(|(id, _)| id).collect();
    for id in ids {
        let mut body = std::mem::take(&mut converter.p.controls[id].body);
        let kind = converter.p.controls[id].kind;
        let done = converter.convert_body(&mut body);
        if kind == ControlKind::Ingress {
            drop_by_default(&mut body);
        }
        converter.p.controls[id].body = body;
        done?;
    }
    Ok(converter.p)
}

struct V1ModelConverter<'a> {
    p: Pipeline,
    old: &'a Pipeline,
}

impl V1ModelConverter<'_> {
    fn refuse<T>(&self, loc: SourceLoc, what: impl Into<String>) -> Result<T, UnsupportedConstruct> {
        Err(UnsupportedConstruct::new(self.old, loc, what))
    }

    /// Replaces PNA's programmable blocks by v1model's: the main control becomes ingress, and
    /// egress and the checksum controls are empty. A pre control with code has no counterpart.
    fn convert_blocks(&mut self) -> Result<(), UnsupportedConstruct> {
        self.p.arch = Arch::V1Model;
        let controls: Vec<Control> = self.p.controls.values().cloned().collect();
        let control_of = |kind| controls.iter().find(|c| c.kind == kind).cloned();
        if let Some(pre) = control_of(ControlKind::PreControl) {
            let has_code = pre.body.blocks.values().any(|b| !b.insts.is_empty());
            if has_code {
                return self.refuse(SourceLoc::default(), "a pre control that does something");
            }
        }
        let empty = || {
            let mut body = Body::default();
            let term = Some(TerminatorData { term: Terminator::Return, loc: SourceLoc::default() });
            let entry = body.blocks.push(BlockData { term, ..BlockData::default() });
            body.entry = Some(entry);
            body
        };
        let converted = |from, kind| control_of(from).map(|c| Control { kind, ..c });
        let empty_control = |name: &str, kind| Some(Control { name: name.to_owned(), kind, body: empty() });
        let controls_in_order = [
            converted(ControlKind::MainParser, ControlKind::Parser),
            empty_control("verify_checksums", ControlKind::VerifyChecksum),
            converted(ControlKind::MainControl, ControlKind::Ingress),
            empty_control("egress_block", ControlKind::Egress),
            empty_control("compute_checksums", ControlKind::ComputeChecksum),
            converted(ControlKind::MainDeparser, ControlKind::Deparser),
        ];
        self.p.controls = EntityMap::new();
        for control in controls_in_order.into_iter().flatten() {
            self.p.controls.push(control);
        }
        Ok(())
    }

    /// Returns the location of an instruction that accesses a variable.
    fn is_used(&self, var: VarId) -> Option<SourceLoc> {
        self.p.insts().find(|i| matches!(i.inst, Inst::Load(v) | Inst::Store(v, _) if v == var)).map(|i| i.loc)
    }

    /// Renames the intrinsic variables to those of v1model. Refuses a variable that v1model lacks,
    /// if the program reads it.
    fn convert_intrinsics(&mut self) -> Result<(), UnsupportedConstruct> {
        let mut renamed: BTreeMap<String, VarId> = BTreeMap::new();
        for (name, var) in std::mem::take(&mut self.p.intrinsics) {
            let Some(loc) = self.is_used(var) else {
                // An unused intrinsic is not declared; it becomes a local.
                self.p.vars[var].kind = VarKind::Local;
                continue;
            };
            match name.as_str() {
                "istd.parser_error" => renamed.insert("standard_metadata.parser_error".into(), var),
                "istd.input_port" | "parser_istd.input_port" => {
                    self.p.vars[var].ty = Type::Bit(9);
                    renamed.insert("standard_metadata.ingress_port".into(), var)
                }
                _ => return self.refuse(loc, format!("`{name}`")),
            };
        }
        self.p.intrinsics = renamed;
        Ok(())
    }

    /// Refuses tables with properties that v1model does not have, and clears all others.
    fn check_tables(&mut self) -> Result<(), UnsupportedConstruct> {
        let tables: Vec<TableId> = self.p.tables.iter().map(|(id, _)| id).collect();
        for id in tables {
            let table = &self.p.tables[id];
            if table.add_on_miss {
                return self.refuse(
                    table.loc,
                    format!("table `{}`, to which the data plane adds entries", table.preamble.name),
                );
            }
            if table.direct_meter.is_some() {
                return self.refuse(table.loc, format!("the direct meter of table `{}`", table.preamble.name));
            }
            if table.direct_counter.is_some() {
                return self.refuse(
                    table.loc,
                    format!(
                        "the direct counter of table `{}`: v1model counts each hit, whatever the action",
                        table.preamble.name
                    ),
                );
            }
            if table.idle_timeout {
                return self.refuse(table.loc, format!("the idle timeouts of table `{}`", table.preamble.name));
            }
            self.p.tables[id].properties.clear();
        }
        Ok(())
    }

    /// Converts the instructions of a body. A port has 32 bits in PNA and 9 in v1model, so a load
    /// of one gets a cast.
    fn convert_body(&mut self, body: &mut Body) -> Result<(), UnsupportedConstruct> {
        let ports: Vec<VarId> =
            self.p.intrinsics.values().copied().filter(|v| self.p.vars[*v].ty == Type::Bit(9)).collect();
        for n in 0..body.blocks.len() {
            let block = Block(u32::try_from(n).unwrap_or(u32::MAX));
            let insts = std::mem::take(&mut body.blocks[block].insts);
            let mut converted: Vec<InstData> = Vec::with_capacity(insts.len());
            for inst in insts {
                match &inst.inst {
                    Inst::Load(var) if ports.contains(var) => {
                        let port = body.values.push(Type::Bit(9));
                        converted.push(InstData { inst: Inst::Load(*var), results: vec![port], loc: inst.loc });
                        converted.push(InstData { inst: Inst::Cast(Type::Bit(32), port), ..inst });
                    }
                    Inst::Extern { .. } => self.convert_call(body, inst, &mut converted)?,
                    _ => converted.push(inst),
                }
            }
            body.blocks[block].insts = converted;
        }
        Ok(())
    }

    fn constant(
        body: &mut Body,
        ty: Type,
        bits: impl Into<BigUint>,
        loc: SourceLoc,
        done: &mut Vec<InstData>,
    ) -> Value {
        let value = body.values.push(ty);
        done.push(InstData { inst: Inst::Const(Const::new(ty, bits)), results: vec![value], loc });
        value
    }

    /// Converts an extern call and appends the result to `converted`. A checksum object becomes one
    /// hash call, if a single list of fields was added to it.
    fn convert_call(
        &mut self,
        body: &mut Body,
        inst: InstData,
        converted: &mut Vec<InstData>,
    ) -> Result<(), UnsupportedConstruct> {
        let Inst::Extern { object, func, args } = inst.inst.clone() else { return Ok(()) };
        let loc = inst.loc;
        match func {
            ExternFn::DropPacket => {
                converted.push(InstData {
                    inst: Inst::Extern { object: None, func: ExternFn::MarkToDrop, args: Vec::new() },
                    ..inst
                });
            }
            ExternFn::SendToPort => {
                let Some(ExternArg::Value(port)) = args.first().cloned() else { return Ok(()) };
                let port_inst = converted.iter().rev().find(|i| i.results.contains(&port)).map(|i| i.inst.clone());
                let port = match port_inst {
                    Some(Inst::Const(c)) if c.bits == BigUint::from(PNA_CPU) => {
                        Self::constant(body, Type::Bit(9), V1MODEL_CPU, loc, converted)
                    }
                    _ => {
                        let low = body.values.push(Type::Bit(9));
                        converted.push(InstData { inst: Inst::Cast(Type::Bit(9), port), results: vec![low], loc });
                        low
                    }
                };
                let spec = self.egress_spec();
                converted.push(InstData { inst: Inst::Store(spec, port), results: Vec::new(), loc });
            }
            ExternFn::CounterCount if args.len() == 1 => converted.push(inst),
            ExternFn::RegisterRead | ExternFn::RegisterWrite | ExternFn::Truncate => converted.push(inst),
            ExternFn::HashGet => {
                let algorithm = match object.map(|o| &self.old.externs[o].kind) {
                    Some(ExternKind::Hash {
                        algorithm: HashAlgorithm::Crc32 | HashAlgorithm::TargetDefault, ..
                    }) => "crc32",
                    Some(ExternKind::Hash { algorithm: HashAlgorithm::Crc16, .. }) => "crc16",
                    _ => return self.refuse(loc, "this hash algorithm"),
                };
                let [data @ ExternArg::Values(_)] = &args[..] else {
                    return self.refuse(loc, "a hash with base and maximum");
                };
                Self::push_hash(body, inst.clone(), algorithm, data.clone(), converted);
            }
            // The sum is computed where the program reads it.
            ExternFn::InternetChecksumAdd => converted.push(inst),
            ExternFn::InternetChecksumGet => {
                let is_add = |i: &InstData| matches!(&i.inst, Inst::Extern { object: o, func: ExternFn::InternetChecksumAdd, .. } if *o == object);
                let add_count = converted.iter().filter(|i| is_add(i)).count();
                let Some(add_index) = converted.iter().rposition(is_add).filter(|_| add_count == 1) else {
                    return self.refuse(loc, "a checksum that is not that of one list of fields");
                };
                let Inst::Extern { args, .. } = converted.remove(add_index).inst else { return Ok(()) };
                let Some(data) = args.first().cloned() else { return Ok(()) };
                Self::push_hash(body, inst, "csum16", data, converted);
            }
            _ => return self.refuse(loc, format!("`{}`", func.name())),
        }
        Ok(())
    }

    /// Pushes a `hash` over the full range of its result type.
    fn push_hash(body: &mut Body, inst: InstData, algorithm: &str, data: ExternArg, done: &mut Vec<InstData>) {
        let ty = body.values[inst.results[0]];
        let base = Self::constant(body, ty, 0u8, inst.loc, done);
        let all = BigUint::from(1u8) << ty.width();
        let max = Self::constant(body, Type::Bit(ty.width() + 1), all, inst.loc, done);
        let args = vec![ExternArg::Str(algorithm.to_owned()), ExternArg::Value(base), data, ExternArg::Value(max)];
        done.push(InstData { inst: Inst::Extern { object: None, func: ExternFn::Hash, args }, ..inst });
    }

    fn egress_spec(&mut self) -> VarId {
        let name = "standard_metadata.egress_spec";
        if let Some(known) = self.p.intrinsics.get(name) {
            return *known;
        }
        let var = Var { name: name.to_owned(), ty: Type::Bit(9), kind: VarKind::Intrinsic, loc: SourceLoc::default() };
        let var = self.p.vars.push(var);
        self.p.intrinsics.insert(name.to_owned(), var);
        var
    }
}

/// Marks the packet to be dropped, unless later code sends it.
fn drop_by_default(body: &mut Body) {
    let Some(entry) = body.entry else { return };
    let inst = Inst::Extern { object: None, func: ExternFn::MarkToDrop, args: Vec::new() };
    body.blocks[entry].insts.insert(0, InstData::new(inst, Vec::new()));
}
