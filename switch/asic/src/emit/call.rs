//! Calls of externs, as v1model and PNA have them.

use super::Res;
use super::body::Writer;
use super::expr::{self, Expr, Form};
use super::text::line;
use super::tofino::register::{self, Update};
use ir::*;

/// A call of an extern: the instruction, what it calls, and where it stands.
#[derive(Clone, Copy)]
struct Call<'c> {
    data: &'c InstData,
    /// The object's name; empty for a function.
    name: &'c str,
    object: Option<ExternId>,
    func: ExternFn,
    args: &'c [Arg],
    block: Block,
    /// Position in the block.
    n: usize,
}

impl Writer<'_, '_> {
    /// An extern call.
    pub(super) fn call(
        &mut self,
        data: &InstData,
        object: Option<ExternId>,
        func: ExternFn,
        args: &[Arg],
        block: Block,
        n: usize,
    ) -> Res<()> {
        let name = object.map(|o| self.e.names.externs[o.index()].clone()).unwrap_or_default();
        let call = Call { data, name: &name, object, func, args, block, n };
        match self.p.arch {
            _ if self.e.target.is_tofino() => self.tofino_call(call),
            Arch::V1Model => self.v1model_call(call),
            Arch::Pna => self.pna_call(call),
        }
    }

    fn arg(&self, args: &[Arg], n: usize) -> String {
        match args.get(n) {
            Some(Arg::Value(v)) => self.typed(*v),
            Some(Arg::Values(values)) => {
                let exprs: Vec<Expr> = values.iter().map(|v| self.value(*v)).collect();
                expr::list(&exprs.iter().collect::<Vec<_>>())
            }
            Some(Arg::Str(text)) => format!("\"{text}\""),
            Some(Arg::Vars(vars)) => {
                let names: Vec<String> = vars.iter().map(|v| self.e.var(*v)).collect();
                format!("{{ {} }}", names.join(", "))
            }
            _ => String::new(),
        }
    }

    /// A value in a type of the architecture's.
    fn named(&self, args: &[Arg], n: usize, ty: &str) -> String {
        let Some(Arg::Value(v)) = args.get(n) else { return String::new() };
        let expr = self.value(*v);
        match &expr.named {
            Some((known, text)) if known == ty => text.clone(),
            _ if expr.form == Form::Primary => format!("({ty}) {}", expr.text),
            _ => format!("({ty}) ({})", expr.typed()),
        }
    }

    /// An index, in the type that the object's declaration gives to it.
    fn index(&self, object: Option<ExternId>, args: &[Arg], n: usize) -> String {
        let kind = object.map(|o| &self.p.externs[o].kind);
        let named = match kind {
            Some(
                ExternKind::Counter { index_type: Some(ty), .. }
                | ExternKind::Meter { index_type: Some(ty), .. }
                | ExternKind::Register { index_type: Some(ty), .. },
            ) => ty.clone(),
            _ => match (object, args.get(n)) {
                (Some(object), Some(Arg::Value(v))) => {
                    let own = self.graph.body.value_type(*v);
                    match self.e.index_width(object) {
                        Some(width) if own != Type::Bit(width) => {
                            let cast = expr::cast(self.p, Type::Bit(width), own, &self.value(*v));
                            return cast.map(|e| e.text).unwrap_or_default();
                        }
                        _ => return self.arg(args, n),
                    }
                }
                _ => return self.arg(args, n),
            },
        };
        self.named(args, n, &named)
    }

    /// Assigns a result of another type than the variable that gets it has.
    fn typed_result(&mut self, data: &InstData, block: Block, n: usize, call: String, named: &str) -> Res<()> {
        let ty = data.results.first().map(|r| self.graph.body.value_type(*r));
        match ty {
            Some(ty) if !named.is_empty() => {
                let text = format!("({}) {call}", expr::type_text(self.p, ty));
                self.result(data, block, n, Expr { form: Form::Prefix, ..Expr::primary(text, Vec::new()) })
            }
            _ => self.result(data, block, n, Expr::primary(call, Vec::new())),
        }
    }

