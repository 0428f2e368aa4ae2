//! What `probe.h` puts into an object: the definition's bytes at the offsets of [`Definition`], the
//! stub, the records, one note; one definition for all copies of a probe, in one file and across
//! files; nothing for code that the linker drops, nothing at all with `PROBE_OFF`. And what the
//! compilers say: no warning in any version of C and C++, an error for names that can't be.
#![cfg(all(target_arch = "x86_64", target_os = "linux", not(probe_portable)))]

use std::collections::BTreeMap;
use std::env;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use object::{Object, ObjectSection, ObjectSymbol, SymbolKind};
use probe_tests::c_library::{compile, makes, run, shared_library, source};
use probe_tests::fixture::TARGET;
use probe_tests::fixture::site_table::{RECORDS, Site, SiteTable};
use probe_tests::whole;

const DEFINITIONS: &str = "linkme_PROBE_DEFINITIONS_V1";

fn out(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("c_api_object_{name}"))
}

/// Writes a source file and compiles it to a shared library.
fn library(compiler: &str, name: &str, flags: &[&str], content: &str) -> Vec<u8> {
    let path = out(&format!("{name}.c"));
    fs::write(&path, content).unwrap();
    let library = out(&format!("{compiler}_{name}.so"));
    compile(compiler, &[&["-shared", "-fPIC", "-O2"], flags].concat(), &[&path], &library);
    fs::read(library).unwrap()
}

/// Returns the folder of the toolchain's own lld, under the name by which compilers look for it.
fn lld_folder() -> PathBuf {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).args(["--print", "target-libdir", "--target", TARGET]).output();
    let libraries = String::from_utf8(output.unwrap().stdout).unwrap();
    Path::new(libraries.trim()).with_file_name("bin/gcc-ld")
}

fn u16_at(bytes: &[u8], at: usize) -> usize {
    usize::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]))
}

/// A function that begins with a probe has an instruction ahead of the site, at every alignment
/// that compilers give functions: cold ones, and those compiled for size, have none.
/// `SiteTable::sites` checks each site.
#[test]
fn no_function_begins_with_a_site() {
    let mut content = "#include <probe.h>\nint sum;\n".to_owned();
    for (number, attribute) in ["", "__attribute__((cold)) "].into_iter().cycle().take(32).enumerate() {
        let body = format!("{{ PROBE(\"begin\"); sum += {}; }}", number * 40);
        writeln!(content, "{attribute}void f{number}(void) {body}").unwrap();
    }
    for make in makes() {
        for level in ["-O0", "-O1", "-O2", "-Os"] {
            let flags = [level, "-fcf-protection=none", "-fomit-frame-pointer"];
            let bytes = library(make.c, &format!("begin{level}"), &flags, &content);
            let table = SiteTable::parse(&bytes);
            let sites = table.sites();
            assert_eq!(sites.len(), 32, "{make:?} {level}");
            let functions = || table.file().symbols().filter(|it| it.kind() == SymbolKind::Text);
            let ahead = |site: &Site| functions().map(|it| site.addr.wrapping_sub(it.address())).min();
            let ahead: Vec<_> = sites.iter().filter_map(ahead).collect();
            let is_padding = |bytes: &u64| (1..=5).contains(bytes);
            assert!(ahead.iter().all(is_padding), "{make:?} {level}: {ahead:?}");
        }
    }
}

#[test]
fn a_definition_is_the_abi_s() {
    let content = "#define PROBE_FILE \"src/some.c\"\n#define PROBE_PROVIDER \"lib\"\n#include <probe.h>\n\
        int f(int x) {\n    PROBE_2(\"two\", I64, \"left\", x, F64, \"right\", 0.5);\n    return x;\n}\n";
    for make in makes() {
        let bytes = library(make.c, "definition", &[], content);
        let table = SiteTable::parse(&bytes);
        let [site] = table.sites()[..] else { panic!("one site: {:?}", table.sites()) };
        assert_eq!(table.nops(), 1);
        let definition = table.definition_of(site.stub).expect("a stub of ten bytes");
        let section = table.file().section_by_name(DEFINITIONS).unwrap();
        assert_eq!((section.address(), section.size()), (definition, 192), "{make:?}");
        assert_eq!(definition % 64, 0);
        let text = b"lib::twosrc/some.cleft\nright\ntypes=2,5\n";
        let mut expected = Vec::new();
        expected.extend([0; 16]); // entry, hook
        expected.extend([1, 0, 192, 0]); // version, size
        expected.extend([0, 2, 3, 0]); // a point with two fields; its cold block keeps everything
        expected.extend([5, 0, 0, 0, 0, 0, 0, 0]); // line, column
        expected.extend([8, 0, 10, 0, 11, 0, 10, 0]); // lengths
        expected.extend([0; 8]); // no text elsewhere
        expected.extend(text);
        expected.resize(192, 0);
        assert_eq!(table.bytes_at(definition, 192).unwrap(), expected, "{make:?}");
        let note = table.section(".note.latent_probe").expect("the note");
        assert_eq!(note[..24], *b"\x0c\0\0\0\x20\0\0\0\x01\0\0\0LatentProbe\0", "{make:?}");
        assert_eq!(note.len(), 24 + 32, "once an assembler run");
    }
}

