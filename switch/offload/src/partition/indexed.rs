//! Indices of the lower half's meters and registers in the bridge header. The upper tier can send
//! all packets that share an element to one lower tier.

use super::bridge::BridgeHeader;
use super::cut_point::CutBlock;
use super::demote::CARRIED_PREFIX;
use ir::{
    Block, Body, ControlId, ExternArg, ExternFn, ExternId, ExternKind, Inst, Pipeline, Value, VarId, reverse_postorder,
};
use std::collections::{BTreeMap, BTreeSet};

/// Bits of the bridge header that hold an object's index.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BridgeIndexBits {
    /// First bit, counted from the start of the header.
    pub first_bit: u32,
    /// Width in bits.
    pub width_bits: u32,
    /// Whether the index is carried, by cut point. At other cut points its bits are 0, and the
    /// object is not used with it afterwards.
    pub is_carried_at: Vec<bool>,
}

/// Reason for which the upper tier does not know an index.
pub type UnknownIndex = &'static str;

/// Bits of a variable: variable, lowest bit, width in bits.
type VarBits = (VarId, u32, u32);

/// Maximum number of assignments that are followed to the origin of an index.
const MAX_ASSIGNMENTS: usize = 32;

/// Returns for each meter and register of the control the bits of the bridge header that hold its
/// index, or the reason for which they are unknown.
pub fn find_index_bits(
    pipeline: &Pipeline,
    control: ControlId,
    cut_blocks: &[CutBlock],
    bridge: &BridgeHeader,
) -> BTreeMap<ExternId, Result<BridgeIndexBits, UnknownIndex>> {
    let body = &pipeline.controls[control].body;
    let places: Vec<Block> = cut_blocks.iter().map(|cut| cut.block).collect();
    let after_cut = blocks_after(body, &places);
    let restarts = cut_blocks.iter().any(CutBlock::is_restart);
    let mut bits_by_object: BTreeMap<ExternId, BTreeSet<Result<VarBits, UnknownIndex>>> = BTreeMap::new();
    for (id, declared) in pipeline.controls.iter() {
        for (block, data) in declared.body.blocks.iter() {
            for (object, index) in data.insts.iter().filter_map(|data| indexed_use(pipeline, &data.inst)) {
                let var_bits = match id == control {
                    _ if restarts => Err("packets that restart below carry no index"),
                    true => IndexFinder { pipeline, body, behind: &after_cut, bridge }.find_carried_bits(block, index),
                    false => Err("it is used in another control than the partitioned one"),
                };
                bits_by_object.entry(object).or_default().insert(var_bits);
            }
        }
    }
    let in_bridge = |uses: BTreeSet<Result<VarBits, UnknownIndex>>| {
        let mut uses = uses.into_iter();
        match (uses.next(), uses.next()) {
            (Some(var_bits), None) => var_bits.map(|var_bits| bridge.index_bits(var_bits, cut_blocks.len())),
            _ => Err("it is indexed with different values at different uses"),
        }
    };
    bits_by_object.into_iter().map(|(object, uses)| (object, in_bridge(uses))).collect()
}

/// Returns the object and the index of an access to a meter or register.
fn indexed_use(pipeline: &Pipeline, inst: &Inst) -> Option<(ExternId, Value)> {
    let Inst::Extern { object: Some(object), func, args } = inst else { return None };
    let is_array = matches!(pipeline.externs[*object].kind, ExternKind::Meter { .. } | ExternKind::Register { .. });
    let at_index = matches!(func, ExternFn::MeterExecute | ExternFn::RegisterRead | ExternFn::RegisterWrite);
    match args.first() {
        Some(ExternArg::Value(index)) if is_array && at_index => Some((*object, *index)),
        _ => None,
    }
}

/// Returns the blocks that are reachable from the cut points, including their own.
fn blocks_after(body: &Body, places: &[Block]) -> BTreeSet<Block> {
    let mut all: BTreeSet<Block> = places.iter().copied().collect();
    let order = reverse_postorder(body);
    loop {
        let before = all.len();
        for block in &order {
            let Some(term) = body.blocks[*block].term.as_ref().filter(|_| all.contains(block)) else { continue };
            all.extend(term.term.successors());
        }
        if all.len() == before {
            return all;
        }
    }
}

