//! Conversion of rewrites to the map layout of the kernel's program.

use flowcache::rewrite::ActiveKeyMask;
use flowcache::rewrite::form::{FlowAction, FlowKey, FlowRewrite, PacketSum};
use io::xdp::maps;

/// Checks that both crates, which do not depend on each other, define equal limits. Only the
/// kernel's window is smaller.
const _: () = {
    use flowcache::rewrite::{flows, form as own};
    assert!(
        own::WINDOW >= maps::WINDOW
            && own::MAX_END_RELATIVE_FIELDS == maps::MAX_NEAR
            && own::MAX_TERMS == maps::MAX_TERMS
    );
    assert!(own::MAX_SUMS == maps::MAX_SUMS && own::MAX_LENGTHS == maps::MAX_LENGTHS);
    assert!(flows::MAX_KEY_MASKS == maps::MAX_SHAPES);
    assert!(flowcache::rewrite::GATE.0 == maps::GATE.0 && flowcache::rewrite::GATE.1 == maps::GATE.1);
};

/// Returns the part of a window that the kernel's program has.
fn kernel_window(bytes: &[u8]) -> [u8; maps::WINDOW] {
    let mut seen = [0; maps::WINDOW];
    seen.copy_from_slice(&bytes[..maps::WINDOW]);
    seen
}

/// Returns whether the kernel's window suffices for a rewrite.
pub fn fits_kernel_window(rewrite: &FlowRewrite) -> bool {
    let fits_word = |at: u16| usize::from(at) + 2 <= maps::WINDOW;
    let fits_sum = |sum: &PacketSum| sum.terms.iter().all(|(at, _)| fits_word(*at));
    let key_mask = &rewrite.key_mask;
    let key_fits = key_mask.mask[maps::WINDOW..].iter().all(|byte| *byte == 0)
        && key_mask.end_relative_fields.iter().all(|at| fits_word(*at));
    let checks_fit = rewrite.checks.iter().all(|check| fits_sum(&check.sum) && check.word.is_none_or(fits_word));
    let header_fits = match &rewrite.action {
        FlowAction::Drop(_) => true,
        FlowAction::Forward { head, .. } => {
            let replaced = i64::from(head.len) - i64::from(head.len_delta);
            usize::from(head.len) <= maps::WINDOW
                && replaced <= maps::WINDOW as i64
                && head.lengths.iter().all(|(at, _)| fits_word(*at))
                && head.sums.iter().all(|(at, terms, _)| fits_word(*at) && fits_sum(terms))
        }
    };
    key_fits && checks_fit && header_fits
}

/// Converts a key mask with its gate.
pub fn to_kernel_mask(active_mask: &ActiveKeyMask) -> maps::XdpKeyMask {
    let mut near = [0; maps::MAX_NEAR];
    near.iter_mut().zip(&active_mask.key_mask.end_relative_fields).for_each(|(to, at)| *to = *at);
    maps::XdpKeyMask {
        mask: kernel_window(&active_mask.key_mask.mask),
        gate_mask: active_mask.gate.0,
        gate_value: active_mask.gate.1,
        near,
        nears: active_mask.key_mask.end_relative_fields.len() as u16,
        length: u16::from(active_mask.key_mask.length),
    }
}

/// Converts a key. `port`: index of the ingress port in the kernel.
pub fn to_kernel_key(key_mask: u32, key: &FlowKey, port: u32) -> maps::XdpKey {
    maps::XdpKey { shape: key_mask, port: port as u16, length: key.length, bytes: kernel_window(&key.bytes) }
}

fn sum(sum: &PacketSum) -> maps::XdpChecksumSum {
    let mut term = [maps::XdpChecksumTerm::default(); maps::MAX_TERMS];
    term.iter_mut().zip(&sum.terms).for_each(|(to, (at, mask))| *to = maps::XdpChecksumTerm { at: *at, mask: *mask });
    maps::XdpChecksumSum { constant: sum.constant, lengths: sum.lengths, terms: sum.terms.len() as u32, term }
}

