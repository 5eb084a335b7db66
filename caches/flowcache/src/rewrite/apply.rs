//! Carries a rewrite out. What a program in the kernel does with a packet is this, byte by byte.

use super::form::{Fate, Head, Rewrite, WINDOW, window};

impl Rewrite {
    /// Whether a packet that has the key may be rewritten: its length, and its sums.
    pub fn fits(&self, bytes: &[u8]) -> bool {
        let (first, last) = self.lengths;
        let window = window(bytes);
        let length = bytes.len();
        (first as usize..=last as usize).contains(&length)
            && self.checks.iter().all(|check| check.passes(check.sum.constant, &window, length))
    }

    /// The port that the packet leaves by, and in `out` its bytes; `None` if it is dropped. Only for a packet that has the key and fits.
    pub fn run(&self, bytes: &[u8], out: &mut Vec<u8>) -> Option<u32> {
        out.clear();
        match &self.fate {
            Fate::Drop(_) => None,
            Fate::Forward { port, head } => {
                head.write(bytes, out);
                Some(*port)
            }
        }
    }
}

impl Head {
    pub(super) fn write(&self, bytes: &[u8], out: &mut Vec<u8>) {
        let received = window(bytes);
        let mut head = [0u8; WINDOW];
        for (at, byte) in head.iter_mut().enumerate().take(self.len as usize) {
            let from = at as isize - self.grow as isize;
            let old = usize::try_from(from).ok().and_then(|from| received.get(from)).copied().unwrap_or(0);
            *byte = old & self.keep[at] | self.set[at];
        }
        for (at, add) in &self.lengths {
            let value = (bytes.len() as i64 + i64::from(*add)) as u16;
            head[*at as usize..*at as usize + 2].copy_from_slice(&value.to_be_bytes());
        }
        for (at, sum, complement) in &self.sums {
            let value = sum.of(&received, bytes.len()) ^ if *complement { 0xffff } else { 0 };
            head[*at as usize..*at as usize + 2].copy_from_slice(&value.to_be_bytes());
        }
        out.extend_from_slice(&head[..self.len as usize]);
        let payload = (self.len as isize - self.grow as isize).max(0) as usize;
        out.extend_from_slice(bytes.get(payload..).unwrap_or_default());
    }
}
