//! A compiler that logs its arguments and then runs another one, or misbehaves as the test
//! requests.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use crate::place::{build, directory, source, write};

/// A shell script that replaces a compiler.
pub(crate) struct Shim {
    path: PathBuf,
    log: PathBuf,
    real: String,
    before: String,
}

impl Shim {
    /// Returns a shim that runs `real`.
    pub(crate) fn new(directory: &Path, name: &str, real: &str) -> Self {
        let shim = Self {
            path: directory.join(name),
            log: directory.join(name).with_extension("log"),
            real: real.to_owned(),
            before: String::new(),
        };
        shim.write("");
        shim
    }

    /// Fails if this is among the arguments.
    pub(crate) fn refusing(self, argument: &str) -> Self {
        let test = format!(
            "for argument; do if [ \"$argument\" = '{argument}' ]; then echo 'error: refused {argument}' >&2; exit 1; fi; done\n"
        );
        Self { before: self.before.clone() + &test, ..self }.written("")
    }

    /// Predefines a macro in the output of `-dM`.
    pub(crate) fn predefining(self, definition: &str) -> Self {
        let test = format!("case \" $* \" in *' -dM '*) set -- '-D{definition}' \"$@\";; esac\n");
        Self { before: self.before.clone() + &test, ..self }.written("")
    }

    /// Appends text to each assembly file that no compiler prints.
    pub(crate) fn spoiling_assembly(self) -> Self {
        let after = "case \" $* \" in *' -S '*) out=; for a; do [ \"$last\" = -o ] && out=$a; last=$a; done; \
                     printf '\\t.text\\nstrange:\\n\\t.macro x\\n\\t.endm\\n\\t.include \"y\"\\n' >> \"$out\";; esac\n";
        self.written(after)
    }

    /// Makes assembly slowly, and logs the beginning and the end.
    #[cfg(feature = "parallel")]
    pub(crate) fn slow(self) -> Self {
        let marks = self.log.with_extension("marks");
        let mark =
            |mark: &str| format!("case \" $* \" in *' -S '*) echo {mark} >> '{}';; esac\n", marks.display());
        let before = self.before.clone() + &mark("1") + "sleep 0.2\n";
        Self { before, ..self }.written(&mark("-1"))
    }

    /// Returns the number of calls of a slow shim that ran at the same time.
    #[cfg(feature = "parallel")]
    pub(crate) fn most_at_once(&self) -> i32 {
        let marks = fs::read_to_string(self.log.with_extension("marks")).expect("a slow shim");
        let steps = marks.lines().map(|line| line.parse::<i32>().expect("a mark"));
        steps
            .scan(0, |now, step| {
                *now += step;
                Some(*now)
            })
            .max()
            .unwrap_or(0)
    }

    fn written(self, after: &str) -> Self {
        self.write(after);
        self
    }

    fn write(&self, after: &str) {
        let Self { path, log, real, before } = self;
        let log = log.display();
        let call = format!("echo \"$@\" >> '{log}'\n{before}{real} \"$@\" || exit $?\n{after}");
        fs::write(path, format!("#!/bin/sh\n{call}")).expect("the shim can be written");
        fs::set_permissions(path, Permissions::from_mode(0o755)).expect("the shim can be made executable");
    }

    pub(crate) fn path(&self) -> &str {
        self.path.to_str().expect("text")
    }

    /// Returns the calls that compile or assemble, one a line.
    fn calls(&self) -> Vec<String> {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let is_work =
            |line: &&str| !line.contains("flag_check") && (line.contains(" -S ") || line.contains(" -c "));
        log.lines().filter(is_work).map(str::to_owned).collect()
    }

    /// Returns all calls.
    fn all_calls(&self) -> Vec<String> {
        fs::read_to_string(&self.log).unwrap_or_default().lines().map(str::to_owned).collect()
    }
}

fn words(call: &str) -> Vec<&str> {
    call.split(' ').collect()
}

