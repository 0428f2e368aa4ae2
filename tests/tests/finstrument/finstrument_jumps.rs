//! Jumps to the exit hook, in assembly: of each form, at each offset in a word, exact counts and
//! bytes. Code that is not certain to be such a jump stays as it is.
#![cfg(all(target_arch = "x86_64", target_os = "linux", not(any(probe_portable, probe_off))))]

use probe_runtime::finstrument::{self, Reason};
use probe_runtime::{Count, Kind, probes, select};
use probe_tests::instrumented::{folder, shared, source};
use probe_tests::library::Library;
use probe_tests::scenario;

#[test]
fn wherever_the_jump_lies() {
    scenario::runs_in_a_child("scenario", "places");
}

#[test]
fn what_is_not_certain_stays() {
    scenario::runs_in_a_child("scenario", "uncertain");
}

#[test]
#[ignore = "other tests play it, in children"]
fn scenario() {
    let asked = scenario::to_play();
    match asked.as_str() {
        "places" => places(),
        "uncertain" => uncertain(),
        other => panic!("no scenario {other}"),
    }
    println!("done: {asked}");
}

/// Assembly of void functions that add to `sum`, each with its jump at one of eight offsets in an
/// aligned word, and two ways to it.
fn jumps_at(offset: usize, jump: &str) -> String {
    format!(
        "\t.text\n\t.globl add\n\t.type add, @function\n\t.p2align 4\nadd:\n\tpushq %rbx\n\tmovq %rdi, %rbx\n\
         \tleaq add(%rip), %rdi\n\tmovq 8(%rsp), %rsi\n\tcall __cyg_profile_func_enter@PLT\n\
         \taddq %rbx, sum(%rip)\n\tmovq 8(%rsp), %rsi\n\ttestq $1, %rbx\n\tpopq %rbx\n\tleaq .Ladd(%rip), %rdi\n\tjne 1f\n\
         \t.p2align 3\n\t.skip {offset}, 0x90\njump_one:\n\t{jump}\n\
         1:\taddq $1, sum(%rip)\n\t.p2align 3\n\t.skip {offset}, 0x90\njump_two:\n\t{jump}\n\
         \t.size add, . - add\n\t.set .Ladd, add\n\t.globl jump_one, jump_two, value\n\
         \t.type value, @function\nvalue:\n\tmovq sum(%rip), %rax\n\tret\n\t.size value, . - value\n\
         \t.local sum\n\t.comm sum, 8, 8\n\t.section .note.GNU-stack,\"\",@progbits\n"
    )
}

fn bytes(library: &Library, name: &str) -> [u8; 8] {
    // SAFETY: code of the library.
    unsafe { library.symbol(name).cast::<[u8; 8]>().read_unaligned() }
}

fn places() {
    let folder = folder("places");
    for (kind, jump, len) in [
        ("plt", "jmp __cyg_profile_func_exit@PLT", 5),
        ("got", "jmp *__cyg_profile_func_exit@GOTPCREL(%rip)", 6),
        ("notrack", "notrack jmp *__cyg_profile_func_exit@GOTPCREL(%rip)", 7),
    ] {
        for offset in 0..8 {
            let file = source(&folder, &format!("{kind}{offset}.s"), &jumps_at(offset, jump));
            let library =
                Library::open(&shared("gcc", &file, &format!("{kind}{offset}.so"), &["-Wl,-Bsymbolic"]));
            let (add, value) = (library.function("add"), library.getter("value"));
            let names = ["jump_one", "jump_two"];
            let original = names.map(|name| bytes(&library, name));
            assert_eq!(library.symbol("jump_one").addr() % 8, offset);
            // One of the two ways is taken: both are found.
            add(2);
            finstrument::start();
            let before = finstrument::stats();
            let said = format!("{kind} {offset} {before:?} {:?}", finstrument::unpatched());
            for (name, original) in names.iter().zip(original) {
                let mut latent = original;
                latent[0] = 0xc3;
                assert_eq!(bytes(&library, name), latent, "{said}");
            }
            add(3);
            assert_eq!(value(), 6);
            let exit = probes().into_iter().find(|probe| probe.kind() == Kind::Exit).unwrap();
            assert_eq!((exit.path(), exit.sites()), ("add", 2), "{said}");
            let hits = select("add").unwrap().attach(Count::new()).unwrap();
            assert!(hits.report().is_complete(), "{}", hits.report());
            assert_eq!(names.map(|name| bytes(&library, name)), original, "{len} bytes");
            (0..10).for_each(|x| _ = add(x));
            assert_eq!(hits.counts().hits("add", Kind::Entry), Some(10), "{said}");
            assert_eq!(hits.counts().hits("add", Kind::Exit), Some(10), "{said}");
            drop(hits);
            assert_eq!(names.map(|name| bytes(&library, name)[0]), [0xc3; 2], "{said}");
            assert_eq!(finstrument::stats(), before);
            library.close();
            assert_eq!(probes(), []);
        }
    }
}

