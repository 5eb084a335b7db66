//! Lists of ways through other VPCs.
//!
//! A packet that passes through a VPC is asked for by that VPC's egress rules, and what is delivered in another VPC by that one's ingress
//! rules. All of them must permit it, and the gateway looks up one list: so the lists of a way are made one. Its rules are what two rules of
//! two lists have in common, in the order of the first list, then of the second: of all pairs that match a packet, the first is
//! that of the rules that decide in the one list and in the other.

use super::acl::{Match, Row, rows};
use super::numbers::Way;
use super::{Maker, Part};
use crate::model::{Verdict, Vpc};
use std::collections::HashMap;

impl Maker<'_> {
    pub(super) fn acl_transit(&mut self) {
        let numbers = self.numbers;
        let index = match self.part {
            Part::Vpcs(_) => self.region.vpc_indices(),
            _ => HashMap::new(),
        };
        let in_part = |name: &String| index.get(name.as_str()).is_none_or(|vpc| self.part.has_vpc(*vpc));
        let ways: Vec<&Way> = numbers.ways.keys().filter(|way| way.via.iter().all(in_part)).collect();
        for way in ways {
            for v6 in [0, 1] {
                self.way(way, numbers.list_of(way), v6);
            }
        }
    }

    fn way(&mut self, way: &Way, list: u32, v6: usize) {
        let file = &self.region.file;
        let vpc = |name: &String| file.vpcs.iter().find(|vpc| &*vpc.name.value == name.as_str());
        let through = way.via.iter().filter_map(vpc).map(|vpc| whole(vpc, true, v6));
        let delivered = way.to.iter().filter_map(vpc).map(|vpc| whole(vpc, false, v6));
        let all = through.chain(delivered).reduce(|first, second| both(&first, &second)).unwrap_or_default();
        let on = way.via.join(", ");
        for (row, priority) in all.iter().zip((1..=all.len() as i32).rev()) {
            let action = match (row.verdict, row.egress) {
                (Verdict::Permit, _) => 0,
                (Verdict::Deny, false) => 1,
                (Verdict::Deny, true) => 2,
            };
            let entry = self.api.acl_in[v6].entry(row.flow.keys(list, v6), action, vec![]).with_priority(priority);
            self.add(entry, row.at, format_args!("by way of {on}: {}", row.what));
        }
    }
}

/// A VPC's list with its default at the end, which matches all that is left.
fn whole(vpc: &Vpc, egress: bool, v6: usize) -> Vec<Row> {
    let mut list = rows(vpc, egress, v6);
    let what = format!("VPC {}: acl_default", vpc.name.value);
    list.push(Row { flow: Match::default(), verdict: vpc.acl_default, egress, priority: 0, at: vpc.name.at, what });
    list
}

/// What both lists permit.
fn both(first: &[Row], second: &[Row]) -> Vec<Row> {
    let pairs = |row: &Row| match row.verdict {
        Verdict::Deny => vec![row.clone()],
        Verdict::Permit => {
            let common = |other: &Row| Some(Row { flow: row.flow.and(&other.flow)?, ..other.clone() });
            second.iter().filter_map(common).collect()
        }
    };
    first.iter().flat_map(pairs).collect()
}
