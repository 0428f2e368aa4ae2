//! Sites that are CALLs while they are active, written by hand as a compiler of another language
//! would emit them (docs/abi.md): at a function's entry and before its return, where everything
//! must survive; where a call is expected; and at offsets at which one write can't switch them.
//! A process of its own: it counts all of its own probes.
#![cfg(not(probe_portable))]

use std::arch::{asm, global_asm};
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use probe_runtime::losses::unreadable_records;
use probe_runtime::patch::{TextPolicy, Visibility};
use probe_runtime::registry::ProbeState;
use probe_runtime::{Count, Kind, probes, select};
use probe_tests::destroyer::Destroyer;
use probe_tests::text::Text;
// The tests share the probes.
use probe_tests::turn::turn;

global_asm!(
    // A site where it is, whatever its alignment.
    ".macro called_site_here n, stub",
    ".Lcalled_\\n: .byte 0x0f, 0x1f, 0x44, 0x00, 0x08",
    ".pushsection probe_sites, \"ao?\", @progbits, .Lcalled_\\n",
    ".p2align 2",
    ".byte 1, 16, 2, 0",
    ".long .Lcalled_\\n - ., \\stub - ., \\stub - .",
    ".popsection",
    ".endm",
    ".macro called_site n, stub",
    ".p2align 3, , 4",
    "called_site_here \\n, \\stub",
    ".endm",
    // A stub and its definition: path and file, then the text itself.
    ".macro called_probe name, kind, convention, line, path_len, file_len, text",
    ".section .text.stub_\\name, \"axG\", @progbits, definition_\\name, comdat",
    ".weak stub_\\name",
    ".hidden stub_\\name",
    "stub_\\name:",
    ".cfi_startproc",
    "push rdi",
    ".cfi_adjust_cfa_offset 8",
    "lea rdi, [rip + definition_\\name]",
    "jmp [rdi]",
    ".cfi_endproc",
    ".section linkme_PROBE_DEFINITIONS_V1, \"awG\", @progbits, definition_\\name, comdat",
    ".p2align 6",
    ".weak definition_\\name",
    ".hidden definition_\\name",
    "definition_\\name:",
    ".quad 0, 0",
    ".short 1, 192",
    ".byte \\kind, 0",
    ".short \\convention",
    ".long \\line, 1",
    ".short \\path_len, \\file_len, 0, 0",
    ".quad 0",
    "9: .ascii \"\\text\"",
    ".zero 144 - (. - 9b)",
    ".endm",
    "called_probe sum_entry, 1, 1, 11, 12, 5, \"by_hand::suma.asm\"",
    "called_probe sum_exit, 2, 1, 11, 12, 5, \"by_hand::suma.asm\"",
    "called_probe call_point, 0, 2, 22, 13, 5, \"by_hand::calla.asm\"",
    "called_probe across, 0, 1, 33, 15, 5, \"by_hand::acrossa.asm\"",
    // All registers are live at entry and exit. Returns rdi + rsi. Leaves all vectors unchanged.
    ".section .text.by_hand_sum, \"ax\", @progbits",
    ".globl by_hand_sum",
    ".type by_hand_sum, @function",
    "by_hand_sum:",
    ".cfi_startproc",
    "called_site 1, stub_sum_entry",
    "lea rax, [rdi + rsi]",
    "called_site 2, stub_sum_exit",
    "ret",
    ".cfi_endproc",
    ".size by_hand_sum, . - by_hand_sum",
    ".section .text.by_hand_call, \"ax\", @progbits",
    ".globl by_hand_call",
    "by_hand_call:",
    ".cfi_startproc",
    "push rbx",
    ".cfi_adjust_cfa_offset 8",
    ".cfi_offset rbx, -16",
    "mov rbx, rdi",
    "called_site 3, stub_call_point",
    "lea rax, [rbx + 1]",
    "pop rbx",
    ".cfi_adjust_cfa_offset -8",
    "ret",
    ".cfi_endproc",
    // The note that leads to them.
    ".weak __start_probe_sites, __stop_probe_sites",
    ".hidden __start_probe_sites, __stop_probe_sites",
    ".weak __start_linkme_PROBE_DEFINITIONS_V1, __stop_linkme_PROBE_DEFINITIONS_V1",
    ".hidden __start_linkme_PROBE_DEFINITIONS_V1, __stop_linkme_PROBE_DEFINITIONS_V1",
    ".section .note.latent_probe, \"a\", @note",
    ".p2align 2",
    ".long 12, 32, 1",
    ".asciz \"LatentProbe\"",
    ".quad __start_probe_sites - ., __stop_probe_sites - .",
    ".quad __start_linkme_PROBE_DEFINITIONS_V1 - ., __stop_linkme_PROBE_DEFINITIONS_V1 - .",
    // At each offset in its word.
    ".section .text.by_hand_across, \"ax\", @progbits",
    ".globl by_hand_across",
    ".p2align 6",
    "by_hand_across:",
    ".irp n, 0, 1, 2, 3, 4, 5, 6, 7",
    ".p2align 3",
    ".fill \\n, 1, 0x90",
    "called_site_here 1\\n, stub_across",
    ".endr",
    "mov eax, 8",
    "ret",
    ".text",
);

