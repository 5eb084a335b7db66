//! Runs inputs that once caused a panic, found by the fuzz targets: tests/crashes/<target>/, each
//! described in tests/crashes/README.md.

use std::path::PathBuf;
use testkit::gateway;

fn inputs(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = gateway::root().join("tests/crashes").join(target);
    let files = std::fs::read_dir(&folder).map(|f| f.flatten().map(|e| e.path()).collect()).unwrap_or_else(|_| vec![]);
    let readme =
        std::fs::read_to_string(gateway::root().join("tests/crashes/README.md")).expect("tests/crashes/README.md");
    files
        .into_iter()
        .map(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            assert!(readme.contains(&name), "tests/crashes/README.md says nothing of {name}");
            let bytes = std::fs::read(&path).expect("a file");
            (path, bytes)
        })
        .collect()
}

#[test]
fn p4_source() {
    for (path, bytes) in inputs("p4_source") {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let mut loader = p4::preprocess::MemoryLoader::new().with("main.p4", text);
        for name in ["core.p4", "v1model.p4", "pna.p4"] {
            let text =
                std::fs::read_to_string(gateway::root().join("programs/include").join(name)).expect("an include file");
            loader = loader.with(format!("include/{name}"), text);
        }
        let options = p4::compile::CompileOptions { include_dirs: vec!["include".into()], ..Default::default() };
        let compiled = p4::compile::compile(&loader, "main.p4".as_ref(), &options);
        for diagnostic in &compiled.diagnostics {
            assert!(!diagnostic.render(&compiled.source_map, false).is_empty(), "{}", path.display());
        }
    }
}

#[test]
fn ir_text() {
    for (path, bytes) in inputs("ir_text") {
        if let Ok(pipeline) = ir::text::parse(&String::from_utf8_lossy(&bytes)) {
            let again = ir::text::parse(&ir::text::print(&pipeline));
            assert!(again.as_ref() == Ok(&pipeline), "{}: printing lost something", path.display());
            let _ = ir::verify::verify(&pipeline);
        }
    }
}

#[test]
fn region_file() {
    for (_, bytes) in inputs("region_file") {
        let _ = region::parse("crash.yaml", &String::from_utf8_lossy(&bytes));
    }
}

#[test]
fn packets() {
    let region = region::load(&gateway::root().join("tests/regions/plain.yaml")).expect("the example is right");
    let mut engine = gateway::gateway_engine(gateway::pipeline().expect("the gateway compiles"), &region)
        .expect("entries are taken");
    let model = testkit::model::Model::new(&region);
    // A second apart, so that no limit of ICMP errors is reached.
    for ((path, bytes), second) in inputs("packets").into_iter().zip(0..) {
        let outputs = engine.process(&bytes, 1, second * 1_000_000_000);
        let found = gateway::model_verdict(&engine, &outputs).expect("a verdict of the gateway's own");
        assert_eq!(model.process(&bytes, 1), found, "{}", path.display());
    }
}
