//! The bridge header's fields, for all stops alike.

use super::error::CutError;
use super::fate::Fate;
use asic::live::Live;
use fixedbitset::FixedBitSet;
use ir::{Block, BodyBuilder, Entity, HeaderField, HeaderId, HeaderType, Loc, Pipeline, Type, Value, VarId, VarKind};

/// Ethertype of frames with a bridge header: "local experimental", IEEE 802, clause 9.2.3.
pub const ETHERTYPE: u16 = 0x88b5;

/// Name of the bridge header in both pipelines.
const NAME: &str = "terrace_bridge";

/// What is carried, and where it lies.
pub struct Bridge {
    /// Names and widths of all fields in order.
    pub fields: Vec<(String, u32)>,
    /// Headers that may follow, in their order.
    pub headers: Vec<HeaderId>,
    /// Variables that are carried, those of whole bytes first.
    pub vars: Vec<VarId>,
    /// How many those are.
    whole: usize,
    /// Of those, what is live at each stop.
    live: Vec<FixedBitSet>,
}

/// The stop of a packet that comes back: it has nowhere to go on, but a port to leave on.
pub const BACK: u8 = 255;
/// The stop of what is no packet: a tier asks another one whether it is there, and that one sends it back as it is.
pub const HELLO: u8 = 254;
/// The stop of what is no packet: a tier below says how often packets have found entries there.
pub const HITS: u8 = 253;

/// The fields that each bridge header begins with, and their widths in bits.
const FIXED: [(&str, u32); 8] = [
    ("destination", 48),
    ("source", 48),
    ("ether_type", 16),
    ("key", 32),
    ("stop", 8),
    ("port", 32),
    ("length", 16),
    ("mark", 16),
];
/// Positions of fields.
const ETHERTYPE_FIELD: usize = 2;
const KEY_FIELD: usize = 3;
const POINT_FIELD: usize = 4;
const PORT_FIELD: usize = 5;
const LENGTH_FIELD: usize = 6;
const FIRST: usize = FIXED.len();

impl Bridge {
    /// For what is live where the blocks begin, and what was said in front of them.
    pub fn new(
        pipeline: &Pipeline,
        begins: &[Live],
        places: &[Block],
        fate: Option<&Fate>,
    ) -> Result<Bridge, CutError> {
        let mut all = Live::default();
        let mut live = Vec::new();
        for (stop, block) in places.iter().enumerate() {
            let here = &begins[block.index()];
            let mut vars = here.vars.clone();
            let said = fate.filter(|fate| fate.said[stop]).map(Fate::vars);
            said.into_iter().flatten().for_each(|var| vars.grow_and_insert(var.index()));
            all.vars.union_with(&vars);
            all.headers.union_with(&here.headers);
            live.push(vars);
        }
        let needed = |id: &HeaderId| {
            let header = &pipeline.headers[*id];
            all.headers.contains(id.index()) || header.fields.iter().any(|var| all.vars.contains(var.index()))
        };
        let headers: Vec<HeaderId> = pipeline.headers.keys().filter(needed).collect();
        let in_header = |var: VarId| matches!(pipeline.vars[var].kind, VarKind::Field(..));
        let carried = pipeline.vars.keys().filter(|v| all.vars.contains(v.index()) && !in_header(*v));
        // A chip moves bytes, not bits, to where they lie in a header: what has whole bytes begins at one.
        let width = |var: VarId| pipeline.vars[var].ty.width();
        let (mut vars, parts): (Vec<VarId>, Vec<VarId>) = carried.partition(|var| width(*var).is_multiple_of(8));
        let whole = vars.len();
        vars.extend(parts);
        let of_headers = headers.iter().flat_map(|id| &pipeline.headers[*id].fields);
        for var in of_headers.chain(&vars) {
            if matches!(pipeline.vars[*var].ty, Type::Varbit(_)) {
                return Err(CutError::Varbit(pipeline.vars[*var].name.clone()));
            }
        }
        let mut fields: Vec<(String, u32)> = FIXED.map(|(name, bits)| (name.to_owned(), bits)).to_vec();
        let named = |var: &VarId| (pipeline.vars[*var].name.clone(), width(*var));
        fields.extend(vars[..whole].iter().map(named));
        fields.extend(headers.iter().map(|id| (format!("{} is valid", pipeline.headers[*id].name), 1)));
        fields.extend(vars[whole..].iter().map(named));
        let bits: u32 = fields.iter().map(|(_, bits)| bits).sum();
        fields.push(("unused".to_owned(), bits.next_multiple_of(8) - bits));
        Ok(Bridge { fields, headers, vars, whole, live })
    }

    /// Position of the field of variable number `n`.
    pub fn place_of(&self, n: usize) -> usize {
        FIRST + n + if n < self.whole { 0 } else { self.headers.len() }
    }

