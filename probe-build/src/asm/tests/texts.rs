//! Exact text for short files.

use super::*;

/// Stubs of entry and exit are named by a hash; here by `E`, `X` and the number of the probe.
fn placed(source: &str, request: &Request<'_>) -> (String, Vec<(Function, Outcome)>) {
    let Placed { text, functions } = place(source, request).expect("it is understood");
    let body = text.strip_prefix(definition::HEAD).unwrap_or(&text);
    let body = body.split("\t.section .text.unlikely.__probe_stub_").next().unwrap_or_default();
    let mut names: Vec<String> = Vec::new();
    let mut out = String::new();
    for line in body.split_inclusive('\n').filter(|line| !line.ends_with(MARK)) {
        let Some(site) = line.strip_prefix(definition::SITE) else {
            out.push_str(line);
            continue;
        };
        let words: Vec<_> = site.trim_end().split(", ").collect();
        let (stub, first) = match words[..] {
            [_, stub, _] => (stub, ""),
            [_, stub, _, "nop"] => (stub, "FIRST "),
            _ => panic!("number, stub, anchor and what is ahead: {site}"),
        };
        let number = names.iter().position(|name| name == stub).unwrap_or_else(|| {
            names.push(stub.to_owned());
            names.len() - 1
        });
        out.extend(["\t", first, "SITE "]);
        out.push_str(&number.to_string());
        out.push('\n');
    }
    (out, functions)
}

#[test]
fn what_a_function_has_saved_is_restored_at_its_exits() {
    let saved =
        "\tpushq\t%rbx\n\t.cfi_offset 3, -16\n\tpopq\t%rbx\n\tret\n\t.p2align 4\n\tjmp\tg\t# TAILCALL\n";
    let text = place(&function(saved), &request(Sites::EntryReturn, Family::Clang)).expect("understood").text;
    let around = "\t.cfi_remember_state\t# probe\n\t.cfi_restore 3\t# probe\n\t__probe_site ";
    assert_eq!(text.matches(around).count(), 2, "{text}");
    for exit in ["ret\n", "jmp\tg\t# TAILCALL\n"] {
        assert!(text.contains(&format!(", 0\n\t{exit}\t.cfi_restore_state\t# probe\n")), "{text}");
    }
    let plain =
        place(&function("\tret\n"), &request(Sites::EntryReturn, Family::Gnu)).expect("understood").text;
    assert!(!plain.contains(MARK), "{plain}");
}

#[test]
fn parts_are_parts_without_a_type() {
    let text = "\
\t.type\tf,@function
f:                                      # @f
\ttestl\t%edi, %edi
\tjne\tf.__part.1
\tjmp\tf.cold
\t.size\tf, .-f
\t.section .text.split.f,\"ax\",@progbits
f.__part.1:
\tretq
\t.size\tf.__part.1, .-f.__part.1
f.cold:
\tretq
\t.size\tf.cold, .-f.cold
";
    let (placed, functions) = placed(text, &request(Sites::EntryReturn, Family::Clang));
    let expected =
        text.replace("# @f\n", "# @f\n\tFIRST SITE 0\n").replace("\tretq", "\tFIRST SITE 1\n\tretq");
    assert_eq!(placed, expected);
    assert_eq!(functions[0].1, Outcome::Placed { entries: 1, exits: 2, dead_ends: 0, unknown_hooks: 0 });
}

#[test]
fn a_jump_that_clang_does_not_call_a_tail_call_is_none() {
    for jump in ["jmp\tg", "jne\tg", "jmp\tg.cold", "jmp\tg.__part.1"] {
        let body = format!("\t{jump}\n\tretq\n");
        let target = jump.split('\t').next_back().unwrap_or_default();
        assert_eq!(cause(&body, Family::Clang), Some(Cause::Jump(target.to_owned())), "{jump}");
    }
}

#[test]
fn what_runs_on_is_no_function() {
    assert_eq!(cause("\tnop\n\tmovl\t$12345, %eax\n", Family::Clang), Some(Cause::NoExit));
}

fn outcome(source: &str, compiler: Family) -> Outcome {
    let mut functions = place(source, &request(Sites::EntryReturn, compiler)).expect("understood").functions;
    assert_eq!(functions.len(), 1, "{functions:?}");
    functions.remove(0).1
}

/// A function around a body.
fn function(body: &str) -> String {
    format!(
        "\t.text\n\t.type\tf, @function\nf:\t# @f\n.LFB0:\n\t.cfi_startproc\n{body}\t.cfi_endproc\n\t.size\tf, .-f\n"
    )
}

