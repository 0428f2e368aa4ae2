//! Exact text for short files.

use super::*;

/// Replaces the hashes in the stubs of entry and exit by `E` or `X` and the number of the probe.
fn placed(source: &str, request: &Request<'_>) -> (String, Vec<(Function, Outcome)>) {
    let Placed { text, functions } = place(source, request).expect("it is understood");
    let body = text.strip_prefix(output::HEAD).unwrap_or(&text);
    let body = body.split("\t.section .text.unlikely.__probe_stub_").next().unwrap_or_default();
    let mut names: Vec<String> = Vec::new();
    let mut out = String::new();
    for line in body.split_inclusive('\n').filter(|line| !line.ends_with(MARK)) {
        let Some(site) = line.strip_prefix(output::SITE) else {
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
fn saved_registers_are_restored_at_exits() {
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
fn cold_parts_need_no_type() {
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

/// clang's `-fbasic-block-sections` separates the blocks that handle exceptions; these may return.
#[test]
fn separate_exception_handlers_belong_to_their_function() {
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
fn hooks_become_sites_of_the_function_that_they_pass() {
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
fn unrequested_debug_information_is_removed() {
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
