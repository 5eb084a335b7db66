//! Updates a checked region file to a new text without reading all of it.
//!
//! Most changes concern one VPC or a few machines of a file of millions of lines. Two texts are
//! compared byte by byte. If they differ only within items of `vpcs` or `vms`, these items are
//! parsed and checked together with all objects that they can conflict with: the VPCs that their
//! routes reach, the other machines of the VPC, and the names and VNIs of all. In every other case,
//! and on any error, no [`Edit`] is returned and the caller reads the whole file. So neither the
//! result nor the messages depend on the previous version (`tests/edits.rs`).

mod difference;
mod hunk;
mod name_hashes;
mod part;
mod text;

use crate::check::{FlatRoute, MAX_PEER_ROUTES, MAX_TRANSIT_PATHS, ResolvedRegion};
use crate::fields::NameText;
use crate::load::{MAX_FILE_BYTES, RegionLoadError};
use crate::model::{Vm, Vpc};
use crate::problem::Problems;
use crate::sections::{Section, Sections, item_count, line_count};
use crate::shift::Shift;
use difference::{TextComparison, TextDifference};
use hunk::Hunk;
use name_hashes::NameHashes;
use std::collections::{BTreeSet, HashSet};
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::ops::Range;
use std::path::Path;
use text::PieceText;

/// Number of bytes of a text that are compared at a time.
const READ_BYTES: usize = 1 << 17;

/// A region file that was read and checked, with its text.
#[derive(Debug)]
pub struct Document {
    text: PieceText,
    sections: Sections,
    /// Hashes of the names of all machines.
    names: NameHashes,
    /// The checked region.
    pub region: ResolvedRegion,
}

/// A change from one [`Document`] to another one that differs in some VPCs or machines.
#[derive(Debug)]
pub struct Edit {
    /// Indices of the VPCs with possibly different entries between both versions.
    pub vpcs: BTreeSet<usize>,
    /// Byte range of the text that is replaced, and the replacement.
    bytes: Range<usize>,
    text: String,
    /// Number of lines by which all text after the range moves.
    lines: i64,
    items: EditItems,
}

/// Items that replace others.
#[derive(Debug)]
enum EditItems {
    /// Index range of the machines, and the new ones with the indices of their VPC and server.
    Vms(Range<usize>, Vec<(Vm, (usize, usize))>),
    /// Index of the first VPC, the new VPCs with the same number and names, and the routes of all
    /// VPCs that their routes reach.
    Vpcs(usize, Vec<Vpc>, Vec<VpcRoutes>),
}

/// The resolved route tables of a VPC, as in [`ResolvedRegion`].
#[derive(Debug)]
struct VpcRoutes {
    vpc: usize,
    tables: Vec<Vec<FlatRoute>>,
    policies: Vec<usize>,
    peer_routes: usize,
}

impl Document {
    /// Reads and checks a text; `name` is the file's name in problems.
    ///
    /// # Errors
    /// The content is wrong, as for [`crate::parse`].
    pub fn parse(name: &str, text: String) -> Result<Document, Problems> {
        let sections = Sections::of(&text);
        let region = crate::load::parse_with_sections(name, &text, &sections)?;
        let names = NameHashes::of(region.file.vms.iter().map(|vm| &*vm.name.value));
        Ok(Document { text: PieceText::new(text), sections, names, region })
    }

    /// Returns the edit to another text, if it can be computed without reading the whole text. Then
    /// [`Document::apply`] has the same result as [`Document::parse`] of that text.
    pub fn edit(&self, text: &str) -> Option<Edit> {
        let mut comparison = TextComparison::new(&self.text, text.len());
        text.as_bytes().chunks(READ_BYTES).all(|bytes| comparison.feed(bytes)).then_some(())?;
        self.edit_of(&comparison.finish()?)
    }