fn cause(body: &str, compiler: Family) -> Option<Cause> {
    match outcome(&function(body), compiler) {
        Outcome::LeftOut(reason) => Some(reason.cause),
        _ => None,
    }
}

#[test]
fn entry_before_a_loop_and_exits_before_returns_and_tail_calls() {
    let source = "\
\t.file\t\"a.c\"
\t.text
\t.file 1 \"a.c\"
\t.globl\tf
\t.type\tf, @function
f:
.LFB0:
\t.loc 1 3 14
\t.cfi_startproc
\tendbr64
\t.p2align 4
.L3:
\tsubl\t$1, %edi\t# 3\t[c=4 l=3]  *addsi_1/0
\tjne\t.L3\t# 4\t[c=4 l=3]  *jcc
\tje\t.L5\t# 4\t[c=4 l=3]  *jcc
\trep ret\t# 5\t[c=0 l=2]  simple_return_internal
.L5:
\tjmp\t*8(%rdi)\t# 6\t[c=4 l=3]  *sibcall_value_memory
\t.cfi_endproc
.LFE0:
\t.size\tf, .-f
";
    let (text, functions) = placed(source, &request(Sites::EntryReturn, Family::Gnu));
    let expected = source
        .replace("\tendbr64\n", "\tendbr64\n\tSITE 0\n")
        .replace("\trep ret", "\tSITE 1\n\trep ret")
        .replace("\tjmp\t*8", "\tSITE 1\n\tjmp\t*8");
    assert_eq!(text, expected);
    let f = Function { symbol: "f".into(), path: "f".into(), file: "a.c".into(), line: 3, instructions: 6 };
    assert_eq!(functions, [(f, Outcome::Placed { entries: 1, exits: 2, dead_ends: 0, unknown_hooks: 0 })]);
}

#[test]
fn a_cold_part_belongs_to_its_function() {
    let source = "\
\t.text
\t.type\tf, @function
f:
\ttestl\t%edi, %edi
\tjne\t.L2
\tret
\t.section\t.text.unlikely
\t.type\tf.cold, @function
f.cold:
.L2:
\tcall\tabort
\t.text
\t.size\tf, .-f
\t.section\t.text.unlikely
\t.size\tf.cold, .-f.cold
";
    let (text, functions) = placed(source, &request(Sites::EntryReturn, Family::Gnu));
    assert_eq!(text, source.replace("f:\n", "f:\n\tFIRST SITE 0\n").replace("\tret", "\tSITE 1\n\tret"));
    assert_eq!(functions.len(), 1);
    assert_eq!(functions[0].1, Outcome::Placed { entries: 1, exits: 1, dead_ends: 1, unknown_hooks: 0 });
}

/// clang's `-fbasic-block-sections`: the blocks that handle exceptions lie apart, and may return.
#[test]
fn handlers_that_lie_apart_are_of_their_function() {
    let source = "\t.text
\t.type\tf,@function
f:                                      # @f
\tcallq\tg
\tretq
\t.section\t.text.eh.f,\"ax\",@progbits
f.eh:
\tcallq\th
\tretq
.LBB_END0_1:
\t.size\tf.eh, .LBB_END0_1-f.eh
\t.text
.Lfunc_end0:
\t.size\tf, .Lfunc_end0-f
";
    let (text, functions) = placed(source, &request(Sites::EntryReturn, Family::Clang));
    assert_eq!(
        text,
        source.replace("# @f\n", "# @f\n\tFIRST SITE 0\n").replace("\tretq", "\tSITE 1\n\tretq")
    );
    assert_eq!(functions.len(), 1);
    assert_eq!(functions[0].1, Outcome::Placed { entries: 1, exits: 2, dead_ends: 0, unknown_hooks: 0 });
}

#[test]
fn a_trap_is_an_end_without_an_exit() {
    for trap in ["ud2", "ud1l\t1(%eax), %eax", "ud1l 7(%rax), %eax"] {
        let source = function(&format!("\tcallq\tg\n\t{trap}\n"));
        let placed = place(&source, &request(Sites::EntryReturn, Family::Clang)).expect("understood");
        let expected = Outcome::Placed { entries: 1, exits: 0, dead_ends: 1, unknown_hooks: 0 };
        assert_eq!(placed.functions[0].1, expected, "{trap}");
    }
}

