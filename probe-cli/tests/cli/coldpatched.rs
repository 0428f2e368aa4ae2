//! Cold-patched files by each compiler and linker: they differ from the files before at calls of
//! hooks only, run as before, and are read by the tools that read files.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use object::{Object as _, ObjectSection, SectionKind};
use probe_coldpatch::{Call, Kind, Object, Probe, archive};
use probe_tests::instrumented::{build, compilers, source};
use proptest::prelude::Rng;
use proptest::test_runner::{RngAlgorithm, TestRng};
use serde_json::Value;

use crate::ran::{Folder, fails, out, run};

const C: &str = r#"
#include <stdio.h>
static int table[50000];
static inline int twice(int x) { return 2 * x; }
__attribute__((noinline)) int work(int n) { for (int i = 0; i < n; i++) table[i % 50000] += twice(i); return table[n % 50000]; }
__attribute__((noinline)) void leaf(int *p) { *p += 1; }
__attribute__((noinline)) void tail(int *p) { leaf(p); work(*p); }
__attribute__((weak)) void shared(int *p) { tail(p); }
int main(int count, char **arguments)
{
    int sum = count;
    (void)arguments;
    for (int i = 0; i < 300; i++) { shared(&sum); sum = (sum + work(i)) % 1000; }
    printf("%d\n", sum);
    return sum % 7 + 1;
}
"#;

const CPP: &str = r#"
#include <cstdio>
#include <map>
#include <stdexcept>
#include <string>
static int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
template <class K, class V> struct a_name_that_is_too_long_for_a_definition {
    std::map<K, std::map<K, V>> all;
    int add(K key, V value) { all[key][key] = value; return (int)all.size(); }
};
__attribute__((noinline)) void throws(int x) { if (x > 3) throw std::runtime_error("thrown"); }
int main()
{
    a_name_that_is_too_long_for_a_definition<std::string, std::map<std::string, std::string>> named;
    int caught = named.add("a", {});
    for (int i = 0; i < 8; i++) try { throws(i); } catch (std::exception &) { caught++; }
    printf("%d %d\n", fib(10), caught);
    return caught;
}
"#;

fn tool(name: &str, arguments: &[&Path]) -> Option<Output> {
    Command::new(name).args(arguments).output().ok()
}

fn ran(program: &Path) -> (Option<i32>, Vec<u8>) {
    let output = Command::new(program).output().unwrap();
    (output.status.code(), output.stdout)
}

/// Returns the code of a file, by address.
fn code(file: &Path) -> Vec<(u64, Vec<u8>)> {
    let bytes = fs::read(file).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let code = file.sections().filter(|it| it.kind() == SectionKind::Text);
    code.map(|it| (it.address(), it.data().unwrap().to_vec())).collect()
}

/// Returns the addresses that differ.
fn differing(before: &Path, after: &Path) -> Vec<u64> {
    let after: BTreeMap<_, _> = code(after).into_iter().collect();
    let of_section = |(start, before): (u64, Vec<u8>)| {
        let after = &after[&start];
        assert_eq!(before.len(), after.len());
        let bytes = (start..).zip(before.iter().zip(after)).filter(|(_, (one, other))| one != other);
        bytes.map(|(at, _)| at).collect::<Vec<_>>()
    };
    code(before).into_iter().flat_map(of_section).collect()
}

/// Returns the sites of a file, and the kinds and paths of their probes.
fn sites(file: &Path) -> BTreeMap<u64, String> {
    let audited = run(&["--json", "audit", file.to_str().unwrap()]);
    assert_eq!(audited.code, 0, "{audited:?}");
    let json: Value = serde_json::from_str(&audited.out).unwrap();
    // Calls that stay are listed, too.
    let rows = json["rows"].as_array().unwrap().iter().filter(|it| it["state"] == "latent");
    rows.map(|it| (it["site"].as_u64().unwrap(), format!("{} {}", it["kind"], it["probe"]))).collect()
}

