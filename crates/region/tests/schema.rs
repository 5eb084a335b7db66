//! The published JSON Schema is that of the model. `BLESS=1` rewrites it.

#[test]
fn the_published_schema_is_current() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/region.schema.json");
    let current = serde_json::to_string_pretty(&region::schema()).expect("a schema is JSON") + "\n";
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(path, &current).expect("docs/ can be written");
    }
    let published = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        published == current,
        "docs/region.schema.json is not current: run `BLESS=1 cargo test -p region --test schema`"
    );
}
