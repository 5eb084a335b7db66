//! Packet builders, generators, the differential harness, the netns lab (dev only)
