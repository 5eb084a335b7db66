//! Multicast nodes and groups as bmv2's command line builds them.
//!
//! A node is a replication id with ports and is numbered in order of creation; groups are made of nodes.

use entries::Replica;
use std::collections::BTreeMap;
use thiserror::Error;

/// What a multicast command names that does not exist.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ReplicationError {
    /// No such group.
    #[error("multicast group {0} does not exist; create it with mc_mgrp_create {0}")]
    UnknownGroup(u32),
    /// No such node.
    #[error("multicast node {0} does not exist; nodes are numbered from 0 by mc_node_create, and {1} were made")]
    UnknownNode(u32, usize),
}

/// All nodes and groups.
#[derive(Clone, Debug, Default)]
pub struct Replication {
    nodes: Vec<(u16, Vec<u32>)>,
    groups: BTreeMap<u32, Vec<usize>>,
}

impl Replication {
    /// Adds a group without nodes. One that exists is left as it is.
    pub fn create_group(&mut self, group: u32) {
        self.groups.entry(group).or_default();
    }

    /// Adds a node.
    pub fn create_node(&mut self, rid: u16, ports: Vec<u32>) {
        self.nodes.push((rid, ports));
    }

    /// Gives a node other ports.
    pub fn update_node(&mut self, node: u32, ports: Vec<u32>) -> Result<(), ReplicationError> {
        let count = self.nodes.len();
        let slot = self.nodes.get_mut(node as usize).ok_or(ReplicationError::UnknownNode(node, count))?;
        slot.1 = ports;
        Ok(())
    }

    /// Puts a node into a group.
    pub fn associate(&mut self, group: u32, node: u32) -> Result<(), ReplicationError> {
        if node as usize >= self.nodes.len() {
            return Err(ReplicationError::UnknownNode(node, self.nodes.len()));
        }
        let members = self.groups.get_mut(&group).ok_or(ReplicationError::UnknownGroup(group))?;
        if !members.contains(&(node as usize)) {
            members.push(node as usize);
        }
        Ok(())
    }

    /// The copies that each group makes. bmv2 holds a group's nodes as a list and sends in that order.
    pub fn groups(&self) -> impl Iterator<Item = (u32, Vec<Replica>)> {
        self.groups.iter().map(|(group, members)| {
            let replicas = members.iter().flat_map(|node| {
                let (rid, ports) = &self.nodes[*node];
                ports.iter().map(|port| Replica { port: *port, instance: *rid })
            });
            (*group, replicas.collect())
        })
    }
}
