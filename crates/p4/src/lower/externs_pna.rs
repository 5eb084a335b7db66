//! The externs of PNA.

use super::extern_names::hash_algorithm;
use super::known::Known;
use super::lowering::{Lower, Res};
use super::value::Val;
use crate::hir::{Call, CallArg, Construct, Method, Ty};
use crate::span::Span;
use ir::{Arg, BlockCall, Const, ExternFn, ExternKind, HashAlgorithm, Type};

impl Lower<'_> {
    /// What a constructor makes; `None` if it is not PNA's.
    pub(super) fn pna_object(&mut self, name: &str, construct: &Construct) -> Res<Option<ExternKind>> {
        Ok(Some(match name {
            "Hash" => ExternKind::Hash { algorithm: self.algorithm(construct)?, output: self.type_arg(construct, 0)? },
            "Checksum" => {
                ExternKind::Checksum { algorithm: self.algorithm(construct)?, output: self.type_arg(construct, 0)? }
            }
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
                self.register(construct, initial)?
            }
            "Random" => {
                let (min, max) = (self.constructor_arg(construct, 0)?, self.constructor_arg(construct, 1)?);
                ExternKind::Random { min: self.known_const(min)?, max: self.known_const(max)? }
            }
            "ActionProfile" => ExternKind::ActionProfile { size: self.number_constructor_arg(construct, 0)? },
            "ActionSelector" => self.selector(construct)?,
            "Digest" => {
                let Some(ty) = construct.type_args.first().copied() else { return Ok(None) };
                let mut fields = Vec::new();
                self.leaves(ty, &mut fields);
                ExternKind::Digest { data_type: self.data_type(ty), fields }
            }
            _ => return Ok(None),
        }))
    }

    fn algorithm(&mut self, construct: &Construct) -> Res<HashAlgorithm> {
        let name = self.member_constructor_arg(construct, 0)?;
        match hash_algorithm(&name) {
            Some(algorithm) => Ok(algorithm),
            None => self.unsupported(construct.span, format_args!("hash algorithm `{name}`")),
        }
    }

    /// The leaves of a register's initial value; none if it isn't given.
    fn initial_value(&mut self, construct: &Construct) -> Res<Vec<Const>> {
        let Some(Some(initial)) = construct.args.get(1) else { return Ok(Vec::new()) };
        let Some(ty) = construct.type_args.first().copied() else { return Ok(Vec::new()) };
        let mut types = Vec::new();
        self.leaves(ty, &mut types);
        let known = self.try_known(initial);
        let mut flat = Vec::new();
        if let Some(known) = known {
            flatten_known(&known, &mut flat);
        }
        if flat.len() != types.len() {
            return self.error("not-constant", initial.span, "the initial value must be known at compile time");
        }
        let consts = flat.iter().zip(types).map(|(known, ty)| Some(Const::new(ty, self.bits_of(known, ty)?)));
        match consts.collect::<Option<Vec<Const>>>() {
            Some(consts) => Ok(consts),
            None => self.error("not-constant", initial.span, "the initial value must be known at compile time"),
        }
    }

    pub(super) fn pna_method(
        &mut self,
        object: ir::ExternId,
        ty: &str,
        method: &Method,
        call: &Call,
        result: Ty,
    ) -> Res<Val> {
        let of = Some(object);
        match (ty, &*method.name) {
            ("Counter", "count") => {
                let mut args = vec![Arg::Value(self.scalar_arg(call, 0)?)];
                self.optional_arg(call, 1, &mut args)?;
                self.b.call(of, ExternFn::CounterCount, args, &[]);
            }
            ("DirectCounter", "count") => {
                let table = self.calling_table("DirectCounter.count", call.span)?;
                let mut args = vec![Arg::Table(table.ir)];
                self.optional_arg(call, 0, &mut args)?;
                self.b.call(of, ExternFn::DirectCounterCount, args, &[]);
            }
            ("Meter", "execute") => {
                let mut args = vec![Arg::Value(self.scalar_arg(call, 0)?)];
                self.optional_arg(call, 1, &mut args)?;
                return self.valued(object, ExternFn::MeterExecute, args, result, call);
            }
            ("DirectMeter", "execute") => {
                let table = self.calling_table("DirectMeter.execute", call.span)?;
                let mut args = vec![Arg::Table(table.ir)];
                let coloured = method.params.first().is_some_and(|p| &*self.local(*p).name == "color");
                let length = usize::from(coloured);
                if coloured {
                    args.push(Arg::Value(self.scalar_arg(call, 0)?));
                } else if matches!(call.args.get(length), Some(CallArg::Expr(_))) {
                    let ty = self.result_type(object, ExternFn::DirectMeterExecute, result, call)?;
                    args.push(Arg::Value(self.green(ty)));
                }
                self.optional_arg(call, length, &mut args)?;
                return self.valued(object, ExternFn::DirectMeterExecute, args, result, call);
            }
            ("Register", "read") => {
                let index = self.scalar_arg(call, 0)?;
                let elem = self.register_elem(object);
                let values = self.b.call(of, ExternFn::RegisterRead, vec![Arg::Value(index)], &elem);
                let ty = self.ty(result);
                return Ok(self.unflatten(ty, &mut values.into_iter()));
            }
            ("Register", "write") => {
                let index = self.scalar_arg(call, 0)?;
                let data = self.data_arg(call, 1)?;
                self.b.call(of, ExternFn::RegisterWrite, vec![Arg::Value(index), data], &[]);
            }
            ("Hash", "get_hash") => {
                let args = if call.args.len() > 1 {
                    let base = self.scalar_arg(call, 0)?;
                    let data = self.data_arg(call, 1)?;
                    vec![Arg::Value(base), data, Arg::Value(self.scalar_arg(call, 2)?)]
                } else {
                    vec![self.data_arg(call, 0)?]
                };
                return self.valued(object, ExternFn::HashGet, args, result, call);
            }
            ("Checksum" | "InternetChecksum", _) => return self.pna_checksum(object, ty, &method.name, call, result),
            ("Random", "read") => return self.valued(object, ExternFn::RandomRead, Vec::new(), result, call),
            ("Digest", "pack") => {
                let data = self.data_arg(call, 0)?;
                self.b.call(of, ExternFn::DigestPack, vec![data], &[]);
            }
            (ty, method) => return self.unknown_extern(&format!("{ty}.{method}"), call.span),
        }
        Ok(Val::Void)
    }

    fn pna_checksum(&mut self, object: ir::ExternId, ty: &str, method: &str, call: &Call, result: Ty) -> Res<Val> {
        let func = match (ty, method) {
            ("Checksum", "clear") => ExternFn::ChecksumClear,
            ("Checksum", "update") => ExternFn::ChecksumUpdate,
            ("Checksum", "get") => return self.valued(object, ExternFn::ChecksumGet, Vec::new(), result, call),
            ("InternetChecksum", "clear") => ExternFn::InternetChecksumClear,
            ("InternetChecksum", "add") => ExternFn::InternetChecksumAdd,
            ("InternetChecksum", "subtract") => ExternFn::InternetChecksumSubtract,
            ("InternetChecksum", "get") => {
                return self.valued(object, ExternFn::InternetChecksumGet, Vec::new(), result, call);
            }
            ("InternetChecksum", "get_state") => {
                return self.valued(object, ExternFn::InternetChecksumGetState, Vec::new(), result, call);
            }
            ("InternetChecksum", "set_state") => {
                let state = self.scalar_arg(call, 0)?;
                self.b.call(Some(object), ExternFn::InternetChecksumSetState, vec![Arg::Value(state)], &[]);
                return Ok(Val::Void);
            }
            _ => return self.unknown_extern(&format!("{ty}.{method}"), call.span),
        };
        let args = if call.args.is_empty() { Vec::new() } else { vec![self.data_arg(call, 0)?] };
        self.b.call(Some(object), func, args, &[]);
        Ok(Val::Void)
    }

    /// A method with one scalar result.
    fn valued(&mut self, object: ir::ExternId, func: ExternFn, args: Vec<Arg>, result: Ty, call: &Call) -> Res<Val> {
        let ty = self.result_type(object, func, result, call)?;
        Ok(Val::Scalar(self.b.call(Some(object), func, args, &[ty])[0]))
    }

    /// The colour that a colour-blind meter takes packets to have.
    fn green(&mut self, ty: Type) -> ir::Value {
        let members = match ty {
            Type::Enum(id) => self.p.enums[id].members.as_slice(),
            _ => &[],
        };
        let green = members.iter().position(|name| name == "GREEN").unwrap_or(0);
        self.b.constant(Const::new(ty, green))
    }

    /// The type of a result; of a call for its effect alone, that of the object.
    fn result_type(&mut self, object: ir::ExternId, func: ExternFn, result: Ty, call: &Call) -> Res<Type> {
        if self.is_scalar(result) {
            return self.scalar(result, call.span);
        }
        let body = self.b.body();
        let types = ir::extern_result_types(func, Some(object), &[], body, &self.p);
        Ok(types.first().and_then(|t| t.exact()).unwrap_or(Type::Bit(32)))
    }

    fn optional_arg(&mut self, call: &Call, n: usize, args: &mut Vec<Arg>) -> Res<()> {
        args.extend(self.optional_scalar_arg(call, n)?.map(Arg::Value));
        Ok(())
    }

    pub(super) fn pna_function(&mut self, name: &str, call: &Call, ty: Ty) -> Res<Val> {
        match name {
            "drop_packet" => self.effect(ExternFn::DropPacket, Vec::new()),
            "send_to_port" => {
                let port = self.scalar_arg(call, 0)?;
                self.effect(ExternFn::SendToPort, vec![Arg::Value(port)])
            }
            "is_host_port" | "is_net_port" => {
                let func = if name == "is_host_port" { ExternFn::IsHostPort } else { ExternFn::IsNetPort };
                let port = self.scalar_arg(call, 0)?;
                Ok(Val::Scalar(self.b.call(None, func, vec![Arg::Value(port)], &[Type::Bool])[0]))
            }
            "mirror_packet" => {
                let slot = self.scalar_arg(call, 0)?;
                let session = self.scalar_arg(call, 1)?;
                self.effect(ExternFn::MirrorPacket, vec![Arg::Value(slot), Arg::Value(session)])
            }
            "truncate" => {
                let length = self.scalar_arg(call, 0)?;
                self.effect(ExternFn::Truncate, vec![Arg::Value(length)])
            }
            "recirculate" => self.effect(ExternFn::PnaRecirculate, Vec::new()),
            "add_entry" => {
                let added = self.add_entry(call, 0)?;
                self.added_status(added, ty, call.span)
            }
            "add_entry_if" => {
                let added = self.add_entry_if(call)?;
                self.added_status(added, ty, call.span)
            }
            "allocate_flow_id" => {
                let ty = if self.is_scalar(ty) { self.scalar(ty, call.span)? } else { Type::Bit(32) };
                Ok(Val::Scalar(self.b.call(None, ExternFn::AllocateFlowId, Vec::new(), &[ty])[0]))
            }
            "set_entry_expire_time" => {
                let table = self.calling_table(name, call.span)?;
                let profile = self.scalar_arg(call, 0)?;
                self.effect(ExternFn::SetEntryExpireTime, vec![Arg::Table(table.ir), Arg::Value(profile)])
            }
            "restart_expire_timer" => {
                let table = self.calling_table(name, call.span)?;
                self.effect(ExternFn::RestartExpireTimer, vec![Arg::Table(table.ir)])
            }
            "set_entry_expire_time_if" => {
                let table = self.calling_table(name, call.span)?;
                let condition = self.scalar_arg(call, 0)?;
                let profile = self.scalar_arg(call, 1)?;
                self.only_if(condition, |lower| {
                    lower
                        .effect(ExternFn::SetEntryExpireTime, vec![Arg::Table(table.ir), Arg::Value(profile)])
                        .map(|_| ())
                })
            }
            "update_expire_info" => self.update_expire_info(call),
            "SelectByDirection" => self.select_by_direction(call),
            _ => self.unknown_extern(name, call.span),
        }
    }

    /// What happens only if the condition holds.
    fn only_if(&mut self, condition: ir::Value, then: impl FnOnce(&mut Self) -> Res<()>) -> Res<Val> {
        let (yes, join) = (self.b.create_block(), self.b.create_block());
        self.b.branch(condition, yes, join);
        self.b.switch_to(yes);
        let done = then(self);
        self.b.jump(join);
        self.b.switch_to(join);
        done.map(|()| Val::Void)
    }

    /// `add_entry(action name, parameters, profile)`, with its arguments from number `at` on.
    fn add_entry(&mut self, call: &Call, at: usize) -> Res<Val> {
        let context = self.calling_table("add_entry", call.span)?;
        let name = self.text_arg(call, at)?;
        let decl = &self.hir.tables[context.hir.index()];
        let action = decl.actions.iter().position(|a| self.hir.actions[a.action.index()].name == name);
        let action = action.and_then(|n| self.p.tables[context.ir].actions.get(n)).map(|a| a.action);
        let Some(action) = action else {
            let message = format!("table `{}` has no action `{name}`", decl.name);
            return self.error("unknown-action", call.span, message);
        };
        let Arg::Values(values) = self.data_arg(call, at + 1)? else { return Ok(Val::Void) };
        let types: Vec<Type> = self.p.actions[action].params.iter().map(|p| p.ty).collect();
        if types.len() != values.len() {
            let message = format!("action `{name}` takes {} parameters, not {}", types.len(), values.len());
            return self.error("missing-argument", call.span, message);
        }
        let values = values.into_iter().zip(types).map(|(value, ty)| self.b.cast(ty, value)).collect();
        let profile = self.scalar_arg(call, at + 2)?;
        let args = vec![Arg::Table(context.ir), Arg::Action(action), Arg::Values(values), Arg::Value(profile)];
        Ok(Val::Scalar(self.b.call(None, ExternFn::AddEntry, args, &[Type::Bool])[0]))
    }

    /// `add_entry_if(condition, ...)`: false if the condition is.
    fn add_entry_if(&mut self, call: &Call) -> Res<Val> {
        let condition = self.scalar_arg(call, 0)?;
        let (yes, join) = (self.b.create_block(), self.b.create_block());
        let result = self.b.append_param(join, Type::Bool);
        self.b.branch_with(condition, BlockCall::to(yes), Self::to_with(join, condition));
        self.b.switch_to(yes);
        let added = self.add_entry(call, 1);
        let added = match added {
            Ok(Val::Scalar(added)) => added,
            _ => condition,
        };
        self.b.jump_with(join, vec![added]);
        self.b.switch_to(join);
        Ok(Val::Scalar(result))
    }

    /// What `add_entry` returns: whether an entry was added; in the interface of three blocks `AddEntryErrorStatus_t`, of
    /// which 0 is success.
    fn added_status(&mut self, added: Val, ty: Ty, span: Span) -> Res<Val> {
        let (Val::Scalar(added), true) = (&added, self.is_scalar(ty)) else { return Ok(added) };
        let status = self.scalar(ty, span)?;
        if status == Type::Bool {
            return Ok(Val::Scalar(*added));
        }
        let success = self.b.constant(Const::new(status, 0u8));
        let not_done = self.b.constant(Const::new(status, 1u8));
        Ok(Val::Scalar(self.b.select(*added, success, not_done)))
    }

    /// `update_expire_info(restart the timer, change the profile, profile)`.
    fn update_expire_info(&mut self, call: &Call) -> Res<Val> {
        let table = self.calling_table("update_expire_info", call.span)?;
        let restart = self.scalar_arg(call, 0)?;
        let change = self.scalar_arg(call, 1)?;
        let profile = self.scalar_arg(call, 2)?;
        self.only_if(restart, |lower| {
            let [set, only, join] = [(); 3].map(|()| lower.b.create_block());
            lower.b.branch(change, set, only);
            lower.b.switch_to(set);
            lower.effect(ExternFn::SetEntryExpireTime, vec![Arg::Table(table.ir), Arg::Value(profile)])?;
            lower.b.jump(join);
            lower.b.switch_to(only);
            lower.effect(ExternFn::RestartExpireTimer, vec![Arg::Table(table.ir)])?;
            lower.b.jump(join);
            lower.b.switch_to(join);
            Ok(())
        })
    }

    /// `SelectByDirection(direction, network to host, host to network)`; in the interface of three blocks, the first
    /// argument says whether the packet comes from the network.
    fn select_by_direction(&mut self, call: &Call) -> Res<Val> {
        let direction = self.scalar_arg(call, 0)?;
        let inward = match self.b.value_type(direction) {
            Type::Bool => direction,
            ty => {
                let net_to_host = self.b.constant(Const::new(ty, 0u8));
                self.b.eq(direction, net_to_host)
            }
        };
        let (Some(CallArg::Expr(yes)), Some(CallArg::Expr(no))) = (call.args.get(1), call.args.get(2)) else {
            return Ok(Val::Void);
        };
        let (mut then, mut els) = (Vec::new(), Vec::new());
        let val = self.arg_value(1, yes)?;
        self.flatten(&val, yes.ty, yes.span, &mut then)?;
        let val = self.arg_value(2, no)?;
        self.flatten(&val, no.ty, no.span, &mut els)?;
        let chosen: Vec<ir::Value> = then.into_iter().zip(els).map(|(a, b)| self.b.select(inward, a, b)).collect();
        let ty = self.ty(yes.ty);
        Ok(self.unflatten(ty, &mut chosen.into_iter()))
    }
}

fn flatten_known(known: &Known, out: &mut Vec<Known>) {
    match known {
        Known::Tuple(items) => items.iter().for_each(|item| flatten_known(item, out)),
        other => out.push(other.clone()),
    }
}
