//! [`Root`]: a line that all keys of a batch see first, in a form that vectors compare with.

use super::address::Address;
use super::batch::View;
use super::pool::{Line, Ref};
use super::set::{Formats, Set};
use super::table::Table;
use smallvec::SmallVec;

/// The first bits of addresses, most significant word first.
#[derive(Clone, Copy)]
pub(super) struct Prefix {
    pub bits: [u64; 2],
    /// Which bits count.
    pub mask: [u64; 2],
    pub len: u32,
}

/// The prefixes of a line, and what is behind its gate.
pub(super) struct Root {
    /// Each with its value's first byte; shortest first.
    pub routes: SmallVec<[(Prefix, *const u8); 12]>,
    pub gate: Prefix,
    pub child: Ref,
}

impl Prefix {
    #[inline]
    fn new<A: Address>(addr: A, len: u32) -> Prefix {
        let words = |wide: u128| [(wide >> 64) as u64, wide as u64];
        Prefix { bits: words(addr.wide()), mask: words(!u128::MAX.checked_shr(len).unwrap_or(0)), len }
    }
}

impl Root {
    /// What there is at `at`.
    pub(super) fn at<A: Address>(view: &View<'_>, table: &Table<A>, at: Ref) -> Root {
        if at.is_set() {
            return Root::of_line(view, table, &table.forest.formats, table.forest.pool.line(at.line()));
        }
        Root { routes: SmallVec::new(), gate: Prefix::new(A::from_wide(0), 0), child: at }
    }

    /// What a line of these formats says.
    pub(super) fn of_line<A: Address>(view: &View<'_>, table: &Table<A>, formats: &Formats, line: &Line) -> Root {
        let pool = &table.forest.pool;
        let set: Set<A> = formats.read(line, pool);
        let value = |index, cell| {
            let number = |cell: u64| view.values.wrapping_add(cell as usize * view.stride);
            if view.numbered { number(cell) } else { formats.cell_at(line, pool, index) }
        };
        let mut routes = SmallVec::new();
        for (index, route) in set.routes.iter().enumerate().rev() {
            routes.push((Prefix::new(route.addr, route.len), value(index, route.cell)));
        }
        let (addr, len, child) =
            set.gate.map_or((A::from_wide(0), 0, Ref::NULL), |gate| (gate.addr, gate.len, gate.child));
        Root { routes, gate: Prefix::new(addr, len), child }
    }
}
