//! Assigns registers to variables, constants and values.

use crate::decode::error::LoadError;
use crate::program::{DecodedHeader, HeaderFieldReg, Reg, WordIndex};
use entries::words_for;
use ir::{Const, Entity, HeaderId, Pipeline, Type, VarId};
use std::collections::HashMap;

/// Returns the register of one value of a type that starts at `slot`.
pub fn register_at(ty: Type, slot: WordIndex) -> Reg {
    let varbit = matches!(ty, Type::Varbit(_));
    let width = ty.width();
    let words = words_for(width) as u32 + u32::from(varbit);
    Reg { first_word: slot, words, width, is_signed: ty.is_signed(), is_varbit: varbit }
}

/// Allocates registers: variables first, then constants and the values of bodies.
///
/// Constants can follow the variables, because they are few and never written.
pub struct RegisterLayout {
    vars: Vec<Reg>,
    field_end: WordIndex,
    var_end: WordIndex,
    constants: HashMap<Vec<u64>, WordIndex>,
    constant_words: Vec<(WordIndex, Vec<u64>)>,
    next: WordIndex,
}

impl RegisterLayout {
    /// Allocates registers to all variables: first to the fields, so that those of a header are
    /// contiguous, then to the others.
    pub fn new(pipeline: &Pipeline) -> RegisterLayout {
        let mut vars = vec![None; pipeline.vars.len()];
        let mut next_word = 0;
        // Assigns the next free words to a variable without them. Returns the word after them.
        let mut assign = |id: VarId| {
            if let (Some(var), Some(slot @ None)) = (pipeline.vars.get(id), vars.get_mut(id.index())) {
                let reg = register_at(var.ty, next_word);
                next_word += reg.words;
                *slot = Some(reg);
            }
            next_word
        };
        let fields = pipeline.headers.values().flat_map(|h| h.fields.iter().copied());
        let field_end = fields.map(&mut assign).last().unwrap_or(0);
        let var_end = pipeline.vars.keys().map(&mut assign).last().unwrap_or(field_end);
        let vars = vars.into_iter().map(Option::unwrap_or_default).collect();
        RegisterLayout {
            vars,
            field_end,
            var_end,
            constants: HashMap::new(),
            constant_words: Vec::new(),
            next: var_end,
        }
    }

    /// Returns the register of a variable.
    pub fn var(&self, id: VarId) -> Reg {
        self.vars.get(id.index()).copied().unwrap_or_default()
    }

    /// Returns the words of variables: first and count.
    pub fn var_words(&self) -> (WordIndex, u32) {
        (0, self.var_end)
    }

    /// Returns the words of variables that are not header fields: first and count.
    pub fn non_header_words(&self) -> (WordIndex, u32) {
        (self.field_end, self.var_end - self.field_end)
    }

    /// Allocates a register for a value that lives through a body.
    pub fn alloc_value(&mut self, ty: Type) -> Reg {
        let reg = register_at(ty, self.next);
        self.next += reg.words;
        reg
    }

    /// Returns the register that holds the constant when execution starts; equal constants share
    /// one.
    pub fn alloc_constant(&mut self, constant: &Const) -> Reg {
        let mut reg = register_at(constant.ty, 0);
        let mut words = Vec::new();
        if reg.is_varbit {
            words.push(u64::from(reg.width));
        }
        entries::push_words(&constant.bits, (reg.words as usize) - words.len(), &mut words);
        reg.first_word = match self.constants.get(&words) {
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

    /// Returns the contents of all words before a packet arrives.
    pub fn initial(&self) -> Vec<u64> {
        let mut slots = vec![0; self.next as usize];
        for (slot, words) in &self.constant_words {
            slots[*slot as usize..*slot as usize + words.len()].copy_from_slice(words);
        }
        slots
    }

    /// Returns the headers with the registers of their fields.
    pub fn headers(&self, pipeline: &Pipeline) -> Result<Vec<DecodedHeader>, LoadError> {
        pipeline.headers.iter().map(|(id, header)| self.header(pipeline, id, header)).collect()
    }

    /// Returns a header with the registers of its fields. A field's position is in bits from the
    /// start of the header, without the varbit. The words of the fields must be contiguous, because
    /// the engine copies headers as a whole.
    fn header(&self, pipeline: &Pipeline, id: HeaderId, header: &ir::Header) -> Result<DecodedHeader, LoadError> {
        let inconsistent =
            |violation: &str| LoadError::Inconsistent { place: header.name.clone(), what: violation.to_owned() };
        let declared = pipeline.header_types.get(header.ty).ok_or_else(|| inconsistent("it has no type"))?;
        if declared.fields.len() != header.fields.len() {
            return Err(inconsistent("it has another number of fields than its type"));
        }
        let mut fields = Vec::new();
        let (mut bit_position, mut varbit) = (0u32, None);
        for (index, var) in header.fields.iter().enumerate() {
            let reg = self.var(*var);
            fields.push(HeaderFieldReg { var: *var, reg, position: bit_position });
            if reg.is_varbit {
                varbit = Some(index);
            } else {
                bit_position = bit_position.saturating_add(reg.width);
            }
        }
        let first_word = fields.first().map_or(0, |f| f.reg.first_word);
        let word_range = (first_word, fields.iter().map(|f| f.reg.words).sum());
        if fields.last().is_some_and(|f| f.reg.first_word + f.reg.words != first_word + word_range.1) {
            return Err(inconsistent("its fields are shared with another header"));
        }
        // The other members of its union become invalid when this header becomes valid.
        let members = header.union.and_then(|union| pipeline.unions.get(union)).map(|union| union.members.as_slice());
        let union_members =
            members.unwrap_or_default().iter().filter(|member| **member != id).map(|member| member.0).collect();
        Ok(DecodedHeader {
            name: header.name.clone(),
            fields,
            word_range,
            fixed_bits: bit_position,
            varbit,
            union_members,
            is_local: header.local,
        })
    }
}
