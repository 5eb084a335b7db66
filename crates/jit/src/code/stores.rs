//! Stores to header fields wait until something may look at the header's bytes: then neighbouring fields are written together.

use crate::code::registers::{int, pieces, steady, trusted};
use crate::code::stage::StageCode;
use crate::code::state::{Parameter, Piece};
use cranelift_codegen::ir as cl;
use cranelift_codegen::ir::InstBuilder;
use ir::{ExternFn, HeaderId, Inst};

/// Whether an instruction neither looks at headers' bytes, but for fields that it names, nor leaves the block.
fn lets_wait(inst: &Inst) -> bool {
    use ExternFn::*;
    match inst {
        Inst::Const(_) | Inst::Load(_) | Inst::Store(..) | Inst::IsValid(_) | Inst::PacketLength => true,
        Inst::Unary(..) | Inst::Binary(..) | Inst::Cast(..) | Inst::Slice { .. } | Inst::Concat(..) => true,
        Inst::Select { .. } => true,
        Inst::Extern { func, .. } => matches!(
            func,
            InternetChecksumAdd
                | InternetChecksumSubtract
                | InternetChecksumClear
                | InternetChecksumGet
                | InternetChecksumGetState
                | InternetChecksumSetState
        ),
        _ => false,
    }
}

/// How many bits lie without a gap behind the first of these pieces.
fn behind(pieces: &[(u32, Piece)]) -> u32 {
    let Some((bit, first)) = pieces.first() else { return 0 };
    let from = bit + first.width;
    pieces[1..].iter().fold(from, |end, (bit, piece)| if *bit == end { end + piece.width } else { end }) - from
}

impl StageCode<'_, '_> {
    /// Writes what waits, unless the instruction lets it wait.
    pub fn write_before(&mut self, inst: &Inst) {
        if !lets_wait(inst) {
            self.write_all();
        }
    }

    /// Writes all that waits.
    pub fn write_all(&mut self) {
        for header in self.waiting.keys().copied().collect::<Vec<_>>() {
            self.write_waiting(header);
        }
    }

    /// Whether some of these bits of a header are still to be written.
    pub fn waits(&self, header: HeaderId, bit: u32, width: u32) -> bool {
        let pieces = self.waiting.get(&header).into_iter().flatten();
        pieces.into_iter().any(|(at, piece)| *at < bit + width && bit < at + piece.width)
    }

    /// Lets the bits of a field of a valid header wait to be written: `width` of them from bit `bit` on.
    pub fn wait(&mut self, header: HeaderId, bit: u32, width: u32, regs: &[cl::Value]) {
        let pieces = self.waiting.entry(header).or_default();
        for (word, reg) in (0..).zip(regs) {
            let own = width.saturating_sub(word * 64).min(64);
            if own > 0 {
                pieces.insert(bit + width - word * 64 - own, Piece { width: own, value: *reg });
            }
        }
    }

    /// Writes what waits of a header, each run of neighbouring pieces by as few stores as there are.
    pub fn write_waiting(&mut self, header: HeaderId) {
        let Some(pieces) = self.waiting.remove(&header) else { return };
        let base = self.address(header);
        let pieces: Vec<(u32, Piece)> = pieces.into_iter().collect();
        let mut run: Vec<(u32, Piece)> = Vec::new();
        for (index, (bit, piece)) in pieces.iter().copied().enumerate() {
            let value = self.b.func.dfg.resolve_aliases(piece.value);
            if let Some(param) = self.params.get(&value).copied()
                && (bit % 8, piece.width) == (0, 8 * param.bytes)
            {
                self.write_run(base, &std::mem::take(&mut run));
                self.write_parameter(base, bit / 8, param, behind(&pieces[index..]) / 8);
                continue;
            }
            if run.last().is_some_and(|(last, piece)| last + piece.width != bit) {
                self.write_run(base, &std::mem::take(&mut run));
            }
            run.push((bit, piece));
        }
        self.write_run(base, &run);
    }

    /// Writes a parameter as it lies in a table's value, least significant byte first: by pieces that are read as they are written. If `free` bytes
    /// behind it are still to be written they may be written with it, so that it is one piece.
    fn write_parameter(&mut self, base: cl::Value, to: u32, parameter: Parameter, free: u32) {
        let Parameter { value, len, at, bytes } = parameter;
        let whole = bytes.next_power_of_two();
        let one = whole - bytes <= free && at + bytes >= whole;
        let bytes_at = |done: u32, size: u32| (at + bytes - done - size) as i32;
        let all = if one { vec![(0, whole)] } else { pieces(bytes, 4).collect() };
        for (done, size) in all {
            let mut piece = self.b.ins().load(int(size), steady(), value, bytes_at(done, size));
            self.reads_value(piece, len);
            if size > 1 {
                piece = self.b.ins().bswap(piece);
            }
            self.b.ins().store(trusted(), piece, base, (to + done) as i32);
        }
    }

    fn write_run(&mut self, base: cl::Value, run: &[(u32, Piece)]) {
        let (Some((first, _)), Some((last, piece))) = (run.first(), run.last()) else { return };
        let end = last + piece.width;
        let mut at = *first;
        while at < end {
            let whole = (end - at) / 8;
            let bits = match (at % 8, whole) {
                // What shares its byte with bits that stay.
                (0, 0) => end - at,
                (0, whole) => [8, 4, 2, 1].into_iter().find(|bytes| *bytes <= whole).unwrap_or(1) * 8,
                (odd, _) => (8 - odd).min(end - at),
            };
            let value = self.bits_of_run(run, at, bits);
            self.store_bits(base, at, bits, value);
            at += bits;
        }
    }

    /// The bits `at..at + width` of a run, at most 64.
    fn bits_of_run(&mut self, run: &[(u32, Piece)], at: u32, width: u32) -> cl::Value {
        let mut all = None;
        for (bit, piece) in run {
            let (from, to) = (at.max(*bit), (at + width).min(bit + piece.width));
            if from >= to {
                continue;
            }
            let part = self.right(piece.value, bit + piece.width - to);
            let part = if from == *bit { part } else { self.cut(part, to - from) };
            let part = self.left(part, at + width - to);
            all = Some(match all {
                Some(there) => self.b.ins().bor(there, part),
                None => part,
            });
        }
        all.unwrap_or_else(|| self.number(0))
    }
}
