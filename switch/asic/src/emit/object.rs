//! Declarations of extern objects and value sets.

use super::expr;
use super::text::IndentedText;
use super::{EmitResult, P4Emitter};
use ir::*;

impl P4Emitter<'_> {
    /// Returns a P4Runtime type as P4 text.
    pub(super) fn data_type(&self, ty: &DataType) -> String {
        match ty {
            DataType::Bit(w) => format!("bit<{w}>"),
            DataType::Int(w) => format!("int<{w}>"),
            DataType::Varbit(w) => format!("varbit<{w}>"),
            DataType::Bool => "bool".into(),
            DataType::Error => "error".into(),
            DataType::Tuple(types) => {
                let types: Vec<String> = types.iter().map(|t| self.data_type(t)).collect();
                format!("tuple<{}>", types.join(", "))
            }
            DataType::Named(name) => name.clone(),
            DataType::Stack(name, size) => format!("{name}[{size}]"),
        }
    }

    /// Returns the message type of a digest.
    pub(super) fn digest_type(&self, object: Option<ExternId>) -> String {
        match object.map(|o| &self.p.externs[o].kind) {
            Some(ExternKind::Digest { data_type, .. }) => self.data_type(data_type),
            _ => String::new(),
        }
    }

    /// Returns an unused field list number, for a list without fields.
    pub(super) fn empty_field_list(&self) -> u32 {
        (0..256).find(|n| !self.p.field_lists.contains_key(n)).unwrap_or(255)
    }

    /// Emits an extern object; `control` is the control that contains it.
    pub(super) fn write_object(&self, lines: &mut IndentedText, id: ExternId, control: &str) -> EmitResult<()> {
        let object = &self.p.externs[id];
        let name = &self.names.externs[id.index()];
        let text = match self.p.arch {
            Arch::V1Model => self.v1model_object(&object.kind),
            Arch::Pna => self.pna_object(id, &object.kind)?,
        };
        let Some(text) = text else { return Ok(()) };
        self.annotations(&object.preamble, control, name).iter().for_each(|a| lines.line(a));
        lines.line(&format!("{text} {name};"));
        Ok(())
    }

    /// Returns the type and constructor of an object in v1model; `None` if v1model has no such
    /// object.
    fn v1model_object(&self, kind: &ExternKind) -> Option<String> {
        let unit = |unit: &CounterUnit| match unit {
            CounterUnit::Packets => "CounterType.packets",
            CounterUnit::Bytes => "CounterType.bytes",
            CounterUnit::Both => "CounterType.packets_and_bytes",
        };
        let rate = |unit: &MeterUnit| match unit {
            MeterUnit::Packets => "MeterType.packets",
            MeterUnit::Bytes => "MeterType.bytes",
        };
        Some(match kind {
            ExternKind::Counter { size, unit: u, .. } => format!("counter({size}, {})", unit(u)),
            ExternKind::DirectCounter { unit: u } => format!("direct_counter({})", unit(u)),
            ExternKind::Meter { size, unit, .. } => format!("meter({size}, {})", rate(unit)),
            ExternKind::DirectMeter { unit } => format!("direct_meter<bit<8>>({})", rate(unit)),
            ExternKind::Register { size, data_type, .. } => format!("register<{}>({size})", self.data_type(data_type)),
            ExternKind::ActionProfile { size } => format!("action_profile({size})"),
            ExternKind::ActionSelector { algorithm, size, output_width } => {
                format!("action_selector(HashAlgorithm.{}, {size}, {output_width})", v1model_algorithm(*algorithm))
            }
            ExternKind::Checksum16 => "Checksum16()".into(),
            _ => return None,
        })
    }

    /// Returns the type and constructor of an object in PNA.
    fn pna_object(&self, id: ExternId, kind: &ExternKind) -> EmitResult<Option<String>> {
        let unit = |unit: &CounterUnit| match unit {
            CounterUnit::Packets => "PNA_CounterType_t.PACKETS",
            CounterUnit::Bytes => "PNA_CounterType_t.BYTES",
            CounterUnit::Both => "PNA_CounterType_t.PACKETS_AND_BYTES",
        };
        let rate = |unit: &MeterUnit| match unit {
            MeterUnit::Packets => "PNA_MeterType_t.PACKETS",
            MeterUnit::Bytes => "PNA_MeterType_t.BYTES",
        };
        let index_type_text = |named: &Option<String>| match named {
            Some(named) => named.clone(),
            None => format!("bit<{}>", self.index_width(id).unwrap_or(32)),
        };
        let type_text = |ty: Type| expr::type_text(self.p, ty);
        Ok(Some(match kind {
            ExternKind::Counter { size, unit: u, index_type } => {
                format!("Counter<bit<64>, {}>({size}, {})", index_type_text(index_type), unit(u))
            }
            ExternKind::DirectCounter { unit: u } => format!("DirectCounter<bit<64>>({})", unit(u)),
            ExternKind::Meter { size, unit, index_type } => {
                format!("Meter<{}>({size}, {})", index_type_text(index_type), rate(unit))
            }
            ExternKind::DirectMeter { unit } => format!("DirectMeter({})", rate(unit)),
            ExternKind::Register { size, initial, data_type, index_type, .. } => {
                let values: Vec<String> = initial
                    .iter()
                    .filter_map(|c| expr::constant(self.p, c))
                    .map(|e| e.typed_text().to_owned())
                    .collect();
                let initial = match values.len() {
                    0 => String::new(),
                    1 => format!(", {}", values[0]),
                    _ => format!(", {{ {} }}", values.join(", ")),
                };
                format!("Register<{}, {}>({size}{initial})", self.data_type(data_type), index_type_text(index_type))
            }
            ExternKind::ActionProfile { size } => format!("ActionProfile({size})"),
            ExternKind::ActionSelector { algorithm, size, output_width } => {
                format!("ActionSelector({}, {size}, {output_width})", pna_algorithm(*algorithm))
            }
            ExternKind::Hash { algorithm, output } => {
                format!("Hash<{}>({})", type_text(*output), pna_algorithm(*algorithm))
            }
            ExternKind::Checksum { algorithm, output } => {
                format!("Checksum<{}>({})", type_text(*output), pna_algorithm(*algorithm))
            }
            ExternKind::InternetChecksum => "InternetChecksum()".into(),
            ExternKind::Random { min, max } => {
                let bound =
                    |c: &Const| expr::constant(self.p, c).map(|e| e.typed_text().to_owned()).unwrap_or_default();
                format!("Random<{}>({}, {})", type_text(min.ty), bound(min), bound(max))
            }
            ExternKind::Digest { data_type, .. } => format!("Digest<{}>()", self.data_type(data_type)),
            // P4Info has no pools and quotas, so one that no packet reaches can be left out.
            ExternKind::PortPool { .. } | ExternKind::EntryQuota { .. }
                if !self.names.mentions.iter().any(|m| m.externs.contains(&id)) =>
            {
                return Ok(None);
            }
            ExternKind::PortPool { .. } => return self.unsupported(self.p.externs[id].loc, "`PortPool` for PNA"),
            ExternKind::EntryQuota { .. } => {
                return self.unsupported(self.p.externs[id].loc, "`EntryQuota` for PNA");
            }
            ExternKind::Checksum16 => return self.unsupported(self.p.externs[id].loc, "`Checksum16` for PNA"),
        }))
    }

    /// Emits a value set.
    pub(super) fn write_value_set(&self, lines: &mut IndentedText, id: ValueSetId, control: &str) {
        let set = &self.p.value_sets[id];
        let name = &self.names.value_sets[id.index()];
        let ty = match &set.keys[..] {
            [key] if key.name.is_empty() => key.type_name.clone().unwrap_or_else(|| expr::type_text(self.p, key.ty)),
            _ => format!("{name}_key_t"),
        };
        self.annotations(&set.preamble, control, name).iter().for_each(|a| lines.line(a));
        lines.line(&format!("value_set<{ty}>({}) {name};", set.size));
    }

    /// Emits the key struct of a value set with several keys.
    pub(super) fn write_value_set_type(&self, lines: &mut IndentedText, id: ValueSetId) {
        let set = &self.p.value_sets[id];
        if matches!(&set.keys[..], [key] if key.name.is_empty()) {
            return;
        }
        lines.separate();
        lines.open_block(&format!("struct {}_key_t", self.names.value_sets[id.index()]));
        for key in &set.keys {
            let kind = match key.kind {
                MatchKind::Exact => String::new(),
                kind => format!("@match({}) ", kind.keyword()),
            };
            let id = if key.id == 0 { String::new() } else { format!("@id({}) ", key.id) };
            let local = super::names::to_identifier(&key.name);
            let name = if local == key.name { String::new() } else { format!("@name(\"{}\") ", key.name) };
            let annotations: String = key.annotations.iter().map(|a| format!("{a} ")).collect();
            let ty = key.type_name.clone().unwrap_or_else(|| expr::type_text(self.p, key.ty));
            lines.line(&format!("{name}{id}{annotations}{kind}{ty} {local};"));
        }
        lines.close_block();
    }
}

