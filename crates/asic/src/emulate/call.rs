//! Calls of externs.

use super::counts::Violation;
use super::frame::{Destination, Frame};
use super::machine::{Machine, Outcome, Run};
use interp::Colour;
use interp::host::architecture::v1model::DROP_PORT;
use interp::host::{Effect, PacketContext, Site};
use ir::{Arg, Block, Entity, Inst, InstData};
use packet::EngineReason;

impl Machine<'_> {
    /// Makes a call and does what it asks for.
    pub(super) fn call(
        &mut self,
        frame: &mut Frame,
        run: &Run<'_>,
        at: (Block, usize),
        data: &InstData,
    ) -> Result<(), Outcome> {
        let program = self.program;
        let site = program.sites[run.control.index()][at.0.index()].get(at.1).and_then(Option::as_ref);
        let site = site.ok_or(Outcome::Abort(EngineReason::EngineFault))?;
        let mut args = std::mem::take(&mut self.args);
        let mut results = std::mem::take(&mut self.results);
        args.clear();
        args.resize(site.arg_words, 0);
        results.clear();
        results.resize(site.result_words, 0);
        fill(frame, run, data, site, &mut args);
        let applied = site.table.map(|table| frame.applied[table.index()]).unwrap_or_default();
        if let (Some(table), true) = (site.table, applied.pass != 0 && applied.pass != frame.pass + 1) {
            return Err(self.violated(Violation::State { table, packet: frame.pass }));
        }
        let payload = if site.payload { frame.payload() } else { &[] };
        let context = PacketContext {
            now: self.now,
            ingress_length: frame.ingress_length,
            payload,
            lane: 0,
            hit: applied.hit,
            colour: applied.colour.unwrap_or(Colour::Green),
        };
        let effect = self.host.call(site.id, &context, &args, &mut results);
        if effect == Effect::AddEntry {
            let added = self.add_entry(frame, site, &context_of(frame, self.now, applied.hit), &args);
            if let Some(word) = results.first_mut() {
                *word = u64::from(added);
            }
        }
        let mut clock = run.made;
        data.inst.for_each_use(|value| clock = clock.max(frame.clocks[run.reg(value).clock as usize]));
        for (result, place) in data.results.iter().zip(&site.results) {
            let reg = run.reg(*result);
            frame.words_mut(reg).copy_from_slice(&results[place.word..place.word + place.words]);
            frame.clocks[reg.clock as usize] = clock;
        }
        (self.args, self.results) = (args, results);
        self.carry_out(frame, effect, site, run.made)
    }

    fn carry_out(&mut self, frame: &mut Frame, effect: Effect, site: &Site, made: u16) -> Result<(), Outcome> {
        let known = &self.program.known;
        let asked = &mut frame.asked;
        match effect {
            Effect::None | Effect::AddEntry => {}
            Effect::ChecksumError => asked.checksum_error = true,
            Effect::AssertFailed => {
                asked.assert_failed = true;
                return Err(Outcome::Abort(EngineReason::AssertFailed));
            }
            Effect::Truncate(length) => asked.truncate = Some(length),
            Effect::MarkToDrop => {
                frame.set(known.egress_spec, DROP_PORT);
                frame.set(known.mcast_grp, 0);
                for reg in [known.egress_spec, known.mcast_grp].into_iter().flatten() {
                    frame.clocks[reg.clock as usize] = made;
                }
            }
            Effect::Clone { session } => asked.clone = Some((session, site.preserved.clone())),
            Effect::Resubmit => asked.resubmit = Some(site.preserved.clone()),
            Effect::Recirculate => asked.recirculate = Some(site.preserved.clone()),
            Effect::Drop => asked.destination = Destination::Drop,
            Effect::SendToPort(port) => asked.destination = Destination::Port(port),
            Effect::Mirror { slot, session } => {
                if let Some(place) = asked.mirror.get_mut(slot) {
                    *place = Some(session);
                }
            }
            Effect::PnaRecirculate => asked.pna_recirculate = true,
        }
        Ok(())
    }

    /// PNA `add_entry`: whether there is such an entry now. A part that is full takes none.
    fn add_entry(&mut self, frame: &Frame, site: &Site, context: &PacketContext<'_>, args: &[u64]) -> bool {
        let Some(table) = site.table else { return false };
        if !self.store.has_room(table) {
            return false;
        }
        let key = frame.missed.get(&table).cloned().unwrap_or_default();
        let entry = self.host.add_entry(site.id, context, args, &key, &mut self.store.state);
        entry.is_some_and(|entry| self.store.added(self.host, table, &entry))
    }
}

fn context_of(frame: &Frame, now: u64, hit: Option<u32>) -> PacketContext<'static> {
    PacketContext { now, ingress_length: frame.ingress_length, hit, ..PacketContext::default() }
}

/// Puts the arguments where the site expects them.
fn fill(frame: &Frame, run: &Run<'_>, data: &InstData, site: &Site, area: &mut [u64]) {
    let Inst::Extern { func, args, .. } = &data.inst else { return };
    debug_assert_eq!(*func, site.func);
    for (arg, places) in args.iter().zip(&site.args) {
        let values = match arg {
            Arg::Value(value) => std::slice::from_ref(value),
            Arg::Values(values) => values.as_slice(),
            _ => continue,
        };
        for (value, place) in values.iter().zip(places) {
            area[place.word..place.word + place.words].copy_from_slice(frame.words(run.reg(*value)));
        }
    }
}
