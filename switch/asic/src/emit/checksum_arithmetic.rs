//! Internet checksums as arithmetic, for an architecture without a checksum object.
//!
//! The sum is a local variable: fields are concatenated to 16-bit words, the words are added, and
//! the carry is added back (RFC 1071). A checksum that is computed over a single list of fields and
//! read in the same block is unchanged, because a hash expresses it.

use super::UnsupportedConstruct;
use ir::*;
use num_bigint::BigUint;

/// Type of a sum; between calls its value fits in 16 bits.
const SUM: Type = Type::Bit(32);
/// Number of 16-bit words that a 16-bit sum can take before its 32 bits overflow.
const MAX_WORDS: usize = 0xffff;

/// Expands all checksums that are not computed over a single list of fields.
///
/// # Errors
/// A varbit field, because the alignment of the following fields is unknown at compile time.
pub(super) fn expand_checksums(p: &mut Pipeline) -> Result<(), UnsupportedConstruct> {
    let one_list = |object| p.controls.values().all(|c| is_of_one_list(&c.body, object));
    let sums = p.externs.iter().filter(|(_, e)| matches!(e.kind, ExternKind::InternetChecksum));
    let sums: Vec<ExternId> = sums.map(|(id, _)| id).filter(|id| !one_list(*id)).collect();
    let controls: Vec<ControlId> = p.controls.iter().map(|(id, _)| id).collect();
    for object in sums {
        for control in &controls {
            let uses = p.controls[*control].body.insts().any(|i| called_method(&i.inst, object).is_some());
            if uses {
                expand_object(p, *control, object)?;
            }
        }
    }
    Ok(())
}

/// Returns the method of an object that an instruction calls.
fn called_method(inst: &Inst, object: ExternId) -> Option<ExternFn> {
    match inst {
        Inst::Extern { object: Some(of), func, .. } if *of == object => Some(*func),
        _ => None,
    }
}

/// Returns whether all calls are pairs of `add` and `get` in one block, and no packet executes two
/// pairs.
fn is_of_one_list(body: &Body, object: ExternId) -> bool {
    let mut pairs = Vec::new();
    for (block, data) in body.blocks.iter() {
        let calls: Vec<ExternFn> = data.insts.iter().filter_map(|i| called_method(&i.inst, object)).collect();
        match calls[..] {
            [] => {}
            [ExternFn::InternetChecksumAdd, ExternFn::InternetChecksumGet] => pairs.push(block),
            _ => return false,
        }
    }
    !pairs.iter().any(|from| pairs.iter().any(|to| body.can_reach(*from, *to)))
}

/// Replaces all calls of an object in a control. The sum starts with 0 in each control.
fn expand_object(p: &mut Pipeline, control: ControlId, object: ExternId) -> Result<(), UnsupportedConstruct> {
    let (name, loc) = (p.externs[object].preamble.name.clone(), p.externs[object].loc);
    let mut local = |what| p.vars.push(Var { name: format!("{name}_{what}"), ty: SUM, kind: VarKind::Local, loc });
    let (sum, taken) = (local("sum"), local("taken"));
    let body = std::mem::take(&mut p.controls[control].body);
    let mut writer = SumWriter { body, sum, subtracted: taken, done: Vec::new(), loc };
    let refused =
        |loc| UnsupportedConstruct::new(p, loc, "a varbit field in a checksum that is not that of one list of fields");
    writer.expand_calls(object).map_err(refused)?;
    writer.zero_at_entry();
    p.controls[control].body = writer.body;
    Ok(())
}

/// Expands the calls of one object in one body.
struct SumWriter {
    body: Body,
    sum: VarId,
    /// Sum of subtracted words.
    subtracted: VarId,
    /// Instructions emitted for the current block.
    done: Vec<InstData>,
    loc: SourceLoc,
}

impl SumWriter {
    /// Expands all calls.
    ///
    /// # Errors
    /// Location of a list with a varbit field.
    fn expand_calls(&mut self, object: ExternId) -> Result<(), SourceLoc> {
        for n in 0..self.body.blocks.len() {
            let block = Block(u32::try_from(n).unwrap_or(u32::MAX));
            for inst in std::mem::take(&mut self.body.blocks[block].insts) {
                match inst.inst {
                    Inst::Extern { object: Some(of), func, args } if of == object => {
                        self.loc = inst.loc;
                        self.expand_call(func, args.first(), &inst.results)?;
                    }
                    _ => self.done.push(inst),
                }
            }
            self.body.blocks[block].insts = std::mem::take(&mut self.done);
        }
        Ok(())
    }

    /// Zeroes the sum at the entry, in a new block if the entry block is part of a loop.
    fn zero_at_entry(&mut self) {
        let Some(entry) = self.body.entry else { return };
        self.store_constant(self.sum, 0);
        let zero = std::mem::take(&mut self.done);
        if self.body.can_reach(entry, entry) {
            let first = self.body.push_block(Vec::new(), zero, Terminator::Jump(BlockCall::to(entry)));
            self.body.entry = Some(first);
        } else {
            self.body.blocks[entry].insts.splice(0..0, zero);
        }
    }

