//! Tenants' intent: a region file in YAML, checked as a whole, to table entries of the gateway program.
//!
//! The crate knows the gateway's tables by name (programs/gateway/TABLES.md) and nothing of packets or engines. Nothing is
//! applied here: what comes out is entries, each with the line of the file that it comes from.

mod abridged;
mod addresses;
mod check;
mod edit;
mod entries;
mod fields;
mod item_list;
mod load;
mod model;
mod plain;
mod position;
mod prefix_map;
mod problem;
mod sections;
mod shift;
mod shift_fields;
mod syntax;
mod values;
mod yaml;

pub use addresses::{UNUSABLE, Unusable, unusable, unusable_part, unusable_whole};
pub use check::{FlatRoute, MAX_PEERINGS, MAX_VNI, Region, Scope, Target, check};
pub use edit::{Document, Edit};
pub use entries::{
    Api, Changes, DEFAULT_MTU, Entries, EntryKey, NotAGateway, Numbers, Part, Source, Way, changes, defaults, diff,
    entries, source_of, visit,
};
pub use fields::NameText;
pub use item_list::ItemList;
pub use load::{LoadError, MAX_FILE_BYTES, load, parse, read, schema};
pub use model::*;
pub use position::*;
pub use problem::{MAX_PROBLEMS, Problem, Problems};
pub use values::*;