struct IndexFinder<'a> {
    pipeline: &'a Pipeline,
    body: &'a Body,
    behind: &'a BTreeSet<Block>,
    bridge: &'a BridgeHeader,
}

impl IndexFinder<'_> {
    /// Returns the bits of a carried variable that equal a value of a block: follows loads, and
    /// stores of variables with a single source, up to a variable in the bridge header.
    fn find_carried_bits(&self, block: Block, value: Value) -> Result<VarBits, UnknownIndex> {
        let (mut block, mut value) = (block, value);
        let (mut low, mut width) = (0, self.width(value));
        for _ in 0..MAX_ASSIGNMENTS {
            let var = self.loaded_var(block, value, &mut low, &mut width)?;
            let stores: Vec<(Block, Value)> = self.stores_to(var).collect();
            let is_carried = self.bridge.vars.contains(&var);
            if is_carried && !self.is_set_after(var) {
                return Ok((var, low, width));
            }
            let is_value = self.pipeline.vars[var].name.starts_with(CARRIED_PREFIX);
            let (true, [(store_block, stored)]) = (is_value, &stores[..]) else {
                return Err(
                    "its index is a packet field, or has several sources after a cut point; assign it to metadata before the first cut point",
                );
            };
            (block, value) = (*store_block, *stored);
        }
        Err("its index passes through too many assignments")
    }

    /// Returns the variable from which a value is loaded, possibly in part. Adjusts `low` and
    /// `width` to the bits.
    fn loaded_var(&self, block: Block, value: Value, low: &mut u32, width: &mut u32) -> Result<VarId, UnknownIndex> {
        let mut value = value;
        loop {
            let insts = &self.body.blocks[block].insts;
            let defining = insts.iter().find(|data| data.results.contains(&value));
            match defining.map(|data| &data.inst) {
                Some(Inst::Load(var)) => return Ok(*var),
                Some(Inst::Cast(_, source)) => {
                    // Widening adds no significant bits; sign bits are copies.
                    *width = (*width).min(self.width(*source).saturating_sub(*low)).max(1);
                    value = *source;
                }
                Some(Inst::Slice { value: source, lo, .. }) => {
                    *low += lo;
                    value = *source;
                }
                _ => {
                    return Err(
                        "its index is computed; assign what it is computed from to metadata, and index with that",
                    );
                }
            }
        }
    }

    fn width(&self, value: Value) -> u32 {
        self.body.value_type(value).width()
    }

    /// Returns whether a variable can change after a cut point.
    fn is_set_after(&self, var: VarId) -> bool {
        let mut insts = self.behind.iter().flat_map(|block| &self.body.blocks[*block].insts);
        insts.any(|data| match &data.inst {
            Inst::Store(to, _) => *to == var,
            Inst::Extern { args, .. } => {
                args.iter().any(|arg| matches!(arg, ExternArg::Vars(vars) if vars.contains(&var)))
            }
            _ => false,
        })
    }

    /// Returns the stores to a variable.
    fn stores_to(&self, var: VarId) -> impl Iterator<Item = (Block, Value)> {
        let insts = self.body.blocks.iter().flat_map(|(block, data)| data.insts.iter().map(move |data| (block, data)));
        insts.filter_map(move |(block, data)| match &data.inst {
            Inst::Store(to, value) if *to == var => Some((block, *value)),
            _ => None,
        })
    }
}

impl BridgeHeader {
    /// Returns the position of a carried variable's bits.
    fn index_bits(&self, (var, low, width): VarBits, stops: usize) -> BridgeIndexBits {
        let at = self.field_index_of(self.vars.iter().take_while(|other| **other != var).count());
        let end: u32 = self.fields[..=at].iter().map(|(_, bits)| bits).sum();
        let stops = (0..stops).map(|stop| self.is_live_at(stop, var)).collect();
        BridgeIndexBits { first_bit: end - low - width, width_bits: width, is_carried_at: stops }
    }
}
