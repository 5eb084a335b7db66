//! Lowers the externs of PNA.

use super::const_value::ConstValue;
use super::extern_names::hash_algorithm;
use super::lowering::{LowerResult, Lowering};
use super::value::RValue;
use crate::hir::{Call, CallArg, Construct, Method, Ty};
use crate::span::Span;
use ir::{Const, ExternArg, ExternFn, ExternKind, HashAlgorithm, Type};

impl Lowering<'_> {
    /// Returns the extern object that the constructor call `construct` of the type `name` creates;
    /// `None` if PNA does not define such a type.
    pub(super) fn pna_object(&mut self, name: &str, construct: &Construct) -> LowerResult<Option<ExternKind>> {
        Ok(Some(match name {
            "Hash" => ExternKind::Hash {
                algorithm: self.hash_algorithm_arg(construct)?,
                output: self.type_arg(construct, 0)?,
            },
            "Checksum" => ExternKind::Checksum {
                algorithm: self.hash_algorithm_arg(construct)?,
                output: self.type_arg(construct, 0)?,
            },
            "InternetChecksum" => ExternKind::InternetChecksum,
            "Counter" => ExternKind::Counter {
                size: self.number_constructor_arg(construct, 0)?,
                unit: self.counter_unit(construct, 1)?,
                index_type: self.index_type(construct, 1),
            },
            "DirectCounter" => ExternKind::DirectCounter { unit: self.counter_unit(construct, 0)? },
            "Meter" => ExternKind::Meter {
                size: self.number_constructor_arg(construct, 0)?,
                unit: self.meter_unit(construct, 1)?,
                index_type: self.index_type(construct, 0),
            },
            "DirectMeter" => ExternKind::DirectMeter { unit: self.meter_unit(construct, 0)? },
            "Register" => {
                let initial = self.initial_value(construct)?;
                self.build_register(construct, initial)?
            }
            "Random" => {
                let (min, max) = (self.constructor_arg(construct, 0)?, self.constructor_arg(construct, 1)?);
                ExternKind::Random { min: self.known_const(min)?, max: self.known_const(max)? }
            }
            "PortPool" => self.build_port_pool(construct)?,
            "EntryQuota" => self.build_entry_quota(construct)?,
            "ActionProfile" => ExternKind::ActionProfile { size: self.number_constructor_arg(construct, 0)? },
            "ActionSelector" => self.build_selector(construct)?,
            "Digest" => {
                let Some(ty) = construct.type_args.first().copied() else { return Ok(None) };
                let mut fields = Vec::new();
                self.append_scalar_types(ty, &mut fields);
                ExternKind::Digest { data_type: self.data_type(ty), fields }
            }
            _ => return Ok(None),
        }))
    }

    fn hash_algorithm_arg(&mut self, construct: &Construct) -> LowerResult<HashAlgorithm> {
        let name = self.member_constructor_arg(construct, 0)?;
        match hash_algorithm(&name) {
            Some(algorithm) => Ok(algorithm),
            None => self.unsupported(construct.span, format_args!("hash algorithm `{name}`")),
        }
    }

    /// Returns the scalars of a register's initial value; empty if it has none.
    fn initial_value(&mut self, construct: &Construct) -> LowerResult<Vec<Const>> {
        let Some(Some(initial)) = construct.args.get(1) else { return Ok(Vec::new()) };
        let Some(ty) = construct.type_args.first().copied() else { return Ok(Vec::new()) };
        let mut types = Vec::new();
        self.append_scalar_types(ty, &mut types);
        let known = self.try_eval_const(initial);
        let mut flat = Vec::new();
        if let Some(known) = known {
            flatten_known(&known, &mut flat);
        }
        if flat.len() != types.len() {
            return self.error("not-constant", initial.span, "the initial value must be known at compile time");
        }
        let consts = flat.iter().zip(types).map(|(known, ty)| Some(Const::new(ty, self.const_bits(known, ty)?)));
        match consts.collect::<Option<Vec<Const>>>() {
            Some(consts) => Ok(consts),
            None => self.error("not-constant", initial.span, "the initial value must be known at compile time"),
        }
    }

    /// Lowers a call of the method `method` of `object`, an instance of the PNA extern type named
    /// `ty`. `result` is the P4 type of the call's value; a method without a result gives
    /// [`RValue::Void`].
    pub(super) fn pna_method(
        &mut self,
        object: ir::ExternId,
        ty: &str,
        method: &Method,
        call: &Call,
        result: Ty,
    ) -> LowerResult<RValue> {
        let receiver = Some(object);
        match (ty, &*method.name) {
            ("Counter", "count") => {
                let mut args = vec![ExternArg::Value(self.scalar_arg(call, 0)?)];
                self.optional_arg(call, 1, &mut args)?;
                self.builder.call_extern(receiver, ExternFn::CounterCount, args, &[]);
            }
            ("DirectCounter", "count") => {
                let table = self.calling_table("DirectCounter.count", call.span)?;
                let mut args = vec![ExternArg::Table(table.ir)];
                self.optional_arg(call, 0, &mut args)?;
                self.builder.call_extern(receiver, ExternFn::DirectCounterCount, args, &[]);
            }
            ("Meter", "execute") => {
                let mut args = vec![ExternArg::Value(self.scalar_arg(call, 0)?)];
                self.optional_arg(call, 1, &mut args)?;
                return self.call_with_result(object, ExternFn::MeterExecute, args, result, call);
            }
            ("DirectMeter", "execute") => {
                let table = self.calling_table("DirectMeter.execute", call.span)?;
                let mut args = vec![ExternArg::Table(table.ir)];
                // `execute` has two overloads, with and without the color that the packet already
                // has.
                let takes_color = method.params.first().is_some_and(|p| &*self.local_decl(*p).name == "color");
                let length_index = usize::from(takes_color);
                if takes_color {
                    args.push(ExternArg::Value(self.scalar_arg(call, 0)?));
                // The IR puts the color before the packet length. A call that passes only a length
                // gets green, as in a color-blind meter.
                } else if matches!(call.args.get(length_index), Some(CallArg::Expr(_))) {
                    let ty = self.result_type(object, ExternFn::DirectMeterExecute, result, call)?;
                    args.push(ExternArg::Value(self.green_color(ty)));
                }
                self.optional_arg(call, length_index, &mut args)?;
                return self.call_with_result(object, ExternFn::DirectMeterExecute, args, result, call);
            }
            ("Register", "read") => {
                let index = self.scalar_arg(call, 0)?;
                let elem = self.register_elem(object);
                let values =
                    self.builder.call_extern(receiver, ExternFn::RegisterRead, vec![ExternArg::Value(index)], &elem);
                let ty = self.substitute_scope_params(result);
                return Ok(self.build_from_scalars(ty, &mut values.into_iter()));
            }
            ("Register", "write") => {
                let index = self.scalar_arg(call, 0)?;
                let data = self.data_arg(call, 1)?;
                self.builder.call_extern(receiver, ExternFn::RegisterWrite, vec![ExternArg::Value(index), data], &[]);
            }
            ("Hash", "get_hash") => {
                let args = if call.args.len() > 1 {
                    let base = self.scalar_arg(call, 0)?;
                    let data = self.data_arg(call, 1)?;
                    vec![ExternArg::Value(base), data, ExternArg::Value(self.scalar_arg(call, 2)?)]
                } else {
                    vec![self.data_arg(call, 0)?]
                };
                return self.call_with_result(object, ExternFn::HashGet, args, result, call);
            }
            ("Checksum" | "InternetChecksum", _) => return self.pna_checksum(object, ty, &method.name, call, result),
            ("Random", "read") => return self.call_with_result(object, ExternFn::RandomRead, Vec::new(), result, call),
            ("Digest", "pack") => {
                let data = self.data_arg(call, 0)?;
                self.builder.call_extern(receiver, ExternFn::DigestPack, vec![data], &[]);
            }
            ("PortPool", "take") => return self.take_port(object, call, result),
            ("EntryQuota", "take") => return self.take_quota(object, call),
            (ty, method) => return self.unknown_extern(&format!("{ty}.{method}"), call.span),
        }
        Ok(RValue::Void)
    }

    /// Lowers a call of `method` of `object`, an instance of the extern type `ty`: `Checksum` or
    /// `InternetChecksum`. `result` is the P4 type of the call's value.
    fn pna_checksum(
        &mut self,
        object: ir::ExternId,
        ty: &str,
        method: &str,
        call: &Call,
        result: Ty,
    ) -> LowerResult<RValue> {
        let func = match (ty, method) {
            ("Checksum", "clear") => ExternFn::ChecksumClear,
            ("Checksum", "update") => ExternFn::ChecksumUpdate,
            ("Checksum", "get") => {
                return self.call_with_result(object, ExternFn::ChecksumGet, Vec::new(), result, call);
            }
            ("InternetChecksum", "clear") => ExternFn::InternetChecksumClear,
            ("InternetChecksum", "add") => ExternFn::InternetChecksumAdd,
            ("InternetChecksum", "subtract") => ExternFn::InternetChecksumSubtract,
            ("InternetChecksum", "get") => {
                return self.call_with_result(object, ExternFn::InternetChecksumGet, Vec::new(), result, call);
            }
            ("InternetChecksum", "get_state") => {
                return self.call_with_result(object, ExternFn::InternetChecksumGetState, Vec::new(), result, call);
            }
            ("InternetChecksum", "set_state") => {
                let state = self.scalar_arg(call, 0)?;
                self.builder.call_extern(
                    Some(object),
                    ExternFn::InternetChecksumSetState,
                    vec![ExternArg::Value(state)],
                    &[],
                );
                return Ok(RValue::Void);
            }
            _ => return self.unknown_extern(&format!("{ty}.{method}"), call.span),
        };
        let args = if call.args.is_empty() { Vec::new() } else { vec![self.data_arg(call, 0)?] };
        self.builder.call_extern(Some(object), func, args, &[]);
        Ok(RValue::Void)
    }

    /// Lowers a method call with one scalar result.
    fn call_with_result(
        &mut self,
        object: ir::ExternId,
        func: ExternFn,
        args: Vec<ExternArg>,
        result: Ty,
        call: &Call,
    ) -> LowerResult<RValue> {
        let ty = self.result_type(object, func, result, call)?;
        Ok(RValue::Scalar(self.builder.call_extern(Some(object), func, args, &[ty])[0]))
    }

    /// Returns the color of packets in a color-blind meter.
    fn green_color(&mut self, ty: Type) -> ir::Value {
        let members = match ty {
            Type::Enum(id) => self.pipeline.enums[id].members.as_slice(),
            _ => &[],
        };
        let green = members.iter().position(|name| name == "GREEN").unwrap_or(0);
        self.builder.constant(Const::new(ty, green))
    }

    /// Returns the type of a result. If the result is unused, it is the type of the object.
    fn result_type(&mut self, object: ir::ExternId, func: ExternFn, result: Ty, call: &Call) -> LowerResult<Type> {
        if self.is_scalar(result) {
            return self.scalar_type(result, call.span);
        }
        let body = self.builder.body();
        let types = ir::extern_result_types(func, Some(object), &[], body, &self.pipeline);
        Ok(types.first().and_then(|t| t.exact()).unwrap_or(Type::Bit(32)))
    }

    fn optional_arg(&mut self, call: &Call, n: usize, args: &mut Vec<ExternArg>) -> LowerResult<()> {
        args.extend(self.optional_scalar_arg(call, n)?.map(ExternArg::Value));
        Ok(())
    }

    /// Lowers a call of PNA's extern function `name`; `ty` is the P4 type of the call's value. A
    /// function that acts on the table of the calling action gets that table as its first argument.
    pub(super) fn pna_function(&mut self, name: &str, call: &Call, ty: Ty) -> LowerResult<RValue> {
        match name {
            "drop_packet" => self.emit_effect(ExternFn::DropPacket, Vec::new()),
            "send_to_port" => {
                let port = self.scalar_arg(call, 0)?;
                self.emit_effect(ExternFn::SendToPort, vec![ExternArg::Value(port)])
            }
            "is_host_port" | "is_net_port" => {
                let func = if name == "is_host_port" { ExternFn::IsHostPort } else { ExternFn::IsNetPort };
                let port = self.scalar_arg(call, 0)?;
                Ok(RValue::Scalar(self.builder.call_extern(None, func, vec![ExternArg::Value(port)], &[Type::Bool])[0]))
            }
            "mirror_packet" => {
                let slot = self.scalar_arg(call, 0)?;
                let session = self.scalar_arg(call, 1)?;
                self.emit_effect(ExternFn::MirrorPacket, vec![ExternArg::Value(slot), ExternArg::Value(session)])
            }
            "truncate" => {
                let length = self.scalar_arg(call, 0)?;
                self.emit_effect(ExternFn::Truncate, vec![ExternArg::Value(length)])
            }
            "recirculate" => self.emit_effect(ExternFn::PnaRecirculate, Vec::new()),
            "add_entry" => {
                let added = self.add_entry(call, 0)?;
                self.added_status(added, ty, call.span)
            }
            "add_entry_if" => {
                let added = self.add_entry_if(call)?;
                self.added_status(added, ty, call.span)
            }
            "add_entry_pair" => {
                let added = self.add_entry_pair(call)?;
                self.added_status(added, ty, call.span)
            }
            "allocate_flow_id" => {
                let ty = if self.is_scalar(ty) { self.scalar_type(ty, call.span)? } else { Type::Bit(32) };
                Ok(RValue::Scalar(self.builder.call_extern(None, ExternFn::AllocateFlowId, Vec::new(), &[ty])[0]))
            }
            "set_entry_expire_time" => {
                let table = self.calling_table(name, call.span)?;
                let profile = self.scalar_arg(call, 0)?;
                self.emit_effect(
                    ExternFn::SetEntryExpireTime,
                    vec![ExternArg::Table(table.ir), ExternArg::Value(profile)],
                )
            }
            "restart_expire_timer" => {
                let table = self.calling_table(name, call.span)?;
                self.emit_effect(ExternFn::RestartExpireTimer, vec![ExternArg::Table(table.ir)])
            }
            "set_entry_expire_time_if" => {
                let table = self.calling_table(name, call.span)?;
                let condition = self.scalar_arg(call, 0)?;
                let profile = self.scalar_arg(call, 1)?;
                self.emit_if(condition, |lower| {
                    lower
                        .emit_effect(
                            ExternFn::SetEntryExpireTime,
                            vec![ExternArg::Table(table.ir), ExternArg::Value(profile)],
                        )
                        .map(|_| ())
                })
            }
            "update_expire_info" => self.update_expire_info(call),
            "SelectByDirection" => self.select_by_direction(call),
            _ => self.unknown_extern(name, call.span),
        }
    }

    /// Lowers code that runs only if the condition holds.
    fn emit_if(
        &mut self,
        condition: ir::Value,
        then: impl FnOnce(&mut Self) -> LowerResult<()>,
    ) -> LowerResult<RValue> {
        let (yes, join) = (self.builder.create_block(), self.builder.create_block());
        self.builder.branch(condition, yes, join);
        self.builder.switch_to(yes);
        let done = then(self);
        self.builder.jump(join);
        self.builder.switch_to(join);
        done.map(|()| RValue::Void)
    }

    /// Converts the result of `add_entry`: whether an entry was added. The interface of three
    /// blocks returns `AddEntryErrorStatus_t`, where 0 is success.
    fn added_status(&mut self, added: RValue, ty: Ty, span: Span) -> LowerResult<RValue> {
        let (RValue::Scalar(added), true) = (&added, self.is_scalar(ty)) else { return Ok(added) };
        let status = self.scalar_type(ty, span)?;
        if status == Type::Bool {
            return Ok(RValue::Scalar(*added));
        }
        let success = self.builder.constant(Const::new(status, 0u8));
        let not_done = self.builder.constant(Const::new(status, 1u8));
        Ok(RValue::Scalar(self.builder.select(*added, success, not_done)))
    }

    /// Lowers `update_expire_info(restart the timer, change the profile, profile)`: if the timer
    /// restarts, either sets the new expire-time profile, which also restarts it, or only restarts
    /// it.
    fn update_expire_info(&mut self, call: &Call) -> LowerResult<RValue> {
        let table = self.calling_table("update_expire_info", call.span)?;
        let restarts = self.scalar_arg(call, 0)?;
        let changes_profile = self.scalar_arg(call, 1)?;
        let profile = self.scalar_arg(call, 2)?;
        self.emit_if(restarts, |lower| {
            let [set_profile, restart_only, join] = [(); 3].map(|()| lower.builder.create_block());
            lower.builder.branch(changes_profile, set_profile, restart_only);
            lower.builder.switch_to(set_profile);
            lower.emit_effect(
                ExternFn::SetEntryExpireTime,
                vec![ExternArg::Table(table.ir), ExternArg::Value(profile)],
            )?;
            lower.builder.jump(join);
            lower.builder.switch_to(restart_only);
            lower.emit_effect(ExternFn::RestartExpireTimer, vec![ExternArg::Table(table.ir)])?;
            lower.builder.jump(join);
            lower.builder.switch_to(join);
            Ok(())
        })
    }

    /// Lowers `SelectByDirection(direction, network to host, host to network)`. In the interface of
    /// three blocks, the first argument is a bool: whether the packet comes from the network.
    fn select_by_direction(&mut self, call: &Call) -> LowerResult<RValue> {
        let direction = self.scalar_arg(call, 0)?;
        let is_from_net = match self.builder.value_type(direction) {
            Type::Bool => direction,
            ty => {
                let net_to_host = self.builder.constant(Const::new(ty, 0u8));
                self.builder.eq(direction, net_to_host)
            }
        };
        let (Some(CallArg::Expr(net_to_host_arg)), Some(CallArg::Expr(host_to_net_arg))) =
            (call.args.get(1), call.args.get(2))
        else {
            return Ok(RValue::Void);
        };
        // Both arguments are flattened, because the IR selects scalars, not structs.
        let (mut net_scalars, mut host_scalars) = (Vec::new(), Vec::new());
        let val = self.arg_value(1, net_to_host_arg)?;
        self.append_scalars(&val, net_to_host_arg.ty, net_to_host_arg.span, &mut net_scalars)?;
        let val = self.arg_value(2, host_to_net_arg)?;
        self.append_scalars(&val, host_to_net_arg.ty, host_to_net_arg.span, &mut host_scalars)?;
        let chosen: Vec<ir::Value> =
            net_scalars.into_iter().zip(host_scalars).map(|(a, b)| self.builder.select(is_from_net, a, b)).collect();
        let ty = self.substitute_scope_params(net_to_host_arg.ty);
        Ok(self.build_from_scalars(ty, &mut chosen.into_iter()))
    }
}

fn flatten_known(known: &ConstValue, out: &mut Vec<ConstValue>) {
    match known {
        ConstValue::Tuple(items) => items.iter().for_each(|item| flatten_known(item, out)),
        other => out.push(other.clone()),
    }
}
