//! [`Adaptive`]: whether traversals of a kind are better kept whole, or cut.
//!
//! Cutting pays if the pieces of a new traversal have been seen in others before. So two ghosts go along, which keep nothing but hashes, as many as the cache has room
//! for: one remembers whole traversals, the other pieces. Of each traversal that the slow path makes it is noted whether the first ghost knows it, and whether the
//! second knows all its pieces: then a cache of that kind would have had it. The ghost that knows more wins, for each way through the program by itself; where
//! both know about as much, things stay as they are. They are cut at first.

use std::collections::{HashMap, HashSet, VecDeque};

type Fast = foldhash::fast::RandomState;

/// Traversals of a way after which old ones count half.
const WINDOW: u32 = 512;
/// The most ways that are told apart.
const MAX_WAYS: usize = 4_096;

/// The last so many hashes.
#[derive(Clone, Debug)]
struct Ghost {
    room: usize,
    known: HashSet<u64, Fast>,
    order: VecDeque<u64>,
}

impl Ghost {
    fn new(room: usize) -> Ghost {
        Ghost { room: room.max(1), known: HashSet::default(), order: VecDeque::new() }
    }

    /// Whether it is known; now it is.
    fn note(&mut self, id: u64) -> bool {
        if !self.known.insert(id) {
            return true;
        }
        self.order.push_back(id);
        if self.order.len() > self.room
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
        false
    }
}

/// What was seen of a way.
#[derive(Clone, Copy, Debug)]
struct Way {
    made: u32,
    /// Of these, the ghosts knew so many.
    wholes: u32,
    pieces: u32,
    cut: bool,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Adaptive {
    wholes: Ghost,
    pieces: Ghost,
    ways: HashMap<u64, Way, Fast>,
}

impl Adaptive {
    /// For a cache with room for so many segments in all.
    pub fn new(room: usize) -> Adaptive {
        Adaptive { wholes: Ghost::new(room), pieces: Ghost::new(room), ways: HashMap::default() }
    }

    /// Notes a traversal that was made: the hash of the whole, and those of its pieces. True if it is better cut.
    pub fn choose(&mut self, way: u64, whole: u64, pieces: impl Iterator<Item = u64>) -> bool {
        let knows_whole = self.wholes.note(whole);
        // Each is noted, also behind one that is not known.
        let knows_pieces = pieces.filter(|piece| !self.pieces.note(*piece)).count() == 0;
        if self.ways.len() >= MAX_WAYS && !self.ways.contains_key(&way) {
            return true;
        }
        let way = self.ways.entry(way).or_insert(Way { made: 0, wholes: 0, pieces: 0, cut: true });
        way.made += 1;
        way.wholes += u32::from(knows_whole);
        way.pieces += u32::from(knows_pieces);
        // What is less than one in fifty is noise.
        let margin = 1 + way.made / 50;
        if way.pieces > way.wholes + margin {
            way.cut = true;
        } else if way.wholes > way.pieces + margin {
            way.cut = false;
        }
        if way.made >= WINDOW {
            (way.made, way.wholes, way.pieces) = (way.made / 2, way.wholes / 2, way.pieces / 2);
        }
        way.cut
    }
}

#[cfg(test)]
mod tests {
    use super::Adaptive;

    /// Traversals of two pieces, each one of so many, in a random order; how many of the last thousand are cut.
    fn cut_of(firsts: u64, seconds: u64, room: usize) -> usize {
        let mut rng = fastrand::Rng::with_seed(5);
        let mut adaptive = Adaptive::new(room);
        let mut choices = Vec::new();
        for _ in 0..20_000 {
            let (first, second) = (rng.u64(..firsts), rng.u64(..seconds));
            let pieces = [first, 1 << 40 | second];
            choices.push(adaptive.choose(1, 1 << 50 | first << 20 | second, pieces.into_iter()));
        }
        choices[19_000..].iter().filter(|cut| **cut).count()
    }

    #[test]
    fn pieces_that_come_again_are_cut() {
        assert_eq!(cut_of(100, 100, 1_000), 1_000);
    }

    #[test]
    fn pieces_that_never_come_again_do_not_make_it_whole_without_need() {
        assert_eq!(cut_of(1 << 19, 1 << 19, 1_000), 1_000);
    }

    #[test]
    fn few_whole_ones_of_many_pieces_are_kept_whole() {
        // Each whole one comes again, and its pieces, which take twice the room, do not.
        let mut adaptive = Adaptive::new(1_500);
        let mut cut = 0;
        for step in 0..20_000u64 {
            let number = step % 1_000;
            let choice = adaptive.choose(1, 1 << 50 | number, [number, 1 << 40 | number].into_iter());
            cut += usize::from(step >= 19_000 && choice);
        }
        assert_eq!(cut, 0);
    }
}
