//! Lane compaction for AVX2, which has no instruction that moves selected lanes to the front.

/// 64-bit words of a vector.
pub(super) const AVX2_LANES: usize = 4;

/// For each set of four lanes, the indices of its lanes in ascending order.
pub(super) static SET_LANES: [[u8; AVX2_LANES]; 1 << AVX2_LANES] = set_lanes_table();
/// For each set of four lanes, the compaction as a permutation of eight 32-bit halves.
pub(super) static COMPACT_ORDER: [[u32; 2 * AVX2_LANES]; 1 << AVX2_LANES] = compact_order_table();

const fn set_lanes_table() -> [[u8; AVX2_LANES]; 1 << AVX2_LANES] {
    let mut all = [[0; AVX2_LANES]; 1 << AVX2_LANES];
    let mut set = 0;
    while set < all.len() {
        let (mut lane, mut at) = (0, 0);
        while lane < AVX2_LANES {
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

const fn compact_order_table() -> [[u32; 2 * AVX2_LANES]; 1 << AVX2_LANES] {
    let lanes = set_lanes_table();
    let mut all = [[0; 2 * AVX2_LANES]; 1 << AVX2_LANES];
    let mut at = 0;
    while at < all.len() * AVX2_LANES {
        let lane = lanes[at / AVX2_LANES][at % AVX2_LANES] as u32;
        all[at / AVX2_LANES][at % AVX2_LANES * 2] = lane * 2;
        all[at / AVX2_LANES][at % AVX2_LANES * 2 + 1] = lane * 2 + 1;
        at += 1;
    }
    all
}
