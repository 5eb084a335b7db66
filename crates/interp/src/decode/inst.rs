//! Decodes straight-line instructions.

use crate::decode::call;
use crate::decode::decoder::BodyDecoder;
use crate::decode::error::DecodeFault;
use crate::program::*;
use crate::wide_int::mask64;
use ir::{BinaryOp, HeaderId, Inst, InstData, UnaryOp, Value, VarKind};

/// Decodes one IR instruction. As in [`Op`], `d` is the register of the result, `a` and `b` are
/// operands, and `c` is a condition. Values of one word take the short form of an operation if it
/// has one.
pub(super) fn emit_inst(decoder: &mut BodyDecoder<'_>, data: &InstData) -> Result<(), DecodeFault> {
    let result = |decoder: &mut BodyDecoder<'_>| match data.results[..] {
        [result] => decoder.value(result),
        _ => Err(format!("an instruction has {} results instead of one", data.results.len())),
    };
    match &data.inst {
        // The constant is in its register before execution starts.
        Inst::Const(_) => {}
        Inst::Load(var) => {
            let (d, a) = (result(decoder)?, decoder.var(*var)?);
            if d.words != a.words {
                return Err(format!("{var} has another width than the result"));
            }
            if d.first_word != a.first_word {
                decoder.emit_move(d, a);
            }
        }
        Inst::Store(var, value) => emit_store(decoder, *var, *value)?,
        Inst::Unary(op, a) => {
            let (d, a) = (result(decoder)?, decoder.value(*a)?);
            emit_unary(decoder, *op, d, a);
        }
        Inst::Binary(op, a, b) => {
            let (d, a, b) = (result(decoder)?, decoder.value(*a)?, decoder.value(*b)?);
            emit_binary(decoder, *op, d, a, b);
        }
        Inst::Cast(_, a) => {
            let (d, a) = (result(decoder)?, decoder.value(*a)?);
            emit_cast(decoder, d, a);
        }
        Inst::Slice { value, hi, lo } => {
            let (d, a) = (result(decoder)?, decoder.value(*value)?);
            if lo > hi || *hi >= a.width {
                return Err(format!("slice [{hi}:{lo}] of a value of {} bits", a.width));
            }
            match (a.words, d.words) {
                (1, 1) => {
                    decoder.emit(Op::Slice1 { d: d.first_word, a: a.first_word, lo: *lo, mask: mask64(hi - lo + 1) });
                }
                _ => emit_wide(decoder, WideOp::Slice { d, a, lo: *lo }),
            }
        }
        Inst::Concat(high, low) => {
            let (d, high, low) = (result(decoder)?, decoder.value(*high)?, decoder.value(*low)?);
            match (d.words, d.is_varbit || high.is_varbit || low.is_varbit) {
                // The machine masks a shift count of 64 to 0, so that this case takes the wide
                // path.
                (1, false) if low.width < 64 => {
                    decoder.emit(Op::Concat1 {
                        d: d.first_word,
                        a: high.first_word,
                        b: low.first_word,
                        shift: low.width,
                    });
                }
                _ => emit_wide(decoder, WideOp::Concat { d, high, low }),
            }
        }
        Inst::Select { cond, then, els } => {
            let (d, c) = (result(decoder)?, decoder.value(*cond)?.first_word);
            let (a, b) = (decoder.value(*then)?, decoder.value(*els)?);
            if a.words != d.words || b.words != d.words {
                return Err("a select has operands of other widths than its result".to_owned());
            }
            let (d, a, b, n) = (d.first_word, a.first_word, b.first_word, d.words);
            decoder.emit(if n == 1 { Op::Select1 { d, c, a, b } } else { Op::SelectN { d, c, a, b, n } });
        }
        Inst::Extern { object, func, args } => call::extern_call(decoder, *object, *func, args, &data.results)?,
        other => emit_packet_inst(decoder, other, &data.results)?,
    }
    Ok(())
}

