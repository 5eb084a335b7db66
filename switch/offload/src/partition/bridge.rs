//! Fields of the bridge header, which is the same for all cut points.

use super::carried_verdict::CarriedVerdict;
use super::cut_point::CutBlock;
use super::error::PartitionError;
use asic::live::LiveSet;
use fixedbitset::FixedBitSet;
use ir::{BodyBuilder, Entity, HeaderField, HeaderId, HeaderType, Pipeline, SourceLoc, Type, Value, VarId, VarKind};

/// Ethertype of frames with a bridge header: "local experimental", IEEE 802, clause 9.2.3.
pub const ETHERTYPE: u16 = 0x88b5;

/// Name of the bridge header in both pipelines.
const BRIDGE_NAME: &str = "terrace_bridge";

/// Layout of the bridge header.
pub struct BridgeHeader {
    /// Names and widths in bits of all fields, in order.
    pub fields: Vec<(String, u32)>,
    /// Headers that can follow, in order.
    pub headers: Vec<HeaderId>,
    /// Carried variables; those of whole bytes come first.
    pub vars: Vec<VarId>,
    /// Number of variables of whole bytes.
    byte_aligned_count: usize,
    /// Carried variables that are live at each cut point.
    live_at: Vec<FixedBitSet>,
}

/// Cut point of a returned packet: it is not processed further but sent to the port in its header.
pub const RETURNED: u8 = 255;
/// Cut point of a liveness probe: the receiving tier returns the frame unchanged.
pub const PROBE: u8 = 254;
/// Cut point of a report by a lower tier about the hits of its entries.
pub const HITS: u8 = 253;

/// Names and widths in bits of the fields at the start of each bridge header.
const FIXED_FIELDS: [(&str, u32); 8] = [
    ("destination", 48),
    ("source", 48),
    ("ether_type", 16),
    ("key", 32),
    ("stop", 8),
    ("port", 32),
    ("length", 16),
    ("mark", 16),
];
/// Indices of fields.
const ETHERTYPE_FIELD: usize = 2;
const KEY_FIELD: usize = 3;
const POINT_FIELD: usize = 4;
const PORT_FIELD: usize = 5;
const LENGTH_FIELD: usize = 6;
const FIRST_VARIABLE_FIELD: usize = FIXED_FIELDS.len();

impl BridgeHeader {
    /// Lays out the header for the live state at the cut points and the verdicts decided before
    /// them. `live_at_start` has the live state at each block's start. Packets that restart carry
    /// nothing.
    pub fn new(
        pipeline: &Pipeline,
        live_at_start: &[LiveSet],
        cut_blocks: &[CutBlock],
        carried_verdict: Option<&CarriedVerdict>,
    ) -> Result<BridgeHeader, PartitionError> {
        let mut all_live = LiveSet::default();
        let mut live_by_cut = Vec::new();
        for (cut_number, cut) in cut_blocks.iter().enumerate() {
            if cut.is_restart() {
                live_by_cut.push(FixedBitSet::new());
                continue;
            }
            let live_here = &live_at_start[cut.block.index()];
            let mut vars = live_here.vars.clone();
            let verdict_vars = carried_verdict
                .filter(|carried_verdict| carried_verdict.may_be_decided[cut_number])
                .map(CarriedVerdict::vars);
            verdict_vars.into_iter().flatten().for_each(|var| vars.grow_and_insert(var.index()));
            all_live.vars.union_with(&vars);
            all_live.headers.union_with(&live_here.headers);
            live_by_cut.push(vars);
        }
        let is_needed = |id: &HeaderId| {
            let header = &pipeline.headers[*id];
            all_live.headers.contains(id.index()) || header.fields.iter().any(|var| all_live.vars.contains(var.index()))
        };
        let headers: Vec<HeaderId> = pipeline.headers.keys().filter(is_needed).collect();
        let in_header = |var: VarId| matches!(pipeline.vars[var].kind, VarKind::Field(..));
        let carried = pipeline.vars.keys().filter(|v| all_live.vars.contains(v.index()) && !in_header(*v));
        // A chip moves bytes, not bits, to their position in a header, so variables of whole bytes
        // start at a byte.
        let width = |var: VarId| pipeline.vars[var].ty.width();
        let (mut vars, bit_vars): (Vec<VarId>, Vec<VarId>) = carried.partition(|var| width(*var).is_multiple_of(8));
        let byte_aligned = vars.len();
        vars.extend(bit_vars);
        let header_fields = headers.iter().flat_map(|id| &pipeline.headers[*id].fields);
        for var in header_fields.chain(&vars) {
            if matches!(pipeline.vars[*var].ty, Type::Varbit(_)) {
                return Err(PartitionError::Varbit(pipeline.vars[*var].name.clone()));
            }
        }
        let mut fields: Vec<(String, u32)> = FIXED_FIELDS.map(|(name, bits)| (name.to_owned(), bits)).to_vec();
        let name_and_width = |var: &VarId| (pipeline.vars[*var].name.clone(), width(*var));
        fields.extend(vars[..byte_aligned].iter().map(name_and_width));
        fields.extend(headers.iter().map(|id| (format!("{} is valid", pipeline.headers[*id].name), 1)));
        fields.extend(vars[byte_aligned..].iter().map(name_and_width));
        let bits: u32 = fields.iter().map(|(_, bits)| bits).sum();
        fields.push(("unused".to_owned(), bits.next_multiple_of(8) - bits));
        Ok(BridgeHeader { fields, headers, vars, byte_aligned_count: byte_aligned, live_at: live_by_cut })
    }

