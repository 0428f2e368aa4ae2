//! A folder with other texts for some files, in which all else is as at home.
//!
//! Under its root, a mirror has the folders above the changed files by their absolute paths; all
//! other entries of these folders are links. So `include_str!("../data")` and `mod x;` find what
//! they find at home, and no file of the user's is written.
//!
//! Mirrors may lie below the folders that they show. None shows the folder of all mirrors, nor that
//! of another target folder, so that who follows links comes to an end.
//!
//! A compiler of the same crate may read the mirror while it is brought up to date, as cargo runs
//! several at a time: each change is one rename, and a file whose text is the same is not touched.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::os::unix::fs::symlink;
use std::path::{Component, Path, PathBuf};
use std::{fs, io};

use tempfile::Builder;

use crate::choice::{BUILD, CHOICES};

/// Brings the mirror at `root` up to date: these files have these texts. Folders above `top` hold
/// no links. `mirrors` is the folder of all mirrors.
///
/// # Errors
/// A folder can't be read, or the mirror can't be written.
pub fn update(root: &Path, top: &Path, mirrors: &Path, texts: &BTreeMap<PathBuf, String>) -> io::Result<()> {
    let mut mirrors = vec![fs::canonicalize(mirrors)?];
    let texts: BTreeMap<_, _> = texts.iter().map(|(path, text)| (normal(path), text)).collect();
    let mut folders = BTreeSet::new();
    for path in texts.keys() {
        folders.extend(path.ancestors().skip(1).map(Path::to_owned));
    }
    for folder in folders.iter().filter(|it| it.starts_with(top)) {
        mirrors.extend(mirrors_within(folder)?);
    }
    for mirrors in &mirrors {
        folders.extend(mirrors.ancestors().skip(1).filter(|it| it.starts_with(top)).map(Path::to_owned));
    }
    for folder in &folders {
        let here = within(root, folder);
        if fs::symlink_metadata(&here).is_ok_and(|it| !it.is_dir()) {
            fs::remove_file(&here)?;
        }
        fs::create_dir_all(&here)?;
        if folder.starts_with(top) {
            let is_own = |entry: &Path| folders.contains(entry) || texts.contains_key(entry);
            link_entries(folder, &here, &mirrors, is_own)?;
        }
    }
    for (path, text) in texts {
        let here = within(root, &path);
        let is_link = fs::symlink_metadata(&here).is_ok_and(|it| it.is_symlink());
        if is_link || fs::read(&here).map_or(true, |held| held != text.as_bytes()) {
            let folder = here.parent().unwrap_or(root);
            let new = Builder::new().prefix(".new").tempfile_in(folder)?;
            fs::write(new.path(), text)?;
            new.persist(&here)?;
        }
    }
    Ok(())
}

/// Returns the folders of all mirrors of the target folders in a folder.
fn mirrors_within(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            let places = ["", BUILD].map(|build| entry.path().join(build).join(CHOICES));
            found.extend(places.into_iter().filter(|it| it.is_dir()));
        }
    }
    Ok(found)
}