fn check(program: &Path) {
    let [name, patched] =
        [program.to_owned(), program.with_extension("patched")].map(|it| it.display().to_string());
    let said: Value = serde_json::from_str(&out(&["--json", "coldpatch", &name, "-o", &patched])).unwrap();
    assert_eq!(said["unclear"], 0, "{said}");
    let patched = Path::new(&patched);
    let rights = |path| fs::metadata(path).unwrap().permissions().mode();
    assert_eq!((ran(patched), rights(patched)), (ran(program), rights(program)), "{name}");

    let known = sites(patched);
    assert_eq!(known.len() as u64, said["sites"].as_u64().unwrap(), "{name}");
    // A site's five bytes, a prefix of one ahead, a `ret` behind; or a jump to a site elsewhere.
    let is_own = |at: u64| known.range(at.saturating_sub(5)..at + 3).next().is_some();
    let others: Vec<_> = differing(program, patched).into_iter().filter(|at| !is_own(*at)).collect();
    let own =
        |site: u64| code(program).iter().any(|(at, code)| (*at..at + code.len() as u64).contains(&site));
    let jumps = known.keys().rev().take_while(|site| !own(**site)).count();
    assert!(others.len() <= 4 * jumps, "{name}: {others:x?} {jumps}");

    let copy = program.with_extension("copy");
    for words in
        [&["strip"][..], &["strip", "-g"], &["objcopy"], &["eu-strip"], &["llvm-strip"], &["llvm-objcopy"]]
    {
        fs::copy(patched, &copy).unwrap();
        let mut paths = words[1..].iter().map(Path::new).collect::<Vec<_>>();
        paths.push(if words[0].ends_with("copy") { patched } else { &copy });
        paths.extend(words[0].ends_with("copy").then_some(copy.as_path()));
        // A tool that does not read the file before would not read it afterwards.
        let Some(output) = tool(words[0], &paths).filter(|it| it.status.success()) else { continue };
        assert!(output.stderr.is_empty(), "{name} {words:?}: {output:?}");
        assert_eq!(ran(&copy), ran(program), "{name} {words:?}");
        assert!(sites(&copy) == known, "{name} {words:?}: {} {}", sites(&copy).len(), known.len());
    }
    // Debug information, names and the build's id are as before.
    let section = |path: &Path, name: &str| {
        let bytes = fs::read(path).unwrap();
        let file = object::File::parse(&*bytes).unwrap();
        file.section_by_name(name).map(|it| it.data().unwrap().to_vec())
    };
    for part in [".debug_info", ".debug_line", ".eh_frame", ".strtab", ".note.gnu.build-id", ".dynstr"] {
        assert_eq!(section(program, part), section(patched, part), "{name} {part}");
    }
    let again = fails(3, &["coldpatch", patched.to_str().unwrap(), "-o", &name, "--force"]);
    assert!(again.contains("Coldpatch its object files (.o, .a) and link them"), "{again}");
}

fn each_linker() -> impl Iterator<Item = &'static str> {
    let is_there = |name: &&str| tool(&format!("ld.{name}"), &[Path::new("--version")]).is_some();
    ["bfd", "gold", "lld", "mold"].into_iter().filter(is_there)
}

fn made(folder: &Folder, text: &str, compiler: &str, flags: &[&str]) -> PathBuf {
    let is_cpp = text == CPP;
    let source = source(&folder.0, if is_cpp { "a.cc" } else { "a.c" }, text);
    let program = folder.0.join("a");
    let compiler = match compiler {
        "gcc" if is_cpp => "g++",
        "clang" if is_cpp => "clang++",
        other => other,
    };
    build(compiler, &source, &program, flags);
    program
}

