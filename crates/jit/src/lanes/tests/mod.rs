//! Tests machine code against an evaluator of the operations: each operation on its own, and random
//! programs of hundreds. All memory is compared byte by byte, except after the lists' last items,
//! which may be overwritten.

mod folding;
mod memory;
mod native;
mod oracle;
mod random;
mod random_inputs;
mod single_ops;
mod world;

use super::emit::{emit, supported};
use super::ir::VectorCode;
use oracle::Space;
use random_inputs::Chance;
use world::TestMemory;

/// Number of changed bytes that were compared, because a test that changes nothing proves nothing.
#[derive(Clone, Copy, Default, Debug)]
struct Compared {
    changed: usize,
}

/// Runs the code both natively and in the evaluator over random memory, and compares.
fn check(code: &VectorCode, seed: u64, count: u64) -> Compared {
    let bytes = emit(code).unwrap_or_else(|error| panic!("seed {seed}: {error}\n{}", listed(code)));
    let native = native::ExecutableCode::new(&bytes);
    let world = TestMemory::new(&mut Chance(seed));
    let before = world.snapshot();
    let mut expected = before.clone();
    oracle::run(code, &mut expected, world.context(), count);
    native.run(world.context(), count);
    let after = world.snapshot();
    compare(code, &world, [&before, &expected, &after], &format!("seed {seed}, {count} packets"))
}

fn compare(code: &VectorCode, world: &TestMemory, [before, expected, after]: [&Space; 3], what: &str) -> Compared {
    let free = oracle::tails(code, expected, world.context());
    let mut compared = Compared::default();
    for ((start, old), (new, got)) in before.regions().zip(expected.regions().zip(after.regions())) {
        let (new, got) = (new.1, got.1);
        for (index, byte) in new.iter().enumerate() {
            let address = start + index as u64;
            if free.iter().any(|range| range.contains(&address)) {
                continue;
            }
            let place = address.wrapping_sub(world.context());
            assert_eq!(
                got[index],
                *byte,
                "{what}: at {place:#x} from the context, which was {:#x}\n{}",
                old[index],
                listed(code)
            );
            compared.changed += usize::from(old[index] != *byte);
        }
    }
    compared
}

fn listed(code: &VectorCode) -> String {
    code.ops.iter().enumerate().map(|(index, op)| format!("v{index} = {op:?}\n")).collect()
}

/// Returns whether this machine cannot run the tests.
fn unsupported() -> bool {
    if !supported() {
        eprintln!("this machine has no AVX-512: nothing tested");
    }
    !supported()
}
