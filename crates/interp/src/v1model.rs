//! v1model as bmv2's `simple_switch` implements it. Its `simple_switch.md` specifies the order of
//! operations at the end of ingress and egress; the comments of `programs/include/v1model.p4`
//! document it for users.
//!
//! After a reject in the parser the packet continues in ingress, with the headers extracted up to
//! the error and `parser_error` set.

use crate::frame::Frame;
use crate::overseer::{ArchTransition, Overseer};
use crate::packet_run::{PacketRun, ResumePoint};
use entries::{CloneSession, Replica};
use ir::ControlKind;
use packet::{EngineReason, PacketOrigin};

/// `egress_spec` of a packet that is dropped.
pub const DROP_PORT: u64 = 511;
/// Maximum number of resubmissions, recirculations and clones of a packet in total.
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

impl<O: Overseer> PacketRun<'_, O> {
    /// Runs a received packet with all its copies and passes.
    pub fn run_v1model(&mut self, mut frame: Box<Frame>) {
        frame.instance_type = instance::NORMAL;
        self.start_pass(&mut frame);
        self.record_pass_start(&frame, "received", Some(frame.port));
        self.queue.push_back((ResumePoint::Ingress, frame));
        while let Some((stage, frame)) = self.queue.pop_front() {
            let origin = frame.origin;
            let result = match stage {
                ResumePoint::Ingress => self.run_ingress(frame),
                ResumePoint::Egress(port) => self.run_egress(frame, port),
            };
            if let Err(reason) = result {
                self.drop_packet(reason.into(), origin);
            }
        }
    }

    fn microseconds(&self) -> u64 {
        self.machine.memory.now.saturating_sub(self.config.start_ns) / 1000
    }

    /// Sets the standard metadata that the parser reads.
    fn set_standard_metadata(&self, frame: &mut Frame) {
        let variables = &self.machine.program.well_known;
        frame.set(variables.ingress_port, u64::from(frame.port));
        frame.set(variables.packet_length, frame.len as u64);
        frame.set(variables.instance_type, u64::from(frame.instance_type));
        frame.set(variables.ingress_global_timestamp, self.microseconds());
    }

    /// Runs parser, checksum verification and ingress, then the requests of the program in bmv2's
    /// order: clone, resubmit, multicast, port. The packet or its copies go to the queue for
    /// egress.
    fn run_ingress(&mut self, mut frame: Box<Frame>) -> Result<(), EngineReason> {
        let variables = self.machine.program.well_known;
        self.set_standard_metadata(&mut frame);
        self.run_parser(&mut frame, ControlKind::Parser)?;
        frame.set(variables.parser_error, u64::from(frame.parser_error));
        self.run_block(&mut frame, ControlKind::VerifyChecksum)?;
        frame.set(variables.checksum_error, u64::from(frame.checksum_error));
        frame.parsed_bytes = frame.header_bytes(self.machine.program);
        self.run_block(&mut frame, ControlKind::Ingress)?;
        if std::mem::take(&mut frame.clone.is_requested) {
            self.clone_ingress(&frame)?;
        }
        if std::mem::take(&mut frame.resubmit.is_requested) {
            return self.requeue_resubmitted(frame);
        }
        let group = frame.get(variables.mcast_grp) as u32;
        if group != 0 {
            frame.instance_type = instance::REPLICATED;
            let copies = self.replicate_to_group(&frame, group);
            return if copies == 0 { Err(EngineReason::UnknownMulticastGroup) } else { Ok(()) };
        }
        // A program without the variable cannot choose a port; its packets go to port 0.
        let port = frame.get(variables.egress_spec);
        if port == DROP_PORT {
            let reason = self.program_drop_reason(&frame);
            self.drop_packet(reason, frame.origin);
            self.pool.push(frame);
            return Ok(());
        }
        frame.instance_type = instance::NORMAL;
        self.queue.push_back((ResumePoint::Egress(port as u32), frame));
        Ok(())
    }

    /// Clones the packet as received and parses it again. Only the preserved metadata are kept. The
    /// copy goes to the ports of the clone session.
    fn clone_ingress(&mut self, frame: &Frame) -> Result<(), EngineReason> {
        let Some(session) = self.find_clone_session(frame.clone.session) else { return Ok(()) };
        let origin = PacketOrigin::Clone { session: session.id };
        let Some(mut copy) = self.take_copy_frame(origin) else { return Ok(()) };
        let program = self.machine.program;
        self.machine.overseer.require_original(frame)?;
        copy.set_data(&frame.data[..frame.len]);
        self.inherit_origin(&mut copy, frame, instance::INGRESS_CLONE);
        copy.origin = origin;
        self.start_pass(&mut copy);
        self.set_standard_metadata(&mut copy);
        self.record_pass_start(&copy, "clone of the packet as it came in", Some(copy.port));
        if let Err(reason) = self.run_parser(&mut copy, ControlKind::Parser) {
            self.drop_packet(reason.into(), origin);
            return Ok(());
        }
        copy.parsed_bytes = copy.header_bytes(program);
        // Like bmv2, this also clears metadata that the parser wrote.
        copy.reset_metadata(program);
        copy.set(program.well_known.ingress_port, u64::from(copy.port));
        copy.preserve(program, &self.preserved_vars(frame.clone.site), &frame.reg_words);
        self.send_clone(copy, &session);
        Ok(())
    }

    /// Clones the packet at the end of egress.
    fn clone_egress(&mut self, frame: &Frame) -> Result<(), EngineReason> {
        let Some(session) = self.find_clone_session(frame.clone.session) else { return Ok(()) };
        let origin = PacketOrigin::Clone { session: session.id };
        let Some(mut copy) = self.take_copy_frame(origin) else { return Ok(()) };
        let program = self.machine.program;
        copy.copy_from(program, frame);
        if frame.passes >= MAX_PASSES {
            self.drop_packet(EngineReason::RecirculationLimit.into(), origin);
            return Ok(());
        }
        self.inherit_origin(&mut copy, frame, instance::EGRESS_CLONE);
        copy.origin = origin;
        copy.passes += 1;
        copy.reset_metadata(program);
        copy.set(program.well_known.ingress_port, u64::from(copy.port));
        copy.preserve(program, &self.preserved_vars(frame.clone.site), &frame.reg_words);
        self.send_clone(copy, &session);
        Ok(())
    }

    /// Returns a clone session, and records whether there is one.
    fn find_clone_session(&mut self, id: u32) -> Option<CloneSession> {
        let session = self.machine.memory.clone_session(id).cloned();
        self.machine.record_architecture_event(|| match &session {
            Some(_) => format!("clone to session {id}"),
            None => format!("no clone: there is no session {id}"),
        });
        session
    }

    /// Gives a copy the port, length and number of passes of its packet, and its own instance type.
    fn inherit_origin(&self, copy: &mut Frame, frame: &Frame, instance_type: u32) {
        copy.port = frame.port;
        copy.ingress_len_bytes = frame.ingress_len_bytes;
        copy.passes = frame.passes;
        copy.instance_type = instance_type;
        copy.max_copy_bytes = 0;
    }

    /// Queues a clone for egress on each port of its session.
    fn send_clone(&mut self, mut copy: Box<Frame>, session: &CloneSession) {
        copy.max_copy_bytes = session.packet_length;
        if let Some(group) = session.multicast_group {
            self.replicate_to_group(&copy, group);
        }
        self.replicate(&copy, &session.replicas, |_| copy.origin);
        self.pool.push(copy);
    }

    /// Replicates the packet to a multicast group and returns the number of replicas.
    fn replicate_to_group(&mut self, frame: &Frame, group: u32) -> usize {
        let replicas = self.machine.memory.multicast_group(group).map(|g| g.replicas.clone()).unwrap_or_default();
        self.machine.record_architecture_event(|| match replicas.len() {
            0 => format!("multicast group {group} has no members"),
            count => format!("multicast group {group}: {count} copies"),
        });
        let origin = |replica: &Replica| match frame.origin {
            clone @ PacketOrigin::Clone { .. } => clone,
            _ => PacketOrigin::Multicast { group, instance: u32::from(replica.instance) },
        };
        self.replicate(frame, &replicas, origin);
        replicas.len()
    }

    /// Queues a copy of the packet for egress on the port of each replica, up to the limit of
    /// copies.
    fn replicate(&mut self, frame: &Frame, replicas: &[Replica], origin: impl Fn(&Replica) -> PacketOrigin) {
        let rid = self.machine.program.well_known.egress_rid;
        for replica in replicas {
            let origin = origin(replica);
            let Some(mut copy) = self.take_copy_frame(origin) else { return };
            copy.copy_from(self.machine.program, frame);
            copy.origin = origin;
            copy.set(rid, u64::from(replica.instance));
            self.queue.push_back((ResumePoint::Egress(replica.port), copy));
        }
    }

    /// Queues the packet as received for another pass through ingress, with the metadata that the
    /// request preserves.
    ///
    /// Errors: the packet has made the maximum number of passes.
    fn requeue_resubmitted(&mut self, frame: Box<Frame>) -> Result<(), EngineReason> {
        if frame.passes >= MAX_PASSES {
            return Err(EngineReason::RecirculationLimit);
        }
        let program = self.machine.program;
        self.machine.overseer.require_original(&frame)?;
        let mut resubmitted = self.take_frame();
        resubmitted.set_data(&frame.data[..frame.len]);
        self.inherit_origin(&mut resubmitted, &frame, instance::RESUBMITTED);
        resubmitted.origin = frame.origin;
        resubmitted.max_copy_bytes = frame.max_copy_bytes;
        resubmitted.passes += 1;
        self.start_pass(&mut resubmitted);
        resubmitted.preserve(program, &self.preserved_vars(frame.resubmit.site), &frame.reg_words);
        self.record_pass_start(&resubmitted, "resubmitted", Some(resubmitted.port));
        self.queue.push_back((ResumePoint::Ingress, resubmitted));
        self.pool.push(frame);
        Ok(())
    }

    /// Runs egress for a port, then clone, drop, checksums, deparser and recirculation in bmv2's
    /// order.
    fn run_egress(&mut self, mut frame: Box<Frame>, port: u32) -> Result<(), EngineReason> {
        let variables = self.machine.program.well_known;
        self.machine.record_architecture_event(|| format!("to egress for port {port}"));
        self.machine.overseer.on_transition(&mut frame, ArchTransition::Egress);
        frame.hit_slots.fill(0);
        frame.set(variables.egress_port, u64::from(port));
        // bmv2 sets 512, which truncates to 0 in nine bits and so differs from the drop port.
        frame.set(variables.egress_spec, DROP_PORT + 1);
        frame.set(variables.instance_type, u64::from(frame.instance_type));
        if variables.packet_length.is_some() {
            let length = (frame.len + frame.header_bytes(self.machine.program)).saturating_sub(frame.parsed_bytes);
            frame.set(variables.packet_length, length as u64);
        }
        // The enqueue and dequeue times are equal, because there is no queue.
        let now = self.microseconds();
        frame.set(variables.enq_timestamp, now);
        frame.set(variables.egress_global_timestamp, now);
        self.run_block(&mut frame, ControlKind::Egress)?;
        if std::mem::take(&mut frame.clone.is_requested) {
            self.clone_egress(&frame)?;
        }
        if frame.get(variables.egress_spec) == DROP_PORT {
            let reason = self.program_drop_reason(&frame);
            self.drop_packet(reason, frame.origin);
            self.pool.push(frame);
            return Ok(());
        }
        self.run_block(&mut frame, ControlKind::ComputeChecksum)?;
        self.run_deparser(&mut frame, ControlKind::Deparser)?;
        if std::mem::take(&mut frame.recirculate.is_requested) {
            return self.requeue_recirculated(frame);
        }
        self.send_packet(&frame, port, self.config.cpu_port == Some(port));
        self.pool.push(frame);
        Ok(())
    }

    /// Queues the deparsed packet for another pass through ingress, with the metadata that the
    /// request preserves.
    ///
    /// Errors: the packet has made the maximum number of passes.
    fn requeue_recirculated(&mut self, frame: Box<Frame>) -> Result<(), EngineReason> {
        if frame.passes >= MAX_PASSES {
            return Err(EngineReason::RecirculationLimit);
        }
        let program = self.machine.program;
        let mut recirculated = self.take_frame();
        let mut bytes = frame.out.bytes().to_vec();
        bytes.extend_from_slice(frame.payload());
        bytes.truncate(frame.truncate_bytes.map_or(usize::MAX, |length| length as usize));
        recirculated.set_data(&bytes);
        self.inherit_origin(&mut recirculated, &frame, instance::RECIRCULATED);
        recirculated.ingress_len_bytes = bytes.len() as u32;
        recirculated.origin = frame.origin;
        recirculated.max_copy_bytes = frame.max_copy_bytes;
        recirculated.passes += 1;
        self.start_pass(&mut recirculated);
        recirculated.preserve(program, &self.preserved_vars(frame.recirculate.site), &frame.reg_words);
        self.record_pass_start(&recirculated, "recirculated", Some(recirculated.port));
        self.queue.push_back((ResumePoint::Ingress, recirculated));
        self.pool.push(frame);
        Ok(())
    }
}