    /// Returns the edit to the text of a file, as [`Document::edit`]. Only the difference is
    /// stored.
    ///
    /// # Errors
    /// The file can't be read.
    pub fn edit_to_file(&self, path: &Path) -> Result<Option<Edit>, RegionLoadError> {
        let failed = |source| RegionLoadError::Read { path: path.to_owned(), source };
        let mut file = File::open(path).map_err(failed)?;
        let len = file.metadata().map_err(failed)?.len();
        if len > MAX_FILE_BYTES {
            return Ok(None);
        }
        let mut comparison = TextComparison::new(&self.text, len as usize);
        let mut buffer = vec![0; READ_BYTES];
        loop {
            match file.read(&mut buffer) {
                Ok(0) => return Ok(comparison.finish().and_then(|difference| self.edit_of(&difference))),
                Ok(count) if comparison.feed(&buffer[..count]) => {}
                // The file is growing, or its length is unknown.
                Ok(_) => return Ok(None),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(failed(error)),
            }
        }
    }

    fn edit_of(&self, difference: &TextDifference) -> Option<Edit> {
        let mut hunk = Hunk::find(&self.sections, &self.text, difference)?;
        let file = &self.region.file;
        let (vpcs, items) = match hunk.section {
            Section::Servers => return None,
            Section::Vms => {
                let line = |at| {
                    let (vm, lines) = file.vms.with_line_shift(at);
                    vm.name.at.shifted(lines).line
                };
                let old = trimmed_indices(&mut hunk, file.vms.len(), line)?;
                part::edit_vms(&self.region, &self.names, old, &hunk)?
            }
            Section::Vpcs => {
                let old = trimmed_indices(&mut hunk, file.vpcs.len(), |at| file.vpcs[at].name.at.line)?;
                part::edit_vpcs(&self.region, old, &hunk)?
            }
        };
        let Hunk { bytes, new, lines, .. } = hunk;
        Some(Edit { vpcs, bytes, text: new, lines, items })
    }

    /// Applies an edit and returns the edit that reverts it.
    pub fn apply(&mut self, edit: Edit) -> Edit {
        let Edit { vpcs, bytes, text, lines, items } = edit;
        let old_text = self.text.slice(bytes.clone());
        self.text.replace(bytes.clone(), &text);
        self.sections.shift(bytes.end, text.len() as i64 - old_text.len() as i64);
        let bytes = bytes.start..bytes.start + text.len();
        let items = match items {
            EditItems::Vms(range, new) => self.replace_vms(range, new, lines),
            EditItems::Vpcs(first, new, routes) => self.replace_vpcs(first, new, routes, lines),
        };
        Edit { vpcs, bytes, text: old_text, lines: -lines, items }
    }

    fn replace_vms(&mut self, range: Range<usize>, new: Vec<(Vm, (usize, usize))>, lines: i64) -> EditItems {
        let end = range.start + new.len();
        let (vms, places): (Vec<Vm>, Vec<_>) = new.into_iter().unzip();
        let names: Vec<NameText> = vms.iter().map(|vm| vm.name.value.clone()).collect();
        let region = &mut self.region;
        let old_vms = region.file.vms.replace(range.clone(), vms, lines);
        let old_places: Vec<(usize, usize)> = region.vm_locations.splice(range.clone(), places).collect();
        self.names.replace(old_vms.iter().map(|vm| &*vm.name.value), names.iter().map(|name| &**name));
        if lines != 0 {
            self.shift_later_keys(Section::Vms, lines);
        }
        EditItems::Vms(range.start..end, old_vms.into_iter().zip(old_places).collect())
    }

