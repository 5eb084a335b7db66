//! Extern calls for v1model, PNA and Tofino.

use super::EmitResult;
use super::body::BodyWriter;
use super::expr::{self, ExprPrecedence, P4Expr};
use super::text::line;
use super::tofino::register::{self, RegisterUpdate};
use ir::*;

/// Extern call with its position.
#[derive(Clone, Copy)]
struct ExternCall<'c> {
    data: &'c InstData,
    /// Name of the object; empty for a function.
    name: &'c str,
    object: Option<ExternId>,
    func: ExternFn,
    args: &'c [ExternArg],
    block: Block,
    /// Index of the instruction in its block.
    n: usize,
}

impl BodyWriter<'_, '_> {
    /// Emits an extern call.
    pub(super) fn write_call(
        &mut self,
        data: &InstData,
        object: Option<ExternId>,
        func: ExternFn,
        args: &[ExternArg],
        block: Block,
        n: usize,
    ) -> EmitResult<()> {
        let name = object.map(|o| self.e.names.externs[o.index()].clone()).unwrap_or_default();
        let call = ExternCall { data, name: &name, object, func, args, block, n };
        match self.p.arch {
            _ if self.e.target.is_tofino() => self.tofino_call(call),
            Arch::V1Model => self.v1model_call(call),
            Arch::Pna => self.pna_call(call),
        }
    }

    fn arg_text(&self, args: &[ExternArg], n: usize) -> String {
        match args.get(n) {
            Some(ExternArg::Value(v)) => self.typed_text(*v),
            Some(ExternArg::Values(values)) => {
                let exprs: Vec<P4Expr> = values.iter().map(|v| self.value_expr(*v)).collect();
                expr::list(&exprs.iter().collect::<Vec<_>>())
            }
            Some(ExternArg::Str(text)) => format!("\"{text}\""),
            Some(ExternArg::Vars(vars)) => {
                let names: Vec<String> = vars.iter().map(|v| self.e.var_name(*v)).collect();
                format!("{{ {} }}", names.join(", "))
            }
            _ => String::new(),
        }
    }

    /// Returns an argument, cast to a type of the architecture.
    fn arg_as_type(&self, args: &[ExternArg], n: usize, ty: &str) -> String {
        let Some(ExternArg::Value(v)) = args.get(n) else { return String::new() };
        let expr = self.value_expr(*v);
        match &expr.named {
            Some((known, text)) if known == ty => text.clone(),
            _ if expr.precedence == ExprPrecedence::Primary => format!("({ty}) {}", expr.text),
            _ => format!("({ty}) ({})", expr.typed_text()),
        }
    }

    /// Returns argument `n`, an index, as text in the index type of the object's declaration: the
    /// named type of a counter, meter or register, else `bit<N>` of the object's index width.
    fn index_text(&self, object: Option<ExternId>, args: &[ExternArg], n: usize) -> String {
        let kind = object.map(|o| &self.p.externs[o].kind);
        let named = match kind {
            Some(
                ExternKind::Counter { index_type: Some(ty), .. }
                | ExternKind::Meter { index_type: Some(ty), .. }
                | ExternKind::Register { index_type: Some(ty), .. },
            ) => ty.clone(),
            _ => match (object, args.get(n)) {
                (Some(object), Some(ExternArg::Value(v))) => {
                    let value_type = self.graph.body.value_type(*v);
                    match self.e.index_width(object) {
                        Some(width) if value_type != Type::Bit(width) => {
                            let cast = expr::cast(self.p, Type::Bit(width), value_type, &self.value_expr(*v));
                            return cast.map(|e| e.text).unwrap_or_default();
                        }
                        _ => return self.arg_text(args, n),
                    }
                }
                _ => return self.arg_text(args, n),
            },
        };
        self.arg_as_type(args, n, &named)
    }

