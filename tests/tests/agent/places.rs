//! The socket's place, and who may use it.

use std::env;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;

use probe_protocol::{Channel, Client, ClientError, DirectoryError};
use probe_tests::folder::Folder;
use probe_tests::scenario;

use crate::target::{Target, serve, until};

#[test]
#[ignore = "other tests play it, in children"]
fn scenario() {
    match scenario::to_play().as_str() {
        "serve" => serve(),
        "nobody" => nobody(),
        other => panic!("{other}"),
    }
}

const SOCKET: &str = "PROBE_TEST_SOCKET";
const NOBODY: u32 = 65534;

fn is_root() -> bool {
    // SAFETY: no pointers.
    unsafe { libc::geteuid() == 0 }
}

/// A program whose folder was changed before its start.
fn changed(change: impl FnOnce(&Path)) -> Target {
    let folder = Folder::new("changed");
    let runtime = folder.join("run");
    fs::create_dir(&runtime).unwrap();
    fs::set_permissions(&runtime, Permissions::from_mode(0o700)).unwrap();
    change(&runtime);
    let mut target = Target::prepared(&[("PROBE_AGENT", "1")], |command| {
        command.env("XDG_RUNTIME_DIR", &runtime);
    });
    target.is_as_before();
    target
}

type Change<'a> = &'a dyn Fn(&Path);

#[test]
fn an_unsafe_folder_is_not_used_and_the_program_goes_on() {
    let elsewhere = Folder::new("elsewhere");
    let cases: [(Change<'_>, &str); 3] = [
        (&|runtime| symlink(&*elsewhere, runtime.join("latent-probes")).unwrap(), "it is a symbolic link"),
        (
            &|runtime| {
                fs::create_dir(runtime.join("latent-probes")).unwrap();
                fs::set_permissions(runtime.join("latent-probes"), Permissions::from_mode(0o750)).unwrap();
            },
            "its mode is not 0700, so other users may use it",
        ),
        (&|runtime| fs::write(runtime.join("latent-probes"), "").unwrap(), "it is not a folder"),
    ];
    for (change, problem) in cases {
        let target = changed(change);
        let said = target.said();
        assert!(
            said.starts_with("PROBE_AGENT: other processes can't ask this program: ")
                && said.ends_with(&format!("latent-probes is not safe for sockets: {problem}; remove it\n")),
            "{said}"
        );
    }
    assert_eq!(fs::read_dir(&*elsewhere).unwrap().count(), 0);
    if is_root() {
        let target = changed(|runtime| {
            let path = runtime.join("latent-probes");
            fs::create_dir(&path).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(0o700)).unwrap();
            chown(&path, Some(NOBODY), None).unwrap();
        });
        assert!(target.said().contains("another user owns it"), "{}", target.said());
    } else {
        println!("left out: folders can't be given away, since this is not root");
    }
}

#[test]
fn a_folder_of_the_environment_that_others_may_change_does_not_count() {
    let folder = Folder::new("open");
    fs::set_permissions(&*folder, Permissions::from_mode(0o777)).unwrap();
    let mut target = Target::prepared(&[("PROBE_AGENT", "1")], |command| {
        command.env("XDG_RUNTIME_DIR", &*folder);
    });
    assert_eq!(fs::read_dir(&*folder).unwrap().count(), 0);
    // SAFETY: no pointers.
    let own = format!("/tmp/latent-probes-{}/{}.sock", unsafe { libc::geteuid() }, target.pid());
    assert_eq!(target.client().path(), Path::new(&own));
    assert!(target.end().success(), "it leaves no socket in this user's own folder");
    assert!(!Path::new(&own).exists());
}

#[test]
fn a_path_that_is_too_long_says_what_to_do() {
    let folder = Folder::new("long");
    let long = folder.join("a".repeat(100));
    fs::create_dir(&long).unwrap();
    fs::set_permissions(&long, Permissions::from_mode(0o700)).unwrap();
    let target = Target::prepared(&[("PROBE_AGENT", "1")], |command| {
        command.env("XDG_RUNTIME_DIR", &long);
    });
    let said = target.said();
    let problem = "and a socket's path at most 107; let XDG_RUNTIME_DIR name a folder with a shorter path\n";
    assert!(said.ends_with(problem), "{said}");
}

