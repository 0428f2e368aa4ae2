//! Functions that are left unchanged, each with its cause, and files that are rejected.

use super::*;

#[test]
fn functions_are_left_out_with_their_causes() {
    let gnu = [
        ("\tjmp\t*%rax\n", Cause::IndirectJump),
        ("\tjmp\t__x86_indirect_thunk_rax\n", Cause::IndirectJump),
        ("\tjmp\t*-8(%rsp)\t# 6\t[c=4 l=3]  *sibcall_memory\n", Cause::BelowStackPointer),
        ("\tjmp\tg+4\n", Cause::Jump("g+4".into())),
        ("\tjmp\t.L99\n", Cause::Jump(".L99".into())),
        ("\tnop\n#APP\n\tret\n#NO_APP\n\tincl %eax\n", Cause::InlineAssembly("ret".into())),
        ("#APP\n\thlt\n#NO_APP\n\tnop\n\tud2\n", Cause::Naked),
        ("\tleaq\t16(%rsp,%rdi), %rsp\n\tret\n", Cause::ExceptionReturn),
        ("\tmovq\t%rcx, %rsp\n\tret\n", Cause::ExceptionReturn),
        ("\tiretq\n", Cause::SpecialReturn("iretq".into())),
        ("\tcall\t.L3\n.L3:\n\tret\n", Cause::CallOfLabel),
        ("\tcall\t__morestack\n\tret\n", Cause::SplitStack),
        ("\tdata16\n\tret\n", Cause::Prefix),
        ("1:\tret\n", Cause::Prefix),
        ("\t.long\t3\n\tret\n", Cause::Directive(".long".into())),
        ("\t.rept\t3\n\tret\n", Cause::Directive(".rept".into())),
        ("\tnop; ret\n", Cause::Line("several statements in a line".into())),
    ];
    for (body, expected) in gnu {
        if body.contains(".rept") {
            assert!(place(&function(body), &request(Sites::EntryReturn, Family::Gnu)).is_err());
            continue;
        }
        assert_eq!(cause(body, Family::Gnu), Some(expected), "{body}");
        // A function that is left out is unchanged.
        let source = function(body);
        assert_eq!(
            place(&source, &request(Sites::EntryReturn, Family::Gnu)).expect("understood").text,
            source
        );
    }
    assert_eq!(cause("\tret\t# eh_return, addr: %rcx\n", Family::Clang), Some(Cause::ExceptionReturn));
    assert_eq!(cause("\tjmpq\t*%rax\n", Family::Clang), None, "a switch");
    assert_eq!(
        cause("\tlfence\n\tjmpq\t*%rax\n", Family::Clang),
        Some(Cause::IndirectJump),
        "a return in disguise"
    );
    let bare = function("\tjmpq\t*%rax\n").replace("\t# @f", "");
    assert!(matches!(
        outcome(&bare, Family::Clang),
        Outcome::LeftOut(Reason { cause: Cause::IndirectJump, .. })
    ));
}

#[test]
fn functions_without_a_start_or_an_end_are_left_out() {
    let gnu = |source: &str| {
        let functions =
            place(source, &request(Sites::EntryReturn, Family::Gnu)).expect("understood").functions;
        functions
            .into_iter()
            .map(|(function, outcome)| match outcome {
                Outcome::LeftOut(reason) => (function.symbol, Some(reason.cause)),
                _ => (function.symbol, None),
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(gnu("\t.type f, @function\nf:\n\tret\n"), [("f".to_owned(), Some(Cause::NoEnd))]);
    let nested =
        "\t.type f, @function\n\t.type g, @function\nf:\n\tnop\ng:\n\tret\n\t.size g, .-g\n\t.size f, .-f\n";
    assert_eq!(gnu(nested), [("f".to_owned(), Some(Cause::Nested)), ("g".to_owned(), Some(Cause::Nested))]);
    let cold = "\t.type f.cold, @function\nf.cold:\n\tret\n\t.size f.cold, .-f.cold\n";
    assert_eq!(gnu(cold), [("f.cold".to_owned(), Some(Cause::NoStart))]);
    let ifunc = "\t.type f, @gnu_indirect_function\nf:\n\tret\n\t.size f, .-f\n";
    assert_eq!(gnu(ifunc), [("f".to_owned(), Some(Cause::IndirectFunction))]);
    let two_names =
        "\t.type f, @function\n\t.type g, @function\nf:\ng:\n\tret\n\t.size g, .-g\n\t.size f, .-f\n";
    assert_eq!(gnu(two_names), [("f".to_owned(), None)]);
}

#[test]
fn files_that_are_not_understood() {
    for (source, what) in [
        ("\t.intel_syntax noprefix\n", "the assembly is not understood: Intel syntax (line 1)"),
        ("nop\n\t.arch armv8-a\n", "the assembly is not understood: it is for another processor (line 2)"),
        ("#APP\n", "the assembly is not understood: inline assembly without an end (line 1)"),
        (
            "#APP\n.intel_syntax noprefix\n#NO_APP\n",
            "the assembly is not understood: inline assembly goes over to Intel syntax and does not come back (line 3)",
        ),
        ("nop /* \n", "the assembly is not understood: a comment that goes on in the next line (line 1)"),
        ("\t__probe_site 0, x\n", "the assembly is not understood: it has probe sites already (line 1)"),
    ] {
        let error = place(source, &request(Sites::EntryReturn, Family::Gnu)).expect_err(source);
        assert_eq!(error.to_string(), what);
    }
}

#[test]
fn a_jump_that_clang_does_not_mark_is_not_a_tail_call() {
    for jump in ["jmp\tg", "jne\tg", "jmp\tg.cold", "jmp\tg.__part.1"] {
        let body = format!("\t{jump}\n\tretq\n");
        let target = jump.split('\t').next_back().unwrap_or_default();
        assert_eq!(cause(&body, Family::Clang), Some(Cause::Jump(target.to_owned())), "{jump}");
    }
}

#[test]
fn a_function_without_an_exit_is_left_out() {
    assert_eq!(cause("\tnop\n\tmovl\t$12345, %eax\n", Family::Clang), Some(Cause::NoExit));
}

#[test]
fn a_reference_to_a_hook_that_is_no_call_refuses_the_file() {
    let source = function("\tmovabsq\t$__cyg_profile_func_enter, %rax\n\tcall\t*%rax\n\tret\n");
    let error = place(&source, &request(Sites::InstrumentFunctions, Family::Gnu)).expect_err("it is left");
    assert_eq!(
        error.to_string(),
        "the assembly is not understood: a reference to a hook that is not a call (line 6)"
    );
}

fn outcome(source: &str, compiler: Family) -> Outcome {
    let mut functions = place(source, &request(Sites::EntryReturn, compiler)).expect("understood").functions;
    assert_eq!(functions.len(), 1, "{functions:?}");
    functions.remove(0).1
}

fn cause(body: &str, compiler: Family) -> Option<Cause> {
    match outcome(&function(body), compiler) {
        Outcome::LeftOut(reason) => Some(reason.cause),
        _ => None,
    }
}
