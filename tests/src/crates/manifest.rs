//! The manifest of a copy: the published one without targets that are not built, and with further
//! dependencies.
//!
//! Optional dependencies that no default feature asks for are taken out, since cargo would have to
//! know them to build without them. A feature of their name stays, so that the compiler knows the
//! conditions which name it.

use std::collections::BTreeSet;

use toml::{Table, Value};

use super::{Crate, Dependency};

const DEPENDENCIES: [&str; 3] = ["dependencies", "dev-dependencies", "build-dependencies"];

/// The new manifest.
pub(super) fn edited(manifest: &str, it: &Crate, more: &[Dependency<'_>]) -> String {
    let mut manifest: Table = manifest.parse().expect("a manifest is TOML");
    manifest.remove("bench");
    manifest.remove("profile");
    if let Some(Value::Array(tests)) = manifest.get_mut("test") {
        tests.retain(|test| !it.without.iter().any(|name| test["name"].as_str() == Some(name)));
    }
    let wanted = wanted(&manifest);
    let mut gone = BTreeSet::new();
    let targets = manifest.get_mut("target").and_then(Value::as_table_mut);
    for target in targets.into_iter().flat_map(|it| it.iter_mut()).filter_map(|(_, it)| it.as_table_mut()) {
        prune(target, it, &wanted, &mut gone);
    }
    prune(&mut manifest, it, &wanted, &mut gone);
    let features = table(&mut manifest, "features");
    for (_, needs) in features.iter_mut() {
        let needs = needs.as_array_mut().expect("a feature is a list");
        needs.retain(|need| !gone.contains(named(need.as_str().expect("a name"))));
    }
    for name in gone {
        features.entry(name).or_insert(Value::Array(Vec::new()));
    }
    for Dependency { kind, name, package, folder } in more {
        let mut dependency = Table::new();
        dependency.insert("path".into(), folder.to_str().expect("a path that is text").into());
        dependency.insert("package".into(), (*package).into());
        if *kind == "dependencies" {
            dependency.insert("default-features".into(), false.into());
        }
        table(&mut manifest, kind).insert((*name).into(), dependency.into());
    }
    manifest.insert("workspace".into(), Table::new().into());
    manifest.to_string()
}

fn table<'a>(manifest: &'a mut Table, name: &str) -> &'a mut Table {
    let entry = manifest.entry(name).or_insert_with(|| Table::new().into());
    entry.as_table_mut().expect("it is a table")
}

/// All that the default features ask for: features and dependencies.
fn wanted(manifest: &Table) -> BTreeSet<String> {
    let mut wanted = BTreeSet::new();
    let mut open = vec!["default".to_owned()];
    while let Some(name) = open.pop() {
        let needs = manifest.get("features").and_then(|it| it.get(&name)).and_then(Value::as_array);
        if wanted.insert(name) {
            let needs = needs.into_iter().flatten().map(|it| it.as_str().expect("a name"));
            open.extend(needs.filter(|it| !it.contains("?/")).map(|it| named(it).to_owned()));
        }
    }
    wanted
}

/// The feature or dependency that an element of a feature's list names.
fn named(need: &str) -> &str {
    let name = need.strip_prefix("dep:").unwrap_or(need);
    name.split_once('/').map_or(name, |(name, _)| name.trim_end_matches('?'))
}

/// Removes unwanted dependencies from `owner`, and adds their names to `gone`.
fn prune(owner: &mut Table, it: &Crate, wanted: &BTreeSet<String>, gone: &mut BTreeSet<String>) {
    for kind in DEPENDENCIES {
        let Some(Value::Table(dependencies)) = owner.get_mut(kind) else { continue };
        dependencies.retain(|name, dependency| {
            let is_optional = dependency.get("optional").and_then(Value::as_bool) == Some(true);
            let is_unused = kind == "dev-dependencies" && it.unused.contains(&name);
            let is_kept = !is_unused && (!is_optional || wanted.contains(name));
            if !is_kept {
                gone.insert(name.to_owned());
            }
            is_kept
        });
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    const MANIFEST: &str = r#"
        [package]
        name = "x"
        [features]
        default = ["fast"]
        fast = ["dep:kept", "gone?/fast"]
        gone-too = ["dep:gone", "std"]
        std = []
        [[bench]]
        name = "b"
        [[test]]
        name = "serde"
        [[test]]
        name = "t"
        [dependencies.kept]
        version = "1"
        optional = true
        [dependencies.gone]
        version = "1"
        optional = true
        [dependencies.always]
        version = "1"
        [dev-dependencies.criterion]
        version = "1"
        [target."cfg(any())".dependencies.far]
        version = "1"
        optional = true
    "#;

    #[test]
    fn what_is_not_built_is_not_there() {
        let it = Crate { name: "x", unused: &["criterion"], without: &["serde"] };
        let more = Dependency {
            kind: "dependencies",
            name: "probe-runtime",
            package: "bare",
            folder: Path::new("/b"),
        };
        let expected: Table = r#"
            [package]
            name = "x"
            [features]
            default = ["fast"]
            fast = ["dep:kept"]
            gone-too = ["std"]
            gone = []
            far = []
            criterion = []
            std = []
            [[test]]
            name = "t"
            [dependencies.kept]
            version = "1"
            optional = true
            [dependencies.always]
            version = "1"
            [dependencies.probe-runtime]
            path = "/b"
            package = "bare"
            default-features = false
            [dev-dependencies]
            [target."cfg(any())".dependencies]
            [workspace]
        "#
        .parse()
        .unwrap();
        assert_eq!(edited(MANIFEST, &it, &[more]).parse::<Table>().unwrap(), expected);
    }
}