    /// Emits a call with a result type different from the type of the variable that receives it: a
    /// cast converts. `result_type` is the name of the result type; empty if the types are equal.
    /// `n` is the index of the instruction in its block.
    fn write_typed_result(
        &mut self,
        data: &InstData,
        block: Block,
        n: usize,
        call: String,
        result_type: &str,
    ) -> EmitResult<()> {
        let ty = data.results.first().map(|r| self.graph.body.value_type(*r));
        match ty {
            Some(ty) if !result_type.is_empty() => {
                let text = format!("({}) {call}", expr::type_text(self.p, ty));
                self.write_result(
                    data,
                    block,
                    n,
                    P4Expr { precedence: ExprPrecedence::Prefix, ..P4Expr::primary(text, Vec::new()) },
                )
            }
            _ => self.write_result(data, block, n, P4Expr::primary(call, Vec::new())),
        }
    }

    /// Emits a call of a PNA extern. A match arm gives the call's text and the name of its result
    /// type, which is empty if the result needs no cast.
    fn pna_call(&mut self, call: ExternCall<'_>) -> EmitResult<()> {
        let ExternCall { data, name, object, func, args, block, n } = call;
        use ExternFn::*;
        let is_table_owned = matches!(
            func,
            DirectCounterCount | DirectMeterExecute | AddEntry | SetEntryExpireTime | RestartExpireTimer
        );
        // A direct object belongs to one table, so only code inside of that table's action may call
        // it.
        if is_table_owned && self.action.is_none() {
            let construct = format!("`{}` in an action whose code is not the same in each table", func.name());
            return self.e.unsupported(data.loc, construct);
        }
        let (call, result_type) = match func {
            CounterCount => (format!("{name}.count({})", self.counter_args(object, args)), ""),
            DirectCounterCount => (format!("{name}.count({})", self.arg_text(args, 1)), ""),
            MeterExecute => {
                let colour = if args.len() > 1 { format!(", {}", self.arg_text(args, 1)) } else { String::new() };
                (format!("{name}.execute({}{colour})", self.index_text(object, args, 0)), "")
            }
            DirectMeterExecute => {
                let arg_texts: Vec<String> = (1..args.len()).map(|n| self.arg_text(args, n)).collect();
                (format!("{name}.execute({})", arg_texts.join(", ")), "")
            }
            RegisterRead => return self.register_read(call),
            RegisterWrite => {
                let value = self.element_text(object, args, 1)?;
                (format!("{name}.write({}, {value})", self.index_text(object, args, 0)), "")
            }
            HashGet if args.len() == 1 => (format!("{name}.get_hash({})", self.arg_text(args, 0)), ""),
            HashGet => (
                format!(
                    "{name}.get_hash({}, {}, {})",
                    self.arg_text(args, 0),
                    self.arg_text(args, 1),
                    self.arg_text(args, 2)
                ),
                "",
            ),
            ChecksumClear | InternetChecksumClear => (format!("{name}.clear()"), ""),
            ChecksumUpdate => (format!("{name}.update({})", self.arg_text(args, 0)), ""),
            ChecksumGet | InternetChecksumGet => (format!("{name}.get()"), ""),
            InternetChecksumAdd => (format!("{name}.add({})", self.arg_text(args, 0)), ""),
            InternetChecksumSubtract => (format!("{name}.subtract({})", self.arg_text(args, 0)), ""),
            InternetChecksumGetState => (format!("{name}.get_state()"), ""),
            InternetChecksumSetState => (format!("{name}.set_state({})", self.arg_text(args, 0)), ""),
            RandomRead => (format!("{name}.read()"), ""),
            DigestPack => (format!("{name}.pack({})", self.element_text(object, args, 0)?), ""),
            DropPacket => ("drop_packet()".into(), ""),
            SendToPort => (self.call_with_known_args("send_to_port", args, &[("port", "PortId_t")]), ""),
            IsHostPort => (format!("is_host_port({})", self.arg_as_type(args, 0, "PortId_t")), ""),
            IsNetPort => (format!("is_net_port({})", self.arg_as_type(args, 0, "PortId_t")), ""),
            MirrorPacket => {
                let params = [("slot", "MirrorSlotId_t"), ("session", "MirrorSessionId_t")];
                (self.call_with_known_args("mirror_packet", args, &params), "")
            }
            PnaRecirculate => ("recirculate()".into(), ""),
            Truncate => (format!("truncate({})", self.arg_text(args, 0)), ""),
            AddEntry if args.len() > ExternFn::TWIN_KEY => {
                return self.e.unsupported(data.loc, "`add_entry_pair` for PNA");
            }
            AddEntry => (self.add_entry(args), ""),
            AllocateFlowId => ("allocate_flow_id()".into(), "FlowId_t"),
            SetEntryExpireTime => {
                (format!("set_entry_expire_time({})", self.arg_as_type(args, 1, "ExpireTimeProfileId_t")), "")
            }
            RestartExpireTimer => ("restart_expire_timer()".into(), ""),
            _ => return self.e.unsupported(data.loc, format!("`{}` for PNA", func.name())),
        };
        self.write_typed_result(data, block, n, call, result_type)
    }

