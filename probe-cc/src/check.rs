//! Sources by which a build asks what the compiler can do. Sites tell nothing there, and cost the
//! build time.

use std::ffi::OsStr;
use std::path::Path;

/// Returns whether a source is such a question, of autoconf, cmake or meson.
pub(crate) fn is_one(source: &Path, folder: &Path) -> bool {
    const STEMS: &[&str] = &[
        "conftest", "CMakeCCompilerId", "CMakeCXXCompilerId", "CMakeCCompilerABI", "CMakeCXXCompilerABI",
        "testCCompiler", "testCXXCompiler",
    ];
    const FOLDERS: &[&str] = &["CMakeTmp", "CMakeScratch", "meson-private"];
    let is = |names: &[&str], name: &OsStr| names.iter().any(|it| *it == name);
    let path = folder.join(source);
    source.file_stem().is_some_and(|stem| is(STEMS, stem)) || path.iter().any(|part| is(FOLDERS, part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_told_from_sources() {
        let is = |source: &str, folder: &str| is_one(Path::new(source), Path::new(folder));
        assert!(is("conftest.c", "/p") && is("/p/CMakeFiles/CMakeTmp/x.c", "/p"));
        assert!(is("src.c", "/p/CMakeFiles/CMakeScratch/TryCompile-1") && is("/p/meson-private/t/a.c", "/"));
        assert!(!is("src/conftest_helper.c", "/p") && !is("../CMakeLists/a.c", "/p/build"));
    }
}
