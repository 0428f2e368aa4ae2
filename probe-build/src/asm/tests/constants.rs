//! The functions that hooks pass, for each way in which a compiler may load an address for a call.

use super::*;

const HOOK: &str = "\tcall\t__cyg_profile_func_exit\n";

/// Returns the sites that replace the hooks of a function with this body, in order: the functions'
/// paths, or `?` if unknown.
fn told(body: &str) -> Vec<String> {
    let source = format!("\t.text\n\t.type\tf, @function\nf:\n{body}\t.size\tf, .-f\n");
    told_by(&source)
}

fn told_by(source: &str) -> Vec<String> {
    let hooks: usize = source.matches(HOOK).count();
    let placed = place(source, &request(Sites::InstrumentFunctions, Family::Gnu)).expect("it is understood");
    let mut paths = std::collections::HashMap::new();
    let mut lines = placed.text.lines().peekable();
    let mut text = String::new();
    // Each probe's definition ends with its path and file.
    while let Some(line) = lines.next() {
        if let Some(stub) = line.strip_suffix(':').and_then(|label| label.strip_prefix("__probe_definition_"))
        {
            let path = lines.find_map(|line| line.strip_prefix("\t.ascii \"")).expect("its text");
            paths.insert(stub.to_owned(), path.trim_end_matches('"').to_owned());
        } else {
            text.push_str(line);
            text.push('\n');
        }
    }
    let sites = text.lines().filter_map(|line| line.strip_prefix(output::SITE));
    let mut told: Vec<String> = sites
        .map(|site| {
            let stub = site.split(", ").nth(1).and_then(|stub| stub.strip_prefix("__probe_stub_"));
            paths[stub.expect("a stub")].clone()
        })
        .collect();
    let unknown: usize = placed.functions.iter().map(|(_, outcome)| unknown(outcome)).sum();
    assert!(told.len() + unknown >= hooks, "{}", placed.text);
    told.extend(std::iter::repeat_n("?".to_owned(), unknown));
    told
}

fn unknown(outcome: &Outcome) -> usize {
    match outcome {
        Outcome::Placed { unknown_hooks, .. } => *unknown_hooks,
        Outcome::LeftOut(Reason { cause: Cause::Hooks(count), .. }) => *count,
        _ => 0,
    }
}

#[test]
fn moved_between_registers_and_slots() {
    for way in [
        "\tleaq\tg(%rip), %rdi\n",
        "\tmovq\tg@GOTPCREL(%rip), %rdi\n",
        "\tmovl\t$g, %edi\n",
        "\tmovabsq\t$g, %r12\n\tcall\th\n\tmovq\t%r12, %rdi\n",
        "\tsubq\t$24, %rsp\n\tleaq\tg(%rip), %rax\n\tmovq\t%rax, 8(%rsp)\n\tcall\th\n\tpushq\t%rbx\n\tmovq\t16(%rsp), %rdi\n",
        "\tpushq\t%rbp\n\tmovq\t%rsp, %rbp\n\tmovq\t$g, -8(%rbp)\n\tsubq\t%rax, %rsp\n\tcall\th\n\tmovq\t-8(%rbp), %rdi\n",
        "\tleaq\tg(%rip), %rax\n\tpushq\t%rax\n\tcall\th\n\tpopq\t%rdi\n",
        "\tleaq\tg(%rip), %rax\n\tmovq\t%rax, %xmm3\n\tmovq\t%xmm3, %rdi\n",
        "\tleaq\tg(%rip), %rbx\n\tfnstenv\t(%rax)\n\tfancy\t%xmm1, %rax\n\tmovq\t%rbx, %rdi\n",
        "\tleaq\tg(%rip), %r12\n#APP\n\tcpuid; rep ret\n#NO_APP\n\tmovq\t%r12, %rdi\n",
        // A path without the address is never taken to the call.
        "\ttestl\t%esi, %esi\n\tje\t.L2\n\tleaq\tg(%rip), %rbx\n.L2:\n\tcall\th\n\tmovq\t%rbx, %rdi\n",
    ] {
        assert_eq!(told(&format!("{way}{HOOK}\tret\n")), ["g"], "{way}");
    }
}