    /// Replaces a call of a checksum object by arithmetic on its sum. Fails with the position of a
    /// value that has no fixed width.
    fn expand_call(&mut self, func: ExternFn, arg: Option<&ExternArg>, results: &[Value]) -> Result<(), SourceLoc> {
        let list: Vec<Value> = match arg {
            Some(ExternArg::Values(values)) => values.clone(),
            Some(ExternArg::Value(value)) => vec![*value],
            _ => Vec::new(),
        };
        match func {
            ExternFn::InternetChecksumClear => self.store_constant(self.sum, 0),
            ExternFn::InternetChecksumAdd => {
                let words = self.split_into_words(&list)?;
                self.add_words(self.sum, &words);
            }
            ExternFn::InternetChecksumSubtract => self.subtract(&list)?,
            ExternFn::InternetChecksumSetState => {
                let state = self.push_inst(Inst::Cast(SUM, list[0]), SUM);
                self.store(self.sum, state);
            }
            // The remaining methods return the low 16 bits, inverted for `get`.
            _ => {
                let low = self.low_half(self.sum);
                let inst = match func {
                    ExternFn::InternetChecksumGet => Inst::Unary(UnaryOp::Not, low),
                    _ => Inst::Cast(Type::Bit(16), low),
                };
                self.done.push(InstData { inst, results: results.to_vec(), loc: self.loc });
            }
        }
        Ok(())
    }

    /// Adds the complement of a list's sum (RFC 1624). Adding the complement of each word could
    /// give the other representation of zero.
    fn subtract(&mut self, list: &[Value]) -> Result<(), SourceLoc> {
        let words = self.split_into_words(list)?;
        self.store_constant(self.subtracted, 0);
        self.add_words(self.subtracted, &words);
        let low = self.low_half(self.subtracted);
        let inverted = self.push_inst(Inst::Unary(UnaryOp::Not, low), Type::Bit(16));
        let word = self.push_inst(Inst::Cast(SUM, inverted), SUM);
        self.add_words(self.sum, &[word]);
        Ok(())
    }

    /// Adds words to a sum and folds it to 16 bits.
    fn add_words(&mut self, sum: VarId, words: &[Value]) {
        for words in words.chunks(MAX_WORDS) {
            for word in words {
                let before = self.push_inst(Inst::Load(sum), SUM);
                let after = self.push_inst(Inst::Binary(BinaryOp::Add, before, *word), SUM);
                self.store(sum, after);
            }
            self.fold_carries(sum);
            self.fold_carries(sum);
        }
    }

    /// Adds the upper 16 bits to the lower 16 bits. Two folds leave no carry.
    fn fold_carries(&mut self, sum: VarId) {
        let value = self.push_inst(Inst::Load(sum), SUM);
        let [low, high] = [0, 16].map(|lo| {
            let half = self.push_inst(Inst::Slice { value, hi: lo + 15, lo }, Type::Bit(16));
            self.push_inst(Inst::Cast(SUM, half), SUM)
        });
        let folded = self.push_inst(Inst::Binary(BinaryOp::Add, low, high), SUM);
        self.store(sum, folded);
    }

    /// Returns the concatenated values as 16-bit words, most significant bits first, padded with
    /// zeros.
    fn split_into_words(&mut self, list: &[Value]) -> Result<Vec<Value>, SourceLoc> {
        let (mut words, mut pieces, mut free_bits) = (Vec::new(), Vec::new(), 16);
        for value in list {
            let (value, width) = self.unsigned_bits(*value)?;
            let mut remaining_bits = width;
            while remaining_bits > 0 {
                let count = remaining_bits.min(free_bits);
                pieces.push(self.field_bits(value, width, remaining_bits, count));
                (remaining_bits, free_bits) = (remaining_bits - count, free_bits - count);
                if free_bits == 0 {
                    words.push(self.join_bits(&pieces));
                    pieces.clear();
                    free_bits = 16;
                }
            }
        }
        if free_bits < 16 {
            pieces.push(self.constant(Type::Bit(free_bits), 0));
            words.push(self.join_bits(&pieces));
        }
        Ok(words)
    }

    /// Returns a value as unsigned bits, with its width.
    fn unsigned_bits(&mut self, value: Value) -> Result<(Value, u32), SourceLoc> {
        let ty = self.body.value_type(value);
        let width = ty.width();
        match ty {
            Type::Varbit(_) => Err(self.loc),
            Type::Bit(_) => Ok((value, width)),
            _ => Ok((self.push_inst(Inst::Cast(Type::Bit(width), value), Type::Bit(width)), width)),
        }
    }

    /// Returns the first `taken` of the last `left` bits of a value.
    fn field_bits(&mut self, value: Value, width: u32, left: u32, taken: u32) -> Value {
        if taken == width {
            return value;
        }
        self.push_inst(Inst::Slice { value, hi: left - 1, lo: left - taken }, Type::Bit(taken))
    }

    /// Concatenates pieces and widens the result to the sum's type.
    fn join_bits(&mut self, pieces: &[Value]) -> Value {
        let mut word = pieces[0];
        for piece in &pieces[1..] {
            let width = self.body.value_type(word).width() + self.body.value_type(*piece).width();
            word = self.push_inst(Inst::Concat(word, *piece), Type::Bit(width));
        }
        self.push_inst(Inst::Cast(SUM, word), SUM)
    }

    fn low_half(&mut self, sum: VarId) -> Value {
        let value = self.push_inst(Inst::Load(sum), SUM);
        self.push_inst(Inst::Slice { value, hi: 15, lo: 0 }, Type::Bit(16))
    }

    fn store_constant(&mut self, var: VarId, bits: u32) {
        let value = self.constant(SUM, bits);
        self.store(var, value);
    }

    fn store(&mut self, var: VarId, value: Value) {
        self.done.push(InstData { inst: Inst::Store(var, value), results: Vec::new(), loc: self.loc });
    }

    fn constant(&mut self, ty: Type, bits: u32) -> Value {
        self.push_inst(Inst::Const(Const::new(ty, BigUint::from(bits))), ty)
    }

    fn push_inst(&mut self, inst: Inst, ty: Type) -> Value {
        let result = self.body.values.push(ty);
        self.done.push(InstData { inst, results: vec![result], loc: self.loc });
        result
    }
}
