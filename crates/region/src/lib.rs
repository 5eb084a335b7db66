//! Tenants' intent: a region file in YAML to table entries