    /// Returns the index of the field of variable `n`.
    pub fn field_index_of(&self, n: usize) -> usize {
        FIRST_VARIABLE_FIELD + n + if n < self.byte_aligned_count { 0 } else { self.headers.len() }
    }

    /// Returns the number of bits of the variables that are live at a cut point.
    pub fn carried_bits(&self, pipeline: &Pipeline, stop: usize) -> u32 {
        let live = self.vars.iter().filter(|var| self.live_at[stop].contains(var.index()));
        live.map(|var| pipeline.vars[*var].ty.width()).sum()
    }

    /// Returns whether a variable is live at a cut point.
    pub fn is_live_at(&self, stop: usize, var: VarId) -> bool {
        self.live_at[stop].contains(var.index())
    }

    /// Declares the header in a pipeline.
    pub fn declare(&self, pipeline: &mut Pipeline) -> HeaderId {
        let field = |(n, (_, bits)): (usize, &(String, u32))| HeaderField {
            name: FIXED_FIELDS.get(n).map_or_else(|| format!("f{n}"), |(name, _)| (*name).to_owned()),
            ty: Type::Bit(*bits),
        };
        let fields = self.fields.iter().enumerate().map(field).collect();
        let ty = pipeline.header_types.push(HeaderType { name: format!("{BRIDGE_NAME}_t"), fields });
        pipeline.add_header(format!("hdr.{BRIDGE_NAME}"), ty, false, SourceLoc::default())
    }

    /// Emits the stores of the header's fields at a cut point at which nothing is carried.
    pub fn write_empty_header(
        &self,
        pipeline: &Pipeline,
        header: HeaderId,
        stop: usize,
        key: u32,
        b: &mut BodyBuilder,
    ) {
        b.set_valid(header);
        for (n, value) in [(ETHERTYPE_FIELD, u32::from(ETHERTYPE)), (KEY_FIELD, key), (POINT_FIELD, stop as u32)] {
            let value = b.bits(self.fields[n].1, value);
            b.store(pipeline.headers[header].fields[n], value);
        }
    }

    /// Emits the stores of the header's fields at a cut point.
    pub fn write_header(&self, pipeline: &Pipeline, header: HeaderId, stop: usize, key: u32, b: &mut BodyBuilder) {
        let fields = pipeline.headers[header].fields.clone();
        self.write_empty_header(pipeline, header, stop, key, b);
        for (n, carried) in self.headers.iter().enumerate() {
            let valid = b.is_valid(*carried);
            let bit = b.cast(Type::Bit(1), valid);
            b.store(fields[FIRST_VARIABLE_FIELD + self.byte_aligned_count + n], bit);
        }
        for (n, var) in self.vars.iter().enumerate().filter(|(_, var)| self.live_at[stop].contains(var.index())) {
            let value = b.load(pipeline, *var);
            let bits = b.cast(Type::Bit(pipeline.vars[*var].ty.width()), value);
            b.store(fields[self.field_index_of(n)], bits);
        }
    }

    /// Emits a test of ethertype and key.
    pub fn has_our_key(&self, pipeline: &Pipeline, header: HeaderId, key: u32, b: &mut BodyBuilder) -> Value {
        let fields = pipeline.headers[header].fields.clone();
        let mut equal = |n: usize, wanted: u32| {
            let found = b.load(pipeline, fields[n]);
            let wanted = b.bits(self.fields[n].1, wanted);
            b.eq(found, wanted)
        };
        let (a, c) = (equal(ETHERTYPE_FIELD, u32::from(ETHERTYPE)), equal(KEY_FIELD, key));
        b.binary(ir::BinaryOp::And, a, c)
    }

    /// Emits a test whether header `n` of the list follows in the packet.
    pub fn is_header_valid(&self, pipeline: &Pipeline, header: HeaderId, n: usize, b: &mut BodyBuilder) -> Value {
        let bit = b.load(pipeline, pipeline.headers[header].fields[FIRST_VARIABLE_FIELD + self.byte_aligned_count + n]);
        b.cast(Type::Bool, bit)
    }

    /// Emits a load of the cut point's number.
    pub fn load_cut_point(&self, pipeline: &Pipeline, header: HeaderId, b: &mut BodyBuilder) -> Value {
        b.load(pipeline, pipeline.headers[header].fields[POINT_FIELD])
    }

    /// Emits a load of the output port of a returned packet.
    pub fn load_return_port(&self, pipeline: &Pipeline, header: HeaderId, b: &mut BodyBuilder) -> Value {
        b.load(pipeline, pipeline.headers[header].fields[PORT_FIELD])
    }

    /// Returns the field of the packet's length.
    pub fn length_field(&self, pipeline: &Pipeline, header: HeaderId) -> VarId {
        pipeline.headers[header].fields[LENGTH_FIELD]
    }

    /// Emits a test whether the packet is a returned one.
    pub fn is_returned(&self, pipeline: &Pipeline, header: HeaderId, b: &mut BodyBuilder) -> Value {
        let (stop, back) =
            (self.load_cut_point(pipeline, header, b), b.bits(FIXED_FIELDS[POINT_FIELD].1, u32::from(RETURNED)));
        b.eq(stop, back)
    }

    /// Emits the stores that restore the variables at a cut point.
    pub fn restore_vars(&self, pipeline: &Pipeline, header: HeaderId, stop: usize, b: &mut BodyBuilder) {
        let fields = &pipeline.headers[header].fields;
        for (n, var) in self.vars.iter().enumerate().filter(|(_, var)| self.live_at[stop].contains(var.index())) {
            let bits = b.load(pipeline, fields[self.field_index_of(n)]);
            let value = b.cast(pipeline.vars[*var].ty, bits);
            b.store(*var, value);
        }
    }
}
