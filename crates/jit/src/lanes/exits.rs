//! Exits of vector code: lanes that complete, lanes that diverge, and the side effects of the
//! former.

use crate::abi::FrameHeader;
use crate::lanes::bound::low_bits;
use crate::lanes::convert::{DeferredEffect, NotVectorizable, PathEnd, Vectorizer, carried_word};
use crate::lanes::ir::{LANES, OpId, VectorCode, VectorOp};
use crate::lanes::state::LaneState;
use crate::plan::stages::StageEntry;
use crate::plan::vector_layout::PREFETCH_DISTANCE;
use std::collections::BTreeSet;
use std::mem::offset_of;

impl Vectorizer<'_> {
    /// Emits the side effects of lanes that complete, and the list of lanes that diverge.
    pub(super) fn emit_path_ends(mut self) -> Result<VectorCode, NotVectorizable> {
        let ends = std::mem::take(&mut self.ends);
        if ends.is_empty() {
            return Err(NotVectorizable::NoPath);
        }
        let complete = self.b.mask_union(&ends.iter().map(|end| end.mask).collect::<Vec<_>>());
        let state = self.join_packet_writes(&ends);
        let index = match self.place.index {
            Some(list) => self.b.add_pure(VectorOp::Column(list)),
            None => self.b.add_pure(VectorOp::Position),
        };
        self.emit_verdicts(&ends, index);
        for end in &ends {
            self.emit_stage_exit(end, index);
        }
        self.emit_packet_writes(&state, complete);
        for effect in std::mem::take(&mut self.later) {
            self.emit_deferred_effect(effect, complete);
        }
        self.emit_prefetch();
        let active = self.b.active_lanes();
        let diverged = self.b.mask_and_not(active, complete);
        if !self.b.is_empty_mask(diverged) {
            let position = self.b.add_pure(VectorOp::Position);
            let (count, list) = self.layout.diverged;
            self.b.add_effect(VectorOp::Append {
                count,
                mask: diverged,
                columns: vec![(list, position)],
                keys: Vec::new(),
            });
        }
        Ok(self.b.finish())
    }

    /// Prefetches for the next packets: the packet lines that are accessed, and the lookup results.
    fn emit_prefetch(&mut self) {
        let lines = self.b.ops().iter().filter_map(|op| match op {
            VectorOp::Rows { pointers, offset, .. } if *pointers == self.packets.pointers => Some(*offset),
            VectorOp::Write { offset, .. } => Some(*offset),
            _ => None,
        });
        let lines: BTreeSet<i32> = lines.collect();
        let by = if self.start == StageEntry::Begin { PREFETCH_DISTANCE } else { LANES } as u8;
        if !lines.is_empty() {
            self.b.add_effect(VectorOp::Ahead {
                list: self.packets.pointers,
                by,
                offsets: lines.into_iter().collect(),
            });
        }
        if let StageEntry::Table(..) = self.start {
            self.b.add_effect(VectorOp::Ahead { list: self.layout.results, by, offsets: vec![0] });
        }
    }

    /// Joins the packet writes of all ends. The bytes of a dropped packet need not be written.
    fn join_packet_writes(&mut self, ends: &[PathEnd]) -> LaneState {
        use crate::abi::destination::{DROP, ENGINE_DROP, IN_PLACE};
        let at = offset_of!(FrameHeader, destination) as u32;
        let dropped = |end: &&PathEnd| {
            let told = end.state.frame.get(&at).and_then(|told| self.b.constant_of(*told));
            end.leave.is_none() && told.is_some_and(|told| [DROP, ENGINE_DROP].contains(&(told as u32 & !IN_PLACE)))
        };
        let kept: Vec<&PathEnd> = ends.iter().filter(|end| !dropped(end)).collect();
        let packet = |end: &PathEnd| LaneState { packet: end.state.packet.clone(), ..LaneState::default() };
        let Some(first) = kept.first() else { return LaneState::default() };
        let mut state = packet(first);
        for end in &kept[1..] {
            state.merge_from(&mut self.b, end.mask, &packet(end), self.packets, &mut |_, _| None);
        }
        state
    }

    /// Writes the verdicts of packets that finish here: destination, and the reasons of those that
    /// are dropped or punted. `index` is the packet's index in the chunk.
    fn emit_verdicts(&mut self, ends: &[PathEnd], index: OpId) {
        let finished: Vec<&PathEnd> = ends.iter().filter(|end| end.leave.is_none()).collect();
        let Some(first) = finished.first() else { return };
        let mask = self.b.mask_union(&finished.iter().map(|end| end.mask).collect::<Vec<_>>());
        let lists = [
            (offset_of!(FrameHeader, destination), self.layout.verdicts),
            (offset_of!(FrameHeader, drop_reason), self.layout.drop_reasons),
            (offset_of!(FrameHeader, cpu_reason), self.layout.cpu_reasons),
        ];
        let mut destination = None;
        for (offset, list) in lists {
            let zero = self.b.constant(0);
            let word_at_end = |end: &PathEnd| end.state.frame.get(&(offset as u32)).copied();
            if finished.iter().all(|end| word_at_end(end).is_none()) {
                continue;
            }
            let value = finished[1..].iter().fold(word_at_end(first).unwrap_or(zero), |value, end| {
                let other = word_at_end(end).unwrap_or(zero);
                self.b.blend(end.mask, other, value)
            });
            let lanes = match destination {
                None => mask,
                // Most packets go to a port, which needs no reason.
                Some(destination) => self.lanes_needing_reason(destination, mask),
            };
            destination = destination.or(Some(value));
            self.b.add_effect(VectorOp::Scatter { list, index, mask: lanes, value });
        }
    }

    /// Returns the lanes that may need a reason: all except those to a port other than the CPU's.
    fn lanes_needing_reason(&mut self, destination: OpId, mask: OpId) -> OpId {
        use crate::abi::destination::{IN_PLACE, PORT};
        use crate::lanes::ir::LaneCompare;
        let (low, plain) = (self.b.constant(u64::from(u32::MAX)), self.b.constant(u64::from(PORT | IN_PLACE)));
        let (kind, port) = (self.b.and(destination, low), self.b.shr(destination, 32));
        let cpu = self.b.constant(u64::from(self.c.cpu_port));
        let other = self.b.compare(LaneCompare::NotEqual, kind, plain);
        let cpu = self.b.compare(LaneCompare::Equal, port, cpu);
        let either = self.b.mask_or(other, cpu);
        self.b.mask_and(mask, either)
    }

    /// Appends lanes to the queue of a stage: the index of their packet, the values that they
    /// carry, and the keys of the lookup and of the paired lookup.
    fn emit_stage_exit(&mut self, end: &PathEnd, index: OpId) {
        let Some((stage, keys, paired_keys)) = end.leave.clone() else { return };
        let layout = self.layout;
        let Some(queue) = &layout.stages[stage] else { return };
        let mut columns: Vec<(i32, OpId)> = queue.index.map(|list| (list, index)).into_iter().collect();
        for carried in &queue.columns {
            let value = end
                .state
                .frame
                .get(&carried.frame_offset)
                .copied()
                .or_else(|| carried_word(&mut self.b, self.place, carried.frame_offset));
            // A value that is computed on no path here is used on no path there.
            let value = value.unwrap_or_else(|| self.b.constant(0));
            columns.push((carried.list, value));
        }
        let mut lists = vec![(queue.keys.0, keys)];
        if !paired_keys.is_empty() {
            lists.push((queue.paired_keys.0, paired_keys));
        }
        self.b.add_effect(VectorOp::Append { count: queue.count, mask: end.mask, columns, keys: lists });
    }

    /// Writes the changed bytes of packets, in lines of `LINE` bytes. `complete` are the lanes that
    /// complete; packets of other lanes stay unchanged, because they start again in scalar code.
    fn emit_packet_writes(&mut self, state: &LaneState, complete: OpId) {
        use crate::lanes::state::LINE;
        let words = LINE / 8;
        let lines: BTreeSet<u32> = state.packet.keys().map(|word| word / words).collect();
        if lines.is_empty() {
            return;
        }
        // Unused lanes point to dummy memory.
        let mut pointers = self.b.add_pure(VectorOp::Column(self.packets.pointers));
        if complete != self.b.active_lanes() {
            let dummy = self.b.add_pure(VectorOp::ContextWord(self.layout.dummy_memory));
            pointers = self.b.blend(complete, pointers, dummy);
        }
        for line in lines {
            let mut bytes = 0u64;
            let zero = self.b.constant(0);
            let mut line_words = vec![zero; words as usize];
            for word in 0..words {
                let packet_word = line * words + word;
                let Some(written) = state.packet.get(&packet_word) else { continue };
                // Unchanged bytes may be written too if they are known, because whole words are
                // faster than some of their bytes.
                let known_bytes = (self.packets.bytes - 8 * packet_word).min(8);
                bytes |= (u64::from(written.bytes) | low_bits(known_bytes)) << (word * 8);
                line_words[word as usize] = self.packets.current_word(&mut self.b, state, packet_word);
            }
            self.b.add_effect(VectorOp::Write { pointers, offset: (line * LINE) as i32, bytes, words: line_words });
        }
    }

    fn emit_deferred_effect(&mut self, later: DeferredEffect, through: OpId) {
        match later {
            DeferredEffect::Tally { cell, mask, value } => {
                let mask = self.b.mask_and(mask, through);
                if !self.b.is_empty_mask(mask) {
                    let at = self.layout.stats + (cell * crate::abi::CACHE_LINE_BYTES) as i32;
                    self.b.add_effect(VectorOp::Accumulate { at, mask, value });
                }
            }
            DeferredEffect::Count { mask, counter, bytes } => {
                let mask = self.b.mask_and(mask, through);
                let (count, list) = self.layout.pending;
                let keys = vec![(list, vec![counter, bytes])];
                self.b.add_effect(VectorOp::Append { count, mask, columns: Vec::new(), keys });
            }
        }
    }
}