#[test]
fn the_active_site_s_cold_block_steps_over_the_red_zone() {
    let content = "#include <probe.h>\nint f(int x) { PROBE(\"none\"); return x; }\n";
    for make in makes() {
        for flags in [&[][..], &["-masm=intel"], &["-fcf-protection"], &["-mgeneral-regs-only"]] {
            let bytes = library(make.c, "cold", flags, content);
            let table = SiteTable::parse(&bytes);
            let [site] = table.sites()[..] else { panic!("one site") };
            // clang makes each label that an asm names a place for indirect jumps.
            let is_branch_target = table.bytes_at(site.target, 4) == Some(&[0xf3, 0x0f, 0x1e, 0xfa]);
            let start = site.target + if is_branch_target { 4 } else { 0 };
            let cold = table.bytes_at(start, 13).unwrap();
            let mut expected = vec![0x48, 0x83, 0xc4, 0x80, 0xe8]; // add rsp, -128; call stub
            expected.extend(&site.stub.wrapping_sub(start + 9).to_le_bytes()[..4]);
            expected.extend([0x48, 0x83, 0xec, 0x80]); // sub rsp, -128
            assert_eq!(cold, expected, "{make:?} {flags:?}");
        }
    }
}

/// How many sites each probe of the fixture has, and how many definitions there are.
fn sites_and_definitions(bytes: &[u8]) -> (BTreeMap<String, usize>, usize) {
    let table = SiteTable::parse(bytes);
    let mut sites = BTreeMap::new();
    for site in table.sites() {
        let definition = table.definition_of(site.stub).expect("a stub");
        let definition = table.bytes_at(definition, 192).expect("a definition");
        let len = u16_at(definition, 32);
        // One text is too long, and its address the dynamic linker's business.
        let path = if len > 144 { "long" } else { str::from_utf8(&definition[48..48 + len]).unwrap() };
        *sites.entry(path.to_owned()).or_default() += 1;
    }
    (sites, table.section(DEFINITIONS).expect("definitions").len() / 192)
}

#[test]
fn copies_share_a_definition() {
    for make in makes() {
        let path = out(&format!("{}_copies.so", make.c));
        // clang's link-time optimisation needs a linker of LLVM's.
        for flags in [&["-O2"][..], &["-O2", "-flto"], &["-O2", "-flto", "-fuse-ld=lld"]] {
            if flags.contains(&"-flto") && (make.c == "clang") != flags.contains(&"-fuse-ld=lld") {
                continue;
            }
            shared_library(make.c, "p", flags, &["points.c", "other.c"], &path);
            let (sites, definitions) = sites_and_definitions(&fs::read(&path).unwrap());
            assert_eq!(sites["p::inlined"], 3, "{make:?} {flags:?}");
            assert!(sites["p::in_header"] >= 3, "{make:?} {flags:?}: {sites:?}");
            assert_eq!((sites.len(), definitions), (30, 30), "{make:?} {flags:?}");
        }
        let path = out(&format!("{}_copies.so", make.cpp));
        shared_library(make.cpp, "p", &["-O2"], &["points.cpp", "evaluations.cpp"], &path);
        let (sites, definitions) = sites_and_definitions(&fs::read(&path).unwrap());
        // `long`, `int`, `short`; the second file's `int` is the same function.
        assert_eq!(sites["p::in_template"], 3, "{make:?}: {sites:?}");
        assert_eq!(sites.len(), definitions, "{make:?}");
    }
}

/// With `-z start-stop-gc` what nobody refers to goes, with its records; definitions that are in
/// its group, too.
#[test]
fn what_is_dropped_leaves_nothing() {
    let content = "#include <probe.h>\n\
        __attribute__((visibility(\"hidden\"))) int dropped(int x) { PROBE(\"dropped\"); return x; }\n\
        int kept(int x) { PROBE(\"kept\"); return x + 1; }\n";
    for make in makes() {
        let lld = format!("-B{}", lld_folder().display());
        let flags =
            ["-ffunction-sections", "-Wl,--gc-sections", &lld, "-fuse-ld=lld", "-Wl,-z,start-stop-gc"];
        let bytes = library(make.c, "gc", &flags, content);
        let (sites, definitions) = sites_and_definitions(&bytes);
        assert_eq!(sites, BTreeMap::from([("kept".to_owned(), 1)]), "{make:?}");
        assert_eq!(definitions, 1, "{make:?}");
    }
}