    /// Emits a call of an extern for Tofino, in TNA's names.
    fn tofino_call(&mut self, call: ExternCall<'_>) -> EmitResult<()> {
        let ExternCall { data, name, object, func, args, block, n } = call;
        let call = match func {
            ExternFn::CounterCount => format!("{name}.count({})", self.index_text(object, args, 0)),
            ExternFn::DirectCounterCount => format!("{name}.count()"),
            ExternFn::HashGet => {
                // A Tofino hash unit has one input list, so each use is an object of its own:
                // `hash`, `hash_2`.
                let use_count = object.map_or(1, |o| {
                    let use_count = self.e.hash_uses.entry(o).or_insert(0);
                    *use_count += 1;
                    *use_count
                });
                let number = if use_count == 1 { String::new() } else { format!("_{use_count}") };
                let list = args.iter().position(|a| matches!(a, ExternArg::Values(_))).unwrap_or(0);
                format!("{name}{number}.get({})", self.arg_text(args, list))
            }
            ExternFn::RandomRead => format!("{name}.get()"),
            ExternFn::MeterExecute => {
                let colour =
                    if args.len() > 1 { format!(", (MeterColor_t) {}", self.arg_text(args, 1)) } else { String::new() };
                format!("{name}.execute({}{colour})", self.index_text(object, args, 0))
            }
            ExternFn::DirectMeterExecute if self.action.is_none() => {
                return self
                    .e
                    .unsupported(data.loc, "a table's meter in an action whose code is not the same in each table");
            }
            ExternFn::DirectMeterExecute => match args.len() {
                0 | 1 => format!("{name}.execute()"),
                _ => format!("{name}.execute((MeterColor_t) {})", self.arg_text(args, 1)),
            },
            ExternFn::RegisterRead | ExternFn::RegisterWrite => return self.tofino_register(call),
            ExternFn::DropPacket => {
                let gress = if self.kind == ControlKind::Egress { "eg" } else { "ig" };
                self.out.push(line(format!("{gress}_dprsr_md.drop_ctl = 1;")));
                return Ok(());
            }
            ExternFn::SendToPort => {
                let Some(ExternArg::Value(port)) = args.first() else { return Ok(()) };
                let expr = self.value_expr(*port);
                let text = match expr.precedence {
                    // PNA's number of the CPU port has more bits than a port of the chip.
                    ExprPrecedence::Const if expr.text == "0xfffffffd" => "CPU_PORT".to_owned(),
                    ExprPrecedence::Const => format!("(PortId_t) {}", expr.typed_text()),
                    _ => expr::slice(&expr, 8, 0).text,
                };
                self.out.push(line(format!("ig_tm_md.ucast_egress_port = {text};")));
                return Ok(());
            }
            ExternFn::InternetChecksumAdd => format!("{name}.add({})", self.arg_text(args, 0)),
            ExternFn::InternetChecksumClear => return Ok(()),
            ExternFn::InternetChecksumGet => {
                let result = data.results[0];
                self.values.insert(result, P4Expr::primary(format!("{name}.verify()"), Vec::new()));
                return Ok(());
            }
            _ => return self.e.unsupported(data.loc, format!("`{}` for Tofino", func.name())),
        };
        self.write_result(data, block, n, P4Expr::primary(call, Vec::new()))
    }