unsafe extern "C" {
    fn by_hand_sum(left: u64, right: u64) -> u64;
    fn by_hand_call(x: u64) -> u64;
    fn by_hand_across() -> u64;
}

fn sum(left: u64, right: u64) -> u64 {
    // SAFETY: it adds.
    unsafe { by_hand_sum(left, right) }
}

fn call(x: u64) -> u64 {
    // SAFETY: it adds one.
    unsafe { by_hand_call(x) }
}

fn across() -> u64 {
    // SAFETY: it returns 8.
    unsafe { by_hand_across() }
}

/// Calls `by_hand_sum` with patterns in vector, mask and x87 registers; returns them afterwards.
fn sum_with_vectors(left: u64, right: u64, seed: u64) -> (u64, [u64; 9]) {
    let (sum, x87): (u64, u64);
    let [low, high, last, wide]: [u64; 4];
    // SAFETY: `by_hand_sum` keeps everything but `rax`; the other changes here are declared.
    unsafe {
        asm!(
            "movq xmm0, {seed}", "pinsrq xmm0, {seed}, 1", "movq xmm7, {seed}", "movq xmm15, {seed}",
            "push {seed}", "fild qword ptr [rsp]",
            "call {by_hand_sum}",
            "fistp qword ptr [rsp]", "pop {x87}",
            "movq {low}, xmm0", "pextrq {high}, xmm0, 1", "movq {last}, xmm15", "movq {wide}, xmm7",
            by_hand_sum = sym by_hand_sum,
            seed = in(reg) seed, x87 = out(reg) x87, low = out(reg) low, high = out(reg) high, last = out(reg) last,
            wide = out(reg) wide,
            in("rdi") left, in("rsi") right, out("rax") sum,
            out("xmm0") _, out("xmm7") _, out("xmm15") _, out("st(0)") _, out("st(1)") _, out("st(2)") _,
            out("st(3)") _, out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _,
        );
    }
    let mut upper = [seed; 4];
    if std::is_x86_feature_detected!("avx512f") && std::is_x86_feature_detected!("avx512bw") {
        // SAFETY: the processor has it.
        upper = unsafe { upper_halves(seed) };
    }
    (sum, [x87, low, high, last, wide, upper[0], upper[1], upper[2], upper[3]])
}

/// The highest words of two wide registers and two masks, after a call.
#[target_feature(enable = "avx512f,avx512bw")]
fn upper_halves(seed: u64) -> [u64; 4] {
    let mut before = [seed; 8];
    let mut after = [[0_u64; 8]; 2];
    let [first, last]: [u64; 2];
    // SAFETY: `by_hand_sum` keeps everything but `rax`; the other changes here are declared.
    unsafe {
        asm!(
            "vmovdqu64 zmm5, [{before}]", "vmovdqu64 zmm31, [{before}]", "kmovq k1, {seed}", "kmovq k7, {seed}",
            "call {by_hand_sum}",
            "vmovdqu64 [{after}], zmm5", "vmovdqu64 [{after} + 64], zmm31", "kmovq {first}, k1", "kmovq {last}, k7",
            by_hand_sum = sym by_hand_sum,
            before = in(reg) before.as_mut_ptr(), after = in(reg) after.as_mut_ptr(), seed = in(reg) seed,
            first = out(reg) first, last = out(reg) last,
            in("rdi") 1, in("rsi") 2, out("rax") _, out("zmm5") _, out("zmm31") _, out("k1") _, out("k7") _,
        );
    }
    assert!(after.iter().flatten().all(|word| *word == seed), "{after:x?}");
    [after[0][7], after[1][7], first, last]
}

const SEED: u64 = 0x1234_5678_9abc_def1;

