//! Checks the recipes of docs/how-to/region.md: each is added to the region of the tutorial.

use serde_json::Value;
use std::path::PathBuf;

/// Objects that recipes refer to and that the tutorial's region lacks.
const NEIGHBOURS: &str = "
uplinks:
- {name: to-idc, port: 3, mac: 02:00:00:03:00:01, peer_mac: 02:00:00:03:00:02}
remotes:
- {name: firewall, kind: idc, address: 198.51.100.20, vni: 6000, mac: 02:00:00:00:60:01, uplinks: [to-idc]}
";

fn docs() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

fn yaml(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// Merges a piece of a region file: mappings by key, lists by the name of their items.
fn merge(base: &mut Value, piece: Value) {
    match (base, piece) {
        (Value::Object(base), Value::Object(piece)) => {
            for (key, value) in piece {
                match base.get_mut(&key) {
                    Some(old) => merge(old, value),
                    None => _ = base.insert(key, value),
                }
            }
        }
        (Value::Array(base), Value::Array(piece)) => {
            for item in piece {
                if base.contains(&item) {
                    continue;
                }
                let name = item.get("name").cloned();
                match base.iter_mut().find(|old| name.is_some() && old.get("name") == name.as_ref()) {
                    Some(old) => merge(old, item),
                    None => base.push(item),
                }
            }
        }
        (base, piece) => *base = piece,
    }
}

/// Returns the YAML blocks of a page. A block with routes only belongs to the VPC `shop`.
fn recipes(page: &str) -> Vec<Value> {
    let blocks = page.split("\n```yaml\n").skip(1).filter_map(|after| after.split("\n```\n").next());
    let complete = |block: &str| match block.starts_with(' ') {
        true => yaml(&format!("vpcs:\n  - name: shop\n{block}")),
        false => yaml(block),
    };
    blocks.map(complete).collect()
}

#[test]
fn recipes_make_a_region_that_is_accepted() {
    let tutorial = std::fs::read_to_string(docs().join("tutorial/first-region.md")).expect("the tutorial");
    let first = tutorial.split("<<'YAML'\n").nth(1).and_then(|after| after.split("\nYAML\n").next());
    let mut base = yaml(first.expect("the region of the tutorial"));
    merge(&mut base, yaml(NEIGHBOURS));
    let page = std::fs::read_to_string(docs().join("how-to/region.md")).expect("the recipes");
    let recipes = recipes(&page);
    assert!(recipes.len() >= 8, "only {} recipes found", recipes.len());
    for recipe in recipes {
        let mut region = base.clone();
        merge(&mut region, recipe.clone());
        let text = serde_json::to_string_pretty(&region).expect("JSON");
        if let Err(problems) = region::parse("recipe.yaml", &text) {
            panic!("{problems}\n{recipe:#}");
        }
    }
}
