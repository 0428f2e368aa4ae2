//! The sources of crates that bundle C or C++, where cargo keeps them.
//!
//! `Cargo.toml` names these crates under a condition that never holds: cargo builds none of them,
//! but its lock file pins them, by version and by hash, and `cargo metadata` fetches missing ones.
//! Nothing of theirs is in this repository.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use cargo_metadata::{CargoOpt, Metadata, MetadataCommand};

/// The folder of the package with this name, unpacked.
///
/// Cost: one run of cargo in each process that asks.
///
/// # Panics
/// If cargo can't fetch it (it may need the network once), or if this crate's manifest does not
/// name it.
#[must_use]
pub fn folder_of(package: &str) -> PathBuf {
    static METADATA: OnceLock<Metadata> = OnceLock::new();
    let packages = &METADATA.get_or_init(metadata).packages;
    let found = packages.iter().find(|it| it.name.as_str() == package);
    let found = found.unwrap_or_else(|| panic!("tests/Cargo.toml does not name the package {package}"));
    found.manifest_path.parent().expect("a manifest lies in a folder").into()
}

/// Returns cargo's metadata, from its own files if all of them exist.
fn metadata() -> Metadata {
    let ask = |options: &[&str]| {
        MetadataCommand::new()
            .manifest_path(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml"))
            .features(CargoOpt::AllFeatures)
            .other_options(options.iter().map(ToString::to_string).collect::<Vec<_>>())
            .exec()
    };
    ask(&["--locked", "--offline"]).or_else(|_| ask(&["--locked"])).unwrap_or_else(|error| {
        panic!(
            "the sources of the packages under `cfg(any())` in tests/Cargo.toml are neither in cargo's registry cache nor to be \
             had now; `cargo fetch --locked` with a network fetches them: {error}"
        )
    })
}
