//! Tests a state as writes: applied to a new state they give an equal one, and encoding and
//! decoding preserves them.

use crate::restart::contents;
use entries::ControlState;
use testkit::differ::case::TestEvent;
use testkit::differ::config::Config;
use testkit::differ::plan;

#[test]
fn random_states_come_back_from_their_writes_and_their_bytes() {
    let mut compared = 0;
    for seed in 0..60 {
        let Ok(case) = plan::generate_case(seed, &Config::default()) else {
            panic!("seed {seed}: a made program does not compile")
        };
        let (pipeline, steps) = (case.pipeline, case.steps);
        let batches =
            steps.into_iter().filter_map(|step| if let TestEvent::Write(batch) = step { Some(batch) } else { None });
        let mut state = ControlState::new(pipeline.clone()).expect("a good pipeline");
        for batch in batches {
            let bytes = node::store_format::encode_batch(&batch).expect("it has a form");
            let back = node::store_format::decode_batch(&bytes).expect("a good form");
            assert_eq!(format!("{back:?}"), format!("{batch:?}"), "seed {seed}");
            let _ = state.apply(&back);
        }
        let mut again = ControlState::new(pipeline).expect("a good pipeline");
        for batch in node::state_to_batches(&state).expect("a good pipeline") {
            again.apply(&batch).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        }
        assert_eq!(contents(&again), contents(&state), "seed {seed}");
        compared += contents(&state).values().map(Vec::len).sum::<usize>();
    }
    assert!(compared > 500, "too little was compared: {compared}");
}
