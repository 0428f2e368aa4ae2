//! All threads of a program, stopped at once.

use std::fs;

use probe_inject::Process;

use crate::target::{CALLS, Target, line, states, until};

/// Halts a process many times. Returns the most threads that were stopped at once.
pub fn halted(process: &mut Process, times: usize) -> usize {
    let counts = (0..times).map(|_| {
        let mut count = 0;
        let counted = process.halt(|halted| {
            count = 0;
            halted.each_thread(|registers| {
                assert_ne!((registers.instruction, registers.stack), (0, 0));
                count += 1;
                Ok(None)
            })
        });
        counted.unwrap().unwrap();
        count
    });
    counts.max().unwrap()
}

#[test]
fn all_threads_are_stopped_at_once() {
    for (mode, least) in [("threads", 17), ("chain", 1), ("signals", 1), ("limited", 1), ("spin", 1)] {
        let mut target = Target::start(mode);
        let Some(mut process) = target.open() else { return };
        until(|| states(target.child.id()).len() >= least);
        assert!(halted(&mut process, 50) >= least, "{mode}");
        drop(process);
        assert_eq!(target.end(mode), "0 right", "{mode}");
    }
}

/// A thread that becomes another program waits for the end of all others, which this process must
/// notice.
#[test]
fn a_program_becomes_another_one_all_the_time() {
    let mut target = Target::start("exec");
    let Some(mut process) = target.open() else { return };
    let mut halts = 0;
    let error = loop {
        match process.halt(|halted| halted.each_thread(|_| Ok(None)).is_ok()) {
            Ok(_) => halts += 1,
            Err(error) => break error,
        }
    };
    assert_ne!(halts, 0, "{error}");
    drop(process);
    assert_eq!(target.end("exec"), "0 right");
}

/// It runs no code of the program's, and has no registers. Its filters are those of the program.
#[test]
fn a_worker_of_the_kernel_is_not_stopped() {
    let mut target = Target::start("ring");
    let Some(mut process) = target.open() else { return };
    match line(&mut target.stdout).as_str() {
        "works" => (),
        "refused" => return println!("left out: there is no io_uring with workers in the process"),
        said => panic!("{said}"),
    }
    let names = || {
        let threads = fs::read_dir(format!("/proc/{}/task", target.child.id())).unwrap().flatten();
        threads.filter_map(|it| fs::read_to_string(it.path().join("comm")).ok()).collect::<Vec<_>>()
    };
    until(|| names().iter().any(|it| it.starts_with("iou-wrk-")));
    assert_eq!(halted(&mut process, 50), 1);
    let calls = match process.check_filters() {
        Err(error) if error.to_string().contains("that needs root") => {
            println!("left out: {error}");
            0
        }
        checked => {
            checked.unwrap();
            (0..CALLS).for_each(|number| target.call(&mut process, number));
            assert_eq!(names().len(), 2);
            CALLS
        }
    };
    drop(process);
    assert_eq!(target.end("ring"), format!("{calls} right"));
}
