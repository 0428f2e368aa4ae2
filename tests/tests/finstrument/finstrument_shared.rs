//! One call of a hook that two functions share, as compilers make of inlined functions with like
//! ends: each has its own hits.
#![cfg(all(target_arch = "x86_64", target_os = "linux", not(any(probe_portable, probe_off))))]

use probe_runtime::finstrument::{self, Reason};
use probe_runtime::{Count, Kind};
use probe_tests::instrumented::load;

const CODE: &str = "\
	.text
	.globl one, two
	.type one, @function
	.type two, @function
one:
.Lone:
	subq $8, %rsp
	leaq .Lone(%rip), %rdi
	movl $1, %eax
	jmp 1f
two:
.Ltwo:
	subq $8, %rsp
	leaq .Ltwo(%rip), %rdi
	movl $2, %eax
1:	pushq %rax
	pushq %rax
	movq 24(%rsp), %rsi
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
    let library = load("shared", "shared.s", CODE, &[]);
    let (one, two) = (library.function("one"), library.function("two"));
    let calls = finstrument::attach(Count::new(), 10).unwrap();
    for _ in 0..7 {
        assert_eq!(one(0), 1);
        assert_eq!((two(0), two(0)), (2, 2));
    }
    let counts = calls.counts();
    assert_eq!(
        (counts.hits("one", Kind::Exit), counts.hits("two", Kind::Exit)),
        (Some(7), Some(14)),
        "{counts}"
    );
    let kept = finstrument::unpatched();
    let mut kept: Vec<_> = kept.iter().map(|it| (it.probe().path(), it.reason())).collect();
    kept.sort_unstable_by_key(|(path, _)| path.to_string());
    assert_eq!(kept, [("one", Reason::Shared), ("two", Reason::NotACall)]);
    // A call without a listener is a real call, which makes no hits.
    calls.pause();
    assert_eq!((one(0), two(0)), (1, 2));
    calls.resume();
    assert_eq!((one(0), two(0)), (1, 2));
    assert_eq!(calls.total(), 7 + 14 + 2);
    drop(calls);
    library.close();
}