/// Makes `here` a folder of links to the entries of `folder`, but for its own ones. Some entries
/// are left out.
fn link_entries(
    folder: &Path,
    here: &Path,
    left_out: &[PathBuf],
    is_own: impl Fn(&Path) -> bool,
) -> io::Result<()> {
    let names = |folder: &Path| -> io::Result<BTreeSet<OsString>> {
        fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name())).collect()
    };
    let (mut wanted, held) = (names(folder)?, names(here)?);
    wanted.retain(|name| !left_out.contains(&folder.join(name)));
    for name in held.difference(&wanted) {
        let stale = here.join(name);
        if fs::symlink_metadata(&stale)?.is_dir() {
            fs::remove_dir_all(stale)?;
        } else {
            fs::remove_file(stale)?;
        }
    }
    for name in &wanted {
        let (from, link) = (folder.join(name), here.join(name));
        if is_own(&from) || fs::read_link(&link).is_ok_and(|to| to == from) {
            continue;
        }
        match fs::symlink_metadata(&link) {
            Ok(it) if it.is_dir() => fs::remove_dir_all(&link)?,
            Ok(_) => fs::remove_file(&link)?,
            Err(_) => {}
        }
        match symlink(from, link) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Returns the place of an absolute path in the mirror.
pub fn within(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

/// Returns an absolute path without `.` and `..`.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                normal.pop();
            }
            component => normal.push(component),
        }
    }
    normal
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_but_the_changed_files_is_as_at_home() {
        let folder = tempfile::tempdir().unwrap();
        let (home, root) = (folder.path().join("home"), folder.path().join("mirror"));
        fs::create_dir_all(home.join("src/deep")).unwrap();
        fs::create_dir_all(home.join("data")).unwrap();
        fs::create_dir_all(&root).unwrap();
        for file in ["src/lib.rs", "src/deep/a.rs", "src/deep/b.rs", "data/c", "d"] {
            fs::write(home.join(file), file).unwrap();
        }
        let text_of = |file: &str| fs::read_to_string(within(&root, &home).join(file)).unwrap();
        let changed = |files: &[&str]| -> BTreeMap<PathBuf, String> {
            files.iter().map(|file| (home.join("x/..").join(file), format!("changed {file}"))).collect()
        };
        update(&root, &home, &root, &changed(&["src/lib.rs", "src/deep/a.rs"])).unwrap();
        let texts = ["src/lib.rs", "src/deep/a.rs", "src/deep/b.rs", "src/../data/c", "d"].map(text_of);
        assert_eq!(
            texts,
            ["changed src/lib.rs", "changed src/deep/a.rs", "src/deep/b.rs", "data/c", "d"]
                .map(str::to_owned)
        );
        let written = |file: &str| fs::metadata(within(&root, &home).join(file)).unwrap().modified().unwrap();
        let before = written("src/lib.rs");
        // A folder becomes a link, an entry is gone, another is new.
        fs::remove_file(home.join("d")).unwrap();
        fs::write(home.join("e"), "e").unwrap();
        update(&root, &home, &root, &changed(&["src/lib.rs"])).unwrap();
        assert_eq!([text_of("src/deep/a.rs"), text_of("e")], ["src/deep/a.rs", "e"].map(str::to_owned));
        assert!(!within(&root, &home).join("d").exists() && written("src/lib.rs") == before);
        update(&root, &home, &root, &changed(&["src/deep/b.rs"])).unwrap();
        assert_eq!(
            [text_of("src/lib.rs"), text_of("src/deep/b.rs")],
            ["src/lib.rs", "changed src/deep/b.rs"].map(str::to_owned)
        );
        // Nothing of the home has changed.
        assert_eq!(fs::read_to_string(home.join("src/deep/b.rs")).unwrap(), "src/deep/b.rs");
    }

    #[test]
    fn who_follows_links_comes_to_an_end() {
        fn files(folder: &Path) -> Vec<PathBuf> {
            let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
            entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
        }
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().canonicalize().unwrap().join("home");
        let files_of_user = ["src/a.rs", "target/b", "target/probe/c", "x/probe/d", "y/e"];
        let of_user = files_of_user.map(|file| home.join(file));
        for file in &of_user {
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, "").unwrap();
        }
        // Of three target folders.
        let mirrors = ["target/probe", "x/probe", "y"].map(|build| home.join(build).join(CHOICES));
        let roots: Vec<_> =
            mirrors.iter().flat_map(|it| ["one", "other"].map(|name| (it, it.join(name)))).collect();
        for (_, root) in &roots {
            fs::create_dir_all(root).unwrap();
        }
        let in_mirrors: Vec<_> =
            roots.iter().map(|(_, root)| of_user.each_ref().map(|it| within(root, it))).collect();
        let mut expected = [of_user.to_vec(), in_mirrors.concat()].concat();
        expected.sort();
        for _ in 0..2 {
            for (mirrors, root) in &roots {
                let texts = BTreeMap::from([(home.join("src/a.rs"), "changed".to_owned())]);
                update(root, &home, mirrors, &texts).unwrap();
            }
            let mut found = files(&home);
            found.sort();
            assert_eq!(found, expected);
        }
    }
}
