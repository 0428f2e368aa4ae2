//! Functions that the compiler did not make: assembly at file scope, and naked functions. The
//! report names them, with their kind.

use probe_build::{Cause, Outcome, Report, Sites};

use crate::objects::Elf;
use crate::place::{Compiler, build, directory, link_and_run, write};

/// `isodd` returns the carry flag. The compiler's own functions around it return a multiple of
/// their argument.
const FILE_SCOPE: &str = r#"
#include <stdio.h>
int first(int x) { return x * 3; }
__asm__(".pushsection .text\n"
        ".globl isodd\n.type isodd, @function\n"
        "isodd: # @isodd\n btq $0, %rdi\n ret # End of file scope inline assembly\n"
        " # End of file scope inline assembly\n"
        ".size isodd, .-isodd\n"
        ".type second_flag, @function\nsecond_flag: testq $1, %rdi; ret\n.size second_flag, .-second_flag\n"
        ".popsection\n");
__attribute__((noinline)) static int odd(long x) {
    unsigned char carry;
    __asm__ volatile("subq $128, %%rsp\n call isodd\n setc %0\n addq $128, %%rsp" : "=r"(carry) : "D"(x) : "cc", "memory");
    return carry;
}
int main(void) {
    for (long x = 0; x < 4; x++) printf("%d %d\n", odd(x), first((int)x));
    return 0;
}
"#;

/// A naked function that expects `rbx` and its two arguments unchanged.
const NAKED: &str = r#"
#include <stdio.h>
__attribute__((naked)) long naked_add(long a, long b) { __asm__("leaq (%rdi,%rsi), %rax\n addq %rbx, %rax\n ret"); }
__attribute__((noinline)) long plain_add(long a, long b) { __asm__ volatile("" ::: "memory"); return a + b; }
__attribute__((noinline)) static long call(long a, long b) {
    long sum;
    __asm__ volatile("subq $128, %%rsp\n movq $100, %%rbx\n call naked_add\n addq $128, %%rsp"
                     : "=a"(sum) : "D"(a), "S"(b) : "rbx", "rcx", "rdx", "r8", "r9", "r10", "r11", "cc", "memory");
    return sum;
}
int main(void) {
    printf("%ld %ld\n", call(2, 3), plain_add(4, 5));
    return 0;
}
"#;

fn compile(name: &str, text: &str, compiler: Compiler, sites: Sites, flags: &[&str]) -> (String, Report) {
    let out_dir = directory(&format!("{name}-{compiler:?}-{sites:?}{}", flags.concat()));
    let file = write(&out_dir, "a.c", text);
    let mut build = build(&out_dir, compiler.name(false));
    let (objects, report) =
        build.warnings(false).file(file).flags(flags).sites(sites).try_compile_intermediates().unwrap();
    let printed = link_and_run(compiler.name(false), &objects, &out_dir.join("program"));
    (printed, report)
}

/// Returns the causes of the left-out functions. Checks that there are as many sites as the report
/// says.
fn left_out(report: &Report) -> Vec<(&str, Cause)> {
    let [file] = report.files() else { panic!("{report}") };
    assert_eq!(file.plain(), None, "{report}");
    let elf = Elf::read(file.object());
    let sites = |outcome: &Outcome| match outcome {
        Outcome::Placed { entries, exits, .. } => entries + exits,
        _ => 0,
    };
    let told: usize = file.functions().iter().map(|function| sites(function.outcome())).sum();
    assert_eq!((elf.records(), elf.nops()), (told, told));
    let left_out = file.functions().iter().filter_map(|function| match function.outcome() {
        Outcome::LeftOut(reason) => Some((function.path(), reason.cause.clone())),
        _ => None,
    });
    left_out.collect()
}

const FLAGS: [&[&str]; 4] =
    [&[], &["-O0"], &["-fno-verbose-asm", "-ffunction-sections"], &["-g", "-fno-plt"]];

