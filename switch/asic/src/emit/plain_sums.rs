//! Internet checksums as plain arithmetic, for an architecture that has no object for them.
//!
//! The sum is in a local variable: fields are put together to words of 16 bits, each is added, and
//! what runs over is added below (RFC 1071). A sum of one list of fields that is asked for in the
//! list's block stays as it is: one hash says that.

use super::Unsupported;
use ir::*;
use num_bigint::BigUint;

/// Between two calls, 16 bits of them are used.
const SUM: Type = Type::Bit(32);
/// The number of words that can be added to a sum of 16 bits before its 32 bits run over.
const MOST_WORDS: usize = 0xffff;

/// Writes out the sums that are not of one list of fields.
///
/// # Errors
/// A varbit field: where what follows it is in its word is not known before the packet is there.
pub(super) fn plain_sums(p: &mut Pipeline) -> Result<(), Unsupported> {
    let one_list = |object| p.controls.values().all(|c| is_of_one_list(&c.body, object));
    let sums = p.externs.iter().filter(|(_, e)| matches!(e.kind, ExternKind::InternetChecksum));
    let sums: Vec<ExternId> = sums.map(|(id, _)| id).filter(|id| !one_list(*id)).collect();
    let controls: Vec<ControlId> = p.controls.iter().map(|(id, _)| id).collect();
    for object in sums {
        for control in &controls {
            let uses = p.controls[*control].body.insts().any(|i| called(&i.inst, object).is_some());
            if uses {
                write_out(p, *control, object)?;
            }
        }
    }
    Ok(())
}

/// Which of an object's methods an instruction calls.
fn called(inst: &Inst, object: ExternId) -> Option<ExternFn> {
    match inst {
        Inst::Extern { object: Some(of), func, .. } if *of == object => Some(*func),
        _ => None,
    }
}

/// Whether calls come in pairs of `add` and `get` in one block, and no packet meets two of them.
fn is_of_one_list(body: &Body, object: ExternId) -> bool {
    let mut pairs = Vec::new();
    for (block, data) in body.blocks.iter() {
        let calls: Vec<ExternFn> = data.insts.iter().filter_map(|i| called(&i.inst, object)).collect();
        match calls[..] {
            [] => {}
            [ExternFn::InternetChecksumAdd, ExternFn::InternetChecksumGet] => pairs.push(block),
            _ => return false,
        }
    }
    !pairs.iter().any(|from| pairs.iter().any(|to| body.leads_to(*from, *to)))
}

/// Replaces all calls of an object in a control; its sum begins with 0 there.
fn write_out(p: &mut Pipeline, control: ControlId, object: ExternId) -> Result<(), Unsupported> {
    let (name, loc) = (p.externs[object].preamble.name.clone(), p.externs[object].loc);
    let mut local = |what| p.vars.push(Var { name: format!("{name}_{what}"), ty: SUM, kind: VarKind::Local, loc });
    let (sum, taken) = (local("sum"), local("taken"));
    let body = std::mem::take(&mut p.controls[control].body);
    let mut writer = Writer { body, sum, taken, done: Vec::new(), loc };
    let refused = |loc| Unsupported::new(p, loc, "a varbit field in a checksum that is not that of one list of fields");
    writer.calls(object).map_err(refused)?;
    writer.begin();
    p.controls[control].body = writer.body;
    Ok(())
}

/// Writes one object's calls in one body.
struct Writer {
    body: Body,
    sum: VarId,
    /// The sum of what is subtracted.
    taken: VarId,
    /// The block at hand as far as it is written.
    done: Vec<InstData>,
    loc: Loc,
}

impl Writer {
    /// # Errors
    /// The place of a list with a varbit field.
    fn calls(&mut self, object: ExternId) -> Result<(), Loc> {
        for n in 0..self.body.blocks.len() {
            let block = Block(u32::try_from(n).unwrap_or(u32::MAX));
            for inst in std::mem::take(&mut self.body.blocks[block].insts) {
                match inst.inst {
                    Inst::Extern { object: Some(of), func, args } if of == object => {
                        self.loc = inst.loc;
                        self.call(func, args.first(), &inst.results)?;
                    }
                    _ => self.done.push(inst),
                }
            }
            self.body.blocks[block].insts = std::mem::take(&mut self.done);
        }
        Ok(())
    }

    /// Stores 0 before all else: in a block of its own, if the first one is entered again.
    fn begin(&mut self) {
        let Some(entry) = self.body.entry else { return };
        self.set(self.sum, 0);
        let zero = std::mem::take(&mut self.done);
        if self.body.leads_to(entry, entry) {
            let first = self.body.push_block(Vec::new(), zero, Term::Jump(BlockCall::to(entry)));
            self.body.entry = Some(first);
        } else {
            self.body.blocks[entry].insts.splice(0..0, zero);
        }
    }