#[test]
fn off_is_nothing() {
    for make in makes() {
        let path = out(&format!("{}_off.so", make.c));
        shared_library(make.c, "p", &["-O2", "-DPROBE_OFF"], &["points.c", "other.c"], &path);
        let bytes = fs::read(&path).unwrap();
        let table = SiteTable::parse(&bytes);
        for section in [RECORDS, DEFINITIONS, ".note.latent_probe"] {
            assert!(table.section(section).is_none(), "{section}");
        }
        assert!(table.file().symbols().all(|symbol| !symbol.name().unwrap_or("").contains("probe")));
    }
}

#[test]
fn no_warnings_in_any_version() {
    let object = out("versions.o");
    let more =
        ["-Wshadow", "-Wconversion", "-Wsign-conversion", "-Wcast-qual", "-Wundef", "-Wwrite-strings", "-c"];
    for make in makes() {
        let versions = ["c89", "gnu89", "c99", "c11", "c17", "gnu17"].map(|it| (make.c, it, "clean.c"));
        let cpp =
            ["c++98", "c++11", "c++14", "c++17", "c++20", "gnu++17"].map(|it| (make.cpp, it, "clean.cpp"));
        for (compiler, version, file) in versions.into_iter().chain(cpp) {
            let standard = format!("-std={version}");
            let flags = [
                &["-O2"][..],
                &["-O2", "-DPROBE_OFF"],
                &["-O0", "-fno-pic"],
                &["-O3", "-fPIC", "-fcf-protection", "-g"],
                &["-Os", "-mno-sse", "-DNO_FLOATS"],
                &["-O2", "-DPROBE_OFF", "-m32"],
                &["-O1", "-fsanitize=undefined"],
            ];
            // A slice has the first with each version, and the others with the last one.
            let is_with_all = whole::is_asked_for() || version.contains("17") && version.contains("gnu");
            for flags in &flags[..if is_with_all { flags.len() } else { 1 }] {
                let is_cpp = file.ends_with("pp");
                let cast: &[&str] = if is_cpp { &["-Wold-style-cast"] } else { &["-Wbad-function-cast"] };
                let flags = [&more[..], cast, &[&standard], *flags].concat();
                compile(compiler, &flags, &[&source(file)], &object);
            }
        }
    }
}

/// Characters that an assembler's string can't hold are an error, never a wrong name.
#[test]
fn names_that_can_not_be() {
    let path = out("names.c");
    for make in makes() {
        for name in [r"a\\b", r#"a\"b"#, "a%b", "a{b|c}d"] {
            let content = format!("#include <probe.h>\nvoid f(void) {{ PROBE(\"{name}\"); }}\n");
            fs::write(&path, content).unwrap();
            let said = run(make.c, &["-c", "-O2"], &[&path], &out("names.o"));
            assert!(!said.is_done, "{make:?} takes {name}");
            assert!(said.messages.contains("error") || said.messages.contains("Error"), "{}", said.messages);
        }
        for name in ["", "with space", "é", "a-b.c#1", "operator()", "'", "a:b;c,d"] {
            let content = format!("#include <probe.h>\nvoid f(void) {{ PROBE(\"{name}\"); }}\n");
            fs::write(&path, content).unwrap();
            let library = out("names.so");
            compile(make.c, &["-shared", "-fPIC", "-O2"], &[&path], &library);
            assert_eq!(
                sites_and_definitions(&fs::read(library).unwrap()),
                (BTreeMap::from([(name.to_owned(), 1)]), 1)
            );
        }
    }
}

/// Values that are no strings or numbers are refused by the type checker, also where probes are
/// off.
#[test]
fn values_of_the_wrong_type() {
    let path = out("types.c");
    for make in makes() {
        for off in ["-DPROBE_ON", "-DPROBE_OFF"] {
            for value in [
                "PROBE_STR(\"x\", 1.5)", "PROBE_U64(\"x\", s)", "PROBE_F64(\"x\", s)", "PROBE(name)",
                "PROBE_U64(\"x\", none)",
            ] {
                let content = format!(
                    "#include <probe.h>\nstruct s {{ int x; }};\nvoid f(struct s s, const char *name) {{ {value}; (void)s; (void)name; }}\n"
                );
                fs::write(&path, content).unwrap();
                let said = run(make.c, &["-c", "-O2", off], &[&path], &out("types.o"));
                assert!(!said.is_done, "{make:?} {off} takes {value}");
            }
        }
    }
}