#[test]
fn files_of_each_linker_differ_at_calls_of_hooks_only() {
    for linker in each_linker() {
        let linker = format!("-fuse-ld={linker}");
        for compiler in compilers() {
            let folder = Folder::new("coldpatched");
            check(&made(&folder, C, compiler, &["-O2", &linker]));
            check(&made(&folder, C, compiler, &["-O0", "-no-pie", "-fno-pie", &linker]));
        }
        let folder = Folder::new("coldpatched-gcc");
        check(&made(&folder, CPP, "gcc", &["-O0", "-fno-plt", "-Wl,--build-id=none", &linker]));
    }
    let folder = Folder::new("coldpatched-optimised");
    check(&made(&folder, CPP, compilers()[0], &["-O3"]));
}

/// The hooks of a static glibc are one function.
const HOOKS: &str = "
#define HOOK __attribute__((no_instrument_function, noipa, section(\".text.hooks\"))) void
static volatile int entries, exits;
HOOK __cyg_profile_func_enter(void *function, void *site) { (void)function; (void)site; entries++; }
HOOK __cyg_profile_func_exit(void *function, void *site) { (void)function; (void)site; exits++; }
";

#[test]
fn static_files_get_a_page_ahead_or_keep_their_place() {
    let folder = Folder::new("coldpatched-static");
    for linker in each_linker() {
        let linker = format!("-fuse-ld={linker}");
        let program = made(&folder, &[C, HOOKS].concat(), "gcc", &["-O2", "-static", &linker]);
        check(&program);
    }
    check(&made(&folder, &[C, HOOKS].concat(), "gcc", &["-O2", "-static-pie"]));
    // The two hooks of a static glibc are one function.
    let program = made(&folder, C, "gcc", &["-O2", "-static"]);
    check(&program);
    let known: Vec<_> = sites(&program.with_extension("patched")).into_values().collect();
    let many = |kind: &str| known.iter().filter(|it| it.starts_with(kind)).count();
    assert_eq!((many("\"entry\""), many("\"exit\"")), (7, 7), "{known:?}");
}

#[test]
fn what_cant_be_patched_is_refused() {
    let folder = Folder::new("coldpatched-refused");
    let program = made(&folder, C, "gcc", &["-O2"]);
    let name = program.display().to_string();
    let error = fails(2, &["coldpatch", &name, "-o", &name]);
    assert!(error.contains("OUT is FILE itself"), "{error}");
    let before = fs::read(&program).unwrap();
    let other = folder.file("other", "text");
    let error = fails(3, &["coldpatch", &other, "-o", &name]);
    assert!(error.contains("no ELF file"), "{error}");
    assert_eq!(fs::read(&program).unwrap(), before);
    assert!(Command::new("strip").arg(&program).status().unwrap().success());
    let error = fails(3, &["coldpatch", &name, "-o", &other]);
    assert!(error.contains("has no symbols"), "{error}");
    let plain = Path::new("/bin/true");
    if plain.exists() {
        let error = fails(4, &["coldpatch", "/bin/true", "-o", &other]);
        assert!(error.contains("has no calls of the hooks"), "{error}");
    }
}

/// Unpacks itself: by the length in its last bytes, and by its section headers, which end its own
/// part.
const SELF_EXTRACTING: &str = r#"
#include <elf.h>
#include <stdio.h>
#include <string.h>
static char text[64];
static void print_from(FILE *file, long at)
{
    fseek(file, at, SEEK_SET);
    size_t many = fread(text, 1, sizeof text - 1, file);
    printf("%.*s\n", (int)(many > 12 ? 12 : many), text);
}
static long end(FILE *file) { fseek(file, 0, SEEK_END); return ftell(file); }
int main(void)
{
    FILE *file = fopen("/proc/self/exe", "rb");
    Elf64_Ehdr header;
    long length;
    if (!file || fread(&header, sizeof header, 1, file) != 1) return 1;
    fseek(file, end(file) - 8, SEEK_SET);
    if (fread(&length, sizeof length, 1, file) != 1) return 2;
    print_from(file, end(file) - 8 - length);
    print_from(file, (long)header.e_shoff + header.e_shnum * header.e_shentsize);
    return 0;
}
"#;

