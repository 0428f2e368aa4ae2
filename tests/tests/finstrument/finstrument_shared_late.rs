//! One call of a hook that two functions share, of which the second is seen there only after it was
//! attached to: each has its own hits, all of them. A process of its own: calls must not be known
//! before.
#![cfg(all(target_arch = "x86_64", target_os = "linux", not(any(probe_portable, probe_off))))]

use probe_runtime::finstrument::{self, Reason};
use probe_runtime::{Count, Kind, select};
use probe_tests::instrumented::load;

/// `two` leaves by the call that it shares with `one`, or, if it was given anything, by one of its
/// own. `PAD` moves the shared call across two aligned words, or not.
const CODE: &str = "\
	.text
	.globl one, two
	.type one, @function
	.type two, @function
	.p2align 4
one:
.Lone:
	subq $8, %rsp
	leaq .Lone(%rip), %rdi
	call __cyg_profile_func_enter@PLT
	leaq .Lone(%rip), %rdi
	movl $1, %eax
	jmp 1f
	.p2align 4
two:
.Ltwo:
	pushq %rdi
	leaq .Ltwo(%rip), %rdi
	call __cyg_profile_func_enter@PLT
	movl $2, %eax
	leaq .Ltwo(%rip), %rdi
	cmpq $0, (%rsp)
	je 1f
	pushq %rax
	pushq %rax
	call __cyg_profile_func_exit@PLT
	popq %rax
	popq %rax
	addq $8, %rsp
	ret
	.p2align 4
	.skip PAD, 0x90
1:	pushq %rax
	pushq %rax
	call __cyg_profile_func_exit@PLT
	popq %rax
	popq %rax
	addq $8, %rsp
	ret
	.size one, 1
	.size two, . - .Ltwo
	.section .note.GNU-stack,\"\",@progbits
";

#[test]
fn each_function_has_its_own_hits() {
    finstrument::start();
    for (name, pad) in [("whole", 6), ("straddles", 3)] {
        let code = CODE.replace("PAD", &pad.to_string());
        let library = load(&format!("shared-late-{name}"), &format!("{name}.s"), &code, &[]);
        let (one, two) = (library.function("one"), library.function("two"));
        // Nobody listens: the shared call becomes `one`'s, and latent, before `two` is seen there.
        for _ in 0..3 {
            assert_eq!((one(0), two(1)), (1, 2));
        }
        assert_eq!(two(0), 2);
        let calls = select("one, two").unwrap().attach(Count::new()).unwrap();
        for _ in 0..7 {
            assert_eq!((one(0), two(0), two(0), two(1)), (1, 2, 2, 2));
        }
        let counts = calls.counts();
        let both = |name| (counts.hits(name, Kind::Entry), counts.hits(name, Kind::Exit));
        assert_eq!((both("one"), both("two")), ((Some(7), Some(7)), (Some(21), Some(21))), "{name} {counts}");
        drop(calls);
        // From here on, the call is known for a shared one: it is nobody's site, and silences
        // neither.
        let calls = select("two").unwrap().attach(Count::new()).unwrap();
        for _ in 0..5 {
            assert_eq!((one(0), two(0), two(1)), (1, 2, 2));
        }
        let counts = calls.counts();
        assert_eq!(
            (counts.hits("two", Kind::Entry), counts.hits("two", Kind::Exit)),
            (Some(10), Some(10)),
            "{name} {counts}"
        );
        drop(calls);
        let calls = select("one").unwrap().attach(Count::new()).unwrap();
        assert_eq!((one(0), two(0), two(1)), (1, 2, 2));
        assert_eq!(calls.total(), 2);
        drop(calls);
        let kept = finstrument::unpatched();
        let mut told: Vec<_> = kept.iter().map(|it| (it.probe().path(), it.reason())).collect();
        told.sort_unstable_by_key(|(path, _)| path.to_string());
        assert_eq!(told, [("one", Reason::Shared), ("two", Reason::NotACall)], "{name}");
        library.close();
    }
}