    fn pna_call(&mut self, call: Call<'_>) -> Res<()> {
        let Call { data, name, object, func, args, block, n } = call;
        use ExternFn::*;
        let of_table = matches!(
            func,
            DirectCounterCount | DirectMeterExecute | AddEntry | SetEntryExpireTime | RestartExpireTimer
        );
        if of_table && self.action.is_none() {
            let what = format!("`{}` in an action whose code is not the same in each table", func.name());
            return self.e.unsupported(data.loc, what);
        }
        let (call, named) = match func {
            CounterCount => (format!("{name}.count({})", self.counted(object, args)), ""),
            DirectCounterCount => (format!("{name}.count({})", self.arg(args, 1)), ""),
            MeterExecute => {
                let colour = if args.len() > 1 { format!(", {}", self.arg(args, 1)) } else { String::new() };
                (format!("{name}.execute({}{colour})", self.index(object, args, 0)), "")
            }
            DirectMeterExecute => {
                let rest: Vec<String> = (1..args.len()).map(|n| self.arg(args, n)).collect();
                (format!("{name}.execute({})", rest.join(", ")), "")
            }
            RegisterRead => return self.register_read(call),
            RegisterWrite => {
                let value = self.element(object, args, 1)?;
                (format!("{name}.write({}, {value})", self.index(object, args, 0)), "")
            }
            HashGet if args.len() == 1 => (format!("{name}.get_hash({})", self.arg(args, 0)), ""),
            HashGet => {
                (format!("{name}.get_hash({}, {}, {})", self.arg(args, 0), self.arg(args, 1), self.arg(args, 2)), "")
            }
            ChecksumClear | InternetChecksumClear => (format!("{name}.clear()"), ""),
            ChecksumUpdate => (format!("{name}.update({})", self.arg(args, 0)), ""),
            ChecksumGet | InternetChecksumGet => (format!("{name}.get()"), ""),
            InternetChecksumAdd => (format!("{name}.add({})", self.arg(args, 0)), ""),
            InternetChecksumSubtract => (format!("{name}.subtract({})", self.arg(args, 0)), ""),
            InternetChecksumGetState => (format!("{name}.get_state()"), ""),
            InternetChecksumSetState => (format!("{name}.set_state({})", self.arg(args, 0)), ""),
            RandomRead => (format!("{name}.read()"), ""),
            DigestPack => (format!("{name}.pack({})", self.element(object, args, 0)?), ""),
            DropPacket => ("drop_packet()".into(), ""),
            SendToPort => (self.with_known("send_to_port", args, &[("port", "PortId_t")]), ""),
            IsHostPort => (format!("is_host_port({})", self.named(args, 0, "PortId_t")), ""),
            IsNetPort => (format!("is_net_port({})", self.named(args, 0, "PortId_t")), ""),
            MirrorPacket => {
                let params = [("slot", "MirrorSlotId_t"), ("session", "MirrorSessionId_t")];
                (self.with_known("mirror_packet", args, &params), "")
            }
            PnaRecirculate => ("recirculate()".into(), ""),
            Truncate => (format!("truncate({})", self.arg(args, 0)), ""),
            AddEntry => (self.add_entry(args), ""),
            AllocateFlowId => ("allocate_flow_id()".into(), "FlowId_t"),
            SetEntryExpireTime => {
                (format!("set_entry_expire_time({})", self.named(args, 1, "ExpireTimeProfileId_t")), "")
            }
            RestartExpireTimer => ("restart_expire_timer()".into(), ""),
            _ => return self.e.unsupported(data.loc, format!("`{}` for PNA", func.name())),
        };
        self.typed_result(data, block, n, call, named)
    }

