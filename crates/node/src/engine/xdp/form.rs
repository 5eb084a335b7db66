//! From a rewrite to what the kernel's program holds.

use flowcache::rewrite::flows::Used;
use flowcache::rewrite::form::{Fate, Key, Rewrite, Sum};
use io::xdp::form;

/// The two crates say the same numbers, of which neither knows the other's.
const _: () = {
    use flowcache::rewrite::{flows, form as own};
    assert!(own::WINDOW == form::WINDOW && own::MAX_NEAR == form::MAX_NEAR && own::MAX_TERMS == form::MAX_TERMS);
    assert!(own::MAX_SUMS == form::MAX_SUMS && own::MAX_LENGTHS == form::MAX_LENGTHS);
    assert!(flows::MAX_SHAPES == form::MAX_SHAPES);
    assert!(flows::GATE.0 == form::GATE.0 && flows::GATE.1 == form::GATE.1);
};

pub fn shape(used: &Used) -> form::Shape {
    let mut near = [0; form::MAX_NEAR];
    near.iter_mut().zip(&used.shape.near).for_each(|(to, at)| *to = *at);
    form::Shape {
        mask: used.shape.mask,
        gate_mask: used.gate.0,
        gate_value: used.gate.1,
        near,
        nears: used.shape.near.len() as u16,
        length: u16::from(used.shape.length),
    }
}

/// `port`: the kernel's place of the key's port.
pub fn key(shape: u32, key: &Key, port: u32) -> form::Key {
    form::Key { shape, port: port as u16, length: key.length, bytes: key.bytes }
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
    (flow.keep, flow.set) = (head.keep, head.set);
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
