//! What meters and registers of the lower half are indexed with, as far as packets take it along: by that, what shares one of them can be sent one way.

use super::bridge::Bridge;
use super::demote::CARRIED;
use ir::{
    Arg, Block, Body, ControlId, ExternFn, ExternId, ExternKind, Inst, Pipeline, Value, VarId, reverse_postorder,
};
use std::collections::{BTreeMap, BTreeSet};

/// Where a bridge header has what an object is indexed with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place {
    /// Its first bit, from the header's first.
    pub first: u32,
    /// How many bits it has.
    pub width: u32,
    /// Whether it is there, by the number of the stop. Elsewhere its bits are 0, and the object is not used with it behind that stop.
    pub stops: Vec<bool>,
}

/// Why it is not known above.
pub type Unknown = &'static str;

/// Part of a variable: its lowest bit, and how many.
type Part = (VarId, u32, u32);

/// Variables that this variable's value comes from, one after the other.
const FAR: usize = 32;

/// Of each meter and register that the control uses: where it is.
pub fn indexed(
    pipeline: &Pipeline,
    control: ControlId,
    places: &[Block],
    bridge: &Bridge,
) -> BTreeMap<ExternId, Result<Place, Unknown>> {
    let body = &pipeline.controls[control].body;
    let behind = behind(body, places);
    let mut parts: BTreeMap<ExternId, BTreeSet<Result<Part, Unknown>>> = BTreeMap::new();
    for (id, other) in pipeline.controls.iter() {
        for (block, data) in other.body.blocks.iter() {
            for (object, index) in data.insts.iter().filter_map(|data| used(pipeline, &data.inst)) {
                let part = match id == control {
                    true => Finder { pipeline, body, behind: &behind, bridge }.find(block, index),
                    false => Err("it is used in another control than the one that is divided"),
                };
                parts.entry(object).or_default().insert(part);
            }
        }
    }
    let place = |parts: BTreeSet<Result<Part, Unknown>>| {
        let mut parts = parts.into_iter();
        match (parts.next(), parts.next()) {
            (Some(part), None) => part.map(|part| bridge.place(part, places.len())),
            _ => Err("it is indexed with this here and with that there"),
        }
    };
    parts.into_iter().map(|(object, parts)| (object, place(parts))).collect()
}

/// A use of a meter or register: which, and its index.
fn used(pipeline: &Pipeline, inst: &Inst) -> Option<(ExternId, Value)> {
    let Inst::Extern { object: Some(object), func, args } = inst else { return None };
    let is_array = matches!(pipeline.externs[*object].kind, ExternKind::Meter { .. } | ExternKind::Register { .. });
    let at_index = matches!(func, ExternFn::MeterExecute | ExternFn::RegisterRead | ExternFn::RegisterWrite);
    match args.first() {
        Some(Arg::Value(index)) if is_array && at_index => Some((*object, *index)),
        _ => None,
    }
}

/// The blocks to which a packet can come from a stop, and those of the stops.
fn behind(body: &Body, places: &[Block]) -> BTreeSet<Block> {
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

struct Finder<'a> {
    pipeline: &'a Pipeline,
    body: &'a Body,
    behind: &'a BTreeSet<Block>,
    bridge: &'a Bridge,
}

impl Finder<'_> {
    /// The part of a variable that packets take along, which the value in the block is.
    fn find(&self, block: Block, value: Value) -> Result<Part, Unknown> {
        let (mut block, mut value) = (block, value);
        let (mut low, mut width) = (0, self.width(value));
        for _ in 0..FAR {
            let var = self.loaded(block, value, &mut low, &mut width)?;
            let stores: Vec<(Block, Value)> = self.stores(var).collect();
            let is_carried = self.bridge.vars.contains(&var);
            if is_carried && !self.is_set_behind(var) {
                return Ok((var, low, width));
            }
            let is_value = self.pipeline.vars[var].name.starts_with(CARRIED);
            let (true, [(there, stored)]) = (is_value, &stores[..]) else {
                return Err(
                    "its index is a field of a packet, or comes from several places behind a stop; assign it to metadata before the first stop",
                );
            };
            (block, value) = (*there, *stored);
        }
        Err("its index comes from too far")
    }

    /// The variable that a value of a block is loaded from, or a part of it.
    fn loaded(&self, block: Block, value: Value, low: &mut u32, width: &mut u32) -> Result<VarId, Unknown> {
        let mut value = value;
        loop {
            let insts = &self.body.blocks[block].insts;
            let found = insts.iter().find(|data| data.results.contains(&value));
            match found.map(|data| &data.inst) {
                Some(Inst::Load(var)) => return Ok(*var),
                Some(Inst::Cast(_, from)) => {
                    // Widened, it has no more bits that matter; the sign's are the same again.
                    *width = (*width).min(self.width(*from).saturating_sub(*low)).max(1);
                    value = *from;
                }
                Some(Inst::Slice { value: from, lo, .. }) => {
                    *low += lo;
                    value = *from;
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

    /// Whether a variable may have another value behind a stop than at it.
    fn is_set_behind(&self, var: VarId) -> bool {
        let mut insts = self.behind.iter().flat_map(|block| &self.body.blocks[*block].insts);
        insts.any(|data| match &data.inst {
            Inst::Store(to, _) => *to == var,
            Inst::Extern { args, .. } => args.iter().any(|arg| matches!(arg, Arg::Vars(vars) if vars.contains(&var))),
            _ => false,
        })
    }

    /// Where a variable is set.
    fn stores(&self, var: VarId) -> impl Iterator<Item = (Block, Value)> {
        let insts = self.body.blocks.iter().flat_map(|(block, data)| data.insts.iter().map(move |data| (block, data)));
        insts.filter_map(move |(block, data)| match &data.inst {
            Inst::Store(to, value) if *to == var => Some((block, *value)),
            _ => None,
        })
    }
}

impl Bridge {
    /// Where a part of a carried variable is.
    fn place(&self, (var, low, width): Part, stops: usize) -> Place {
        let at = self.place_of(self.vars.iter().take_while(|other| **other != var).count());
        let end: u32 = self.fields[..=at].iter().map(|(_, bits)| bits).sum();
        let stops = (0..stops).map(|stop| self.carries(stop, var)).collect();
        Place { first: end - low - width, width, stops }
    }
}