#[test]
fn another_file_in_the_sockets_place_stays() {
    let mut target = Target::with(&[]);
    let socket = target.socket();
    fs::create_dir(socket.parent().unwrap()).unwrap();
    fs::set_permissions(socket.parent().unwrap(), Permissions::from_mode(0o700)).unwrap();
    fs::write(&socket, "mine").unwrap();
    let path = socket.display();
    let problem = format!("{path} is in the way, and is not a socket; remove it");
    assert_eq!(target.ask("start"), format!("other processes can't ask this program: {problem}"));
    assert_eq!(fs::read_to_string(&socket).unwrap(), "mine");
    fs::remove_file(&socket).unwrap();

    // Another process listens in its place. The program does not push it away, and clients notice.
    let listener = UnixListener::bind(&socket).unwrap();
    assert!(target.ask("start").contains("is served already"));
    let connected = Client::connect(target.pid());
    assert!(matches!(connected, Err(ClientError::Foreign { .. })), "{connected:?}");
    // It goes, and its socket is replaced.
    drop(listener);
    // A child that another test has just forked may hold it open, until it becomes another program.
    until(|| (target.ask("start") == path.to_string()).then_some(()));
    assert_eq!(target.client().status().unwrap().clients, 1);
    let names = fs::read_dir(socket.parent().unwrap()).unwrap().count();
    assert_eq!(names, 1);
}

#[test]
fn a_client_uses_no_folder_that_others_may_change() {
    let target = Target::new();
    let folder = target.socket().parent().unwrap().to_owned();
    fs::set_permissions(&folder, Permissions::from_mode(0o755)).unwrap();
    let error = Client::connect(target.pid()).unwrap_err();
    assert!(matches!(error, ClientError::Directory(DirectoryError::Unsafe { .. })), "{error}");
    let aside = folder.with_file_name("aside");
    fs::rename(&folder, &aside).unwrap();
    fs::set_permissions(&aside, Permissions::from_mode(0o700)).unwrap();
    symlink(&aside, &folder).unwrap();
    let error = Client::connect(target.pid()).unwrap_err();
    assert!(matches!(error, ClientError::Directory(DirectoryError::Unsafe { .. })), "{error}");
}

/// A client of another user, for whom the folder was opened.
fn nobody() {
    let socket = env::var(SOCKET).unwrap();
    // SAFETY: no pointers.
    unsafe {
        assert_eq!(libc::setgid(NOBODY), 0);
        assert_eq!(libc::setuid(NOBODY), 0);
    }
    match Client::connect_to(socket.as_ref()) {
        Err(ClientError::Failed(failure)) => println!("refused: {failure}"),
        Err(other) => println!("{other}"),
        Ok(_) => println!("connected"),
    }
}

#[test]
fn another_user_is_refused() {
    if !is_root() {
        println!("skipped: only root can become another user");
        return;
    }
    let folder = Folder::new("shared");
    fs::set_permissions(&*folder, Permissions::from_mode(0o755)).unwrap();
    let runtime = folder.join("run");
    fs::create_dir(&runtime).unwrap();
    fs::set_permissions(&runtime, Permissions::from_mode(0o700)).unwrap();
    let target = Target::prepared(&[("PROBE_AGENT", "1")], |command| {
        command.env("XDG_RUNTIME_DIR", &runtime);
    });
    let socket = runtime.join(format!("latent-probes/{}.sock", target.pid()));
    let ask = || {
        let mut command: Command = scenario::start("nobody");
        let output = command.env(SOCKET, &socket).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let said = ask();
    assert!(said.contains("Permission denied"), "the folder keeps others out");
    assert!(said.contains("belongs to another user: ask it as that user, or as root"), "{said}");
    for (path, mode) in [(runtime.as_path(), 0o755), (socket.parent().unwrap(), 0o755), (&socket, 0o777)] {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }
    let said = ask();
    assert!(said.contains("refused: only processes of the program's user, or of root, may ask it"), "{said}");
    // The user of the program is not.
    assert!(Channel::connect(&socket, std::time::Duration::from_secs(10)).is_ok());
}
