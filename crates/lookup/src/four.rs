//! Sets of the four lanes of a vector of words, for processors that cannot move the lanes of a set to the front by themselves.

/// Words of a vector.
pub(super) const FOUR: usize = 4;

/// For each set of four lanes: these lanes, one after the other.
pub(super) static LANES: [[u8; FOUR]; 1 << FOUR] = lanes();
/// The same as a permutation of vectors of eight halves.
pub(super) static ORDER: [[u32; 2 * FOUR]; 1 << FOUR] = order();

const fn lanes() -> [[u8; FOUR]; 1 << FOUR] {
    let mut all = [[0; FOUR]; 1 << FOUR];
    let mut set = 0;
    while set < all.len() {
        let (mut lane, mut at) = (0, 0);
        while lane < FOUR {
            if set >> lane & 1 == 1 {
                all[set][at] = lane as u8;
                at += 1;
            }
            lane += 1;
        }
        set += 1;
    }
    all
}

const fn order() -> [[u32; 2 * FOUR]; 1 << FOUR] {
    let lanes = lanes();
    let mut all = [[0; 2 * FOUR]; 1 << FOUR];
    let mut at = 0;
    while at < all.len() * FOUR {
        let lane = lanes[at / FOUR][at % FOUR] as u32;
        all[at / FOUR][at % FOUR * 2] = lane * 2;
        all[at / FOUR][at % FOUR * 2 + 1] = lane * 2 + 1;
        at += 1;
    }
    all
}