/// A jump through a table reaches its labels. A return through a thunk reaches none, though both
/// are jumps.
#[test]
fn a_return_by_a_thunk_is_no_jump_through_a_table() {
    let body = "\tpushq\t%rbx\n\tleaq\tf(%rip), %rbx\n\tleaq\t.L4(%rip), %rax\n\tmovslq\t(%rax,%rsi,4), %rdx\n\taddq\t%rdx, %rax\n\tjmp\t*%rax\n\
        \t.section\t.rodata\n.L4:\n\t.long\t.L2-.L4\n\t.long\t.L3-.L4\n\t.text\n";
    let exit = format!("\tmovq\t%rbx, %rdi\n{HOOK}\tpopq\t%rbx\n\tjmp\t__x86_return_thunk\n");
    assert_eq!(told(&format!("{body}.L2:\n{exit}.L3:\n\tcall\tg\n{exit}")), ["f", "f"]);
    // A jump through the other thunk may be either.
    let other = exit.replace("__x86_return_thunk", "__x86_indirect_thunk_rbx");
    assert_eq!(told(&format!("{body}.L2:\n{other}.L3:\n\tcall\tg\n{exit}")), ["?", "?"]);
}

#[test]
fn an_unknown_argument_is_not_guessed() {
    for way in [
        "",
        "\tmovq\t8(%rsi), %rdi\n",
        "\tleaq\t.LC0(%rip), %rax\n\tmovq\t(%rax,%rsi,8), %rdi\n",
        "\tmovq\t.LC0(%rip), %rdi\n",
        "\tmovq\tCSWTCH.3(,%rsi,8), %rdi\n\tmovq\t$CSWTCH.3, %rax\n\tmovq\t(%rax), %rdi\n",
        "\tmovabsq\t$g@GOTOFF, %rdi\n\taddq\t%rbx, %rdi\n",
        "\tleaq\tg(%rip), %rax\n\tsubq\t%rsi, %rsp\n\tmovq\t%rax, 8(%rsp)\n\tmovq\t8(%rsp), %rdi\n",
        "\tleaq\tg(%rip), %rdi\n\tjmp\t.L2\n.L3:\n\tnop; nop\n.L2:\n",
        // Another function's code names this label.
        "\tleaq\tg(%rip), %rdi\n.L9:\n",
    ] {
        let other = "\t.type\to, @function\no:\n\tjmp\t.L9\n\t.size\to, .-o\n";
        let source =
            format!("\t.text\n\t.type\tf, @function\nf:\n{way}{HOOK}\tret\n\t.size\tf, .-f\n{other}");
        let told = told_by(&source);
        let expected = if way.contains("nop; nop") { "g" } else { "?" };
        assert_eq!(told, [expected], "{way}");
    }
}

/// After two calls were merged into one, the address decides.
#[test]
fn the_address_selects_among_several_functions() {
    let merged = "\
\ttestl\t%esi, %esi
\tje\t.L2
\tleaq\tg(%rip), %rdi
\tjmp\t.L3
.L2:
\tmovq\th@GOTPCREL(%rip), %rdi
.L3:
";
    let source = format!("\t.text\n\t.type\tf, @function\nf:\n{merged}{HOOK}\tret\n\t.size\tf, .-f\n");
    assert_eq!(told_by(&source), ["g", "h"]);
    let text = |wants: &dyn Fn(&Function) -> Result<(), Exclusion>| {
        let request = Request { wants, ..request(Sites::InstrumentFunctions, Family::Gnu) };
        let text = place(&source, &request).expect("understood").text;
        let (_, after) = text.split_once(".L3:\n").expect("the label");
        let (instead, _) = after.split_once("\tret\n").expect("the end");
        let lines =
            instead.lines().map(|line| if line.starts_with(output::SITE) { "SITE" } else { line.trim() });
        lines.collect::<Vec<_>>().join("; ")
    };
    assert_eq!(
        text(&|_| Ok(())),
        "leaq\tg(%rip), %rax; cmpq\t%rax, %rdi; jne\t.Lprobe_hook_10_0; SITE; jmp\t.Lprobe_hook_10; .Lprobe_hook_10_0:; SITE; \
         .Lprobe_hook_10:"
    );
    let only = |path| {
        move |it: &Function| if it.path == path { Ok(()) } else { Err(Exclusion::Function("*".into())) }
    };
    assert_eq!(
        text(&only("h")),
        "movq\th@GOTPCREL(%rip), %rax; cmpq\t%rax, %rdi; jne\t.Lprobe_hook_10; SITE; .Lprobe_hook_10:"
    );
    assert_eq!(text(&only("other")), "");
}

