//! Lower half: continues a packet at its cut point, or runs the whole program for one that restarts.
//!
//! A packet that restarts has its own ingress port; others arrive on the port to the upper tier.

use super::PartitionOptions;
use super::bridge::BridgeHeader;
use super::carried_verdict::CarriedVerdict;
use super::code::{MAIN_PORTS, PARSER_PORTS, add_metadata, arrived_on, branch_before, drop_packet, empty_body};
use super::cut_point::CutBlock;
use super::upper::CUT_POINT_TYPE;
use ir::{Body, BodyBuilder, Const, ControlId, ControlKind, HeaderId, Pipeline, SourceLoc, Type, VarId};

/// Builder of the lower half.
struct LowerHalfBuilder<'a> {
    bridge: &'a BridgeHeader,
    header: HeaderId,
    /// Variable: the packet has a bridge header.
    is_bridged: VarId,
    /// Whether there are packets that restart.
    has_restarts: bool,
    options: PartitionOptions,
}

/// Builds the lower half from the whole pipeline, split at the cut points.
pub fn build_lower_half(
    mut p: Pipeline,
    control: ControlId,
    cuts: &[CutBlock],
    (bridge, verdict): (&BridgeHeader, Option<&CarriedVerdict>),
    options: PartitionOptions,
) -> Pipeline {
    let header = bridge.declare(&mut p);
    p.name = format!("{}_lower", p.name);
    let is_bridged = add_metadata(&mut p, "bridged", Type::Bool);
    let has_restarts = cuts.iter().any(CutBlock::is_restart);
    let builder = LowerHalfBuilder { bridge, header, is_bridged, has_restarts, options };
    let ids: Vec<ControlId> = p.controls.keys().collect();
    for id in ids {
        let body = std::mem::take(&mut p.controls[id].body);
        p.controls[id].body = match p.controls[id].kind {
            ControlKind::Parser | ControlKind::MainParser => builder.bridge_parser(&p, body),
            // Executed in the upper half; the results are carried.
            ControlKind::VerifyChecksum if has_restarts => {
                branch_before(body, |b| Some(b.load(&p, is_bridged)), |_| ())
            }
            ControlKind::VerifyChecksum | ControlKind::PreControl => empty_body(),
            _ => body,
        };
    }
    let body = std::mem::take(&mut p.controls[control].body);
    p.controls[control].body = builder.resume_at_cut_points(&p, body, cuts, verdict);
    p
}

impl LowerHalfBuilder<'_> {
    /// Returns the parser of the lower half: the bridge header, then the packet's headers that it
    /// lists as valid. The variable `is_bridged` is set if the header has this switch's key; other
    /// packets end here. Packets that restart have the program's parser.
    fn bridge_parser(&self, p: &Pipeline, program: Body) -> Body {
        let start = program.entry.filter(|_| self.has_restarts);
        let mut b = if self.has_restarts { BodyBuilder::resume(program) } else { BodyBuilder::new() };
        let bridged = b.current().unwrap_or_else(|| b.create_block());
        let mut entry = bridged;
        if let Some(start) = start {
            entry = b.create_block();
            b.switch_to(entry);
            match arrived_on(p, self.options.lower_port, &PARSER_PORTS, &mut b) {
                Some(is_from_above) => b.branch(is_from_above, bridged, start),
                None => b.jump(bridged),
            }
        }
        b.add_state(if self.has_restarts { "terrace_start" } else { "start" }, entry, SourceLoc::default());
        b.switch_to(bridged);
        b.extract(self.header);
        let is_ours = self.bridge.has_our_key(p, self.header, self.options.key, &mut b);
        let (accept, refuse) = (b.create_block(), b.create_block());
        b.branch(is_ours, accept, refuse);
        b.switch_to(refuse);
        b.ret();
        b.switch_to(accept);
        b.add_state(if self.has_restarts { "terrace_headers" } else { "headers" }, accept, SourceLoc::default());
        for (n, carried) in self.bridge.headers.iter().enumerate() {
            let is_valid = self.bridge.is_header_valid(p, self.header, n, &mut b);
            let (extract, next) = (b.create_block(), b.create_block());
            b.branch(is_valid, extract, next);
            b.switch_to(extract);
            b.extract(*carried);
            b.jump(next);
            b.switch_to(next);
        }
        let true_value = b.bool(true);
        b.store(self.is_bridged, true_value);
        b.ret();
        let mut body = b.finish();
        body.entry = Some(entry);
        body
    }

    /// Resumes a packet at its cut point: restores the carried variables and jumps to the cut
    /// point's block. A packet that restarts begins at the control's start. Packets that have no
    /// bridge header and came from the upper tier are dropped.
    fn resume_at_cut_points(
        &self,
        p: &Pipeline,
        body: Body,
        cuts: &[CutBlock],
        verdict: Option<&CarriedVerdict>,
    ) -> Body {
        let start = body.entry.filter(|_| self.has_restarts);
        let mut b = BodyBuilder::resume(body);
        let [entry, dispatch, other, refuse] = [(); 4].map(|()| b.create_block());
        b.switch_to(entry);
        let is_ours = b.load(p, self.is_bridged);
        b.branch(is_ours, dispatch, other);
        b.switch_to(other);
        let is_from_above = arrived_on(p, self.options.lower_port, &MAIN_PORTS, &mut b);
        match (start, is_from_above) {
            (Some(start), Some(is_from_above)) => b.branch(is_from_above, refuse, start),
            _ => b.jump(refuse),
        }
        b.switch_to(refuse);
        b.set_invalid(self.header);
        drop_packet(p, &mut b);
        b.ret();
        let mut cases = Vec::new();
        for (cut_number, cut) in cuts.iter().enumerate().filter(|(_, cut)| !cut.is_restart()) {
            let block = b.create_block();
            b.switch_to(block);
            self.bridge.restore_vars(p, self.header, cut_number, &mut b);
            b.set_invalid(self.header);
            match verdict.filter(|verdict| verdict.may_be_decided[cut_number]) {
                Some(verdict) => verdict.replay_verdict(p, cut.block, &mut b),
                None => b.jump(cut.block),
            }
            cases.push((Const::new(CUT_POINT_TYPE, cut_number as u32), block));
        }
        b.switch_to(dispatch);
        let cut_number = self.bridge.load_cut_point(p, self.header, &mut b);
        b.switch(cut_number, cases, refuse);
        let mut body = b.finish();
        body.entry = Some(entry);
        body
    }
}
