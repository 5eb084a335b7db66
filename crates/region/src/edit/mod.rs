//! From one text of a region file to the next without reading all of it again.
//!
//! Most changes concern one VPC or a few machines of a file of millions of lines. Two texts are
//! compared byte by byte; if they differ within the items of `vpcs` or `vms` alone, these items
//! are read, and checked together with all that they can be in conflict with: the other VPCs that
//! routes lead to, the other machines of the VPC, names and VNIs of all. In every other case, and
//! if anything is wrong, there is no [`Edit`], and the file is read as a whole: so what is said
//! of mistakes does not depend on the version before, and neither does what is accepted
//! (`tests/edits.rs`).

mod difference;
mod hunk;
mod name_hashes;
mod part;
mod text;

use crate::check::{FlatRoute, MAX_PEER_ROUTES, MAX_WAYS, Region};
use crate::fields::NameText;
use crate::load::{LoadError, MAX_FILE_BYTES};
use crate::model::{Vm, Vpc};
use crate::problem::Problems;
use crate::sections::{Section, Sections, item_count, line_count};
use crate::shift::Shift;
use difference::{Comparison, Difference};
use hunk::Hunk;
use name_hashes::NameHashes;
use std::collections::{BTreeSet, HashSet};
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::ops::Range;
use std::path::Path;
use text::Text;

/// How much of a text is compared at a time.
const READ_BYTES: usize = 1 << 17;

/// A region file that was read and checked: its text, and what it says.
#[derive(Debug)]
pub struct Document {
    text: Text,
    sections: Sections,
    /// Of machines.
    names: NameHashes,
    /// What it says.
    pub region: Region,
}

/// The way from a [`Document`] to another one, which differs in some VPCs or machines.
#[derive(Debug)]
pub struct Edit {
    /// VPCs by index whose entries may differ, before and after the edit.
    pub vpcs: BTreeSet<usize>,
    /// Bytes of the text that are replaced, and what stands there afterwards.
    bytes: Range<usize>,
    text: String,
    /// How many lines what stands behind them moves.
    lines: i64,
    items: Items,
}

/// Items that take the place of others.
#[derive(Debug)]
enum Items {
    /// Machines, each with the indices of its VPC and server.
    Vms(Range<usize>, Vec<(Vm, (usize, usize))>),
    /// As many VPCs as before, with the same names, from this index on; and the routes of all
    /// that their routes reach.
    Vpcs(usize, Vec<Vpc>, Vec<Routes>),
}

/// The route tables of a VPC, resolved: see [`Region`].
#[derive(Debug)]
struct Routes {
    vpc: usize,
    tables: Vec<Vec<FlatRoute>>,
    policies: Vec<usize>,
    peer_routes: usize,
}

impl Document {
    /// Reads and checks a text; `name` is the file's name in problems.
    ///
    /// # Errors
    /// As [`crate::parse`].
    pub fn parse(name: &str, text: String) -> Result<Document, Problems> {
        let sections = Sections::of(&text);
        let region = crate::load::parse_with_sections(name, &text, &sections)?;
        let names = NameHashes::of(region.file.vms.iter().map(|vm| &*vm.name.value));
        Ok(Document { text: Text::new(text), sections, names, region })
    }

    /// What leads to another text, if that can be told without reading all of it; the whole of it
    /// is read otherwise. An edit is good: what [`Document::apply`] makes is what
    /// [`Document::parse`] makes of the text.
    pub fn edit(&self, text: &str) -> Option<Edit> {
        let mut comparison = Comparison::new(&self.text, text.len());
        text.as_bytes().chunks(READ_BYTES).all(|bytes| comparison.feed(bytes)).then_some(())?;
        self.edit_of(&comparison.finish()?)
    }

    /// As [`Document::edit`], for the text of a file, of which no more is kept than what differs.
    ///
    /// # Errors
    /// If it can't be read.
    pub fn edit_to_file(&self, path: &Path) -> Result<Option<Edit>, LoadError> {
        let failed = |source| LoadError::Read { path: path.to_owned(), source };
        let mut file = File::open(path).map_err(failed)?;
        let len = file.metadata().map_err(failed)?.len();
        if len > MAX_FILE_BYTES {
            return Ok(None);
        }
        let mut comparison = Comparison::new(&self.text, len as usize);
        let mut buffer = vec![0; READ_BYTES];
        loop {
            match file.read(&mut buffer) {
                Ok(0) => return Ok(comparison.finish().and_then(|difference| self.edit_of(&difference))),
                Ok(count) if comparison.feed(&buffer[..count]) => {}
                // It grows, or has no length that is known.
                Ok(_) => return Ok(None),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(failed(error)),
            }
        }
    }

    fn edit_of(&self, difference: &Difference) -> Option<Edit> {
        let mut hunk = Hunk::find(&self.sections, &self.text, difference)?;
        let file = &self.region.file;
        let (vpcs, items) = match hunk.section {
            Section::Servers => return None,
            Section::Vms => {
                let line = |at| {
                    let (vm, lines) = file.vms.with_shift(at);
                    vm.name.at.shifted(lines).line
                };
                let old = trimmed_indices(&mut hunk, file.vms.len(), line)?;
                part::vms(&self.region, &self.names, old, &hunk)?
            }
            Section::Vpcs => {
                let old = trimmed_indices(&mut hunk, file.vpcs.len(), |at| file.vpcs[at].name.at.line)?;
                part::vpcs(&self.region, old, &hunk)?
            }
        };
        let Hunk { bytes, new, lines, .. } = hunk;
        Some(Edit { vpcs, bytes, text: new, lines, items })
    }