fn uncertain() {
    let folder = folder("uncertain");
    let sure = jumps_at(0, "jmp __cyg_profile_func_exit@PLT");
    let jump = "jmp __cyg_profile_func_exit@PLT";
    // A jump through a register in between; a conditional jump to the hook; an argument that two
    // ways do not agree on; no size.
    let table = sure.replacen("\tjne 1f\n", "\tjne 1f\n\tjmp 2f\n\tjmp *%rax\n2:\n", 1);
    let conditional = sure.replacen(&format!("\t{jump}\n1:"), "\tjmp 3f\n1:", 1).replacen(
        "\t.size add",
        "3:\tcmpq %rdi, %rdi\n\tje __cyg_profile_func_exit\n\tud2\n\t.size add",
        1,
    );
    let computed = sure.replace(
        "\tleaq .Ladd(%rip), %rdi\n",
        "\tleaq .Ladd(%rip), %rax\n\tmovl $0, %edi\n\tleaq (%rdi,%rax), %rdi\n",
    );
    let sizeless = sure.replace("\t.size add, . - add\n", "");
    for (name, code, jumps) in [
        ("table", table, 0),
        ("conditional", conditional, 1),
        ("computed", computed, 0),
        ("sizeless", sizeless, 0),
        ("stripped", sure, 0),
    ] {
        let flags = ["-Wl,-Bsymbolic", if name == "stripped" { "-Wl,-s" } else { "-g" }];
        let library = Library::open(&shared(
            "gcc",
            &source(&folder, &format!("{name}.s"), &code),
            &format!("{name}.so"),
            &flags,
        ));
        let (add, value) = (library.function("add"), library.getter("value"));
        let calls = finstrument::attach(Count::new(), 100).unwrap();
        let first = if jumps == 0 { [1, 2] } else { [1, 3] };
        first.into_iter().for_each(|x| _ = add(x));
        finstrument::start();
        finstrument::start();
        let kept = finstrument::unpatched();
        let reasons: Vec<_> = kept.iter().map(|it| (it.probe().kind(), it.reason())).collect();
        let expected = if jumps == 0 { vec![(Kind::Exit, Reason::NotACall)] } else { vec![] };
        assert_eq!(reasons, expected, "{name}");
        (0..10).for_each(|x| _ = add(x));
        assert_eq!(
            value(),
            first.iter().sum::<u64>() + 45 + 5 + first.iter().filter(|x| **x % 2 == 1).count() as u64,
            "{name}"
        );
        for kind in [Kind::Entry, Kind::Exit] {
            assert_eq!(calls.counts().hits("add", kind), Some(12), "{name}");
        }
        let _ = calls.pause();
        (0..10).for_each(|x| _ = add(x));
        assert_eq!(calls.counts().hits("add", Kind::Exit), Some(12), "{name}");
        drop(calls);
        library.close();
        assert_eq!(probes(), []);
    }
}
