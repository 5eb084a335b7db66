//! Table applications and what happens at a hit.

use crate::algorithm;
use crate::frame::Frame;
use crate::lookup::Target;
use crate::machine::Machine;
use crate::meter::Colour;
use crate::overseer::{Found, Overseer};
use crate::program::{ApplySite, Outcome, Pc, Reg};
use crate::words::mask64;
use ir::{ExternKind, HashAlgorithm, Loc, Pipeline, TableId};
use packet::EngineReason;

impl<O: Overseer> Machine<'_, O> {
    /// Looks up, notes the hit, and moves the action's data to where its body expects them. A miss is green to a direct meter.
    /// Where the program goes on.
    pub(crate) fn apply(
        &mut self,
        frame: &mut Frame,
        at: (usize, Pc),
        site: &ApplySite,
        loc: Loc,
    ) -> Result<Pc, Outcome> {
        let found = self.overseer.find(site, frame).map_err(Outcome::Abort)?;
        if found != Found::Later && !self.burn() {
            return Err(Outcome::Abort(EngineReason::StepLimit));
        }
        let table = &mut self.memory.tables[site.table];
        let slot = match found {
            Found::Lookup => self.memory.lookup(site.table, &frame.slots, &site.keys),
            Found::Entry(sequence) => table.look_up_known(&frame.slots, &site.keys, sequence),
            Found::Later => return self.overseer.after_apply(at, None, frame),
        };
        let arm = self.apply_found(frame, site, slot, loc);
        self.overseer.after_apply(at, Some(arm), frame)
    }

    /// What follows on a hit of the entry of that number, or on a miss: the action's position, and where it is.
    pub(crate) fn apply_found(
        &mut self,
        frame: &mut Frame,
        site: &ApplySite,
        slot: Option<u32>,
        loc: Loc,
    ) -> (u32, Pc) {
        let target = match slot {
            Some(slot) => self.memory.tables[site.table].slots[slot as usize].target,
            None => self.memory.tables[site.table].default,
        };
        let (slot, arm, member) = match target {
            Target::Arm(arm) => (slot, arm, None),
            indirect => self.resolve_member(frame, site, slot, indirect),
        };
        frame.hits[site.table] = slot.map_or(0, |slot| slot + 1);
        match slot {
            Some(slot) => self.hit(frame, site.table, slot),
            None => frame.colours[site.table] = Colour::Green as u8,
        }
        if let Some(applied) = self.memory.tables[site.table].applied.get_mut(arm as usize) {
            let counter = &mut applied[usize::from(slot.is_some())];
            counter.packets = counter.packets.wrapping_add(1);
            counter.bytes = counter.bytes.wrapping_add(u64::from(frame.ingress_length));
        }
        let place = site.arms[arm as usize];
        let memory = &*self.memory;
        let args = match (member, slot) {
            (Some(member), _) => memory.member_args(self.pipeline, site.table, member),
            (None, Some(slot)) => memory.tables[site.table].args(slot),
            (None, None) => &memory.tables[site.table].default_args,
        };
        // The stride is that of the table's widest action: what is beyond this action's own are other values' places.
        let words = self.program.arm_words[site.table][arm as usize] as usize;
        let args = &args[..words.min(args.len())];
        frame.slots[place.hit as usize] = u64::from(slot.is_some());
        let to = place.params as usize;
        frame.slots[to..to + args.len()].copy_from_slice(args);
        if O::TRACES {
            let args = args.to_vec();
            self.note_table(frame, site, slot, target, arm, &args, loc);
        }
        (arm, place.pc)
    }

    /// The member that a hit leads to: the action's position and the member's number. A group without members, or a
    /// member that is gone, counts as a miss.
    fn resolve_member(
        &self,
        frame: &mut Frame,
        site: &ApplySite,
        slot: Option<u32>,
        target: Target,
    ) -> (Option<u32>, u32, Option<u32>) {
        let table = &self.memory.tables[site.table];
        if !self.memory.has_profile(self.pipeline, site.table) {
            return (None, 0, None);
        }
        let member = match target {
            Target::Member(member) => Some(member),
            Target::Group(group) => {
                self.memory.pick(self.pipeline, site.table, group, || self.selector_hash(frame, site))
            }
            Target::Arm(_) => None,
        };
        let action =
            member.and_then(|member| Some((member, self.memory.member_action(self.pipeline, site.table, member)?)));
        let Some((member, action)) = action else {
            return match table.default {
                Target::Arm(arm) => (None, arm, None),
                _ => (None, 0, None),
            };
        };
        match table.target(action.packed()).0 {
            Target::Arm(arm) => (slot, arm, Some(member)),
            _ => (None, 0, None),
        }
    }

    /// bmv2's choice: the hash of the selector keys in their order, packed without gaps, cut to the selector's output width.
    fn selector_hash(&self, frame: &Frame, site: &ApplySite) -> u64 {
        let Some((algorithm, output_width)) = selector(self.pipeline, site.table) else { return 0 };
        let keys: Vec<Reg> = self.memory.tables[site.table].selector.iter().map(|key| site.keys[*key]).collect();
        let mut bits = crate::wire::BitBuffer::default();
        frame.push_data(&keys, &mut bits);
        algorithm::hash(algorithm, bits.bytes()) & mask64(output_width)
    }

    /// Notes a hit; v1model: the colour of the direct meter goes to the frame, and to the variable that the program gave it.
    fn hit(&mut self, frame: &mut Frame, table: usize, slot: u32) {
        let Some(colour) = self.memory.hit(self.pipeline, table, slot, frame.ingress_length) else { return };
        frame.colours[table] = colour as u8;
        let declared = self.pipeline.tables.get(TableId(table as u32));
        if let Some(var) = declared.and_then(|t| t.meter_result) {
            let reg = self.program.var_regs[var.0 as usize];
            frame.set(Some(reg), colour as u64);
        }
    }
}

/// Algorithm and output width in bits of the action selector that a table uses.
pub(crate) fn selector(pipeline: &Pipeline, table: usize) -> Option<(HashAlgorithm, u32)> {
    let profile = pipeline.tables.get(TableId(table as u32)).and_then(|t| t.implementation)?;
    match pipeline.externs.get(profile)?.kind {
        ExternKind::ActionSelector { algorithm, output_width, .. } => Some((algorithm, output_width)),
        _ => None,
    }
}
