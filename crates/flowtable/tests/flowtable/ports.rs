//! Pools of ports: quotas, pairs, rest, and several threads.

use crate::random::Random;
use flowtable::pool::{Lease, PoolRefusal, PoolShape, PortPool};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::atomic::{AtomicBool, Ordering::*};

const HOLD: u32 = 100;

fn shape() -> PoolShape {
    PoolShape {
        addresses: 3,
        first_port: 1024,
        blocks: 70,
        subscribers: 20,
        quota_blocks: 4,
        reserved_blocks: 0,
        hold_ticks: HOLD,
        excluded_ports: vec![1, 1024, 4789, 65535],
    }
}

#[test]
fn all_ports_of_an_address_are_given_out_once() {
    let pool = PortPool::new(PoolShape { addresses: 1, quota_blocks: 70, ..shape() });
    let leases: BTreeSet<Lease> = (0u32..).map_while(|n| pool.take(3, n.wrapping_mul(0x9e37_79b9)).ok()).collect();
    // 1024 and 4789 are of the pool's ports.
    assert_eq!(leases.len(), 70 * 64 - 2);
    assert!(leases.iter().all(|it| it.port >= 1024 && it.port != 1024 && it.port != 4789));
    assert_eq!((pool.take(3, 5), pool.free_blocks()), (Err(PoolRefusal::Quota), 0));
    assert_eq!(pool.take(4, 5), Err(PoolRefusal::Empty));
    assert_eq!(pool.used_ports(3), 70 * 64 - 2);
}

#[test]
fn quotas_are_exact_and_blocks_of_a_subscriber_are_of_one_address() {
    let pool = PortPool::new(PoolShape { excluded_ports: Vec::new(), reserved_blocks: 3 * 70 - 5, ..shape() });
    let all: Vec<Lease> = (0u32..).map_while(|n| pool.take(7, n.wrapping_mul(77_777)).ok()).collect();
    assert_eq!(all.len(), 4 * 64);
    assert_eq!(all.iter().map(|it| it.address).collect::<HashSet<_>>().len(), 1);
    assert_eq!(pool.take(7, 1), Err(PoolRefusal::Quota));
    // One block above the reserve: the second of subscriber 8 is refused, the first of 9 is not.
    assert_eq!((0..).map_while(|n| pool.take(8, n).ok()).count(), 64);
    assert_eq!(pool.take(8, 1), Err(PoolRefusal::Reserved));
    assert!(pool.take(9, 1).is_ok());
}

#[test]
fn ports_rest_and_empty_blocks_return() {
    let pool = PortPool::new(shape());
    let (mut random, mut now) = (Random(4), 1000);
    let mut leases: BTreeMap<Lease, u32> = BTreeMap::new();
    let mut released: BTreeMap<Lease, u32> = BTreeMap::new();
    let mut refused = 0;
    for _ in 0..200_000 {
        let subscriber = random.below(4) as u32;
        if random.below(100) < 60 {
            match pool.take(subscriber, random.next() as u32) {
                Ok(lease) => {
                    assert_eq!(leases.insert(lease, subscriber), None, "{lease:?} was given out twice");
                    let rest = released.get(&lease).map(|then| now - then);
                    assert!(rest.is_none_or(|ticks| ticks >= HOLD), "{lease:?} has rested for {rest:?}");
                }
                Err(PoolRefusal::Quota) => refused += 1,
                Err(refusal) => panic!("{refusal}: 16 of 210 blocks at most"),
            }
        } else if let Some(lease) = leases.keys().nth(random.below(leases.len().max(1) as u64) as usize).copied() {
            leases.remove(&lease);
            released.insert(lease, now);
            pool.release(lease, now);
        }
        if random.below(3) == 0 {
            now += 1;
            pool.sweep(50, now);
        }
    }
    assert!(refused > 0 && leases.len() > 100, "{refused} refusals, {} leases", leases.len());
    let used = |subscriber| leases.values().filter(|it| **it == subscriber).count() as u32;
    assert!((0..20).all(|subscriber| pool.used_ports(subscriber) == used(subscriber)));
    leases.keys().for_each(|lease| pool.release(*lease, now));
    for later in 1..=4 {
        pool.sweep(u32::MAX, now + later * HOLD);
    }
    assert_eq!(pool.free_blocks(), 3 * 70);
}

#[test]
fn threads_never_share_a_port() {
    let pool = PortPool::new(PoolShape { hold_ticks: 0, subscribers: 4, ..shape() });
    let owned: Vec<AtomicBool> = (0..3 * 65536).map(|_| AtomicBool::new(false)).collect();
    let flag = |lease: &Lease| &owned[(lease.address * 65536 + u32::from(lease.port)) as usize];
    std::thread::scope(|scope| {
        for id in 0..3 {
            let (pool, flag) = (&pool, &flag);
            scope.spawn(move || {
                let (mut random, mut leases) = (Random(id), Vec::new());
                for _ in 0..100_000 {
                    if random.below(2) == 0 {
                        if let Ok(lease) = pool.take(random.below(4) as u32, random.next() as u32) {
                            assert!(!flag(&lease).swap(true, SeqCst), "{lease:?} was given out twice");
                            leases.push(lease);
                        }
                    } else if !leases.is_empty() {
                        let lease = leases.swap_remove(random.below(leases.len() as u64) as usize);
                        flag(&lease).store(false, SeqCst);
                        pool.release(lease, 0);
                    }
                    if random.below(50) == 0 {
                        pool.sweep(300, 0);
                    }
                }
                for lease in leases {
                    flag(&lease).store(false, SeqCst);
                    pool.release(lease, 0);
                }
            });
        }
    });
    pool.sweep(u32::MAX, 0);
    assert_eq!(pool.free_blocks(), 3 * 70);
}