    fn call(&mut self, func: ExternFn, arg: Option<&Arg>, results: &[Value]) -> Result<(), Loc> {
        let list: Vec<Value> = match arg {
            Some(Arg::Values(values)) => values.clone(),
            Some(Arg::Value(value)) => vec![*value],
            _ => Vec::new(),
        };
        match func {
            ExternFn::InternetChecksumClear => self.set(self.sum, 0),
            ExternFn::InternetChecksumAdd => {
                let words = self.words(&list)?;
                self.add(self.sum, &words);
            }
            ExternFn::InternetChecksumSubtract => self.subtract(&list)?,
            ExternFn::InternetChecksumSetState => {
                let state = self.make(Inst::Cast(SUM, list[0]), SUM);
                self.store(self.sum, state);
            }
            // What is asked for is the last 16 bits, as they are or inverted.
            _ => {
                let low = self.low(self.sum);
                let inst = match func {
                    ExternFn::InternetChecksumGet => Inst::Unary(UnaryOp::Not, low),
                    _ => Inst::Cast(Type::Bit(16), low),
                };
                self.done.push(InstData { inst, results: results.to_vec(), loc: self.loc });
            }
        }
        Ok(())
    }

    /// Adds the complement of a list's sum (RFC 1624). Those of its words may give another zero.
    fn subtract(&mut self, list: &[Value]) -> Result<(), Loc> {
        let words = self.words(list)?;
        self.set(self.taken, 0);
        self.add(self.taken, &words);
        let low = self.low(self.taken);
        let inverted = self.make(Inst::Unary(UnaryOp::Not, low), Type::Bit(16));
        let word = self.make(Inst::Cast(SUM, inverted), SUM);
        self.add(self.sum, &[word]);
        Ok(())
    }

    /// Adds words to a sum of 16 bits, which has 16 bits again then.
    fn add(&mut self, sum: VarId, words: &[Value]) {
        for words in words.chunks(MOST_WORDS) {
            for word in words {
                let before = self.make(Inst::Load(sum), SUM);
                let after = self.make(Inst::Binary(BinaryOp::Add, before, *word), SUM);
                self.store(sum, after);
            }
            self.fold(sum);
            self.fold(sum);
        }
    }

    /// Adds the upper 16 bits to the lower ones. The second time, nothing is left above.
    fn fold(&mut self, sum: VarId) {
        let value = self.make(Inst::Load(sum), SUM);
        let [low, high] = [0, 16].map(|lo| {
            let half = self.make(Inst::Slice { value, hi: lo + 15, lo }, Type::Bit(16));
            self.make(Inst::Cast(SUM, half), SUM)
        });
        let folded = self.make(Inst::Binary(BinaryOp::Add, low, high), SUM);
        self.store(sum, folded);
    }

    /// The words of 16 bits that values give one behind the other, zeros behind the last one.
    fn words(&mut self, list: &[Value]) -> Result<Vec<Value>, Loc> {
        let (mut words, mut pieces, mut room) = (Vec::new(), Vec::new(), 16);
        for value in list {
            let (value, width) = self.bits(*value)?;
            let mut left = width;
            while left > 0 {
                let taken = left.min(room);
                pieces.push(self.piece(value, width, left, taken));
                (left, room) = (left - taken, room - taken);
                if room == 0 {
                    words.push(self.joined(&pieces));
                    pieces.clear();
                    room = 16;
                }
            }
        }
        if room < 16 {
            pieces.push(self.constant(Type::Bit(room), 0));
            words.push(self.joined(&pieces));
        }
        Ok(words)
    }

    /// A value as plain bits, and how many.
    fn bits(&mut self, value: Value) -> Result<(Value, u32), Loc> {
        let ty = self.body.value_type(value);
        let width = ty.width();
        match ty {
            Type::Varbit(_) => Err(self.loc),
            Type::Bit(_) => Ok((value, width)),
            _ => Ok((self.make(Inst::Cast(Type::Bit(width), value), Type::Bit(width)), width)),
        }
    }

    /// The first `taken` of the last `left` bits.
    fn piece(&mut self, value: Value, width: u32, left: u32, taken: u32) -> Value {
        if taken == width {
            return value;
        }
        self.make(Inst::Slice { value, hi: left - 1, lo: left - taken }, Type::Bit(taken))
    }

    /// Pieces one behind the other, as a number that can be added to a sum.
    fn joined(&mut self, pieces: &[Value]) -> Value {
        let mut word = pieces[0];
        for piece in &pieces[1..] {
            let width = self.body.value_type(word).width() + self.body.value_type(*piece).width();
            word = self.make(Inst::Concat(word, *piece), Type::Bit(width));
        }
        self.make(Inst::Cast(SUM, word), SUM)
    }

    fn low(&mut self, sum: VarId) -> Value {
        let value = self.make(Inst::Load(sum), SUM);
        self.make(Inst::Slice { value, hi: 15, lo: 0 }, Type::Bit(16))
    }

    fn set(&mut self, var: VarId, bits: u32) {
        let value = self.constant(SUM, bits);
        self.store(var, value);
    }

    fn store(&mut self, var: VarId, value: Value) {
        self.done.push(InstData { inst: Inst::Store(var, value), results: Vec::new(), loc: self.loc });
    }

    fn constant(&mut self, ty: Type, bits: u32) -> Value {
        self.make(Inst::Const(Const::new(ty, BigUint::from(bits))), ty)
    }

    fn make(&mut self, inst: Inst, ty: Type) -> Value {
        let result = self.body.values.push(ty);
        self.done.push(InstData { inst, results: vec![result], loc: self.loc });
        result
    }
}
