//! Builds what programs with probes need: the library that they are built with, and the agent that
//! is preloaded into them. Both stay in the user's cache, for all workspaces.
//!
//! The library is built twice, for programs whose panics unwind and for those whose panics abort.
//! As the standard library does, it holds bitcode, so it fits link-time optimisation.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::UNIX_EPOCH;
use std::{env, fs};

use cargo_metadata::Message;
use probe_cli::output::Failure;

use crate::choice::{Library, Runtime};

/// A folder of the sources, for copies of the repository. Without it they come from the registry.
const SOURCE_VARIABLE: &str = "PROBE_SOURCE";
/// The variable that names the agent's library, as for `probectl`.
pub const LIBRARY_VARIABLE: &str = "PROBE_AGENT_LIBRARY";
const LIBRARY: &str = "libprobe_agent.so";
/// The variable that names rustup's toolchain, or has its folder.
const TOOLCHAIN_VARIABLE: &str = "RUSTUP_TOOLCHAIN";

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// How the cargo of the user is called.
pub struct Cargo {
    /// The program.
    pub program: PathBuf,
    /// Whether it may not ask registries.
    pub is_offline: bool,
}

impl Cargo {
    /// Finds cargo, and reads from its arguments whether it is offline.
    pub fn new(is_offline: bool) -> Self {
        let program = env::var_os("CARGO").map_or_else(|| "cargo".into(), PathBuf::from);
        Self { program, is_offline }
    }

    /// Returns a call of it in another folder, without what the user's build is told: neither by
    /// variables nor by settings in folders of the workspace. These may replace the registry by
    /// sources in the workspace, which has no runtime.
    fn call(&self, folder: &Path) -> Command {
        let mut command = Command::new(&self.program);
        command.current_dir(folder);
        for variable in [
            "CARGO_TARGET_DIR",
            "CARGO_BUILD_TARGET_DIR",
            "CARGO_BUILD_TARGET",
            "CARGO_ENCODED_RUSTFLAGS",
            "RUSTC_WRAPPER",
            "RUSTC_WORKSPACE_WRAPPER",
            "CARGO_BUILD_RUSTC_WRAPPER",
            "CARGO_BUILD_RUSTC_WORKSPACE_WRAPPER",
        ] {
            command.env_remove(variable);
        }
        // A file in the workspace may choose the toolchain. Cargo has said which, if it is cargo
        // that has started this program.
        if env::var_os(TOOLCHAIN_VARIABLE).is_none()
            && let Ok(output) = Command::new("rustc").args(["--print", "sysroot"]).output()
            && let Ok(folder) = String::from_utf8(output.stdout)
            && output.status.success()
        {
            command.env(TOOLCHAIN_VARIABLE, folder.trim_end());
        }
        command
    }
}

/// Returns the version of the compiler, as it tells it, and the target that it runs on.
pub fn compiler() -> Result<(String, String), Failure> {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(&rustc)
        .arg("-vV")
        .output()
        .map_err(|error| Failure::Input(format!("{} can't be started: {error}", rustc.display())))?;
    let version = String::from_utf8_lossy(&output.stdout).into_owned();
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    let host =
        host.ok_or_else(|| Failure::Input(format!("{} does not tell its host", rustc.display())))?.to_owned();
    Ok((version, host))
}

/// The effects that a panic may have. Each is a profile, too.
const PANICS: [&str; 2] = ["unwind", "abort"];