/// Decodes an instruction on headers, parser or deparser; `h` is the index of a header.
fn emit_packet_inst(decoder: &mut BodyDecoder<'_>, inst: &Inst, results: &[Value]) -> Result<(), DecodeFault> {
    let header = |decoder: &BodyDecoder<'_>, header: HeaderId| match decoder.pipeline.headers.get(header) {
        Some(_) => Ok(header.0),
        None => Err(format!("{header} does not exist")),
    };
    let result = |decoder: &mut BodyDecoder<'_>| match results {
        [result] => decoder.value(*result),
        _ => Err(format!("an instruction has {} results instead of one", results.len())),
    };
    let op = match inst {
        Inst::IsValid(h) => Op::IsValid { d: result(decoder)?.first_word, h: header(decoder, *h)? },
        Inst::SetValid(h) => Op::SetValid { h: header(decoder, *h)? },
        Inst::SetInvalid(h) => Op::SetInvalid { h: header(decoder, *h)? },
        Inst::CopyHeader { dst, src } => {
            let (dst, src) = (header(decoder, *dst)?, header(decoder, *src)?);
            let header_type = |h: u32| decoder.pipeline.headers[HeaderId(h)].ty;
            if header_type(dst) != header_type(src) {
                return Err("a header is copied to one of another type".to_owned());
            }
            Op::Copy { dst, src }
        }
        Inst::Extract(h) => Op::Extract { h: header(decoder, *h)? },
        Inst::ExtractVarbit(h, bits) => {
            Op::ExtractVarbit { h: header(decoder, *h)?, a: decoder.value(*bits)?.first_word }
        }
        Inst::Advance(bits) => Op::Advance { a: decoder.value(*bits)?.first_word },
        Inst::Lookahead(_) => {
            let reg = result(decoder)?;
            decoder.code.lookaheads.push(reg);
            Op::Lookahead { index: decoder.code.lookaheads.len() as u32 - 1 }
        }
        Inst::Verify(cond, error) => {
            Op::Verify { c: decoder.value(*cond)?.first_word, e: decoder.value(*error)?.first_word }
        }
        Inst::PacketLength => Op::PacketLength { d: result(decoder)?.first_word },
        Inst::InValueSet(set, keys) => {
            let declared = decoder.pipeline.value_sets.get(*set).ok_or_else(|| format!("{set} does not exist"))?;
            if declared.keys.len() != keys.len() {
                return Err(format!("{} is matched with {} keys", declared.preamble.name, keys.len()));
            }
            let d = result(decoder)?.first_word;
            let keys: Result<Vec<Reg>, DecodeFault> = keys.iter().map(|key| decoder.value(*key)).collect();
            decoder.code.value_sets.push((d, set.0 as usize, keys?));
            Op::InValueSet { index: decoder.code.value_sets.len() as u32 - 1 }
        }
        Inst::Emit(h) => Op::Emit { h: header(decoder, *h)? },
        other => return Err(format!("{other:?} is not an instruction on packets")),
    };
    decoder.emit(op);
    Ok(())
}

fn emit_wide(decoder: &mut BodyDecoder<'_>, op: WideOp) {
    let index = decoder.code.wide.len() as u32;
    decoder.code.wide.push(op);
    decoder.emit(Op::Wide { index });
}

/// Emits a store to a variable. A field needs its header's index, because a store to a field of an
/// invalid header has no effect.
fn emit_store(decoder: &mut BodyDecoder<'_>, var: ir::VarId, value: Value) -> Result<(), DecodeFault> {
    let (d, a) = (decoder.var(var)?, decoder.value(value)?);
    if d.words != a.words {
        return Err(format!("{value} has another width than {var}"));
    }
    match (decoder.pipeline.vars[var].kind, d.words) {
        (VarKind::Field(h, _), 1) => decoder.emit(Op::Field1 { h: h.0, d: d.first_word, a: a.first_word }),
        (VarKind::Field(h, _), n) => decoder.emit(Op::FieldN { h: h.0, d: d.first_word, a: a.first_word, n }),
        _ => decoder.emit_move(d, a),
    }
    Ok(())
}

