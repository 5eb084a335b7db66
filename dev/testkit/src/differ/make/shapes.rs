//! Generates header types, the members of `headers_t`, and metadata.

use super::super::tree::*;
use super::{BlockRole, ProgramGenerator, ScopeNames};
use ir::Arch;

impl ProgramGenerator<'_> {
    /// Generates the header types, the members of `headers_t` (single headers, a stack, a union, a
    /// header with a varbit), and the metadata.
    pub(super) fn generate_types(&mut self) {
        let count = self.rng.usize(self.config.headers.clone());
        for number in 0..count {
            let header = self.header_type(format!("h{number}_t"));
            self.program.headers.push(header);
        }
        for number in 0..count {
            let name = format!("h{number}");
            self.program.instances.push(Instance { name, shape: Shape::Single(number) });
            // A second instance of the same type, for copies.
            if self.true_with_percent(20) {
                let name = format!("g{number}");
                self.program.instances.push(Instance { name, shape: Shape::Single(number) });
            }
        }
        if self.true_with_percent(self.config.stacks) {
            let number = self.program.headers.len();
            let header = if self.true_with_percent(50) {
                self.header_type(format!("h{number}_t"))
            // The widths of the fields do not end at bytes.
            } else {
                let field = |name: &str, ty| Field { name: name.to_owned(), ty, varbit: false };
                let fields = vec![field("f0", Ty::Bit(7)), field("f1", Ty::Bit(1)), field("f2", Ty::Bit(8))];
                HeaderType { name: format!("h{number}_t"), fields }
            };
            self.program.headers.push(header);
            let size = self.rng.u32(1..5);
            let position = self.rng.usize(..=self.program.instances.len());
            self.program
                .instances
                .insert(position, Instance { name: "s0".to_owned(), shape: Shape::Stack(number, size) });
        }
        if self.true_with_percent(self.config.unions) {
            let members = (0..self.rng.usize(2..4)).map(|_| self.rng.usize(..count)).collect();
            self.program.instances.push(Instance { name: "u0".to_owned(), shape: Shape::Union(members) });
        }
        if self.true_with_percent(self.config.varbits) {
            let number = self.program.headers.len();
            let field = |name: &str, ty, varbit| Field { name: name.to_owned(), ty, varbit };
            let max_bits = [32, 64, 120, 320][self.rng.usize(..4)];
            let mut fields = vec![field("f0", Ty::Bit(8), false), field("v", Ty::Bit(max_bits), true)];
            if self.true_with_percent(30) {
                fields.push(field("f2", Ty::Bit(16), false));
            }
            self.program.headers.push(HeaderType { name: format!("h{number}_t"), fields });
            self.program.instances.push(Instance { name: "v0".to_owned(), shape: Shape::Single(number) });
        }
        self.metadata();
    }

    fn header_type(&mut self, name: String) -> HeaderType {
        let mut fields = Vec::new();
        for number in 0..self.rng.usize(1..6) {
            let mut ty = self.random_type();
            if ty == Ty::Bool && self.true_with_percent(50) {
                ty = Ty::Bit(8);
            }
            fields.push(Field { name: format!("f{number}"), ty, varbit: false });
        }
        let bits: u32 = fields.iter().map(|field| field.ty.width()).sum();
        let missing = (8 - bits % 8) % 8;
        if missing != 0 && !self.true_with_percent(self.config.ragged) {
            let field = Field { name: format!("f{}", fields.len()), ty: Ty::Bit(missing), varbit: false };
            let at = self.rng.usize(..=fields.len());
            fields.insert(at, field);
        }
        HeaderType { name, fields }
    }

    /// Generates the fields of the metadata, some in v1model's field lists, and the enums of the
    /// reasons.
    fn metadata(&mut self) {
        let count = self.rng.usize(3..9);
        for number in 0..count {
            let ty = self.random_type();
            let annotation = match self.arch() {
                Arch::V1Model => ["", "", "@field_list(1) ", "@field_list(1, 2) "][self.rng.usize(..4)],
                Arch::Pna => "",
            };
            self.program.metadata.push(format!("{annotation}{ty} m{number}"));
        }
        if self.true_with_percent(30) {
            self.program.types.push("struct inner_t { bit<16> x; int<32> y; bool z; }".to_owned());
            self.program.metadata.push("inner_t inner".to_owned());
        }
        if self.reasons {
            self.program.types.push("enum bit<8> drop_reason_t { none = 0, first = 1, second = 2 }".to_owned());
            self.program.metadata.push("drop_reason_t drop_reason".to_owned());
            self.program.types.push("enum bit<8> cpu_reason_t { none = 0, punt_a = 11, punt_b = 12 }".to_owned());
            self.program.metadata.push("cpu_reason_t cpu_reason".to_owned());
        }
    }

    /// Returns the fields of all headers.
    pub(super) fn header_fields(&self) -> Vec<(String, Ty)> {
        let mut all = Vec::new();
        for Instance { name, shape } in &self.program.instances {
            let mut add = |place: String, header: usize| {
                let fields = self.program.headers[header].fields.iter().filter(|field| !field.varbit);
                all.extend(fields.map(|field| (format!("{place}.{}", field.name), field.ty)));
            };
            match shape {
                Shape::Single(header) => add(format!("hdr.{name}"), *header),
                Shape::Stack(header, size) => (0..*size).for_each(|i| add(format!("hdr.{name}[{i}]"), *header)),
                Shape::Union(members) => {
                    members.iter().enumerate().for_each(|(i, header)| add(format!("hdr.{name}.m{i}"), *header));
                }
            }
        }
        all
    }

    /// Returns the headers with their types: single ones, elements of stacks, members of unions.
    pub(super) fn header_places(&self) -> Vec<(String, usize)> {
        let mut all = Vec::new();
        for Instance { name, shape } in &self.program.instances {
            match shape {
                Shape::Single(header) => all.push((format!("hdr.{name}"), *header)),
                Shape::Stack(header, size) => all.extend((0..*size).map(|i| (format!("hdr.{name}[{i}]"), *header))),
                Shape::Union(members) => {
                    all.extend(members.iter().enumerate().map(|(i, header)| (format!("hdr.{name}.m{i}"), *header)));
                }
            }
        }
        all
    }

    /// Returns the metadata's fields as expressions with their types, read from their declarations.
    fn metadata_places(&self) -> Vec<(String, Ty)> {
        let mut places = Vec::new();
        for field in &self.program.metadata {
            let Some((ty, name)) = field.rsplit_once(' ') else { continue };
            let ty = ty.rsplit(' ').next().unwrap_or(ty);
            match ty {
                "inner_t" => {
                    let inner = [("x", Ty::Bit(16)), ("y", Ty::Int(32)), ("z", Ty::Bool)];
                    places.extend(inner.map(|(field, ty)| (format!("meta.{name}.{field}"), ty)));
                }
                "bool" => places.push((format!("meta.{name}"), Ty::Bool)),
                _ => {
                    let width = ty.split_once('<').and_then(|(_, w)| w.trim_end_matches('>').parse().ok());
                    let Some(width) = width else { continue };
                    let ty = if ty.starts_with("int") { Ty::Int(width) } else { Ty::Bit(width) };
                    places.push((format!("meta.{name}"), ty));
                }
            }
        }
        places
    }

    /// Returns the names in scope in a block.
    pub(super) fn block_scope(&self, role: BlockRole) -> ScopeNames {
        let mut reads = self.header_fields();
        reads.extend(self.metadata_places());
        let writes = if role == BlockRole::Deparser { Vec::new() } else { reads.clone() };
        let mut scope = ScopeNames { reads, writes, role, ..ScopeNames::default() };
        for (name, ty) in architecture(self.arch(), role) {
            scope.reads.push(((*name).to_owned(), *ty));
        }
        if self.arch() == Arch::V1Model && role != BlockRole::Deparser {
            scope.writes.push(("sm.priority".to_owned(), Ty::Bit(3)));
        }
        scope
    }
}