#[test]
fn a_program_that_unpacks_itself_does_so() {
    let folder = Folder::new("coldpatched-payload");
    for flags in [&["-O2"][..], &["-O1", "-static", "-no-pie"], &["-O2", "-static-pie"]] {
        let program = made(&folder, SELF_EXTRACTING, "gcc", flags);
        let own = fs::read(&program).unwrap();
        let payload = [b"the payload.".as_slice(), &[7; 99]].concat();
        fs::write(&program, [&own[..], &payload, &(payload.len() as u64).to_le_bytes()].concat()).unwrap();
        let expected = (Some(0), b"the payload.\nthe payload.\n".to_vec());
        assert_eq!(ran(&program), expected, "{flags:?}");
        let [name, patched] =
            [&program, &program.with_extension("patched")].map(|it| it.display().to_string());
        let said = out(&["coldpatch", &name, "-o", &patched]);
        assert!(said.contains("the bytes behind its last section stay at the end"), "{said}");
        assert_eq!(ran(Path::new(&patched)), expected, "{flags:?}");
        let known: BTreeSet<_> = sites(Path::new(&patched)).into_values().collect();
        assert_eq!(known.len(), 6, "{flags:?}: {known:?}");
        // With a list beside it, it keeps its length.
        let list = folder.0.join("list.json");
        if flags.contains(&"-O1") {
            out(&["coldpatch", &name, "-o", &patched, "--list", list.to_str().unwrap()]);
            assert_eq!(ran(Path::new(&patched)), expected, "{flags:?}");
            assert_eq!(fs::metadata(&name).unwrap().len(), fs::metadata(&patched).unwrap().len());
            // One is not there without the other.
            fs::remove_file(&list).unwrap();
            let ran = run(&["coldpatch", &name, "-o", "/dev/full", "--list", list.to_str().unwrap()]);
            let why = "error: /dev/full can't be written: No space left on device (os error 28)\n";
            assert_eq!((ran.code, ran.err.as_str(), list.exists()), (3, why, false));
        }
        // However few they are.
        for len in [1, 8, 15, 16] {
            fs::write(&program, [&own[..], &vec![7; len]].concat()).unwrap();
            out(&["coldpatch", &name, "-o", &patched, "--force"]);
            assert!(fs::read(&patched).unwrap().ends_with(&vec![7; len]), "{flags:?} {len}");
        }
    }
}

const POINTS: &str = r#"
#include <probe.h>
static int work(int x) { PROBE_U64("working", x); return 3 * x; }
int main(void) { int sum = 0; for (int i = 0; i < 9; i++) sum += work(i); return sum; }
"#;

/// A linker joins the tables of points and of calls.
#[test]
fn objects_with_probes_get_more() {
    let folder = Folder::new("coldpatched-points");
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("../probe-build/include");
    for (compiler, linker) in
        compilers().into_iter().flat_map(|it| each_linker().map(move |linker| (it, linker)))
    {
        let [object, patched, program] =
            ["o", "patched.o", "linked"].map(|it| folder.0.join("points").with_extension(it));
        let source = source(&folder.0, "points.c", POINTS);
        build(compiler, &source, &object, &["-c", "-O2", "-I", include.to_str().unwrap()]);
        let [from, to, whole] = [&object, &patched, &program].map(|it| it.display().to_string());
        // Nothing tells what leads to a point's cold block, so clang's calls behind it may stay.
        let said = out(&["coldpatch", &from, "-o", &to]);
        assert!(compiler == "clang" || !said.contains("stay"), "{compiler}: {said}");
        let linker = format!("-fuse-ld={linker}");
        let output = Command::new(compiler).args([&linker, &to, "-o", &whole]).output().unwrap();
        assert!(output.status.success(), "{compiler} {linker}: {output:?}");
        assert_eq!(ran(&program).0, Some(108));
        let mut known: Vec<_> = sites(&program).into_values().collect();
        known.sort();
        known.dedup();
        let expected = [
            "\"entry\" \"main\"", "\"entry\" \"work\"", "\"exit\" \"main\"", "\"exit\" \"work\"",
            "\"point\" \"working\"",
        ];
        assert_eq!(known, expected, "{compiler} {linker}");
        let error = fails(3, &["coldpatch", &whole, "-o", &to, "--force"]);
        assert!(error.contains("has probes already"), "{error}");
    }
}

