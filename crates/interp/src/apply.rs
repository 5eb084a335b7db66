//! Table applications and the effects of a hit.

use crate::algorithm;
use crate::exec_context::ExecContext;
use crate::frame::Frame;
use crate::lookup::HitTarget;
use crate::meter::MeterColor;
use crate::overseer::{LookupSource, Overseer};
use crate::program::{ApplySite, BlockExit, InstIndex, Reg};
use crate::wide_int::mask64;
use ir::{ExternKind, HashAlgorithm, Pipeline, SourceLoc, TableId};
use packet::EngineReason;

impl<O: Overseer> ExecContext<'_, O> {
    /// Looks up, records the hit, and moves the action data to the registers of the action's body.
    /// Returns the next instruction.
    ///
    /// A miss sets the color of a direct meter to green.
    pub(crate) fn apply(
        &mut self,
        frame: &mut Frame,
        at: (usize, InstIndex),
        site: &ApplySite,
        loc: SourceLoc,
    ) -> Result<InstIndex, BlockExit> {
        let found = self.overseer.lookup_source(site, frame).map_err(BlockExit::Abort)?;
        if found != LookupSource::Later && !self.consume_fuel() {
            return Err(BlockExit::Abort(EngineReason::InstructionLimit));
        }
        let table = &mut self.memory.tables[site.table];
        let slot = match found {
            LookupSource::Lookup => self.memory.lookup(site.table, &frame.reg_words, &site.keys),
            LookupSource::Entry(sequence) => table.record_known_hit(&frame.reg_words, &site.keys, sequence),
            LookupSource::Later => return self.overseer.after_apply(at, None, frame),
        };
        let arm = self.apply_lookup_result(frame, site, slot, loc);
        self.overseer.after_apply(at, Some(arm), frame)
    }

    /// Applies the effects of a hit on the entry in `slot`, or of a miss. Returns the action's
    /// position in the table's list and its first instruction.
    pub(crate) fn apply_lookup_result(
        &mut self,
        frame: &mut Frame,
        site: &ApplySite,
        slot: Option<u32>,
        loc: SourceLoc,
    ) -> (u32, InstIndex) {
        let target = match slot {
            Some(slot) => self.memory.tables[site.table].slots[slot as usize].target,
            None => self.memory.tables[site.table].default,
        };
        let (slot, arm, member) = match target {
            HitTarget::Arm(arm) => (slot, arm, None),
            indirect => self.resolve_member(frame, site, slot, indirect),
        };
        frame.hit_slots[site.table] = slot.map_or(0, |slot| slot + 1);
        match slot {
            Some(slot) => self.record_hit(frame, site.table, slot),
            None => frame.meter_colors[site.table] = MeterColor::Green as u8,
        }
        if let Some(applied) = self.memory.tables[site.table].action_counters.get_mut(arm as usize) {
            let counter = &mut applied[usize::from(slot.is_some())];
            counter.packets = counter.packets.wrapping_add(1);
            counter.bytes = counter.bytes.wrapping_add(u64::from(frame.ingress_len_bytes));
        }
        let place = site.arms[arm as usize];
        let memory = &*self.memory;
        let args = match (member, slot) {
            (Some(member), _) => memory.member_args(self.pipeline, site.table, member),
            (None, Some(slot)) => memory.tables[site.table].args(slot),
            (None, None) => &memory.tables[site.table].default_args,
        };
        // Arguments are stored with the stride of the table's widest action. Words beyond this
        // action's own would overwrite other values.
        let words = self.program.arm_words[site.table][arm as usize] as usize;
        let args = &args[..words.min(args.len())];
        frame.reg_words[place.hit as usize] = u64::from(slot.is_some());
        let to = place.params as usize;
        frame.reg_words[to..to + args.len()].copy_from_slice(args);
        if O::TRACES {
            let args = args.to_vec();
            self.record_table_event(frame, site, slot, target, arm, &args, loc);
        }
        (arm, place.pc)
    }

    /// Resolves a member or group: the slot, the action's position and the member's id. An empty
    /// group or a deleted member counts as a miss.
    fn resolve_member(
        &self,
        frame: &mut Frame,
        site: &ApplySite,
        slot: Option<u32>,
        target: HitTarget,
    ) -> (Option<u32>, u32, Option<u32>) {
        let table = &self.memory.tables[site.table];
        if !self.memory.has_profile(self.pipeline, site.table) {
            return (None, 0, None);
        }
        let member = match target {
            HitTarget::Member(member) => Some(member),
            HitTarget::Group(group) => {
                self.memory.select_member(self.pipeline, site.table, group, || self.selector_hash(frame, site))
            }
            HitTarget::Arm(_) => None,
        };
        let action =
            member.and_then(|member| Some((member, self.memory.member_action(self.pipeline, site.table, member)?)));
        let Some((member, action)) = action else {
            return match table.default {
                HitTarget::Arm(arm) => (None, arm, None),
                _ => (None, 0, None),
            };
        };
        match table.target(action.packed()).0 {
            HitTarget::Arm(arm) => (slot, arm, Some(member)),
            _ => (None, 0, None),
        }
    }

    /// Returns bmv2's selector hash: the hash of the selector keys in their order, packed without
    /// gaps and truncated to the selector's output width.
    fn selector_hash(&self, frame: &Frame, site: &ApplySite) -> u64 {
        let Some((algorithm, output_width)) = selector(self.pipeline, site.table) else { return 0 };
        let keys: Vec<Reg> = self.memory.tables[site.table].selector.iter().map(|key| site.keys[*key]).collect();
        let mut bits = crate::bit_io::BitBuffer::default();
        frame.push_data(&keys, &mut bits);
        algorithm::hash(algorithm, bits.bytes()) & mask64(output_width)
    }

    /// Records a hit. v1model: stores the color of the direct meter in the frame and in the
    /// variable that the program attached to the meter.
    fn record_hit(&mut self, frame: &mut Frame, table: usize, slot: u32) {
        let Some(colour) = self.memory.apply_hit(self.pipeline, table, slot, frame.ingress_len_bytes) else { return };
        frame.meter_colors[table] = colour as u8;
        let declared = self.pipeline.tables.get(TableId(table as u32));
        if let Some(var) = declared.and_then(|t| t.meter_result) {
            let reg = self.program.var_regs[var.0 as usize];
            frame.set(Some(reg), colour as u64);
        }
    }
}

/// Returns algorithm and output width in bits of the action selector of a table.
pub(crate) fn selector(pipeline: &Pipeline, table: usize) -> Option<(HashAlgorithm, u32)> {
    let profile = pipeline.tables.get(TableId(table as u32)).and_then(|t| t.implementation)?;
    match pipeline.externs.get(profile)?.kind {
        ExternKind::ActionSelector { algorithm, output_width, .. } => Some((algorithm, output_width)),
        _ => None,
    }
}