/// Builds the library for these targets.
pub fn build(cargo: &Cargo, version: &str, targets: &[String]) -> Result<Runtime, Failure> {
    let packages = [("probe-runtime", "default-features = false"), ("probe-memory", "")];
    let package = Package::new("runtime", version, &packages)?;
    let own = env::current_exe()
        .map_err(|error| Failure::Input(format!("this program can't be found: {error}")))?;
    let mut runtime = Runtime { libraries: Vec::new(), folders: Vec::new(), built: vec![modified(&own)?] };
    for (target, panic) in targets.iter().flat_map(|target| PANICS.map(|panic| (target, panic))) {
        let artifacts =
            package.build(cargo, &["--target", target, "--profile", panic], "-Cembed-bitcode=yes")?;
        let files = files_of(&artifacts, "probe_runtime");
        let Some(library) = files.first().filter(|it| is(it, "rlib")) else {
            return Err(Failure::Input(format!("cargo has built no library of the runtime for {target}")));
        };
        runtime.built.push(modified(library)?);
        for folder in folders_of_dependencies(&artifacts, package.what) {
            if !runtime.folders.contains(&folder) {
                runtime.folders.push(folder);
            }
        }
        let allocator = files_of(&artifacts, "probe_memory");
        runtime.libraries.push(Library { target: target.clone(), panic: panic.to_owned(), files, allocator });
    }
    Ok(runtime)
}

/// Returns the files of a library: itself, and its description, which it may lack.
fn files_of(artifacts: &[(String, PathBuf)], name: &str) -> Vec<PathBuf> {
    let of_kind = |kind| artifacts.iter().find(|(of, file)| of == name && is(file, kind));
    ["rlib", "rmeta"].into_iter().filter_map(of_kind).map(|(_, file)| file.clone()).collect()
}

/// Returns the folders of what a package was built with. Some versions of cargo have one for all,
/// others one for each crate. Build scripts, and what cargo copies for the user, are elsewhere.
fn folders_of_dependencies(artifacts: &[(String, PathBuf)], package: &str) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    for (name, file) in artifacts {
        let is_library = ["rlib", "rmeta", "so"].iter().any(|ending| is(file, ending));
        if let Some(folder) = file.parent().filter(|_| is_library && name != package)
            && !folders.iter().any(|it| it == folder)
        {
            folders.push(folder.to_owned());
        }
    }
    folders
}

/// Returns the agent's library: the one that the user names, one beside this program or in
/// `../lib`, or else one that is built now.
pub fn agent(cargo: &Cargo, version: &str) -> Result<PathBuf, Failure> {
    if let Some(file) = env::var_os(LIBRARY_VARIABLE).filter(|it| !it.is_empty()) {
        return Ok(file.into());
    }
    let own = env::current_exe()
        .map_err(|error| Failure::Input(format!("this program can't be found: {error}")))?;
    let folder = own.parent().unwrap_or(Path::new("/"));
    let beside = [folder.join(LIBRARY), folder.join("../lib").join(LIBRARY)];
    if let Some(file) = beside.into_iter().find(|file| file.is_file()) {
        return Ok(file);
    }
    let package = Package::new("agent", version, &[("probe-agent", "")])?;
    let artifacts = package.build(cargo, &["--release", "-p", "probe-agent"], "")?;
    let library = artifacts.into_iter().find(|(name, file)| name == "probe_agent" && is(file, "so"));
    library.map(|(_, file)| file).ok_or_else(|| Failure::Input(format!("cargo has built no {LIBRARY}")))
}

fn is(file: &Path, ending: &str) -> bool {
    file.extension().is_some_and(|it| it == ending)
}

fn modified(file: &Path) -> Result<u128, Failure> {
    let time = fs::metadata(file).and_then(|it| it.modified()).map_err(|error| unreadable(file, &error))?;
    Ok(time.duration_since(UNIX_EPOCH).map_or(0, |it| it.as_nanos()))
}

fn unreadable(file: &Path, error: &io::Error) -> Failure {
    Failure::Input(format!("{}: {error}", file.display()))
}

/// A package of some dependencies, in the user's cache.
struct Package {
    folder: PathBuf,
    what: &'static str,
}

