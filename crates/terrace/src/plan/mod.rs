//! Output of `terrace plan`: a report as text, as an HTML page, and as pictures.

pub mod chart;
pub mod heat;
pub mod page;
pub mod region_sizes;
pub mod text;