#[test]
fn file_scope_assembly_has_no_sites() {
    for compiler in Compiler::all() {
        for sites in [Sites::EntryReturn, Sites::InstrumentFunctions] {
            for flags in FLAGS {
                let (printed, report) = compile("file-scope", FILE_SCOPE, compiler, sites, flags);
                assert_eq!(printed, "0 0\n1 3\n0 6\n1 9\n");
                let expected = [("isodd", Cause::Assembly), ("second_flag", Cause::Assembly)];
                assert_eq!(left_out(&report), expected, "{compiler:?} {sites:?} {flags:?} {report}");
                assert!(report.to_string().contains("isodd: it is written in assembly (line "), "{report}");
            }
        }
    }
}

/// With GNU as behind clang, the assembly is the user's own text.
#[test]
fn file_scope_assembly_is_known_as_raw_text() {
    if Compiler::all().contains(&Compiler::Clang) {
        let flags = &["-fno-integrated-as"];
        let (printed, report) = compile("file-scope", FILE_SCOPE, Compiler::Clang, Sites::EntryReturn, flags);
        assert_eq!(printed, "0 0\n1 3\n0 6\n1 9\n");
        assert_eq!(left_out(&report), [("isodd", Cause::Assembly), ("second_flag", Cause::Assembly)]);
    }
}

#[test]
fn clang_without_its_comments_gets_no_sites() {
    if Compiler::all().contains(&Compiler::Clang) {
        let flags = &["-Xclang", "-fno-verbose-asm"];
        let (printed, report) = compile("file-scope", FILE_SCOPE, Compiler::Clang, Sites::EntryReturn, flags);
        assert_eq!(printed, "0 0\n1 3\n0 6\n1 9\n");
        assert_eq!(report.placed(), 0, "{report}");
    }
}

#[test]
fn naked_functions_have_no_hooks() {
    for compiler in Compiler::all() {
        for flags in FLAGS {
            let sites = Sites::InstrumentFunctions;
            let (printed, report) = compile("naked", NAKED, compiler, sites, flags);
            assert_eq!(printed, "105 9\n", "{compiler:?} {flags:?}");
            assert_eq!(left_out(&report), [("naked_add", Cause::Naked)], "{report}");
            assert_eq!(report.placed(), 3, "{report}");
        }
    }
}

/// A naked function with C in it, for which neither compiler guarantees anything: cc makes the
/// plain object.
#[test]
fn a_possibly_naked_function_keeps_the_file_plain() {
    let text = "int n; __attribute__((naked)) void f(void) { __asm__(\"pushq %rbx\"); n++; __asm__(\"popq %rbx\\n ret\"); }\n\
                int main(void) { return 0; }\n";
    let out_dir = directory("may-be-naked");
    let file = write(&out_dir, "a.c", text);
    let mut build = build(&out_dir, "gcc");
    let (_, report) = build
        .warnings(false)
        .file(file)
        .sites(Sites::InstrumentFunctions)
        .try_compile_intermediates()
        .unwrap();
    let reason = report.files()[0].plain().expect("it is plain").to_string();
    assert!(reason.contains("hooks in `f`, which may be naked but has code of its own"), "{reason}");
}

/// clang prints the name of a `vectorcall` function as `f@@16`, which no assembler accepts
/// unquoted.
#[test]
fn a_vectorcall_function_has_sites() {
    if !Compiler::all().contains(&Compiler::Clang) {
        return;
    }
    let text = "#include <stdio.h>\n\
                __attribute__((vectorcall, noinline)) int fast(int a, int b) { return a * b; }\n\
                __attribute__((noinline)) int plain(int x) { return fast(x, 2) + 1; }\n\
                int main(void) { printf(\"%d\\n\", plain(20)); return 0; }\n";
    for sites in [Sites::EntryReturn, Sites::InstrumentFunctions] {
        let (printed, report) = compile("vectorcall", text, Compiler::Clang, sites, &[]);
        assert_eq!(printed, "41\n");
        assert_eq!(left_out(&report), []);
        let paths: Vec<_> = report.functions().map(probe_build::FunctionReport::path).collect();
        assert_eq!((report.placed(), paths), (3, vec!["fast", "plain", "main"]), "{report}");
    }
}
