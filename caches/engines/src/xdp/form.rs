//! From a rewrite to what the kernel's program holds.

use flowcache::rewrite::flows::Used;
use flowcache::rewrite::form::{Fate, Key, Rewrite, Sum};
use io::xdp::form;

/// The two crates say the same numbers, of which neither knows the other's; but the kernel's program sees less of a packet.
const _: () = {
    use flowcache::rewrite::{flows, form as own};
    assert!(own::WINDOW >= form::WINDOW && own::MAX_NEAR == form::MAX_NEAR && own::MAX_TERMS == form::MAX_TERMS);
    assert!(own::MAX_SUMS == form::MAX_SUMS && own::MAX_LENGTHS == form::MAX_LENGTHS);
    assert!(flows::MAX_SHAPES == form::MAX_SHAPES);
    assert!(flows::GATE.0 == form::GATE.0 && flows::GATE.1 == form::GATE.1);
};

/// What the kernel's program sees of a packet, and of what it makes of it.
fn seen(bytes: &[u8]) -> [u8; form::WINDOW] {
    let mut seen = [0; form::WINDOW];
    seen.copy_from_slice(&bytes[..form::WINDOW]);
    seen
}

/// Whether that is enough for a rewrite.
pub fn fits(rewrite: &Rewrite) -> bool {
    let word = |at: u16| usize::from(at) + 2 <= form::WINDOW;
    let sum = |sum: &Sum| sum.terms.iter().all(|(at, _)| word(*at));
    let shape = &rewrite.shape;
    let looks = shape.mask[form::WINDOW..].iter().all(|byte| *byte == 0) && shape.near.iter().all(|at| word(*at));
    let checks = rewrite.checks.iter().all(|check| sum(&check.sum) && check.word.is_none_or(word));
    let writes = match &rewrite.fate {
        Fate::Drop(_) => true,
        Fate::Forward { head, .. } => {
            let taken = i64::from(head.len) - i64::from(head.grow);
            usize::from(head.len) <= form::WINDOW
                && taken <= form::WINDOW as i64
                && head.lengths.iter().all(|(at, _)| word(*at))
                && head.sums.iter().all(|(at, of, _)| word(*at) && sum(of))
        }
    };
    looks && checks && writes
}

pub fn shape(used: &Used) -> form::Shape {
    let mut near = [0; form::MAX_NEAR];
    near.iter_mut().zip(&used.shape.near).for_each(|(to, at)| *to = *at);
    form::Shape {
        mask: seen(&used.shape.mask),
        gate_mask: used.gate.0,
        gate_value: used.gate.1,
        near,
        nears: used.shape.near.len() as u16,
        length: u16::from(used.shape.length),
    }
}

/// `port`: the kernel's place of the key's port.
pub fn key(shape: u32, key: &Key, port: u32) -> form::Key {
    form::Key { shape, port: port as u16, length: key.length, bytes: seen(&key.bytes) }
}

fn sum(sum: &Sum) -> form::Sum {
    let mut term = [form::Term::default(); form::MAX_TERMS];
    term.iter_mut().zip(&sum.terms).for_each(|(to, (at, mask))| *to = form::Term { at: *at, mask: *mask });
    form::Sum { constant: sum.constant, lengths: sum.lengths, terms: sum.terms.len() as u32, term }
}

/// `leaves`: the kernel's place of the port by which packets leave.
pub fn flow(rewrite: &Rewrite, key: form::Key, leaves: Option<u32>) -> form::Flow {
    let mut flow = form::Flow::new(key);
    (flow.first, flow.last) = rewrite.lengths;
    flow.checks = rewrite.checks.len() as u32;
    for (to, check) in flow.check.iter_mut().zip(&rewrite.checks) {
        let word = check.word.unwrap_or(form::NO_WORD);
        *to = form::Check { sum: sum(&check.sum), expected: check.expected, word, unused: 0 };
    }
    let (Fate::Forward { head, .. }, Some(port)) = (&rewrite.fate, leaves) else { return flow };
    (flow.forward, flow.port) = (1, port);
    (flow.grow, flow.len) = (i32::from(head.grow), u32::from(head.len));
    (flow.keep, flow.set) = (seen(&head.keep), seen(&head.set));
    flow.lengths = head.lengths.len() as u32;
    for (to, (at, add)) in flow.length.iter_mut().zip(&head.lengths) {
        *to = form::Length { at: *at, unused: 0, add: *add };
    }
    flow.sums = head.sums.len() as u32;
    for (to, (at, of, complement)) in flow.sum.iter_mut().zip(&head.sums) {
        let flip = if *complement { 0xffff } else { 0 };
        *to = form::Written { sum: sum(of), at: *at, flip, unused: 0 };
    }
    flow
}

#[cfg(test)]
mod tests {
    use super::fits;
    use flowcache::rewrite::form::{Check, Fate, Head, Key, Rewrite, Shape, Sum, WINDOW};
    use packet::EngineReason;

    fn rewrite(head: Option<Head>) -> Rewrite {
        let drop = || Fate::Drop(EngineReason::PacketTooLong.into());
        Rewrite {
            shape: Shape { mask: [0; WINDOW], near: vec![126], length: false },
            key: Key { port: 0, length: 0, bytes: [0; WINDOW] },
            lengths: (0, 9_000),
            checks: Vec::new(),
            fate: head.map_or_else(drop, |head| Fate::Forward { port: 1, head: Box::new(head) }),
            credits: Vec::new(),
        }
    }

    fn sum(at: u16) -> Sum {
        Sum { constant: 0, lengths: 0, terms: vec![(at, 0xffff)] }
    }

    #[test]
    fn the_kernel_gets_what_its_window_holds() {
        let (keep, set) = ([0; WINDOW], [0; WINDOW]);
        let head = Head { grow: 50, len: 128, keep, set, lengths: vec![(126, 0)], sums: vec![(126, sum(126), true)] };
        let leaves = |change: &dyn Fn(&mut Head)| {
            let mut head = head.clone();
            change(&mut head);
            fits(&rewrite(Some(head)))
        };
        assert!(leaves(&|_| {}));
        assert!(!leaves(&|head| head.len = 129));
        assert!(!leaves(&|head| head.grow = -1));
        assert!(!leaves(&|head| head.lengths[0].0 = 127));
        assert!(!leaves(&|head| head.sums[0].0 = 127));
        assert!(!leaves(&|head| head.sums[0].1 = sum(127)));
        let drops = |change: &dyn Fn(&mut Rewrite)| {
            let mut rewrite = rewrite(None);
            change(&mut rewrite);
            fits(&rewrite)
        };
        assert!(drops(&|rewrite| rewrite.shape.mask[127] = 1));
        assert!(!drops(&|rewrite| rewrite.shape.mask[128] = 1));
        assert!(!drops(&|rewrite| rewrite.shape.near[0] = 127));
        let check = |at: u16, word: u16| vec![Check { sum: sum(at), expected: 0, word: Some(word) }];
        assert!(drops(&|rewrite| rewrite.checks = check(126, 126)));
        assert!(!drops(&|rewrite| rewrite.checks = check(127, 126)));
        assert!(!drops(&|rewrite| rewrite.checks = check(126, 127)));
    }
}
