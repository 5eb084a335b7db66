//! Compares the published JSON Schema with that of the configuration (`BLESS=1` rewrites it), and
//! checks the example of docs/reference/node.md.

fn docs(name: &str) -> String {
    format!("{}/../../docs/reference/{name}", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn the_published_schema_is_current() {
    let current = serde_json::to_string_pretty(&node::config::schema()).expect("a schema is JSON") + "\n";
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(docs("node.schema.json"), &current).expect("docs/ can be written");
    }
    let published = std::fs::read_to_string(docs("node.schema.json")).unwrap_or_default();
    assert!(
        published == current,
        "docs/reference/node.schema.json is not current: run `BLESS=1 cargo test --workspace --test files schema`"
    );
}

#[test]
fn the_example_of_the_page_has_all_keys_and_only_those() {
    let page = std::fs::read_to_string(docs("node.md")).expect("the page is there");
    let example = page.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("an example");
    let mistakes = node::config::check(example, terraced::wings()).err().unwrap_or_default();
    // Its certificates, program and sizing file do not exist here, and its token is a placeholder.
    let expected = ["certificate", "key", "client_authority", "hexadecimal", "`sizing_file`", "`program`"];
    for mistake in &mistakes {
        assert!(expected.iter().any(|word| mistake.message.contains(word)), "{}", mistake.message);
    }
    assert_eq!(mistakes.len(), 6, "{mistakes:?}");
    let schema = node::config::schema();
    let mut keys: Vec<String> = Vec::new();
    let parts = schema["$defs"].as_object().expect("parts").values().chain([&schema]);
    parts.filter_map(|part| part["properties"].as_object()).for_each(|all| keys.extend(all.keys().cloned()));
    for key in keys {
        let shown = example.contains(&format!("{key} ="))
            || example.contains(&format!("[{key}]"))
            || example.contains(&format!(".{key}]]"))
            || example.contains(&format!("[[{key}]]"));
        assert!(shown, "the example does not show `{key}`");
    }
}
