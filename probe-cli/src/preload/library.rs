//! The library's file.

use std::env;
use std::os::unix::ffi::OsStrExt;
use std::path::{self, Path, PathBuf};

use crate::elf::{ElfError, Image, ObjectType, Runtime};
use crate::output::Failure;

const NAME: &str = "libprobe_agent.so";

/// The variable that names the file.
const VARIABLE: &str = "PROBE_AGENT_LIBRARY";

const HOW: &str = "build it by `cargo build --release -p probe-agent` in a copy of the repository, and name it by --agent or PROBE_AGENT_LIBRARY";

/// Returns the library's absolute path: the given one, the one in the variable, or that of a file
/// beside `probectl` or in `../lib`.
///
/// # Errors
/// If there is none, if it is another file, or if `LD_PRELOAD` can't name it.
pub fn library(given: Option<&Path>) -> Result<PathBuf, Failure> {
    let variable = env::var_os(VARIABLE).filter(|it| !it.is_empty()).map(PathBuf::from);
    let file = match given.map(Path::to_owned).or(variable) {
        Some(file) => file,
        None => installed()?,
    };
    let file = path::absolute(&file).unwrap_or(file);
    check(&file)?;
    Ok(file)
}

fn installed() -> Result<PathBuf, Failure> {
    let own =
        env::current_exe().map_err(|error| Failure::input(format!("{NAME} can't be found: {error}")))?;
    let folder = own.parent().unwrap_or(Path::new("/"));
    let folders = [Some(folder.to_owned()), folder.parent().map(|it| it.join("lib"))];
    let folders: Vec<_> = folders.into_iter().flatten().collect();
    let found = folders.iter().map(|folder| folder.join(NAME)).find(|file| file.is_file());
    found.ok_or_else(|| {
        let folders: Vec<_> = folders.iter().map(|it| it.display().to_string()).collect();
        Failure::Input(format!("{NAME} is not in {}; {HOW}", folders.join(", nor in ")))
    })
}

fn check(file: &Path) -> Result<(), Failure> {
    let shown = file.display();
    if file.as_os_str().as_bytes().iter().any(|byte| matches!(byte, b':' | b' ')) {
        return Err(Failure::Usage(format!(
            "{shown} can't be preloaded: LD_PRELOAD has no way to name a file with a space or a colon; copy it to \
             another place"
        )));
    }
    let is_it = || -> Result<bool, ElfError> {
        let image = Image::open(file)?;
        let runtime = Runtime::of(&image).map_err(|problem| image.error(problem))?;
        Ok(image.object_type() == ObjectType::Shared && runtime.is_some_and(|it| it.has_agent))
    };
    match is_it() {
        Ok(true) => Ok(()),
        Ok(false) => Err(Failure::Input(format!("{shown} has no agent, so it is not {NAME}; {HOW}"))),
        Err(error) => Err(Failure::Input(format!("{error}; {HOW}"))),
    }
}
