//! Combined ACL lists of transit paths.
//!
//! A packet that passes through other VPCs must pass the egress rules of each of them, and the
//! ingress rules of the VPC that it is delivered in. The gateway looks up one list, so the lists of
//! a path are combined. The combined rules are the intersections of one rule from each of two
//! lists, ordered by the first list, then by the second. The first one that matches a packet
//! combines the two rules that decide in the original lists.

use super::acl::{AclMatch, AclRow, acl_rows, action_index};
use super::ids::TransitPath;
use super::{EntryBuilder, RegionPart};
use crate::model::{AclAction, Vpc};
use std::collections::HashMap;

impl EntryBuilder<'_> {
    pub(super) fn add_acl_transit(&mut self) {
        let numbers = self.numbers;
        let index = match self.part {
            RegionPart::Vpcs(_) => self.region.vpc_indices(),
            _ => HashMap::new(),
        };
        let in_part = |name: &String| index.get(name.as_str()).is_none_or(|vpc| self.part.has_vpc(*vpc));
        let ways: Vec<&TransitPath> = numbers.ways.keys().filter(|way| way.via.iter().all(in_part)).collect();
        for way in ways {
            for v6 in [0, 1] {
                self.add_transit_list(way, numbers.list_of(way), v6);
            }
        }
    }

    fn add_transit_list(&mut self, way: &TransitPath, list: u32, v6: usize) {
        let file = &self.region.file;
        let vpc = |name: &String| file.vpcs.iter().find(|vpc| &*vpc.name.value == name.as_str());
        let through = way.via.iter().filter_map(vpc).map(|vpc| list_with_default(vpc, true, v6));
        let delivered = way.to.iter().filter_map(vpc).map(|vpc| list_with_default(vpc, false, v6));
        let all = through.chain(delivered).reduce(|first, second| combine_lists(&first, &second)).unwrap_or_default();
        let on = way.via.join(", ");
        for (row, priority) in all.iter().zip((1..=all.len() as i32).rev()) {
            let action = action_index(row.verdict, row.egress);
            let entry = self.api.acl_in[v6].entry(row.flow.keys(list, v6), action, vec![]).with_priority(priority);
            self.add_entry(entry, row.at, format_args!("through {on}: {}", row.what));
        }
    }
}

/// Returns a VPC's list with its default at the end, which matches all remaining packets.
fn list_with_default(vpc: &Vpc, egress: bool, v6: usize) -> Vec<AclRow> {
    let mut list = acl_rows(vpc, egress, v6);
    let what = format!("VPC {}: acl_default", vpc.name.value);
    list.push(AclRow {
        flow: AclMatch::default(),
        verdict: vpc.acl_default,
        egress,
        priority: 0,
        at: vpc.name.at,
        what,
    });
    list
}

/// Combines two lists: a packet must be permitted by both.
fn combine_lists(first: &[AclRow], second: &[AclRow]) -> Vec<AclRow> {
    let pairs = |row: &AclRow| match row.verdict {
        AclAction::Deny | AclAction::Reject => vec![row.clone()],
        AclAction::Permit => {
            let common = |other: &AclRow| Some(AclRow { flow: row.flow.intersect(&other.flow)?, ..other.clone() });
            second.iter().filter_map(common).collect()
        }
    };
    first.iter().flat_map(pairs).collect()
}
