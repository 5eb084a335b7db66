//! Machine code against an evaluator of the operations: each on its own, and programs of hundreds by chance. All memory is compared, byte by byte, except what lies
//! behind the lists' last elements, which may be written over.

mod chance;
mod each;
mod folding;
mod memory;
mod native;
mod oracle;
mod random;
mod world;

use super::emit::{emit, supported};
use super::ir::Code;
use chance::Chance;
use oracle::Space;
use world::World;

/// How much was compared that the code had changed, in bytes: a test that changes nothing proves nothing.
#[derive(Clone, Copy, Default, Debug)]
struct Compared {
    changed: usize,
}

/// Runs the code both ways over memory of chance, and compares.
fn check(code: &Code, seed: u64, count: u64) -> Compared {
    let bytes = emit(code).unwrap_or_else(|error| panic!("seed {seed}: {error}\n{}", listed(code)));
    let native = native::Native::new(&bytes);
    let world = World::new(&mut Chance(seed));
    let before = world.snapshot();
    let mut expected = before.clone();
    oracle::run(code, &mut expected, world.context(), count);
    native.run(world.context(), count);
    let after = world.snapshot();
    compare(code, &world, [&before, &expected, &after], &format!("seed {seed}, {count} packets"))
}

fn compare(code: &Code, world: &World, [before, expected, after]: [&Space; 3], what: &str) -> Compared {
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

fn listed(code: &Code) -> String {
    code.ops.iter().enumerate().map(|(index, op)| format!("v{index} = {op:?}\n")).collect()
}

/// Whether there is nothing to test on this machine.
fn unsupported() -> bool {
    if !supported() {
        eprintln!("this machine has no AVX-512: nothing tested");
    }
    !supported()
}
