//! Pipelines for tests.

use entries::{ActionSpec, StateUpdate, TableEntry, WriteBatch};
use interp::{Config, Interp};
use ir::*;
use num_bigint::BigUint;
use std::sync::Arc;

/// Pipeline under construction.
pub struct Build {
    pub p: Pipeline,
}

impl Build {
    /// Creates a v1model pipeline with all standard metadata.
    pub fn v1model() -> Build {
        let mut p = Pipeline::new("test", Arch::V1Model);
        for (name, width) in [
            ("ingress_port", 9),
            ("egress_spec", 9),
            ("egress_port", 9),
            ("instance_type", 32),
            ("packet_length", 32),
            ("enq_timestamp", 32),
            ("ingress_global_timestamp", 48),
            ("egress_global_timestamp", 48),
            ("mcast_grp", 16),
            ("egress_rid", 16),
            ("checksum_error", 1),
        ] {
            intrinsic(&mut p, "standard_metadata", name, Type::Bit(width));
        }
        intrinsic(&mut p, "standard_metadata", "parser_error", Type::Error);
        Build { p }
    }

    /// Creates a PNA pipeline with the input metadata of the main control.
    pub fn pna() -> Build {
        let mut p = Pipeline::new("test", Arch::Pna);
        let direction = p
            .enums
            .push(Enum { name: "PNA_Direction_t".into(), members: vec!["NET_TO_HOST".into(), "HOST_TO_NET".into()] });
        intrinsic(&mut p, "istd", "input_port", Type::Bit(32));
        intrinsic(&mut p, "istd", "pass", Type::Bit(3));
        intrinsic(&mut p, "istd", "timestamp", Type::Bit(64));
        intrinsic(&mut p, "istd", "parser_error", Type::Error);
        intrinsic(&mut p, "istd", "direction", Type::Enum(direction));
        Build { p }
    }

    /// Returns a variable of the architecture.
    pub fn std(&self, name: &str) -> VarId {
        let prefix = if self.p.arch == Arch::V1Model { "standard_metadata" } else { "istd" };
        self.p.intrinsics[&format!("{prefix}.{name}")]
    }

    pub fn meta(&mut self, name: &str, width: u32) -> VarId {
        self.p.add_var(name, Type::Bit(width), VarKind::Meta, SourceLoc::default())
    }

    pub fn header(&mut self, name: &str, fields: &[(&str, Type)]) -> HeaderId {
        let fields = fields.iter().map(|(name, ty)| HeaderField { name: (*name).into(), ty: *ty }).collect();
        let ty = self.p.header_types.push(HeaderType { name: format!("{name}_t"), fields });
        self.p.add_header(name, ty, false, SourceLoc::default())
    }

    pub fn field(&self, header: HeaderId, index: usize) -> VarId {
        self.p.headers[header].fields[index]
    }

    pub fn control(&mut self, kind: ControlKind, body: BodyBuilder) {
        self.p.controls.push(Control { name: format!("{kind:?}"), kind, body: body.finish() });
    }

    /// Adds a parser that extracts these headers in order.
    pub fn parser(&mut self, kind: ControlKind, headers: &[HeaderId]) {
        let mut b = BodyBuilder::new();
        headers.iter().for_each(|h| b.extract(*h));
        b.ret();
        self.control(kind, b);
    }

    /// Adds a deparser that emits these headers.
    pub fn deparser(&mut self, kind: ControlKind, headers: &[HeaderId]) {
        let mut b = BodyBuilder::new();
        headers.iter().for_each(|h| b.emit(*h));
        b.ret();
        self.control(kind, b);
    }

    pub fn action(&mut self, name: &str, params: &[u32]) -> ActionId {
        let param = |(index, width): (usize, &u32)| Param::new(format!("p{index}"), Type::Bit(*width));
        let params = params.iter().enumerate().map(param).collect();
        self.p.actions.push(Action { preamble: named(name), params, loc: SourceLoc::default() })
    }

    pub fn object(&mut self, name: &str, kind: ExternKind) -> ExternId {
        self.p.externs.push(ExternInst { preamble: named(name), kind, loc: SourceLoc::default() })
    }

    /// Adds a table with these keys and actions. The first action, without arguments, is the
    /// default.
    pub fn table(&mut self, name: &str, keys: &[(Type, MatchKind)], actions: &[ActionId]) -> TableId {
        let key = |(index, (ty, kind)): (usize, &(Type, MatchKind))| MatchKey::new(format!("k{index}"), *ty, *kind);
        let keys = keys.iter().enumerate().map(key).collect();
        let listed = actions.iter().copied().map(ActionRef::new).collect();
        let default = ActionCall { action: actions[0], args: Vec::new() };
        self.p.tables.push(Table::new(named(name), keys, listed, default))
    }

    /// Verifies and loads the pipeline. Panics if the verifier reports an error.
    pub fn load(self) -> Interp {
        self.load_with(Config::default())
    }

    pub fn load_with(self, config: Config) -> Interp {
        if let Err(faults) = ir::verify::verify(&self.p) {
            panic!("the verifier refuses the test's pipeline: {faults:#?}");
        }
        Interp::new(Arc::new(self.p), config).expect("the pipeline loads")
    }
}

fn intrinsic(p: &mut Pipeline, prefix: &str, name: &str, ty: Type) {
    let var = p.add_var(format!("{prefix}.{name}"), ty, VarKind::Intrinsic, SourceLoc::default());
    p.intrinsics.insert(format!("{prefix}.{name}"), var);
}

pub fn named(name: &str) -> Preamble {
    Preamble { name: name.into(), ..Preamble::default() }
}

pub fn big(value: u128) -> BigUint {
    BigUint::from(value)
}

pub fn exact(value: u128) -> KeyMatch {
    KeyMatch::Exact(big(value))
}

pub fn call(action: ActionId, args: &[u128]) -> ActionSpec {
    ActionSpec::Call(ActionCall { action, args: args.iter().map(|a| big(*a)).collect() })
}

pub fn entry(table: TableId, keys: Vec<KeyMatch>, action: ActionId, args: &[u128]) -> TableEntry {
    TableEntry::new(table, keys, call(action, args))
}

/// Applies updates that must be accepted.
pub fn write(interp: &mut Interp, updates: impl IntoIterator<Item = StateUpdate>) {
    let batch: WriteBatch = updates.into_iter().collect();
    interp.write(&batch).expect("the write is accepted");
}

pub fn insert(interp: &mut Interp, entry: TableEntry) {
    write(interp, [StateUpdate::Entry(entries::UpdateKind::Insert, entry)]);
}

/// Stores a constant.
pub fn set(b: &mut BodyBuilder, p: &Pipeline, var: VarId, value: u128) {
    let value = b.constant(Const::new(p.vars[var].ty, value));
    b.store(var, value);
}

/// Returns ports and bytes of the sent packets.
pub fn sent(out: &interp::Outputs) -> Vec<(u32, Vec<u8>)> {
    out.sent().map(|(port, bytes)| (port, bytes.to_vec())).collect()
}

/// Returns the names of the drop reasons.
pub fn drops(interp: &Interp, out: &interp::Outputs) -> Vec<String> {
    out.drops().map(|reason| interp.reasons().drop_name(reason).into_owned()).collect()
}
