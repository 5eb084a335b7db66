//! Which slot holds what.

use crate::decode::error::LoadError;
use crate::program::{Field, Header, Reg, Slot};
use entries::words_for;
use ir::{Const, Entity, HeaderId, Pipeline, Type, VarId};
use std::collections::HashMap;

/// Slots of one value of a type.
pub fn reg(ty: Type, slot: Slot) -> Reg {
    let varbit = matches!(ty, Type::Varbit(_));
    let width = ty.width();
    let words = words_for(width) as u32 + u32::from(varbit);
    Reg { slot, words, width, signed: ty.is_signed(), varbit }
}

/// Hands out slots: variables first, then constants and the values of bodies. Constants are few, and what is
/// never written needs no place of its own before the variables.
pub struct Layout {
    vars: Vec<Reg>,
    field_end: Slot,
    var_end: Slot,
    constants: HashMap<Vec<u64>, Slot>,
    constant_words: Vec<(Slot, Vec<u64>)>,
    next: Slot,
}

impl Layout {
    /// Gives each variable its slots; those of a header's fields lie together.
    pub fn new(pipeline: &Pipeline) -> Layout {
        let mut vars = vec![None; pipeline.vars.len()];
        let mut next = 0;
        let mut place = |id: VarId| {
            if let (Some(var), Some(place @ None)) = (pipeline.vars.get(id), vars.get_mut(id.index())) {
                let reg = reg(var.ty, next);
                next += reg.words;
                *place = Some(reg);
            }
            next
        };
        let fields = pipeline.headers.values().flat_map(|h| h.fields.iter().copied());
        let field_end = fields.map(&mut place).last().unwrap_or(0);
        let var_end = pipeline.vars.keys().map(&mut place).last().unwrap_or(field_end);
        let vars = vars.into_iter().map(Option::unwrap_or_default).collect();
        Layout { vars, field_end, var_end, constants: HashMap::new(), constant_words: Vec::new(), next: var_end }
    }

    /// A variable's slots.
    pub fn var(&self, id: VarId) -> Reg {
        self.vars.get(id.index()).copied().unwrap_or_default()
    }

    /// The slots of variables: first, and how many.
    pub fn var_slots(&self) -> (Slot, u32) {
        (0, self.var_end)
    }

    /// The slots of variables that are no header fields: first, and how many.
    pub fn plain_slots(&self) -> (Slot, u32) {
        (self.field_end, self.var_end - self.field_end)
    }

    /// New slots for a value that lives through a body.
    pub fn value(&mut self, ty: Type) -> Reg {
        let reg = reg(ty, self.next);
        self.next += reg.words;
        reg
    }

    /// Slots in which the constant is when execution starts.
    pub fn constant(&mut self, constant: &Const) -> Reg {
        let mut reg = reg(constant.ty, 0);
        let mut words = Vec::new();
        if reg.varbit {
            words.push(u64::from(reg.width));
        }
        entries::push_words(&constant.bits, (reg.words as usize) - words.len(), &mut words);
        reg.slot = match self.constants.get(&words) {
            Some(slot) => *slot,
            None => {
                let slot = self.next;
                self.next += reg.words;
                self.constants.insert(words.clone(), slot);
                self.constant_words.push((slot, words));
                slot
            }
        };
        reg
    }

    /// The contents of all slots before a packet comes.
    pub fn initial(&self) -> Vec<u64> {
        let mut slots = vec![0; self.next as usize];
        for (slot, words) in &self.constant_words {
            slots[*slot as usize..*slot as usize + words.len()].copy_from_slice(words);
        }
        slots
    }

    /// The headers with the places of their fields.
    pub fn headers(&self, pipeline: &Pipeline) -> Result<Vec<Header>, LoadError> {
        pipeline.headers.iter().map(|(id, header)| self.header(pipeline, id, header)).collect()
    }

    fn header(&self, pipeline: &Pipeline, id: HeaderId, header: &ir::Header) -> Result<Header, LoadError> {
        let wrong = |what: &str| LoadError::Inconsistent { place: header.name.clone(), what: what.to_owned() };
        let declared = pipeline.header_types.get(header.ty).ok_or_else(|| wrong("it has no type"))?;
        if declared.fields.len() != header.fields.len() {
            return Err(wrong("it has another number of fields than its type"));
        }
        let mut fields = Vec::new();
        let (mut position, mut varbit) = (0u32, None);
        for (index, var) in header.fields.iter().enumerate() {
            let reg = self.var(*var);
            fields.push(Field { var: *var, reg, position });
            if reg.varbit {
                varbit = Some(index);
            } else {
                position = position.saturating_add(reg.width);
            }
        }
        let first = fields.first().map_or(0, |f| f.reg.slot);
        let slots = (first, fields.iter().map(|f| f.reg.words).sum());
        if fields.last().is_some_and(|f| f.reg.slot + f.reg.words != first + slots.1) {
            return Err(wrong("its fields are shared with another header"));
        }
        let members = header.union.and_then(|u| pipeline.unions.get(u)).map(|u| u.members.as_slice());
        let siblings = members.unwrap_or_default().iter().filter(|m| **m != id).map(|m| m.0).collect();
        Ok(Header { name: header.name.clone(), fields, slots, bits: position, varbit, siblings, local: header.local })
    }
}