    /// Emits a register access: a plain read or write, or one `RegisterAction` for both.
    fn tofino_register(&mut self, call: ExternCall<'_>) -> EmitResult<()> {
        let ExternCall { data, name, object, func, args, block, n } = call;
        let Some(id) = object else { return Ok(()) };
        let update = match register::register_update(self.graph.body, id) {
            Ok(update) => update,
            Err(why) => return self.e.unsupported(data.loc, why),
        };
        let index = self.index_text(object, args, 0);
        let (new_value, ty) = match update {
            RegisterUpdate::Read => {
                return self.write_result(data, block, n, P4Expr::primary(format!("{name}.read({index})"), Vec::new()));
            }
            RegisterUpdate::Write => {
                let value = Self::arg_leaves(args, 1).first().map(|v| self.value_text(*v)).unwrap_or_default();
                self.out.push(line(format!("{name}.write({index}, {value});")));
                return Ok(());
            }
            // The register action of the read also writes.
            _ if func == ExternFn::RegisterWrite => return Ok(()),
            RegisterUpdate::Modify(op, operand) => {
                let ty = self.graph.body.value_type(operand);
                (register::new_element_text(op, ty, &self.operand_expr(operand)), ty)
            }
            RegisterUpdate::Swap(value) => (self.operand_expr(value).text, self.graph.body.value_type(value)),
        };
        let width = self.e.index_width(id).unwrap_or(32);
        let action = self.e.shared_name(&format!("{name}_update"));
        let ty = expr::type_text(self.p, ty);
        let text = register::register_action_text(&ty, &format!("bit<{width}>"), name, &action, &new_value);
        if !self.decls.contains(&text) {
            self.decls.push(text);
        }
        self.write_result(data, block, n, P4Expr::primary(format!("{action}.execute({index})"), Vec::new()))
    }

    /// Returns the expression of a constant or variable load, even if its block has not been
    /// emitted.
    fn operand_expr(&self, value: Value) -> P4Expr {
        if let Some(known) = self.values.get(&value) {
            return known.clone();
        }
        let block = self.graph.defined_in(value);
        let data = block.and_then(|b| self.graph.body.blocks[b].insts.iter().find(|i| i.results.contains(&value)));
        match data.map(|i| &i.inst) {
            Some(Inst::Load(var)) => self.e.load_expr(*var),
            Some(Inst::Const(c)) => expr::constant(self.p, c).unwrap_or_else(|| self.value_expr(value)),
            _ => self.value_expr(value),
        }
    }

    /// Returns a call of a function that accepts only constants or action data as arguments. Other
    /// arguments go through a hidden action, whose parameters they become. `params` has the name
    /// and the type of each parameter.
    fn call_with_known_args(&mut self, name: &str, args: &[ExternArg], params: &[(&str, &str)]) -> String {
        let texts: Vec<String> = params.iter().enumerate().map(|(n, (_, ty))| self.arg_as_type(args, n, ty)).collect();
        let is_known = |arg: &ExternArg| match arg {
            ExternArg::Value(v) => {
                let is_block_param =
                    self.graph.defined_in(*v).is_some_and(|b| self.graph.body.blocks[b].params.contains(v));
                let expr = self.value_expr(*v);
                expr.precedence == ExprPrecedence::Const
                    || (self.action.is_some() && is_block_param && expr.uses_inner_names)
            }
            _ => true,
        };
        if args.iter().all(is_known) {
            return format!("{name}({})", texts.join(", "));
        }
        let action = self.e.shared_name(&format!("{name}_with"));
        let declared: Vec<String> = params.iter().map(|(param, ty)| format!("{ty} {param}")).collect();
        let names: Vec<&str> = params.iter().map(|(param, _)| *param).collect();
        let text = format!("@hidden action {action}({}) {{ {name}({}); }}", declared.join(", "), names.join(", "));
        if !self.decls.contains(&text) {
            self.decls.push(text);
        }
        format!("{action}({})", texts.join(", "))
    }