impl Package {
    fn new(what: &'static str, compiler: &str, packages: &[(&str, &str)]) -> Result<Self, Failure> {
        let source = source();
        let dependency = |(package, more): &(&str, &str)| {
            let from = match &source {
                Some(folder) => format!("path = {:?}", folder.join(package).to_string_lossy()),
                None => format!("version = \"={VERSION}\""),
            };
            let comma = if more.is_empty() { "" } else { ", " };
            format!("{package} = {{ {from}{comma}{more} }}\n")
        };
        let dependencies = packages.iter().map(dependency).collect::<Vec<_>>().concat();
        let manifest = format!(
            "[package]\nname = \"{what}\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n\
             [dependencies]\n{dependencies}\n[profile.unwind]\ninherits = \"release\"\n\n\
             [profile.abort]\ninherits = \"release\"\npanic = \"abort\"\n\n[workspace]\n"
        );
        let folder = cache()?.join(name(&[compiler, &manifest])).join(what);
        let write = |file: &str, text: &str| {
            let file = folder.join(file);
            if fs::read_to_string(&file).is_ok_and(|held| held == text) {
                return Ok(());
            }
            fs::create_dir_all(file.parent().unwrap_or(&folder))
                .and_then(|()| fs::write(&file, text))
                .map_err(|error| unreadable(&file, &error))
        };
        // Cargo may complain of a dependency that nothing names.
        let names: Vec<_> =
            packages.iter().map(|(name, _)| format!("use {} as _;\n", name.replace('-', "_"))).collect();
        write("src/lib.rs", &names.concat())?;
        // A copy of the repository has versions that are known to work together.
        if let Some(lock) =
            source.as_ref().and_then(|folder| fs::read_to_string(folder.join("Cargo.lock")).ok())
            && !folder.join("Cargo.lock").exists()
        {
            write("Cargo.lock", &lock)?;
        }
        write("Cargo.toml", &manifest)?;
        Ok(Self { folder, what })
    }

    /// Builds the package; returns the names and files of libraries.
    fn build(
        &self,
        cargo: &Cargo,
        arguments: &[&str],
        flags: &str,
    ) -> Result<Vec<(String, PathBuf)>, Failure> {
        // Libraries stay until their sources change. Packages of the registry never do.
        let stamp = self.folder.join(format!("{}.json", name(&[&arguments.join(" "), flags])));
        let built = modified(&stamp).unwrap_or(0);
        let is_current = source().is_none_or(|folder| last_change(&folder).is_some_and(|it| it < built));
        let held = fs::read(&stamp).ok().filter(|_| is_current);
        let held: Option<Vec<(String, PathBuf)>> = held.and_then(|it| serde_json::from_slice(&it).ok());
        if let Some(held) = held.filter(|held| held.iter().all(|(_, file)| file.is_file())) {
            return Ok(held);
        }
        if !self.folder.join("target").exists() {
            eprintln!("    Building the probes' {}, once for all workspaces", self.what);
        }
        let mut command = cargo.call(&self.folder);
        command
            .args(["build", "--quiet", "--message-format=json-render-diagnostics"])
            .args(arguments)
            .args(cargo.is_offline.then_some("--offline"))
            .env("RUSTFLAGS", flags)
            .env("CARGO_TARGET_DIR", self.folder.join("target"))
            .stderr(Stdio::inherit());
        let output = command.output().map_err(|error| {
            Failure::Input(format!("{} can't be started: {error}", cargo.program.display()))
        })?;
        if !output.status.success() {
            return Err(Failure::Input(format!(
                "the probes' {} can't be built in {}: cargo's messages above say why",
                self.what,
                self.folder.display()
            )));
        }
        let mut built = Vec::new();
        for message in Message::parse_stream(output.stdout.as_slice()).map_while(Result::ok) {
            if let Message::CompilerArtifact(artifact) = message {
                let name = artifact.target.name.replace('-', "_");
                built.extend(artifact.filenames.into_iter().map(|file| (name.clone(), file.into())));
            }
        }
        // Without it, cargo is asked again.
        let _ = serde_json::to_vec(&built).map(|text| fs::write(&stamp, text));
        Ok(built)
    }
}

