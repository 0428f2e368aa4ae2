//! A program in a container: another mount namespace, whose folder of sockets nobody sees here, and
//! another namespace of processes, where its id is another one.

use std::process::{Command, Stdio};

use crate::program::{Folder, Program, out, words};

/// Mounts a folder of its own in place of the one that is seen here, and becomes the program.
const MOUNT: &str = r#"mount -t tmpfs -o mode=700 none "$XDG_RUNTIME_DIR" && exec "$@""#;
const CONTAINED: [&str; 5] = ["--mount", "--pid", "--fork", "--kill-child", "--mount-proc"];

/// Returns the tool that runs a program in a container; `None` where that needs more rights.
fn container(folder: &Folder) -> Option<Vec<&'static str>> {
    for as_root in [&[][..], &["--user", "--map-root-user"]] {
        let tool = [&["unshare"], as_root, &CONTAINED, &["sh", "-c", MOUNT, "sh"]].concat();
        let mut command = Command::new(tool[0]);
        command.args(&tool[1..]).arg("true").env("XDG_RUNTIME_DIR", &folder.0);
        if command.stderr(Stdio::null()).status().is_ok_and(|status| status.success()) {
            return Some(tool);
        }
    }
    println!("skipped: only root, or a user with namespaces of its own, can have a container");
    None
}

#[test]
fn it_is_listed_and_counted_by_its_id_here() {
    let folder = Folder::new("contained");
    let Some(tool) = container(&folder) else { return };
    let mut program = Program::under(&folder, &tool);
    let pid = program.pid();
    assert!(!folder.0.join("latent-probes").exists());
    let list = out(&folder, &["list", &pid, "live::program::**"]);
    assert!(list.contains("live::program::work") && list.ends_with("3 probes, 3 sites\n"), "{list}");
    let counted = program.measured(&folder, &["count", "-p", &pid, "live::program::**"]);
    let lines = words(&counted);
    assert!(lines.len() == 4 && lines[1..].iter().all(|line| line[3].parse::<u64>().unwrap() > 0));
    program.is_as_before();
}