#[test]
fn a_unit_is_compiled_and_assembled() {
    let out_dir = directory("shim-unit");
    let shim = Shim::new(&out_dir, "cc", "gcc");
    let mut build = build(&out_dir, shim.path());
    build.file(source("left/part.c")).define("X", "1").flag("-MD").flag("-MF").flag(out_dir.join("part.d"));
    build.try_compile_intermediates().unwrap();
    let calls = shim.calls();
    let [compile, assemble] = &calls[..] else { panic!("{calls:#?}") };
    let compile = words(compile);
    let stem = compile[compile.len() - 2].strip_suffix(".s").unwrap();
    let own = ["-g1", "-dp", "-S", "-o"];
    assert_eq!(compile[compile.len() - 6..compile.len() - 2], own);
    assert_eq!(compile[compile.len() - 1], source("left/part.c").to_str().unwrap());
    assert!(
        ["-O2", "-fPIC", "-DX=1", "-MD", "-idirafter"].iter().all(|flag| compile.contains(flag)),
        "{compile:?}"
    );
    let assemble = words(assemble);
    let (object, placed) = (format!("{stem}.o"), format!("{stem}.probes.s"));
    assert_eq!(assemble[assemble.len() - 6..], ["-x", "assembler", "-c", "-o", &*object, &*placed]);
    assert!(["-MD", "-MF", "-S", "-g1"].iter().all(|flag| !assemble.contains(flag)), "{assemble:?}");
    assert!(assemble.contains(&"-m64"));
    // The dependencies are those of the source, and no other run has written the file.
    let dependencies = fs::read_to_string(out_dir.join("part.d")).unwrap();
    assert!(dependencies.contains("left/part.c") && dependencies.contains("shared.h"), "{dependencies}");
    // The intermediate files are gone.
    assert!(!Path::new(&placed).exists() && Path::new(&object).exists());
}

#[test]
fn strategies_and_debug_info_choose_the_flags() {
    let calls = |name: &str, configure: fn(&mut probe_build::Build)| {
        let out_dir = directory(name);
        let shim = Shim::new(&out_dir, "cc", "gcc");
        let mut build = build(&out_dir, shim.path());
        configure(build.file(source("left/part.c")));
        build.try_compile_intermediates().unwrap();
        shim.calls()
    };
    let hooks = calls("shim-hooks", |build| {
        build.sites(probe_build::Sites::InstrumentFunctions);
    });
    assert!(hooks[0].contains(" -finstrument-functions -fno-optimize-sibling-calls "), "{hooks:?}");
    assert!(!hooks[1].contains(" -finstrument-functions"), "{hooks:?}");
    let debug = calls("shim-debug", |build| {
        build.debug(true);
    });
    assert!(debug[0].contains(" -g ") && !debug[0].contains(" -g1 "), "{debug:?}");
    let none = calls("shim-none", |build| {
        build.debug(true).flag("-g0");
    });
    assert!(none[0].contains(" -g0 ") && none[0].contains(" -g1 "), "{none:?}");
    assert_eq!((hooks.len(), debug.len(), none.len()), (2, 2, 2));
}

#[test]
fn a_plain_build_is_one_call_for_each_file() {
    let out_dir = directory("shim-plain");
    let shim = Shim::new(&out_dir, "cc", "gcc");
    let mut build = build(&out_dir, shim.path());
    build.files([source("left/part.c"), source("right/part.c")]).sites(probe_build::Sites::None);
    build.try_compile_intermediates().unwrap();
    let calls = shim.calls();
    assert_eq!(calls.len(), 2);
    assert!(calls.iter().all(|call| call.contains(" -c ") && !call.contains(" -g1")), "{calls:?}");
}

/// Each kind of file leads to one query of the compiler.
#[test]
fn the_compiler_is_asked_once() {
    let out_dir = directory("shim-asked");
    let shim = Shim::new(&out_dir, "cc", "gcc");
    let empty = write(&out_dir, "a.cpp", "int a() { return 1; }\n");
    let mut build = build(&out_dir, shim.path());
    build.files([source("left/part.c"), source("right/part.c"), empty]);
    build.try_compile_intermediates().unwrap();
    let asked = shim.all_calls().into_iter().filter(|call| call.contains(" -dM ")).count();
    assert_eq!(asked, 2);
}

/// cc splits a wrapper and arguments off the compiler's name; both steps keep them.
#[test]
fn a_wrapper_wraps_both_steps() {
    let out_dir = directory("shim-wrapper");
    let shim = Shim::new(&out_dir, "ccache", "env");
    let log = shim.log.clone();
    let mut build = probe_build::Build::new();
    let compiler = format!("{} gcc -DWRAPPED", shim.path());
    // As in the environment of a build script.
    build.configure_cc(|cc| {
        cc.set_envs_snapshot([("CC", compiler.as_str()), ("PATH", &*std::env::var("PATH").unwrap())]);
    });
    build.target(crate::place::TARGET).host(crate::place::TARGET).opt_level(1).debug(false);
    build.out_dir(&out_dir).cargo_metadata(false).include(source("include")).file(source("left/part.c"));
    let (_, report) = build.try_compile_intermediates().unwrap();
    assert_eq!(report.placed(), 4, "{report}");
    let log = fs::read_to_string(log).unwrap();
    let calls: Vec<_> =
        log.lines().filter(|line| line.contains(" -S ") || line.contains(" -x assembler ")).collect();
    assert_eq!(calls.len(), 2);
    assert!(calls.iter().all(|call| call.starts_with("gcc ") && call.contains(" -DWRAPPED ")), "{calls:?}");
}