#[test]
fn are_listed_like_all_others() {
    let _turn = turn();
    let found: Vec<_> = (probes().into_iter())
        .filter(|probe| probe.path().starts_with("by_hand::"))
        .map(|probe| {
            (probe.path().to_owned(), probe.kind(), probe.file().to_owned(), probe.line(), probe.sites())
        })
        .collect();
    let probe =
        |path: &str, kind, line, sites| (format!("by_hand::{path}"), kind, "a.asm".to_owned(), line, sites);
    for expected in [
        probe("sum", Kind::Entry, 11, 1),
        probe("sum", Kind::Exit, 11, 1),
        probe("call", Kind::Point, 22, 1),
        probe("across", Kind::Point, 33, 8),
    ] {
        assert!(found.contains(&expected), "{expected:?} in {found:?}");
    }
    assert_eq!((found.len(), unreadable_records()), (4, 0));
}

#[test]
fn everything_survives_a_hidden_call() {
    let _turn = turn();
    let expected = (12, [SEED; 9]);
    assert_eq!(sum_with_vectors(5, 7, SEED), expected, "latent");
    let count = select("by_hand::sum").unwrap().attach(Count::new()).unwrap();
    assert_eq!((count.report().patched(), count.report().refused()), (2, 0));
    assert_eq!(sum_with_vectors(5, 7, SEED), expected, "counted");
    let destroy = select("by_hand::sum").unwrap().attach(Destroyer::default()).unwrap();
    for _ in 0..100 {
        assert_eq!(sum_with_vectors(5, 7, SEED), expected, "delivered");
    }
    let wide = if std::is_x86_feature_detected!("avx512bw") { 2 } else { 1 };
    assert_eq!(destroy.calls(), 100 * 2 * wide);
    assert_eq!(count.total(), 101 * 2 * wide);
    drop((destroy, count));
    assert_eq!(sum_with_vectors(5, 7, SEED), expected, "latent again");
}

#[test]
fn an_expected_call_is_one() {
    let _turn = turn();
    let destroy = select("by_hand::call").unwrap().attach(Destroyer::default()).unwrap();
    assert_eq!((call(7), call(black_box(8))), (8, 9));
    assert_eq!(destroy.calls(), 2);
}

#[test]
fn straddlers_are_switched_in_every_way() {
    let _turn = turn();
    for text in [TextPolicy::Sealed, TextPolicy::Open, TextPolicy::Alias] {
        for (visibility, strict) in
            [(Visibility::Synchronous, false), (Visibility::Eventual, false), (Visibility::Synchronous, true)]
        {
            let set =
                select("by_hand::across").unwrap().text_policy(text).visibility(visibility).strict(strict);
            let hits = set.attach(Count::new()).unwrap();
            assert_eq!((hits.report().patched(), hits.report().refused()), (8, 0), "{text:?}");
            assert_eq!((across(), hits.total()), (8, 8));
            assert_eq!(hits.pause().patched(), 8);
            assert_eq!((across(), hits.total()), (8, 8));
            assert_eq!((hits.resume().patched(), hits.resume().unchanged()), (8, 8));
            assert_eq!((across(), hits.total()), (8, 16));
            assert_eq!(hits.detach().patched(), 8);
        }
    }
    assert_eq!(across(), 8);
    Text::of_this_process().assert_as_in_file();
}

#[test]
fn straddlers_are_switched_while_they_are_executed() {
    const ROUNDS: u64 = 2_000;
    let _turn = turn();
    let (is_over, done) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        let hits = select("by_hand::**").unwrap().attach(Count::new()).unwrap();
        let worker = scope.spawn(|| {
            for x in 0_u64.. {
                assert_eq!((across(), sum(x, 1), call(x)), (8, x + 1, x + 1));
                done.store(x + 1, Ordering::Relaxed);
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
            }
        });
        for round in 0..ROUNDS {
            assert_eq!(hits.pause().refused(), 0);
            // Now and then, until calls are seen to pass in either state.
            let (before, total) = (done.load(Ordering::Relaxed), hits.total());
            while round.is_multiple_of(100)
                && done.load(Ordering::Relaxed) < before + 2
                && !worker.is_finished()
            {
                thread::yield_now();
            }
            assert_eq!(hits.resume().refused(), 0);
            while round.is_multiple_of(100) && hits.total() == total && !worker.is_finished() {
                thread::yield_now();
            }
        }
        is_over.store(true, Ordering::Relaxed);
        worker.join().unwrap();
        let (total, calls) = (hits.total(), done.load(Ordering::Relaxed));
        assert!(total >= ROUNDS / 100 && total < 11 * calls, "{total} of {calls} calls");
    });
    assert!(probes().iter().all(|probe| probe.state() == ProbeState::Latent));
    Text::of_this_process().assert_as_in_file();
}