#[test]
fn a_conditional_tail_call_becomes_a_jump_around_it() {
    let source = function("\ttestl\t%edi, %edi\n\tje\tg@PLT                           # TAILCALL\n\tretq\n");
    let (text, _) = placed(&source, &request(Sites::EntryReturn, Family::Clang));
    let around = "\tjne\t.Lprobe_skip_0\n\tSITE 1\n\tjmp\tg@PLT\n.Lprobe_skip_0:\n\tSITE 1\n\tretq\n";
    let expected = function(&format!("\tFIRST SITE 0\n\ttestl\t%edi, %edi\n{around}"));
    assert_eq!(text, expected);
    let placed = place(&source, &request(Sites::EntryReturn, Family::Clang)).expect("understood");
    assert_eq!(without_sites(&placed.text, &source), source);
}

#[test]
fn what_is_left_out() {
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
        // Left out means untouched.
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
fn extents_that_are_not_seen() {
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
fn hooks_become_sites_of_the_function_they_speak_of() {
    let source = "\
\t.file\t\"a.c\"
\t.text
\t.type\tf, @function
f:
\tpushq\t%rbx
\tleaq\tf(%rip), %rbx
\tmovq\t%rbx, %rdi
\tcall\t__cyg_profile_func_enter@PLT
\tleaq\tinlined(%rip), %rax
\tmovq\t%rax, 8(%rsp)
\tmovq\t%rax, %rdi
\tcallq\t*__cyg_profile_func_enter@GOTPCREL(%rip)
\tcall\tg
\tmovq\t8(%rsp), %rdi
\tcall\t__cyg_profile_func_exit
\tmovq\t(%rbp), %rdi
\tcall\t__cyg_profile_func_exit
\tmovq\t%rbx, %rdi
\tpopq\t%rbx
\tjmp\t__cyg_profile_func_exit
\t.size\tf, .-f
";
    let (text, functions) = placed(source, &request(Sites::InstrumentFunctions, Family::Gnu));
    let expected = source
        .replace("\tcall\t__cyg_profile_func_enter@PLT\n", "\tSITE 0\n")
        .replace("\tcallq\t*__cyg_profile_func_enter@GOTPCREL(%rip)\n", "\tSITE 1\n")
        .replace("(%rbp), %rdi\n\tcall\t__cyg_profile_func_exit\n", "(%rbp), %rdi\n")
        .replace("\tcall\t__cyg_profile_func_exit\n", "\tSITE 2\n")
        .replace("\tjmp\t__cyg_profile_func_exit\n", "\tSITE 3\n\tret\n");
    assert_eq!(text, expected);
    let outcomes: Vec<_> =
        functions.iter().map(|(function, outcome)| (function.path.as_str(), outcome.clone())).collect();
    let sites = |unknown_hooks| Outcome::Placed { entries: 1, exits: 1, dead_ends: 0, unknown_hooks };
    assert_eq!(outcomes, [("f", sites(1)), ("inlined", sites(0))]);
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

#[test]
fn an_excluded_function_stays_as_it_is() {
    let wants = |function: &Function| match function.path.as_str() {
        "f" => Err(Exclusion::Function("f*".into())),
        _ => Ok(()),
    };
    let source = function("\tret\n");
    let request = Request { wants: &wants, ..request(Sites::EntryReturn, Family::Gnu) };
    let placed = place(&source, &request).expect("understood");
    assert_eq!(placed.text, source);
    assert_eq!(placed.functions[0].1, Outcome::Excluded(Exclusion::Function("f*".into())));
}

#[test]
fn debug_information_for_our_sake_is_taken_out() {
    let source = "\
\t.file\t\"a.c\"
\t.text
\t.file 0 \"/src\" \"a.c\"
\t.type\tf, @function
f:
\t.loc 0 7 1
\tret
\t.size\tf, .-f
\t.section\t.debug_info,\"\",@progbits
.Ldebug_info0:
\t.long\t0x13a
\t.hidden\tg
\t.section\t.debug_str,\"MS\",@progbits,1
\t.string\t\"f\"
\t.ident\t\"GCC\"
\t.section\t.note.GNU-stack,\"\",@progbits
";
    let request = Request { keep_debug: false, ..request(Sites::EntryReturn, Family::Gnu) };
    let (text, functions) = placed(source, &request);
    let expected = "\
\t.file\t\"a.c\"
\t.text
\t.type\tf, @function
f:
\tFIRST SITE 0
\tSITE 1
\tret
\t.size\tf, .-f
\t.hidden\tg
\t.ident\t\"GCC\"
\t.section\t.note.GNU-stack,\"\",@progbits
";
    assert_eq!(text, expected);
    assert_eq!((functions[0].0.file.as_str(), functions[0].0.line), ("a.c", 7));
}
