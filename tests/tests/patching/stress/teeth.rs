//! Shows that the harness bites: a mix of two forms' bytes yields a wrong result, a wrong count, or
//! a signal; executors find torn instructions; and a child that dies is reported.

use probe_runtime::patch::{Bytes, OpenText};

use super::arena::of_forms;
use super::child;
use super::code::{Boundary, Piece, Text};
use super::executors::while_executed;
use super::forms::Form;
use super::scenario::{Done, Play};
use super::tally::{Register, Tally};

const ROUNDS: u64 = 3;

/// The result of executing these bytes in place of a form.
#[derive(PartialEq, Eq, Debug)]
enum Seen {
    /// Each round had this form's effect.
    Form(usize),
    Wrong,
}

/// Executes bytes in place of a form, in a fork.
fn execute(form: Form, bytes: &[u8]) -> Seen {
    let mixed = Form { old: Bytes::new(bytes).unwrap(), ..form };
    let mut text = Text::new(0x1000);
    let function = text.function(&[Piece::Word(mixed)], 0, 0, Boundary::None);
    text.seal();
    // SAFETY: the child runs generated code and ends; it takes no lock and allocates nothing.
    let child = unsafe { libc::fork() };
    assert_ne!(child, -1);
    if child == 0 {
        let tally = Tally::default();
        // SAFETY: takes no pointer; ends a mix that loops.
        unsafe { libc::alarm(5) };
        function.run(ROUNDS, &tally);
        let seen = tally.seen(Register::Rax);
        let status = match seen {
            [ROUNDS, 0, 0] => 10,
            [0, ROUNDS, 0] => 11,
            _ => 0,
        };
        // SAFETY: ends this process at once.
        unsafe { libc::_exit(status) };
    }
    let mut status = -1;
    // SAFETY: `status` is a place for the result.
    let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!(waited, child);
    match (libc::WIFEXITED(status), libc::WEXITSTATUS(status)) {
        (true, 10) => Seen::Form(0),
        (true, 11) => Seen::Form(1),
        _ => Seen::Wrong,
    }
}

#[test]
fn forms_do_what_they_say() {
    for len in 1..=8 {
        let form = Form::of_len(len);
        assert_eq!((form.old.len(), form.new.len()), (len, len));
        assert_ne!(form.effects[0], form.effects[1]);
        assert_eq!(execute(form, &form.old), Seen::Form(0), "{form:?}");
        assert_eq!(execute(form, &form.new), Seen::Form(1), "{form:?}");
    }
}

#[test]
fn no_mix_passes_for_a_form() {
    for len in 2..=8 {
        let form = Form::of_len(len);
        for split in 1..len {
            for (front, back) in [(form.old, form.new), (form.new, form.old)] {
                let mix = [&front[..split], &back[split..]].concat();
                assert_eq!(execute(form, &mix), Seen::Wrong, "{mix:02x?}");
            }
        }
    }
}

/// Replaces the two halves of an instruction one after the other, without a trap.
pub fn torn(play: &Play) -> Done {
    write_plainly(play, Form::of_len(5).new, 2)
}

/// Replaces an instruction by one that there is not.
pub fn illegal(play: &Play) -> Done {
    write_plainly(play, Bytes::from([0x0f, 0x0b, 0x0f, 0x0b, 0x0f]), 0)
}

/// Replaces an instruction by plain writes, from its end, and waits before it comes to the first
/// `late` bytes.
fn write_plainly(play: &Play, new: Bytes, late: usize) -> Done {
    let form = Form::of_len(5);
    let (arena, sites) = of_forms(1);
    let site = sites.iter().find(|site| site.form.old == form.old && site.split == 2).unwrap();
    let _open = OpenText::new(arena.range()).unwrap();
    let (_, seen) = while_executed(&arena.functions, play.executors, 1, |_, executors| {
        executors.focus(0, site.function);
        for (at, byte) in new.iter().enumerate().rev() {
            if at + 1 == late {
                executors.settle();
            }
            // SAFETY: a byte of code of the arena, which is open.
            unsafe { ((site.addr + at) as *mut u8).write_volatile(*byte) };
        }
        executors.settle();
    });
    Done { toggles: 1, seen, ..Done::default() }
}

#[test]
fn what_is_torn_is_found() {
    let report = child::try_run("torn").unwrap_err();
    assert!(report.starts_with("torn died of SIGABRT; repeat it with PROBE_STRESS_SEED="), "{report}");
    // mov eax, of one instruction, and a number from the other, at least in part.
    assert!(report.contains("Rax was 0x242322"), "{report}");
}

#[test]
fn a_child_that_dies_is_reported() {
    let report = child::try_run("illegal").unwrap_err();
    assert!(report.starts_with("illegal died of SIGILL; repeat it with PROBE_STRESS_SEED="), "{report}");
}
