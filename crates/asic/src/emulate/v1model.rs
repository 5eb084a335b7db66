//! v1model on the chip: parser and ingress from the first pass on, then the traffic manager, then egress and deparser.

use super::arch::{Arch, Next};
use super::frame::Frame;
use interp::host::architecture::v1model::{DROP_PORT, MAX_PASSES, instance};
use ir::{ControlKind, VarId};
use packet::{EngineReason, Origin};
use tables::{CloneSession, Replica};

impl Arch<'_> {
    /// Runs a received packet and all that becomes of it.
    pub fn run_v1model(&mut self, mut frame: Box<Frame>, bytes: &[u8]) {
        frame.instance_type = instance::NORMAL;
        self.enter(&mut frame, bytes);
        self.queue.push_back((Next::Ingress, frame));
        while let Some((next, frame)) = self.queue.pop_front() {
            let origin = frame.origin;
            let result = match next {
                Next::Ingress => self.ingress(frame),
                Next::Egress(port) => self.egress(frame, port),
            };
            if let Err(reason) = result {
                self.drop(reason.into(), origin);
            }
        }
    }

    fn microseconds(&self) -> u64 {
        self.machine.host.now().saturating_sub(self.machine.program.config.start) / 1000
    }

    /// Standard metadata before the parser.
    fn arrive(&self, frame: &mut Frame) {
        let known = &self.machine.program.known;
        frame.set(known.ingress_port, u64::from(frame.port));
        frame.set(known.packet_length, frame.length as u64);
        frame.set(known.instance_type, u64::from(frame.instance_type));
        frame.set(known.ingress_global_timestamp, self.microseconds());
    }

    fn ingress(&mut self, mut frame: Box<Frame>) -> Result<(), EngineReason> {
        let program = self.machine.program;
        let known = &program.known;
        self.arrive(&mut frame);
        self.parse(&mut frame, ControlKind::Parser)?;
        frame.set(known.parser_error, u64::from(frame.parser_error));
        self.block(&mut frame, ControlKind::VerifyChecksum)?;
        frame.set(known.checksum_error, u64::from(frame.asked.checksum_error));
        frame.parsed_bytes = frame.header_bytes(&program.pipeline, &program.layout);
        self.block(&mut frame, ControlKind::Ingress)?;
        if let Some((session, vars)) = frame.asked.clone.take() {
            self.clone_ingress(&frame, session, &vars)?;
        }
        if let Some(vars) = frame.asked.resubmit.take() {
            return self.resubmit(&frame, &vars);
        }
        let group = frame.get(known.mcast_grp) as u32;
        if group != 0 {
            frame.instance_type = instance::REPLICATED;
            let copies = self.multicast(&frame, group);
            return if copies == 0 { Err(EngineReason::UnknownMulticastGroup) } else { Ok(()) };
        }
        // A program without the variable has no way to choose a port: that is port 0.
        let port = frame.get(known.egress_spec);
        if port == DROP_PORT {
            let reason = self.program_drop(&frame);
            self.drop(reason, frame.origin);
            return Ok(());
        }
        frame.instance_type = instance::NORMAL;
        self.queue.push_back((Next::Egress(port as u32), frame));
        Ok(())
    }

    /// The packet as it came, parsed anew; of its metadata only the preserved ones stay.
    fn clone_ingress(&mut self, frame: &Frame, session: u32, vars: &[VarId]) -> Result<(), EngineReason> {
        let Some(session) = self.machine.host.clone_session(session).cloned() else { return Ok(()) };
        let origin = Origin::Clone { session: session.id };
        let Some(mut copy) = self.copy(origin) else { return Ok(()) };
        let program = self.machine.program;
        let bytes = self.original(frame)?;
        inherit(&mut copy, frame, instance::INGRESS_CLONE);
        copy.origin = origin;
        self.enter(&mut copy, &bytes);
        self.arrive(&mut copy);
        if let Err(reason) = self.parse(&mut copy, ControlKind::Parser) {
            self.drop(reason.into(), origin);
            return Ok(());
        }
        copy.parsed_bytes = copy.header_bytes(&program.pipeline, &program.layout);
        self.reset(&mut copy);
        self.preserve(&mut copy, vars, frame);
        self.send_clone(&copy, &session);
        Ok(())
    }

    /// As bmv2: all metadata are forgotten.
    fn reset(&self, copy: &mut Frame) {
        let program = self.machine.program;
        for var in &program.metadata {
            copy.slots[program.layout.var(*var).range()].fill(0);
        }
        copy.set(program.known.ingress_port, u64::from(copy.port));
    }

    /// The packet as it is at the end of egress.
    fn clone_egress(&mut self, frame: &Frame, session: u32, vars: &[VarId]) {
        let Some(session) = self.machine.host.clone_session(session).cloned() else { return };
        let origin = Origin::Clone { session: session.id };
        let Some(mut copy) = self.copy(origin) else { return };
        copy_from(&mut copy, frame);
        if frame.rounds >= MAX_PASSES {
            return self.drop(EngineReason::RecirculationLimit.into(), origin);
        }
        inherit(&mut copy, frame, instance::EGRESS_CLONE);
        copy.origin = origin;
        copy.rounds += 1;
        // It comes out of the traffic manager once more.
        copy.pass = self.machine.program.boundary_pass - 1;
        self.reset(&mut copy);
        self.preserve(&mut copy, vars, frame);
        self.send_clone(&copy, &session);
    }

    fn send_clone(&mut self, copy: &Frame, session: &CloneSession) {
        let mut copy = Box::new(copy.clone());
        copy.cut = session.packet_length;
        if let Some(group) = session.multicast_group {
            self.multicast(&copy, group);
        }
        self.replicate(&copy, &session.replicas, |_| copy.origin);
    }

    /// Makes the copies of a group; how many there are.
    fn multicast(&mut self, frame: &Frame, group: u32) -> usize {
        let replicas = self.machine.host.multicast_group(group).map(|g| g.replicas.clone()).unwrap_or_default();
        let origin = |replica: &Replica| match frame.origin {
            clone @ Origin::Clone { .. } => clone,
            _ => Origin::Multicast { group, instance: u32::from(replica.instance) },
        };
        self.replicate(frame, &replicas, origin);
        replicas.len()
    }

    fn replicate(&mut self, frame: &Frame, replicas: &[Replica], origin: impl Fn(&Replica) -> Origin) {
        for replica in replicas {
            let origin = origin(replica);
            let Some(mut copy) = self.copy(origin) else { return };
            copy_from(&mut copy, frame);
            copy.origin = origin;
            copy.set(self.machine.program.known.egress_rid, u64::from(replica.instance));
            self.queue.push_back((Next::Egress(replica.port), copy));
        }
    }

    fn resubmit(&mut self, frame: &Frame, vars: &[VarId]) -> Result<(), EngineReason> {
        if frame.rounds >= MAX_PASSES {
            return Err(EngineReason::RecirculationLimit);
        }
        let bytes = self.original(frame)?;
        let mut again = self.frame();
        inherit(&mut again, frame, instance::RESUBMITTED);
        self.go_again(again, frame, &bytes, vars);
        Ok(())
    }

    fn egress(&mut self, mut frame: Box<Frame>, port: u32) -> Result<(), EngineReason> {
        let program = self.machine.program;
        let known = &program.known;
        self.cross_to(&mut frame, program.boundary_pass)?;
        frame.applied.fill(Default::default());
        frame.set(known.egress_port, u64::from(port));
        // bmv2 sets 512, which is 0 in its nine bits: something else than the drop port.
        frame.set(known.egress_spec, DROP_PORT + 1);
        frame.set(known.instance_type, u64::from(frame.instance_type));
        if known.packet_length.is_some() {
            let headers = frame.header_bytes(&program.pipeline, &program.layout);
            frame.set(known.packet_length, (frame.length + headers).saturating_sub(frame.parsed_bytes) as u64);
        }
        // There is no queue: a packet leaves it as soon as it enters.
        let now = self.microseconds();
        frame.set(known.enq_timestamp, now);
        frame.set(known.egress_global_timestamp, now);
        self.block(&mut frame, ControlKind::Egress)?;
        if let Some((session, vars)) = frame.asked.clone.take() {
            self.clone_egress(&frame, session, &vars);
        }
        if frame.get(known.egress_spec) == DROP_PORT {
            let reason = self.program_drop(&frame);
            self.drop(reason, frame.origin);
            return Ok(());
        }
        self.block(&mut frame, ControlKind::ComputeChecksum)?;
        self.deparse(&mut frame, ControlKind::Deparser)?;
        if let Some(vars) = frame.asked.recirculate.take() {
            return self.recirculate(&frame, &vars);
        }
        self.send(&frame, port, program.config.cpu_port == Some(port));
        Ok(())
    }

    fn recirculate(&mut self, frame: &Frame, vars: &[VarId]) -> Result<(), EngineReason> {
        if frame.rounds >= MAX_PASSES {
            return Err(EngineReason::RecirculationLimit);
        }
        let mut bytes = Self::deparsed(frame);
        bytes.truncate(frame.asked.truncate.map_or(usize::MAX, |length| length as usize));
        let mut again = self.frame();
        inherit(&mut again, frame, instance::RECIRCULATED);
        again.ingress_length = bytes.len() as u32;
        self.go_again(again, frame, &bytes, vars);
        Ok(())
    }

    /// A packet begins once more, with these bytes and what it preserves.
    fn go_again(&mut self, mut again: Box<Frame>, frame: &Frame, bytes: &[u8], vars: &[VarId]) {
        again.origin = frame.origin;
        again.cut = frame.cut;
        again.rounds += 1;
        self.enter(&mut again, bytes);
        self.preserve(&mut again, vars, frame);
        self.queue.push_back((Next::Ingress, again));
    }
}

fn inherit(copy: &mut Frame, frame: &Frame, instance_type: u32) {
    copy.port = frame.port;
    copy.ingress_length = frame.ingress_length;
    copy.rounds = frame.rounds;
    copy.instance_type = instance_type;
    copy.cut = 0;
}

/// Becomes a copy of another packet; what it asked for is not copied, but for its being cut.
fn copy_from(copy: &mut Frame, frame: &Frame) {
    let truncate = frame.asked.truncate;
    let checksum_error = frame.asked.checksum_error;
    *copy = frame.clone();
    copy.asked = super::frame::Requests { truncate, checksum_error, ..Default::default() };
    copy.too_long = false;
    copy.applied.fill(Default::default());
}
