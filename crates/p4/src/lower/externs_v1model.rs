//! Lowers the externs of v1model.

use super::extern_names::hash_algorithm;
use super::lowering::{LowerResult, Lowering};
use super::names;
use super::storage::Storage;
use super::type_layout::TypeLayout;
use super::value::{LValue, RValue};
use crate::hir::{self, Call, CallArg, Construct, Ty};
use crate::span::Span;
use ir::{CounterUnit, ExternArg, ExternFn, ExternInst, ExternKind, MeterUnit, Type};

impl Lowering<'_> {
    /// Returns the extern object that the constructor call `construct` of the type `name` creates;
    /// `None` if v1model does not define such a type.
    pub(super) fn v1model_object(&mut self, name: &str, construct: &Construct) -> LowerResult<Option<ExternKind>> {
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
            "register" => self.build_register(construct, Vec::new())?,
            "action_profile" => ExternKind::ActionProfile { size: self.number_constructor_arg(construct, 0)? },
            "action_selector" => self.build_selector(construct)?,
            "Checksum16" => ExternKind::Checksum16,
            _ => return Ok(None),
        }))
    }

    /// Returns the unit of a counter from the name of the enumeration member.
    pub(super) fn counter_unit(&mut self, construct: &Construct, n: usize) -> LowerResult<CounterUnit> {
        let name = self.member_constructor_arg(construct, n)?;
        Ok(match name.to_ascii_lowercase().as_str() {
            "packets" => CounterUnit::Packets,
            "bytes" => CounterUnit::Bytes,
            _ => CounterUnit::Both,
        })
    }

    /// Returns the unit of a meter's rates from the name of the enumeration member.
    pub(super) fn meter_unit(&mut self, construct: &Construct, n: usize) -> LowerResult<MeterUnit> {
        let name = self.member_constructor_arg(construct, n)?;
        Ok(if name.eq_ignore_ascii_case("bytes") { MeterUnit::Bytes } else { MeterUnit::Packets })
    }

    /// Builds an action selector from algorithm, size and width.
    pub(super) fn build_selector(&mut self, construct: &Construct) -> LowerResult<ExternKind> {
        let name = self.member_constructor_arg(construct, 0)?;
        let Some(algorithm) = hash_algorithm(&name) else {
            return self.unsupported(construct.span, format_args!("hash algorithm `{name}`"));
        };
        let size = self.number_constructor_arg(construct, 1)?;
        let output_width = u32::try_from(self.number_constructor_arg(construct, 2)?).unwrap_or(u32::MAX);
        Ok(ExternKind::ActionSelector { algorithm, size, output_width })
    }

    /// Lowers a call of the method `method` of `object`, an instance of the v1model extern type
    /// named `ty`. Most results go to an `out` argument; only `Checksum16.get` has a value.
    pub(super) fn v1model_method(
        &mut self,
        object: ir::ExternId,
        ty: &str,
        method: &str,
        call: &Call,
    ) -> LowerResult<RValue> {
        match (ty, method) {
            ("counter", "count") => {
                let index = self.scalar_arg(call, 0)?;
                self.builder.call_extern(Some(object), ExternFn::CounterCount, vec![ExternArg::Value(index)], &[]);
            }
            // v1model counts each hit without this call.
            ("direct_counter", "count") => {}
            ("meter", "execute_meter") => {
                let index = self.scalar_arg(call, 0)?;
                let out = self.out_arg(call, 1)?;
                let ty = self.out_type(&out, call.span)?;
                let colour = self.builder.call_extern(
                    Some(object),
                    ExternFn::MeterExecute,
                    vec![ExternArg::Value(index)],
                    &[ty],
                )[0];
                return self.set_out(out, colour, call.span);
            }
            ("direct_meter", "read") => return self.read_direct_meter(object, call),
            ("register", "read") => {
                let out = self.out_arg(call, 0)?;
                let index = self.scalar_arg(call, 1)?;
                let elem = self.register_elem(object);
                let values = self.builder.call_extern(
                    Some(object),
                    ExternFn::RegisterRead,
                    vec![ExternArg::Value(index)],
                    &elem,
                );
                if let Some((access, ty)) = out {
                    let ty = self.substitute_scope_params(ty);
                    let val = self.build_from_scalars(ty, &mut values.into_iter());
                    self.write_lvalue(&access, val, ty, call.span)?;
                }
            }
            ("register", "write") => {
                let index = self.scalar_arg(call, 0)?;
                let data = self.data_arg(call, 1)?;
                self.builder.call_extern(
                    Some(object),
                    ExternFn::RegisterWrite,
                    vec![ExternArg::Value(index), data],
                    &[],
                );
            }
            ("Checksum16", "get") => {
                let data = self.data_arg(call, 0)?;
                let value =
                    self.builder.call_extern(Some(object), ExternFn::Checksum16Get, vec![data], &[Type::Bit(16)])[0];
                return Ok(RValue::Scalar(value));
            }
            _ => return self.unknown_extern(&format!("{ty}.{method}"), call.span),
        }
        Ok(RValue::Void)
    }

    /// Lowers `direct_meter.read(result)`. The color was determined at the hit and is stored with
    /// the table.
    fn read_direct_meter(&mut self, object: ir::ExternId, call: &Call) -> LowerResult<RValue> {
        let context = self.calling_table("direct_meter.read", call.span)?;
        let target = self.out_arg(call, 0)?;
        let ty = self.out_type(&target, call.span)?;
        if self.pipeline.tables[context.ir].direct_meter != Some(object) {
            // The action belongs to several tables, and this one has no meter.
            self.report_warning(
                "foreign-meter",
                call.span,
                "this has no effect in actions of tables that do not name the meter in their property `meters`",
            );
            return Ok(RValue::Void);
        }
        let colour = match self.pipeline.tables[context.ir].meter_result {
            Some(var) => var,
            None => return Ok(RValue::Void),
        };
        let colour = self.builder.load(&self.pipeline, colour);
        let colour = self.builder.cast(ty, colour);
        self.set_out(target, colour, call.span)
    }

    /// Lowers a call of v1model's extern function `name`. Results go to `out` arguments, so the
    /// value is [`RValue::Void`].
    pub(super) fn v1model_function(&mut self, name: &str, call: &Call, _ty: Ty) -> LowerResult<RValue> {
        match name {
            "mark_to_drop" => self.mark_to_drop(call),
            "random" => {
                let out = self.out_arg(call, 0)?;
                let lo = self.scalar_arg(call, 1)?;
                let hi = self.scalar_arg(call, 2)?;
                let ty = self.builder.value_type(lo);
                let value = self.builder.call_extern(
                    None,
                    ExternFn::Random,
                    vec![ExternArg::Value(lo), ExternArg::Value(hi)],
                    &[ty],
                )[0];
                self.set_out(out, value, call.span)
            }
            "hash" => {
                let out = self.out_arg(call, 0)?;
                let algorithm = self.member_arg(call, 1)?;
                let base = self.scalar_arg(call, 2)?;
                let data = self.data_arg(call, 3)?;
                let max = self.scalar_arg(call, 4)?;
                let ty = self.out_type(&out, call.span)?;
                let args = vec![ExternArg::Str(algorithm), ExternArg::Value(base), data, ExternArg::Value(max)];
                let value = self.builder.call_extern(None, ExternFn::Hash, args, &[ty])[0];
                self.set_out(out, value, call.span)
            }
            "verify_checksum" => self.lower_checksum(ExternFn::VerifyChecksum, call),
            "update_checksum" => self.lower_checksum(ExternFn::UpdateChecksum, call),
            "verify_checksum_with_payload" => self.lower_checksum(ExternFn::VerifyChecksumWithPayload, call),
            "update_checksum_with_payload" => self.lower_checksum(ExternFn::UpdateChecksumWithPayload, call),
            "clone" | "clone3" | "clone_preserving_field_list" => self.clone_packet(call),
            "resubmit" | "resubmit_preserving_field_list" => {
                let vars = self.preserved_vars(call, 0)?;
                self.emit_effect(ExternFn::Resubmit, vec![ExternArg::Vars(vars)])
            }
            "recirculate" | "recirculate_preserving_field_list" => {
                let vars = self.preserved_vars(call, 0)?;
                self.emit_effect(ExternFn::Recirculate, vec![ExternArg::Vars(vars)])
            }
            "digest" => self.lower_digest(call),
            "truncate" => {
                let length = self.scalar_arg(call, 0)?;
                self.emit_effect(ExternFn::Truncate, vec![ExternArg::Value(length)])
            }
            "assert" => self.lower_assertion(ExternFn::Assert, call),
            "assume" => self.lower_assertion(ExternFn::Assume, call),
            "log_msg" => {
                let format = self.text_arg(call, 0)?.to_string();
                let mut args = vec![ExternArg::Str(format)];
                if call.args.len() > 1 {
                    args.push(self.data_arg(call, 1)?);
                }
                self.emit_effect(ExternFn::LogMsg, args)
            }
            _ => self.unknown_extern(name, call.span),
        }
    }

    /// Lowers a call without result.
    pub(super) fn emit_effect(&mut self, func: ExternFn, args: Vec<ExternArg>) -> LowerResult<RValue> {
        self.builder.call_extern(None, func, args, &[]);
        Ok(RValue::Void)
    }

    /// Lowers `assert(check)`, which includes the text of its condition.
    fn lower_assertion(&mut self, func: ExternFn, call: &Call) -> LowerResult<RValue> {
        let check = self.scalar_arg(call, 0)?;
        let text = match call.args.first() {
            Some(CallArg::Expr(check)) => self.sources.text(check.span).to_string(),
            _ => String::new(),
        };
        self.emit_effect(func, vec![ExternArg::Value(check), ExternArg::Str(text)])
    }

    /// Lowers `verify_checksum` or `update_checksum`, with or without payload: `(condition, data,
    /// checksum, algorithm)`. For an update, `checksum` is an `inout` argument that receives the
    /// result; its old value is passed too, because it remains if the condition is false.
    fn lower_checksum(&mut self, func: ExternFn, call: &Call) -> LowerResult<RValue> {
        let condition = self.scalar_arg(call, 0)?;
        let data = self.data_arg(call, 1)?;
        let updates = matches!(func, ExternFn::UpdateChecksum | ExternFn::UpdateChecksumWithPayload);
        let target = if updates { self.out_arg(call, 2)? } else { None };
        let checksum = match &target {
            Some((access, ty)) => {
                let val = self.read_lvalue(access, *ty, call.span)?;
                self.scalar_value(val, *ty, call.span)?
            }
            None => self.scalar_arg(call, 2)?,
        };
        let algorithm = self.member_arg(call, 3)?;
        let args = vec![ExternArg::Value(condition), data, ExternArg::Value(checksum), ExternArg::Str(algorithm)];
        if !updates {
            return self.emit_effect(func, args);
        }
        let ty = self.builder.value_type(checksum);
        let value = self.builder.call_extern(None, func, args, &[ty])[0];
        self.set_out(target, value, call.span)
    }

    /// Lowers `mark_to_drop()` and `mark_to_drop(standard_metadata)`. If the argument is a copy of
    /// the standard metadata, the two fields are set in the copy. A control has a copy if its
    /// caller did not pass the architecture's own metadata.
    fn mark_to_drop(&mut self, call: &Call) -> LowerResult<RValue> {
        let Some(CallArg::Expr(metadata)) = call.args.first() else {
            return self.emit_effect(ExternFn::MarkToDrop, Vec::new());
        };
        let LValue::Storage(copy) = self.arg_access(0, metadata)? else {
            return self.unsupported(metadata.span, "marking this");
        };
        let egress_spec = self.metadata_field(&copy, metadata.ty, "egress_spec");
        let own_egress_spec = self.pipeline.intrinsics.get("standard_metadata.egress_spec").copied();
        if egress_spec.is_some() && egress_spec == own_egress_spec {
            return self.emit_effect(ExternFn::MarkToDrop, Vec::new());
        }
        if let Some(var) = egress_spec {
            // 511 is the egress port that means "drop" in v1model.
            let drop = self.builder.bits(9, 511u32);
            self.builder.store(var, drop);
        }
        if let Some(var) = self.metadata_field(&copy, metadata.ty, "mcast_grp") {
            let none = self.builder.bits(16, 0u8);
            self.builder.store(var, none);
        }
        Ok(RValue::Void)
    }

    fn metadata_field(&mut self, place: &Storage, ty: Ty, name: &str) -> Option<ir::VarId> {
        let TypeLayout::Struct(members) = self.layout(ty) else { return None };
        let n = members.iter().position(|m| *m.name == *name)?;
        match place.part(n) {
            Some(Storage::Scalar(var)) => Some(*var),
            _ => None,
        }
    }

    fn clone_packet(&mut self, call: &Call) -> LowerResult<RValue> {
        let kind = self.member_arg(call, 0)?;
        let session = self.scalar_arg(call, 1)?;
        let vars = self.preserved_vars(call, 2)?;
        self.emit_effect(ExternFn::Clone, vec![ExternArg::Str(kind), ExternArg::Value(session), ExternArg::Vars(vars)])
    }

    /// Returns the variables that argument `n` preserves: those of a field list by number, or those
    /// that it names.
    fn preserved_vars(&mut self, call: &Call, n: usize) -> LowerResult<Vec<ir::VarId>> {
        let Some(CallArg::Expr(arg)) = call.args.get(n) else { return Ok(Vec::new()) };
        if call.type_args.is_empty() && self.is_scalar(arg.ty) {
            let Some(index) = self.try_eval_int(arg) else {
                let message = "the number of a field list must be a constant integer";
                return self.error("not-constant", arg.span, message);
            };
            let list = u32::try_from(&index).ok().and_then(|n| self.pipeline.field_lists.get(&n)).cloned();
            if list.is_none() {
                let message =
                    format!("field list {index} contains no field of the user metadata, so nothing is preserved");
                self.report_warning("empty-field-list", arg.span, message);
            }
            return Ok(list.unwrap_or_default());
        }
        let mut vars = Vec::new();
        self.named_vars(arg, &mut vars)?;
        Ok(vars)
    }

    /// Lowers `digest<T>(receiver, data)`. Each type has one digest object.
    fn lower_digest(&mut self, call: &Call) -> LowerResult<RValue> {
        let Some(CallArg::Expr(data)) = call.args.get(1) else { return Ok(RValue::Void) };
        let ty = self.substitute_scope_params(call.type_args.first().copied().unwrap_or(data.ty));
        let object = match self.digests.get(&ty) {
            Some(object) => *object,
            None => {
                let object = self.declare_digest(ty, call.span);
                self.digests.insert(ty, object);
                object
            }
        };
        let data = self.data_arg(call, 1)?;
        self.builder.call_extern(Some(object), ExternFn::DigestPack, vec![data], &[]);
        Ok(RValue::Void)
    }

    fn declare_digest(&mut self, ty: Ty, span: Span) -> ir::ExternId {
        let mut fields: Vec<Type> = Vec::new();
        self.append_scalar_types(ty, &mut fields);
        let data_type = self.data_type(ty);
        let preamble = match self.types.kind(ty) {
            hir::TyKind::Struct(id, _) => {
                let decl = &self.hir.structs[id.index()];
                names::build_preamble(names::control_plane_name("", &decl.name, &decl.annotations), &decl.annotations)
            }
            _ => {
                let name = format!("digest_{}", self.anonymous_digests);
                self.anonymous_digests += 1;
                names::build_preamble(name, &Vec::new())
            }
        };
        let loc = self.source_loc(span);
        self.pipeline.externs.push(ExternInst { preamble, kind: ExternKind::Digest { data_type, fields }, loc })
    }
}
