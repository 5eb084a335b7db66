//! v1model as bmv2's `simple_switch` runs it (its `simple_switch.md` has the order of what happens at the end of ingress and
//! egress; the comments of `programs/include/v1model.p4` say it for users).
//!
//! A packet that the parser rejects goes on to ingress, with the headers extracted so far and `parser_error` set.

use crate::frame::Frame;
use crate::overseer::{Boundary, Overseer};
use crate::pass::{Pass, Stage};
use entries::{CloneSession, Replica};
use ir::ControlKind;
use packet::{EngineReason, Origin};

/// `egress_spec` of a packet that is dropped.
pub const DROP_PORT: u64 = 511;
/// How often a packet may be resubmitted, recirculated and cloned in all.
pub const MAX_PASSES: u32 = 32;

/// Values of `standard_metadata.instance_type`.
#[allow(missing_docs)] // the names are those of bmv2
pub mod instance {
    pub const NORMAL: u32 = 0;
    pub const INGRESS_CLONE: u32 = 1;
    pub const EGRESS_CLONE: u32 = 2;
    pub const RECIRCULATED: u32 = 4;
    pub const REPLICATED: u32 = 5;
    pub const RESUBMITTED: u32 = 6;
}

impl<O: Overseer> Pass<'_, O> {
    /// Runs a received packet and all that becomes of it.
    pub fn run_v1model(&mut self, mut frame: Box<Frame>) {
        frame.instance_type = instance::NORMAL;
        self.begin(&mut frame);
        self.note_packet(&frame, "received", Some(frame.port));
        self.queue.push_back((Stage::Ingress, frame));
        while let Some((stage, frame)) = self.queue.pop_front() {
            let origin = frame.origin;
            let result = match stage {
                Stage::Ingress => self.ingress(frame),
                Stage::Egress(port) => self.egress(frame, port),
            };
            if let Err(reason) = result {
                self.drop(reason.into(), origin);
            }
        }
    }

    fn microseconds(&self) -> u64 {
        self.machine.memory.now.saturating_sub(self.config.start) / 1000
    }

    /// Standard metadata before the parser.
    fn arrive(&self, frame: &mut Frame) {
        let known = &self.machine.program.well_known;
        frame.set(known.ingress_port, u64::from(frame.port));
        frame.set(known.packet_length, frame.len as u64);
        frame.set(known.instance_type, u64::from(frame.instance_type));
        frame.set(known.ingress_global_timestamp, self.microseconds());
    }

    fn ingress(&mut self, mut frame: Box<Frame>) -> Result<(), EngineReason> {
        let known = self.machine.program.well_known;
        self.arrive(&mut frame);
        self.parse(&mut frame, ControlKind::Parser)?;
        frame.set(known.parser_error, u64::from(frame.parser_error));
        self.block(&mut frame, ControlKind::VerifyChecksum)?;
        frame.set(known.checksum_error, u64::from(frame.checksum_error));
        frame.parsed_bytes = frame.header_bytes(self.machine.program);
        self.block(&mut frame, ControlKind::Ingress)?;
        if std::mem::take(&mut frame.clone.wanted) {
            self.clone_ingress(&frame)?;
        }
        if std::mem::take(&mut frame.resubmit.wanted) {
            return self.resubmit(frame);
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
            self.pool.push(frame);
            return Ok(());
        }
        frame.instance_type = instance::NORMAL;
        self.queue.push_back((Stage::Egress(port as u32), frame));
        Ok(())
    }

    /// The packet as it came, parsed anew; of its metadata only the preserved ones stay.
    fn clone_ingress(&mut self, frame: &Frame) -> Result<(), EngineReason> {
        let Some(session) = self.session(frame.clone.session) else { return Ok(()) };
        let origin = Origin::Clone { session: session.id };
        let Some(mut copy) = self.copy(origin) else { return Ok(()) };
        let program = self.machine.program;
        self.machine.overseer.original(frame)?;
        copy.set_data(&frame.data[..frame.len]);
        self.inherit(&mut copy, frame, instance::INGRESS_CLONE);
        copy.origin = origin;
        self.begin(&mut copy);
        self.arrive(&mut copy);
        self.note_packet(&copy, "clone of the packet as it came in", Some(copy.port));
        if let Err(reason) = self.parse(&mut copy, ControlKind::Parser) {
            self.drop(reason.into(), origin);
            return Ok(());
        }
        copy.parsed_bytes = copy.header_bytes(program);
        // As bmv2: what the parser wrote to metadata is forgotten, too.
        copy.reset_metadata(program);
        copy.set(program.well_known.ingress_port, u64::from(copy.port));
        copy.preserve(program, &self.preserved(frame.clone.site), &frame.slots);
        self.send_clone(copy, &session);
        Ok(())
    }

    /// The packet as it is at the end of egress.
    fn clone_egress(&mut self, frame: &Frame) -> Result<(), EngineReason> {
        let Some(session) = self.session(frame.clone.session) else { return Ok(()) };
        let origin = Origin::Clone { session: session.id };
        let Some(mut copy) = self.copy(origin) else { return Ok(()) };
        let program = self.machine.program;
        copy.copy_from(program, frame);
        if frame.passes >= MAX_PASSES {
            self.drop(EngineReason::RecirculationLimit.into(), origin);
            return Ok(());
        }
        self.inherit(&mut copy, frame, instance::EGRESS_CLONE);
        copy.origin = origin;
        copy.passes += 1;
        copy.reset_metadata(program);
        copy.set(program.well_known.ingress_port, u64::from(copy.port));
        copy.preserve(program, &self.preserved(frame.clone.site), &frame.slots);
        self.send_clone(copy, &session);
        Ok(())
    }

    fn session(&mut self, id: u32) -> Option<CloneSession> {
        let session = self.machine.memory.clone_session(id).cloned();
        self.machine.note_architecture(|| match &session {
            Some(_) => format!("clone to session {id}"),
            None => format!("no clone: there is no session {id}"),
        });
        session
    }

    fn inherit(&self, copy: &mut Frame, frame: &Frame, instance_type: u32) {
        copy.port = frame.port;
        copy.ingress_length = frame.ingress_length;
        copy.passes = frame.passes;
        copy.instance_type = instance_type;
        copy.cut = 0;
    }

    fn send_clone(&mut self, mut copy: Box<Frame>, session: &CloneSession) {
        copy.cut = session.packet_length;
        if let Some(group) = session.multicast_group {
            self.multicast(&copy, group);
        }
        self.replicate(&copy, &session.replicas, |_| copy.origin);
        self.pool.push(copy);
    }

    /// Makes the copies of a group; how many there are.
    fn multicast(&mut self, frame: &Frame, group: u32) -> usize {
        let replicas = self.machine.memory.multicast_group(group).map(|g| g.replicas.clone()).unwrap_or_default();
        self.machine.note_architecture(|| match replicas.len() {
            0 => format!("multicast group {group} has no members"),
            count => format!("multicast group {group}: {count} copies"),
        });
        let origin = |replica: &Replica| match frame.origin {
            clone @ Origin::Clone { .. } => clone,
            _ => Origin::Multicast { group, instance: u32::from(replica.instance) },
        };
        self.replicate(frame, &replicas, origin);
        replicas.len()
    }

    fn replicate(&mut self, frame: &Frame, replicas: &[Replica], origin: impl Fn(&Replica) -> Origin) {
        let rid = self.machine.program.well_known.egress_rid;
        for replica in replicas {
            let origin = origin(replica);
            let Some(mut copy) = self.copy(origin) else { return };
            copy.copy_from(self.machine.program, frame);
            copy.origin = origin;
            copy.set(rid, u64::from(replica.instance));
            self.queue.push_back((Stage::Egress(replica.port), copy));
        }
    }

    fn resubmit(&mut self, frame: Box<Frame>) -> Result<(), EngineReason> {
        if frame.passes >= MAX_PASSES {
            return Err(EngineReason::RecirculationLimit);
        }
        let program = self.machine.program;
        self.machine.overseer.original(&frame)?;
        let mut again = self.frame();
        again.set_data(&frame.data[..frame.len]);
        self.inherit(&mut again, &frame, instance::RESUBMITTED);
        again.origin = frame.origin;
        again.cut = frame.cut;
        again.passes += 1;
        self.begin(&mut again);
        again.preserve(program, &self.preserved(frame.resubmit.site), &frame.slots);
        self.note_packet(&again, "resubmitted", Some(again.port));
        self.queue.push_back((Stage::Ingress, again));
        self.pool.push(frame);
        Ok(())
    }

    fn egress(&mut self, mut frame: Box<Frame>, port: u32) -> Result<(), EngineReason> {
        let known = self.machine.program.well_known;
        self.machine.note_architecture(|| format!("to egress for port {port}"));
        self.machine.overseer.cross(&mut frame, Boundary::Egress);
        frame.hits.fill(0);
        frame.set(known.egress_port, u64::from(port));
        // bmv2 sets 512, which is 0 in its nine bits: something else than the drop port.
        frame.set(known.egress_spec, DROP_PORT + 1);
        frame.set(known.instance_type, u64::from(frame.instance_type));
        if known.packet_length.is_some() {
            let length = (frame.len + frame.header_bytes(self.machine.program)).saturating_sub(frame.parsed_bytes);
            frame.set(known.packet_length, length as u64);
        }
        // There is no queue: a packet leaves it as soon as it enters.
        let now = self.microseconds();
        frame.set(known.enq_timestamp, now);
        frame.set(known.egress_global_timestamp, now);
        self.block(&mut frame, ControlKind::Egress)?;
        if std::mem::take(&mut frame.clone.wanted) {
            self.clone_egress(&frame)?;
        }
        if frame.get(known.egress_spec) == DROP_PORT {
            let reason = self.program_drop(&frame);
            self.drop(reason, frame.origin);
            self.pool.push(frame);
            return Ok(());
        }
        self.block(&mut frame, ControlKind::ComputeChecksum)?;
        self.deparse(&mut frame, ControlKind::Deparser)?;
        if std::mem::take(&mut frame.recirculate.wanted) {
            return self.recirculate(frame);
        }
        self.send(&frame, port, self.config.cpu_port == Some(port));
        self.pool.push(frame);
        Ok(())
    }

    fn recirculate(&mut self, frame: Box<Frame>) -> Result<(), EngineReason> {
        if frame.passes >= MAX_PASSES {
            return Err(EngineReason::RecirculationLimit);
        }
        let program = self.machine.program;
        let mut again = self.frame();
        let mut bytes = frame.out.bytes().to_vec();
        bytes.extend_from_slice(frame.payload());
        bytes.truncate(frame.truncate.map_or(usize::MAX, |length| length as usize));
        again.set_data(&bytes);
        self.inherit(&mut again, &frame, instance::RECIRCULATED);
        again.ingress_length = bytes.len() as u32;
        again.origin = frame.origin;
        again.cut = frame.cut;
        again.passes += 1;
        self.begin(&mut again);
        again.preserve(program, &self.preserved(frame.recirculate.site), &frame.slots);
        self.note_packet(&again, "recirculated", Some(again.port));
        self.queue.push_back((Stage::Ingress, again));
        self.pool.push(frame);
        Ok(())
    }
}
