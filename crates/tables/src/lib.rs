//! Table entries and their validation; plain correct lookups; atomic publication