    fn tofino_call(&mut self, call: Call<'_>) -> Res<()> {
        let Call { data, name, object, func, args, block, n } = call;
        let call = match func {
            ExternFn::CounterCount => format!("{name}.count({})", self.index(object, args, 0)),
            ExternFn::DirectCounterCount => format!("{name}.count()"),
            ExternFn::HashGet => {
                let used = object.map_or(1, |o| {
                    let used = self.e.hashes.entry(o).or_insert(0);
                    *used += 1;
                    *used
                });
                let number = if used == 1 { String::new() } else { format!("_{used}") };
                let list = args.iter().position(|a| matches!(a, Arg::Values(_))).unwrap_or(0);
                format!("{name}{number}.get({})", self.arg(args, list))
            }
            ExternFn::RandomRead => format!("{name}.get()"),
            ExternFn::MeterExecute => {
                let colour =
                    if args.len() > 1 { format!(", (MeterColor_t) {}", self.arg(args, 1)) } else { String::new() };
                format!("{name}.execute({}{colour})", self.index(object, args, 0))
            }
            ExternFn::DirectMeterExecute if self.action.is_none() => {
                return self
                    .e
                    .unsupported(data.loc, "a table's meter in an action whose code is not the same in each table");
            }
            ExternFn::DirectMeterExecute => match args.len() {
                0 | 1 => format!("{name}.execute()"),
                _ => format!("{name}.execute((MeterColor_t) {})", self.arg(args, 1)),
            },
            ExternFn::RegisterRead | ExternFn::RegisterWrite => return self.tofino_register(call),
            ExternFn::DropPacket => {
                let half = if self.kind == ControlKind::Egress { "eg" } else { "ig" };
                self.out.push(line(format!("{half}_dprsr_md.drop_ctl = 1;")));
                return Ok(());
            }
            ExternFn::SendToPort => {
                let Some(Arg::Value(port)) = args.first() else { return Ok(()) };
                let expr = self.value(*port);
                let text = match expr.form {
                    Form::Const if expr.text == "0xfffffffd" => "CPU_PORT".to_owned(),
                    Form::Const => format!("(PortId_t) {}", expr.typed()),
                    _ => expr::slice(&expr, 8, 0).text,
                };
                self.out.push(line(format!("ig_tm_md.ucast_egress_port = {text};")));
                return Ok(());
            }
            ExternFn::InternetChecksumAdd => format!("{name}.add({})", self.arg(args, 0)),
            ExternFn::InternetChecksumClear => return Ok(()),
            ExternFn::InternetChecksumGet => {
                let result = data.results[0];
                self.values.insert(result, Expr::primary(format!("{name}.verify()"), Vec::new()));
                return Ok(());
            }
            _ => return self.e.unsupported(data.loc, format!("`{}` for Tofino", func.name())),
        };
        self.result(data, block, n, Expr::primary(call, Vec::new()))
    }

    /// A register: plain reads and writes, or one action that does both.
    fn tofino_register(&mut self, call: Call<'_>) -> Res<()> {
        let Call { data, name, object, func, args, block, n } = call;
        let Some(id) = object else { return Ok(()) };
        let update = match register::update(self.graph.body, id) {
            Ok(update) => update,
            Err(why) => return self.e.unsupported(data.loc, why),
        };
        let index = self.index(object, args, 0);
        let (new, ty) = match update {
            Update::Read => {
                return self.result(data, block, n, Expr::primary(format!("{name}.read({index})"), Vec::new()));
            }
            Update::Write => {
                let value = Self::leaves(args, 1).first().map(|v| self.text(*v)).unwrap_or_default();
                self.out.push(line(format!("{name}.write({index}, {value});")));
                return Ok(());
            }
            // The read does it.
            _ if func == ExternFn::RegisterWrite => return Ok(()),
            Update::Change(op, operand) => {
                let ty = self.graph.body.value_type(operand);
                (register::changed(op, ty, &self.known(operand)), ty)
            }
            Update::Swap(value) => (self.known(value).text, self.graph.body.value_type(value)),
        };
        let width = self.e.index_width(id).unwrap_or(32);
        let action = self.e.shared_name(&format!("{name}_update"));
        let ty = expr::type_text(self.p, ty);
        let text = register::declaration(&ty, &format!("bit<{width}>"), name, &action, &new);
        if !self.decls.contains(&text) {
            self.decls.push(text);
        }
        self.result(data, block, n, Expr::primary(format!("{action}.execute({index})"), Vec::new()))
    }