    /// Returns the index and increment arguments of a counter.
    fn counter_args(&self, object: Option<ExternId>, args: &[ExternArg]) -> String {
        let index = self.index_text(object, args, 0);
        if args.len() > 1 { format!("{index}, {}", self.arg_text(args, 1)) } else { index }
    }

    fn add_entry(&self, args: &[ExternArg]) -> String {
        let action = match args.get(1) {
            Some(ExternArg::Action(action)) => self.e.names.actions[action.index()].clone(),
            _ => String::new(),
        };
        let profile = self.arg_as_type(args, 3, "ExpireTimeProfileId_t");
        let data = match args.get(2) {
            Some(ExternArg::Values(values)) if !values.is_empty() => self.arg_text(args, 2),
            _ => "{ }".into(),
        };
        format!("add_entry(\"{action}\", {data}, {profile})")
    }

    /// Returns an aggregate of a type, built from its leaves.
    fn aggregate_text(&self, ty: &DataType, leaves: &mut std::slice::Iter<'_, Value>) -> Option<String> {
        let inner = |types: Vec<&DataType>, leaves: &mut std::slice::Iter<'_, Value>| {
            let parts: Option<Vec<String>> = types.into_iter().map(|t| self.aggregate_text(t, leaves)).collect();
            parts.map(|parts| format!("{{ {} }}", parts.join(", ")))
        };
        match ty {
            DataType::Tuple(types) => inner(types.iter().collect(), leaves),
            DataType::Named(name) => match self.p.named_types.iter().find(|(n, _)| n == name).map(|(_, t)| t) {
                Some(NamedType::Struct(members)) => inner(members.iter().map(|(_, t)| t).collect(), leaves),
                Some(NamedType::SerializableEnum(..) | NamedType::NewType(..)) => {
                    Some(format!("({name}) ({})", self.typed_text(*leaves.next()?)))
                }
                Some(NamedType::Enum(_)) => Some(self.typed_text(*leaves.next()?)),
                _ => None,
            },
            DataType::Stack(..) => None,
            _ => Some(self.typed_text(*leaves.next()?)),
        }
    }

    fn arg_leaves(args: &[ExternArg], n: usize) -> Vec<Value> {
        match args.get(n) {
            Some(ExternArg::Values(values)) => values.clone(),
            Some(ExternArg::Value(value)) => vec![*value],
            _ => Vec::new(),
        }
    }

    /// Returns the message of a digest or the element of a register.
    fn element_text(&mut self, object: Option<ExternId>, args: &[ExternArg], n: usize) -> EmitResult<String> {
        let leaves = Self::arg_leaves(args, n);
        let (ty, what) = match object.map(|o| &self.p.externs[o].kind) {
            Some(ExternKind::Digest { data_type, .. }) => (Some(data_type), "a digest"),
            Some(ExternKind::Register { data_type, .. }) => (Some(data_type), "a register"),
            _ => (None, "an object"),
        };
        match ty.and_then(|ty| self.aggregate_text(ty, &mut leaves.iter())) {
            Some(text) => Ok(text),
            None => self.e.unsupported(self.loc, format!("{what} with headers in it")),
        }
    }

    /// Appends the paths to the leaves of a type (`.a.b`), each with whether the leaf has a named
    /// type. Returns `false` for tuples, stacks and headers, which have no such paths.
    fn leaf_paths(&self, ty: &DataType, path: &str, out: &mut Vec<(String, bool)>) -> bool {
        let named = |name: &str| self.p.named_types.iter().find(|(n, _)| n == name).map(|(_, t)| t);
        match ty {
            DataType::Tuple(_) | DataType::Stack(..) => false,
            DataType::Named(name) => match named(name) {
                Some(NamedType::Struct(members)) => {
                    members.iter().all(|(member, ty)| self.leaf_paths(ty, &format!("{path}.{member}"), out))
                }
                Some(NamedType::SerializableEnum(..) | NamedType::NewType(..)) => {
                    out.push((path.to_owned(), true));
                    true
                }
                Some(NamedType::Enum(_)) => {
                    out.push((path.to_owned(), false));
                    true
                }
                _ => false,
            },
            _ => {
                out.push((path.to_owned(), false));
                true
            }
        }
    }

    /// Emits a register read. An element with several leaves goes through a variable of its type.
    fn register_read(&mut self, call: ExternCall<'_>) -> EmitResult<()> {
        let ExternCall { data, name, object, args, block, .. } = call;
        let Some(ExternKind::Register { data_type, .. }) = object.map(|o| &self.p.externs[o].kind) else {
            return self.e.unsupported(data.loc, "a register without a type");
        };
        let index = self.index_text(object, args, 0);
        let v1model = self.p.arch == Arch::V1Model;
        let element = self.e.data_type(data_type);
        let mut paths = Vec::new();
        if !self.leaf_paths(data_type, "", &mut paths) || paths.len() != data.results.len() {
            return self.e.unsupported(data.loc, "a register whose elements have headers, stacks or tuples in them");
        }
        let element_var = format!("{name}_element");
        let element_var = self.e.shared_name(&element_var);
        self.declare(&element, &element_var);
        self.out.push(line(match v1model {
            true => format!("{name}.read({element_var}, {index});"),
            false => format!("{element_var} = {name}.read({index});"),
        }));
        for (result, (path, named)) in data.results.iter().zip(paths) {
            let ty = expr::type_text(self.p, self.graph.body.value_type(*result));
            let (text, precedence) = match named {
                true => (format!("({ty}) {element_var}{path}"), ExprPrecedence::Prefix),
                false => (format!("{element_var}{path}"), ExprPrecedence::Primary),
            };
            self.values.insert(*result, P4Expr { precedence, ..P4Expr::primary(text, Vec::new()) });
            if !self.graph.uses(*result).is_empty() {
                self.save_value(*result, block)?;
            }
        }
        Ok(())
    }

    /// Emits a call of a v1model extern. An `out` parameter of the extern receives the result.
    fn v1model_call(&mut self, call: ExternCall<'_>) -> EmitResult<()> {
        use ExternFn::*;
        let ExternCall { data, name, object, func, args, block, n } = call;
        let algorithm = |n: usize| match args.get(n) {
            Some(ExternArg::Str(text)) => format!("HashAlgorithm.{text}"),
            _ => String::new(),
        };
        let text = match func {
            CounterCount => format!("{name}.count({})", self.index_text(object, args, 0)),
            MeterExecute => {
                return self.write_out_call(
                    data,
                    &format!("{name}.execute_meter({}, ", self.index_text(object, args, 0)),
                    ")",
                );
            }
            RegisterRead => return self.register_read(call),
            RegisterWrite => {
                let value = self.element_text(object, args, 1)?;
                format!("{name}.write({}, {value})", self.index_text(object, args, 0))
            }
            Checksum16Get => {
                return self.write_result(
                    data,
                    block,
                    n,
                    P4Expr::primary(format!("{name}.get({})", self.arg_text(args, 0)), Vec::new()),
                );
            }
            DigestPack => {
                let value = self.element_text(object, args, 0)?;
                format!("digest<{}>(1, {value})", self.e.digest_type(object))
            }
            Random => {
                let call_end = format!(", {}, {})", self.arg_text(args, 0), self.arg_text(args, 1));
                return self.write_out_call(data, "random(", &call_end);
            }
            Hash => {
                let call_end = format!(
                    ", {}, {}, {}, {})",
                    algorithm(0),
                    self.arg_text(args, 1),
                    self.arg_text(args, 2),
                    self.arg_text(args, 3)
                );
                return self.write_out_call(data, "hash(", &call_end);
            }
            MarkToDrop => "mark_to_drop(standard_metadata)".into(),
            VerifyChecksum | VerifyChecksumWithPayload => {
                format!(
                    "{}({}, {}, {}, {})",
                    func.name(),
                    self.arg_text(args, 0),
                    self.arg_text(args, 1),
                    self.arg_text(args, 2),
                    algorithm(3)
                )
            }
            UpdateChecksum | UpdateChecksumWithPayload => {
                let (cond, list, old) = (self.arg_text(args, 0), self.arg_text(args, 1), self.arg_text(args, 2));
                let (head, tail) = (format!("{}({cond}, {list}, ", func.name()), format!(", {})", algorithm(3)));
                return self.write_inout_call(data, &head, &old, &tail);
            }
            Clone | Resubmit | Recirculate => self.replication_call(func, args),
            Truncate => format!("truncate({})", self.arg_text(args, 0)),
            Assert => format!("assert({})", self.arg_text(args, 0)),
            Assume => format!("assume({})", self.arg_text(args, 0)),
            LogMsg if args.len() > 1 => format!("log_msg({}, {})", self.arg_text(args, 0), self.arg_text(args, 1)),
            LogMsg => format!("log_msg({})", self.arg_text(args, 0)),
            _ => return self.e.unsupported(data.loc, format!("`{}` for v1model", func.name())),
        };
        self.write_result(data, block, n, P4Expr::primary(text, Vec::new()))
    }

    /// Returns a clone, resubmit or recirculate call.
    fn replication_call(&mut self, func: ExternFn, args: &[ExternArg]) -> String {
        let name = func.name();
        if func != ExternFn::Clone {
            return match self.preserved_fields(args, 0) {
                // `(true, list)`: the list is a field list's number; `(false, list)`: a tuple of
                // values.
                None => format!("{name}_preserving_field_list({})", self.e.empty_field_list()),
                Some((true, list)) => format!("{name}_preserving_field_list({list})"),
                Some((false, list)) => format!("{name}({list})"),
            };
        }
        let kind = match args.first() {
            Some(ExternArg::Str(kind)) => format!("CloneType.{kind}"),
            _ => String::new(),
        };
        let session = self.arg_text(args, 1);
        match self.preserved_fields(args, 2) {
            None => format!("clone({kind}, {session})"),
            Some((true, list)) => format!("clone_preserving_field_list({kind}, {session}, {list})"),
            Some((false, list)) => format!("clone3({kind}, {session}, {list})"),
        }
    }

    /// Returns the fields that a copy of the packet preserves: a field list number (`true`), or the
    /// fields themselves.
    fn preserved_fields(&self, args: &[ExternArg], n: usize) -> Option<(bool, String)> {
        let Some(ExternArg::Vars(vars)) = args.get(n) else { return None };
        if vars.is_empty() {
            return None;
        }
        match self.p.field_lists.iter().find(|(_, list)| *list == vars) {
            Some((number, _)) => Some((true, number.to_string())),
            None => Some((false, self.arg_text(args, n))),
        }
    }

    /// Emits a call with an `out` argument.
    fn write_out_call(&mut self, data: &InstData, head: &str, tail: &str) -> EmitResult<()> {
        self.write_inout_call(data, head, "", tail)
    }

    fn write_inout_call(&mut self, data: &InstData, head: &str, old: &str, tail: &str) -> EmitResult<()> {
        let Some(result) = data.results.first().copied() else { return Ok(()) };
        let ty = expr::type_text(self.p, self.graph.body.value_type(result));
        let expr = P4Expr::primary("result", Vec::new());
        let name = self.outer_name(&expr);
        self.declare(&ty, &name);
        if !old.is_empty() {
            self.out.push(line(format!("{name} = {old};")));
        }
        self.out.push(line(format!("{head}{name}{tail};")));
        self.values.insert(result, P4Expr::primary(name, Vec::new()));
        Ok(())
    }
}