/// Compiles to an object file.
fn object_file(folder: &Folder, text: &str, name: &str, compiler: &str, flags: &[&str]) -> PathBuf {
    let source = source(&folder.0, &format!("{name}.cc"), text);
    let object = folder.0.join(name).with_extension("o");
    let compiler = if compiler == "gcc" { "g++" } else { "clang++" };
    build(compiler, &source, &object, &[&["-c"], flags].concat());
    object
}

/// A function that another object has, too, and one that calls it.
const SHARED: &str = "\
template <class T> __attribute__((noinline)) T shared(T x) { return x * 2 + 1; }
static inline int added(int x) { return shared(x) + 1; }
";

#[test]
fn objects_and_archives_are_linked_as_before() {
    for compiler in compilers() {
        for flags in
            [&["-O0"][..], &["-O2", "-ffunction-sections", "-fPIC", "-fno-plt"], &["-O1", "-fcf-protection"]]
        {
            let folder = Folder::new("coldpatched-objects");
            let main = format!(
                "{SHARED}#include <cstdio>\nint other(int); int main() {{ int sum = 0; for (int i = 0; i < 9; i++) sum += other(added(i)); printf(\"%d\\n\", sum); return sum % 7; }}\n"
            );
            let main = object_file(&folder, &main, "main", compiler, flags);
            let other = format!(
                "{SHARED}int other(int x) {{ return added(x) - shared(x); }}\nint unused(int x) {{ return x; }}\n"
            );
            let other = object_file(&folder, &other, "a_name_that_is_too_long_for_a_header", compiler, flags);
            let archive = folder.0.join("lib.a");
            assert!(Command::new("ar").arg("rcs").args([&archive, &other]).status().unwrap().success());
            let patched = [&main, &archive].map(|file| {
                let to = file.with_extension(if *file == archive { "patched.a" } else { "patched.o" });
                let [file, name] = [file, &to].map(|it| it.to_str().unwrap().to_owned());
                let said = out(&["coldpatch", &file, "-o", &name]);
                assert!(!said.contains("stay"), "{compiler} {flags:?}: {said}");
                let again = fails(4, &["coldpatch", &name, "-o", &file, "--force"]);
                assert!(again.contains("has no calls of the hooks"), "{again}");
                to
            });
            let link = |files: [&PathBuf; 2], more: &[&str]| {
                let program = folder.0.join("linked");
                let compiler = if compiler == "gcc" { "g++" } else { "clang++" };
                let output =
                    Command::new(compiler).args(files).args(more).arg("-o").arg(&program).output().unwrap();
                assert!(output.status.success(), "{compiler} {flags:?} {more:?}: {output:?}");
                program
            };
            let expected = ran(&link([&main, &archive], &[]));
            for linker in each_linker() {
                let linker = format!("-fuse-ld={linker}");
                let mut found = Vec::new();
                for more in [&["-Wl,--gc-sections"][..], &[], &["-static"]] {
                    let program = link([&patched[0], &patched[1]], &[&[linker.as_str()], more].concat());
                    assert_eq!(ran(&program), expected, "{compiler} {flags:?} {linker} {more:?}");
                    let mut probes: Vec<_> = sites(&program).into_values().collect();
                    probes.sort();
                    found.push(probes);
                }
                // Without the functions that nobody calls, where each has a section.
                assert_eq!(found[1], found[2], "{compiler} {flags:?} {linker}");
                let is_unused = |it: &&String| it.contains("\"unused\"");
                assert!(found[1].iter().filter(is_unused).count() == 2, "{found:?}");
                // Other linkers keep all sections with names that the note asks for.
                let has_sections = flags.contains(&"-ffunction-sections");
                if has_sections && linker.ends_with("lld") {
                    assert_eq!(found[0].iter().filter(is_unused).count(), 0);
                }
                let many = found[1].iter().filter(|it| it.contains("\"shared<int>\"")).count();
                assert!(many >= 2 && many % 2 == 0, "{compiler} {flags:?} {linker}: {found:?}");
            }
        }
    }
}