    /// A value that is a constant or a variable, wherever it is computed.
    fn known(&self, value: Value) -> Expr {
        if let Some(known) = self.values.get(&value) {
            return known.clone();
        }
        let block = self.graph.defined_in(value);
        let data = block.and_then(|b| self.graph.body.blocks[b].insts.iter().find(|i| i.results.contains(&value)));
        match data.map(|i| &i.inst) {
            Some(Inst::Load(var)) => self.e.load(*var),
            Some(Inst::Const(c)) => expr::constant(self.p, c).unwrap_or_else(|| self.value(value)),
            _ => self.value(value),
        }
    }

    /// A call whose arguments must be constants or an action's data: with other arguments, by way of an action.
    fn with_known(&mut self, name: &str, args: &[Arg], params: &[(&str, &str)]) -> String {
        let texts: Vec<String> = params.iter().enumerate().map(|(n, (_, ty))| self.named(args, n, ty)).collect();
        let known = |arg: &Arg| match arg {
            Arg::Value(v) => {
                let data = self.graph.defined_in(*v).is_some_and(|b| self.graph.body.blocks[b].params.contains(v));
                let expr = self.value(*v);
                expr.form == Form::Const || (self.action.is_some() && data && expr.inner)
            }
            _ => true,
        };
        if args.iter().all(known) {
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

    /// Index and increment of a counter.
    fn counted(&self, object: Option<ExternId>, args: &[Arg]) -> String {
        let index = self.index(object, args, 0);
        if args.len() > 1 { format!("{index}, {}", self.arg(args, 1)) } else { index }
    }

    fn add_entry(&self, args: &[Arg]) -> String {
        let action = match args.get(1) {
            Some(Arg::Action(action)) => self.e.names.actions[action.index()].clone(),
            _ => String::new(),
        };
        let profile = self.named(args, 3, "ExpireTimeProfileId_t");
        let data = match args.get(2) {
            Some(Arg::Values(values)) if !values.is_empty() => self.arg(args, 2),
            _ => "{ }".into(),
        };
        format!("add_entry(\"{action}\", {data}, {profile})")
    }

    /// The text of an aggregate of that type from leaves.
    fn built(&self, ty: &DataType, leaves: &mut std::slice::Iter<'_, Value>) -> Option<String> {
        let inner = |types: Vec<&DataType>, leaves: &mut std::slice::Iter<'_, Value>| {
            let parts: Option<Vec<String>> = types.into_iter().map(|t| self.built(t, leaves)).collect();
            parts.map(|parts| format!("{{ {} }}", parts.join(", ")))
        };
        match ty {
            DataType::Tuple(types) => inner(types.iter().collect(), leaves),
            DataType::Named(name) => match self.p.named_types.iter().find(|(n, _)| n == name).map(|(_, t)| t) {
                Some(NamedType::Struct(members)) => inner(members.iter().map(|(_, t)| t).collect(), leaves),
                Some(NamedType::SerializableEnum(..) | NamedType::NewType(..)) => {
                    Some(format!("({name}) ({})", self.typed(*leaves.next()?)))
                }
                Some(NamedType::Enum(_)) => Some(self.typed(*leaves.next()?)),
                _ => None,
            },
            DataType::Stack(..) => None,
            _ => Some(self.typed(*leaves.next()?)),
        }
    }

    fn leaves(args: &[Arg], n: usize) -> Vec<Value> {
        match args.get(n) {
            Some(Arg::Values(values)) => values.clone(),
            Some(Arg::Value(value)) => vec![*value],
            _ => Vec::new(),
        }
    }

    /// The text of a digest's message, or of a register's element.
    fn element(&mut self, object: Option<ExternId>, args: &[Arg], n: usize) -> Res<String> {
        let leaves = Self::leaves(args, n);
        let (ty, what) = match object.map(|o| &self.p.externs[o].kind) {
            Some(ExternKind::Digest { data_type, .. }) => (Some(data_type), "a digest"),
            Some(ExternKind::Register { data_type, .. }) => (Some(data_type), "a register"),
            _ => (None, "an object"),
        };
        match ty.and_then(|ty| self.built(ty, &mut leaves.iter())) {
            Some(text) => Ok(text),
            None => self.e.unsupported(self.loc, format!("{what} with headers in it")),
        }
    }

    /// The paths to the leaves of a type.
    fn paths(&self, ty: &DataType, path: &str, out: &mut Vec<(String, bool)>) -> bool {
        let named = |name: &str| self.p.named_types.iter().find(|(n, _)| n == name).map(|(_, t)| t);
        match ty {
            DataType::Tuple(_) | DataType::Stack(..) => false,
            DataType::Named(name) => match named(name) {
                Some(NamedType::Struct(members)) => {
                    members.iter().all(|(member, ty)| self.paths(ty, &format!("{path}.{member}"), out))
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

    /// Reads a register; an element of several leaves goes through a variable of its type.
    fn register_read(&mut self, call: Call<'_>) -> Res<()> {
        let Call { data, name, object, args, block, .. } = call;
        let Some(ExternKind::Register { data_type, .. }) = object.map(|o| &self.p.externs[o].kind) else {
            return self.e.unsupported(data.loc, "a register without a type");
        };
        let index = self.index(object, args, 0);
        let v1model = self.p.arch == Arch::V1Model;
        let element = self.e.data_type(data_type);
        let mut paths = Vec::new();
        if !self.paths(data_type, "", &mut paths) || paths.len() != data.results.len() {
            return self.e.unsupported(data.loc, "a register whose elements have headers, stacks or tuples in them");
        }
        let whole = format!("{name}_element");
        let whole = self.e.shared_name(&whole);
        self.declare(&element, &whole);
        self.out.push(line(match v1model {
            true => format!("{name}.read({whole}, {index});"),
            false => format!("{whole} = {name}.read({index});"),
        }));
        for (result, (path, named)) in data.results.iter().zip(paths) {
            let ty = expr::type_text(self.p, self.graph.body.value_type(*result));
            let (text, form) = match named {
                true => (format!("({ty}) {whole}{path}"), Form::Prefix),
                false => (format!("{whole}{path}"), Form::Primary),
            };
            self.values.insert(*result, Expr { form, ..Expr::primary(text, Vec::new()) });
            if !self.graph.uses(*result).is_empty() {
                self.save(*result, block)?;
            }
        }
        Ok(())
    }

    fn v1model_call(&mut self, call: Call<'_>) -> Res<()> {
        use ExternFn::*;
        let Call { data, name, object, func, args, block, n } = call;
        let algorithm = |n: usize| match args.get(n) {
            Some(Arg::Str(text)) => format!("HashAlgorithm.{text}"),
            _ => String::new(),
        };
        let text = match func {
            CounterCount => format!("{name}.count({})", self.index(object, args, 0)),
            MeterExecute => {
                return self.out_call(data, &format!("{name}.execute_meter({}, ", self.index(object, args, 0)), ")");
            }
            RegisterRead => return self.register_read(call),
            RegisterWrite => {
                let value = self.element(object, args, 1)?;
                format!("{name}.write({}, {value})", self.index(object, args, 0))
            }
            Checksum16Get => {
                return self.result(
                    data,
                    block,
                    n,
                    Expr::primary(format!("{name}.get({})", self.arg(args, 0)), Vec::new()),
                );
            }
            DigestPack => {
                let value = self.element(object, args, 0)?;
                format!("digest<{}>(1, {value})", self.e.digest_type(object))
            }
            Random => {
                let rest = format!(", {}, {})", self.arg(args, 0), self.arg(args, 1));
                return self.out_call(data, "random(", &rest);
            }
            Hash => {
                let rest =
                    format!(", {}, {}, {}, {})", algorithm(0), self.arg(args, 1), self.arg(args, 2), self.arg(args, 3));
                return self.out_call(data, "hash(", &rest);
            }
            MarkToDrop => "mark_to_drop(standard_metadata)".into(),
            VerifyChecksum | VerifyChecksumWithPayload => {
                format!(
                    "{}({}, {}, {}, {})",
                    func.name(),
                    self.arg(args, 0),
                    self.arg(args, 1),
                    self.arg(args, 2),
                    algorithm(3)
                )
            }
            UpdateChecksum | UpdateChecksumWithPayload => {
                let (cond, list, old) = (self.arg(args, 0), self.arg(args, 1), self.arg(args, 2));
                let (head, tail) = (format!("{}({cond}, {list}, ", func.name()), format!(", {})", algorithm(3)));
                return self.inout_call(data, &head, &old, &tail);
            }
            Clone | Resubmit | Recirculate => self.again(func, args),
            Truncate => format!("truncate({})", self.arg(args, 0)),
            Assert => format!("assert({})", self.arg(args, 0)),
            Assume => format!("assume({})", self.arg(args, 0)),
            LogMsg if args.len() > 1 => format!("log_msg({}, {})", self.arg(args, 0), self.arg(args, 1)),
            LogMsg => format!("log_msg({})", self.arg(args, 0)),
            _ => return self.e.unsupported(data.loc, format!("`{}` for v1model", func.name())),
        };
        self.result(data, block, n, Expr::primary(text, Vec::new()))
    }

    /// A packet that goes through the program again, or a copy of it.
    fn again(&mut self, func: ExternFn, args: &[Arg]) -> String {
        let name = func.name();
        if func != ExternFn::Clone {
            return match self.preserved(args, 0) {
                None => format!("{name}_preserving_field_list({})", self.e.empty_field_list()),
                Some((true, list)) => format!("{name}_preserving_field_list({list})"),
                Some((false, list)) => format!("{name}({list})"),
            };
        }
        let kind = match args.first() {
            Some(Arg::Str(kind)) => format!("CloneType.{kind}"),
            _ => String::new(),
        };
        let session = self.arg(args, 1);
        match self.preserved(args, 2) {
            None => format!("clone({kind}, {session})"),
            Some((true, list)) => format!("clone_preserving_field_list({kind}, {session}, {list})"),
            Some((false, list)) => format!("clone3({kind}, {session}, {list})"),
        }
    }

    /// What a copy keeps: a field list's number, or the fields themselves.
    fn preserved(&self, args: &[Arg], n: usize) -> Option<(bool, String)> {
        let Some(Arg::Vars(vars)) = args.get(n) else { return None };
        if vars.is_empty() {
            return None;
        }
        match self.p.field_lists.iter().find(|(_, list)| *list == vars) {
            Some((number, _)) => Some((true, number.to_string())),
            None => Some((false, self.arg(args, n))),
        }
    }

    /// A call that writes its result to an argument.
    fn out_call(&mut self, data: &InstData, head: &str, tail: &str) -> Res<()> {
        self.inout_call(data, head, "", tail)
    }

    fn inout_call(&mut self, data: &InstData, head: &str, old: &str, tail: &str) -> Res<()> {
        let Some(result) = data.results.first().copied() else { return Ok(()) };
        let ty = expr::type_text(self.p, self.graph.body.value_type(result));
        let expr = Expr::primary("result", Vec::new());
        let name = self.outer_name(&expr);
        self.declare(&ty, &name);
        if !old.is_empty() {
            self.out.push(line(format!("{name} = {old};")));
        }
        self.out.push(line(format!("{head}{name}{tail};")));
        self.values.insert(result, Expr::primary(name, Vec::new()));
        Ok(())
    }
}
