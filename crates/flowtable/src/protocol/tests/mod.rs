//! The protocol with all orders of two threads' steps (loom), and with random orders of three
//! (shuttle). Each test fails if a step that it is about is left out.
//!
//! | content | file |
//! |---|---|
//! | a small table for model checkers | `small_table.rs` |
//! | the words of loom and of shuttle | `checkers.rs` |
//! | what threads do and what must be true then | `scenarios.rs` |

mod checkers;
mod scenarios;
mod small_table;

use super::memory::Step;
use checkers::{Loom, Shuttle, check_all_orders, check_random_orders};

/// Runs a scenario by a checker. `Err` if it found an order in which the scenario fails.
fn run(check: impl FnOnce() + std::panic::UnwindSafe) -> Result<(), ()> {
    std::panic::catch_unwind(check).map_err(drop)
}

macro_rules! tests {
    ($($name:ident: $scenario:ident, $switches:literal switches, without [$($step:ident),*];)*) => {$(
        mod $name {
            use super::*;

            #[test]
            fn in_all_orders_of_two_threads() {
                check_all_orders($switches, || scenarios::$scenario::<Loom>(None, 1));
            }

            #[test]
            fn in_random_orders_of_three_threads() {
                check_random_orders(|| scenarios::$scenario::<Shuttle>(None, 2));
            }

            #[test]
            fn fails_without_each_step() {
                for step in [$(Step::$step),*] {
                    let found = run(|| check_all_orders($switches, move || scenarios::$scenario::<Loom>(Some(step), 1)));
                    assert!(found.is_err(), "no order shows that {step:?} is needed");
                }
            }
        }
    )*};
}

tests! {
    one_of_two_additions_wins: add_one_key_twice, 3 switches, without [Lock];
    entries_are_found_while_their_bucket_is_divided: find_while_dividing, 3 switches, without [SecondLook];
    entries_are_found_while_they_move: find_while_moving, 3 switches, without [SecondLook, CountChange];
    additions_and_removals_meet_a_division: add_and_remove_while_dividing, 2 switches, without [];
    records_are_used_again_after_a_grace_period: use_record_again, 3 switches, without [Grace];
    entries_that_are_hit_do_not_end_in_the_batch: expire_while_hit, 3 switches, without [Doubt, LatestTick];
    pairs_end_together: add_pair_while_its_twin_is_removed, 3 switches, without [PairFence];
}

#[test]
fn old_sizes_lead_to_the_bucket() {
    check_all_orders(1, || scenarios::find_with_an_old_size::<Loom>(None));
    let without = || check_all_orders(1, || scenarios::find_with_an_old_size::<Loom>(Some(Step::LowestBit)));
    assert!(run(without).is_err(), "the lowest bit that differs is not needed");
}