    fn replace_vpcs(&mut self, first: usize, new: Vec<Vpc>, routes: Vec<VpcRoutes>, lines: i64) -> EditItems {
        let end = first + new.len();
        let region = &mut self.region;
        let old: Vec<Vpc> = region.file.vpcs.splice(first..end, new).collect();
        if lines != 0 {
            let replaced: BTreeSet<usize> = routes.iter().map(|routes| routes.vpc).collect();
            region.file.vpcs[end..].iter_mut().for_each(|vpc| vpc.shift(lines));
            let others = (end..).zip(&mut region.tables[end..]).filter(|(vpc, _)| !replaced.contains(vpc));
            others.for_each(|(_, tables)| tables.shift(lines));
            self.shift_later_keys(Section::Vpcs, lines);
        }
        let region = &mut self.region;
        let replace = |mut routes: VpcRoutes| {
            let VpcRoutes { vpc, tables, policies, peer_routes } = &mut routes;
            std::mem::swap(&mut region.tables[*vpc], tables);
            std::mem::swap(&mut region.policies[*vpc], policies);
            std::mem::swap(&mut region.peer_routes[*vpc], peer_routes);
            routes
        };
        EditItems::Vpcs(first, old, routes.into_iter().map(replace).collect())
    }

    /// Shifts the lines of all keys after a section.
    fn shift_later_keys(&mut self, edited: Section, lines: i64) {
        let region = &mut self.region;
        let file = &mut region.file;
        let behind = |key: &str| self.sections.is_after(key, edited);
        if behind("region") {
            file.region.shift(lines);
        }
        if behind("gateway") {
            file.gateway.shift(lines);
        }
        if behind("uplinks") {
            file.uplinks.shift(lines);
        }
        if behind("servers") {
            file.servers.shift(lines);
        }
        if behind("remotes") {
            file.remotes.shift(lines);
        }
        if behind("internet") {
            file.internet.shift(lines);
        }
        if behind("peerings") {
            file.peerings.shift(lines);
        }
        if behind("vpcs") {
            file.vpcs.shift(lines);
            region.tables.iter_mut().for_each(|tables| tables.shift(lines));
        }
        if behind("vms") {
            file.vms.shift(lines);
        }
    }
}

/// Removes equal items from a hunk. Returns the indices of the items that it then replaces.
fn trimmed_indices(hunk: &mut Hunk, len: usize, line: impl Fn(usize) -> u32) -> Option<Range<usize>> {
    // The lines can contain text that only looks like an item, so the number of items must match.
    let all = replaced_indices(hunk, len, line)?;
    let [front, back] = hunk.trim_equal_items();
    Some(all.start + front..all.end - back)
}

/// Returns the indices of the items that a hunk replaces, by the lines of their names. `None` if
/// the lines contain other items, too.
fn replaced_indices(hunk: &Hunk, len: usize, line: impl Fn(usize) -> u32) -> Option<Range<usize>> {
    let (mut first, mut behind) = (0, len);
    while first < behind {
        let middle = (first + behind) / 2;
        if line(middle) < hunk.line { first = middle + 1 } else { behind = middle }
    }
    let end = u64::from(hunk.line) + line_count(&hunk.old);
    let count = (first..len).take_while(|at| (u64::from(hunk.line)..end).contains(&u64::from(line(*at)))).count();
    (item_count(&hunk.old, hunk.indent) == count).then_some(first..first + count)
}

/// Returns whether the region would have too many peer routes or too many transit paths.
fn exceeds_limits(region: &ResolvedRegion, routes: &[VpcRoutes]) -> bool {
    let replaced: BTreeSet<usize> = routes.iter().map(|routes| routes.vpc).collect();
    let kept = (0..).zip(&region.tables).filter(|(vpc, _)| !replaced.contains(vpc)).map(|(_, tables)| tables);
    let all = kept.chain(routes.iter().map(|routes| &routes.tables)).flatten().flatten();
    if all.filter_map(FlatRoute::transit_path).collect::<HashSet<_>>().len() > MAX_TRANSIT_PATHS {
        return true;
    }
    let others: usize = region.peer_routes.iter().sum();
    let before: usize = routes.iter().map(|routes| region.peer_routes[routes.vpc]).sum();
    let after: usize = routes.iter().map(|routes| routes.peer_routes).sum();
    others - before + after > MAX_PEER_ROUTES
}