/// Returns the architecture's inputs of a block, as expressions.
fn architecture(arch: Arch, role: BlockRole) -> &'static [(&'static str, Ty)] {
    match (arch, role) {
        (_, BlockRole::Deparser) => &[],
        (Arch::V1Model, BlockRole::Parser) => &[("sm.ingress_port", Ty::Bit(9)), ("sm.packet_length", Ty::Bit(32))],
        (Arch::V1Model, BlockRole::Ingress) => &[
            ("sm.ingress_port", Ty::Bit(9)),
            ("sm.packet_length", Ty::Bit(32)),
            ("sm.instance_type", Ty::Bit(32)),
            ("sm.ingress_global_timestamp", Ty::Bit(48)),
            ("sm.checksum_error", Ty::Bit(1)),
            ("sm.priority", Ty::Bit(3)),
            ("(sm.parser_error == error.PacketTooShort)", Ty::Bool),
            ("(sm.parser_error != error.NoError)", Ty::Bool),
        ],
        (Arch::V1Model, BlockRole::Egress) => &[
            ("sm.ingress_port", Ty::Bit(9)),
            ("sm.egress_port", Ty::Bit(9)),
            ("sm.packet_length", Ty::Bit(32)),
            ("sm.instance_type", Ty::Bit(32)),
            ("sm.egress_rid", Ty::Bit(16)),
            ("sm.egress_global_timestamp", Ty::Bit(48)),
            ("sm.enq_timestamp", Ty::Bit(32)),
            ("sm.deq_qdepth", Ty::Bit(19)),
        ],
        (Arch::Pna, BlockRole::Parser) => &[
            ("((PortIdUint_t) istd.input_port)", Ty::Bit(32)),
            ("((PassNumberUint_t) istd.pass)", Ty::Bit(3)),
            ("(istd.direction == PNA_Direction_t.HOST_TO_NET)", Ty::Bool),
        ],
        (Arch::Pna, _) => &[
            ("((PortIdUint_t) istd.input_port)", Ty::Bit(32)),
            ("((PassNumberUint_t) istd.pass)", Ty::Bit(3)),
            ("((TimestampUint_t) istd.timestamp)", Ty::Bit(64)),
            ("(istd.direction == PNA_Direction_t.HOST_TO_NET)", Ty::Bool),
            ("(istd.parser_error == error.PacketTooShort)", Ty::Bool),
            ("(istd.parser_error != error.NoError)", Ty::Bool),
            ("istd.loopedback", Ty::Bool),
        ],
    }
}
