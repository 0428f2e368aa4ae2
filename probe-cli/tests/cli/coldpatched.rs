//! Cold-patched files by each compiler and linker: they differ from the files before at calls of
//! hooks only, run as before, and are read by the tools that read files.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use object::{Object, ObjectSection, SectionKind};
use probe_tests::instrumented::{build, compilers, source};
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
    assert!(again.contains("has probes already"), "{again}");
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
    let program = made(&folder, C, "gcc", &["-O2", "-static"]).display().to_string();
    let error = fails(3, &["coldpatch", &program, "-o", "/dev/null"]);
    assert!(error.contains("are one function"), "{error}");
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
    // A payload at the end.
    fs::write(&other, [&before[..], &[7; 100]].concat()).unwrap();
    let error = fails(3, &["coldpatch", &other, "-o", &name]);
    assert!(error.contains("100 bytes behind its last section"), "{error}");
    assert!(Command::new("strip").arg(&program).status().unwrap().success());
    let error = fails(3, &["coldpatch", &name, "-o", &other]);
    assert!(error.contains("has no symbols"), "{error}");
    let plain = Path::new("/bin/true");
    if plain.exists() {
        let error = fails(4, &["coldpatch", "/bin/true", "-o", &other]);
        assert!(error.contains("has no calls of the hooks"), "{error}");
    }
}