/// Emits a unary operation from register `a` to `d`. The mask drops the bits beyond the width.
fn emit_unary(decoder: &mut BodyDecoder<'_>, op: UnaryOp, d: Reg, a: Reg) {
    if d.words != 1 || a.words != 1 {
        return emit_wide(decoder, WideOp::Unary { op, d, a });
    }
    let mask = mask64(a.width);
    let (d, a) = (d.first_word, a.first_word);
    decoder.emit(match op {
        UnaryOp::Neg => Op::Neg1 { d, a, mask },
        UnaryOp::Not => Op::Not1 { d, a, mask },
        UnaryOp::LogicalNot => Op::Not1 { d, a, mask: 1 },
    });
}

/// Emits a binary operation. Signed comparisons shift the sign to bit 63; greater-than is less-than
/// with exchanged operands. Operations without a form for one word are emitted as wide ones.
fn emit_binary(decoder: &mut BodyDecoder<'_>, op: BinaryOp, dst: Reg, left: Reg, right: Reg) {
    use BinaryOp::*;
    let is_one_word = dst.words == 1 && left.words == 1 && right.words == 1;
    let (d, a, b) = (dst.first_word, left.first_word, right.first_word);
    let mask = mask64(left.width);
    let shift = 64 - left.width.min(64);
    let is_signed = left.is_signed && left.width > 0;
    let op = match op {
        _ if !is_one_word => return emit_wide(decoder, WideOp::Binary { op, d: dst, a: left, b: right }),
        Add => Op::Add1 { d, a, b, mask },
        Sub => Op::Sub1 { d, a, b, mask },
        Mul => Op::Mul1 { d, a, b, mask },
        And => Op::And1 { d, a, b },
        Or => Op::Or1 { d, a, b },
        Xor => Op::Xor1 { d, a, b },
        Shl => Op::Shl1 { d, a, b, mask },
        Shr if !is_signed => Op::Shr1 { d, a, b },
        Eq => Op::Eq1 { d, a, b },
        Ne => Op::Ne1 { d, a, b },
        Lt if is_signed => Op::LtS1 { d, a, b, shift },
        Le if is_signed => Op::LeS1 { d, a, b, shift },
        Gt if is_signed => Op::LtS1 { d, a: b, b: a, shift },
        Ge if is_signed => Op::LeS1 { d, a: b, b: a, shift },
        Lt => Op::Lt1 { d, a, b },
        Le => Op::Le1 { d, a, b },
        Gt => Op::Lt1 { d, a: b, b: a },
        Ge => Op::Le1 { d, a: b, b: a },
        Div | Mod | AddSat | SubSat | Shr => {
            return emit_wide(decoder, WideOp::Binary { op, d: dst, a: left, b: right });
        }
    };
    decoder.emit(op);
}

/// Emits a cast from register `a` to `d`: sign extension, truncation, or only a move, because the
/// bits beyond an unsigned value's width are 0.
fn emit_cast(decoder: &mut BodyDecoder<'_>, d: Reg, a: Reg) {
    if d.words != 1 || a.words != 1 {
        return emit_wide(decoder, WideOp::Cast { d, a });
    }
    if a.is_signed && d.width > a.width && a.width > 0 {
        let (shift, mask) = (64 - a.width, mask64(d.width));
        decoder.emit(Op::Sext1 { d: d.first_word, a: a.first_word, shift, mask });
    } else if d.width < a.width {
        decoder.emit(Op::Mask1 { d: d.first_word, a: a.first_word, mask: mask64(d.width) });
    } else {
        decoder.emit_move(d, a);
    }
}