/// Converts a rewrite. `egress`: index of the egress port in the kernel; `None`: packets are
/// dropped.
pub fn to_kernel_flow(rewrite: &FlowRewrite, key: maps::XdpKey, egress: Option<u32>) -> maps::XdpFlow {
    let mut flow = maps::XdpFlow::new(key);
    (flow.first, flow.last) = rewrite.lengths;
    flow.checks = rewrite.checks.len() as u32;
    for (to, check) in flow.check.iter_mut().zip(&rewrite.checks) {
        let word = check.word.unwrap_or(maps::NO_WORD);
        *to = maps::XdpChecksumCheck { sum: sum(&check.sum), expected: check.expected, word, unused: 0 };
    }
    let (FlowAction::Forward { head, .. }, Some(port)) = (&rewrite.action, egress) else { return flow };
    (flow.forward, flow.port) = (1, port);
    (flow.grow, flow.len) = (i32::from(head.len_delta), u32::from(head.len));
    (flow.keep, flow.set) = (kernel_window(&head.keep_mask), kernel_window(&head.set_bytes));
    flow.lengths = head.lengths.len() as u32;
    for (to, (at, add)) in flow.length.iter_mut().zip(&head.lengths) {
        *to = maps::XdpLengthWrite { at: *at, unused: 0, add: *add };
    }
    flow.sums = head.sums.len() as u32;
    for (to, (at, terms, complement)) in flow.sum.iter_mut().zip(&head.sums) {
        let flip = if *complement { 0xffff } else { 0 };
        *to = maps::XdpChecksumWrite { sum: sum(terms), at: *at, flip, unused: 0 };
    }
    flow
}

#[cfg(test)]
mod tests {
    use super::fits_kernel_window;
    use flowcache::rewrite::form::{
        ChecksumCheck, FlowAction, FlowKey, FlowRewrite, KeyMask, NewHeader, PacketSum, WINDOW,
    };
    use packet::EngineReason;

    fn rewrite(head: Option<NewHeader>) -> FlowRewrite {
        let drop = || FlowAction::Drop(EngineReason::PacketTooLong.into());
        FlowRewrite {
            key_mask: KeyMask { mask: [0; WINDOW], end_relative_fields: vec![126], length: false },
            key: FlowKey { port: 0, length: 0, bytes: [0; WINDOW] },
            lengths: (0, 9_000),
            checks: Vec::new(),
            action: head.map_or_else(drop, |head| FlowAction::Forward { port: 1, head: Box::new(head) }),
            counter_updates: Vec::new(),
        }
    }

    fn sum(at: u16) -> PacketSum {
        PacketSum { constant: 0, lengths: 0, terms: vec![(at, 0xffff)] }
    }

    #[test]
    fn the_kernel_gets_what_its_window_holds() {
        let (keep, set) = ([0; WINDOW], [0; WINDOW]);
        let head = NewHeader {
            len_delta: 50,
            len: 128,
            keep_mask: keep,
            set_bytes: set,
            lengths: vec![(126, 0)],
            sums: vec![(126, sum(126), true)],
        };
        let leaves = |change: &dyn Fn(&mut NewHeader)| {
            let mut head = head.clone();
            change(&mut head);
            fits_kernel_window(&rewrite(Some(head)))
        };
        assert!(leaves(&|_| {}));
        assert!(!leaves(&|head| head.len = 129));
        assert!(!leaves(&|head| head.len_delta = -1));
        assert!(!leaves(&|head| head.lengths[0].0 = 127));
        assert!(!leaves(&|head| head.sums[0].0 = 127));
        assert!(!leaves(&|head| head.sums[0].1 = sum(127)));
        let drops = |change: &dyn Fn(&mut FlowRewrite)| {
            let mut rewrite = rewrite(None);
            change(&mut rewrite);
            fits_kernel_window(&rewrite)
        };
        assert!(drops(&|rewrite| rewrite.key_mask.mask[127] = 1));
        assert!(!drops(&|rewrite| rewrite.key_mask.mask[128] = 1));
        assert!(!drops(&|rewrite| rewrite.key_mask.end_relative_fields[0] = 127));
        let check = |at: u16, word: u16| vec![ChecksumCheck { sum: sum(at), expected: 0, word: Some(word) }];
        assert!(drops(&|rewrite| rewrite.checks = check(126, 126)));
        assert!(!drops(&|rewrite| rewrite.checks = check(127, 126)));
        assert!(!drops(&|rewrite| rewrite.checks = check(126, 127)));
    }
}