    /// Bits of variables that are live at a stop.
    pub fn carried_bits(&self, pipeline: &Pipeline, stop: usize) -> u32 {
        let live = self.vars.iter().filter(|var| self.live[stop].contains(var.index()));
        live.map(|var| pipeline.vars[*var].ty.width()).sum()
    }

    /// Whether a variable is live at a stop.
    pub fn carries(&self, stop: usize, var: VarId) -> bool {
        self.live[stop].contains(var.index())
    }

    /// Declares the header.
    pub fn declare(&self, pipeline: &mut Pipeline) -> HeaderId {
        let field = |(n, (_, bits)): (usize, &(String, u32))| HeaderField {
            name: FIXED.get(n).map_or_else(|| format!("f{n}"), |(name, _)| (*name).to_owned()),
            ty: Type::Bit(*bits),
        };
        let fields = self.fields.iter().enumerate().map(field).collect();
        let ty = pipeline.header_types.push(HeaderType { name: format!("{NAME}_t"), fields });
        pipeline.add_header(format!("hdr.{NAME}"), ty, false, Loc::default())
    }

    /// Writes the header: what a packet has at a stop.
    pub fn fill(&self, pipeline: &Pipeline, header: HeaderId, stop: usize, key: u32, b: &mut BodyBuilder) {
        let fields = pipeline.headers[header].fields.clone();
        b.set_valid(header);
        for (n, value) in [(ETHERTYPE_FIELD, u32::from(ETHERTYPE)), (KEY_FIELD, key), (POINT_FIELD, stop as u32)] {
            let value = b.bits(self.fields[n].1, value);
            b.store(fields[n], value);
        }
        for (n, carried) in self.headers.iter().enumerate() {
            let valid = b.is_valid(*carried);
            let bit = b.cast(Type::Bit(1), valid);
            b.store(fields[FIRST + self.whole + n], bit);
        }
        for (n, var) in self.vars.iter().enumerate().filter(|(_, var)| self.live[stop].contains(var.index())) {
            let value = b.load(pipeline, *var);
            let bits = b.cast(Type::Bit(pipeline.vars[*var].ty.width()), value);
            b.store(fields[self.place_of(n)], bits);
        }
    }

    /// Whether the header is one of ours: ethertype and key.
    pub fn is_ours(&self, pipeline: &Pipeline, header: HeaderId, key: u32, b: &mut BodyBuilder) -> Value {
        let fields = pipeline.headers[header].fields.clone();
        let mut equal = |n: usize, wanted: u32| {
            let found = b.load(pipeline, fields[n]);
            let wanted = b.bits(self.fields[n].1, wanted);
            b.eq(found, wanted)
        };
        let (a, c) = (equal(ETHERTYPE_FIELD, u32::from(ETHERTYPE)), equal(KEY_FIELD, key));
        b.binary(ir::BinaryOp::And, a, c)
    }

    /// Whether the header that stands there by its number is in the packet.
    pub fn has(&self, pipeline: &Pipeline, header: HeaderId, n: usize, b: &mut BodyBuilder) -> Value {
        let bit = b.load(pipeline, pipeline.headers[header].fields[FIRST + self.whole + n]);
        b.cast(Type::Bool, bit)
    }

    /// The stop's number.
    pub fn stop(&self, pipeline: &Pipeline, header: HeaderId, b: &mut BodyBuilder) -> Value {
        b.load(pipeline, pipeline.headers[header].fields[POINT_FIELD])
    }

    /// The port of a packet that comes back.
    pub fn port(&self, pipeline: &Pipeline, header: HeaderId, b: &mut BodyBuilder) -> Value {
        b.load(pipeline, pipeline.headers[header].fields[PORT_FIELD])
    }

    /// The field for the packet's length.
    pub fn length_field(&self, pipeline: &Pipeline, header: HeaderId) -> VarId {
        pipeline.headers[header].fields[LENGTH_FIELD]
    }

    /// Whether it is a packet that comes back.
    pub fn comes_back(&self, pipeline: &Pipeline, header: HeaderId, b: &mut BodyBuilder) -> Value {
        let (stop, back) = (self.stop(pipeline, header, b), b.bits(FIXED[POINT_FIELD].1, u32::from(BACK)));
        b.eq(stop, back)
    }

    /// Gives variables what they had at a stop.
    pub fn restore(&self, pipeline: &Pipeline, header: HeaderId, stop: usize, b: &mut BodyBuilder) {
        let fields = &pipeline.headers[header].fields;
        for (n, var) in self.vars.iter().enumerate().filter(|(_, var)| self.live[stop].contains(var.index())) {
            let bits = b.load(pipeline, fields[self.place_of(n)]);
            let value = b.cast(pipeline.vars[*var].ty, bits);
            b.store(*var, value);
        }
    }
}