/// Returns the folder of the sources, if they are not those of the registry.
fn source() -> Option<PathBuf> {
    let given = env::var_os(SOURCE_VARIABLE).filter(|it| !it.is_empty()).map(PathBuf::from);
    given.or_else(|| {
        // The copy that this program was built from. A folder of vendored sources is none: what
        // they depend on is where the settings of their user's builds say.
        let own = Path::new(env!("CARGO_MANIFEST_DIR")).parent()?;
        let is_copy = ["Cargo.lock", "probe-runtime/Cargo.toml"].iter().all(|it| own.join(it).is_file());
        is_copy.then(|| own.to_owned())
    })
}

/// Returns when a file of a repository's packages has last changed, or come or gone.
fn last_change(repository: &Path) -> Option<u128> {
    let packages = fs::read_dir(repository).ok()?.flatten().map(|entry| entry.path());
    let is_package =
        |folder: &PathBuf| folder.file_name().is_some_and(|it| it.as_encoded_bytes().starts_with(b"probe-"));
    let mut open: Vec<_> = packages.filter(is_package).collect();
    open.extend(["Cargo.toml", "Cargo.lock"].map(|file| repository.join(file)));
    let mut last = 0;
    while let Some(path) = open.pop() {
        last = last.max(modified(&path).ok()?);
        if path.is_dir() {
            open.extend(fs::read_dir(&path).ok()?.flatten().map(|entry| entry.path()));
        }
    }
    Some(last)
}

fn cache() -> Result<PathBuf, Failure> {
    // One that is not absolute is invalid, by the XDG Base Directory Specification.
    let folder = |name: &str| env::var_os(name).map(PathBuf::from).filter(|it| it.is_absolute());
    let cache = folder("XDG_CACHE_HOME").or_else(|| Some(folder("HOME")?.join(".cache")));
    cache.map(|it| it.join("latent-probes")).ok_or_else(|| {
        Failure::Input("there is no folder for the runtime: set XDG_CACHE_HOME or HOME".to_owned())
    })
}

/// Returns a name for what depends on these texts.
fn name(texts: &[&str]) -> String {
    use std::hash::{Hash, Hasher};
    let mut hasher = rustc_hash::FxHasher::default();
    texts.hash(&mut hasher);
    format!("{VERSION}-{:016x}", hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_are_where_cargo_puts_them() {
        let artifacts = |files: &[(&str, &str)]| -> Vec<(String, PathBuf)> {
            files.iter().map(|(name, file)| ((*name).to_owned(), PathBuf::from(file))).collect()
        };
        let together = artifacts(&[
            ("build_script_build", "/t/build/libc-1/build-script-build"),
            ("libc", "/t/x/deps/liblibc-2.rlib"),
            ("libc", "/t/x/deps/liblibc-2.rmeta"),
            ("linkme_impl", "/t/deps/liblinkme_impl-3.so"),
            ("probe_runtime", "/t/x/deps/libprobe_runtime-4.rmeta"),
            ("probe_runtime", "/t/x/deps/libprobe_runtime-4.rlib"),
            ("runtime", "/t/x/libruntime.rlib"),
        ]);
        let library = |ending: &str| PathBuf::from(format!("/t/x/deps/libprobe_runtime-4.{ending}"));
        assert_eq!(files_of(&together, "probe_runtime"), ["rlib", "rmeta"].map(library));
        assert_eq!(
            folders_of_dependencies(&together, "runtime"),
            ["/t/x/deps", "/t/deps"].map(PathBuf::from)
        );
        let apart = artifacts(&[
            ("libc", "/t/x/build/libc/2/out/liblibc-2.rlib"),
            ("linkme_impl", "/t/build/linkme-impl/3/out/liblinkme_impl-3.so"),
            ("probe_runtime", "/t/x/build/probe-runtime/4/out/libprobe_runtime-4.rlib"),
        ]);
        assert_eq!(files_of(&apart, "probe_runtime").len(), 1);
        assert_eq!(
            folders_of_dependencies(&apart, "runtime"),
            ["/t/x/build/libc/2/out", "/t/build/linkme-impl/3/out", "/t/x/build/probe-runtime/4/out"]
                .map(PathBuf::from)
        );
    }
}
