//! Definitions of the architectures that engines share with the interpreter: constants, variables,
//! reasons.

use crate::decode;
use ir::{Pipeline, VarId};

pub use crate::reasons::{cpu_variable, drop_variable, table as reason_table};
pub use crate::well_known::{intrinsic, reads_segment_excess};

/// v1model's constants.
pub mod v1model {
    pub use crate::v1model::{DROP_PORT, MAX_PASSES, instance};
}

/// PNA's constants.
pub mod pna {
    pub use crate::pna::{CPU_PORT, MAX_PASSES};
}

/// Returns the program's encodings of green, yellow and red: v1model 0, 1, 2; PNA the positions in
/// `PNA_MeterColor_t`.
pub fn color_encodings(pipeline: &Pipeline) -> [u64; 3] {
    decode::color_encodings(pipeline)
}

/// Returns the variables that v1model's clone resets before it restores the preserved ones: all
/// except header fields and next indices.
pub fn metadata(pipeline: &Pipeline) -> impl Iterator<Item = VarId> {
    decode::metadata(pipeline)
}
