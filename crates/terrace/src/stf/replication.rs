//! Multicast nodes and groups, as bmv2's command line builds them.
//!
//! A node is a replication id with ports. Nodes are numbered in order of creation. A group is a
//! list of nodes.

use entries::Replica;
use std::collections::BTreeMap;
use thiserror::Error;

/// A multicast command names a missing object.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ReplicationError {
    /// The group does not exist.
    #[error("multicast group {0} does not exist; create it with mc_mgrp_create {0}")]
    UnknownGroup(u32),
    /// The node does not exist.
    #[error("multicast node {0} does not exist; nodes are numbered from 0 by mc_node_create, and {1} were made")]
    UnknownNode(u32, usize),
}

/// All multicast nodes and groups.
#[derive(Clone, Debug, Default)]
pub struct Replication {
    nodes: Vec<(u16, Vec<u32>)>,
    groups: BTreeMap<u32, Vec<usize>>,
}

impl Replication {
    /// Adds a group without nodes. An existing group is unchanged.
    pub fn create_group(&mut self, group: u32) {
        self.groups.entry(group).or_default();
    }

    /// Adds a node.
    pub fn create_node(&mut self, rid: u16, ports: Vec<u32>) {
        self.nodes.push((rid, ports));
    }

    /// Replaces the ports of a node.
    pub fn update_node(&mut self, node: u32, ports: Vec<u32>) -> Result<(), ReplicationError> {
        let count = self.nodes.len();
        let slot = self.nodes.get_mut(node as usize).ok_or(ReplicationError::UnknownNode(node, count))?;
        slot.1 = ports;
        Ok(())
    }

    /// Adds a node to a group.
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

    /// Returns the replicas of each group, in the order of its nodes. bmv2 holds a group's nodes as
    /// a list and sends in that order.
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