#[test]
fn labels_are_reached_without_jumps_that_name_them() {
    // Only the range of a landing pad reaches the pad.
    let pad = format!(
        "\tleaq\tg(%rip), %rbx\n.LEHB0:\n\tcall\th\n.LEHE0:\n\tleaq\th(%rip), %rbx\n\tcall\th\n\tret\n.L5:\n\tmovq\t%rbx, %rdi\n{HOOK}\
         \tret\n\t.section\t.gcc_except_table,\"a\",@progbits\n\t.byte\t0x1\n\t.uleb128 .LLSDACSE1-.LLSDACSB1\n.LLSDACSB1:\n\
         \t.uleb128 .LEHB0-.LFB1\n\t.uleb128 .LEHE0-.LEHB0\n\t.uleb128 .L5-.LFB1\n\t.uleb128 0\n.LLSDACSE1:\n\t.text\n"
    );
    assert_eq!(told(&pad), ["g"]);
    // Every call may reach the landing pad of a table with another structure.
    let odd = pad.replace("\t.uleb128 .LEHE0-.LEHB0\n", "\t.uleb128 .LEHE0-.LFB1\n");
    assert_eq!(told(&odd), ["g", "h"]);
    // A switch.
    let switch = format!(
        "\tleaq\tg(%rip), %rbx\n\tjmp\t*.L4(,%rdi,8)\n\tret\n.L6:\n\tleaq\th(%rip), %rbx\n.L7:\n\tmovq\t%rbx, %rdi\n{HOOK}\tret\n\
         \t.section\t.rodata\n.L4:\n\t.quad\t.L6\n\t.quad\t.L7\n\t.text\n"
    );
    assert_eq!(told(&switch), ["g", "h"]);
    // `longjmp`: slots have the contents from the time of the jump.
    let jumps = format!(
        "\tsubq\t$24, %rsp\n\tcall\t_setjmp@PLT\n\tmovq\t8(%rsp), %rdi\n\ttestl\t%eax, %eax\n\tjne\t.L2\n\tleaq\tg(%rip), %rax\n\
         \tmovq\t%rax, 8(%rsp)\n\tcall\th\n\tret\n.L2:\n{HOOK}\tret\n"
    );
    assert_eq!(told(&jumps), ["g"]);
    // A callee in this file may preserve caller-saved registers (-fipa-ra).
    let seen = format!("\tleaq\tg(%rip), %rdi\n\tcall\tf\n{HOOK}\tret\n");
    assert_eq!(told(&seen), ["g"]);
    assert_eq!(told(&seen.replace("call\tf", "call\th")), ["?"]);
    // One of two addresses.
    let chosen = format!(
        "\tleaq\tg(%rip), %rax\n\tleaq\th(%rip), %rdi\n\ttestl\t%esi, %esi\n\tcmovne\t%rax, %rdi\n{HOOK}\tret\n"
    );
    assert_eq!(told(&chosen), ["g", "h"]);
    // Inline assembly that jumps.
    let goto = format!(
        "\tleaq\tg(%rip), %rbx\n#APP\n\tjmp .L8\n#NO_APP\n\tret\n.L8:\n\tmovq\t%rbx, %rdi\n{HOOK}\tret\n"
    );
    assert_eq!(told(&goto), ["g"]);
}
