//! What `terrace plan` shows: a report in a terminal, as a page, and as pictures.

pub mod chart;
pub mod heat;
pub mod page;
pub mod region_sizes;
pub mod text;