/// Linkers that fold identical functions leave those of a cold-patched object apart, each with its
/// own sites.
#[test]
fn functions_of_an_object_are_not_folded() {
    const IDENTICAL: &str = "\
int first(int n) { return n * 3 + 1; }
int second(int n) { return n * 3 + 1; }
int main() { return first(1) + second(2); }
";
    for compiler in compilers() {
        let folder = Folder::new("coldpatched-folded");
        let object = object_file(&folder, IDENTICAL, "a", compiler, &["-O0", "-ffunction-sections"]);
        let patched = folder.0.join("patched.o");
        out(&["coldpatch", object.to_str().unwrap(), "-o", patched.to_str().unwrap()]);
        for linker in each_linker().filter(|it| *it != "bfd") {
            let program = folder.0.join(linker);
            let linker = format!("-fuse-ld={linker}");
            build(compiler, &patched, &program, &[&linker, "-Wl,--icf=all"]);
            let sites = sites(&program);
            let of = |name: &str| sites.values().filter(|it| it.contains(&format!("\"{name}\""))).count();
            assert_eq!([of("first"), of("second")], [2, 2], "{compiler} {linker}: {sites:?}");
            out(&["audit", "--quiet", program.to_str().unwrap()]);
        }
    }
}

#[test]
fn hostile_objects_and_archives_are_refused_or_read() {
    let folder = Folder::new("coldpatched-hostile");
    let object = object_file(&folder, SHARED_BY_HAND, "hostile", "gcc", &["-O1", "-ffunction-sections"]);
    let good = fs::read(&object).unwrap();
    let archive = folder.0.join("lib.a");
    assert!(Command::new("ar").arg("rcs").args([&archive, &object]).status().unwrap().success());
    let archived = fs::read(&archive).unwrap();
    let mut random = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut below = |limit: usize| random.next_u32() as usize % limit;
    let probes = [Probe { kind: Kind::Entry, path: "p".repeat(200), file: String::new(), line: 1 }];
    let (mut read, mut patched) = (0, 0);
    for turn in 0..2400 {
        let mut bytes = if turn % 3 == 0 { archived.clone() } else { good.clone() };
        // Headers of sections are at the end, symbols and relocations before them.
        for _ in 0..=below(3) {
            let at =
                if below(2) == 0 { bytes.len() - 1 - below(bytes.len() / 2) } else { below(bytes.len()) };
            bytes[at] = [0, 0xff, 1, bytes[at] ^ 1 << below(8)][below(4)];
        }
        if below(10) == 0 {
            bytes.truncate(below(bytes.len()));
        }
        if archive::is_archive(&bytes) {
            if let Ok(members) = archive::members(&bytes) {
                let _ = archive::with_members(&members, &bytes, &[(1, good.clone())].into());
            }
            continue;
        }
        let Ok(object) = Object::read(&bytes) else { continue };
        read += 1;
        let image = object.image();
        assert!(image.len() < 4 * good.len(), "{}", image.len());
        let calls: Vec<_> = (0x10_0000..0x10_8000_u64)
            .map(|addr| Call { addr, len: 5, is_jump: false, probe: 0 })
            .filter(|call| object.has_site(call))
            .collect();
        if let Ok(out) = object.patched(&probes, &calls) {
            patched += usize::from(!calls.is_empty());
            assert!(out.len() < 8 * good.len(), "{}", out.len());
        }
    }
    assert!(read > 400 && patched > 200, "{read} {patched}");
}

const SHARED_BY_HAND: &str = "\
template <class T> __attribute__((noinline)) T shared(T x) { return x * 2 + 1; }
int one(int x) { return shared(x); }
int two(int x) { return one(x) + shared(x + 1); }
";
