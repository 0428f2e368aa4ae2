//! Texts of users' own modules, and mistakes in them.

use std::fs;

use probe_tests::folder::Folder;

use crate::program::{ran, source, storm, with_agent};

#[test]
fn a_mistake_is_shown_with_its_place() {
    let folder = Folder::new("mistakes");
    let (storm, module) = (storm(&folder), folder.join("own.probes"));
    let name = module.display();
    for (text, said) in [
        (
            "library libc.so.6\n\nown::sleep = unsigned sleep(seconds)\n",
            format!(
                "{name}, line 3, column 29: a type stands here, one of int, int8, int16, int32, int64, long, ssize, \
                 unsigned, uint8, uint16, uint32, uint64, size, pointer, bool, float, double, text; a result may be \
                 void\n  own::sleep = unsigned sleep(seconds)\n                              ^; no module is found\n"
            ),
        ),
        (
            "library libc.so.6\nown::malloc = pointer malloc(size bytes)\n",
            format!("{name}, line 2: `malloc` is `memory::malloc` already; no module is found\n"),
        ),
        (
            "library libc.so.6\nmemory::malloc = pointer wcsdup(pointer text)\n",
            format!("{name}, line 2: memory.probes has a `memory::malloc`, too; no module is found\n"),
        ),
    ] {
        fs::write(&module, text).unwrap();
        let err = ran(with_agent(&storm, "").arg("storm").env("PROBES_MODULES", &module)).err;
        assert_eq!(err, format!("libprobe_agent: {said}"));
    }
    let missing = folder.join("missing.probes");
    let err = ran(with_agent(&storm, "").arg("storm").env("PROBES_MODULES", &missing)).err;
    assert!(err.starts_with(&format!("libprobe_agent: {}: No such file", missing.display())), "{err}");
}

#[test]
fn a_list_has_functions_of_loaded_libraries_with_their_fields() {
    let folder = Folder::new("listed");
    let storm = storm(&folder);
    let mut command = with_agent(&storm, "io::read, lock::mutex_lock, own::** = list");
    command.arg("storm").env("PROBES_MODULES", source("own.probes"));
    let list = ran(&mut command).err;
    let expected = "probe             kind   sites  place           fields\n\
                    io::read          entry      1  io.probes:12    fd, buffer, size\n\
                    io::read          exit       1  io.probes:12    ret, fd, buffer, size\n\
                    lock::mutex_lock  entry      1  lock.probes:7   mutex\n\
                    lock::mutex_lock  exit       1  lock.probes:7   ret, mutex\n\
                    4 probes, 4 sites\n";
    let without_sites = |text: &str| {
        text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect::<Vec<_>>()
    };
    let (found, expected) = (without_sites(&list), without_sites(expected));
    assert_eq!(
        found[1..5].iter().map(|it| it.replace(" 2 ", " 1 ")).collect::<Vec<_>>(),
        expected[1..5],
        "{list}"
    );
}

/// The texts that come with the crate and are not built in.
#[test]
fn each_text_that_ships_is_read() {
    let folder = Folder::new("shipped");
    let storm = storm(&folder);
    for file in ["mpi.probes", "openmp.probes"] {
        let module = source("../../../probe-runtime/modules").join(file);
        let mut command = with_agent(&storm, "io::read=list");
        let err = ran(command.arg("storm").env("PROBES_MODULES", &module)).err;
        assert!(err.starts_with("probe "), "{err}");
    }
}