fn v1model_algorithm(algorithm: HashAlgorithm) -> &'static str {
    match algorithm {
        HashAlgorithm::Crc32 | HashAlgorithm::TargetDefault => "crc32",
        HashAlgorithm::Crc32Custom => "crc32_custom",
        HashAlgorithm::Crc16 => "crc16",
        HashAlgorithm::Crc16Custom => "crc16_custom",
        HashAlgorithm::Random => "random",
        HashAlgorithm::Identity => "identity",
        HashAlgorithm::Csum16 => "csum16",
        HashAlgorithm::Xor16 => "xor16",
    }
}

fn pna_algorithm(algorithm: HashAlgorithm) -> String {
    let name = match algorithm {
        HashAlgorithm::Crc32 => "CRC32",
        HashAlgorithm::Crc32Custom => "CRC32_CUSTOM",
        HashAlgorithm::Crc16 => "CRC16",
        HashAlgorithm::Crc16Custom => "CRC16_CUSTOM",
        HashAlgorithm::Identity => "IDENTITY",
        HashAlgorithm::Csum16 | HashAlgorithm::Xor16 => "ONES_COMPLEMENT16",
        HashAlgorithm::TargetDefault | HashAlgorithm::Random => "TARGET_DEFAULT",
    };
    format!("PNA_HashAlgorithm_t.{name}")
}