    /// Has the edit in force, and gives the one that leads back.
    pub fn apply(&mut self, edit: Edit) -> Edit {
        let Edit { vpcs, bytes, text, lines, items } = edit;
        let old_text = self.text.slice(bytes.clone());
        self.text.replace(bytes.clone(), &text);
        self.sections.shift(bytes.end, text.len() as i64 - old_text.len() as i64);
        let bytes = bytes.start..bytes.start + text.len();
        let items = match items {
            Items::Vms(range, new) => self.replace_vms(range, new, lines),
            Items::Vpcs(first, new, routes) => self.replace_vpcs(first, new, routes, lines),
        };
        Edit { vpcs, bytes, text: old_text, lines: -lines, items }
    }

    fn replace_vms(&mut self, range: Range<usize>, new: Vec<(Vm, (usize, usize))>, lines: i64) -> Items {
        let end = range.start + new.len();
        let (vms, places): (Vec<Vm>, Vec<_>) = new.into_iter().unzip();
        let names: Vec<NameText> = vms.iter().map(|vm| vm.name.value.clone()).collect();
        let region = &mut self.region;
        let old_vms = region.file.vms.replace(range.clone(), vms, lines);
        let old_places: Vec<(usize, usize)> = region.vm_places.splice(range.clone(), places).collect();
        self.names.replace(old_vms.iter().map(|vm| &*vm.name.value), names.iter().map(|name| &**name));
        if lines != 0 {
            self.shift_other(Section::Vms, lines);
        }
        Items::Vms(range.start..end, old_vms.into_iter().zip(old_places).collect())
    }

    fn replace_vpcs(&mut self, first: usize, new: Vec<Vpc>, routes: Vec<Routes>, lines: i64) -> Items {
        let end = first + new.len();
        let region = &mut self.region;
        let old: Vec<Vpc> = region.file.vpcs.splice(first..end, new).collect();
        if lines != 0 {
            let replaced: BTreeSet<usize> = routes.iter().map(|routes| routes.vpc).collect();
            region.file.vpcs[end..].iter_mut().for_each(|vpc| vpc.shift(lines));
            let others = (end..).zip(&mut region.tables[end..]).filter(|(vpc, _)| !replaced.contains(vpc));
            others.for_each(|(_, tables)| tables.shift(lines));
            self.shift_other(Section::Vpcs, lines);
        }
        let region = &mut self.region;
        let replace = |mut routes: Routes| {
            let Routes { vpc, tables, policies, peer_routes } = &mut routes;
            std::mem::swap(&mut region.tables[*vpc], tables);
            std::mem::swap(&mut region.policies[*vpc], policies);
            std::mem::swap(&mut region.peer_routes[*vpc], peer_routes);
            routes
        };
        Items::Vpcs(first, old, routes.into_iter().map(replace).collect())
    }

    /// Moves the lines of what stands behind the items of a section.
    fn shift_other(&mut self, edited: Section, lines: i64) {
        let region = &mut self.region;
        let file = &mut region.file;
        let behind = |key: &str| self.sections.is_behind(key, edited);
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

/// Leaves what is the same out of a hunk; the indices of the items that it replaces then.
fn trimmed_indices(hunk: &mut Hunk, len: usize, line: impl Fn(usize) -> u32) -> Option<Range<usize>> {
    // What looks like an item is one only if the list has as many in these lines.
    let all = indices(hunk, len, line)?;
    let [front, back] = hunk.trim();
    Some(all.start + front..all.end - back)
}

/// The items of a list that a hunk replaces, by the lines of their names; none if others are in
/// these lines, too.
fn indices(hunk: &Hunk, len: usize, line: impl Fn(usize) -> u32) -> Option<Range<usize>> {
    let (mut first, mut behind) = (0, len);
    while first < behind {
        let middle = (first + behind) / 2;
        if line(middle) < hunk.line { first = middle + 1 } else { behind = middle }
    }
    let end = u64::from(hunk.line) + line_count(&hunk.old);
    let count = (first..len).take_while(|at| (u64::from(hunk.line)..end).contains(&u64::from(line(*at)))).count();
    (item_count(&hunk.old, hunk.indent) == count).then_some(first..first + count)
}

/// Whether there are too many routes of peers to look at, or ways through other VPCs, for a
/// region as a whole.
fn are_too_many(region: &Region, routes: &[Routes]) -> bool {
    let replaced: BTreeSet<usize> = routes.iter().map(|routes| routes.vpc).collect();
    let kept = (0..).zip(&region.tables).filter(|(vpc, _)| !replaced.contains(vpc)).map(|(_, tables)| tables);
    let all = kept.chain(routes.iter().map(|routes| &routes.tables)).flatten().flatten();
    if all.filter_map(FlatRoute::way).collect::<HashSet<_>>().len() > MAX_WAYS {
        return true;
    }
    let others: usize = region.peer_routes.iter().sum();
    let before: usize = routes.iter().map(|routes| region.peer_routes[routes.vpc]).sum();
    let after: usize = routes.iter().map(|routes| routes.peer_routes).sum();
    others - before + after > MAX_PEER_ROUTES
}
