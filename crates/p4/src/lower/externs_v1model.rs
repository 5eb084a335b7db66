//! The externs of v1model.

use super::extern_names::hash_algorithm;
use super::lowering::{Lower, Res};
use super::names;
use super::place::Place;
use super::shape::Shape;
use super::value::{Access, Val};
use crate::hir::{self, Call, CallArg, Construct, Ty};
use crate::span::Span;
use ir::{Arg, CounterUnit, ExternFn, ExternInst, ExternKind, MeterUnit, Type};

impl Lower<'_> {
    /// What a constructor makes; `None` if it is not v1model's.
    pub(super) fn v1model_object(&mut self, name: &str, construct: &Construct) -> Res<Option<ExternKind>> {
        Ok(Some(match name {
            "counter" => ExternKind::Counter {
                size: self.number_constructor_arg(construct, 0)?,
                unit: self.counter_unit(construct, 1)?,
                index_type: self.index_type(construct, 0),
            },
            "direct_counter" => ExternKind::DirectCounter { unit: self.counter_unit(construct, 0)? },
            "meter" => ExternKind::Meter {
                size: self.number_constructor_arg(construct, 0)?,
                unit: self.meter_unit(construct, 1)?,
                index_type: self.index_type(construct, 0),
            },
            "direct_meter" => ExternKind::DirectMeter { unit: self.meter_unit(construct, 0)? },
            "register" => self.register(construct, Vec::new())?,
            "action_profile" => ExternKind::ActionProfile { size: self.number_constructor_arg(construct, 0)? },
            "action_selector" => self.selector(construct)?,
            "Checksum16" => ExternKind::Checksum16,
            _ => return Ok(None),
        }))
    }

    /// What a counter counts, by the name of the enumeration's member.
    pub(super) fn counter_unit(&mut self, construct: &Construct, n: usize) -> Res<CounterUnit> {
        let name = self.member_constructor_arg(construct, n)?;
        Ok(match name.to_ascii_lowercase().as_str() {
            "packets" => CounterUnit::Packets,
            "bytes" => CounterUnit::Bytes,
            _ => CounterUnit::Both,
        })
    }

    /// What a meter's rates are in, by the name of the enumeration's member.
    pub(super) fn meter_unit(&mut self, construct: &Construct, n: usize) -> Res<MeterUnit> {
        let name = self.member_constructor_arg(construct, n)?;
        Ok(if name.eq_ignore_ascii_case("bytes") { MeterUnit::Bytes } else { MeterUnit::Packets })
    }

    /// An action selector: algorithm, size, width.
    pub(super) fn selector(&mut self, construct: &Construct) -> Res<ExternKind> {
        let name = self.member_constructor_arg(construct, 0)?;
        let Some(algorithm) = hash_algorithm(&name) else {
            return self.unsupported(construct.span, format_args!("hash algorithm `{name}`"));
        };
        let size = self.number_constructor_arg(construct, 1)?;
        let output_width = u32::try_from(self.number_constructor_arg(construct, 2)?).unwrap_or(u32::MAX);
        Ok(ExternKind::ActionSelector { algorithm, size, output_width })
    }

    pub(super) fn v1model_method(&mut self, object: ir::ExternId, ty: &str, method: &str, call: &Call) -> Res<Val> {
        match (ty, method) {
            ("counter", "count") => {
                let index = self.scalar_arg(call, 0)?;
                self.b.call(Some(object), ExternFn::CounterCount, vec![Arg::Value(index)], &[]);
            }
            // v1model counts each hit by itself.
            ("direct_counter", "count") => {}
            ("meter", "execute_meter") => {
                let index = self.scalar_arg(call, 0)?;
                let out = self.out_arg(call, 1)?;
                let ty = self.out_type(&out, call.span)?;
                let colour = self.b.call(Some(object), ExternFn::MeterExecute, vec![Arg::Value(index)], &[ty])[0];
                return self.set_out(out, colour, call.span);
            }
            ("direct_meter", "read") => return self.read_direct_meter(object, call),
            ("register", "read") => {
                let out = self.out_arg(call, 0)?;
                let index = self.scalar_arg(call, 1)?;
                let elem = self.register_elem(object);
                let values = self.b.call(Some(object), ExternFn::RegisterRead, vec![Arg::Value(index)], &elem);
                if let Some((access, ty)) = out {
                    let ty = self.ty(ty);
                    let val = self.unflatten(ty, &mut values.into_iter());
                    self.write_access(&access, val, ty, call.span)?;
                }
            }
            ("register", "write") => {
                let index = self.scalar_arg(call, 0)?;
                let data = self.data_arg(call, 1)?;
                self.b.call(Some(object), ExternFn::RegisterWrite, vec![Arg::Value(index), data], &[]);
            }
            ("Checksum16", "get") => {
                let data = self.data_arg(call, 0)?;
                let value = self.b.call(Some(object), ExternFn::Checksum16Get, vec![data], &[Type::Bit(16)])[0];
                return Ok(Val::Scalar(value));
            }
            _ => return self.unknown_extern(&format!("{ty}.{method}"), call.span),
        }
        Ok(Val::Void)
    }

    /// `direct_meter.read(result)`: the colour was determined when the entry was hit, and is kept with the table.
    fn read_direct_meter(&mut self, object: ir::ExternId, call: &Call) -> Res<Val> {
        let context = self.calling_table("direct_meter.read", call.span)?;
        let out = self.out_arg(call, 0)?;
        let ty = self.out_type(&out, call.span)?;
        if self.p.tables[context.ir].direct_meter != Some(object) {
            // The action serves several tables, and this one does not meter.
            self.warning(
                "foreign-meter",
                call.span,
                "this has no effect in actions of tables that do not name the meter in their property `meters`",
            );
            return Ok(Val::Void);
        }
        let colour = match self.p.tables[context.ir].meter_result {
            Some(var) => var,
            None => return Ok(Val::Void),
        };
        let colour = self.b.load(&self.p, colour);
        let colour = self.b.cast(ty, colour);
        self.set_out(out, colour, call.span)
    }

    pub(super) fn v1model_function(&mut self, name: &str, call: &Call, _ty: Ty) -> Res<Val> {
        match name {
            "mark_to_drop" => self.mark_to_drop(call),
            "random" => {
                let out = self.out_arg(call, 0)?;
                let lo = self.scalar_arg(call, 1)?;
                let hi = self.scalar_arg(call, 2)?;
                let ty = self.b.value_type(lo);
                let value = self.b.call(None, ExternFn::Random, vec![Arg::Value(lo), Arg::Value(hi)], &[ty])[0];
                self.set_out(out, value, call.span)
            }
            "hash" => {
                let out = self.out_arg(call, 0)?;
                let algorithm = self.member_arg(call, 1)?;
                let base = self.scalar_arg(call, 2)?;
                let data = self.data_arg(call, 3)?;
                let max = self.scalar_arg(call, 4)?;
                let ty = self.out_type(&out, call.span)?;
                let args = vec![Arg::Str(algorithm), Arg::Value(base), data, Arg::Value(max)];
                let value = self.b.call(None, ExternFn::Hash, args, &[ty])[0];
                self.set_out(out, value, call.span)
            }
            "verify_checksum" => self.checksum(ExternFn::VerifyChecksum, call),
            "update_checksum" => self.checksum(ExternFn::UpdateChecksum, call),
            "verify_checksum_with_payload" => self.checksum(ExternFn::VerifyChecksumWithPayload, call),
            "update_checksum_with_payload" => self.checksum(ExternFn::UpdateChecksumWithPayload, call),
            "clone" | "clone3" | "clone_preserving_field_list" => self.clone_packet(call),
            "resubmit" | "resubmit_preserving_field_list" => {
                let vars = self.preserved(call, 0)?;
                self.effect(ExternFn::Resubmit, vec![Arg::Vars(vars)])
            }
            "recirculate" | "recirculate_preserving_field_list" => {
                let vars = self.preserved(call, 0)?;
                self.effect(ExternFn::Recirculate, vec![Arg::Vars(vars)])
            }
            "digest" => self.digest(call),
            "truncate" => {
                let length = self.scalar_arg(call, 0)?;
                self.effect(ExternFn::Truncate, vec![Arg::Value(length)])
            }
            "assert" => self.assertion(ExternFn::Assert, call),
            "assume" => self.assertion(ExternFn::Assume, call),
            "log_msg" => {
                let format = self.text_arg(call, 0)?.to_string();
                let mut args = vec![Arg::Str(format)];
                if call.args.len() > 1 {
                    args.push(self.data_arg(call, 1)?);
                }
                self.effect(ExternFn::LogMsg, args)
            }
            _ => self.unknown_extern(name, call.span),
        }
    }

    /// A call without result.
    pub(super) fn effect(&mut self, func: ExternFn, args: Vec<Arg>) -> Res<Val> {
        self.b.call(None, func, args, &[]);
        Ok(Val::Void)
    }

    /// `assert(check)`, with the text of its condition.
    fn assertion(&mut self, func: ExternFn, call: &Call) -> Res<Val> {
        let check = self.scalar_arg(call, 0)?;
        let text = match call.args.first() {
            Some(CallArg::Expr(check)) => self.sources.text(check.span).to_string(),
            _ => String::new(),
        };
        self.effect(func, vec![Arg::Value(check), Arg::Str(text)])
    }

    fn checksum(&mut self, func: ExternFn, call: &Call) -> Res<Val> {
        let condition = self.scalar_arg(call, 0)?;
        let data = self.data_arg(call, 1)?;
        let updates = matches!(func, ExternFn::UpdateChecksum | ExternFn::UpdateChecksumWithPayload);
        let out = if updates { self.out_arg(call, 2)? } else { None };
        let old = match &out {
            Some((access, ty)) => {
                let val = self.read_access(access, *ty, call.span)?;
                self.scalar_value(val, *ty, call.span)?
            }
            None => self.scalar_arg(call, 2)?,
        };
        let algorithm = self.member_arg(call, 3)?;
        let args = vec![Arg::Value(condition), data, Arg::Value(old), Arg::Str(algorithm)];
        if !updates {
            return self.effect(func, args);
        }
        let ty = self.b.value_type(old);
        let value = self.b.call(None, func, args, &[ty])[0];
        self.set_out(out, value, call.span)
    }

    /// `mark_to_drop()` and `mark_to_drop(standard_metadata)`. On a copy of the standard metadata, as a control has it that got
    /// them by an argument that is not the architecture's own, the two fields are set there.
    fn mark_to_drop(&mut self, call: &Call) -> Res<Val> {
        let Some(CallArg::Expr(metadata)) = call.args.first() else {
            return self.effect(ExternFn::MarkToDrop, Vec::new());
        };
        let Access::Place(place) = self.arg_access(0, metadata)? else {
            return self.unsupported(metadata.span, "marking this");
        };
        let spec = self.metadata_field(&place, metadata.ty, "egress_spec");
        let own = self.p.intrinsics.get("standard_metadata.egress_spec").copied();
        if spec.is_some() && spec == own {
            return self.effect(ExternFn::MarkToDrop, Vec::new());
        }
        if let Some(var) = spec {
            let drop = self.b.bits(9, 511u32);
            self.b.store(var, drop);
        }
        if let Some(var) = self.metadata_field(&place, metadata.ty, "mcast_grp") {
            let none = self.b.bits(16, 0u8);
            self.b.store(var, none);
        }
        Ok(Val::Void)
    }

    fn metadata_field(&mut self, place: &Place, ty: Ty, name: &str) -> Option<ir::VarId> {
        let Shape::Struct(members) = self.shape(ty) else { return None };
        let n = members.iter().position(|m| *m.name == *name)?;
        match place.part(n) {
            Some(Place::Scalar(var)) => Some(*var),
            _ => None,
        }
    }

    fn clone_packet(&mut self, call: &Call) -> Res<Val> {
        let kind = self.member_arg(call, 0)?;
        let session = self.scalar_arg(call, 1)?;
        let vars = self.preserved(call, 2)?;
        self.effect(ExternFn::Clone, vec![Arg::Str(kind), Arg::Value(session), Arg::Vars(vars)])
    }

    /// What argument `n` says to preserve: a field list by its number, or the variables it names.
    fn preserved(&mut self, call: &Call, n: usize) -> Res<Vec<ir::VarId>> {
        let Some(CallArg::Expr(arg)) = call.args.get(n) else { return Ok(Vec::new()) };
        if call.type_args.is_empty() && self.is_scalar(arg.ty) {
            let Some(index) = self.known_int(arg) else {
                let message = "the number of a field list must be a constant integer";
                return self.error("not-constant", arg.span, message);
            };
            let list = u32::try_from(&index).ok().and_then(|n| self.p.field_lists.get(&n)).cloned();
            if list.is_none() {
                let message = format!("no field of the user metadata is in field list {index}, so nothing is kept");
                self.warning("empty-field-list", arg.span, message);
            }
            return Ok(list.unwrap_or_default());
        }
        let mut vars = Vec::new();
        self.named_vars(arg, &mut vars)?;
        Ok(vars)
    }

    /// `digest<T>(receiver, data)`: one object for each type.
    fn digest(&mut self, call: &Call) -> Res<Val> {
        let Some(CallArg::Expr(data)) = call.args.get(1) else { return Ok(Val::Void) };
        let ty = self.ty(call.type_args.first().copied().unwrap_or(data.ty));
        let object = match self.digests.get(&ty) {
            Some(object) => *object,
            None => {
                let object = self.declare_digest(ty, call.span);
                self.digests.insert(ty, object);
                object
            }
        };
        let data = self.data_arg(call, 1)?;
        self.b.call(Some(object), ExternFn::DigestPack, vec![data], &[]);
        Ok(Val::Void)
    }

    fn declare_digest(&mut self, ty: Ty, span: Span) -> ir::ExternId {
        let mut fields: Vec<Type> = Vec::new();
        self.leaves(ty, &mut fields);
        let data_type = self.data_type(ty);
        let preamble = match self.types.kind(ty) {
            hir::TyKind::Struct(id, _) => {
                let decl = &self.hir.structs[id.index()];
                names::preamble(names::control_plane_name("", &decl.name, &decl.annotations), &decl.annotations)
            }
            _ => {
                let name = format!("digest_{}", self.anonymous_digests);
                self.anonymous_digests += 1;
                names::preamble(name, &Vec::new())
            }
        };
        let loc = self.loc(span);
        self.p.externs.push(ExternInst { preamble, kind: ExternKind::Digest { data_type, fields }, loc })
    }
}
