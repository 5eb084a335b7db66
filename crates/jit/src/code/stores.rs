//! Pending stores: stores to header fields are deferred until the header's bytes may be read, so
//! that adjacent fields are written together.

use crate::code::registers::{int_type, split_powers_of_two, steady_flags, trusted_flags};
use crate::code::stage::StageBuilder;
use crate::code::state::{ActionParam, PendingStore};
use cranelift_codegen::ir as cl;
use cranelift_codegen::ir::InstBuilder;
use ir::{ExternFn, HeaderId, Inst};

/// Returns whether an instruction leaves stores pending: it reads no header bytes except fields
/// that it names, and stays in the block.
fn allows_pending_stores(inst: &Inst) -> bool {
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

/// Returns the number of bits that directly follow the first of these stores.
fn contiguous_bits(pieces: &[(u32, PendingStore)]) -> u32 {
    let Some((bit, first)) = pieces.first() else { return 0 };
    let from = bit + first.width;
    pieces[1..].iter().fold(from, |end, (bit, piece)| if *bit == end { end + piece.width } else { end }) - from
}

impl StageBuilder<'_, '_> {
    /// Emits pending stores, unless the instruction allows them to stay pending.
    pub fn emit_pending_before(&mut self, inst: &Inst) {
        if !allows_pending_stores(inst) {
            self.emit_all_pending();
        }
    }

    /// Emits all pending stores.
    pub fn emit_all_pending(&mut self) {
        for header in self.pending_stores.keys().copied().collect::<Vec<_>>() {
            self.emit_pending_stores(header);
        }
    }

    /// Returns whether some of these bits of a header have pending stores.
    pub fn has_pending_stores(&self, header: HeaderId, bit: u32, width: u32) -> bool {
        let pieces = self.pending_stores.get(&header).into_iter().flatten();
        pieces.into_iter().any(|(at, piece)| *at < bit + width && bit < at + piece.width)
    }

    /// Defers the store of a field of a valid header: `width` bits from bit `bit` on.
    pub fn defer_store(&mut self, header: HeaderId, bit: u32, width: u32, regs: &[cl::Value]) {
        let pieces = self.pending_stores.entry(header).or_default();
        for (word, reg) in (0..).zip(regs) {
            let own = width.saturating_sub(word * 64).min(64);
            if own > 0 {
                pieces.insert(bit + width - word * 64 - own, PendingStore { width: own, value: *reg });
            }
        }
    }

    /// Emits the pending stores of a header, each run of adjacent bits with as few stores as
    /// possible.
    pub fn emit_pending_stores(&mut self, header: HeaderId) {
        let Some(pieces) = self.pending_stores.remove(&header) else { return };
        let base = self.address(header);
        let pieces: Vec<(u32, PendingStore)> = pieces.into_iter().collect();
        let mut run: Vec<(u32, PendingStore)> = Vec::new();
        for (index, (bit, piece)) in pieces.iter().copied().enumerate() {
            let value = self.b.func.dfg.resolve_aliases(piece.value);
            if let Some(param) = self.params.get(&value).copied()
                && (bit % 8, piece.width) == (0, 8 * param.bytes)
            {
                self.emit_store_run(base, &std::mem::take(&mut run));
                self.write_parameter(base, bit / 8, param, contiguous_bits(&pieces[index..]) / 8);
                continue;
            }
            if run.last().is_some_and(|(last, piece)| last + piece.width != bit) {
                self.emit_store_run(base, &std::mem::take(&mut run));
            }
            run.push((bit, piece));
        }
        self.emit_store_run(base, &run);
    }

    /// Stores a parameter that is little-endian in a table's value, in pieces of the same size for
    /// load and store. If `free` bytes after it are still pending, they may be overwritten, so that
    /// one piece suffices.
    fn write_parameter(&mut self, base: cl::Value, to: u32, parameter: ActionParam, free: u32) {
        let ActionParam { value, len, at, bytes } = parameter;
        let whole = bytes.next_power_of_two();
        let one = whole - bytes <= free && at + bytes >= whole;
        let bytes_at = |done: u32, size: u32| (at + bytes - done - size) as i32;
        let all = if one { vec![(0, whole)] } else { split_powers_of_two(bytes, 4).collect() };
        for (done, size) in all {
            let mut piece = self.b.ins().load(int_type(size), steady_flags(), value, bytes_at(done, size));
            self.reads_value(piece, len);
            if size > 1 {
                piece = self.b.ins().bswap(piece);
            }
            self.b.ins().store(trusted_flags(), piece, base, (to + done) as i32);
        }
    }

    fn emit_store_run(&mut self, base: cl::Value, run: &[(u32, PendingStore)]) {
        let (Some((first, _)), Some((last, piece))) = (run.first(), run.last()) else { return };
        let end = last + piece.width;
        let mut at = *first;
        while at < end {
            let whole = (end - at) / 8;
            let bits = match (at % 8, whole) {
                // Shares its byte with bits that do not change.
                (0, 0) => end - at,
                (0, whole) => [8, 4, 2, 1].into_iter().find(|bytes| *bytes <= whole).unwrap_or(1) * 8,
                (odd, _) => (8 - odd).min(end - at),
            };
            let value = self.bits_of_run(run, at, bits);
            self.store_bits(base, at, bits, value);
            at += bits;
        }
    }

    /// Returns the bits `at..at + width` of a run, at most 64.
    fn bits_of_run(&mut self, run: &[(u32, PendingStore)], at: u32, width: u32) -> cl::Value {
        let mut all = None;
        for (bit, piece) in run {
            let (from, to) = (at.max(*bit), (at + width).min(bit + piece.width));
            if from >= to {
                continue;
            }
            let part = self.shr_imm(piece.value, bit + piece.width - to);
            let part = if from == *bit { part } else { self.mask_to_width(part, to - from) };
            let part = self.shl_imm(part, at + width - to);
            all = Some(match all {
                Some(there) => self.b.ins().bor(there, part),
                None => part,
            });
        }
        all.unwrap_or_else(|| self.iconst_u64(0))
    }
}
