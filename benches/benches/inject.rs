//! `inject`: the time for which a thread of a running program is stopped while a function is called
//! in it from outside. The program has 16 threads that work, and one that waits. The first call in
//! a process maps its memory, so that three stops follow each other; later ones are one stop.
//!
//! Each sample is a process, which this program runs. It can be traced by root, or where
//! `kernel.yama.ptrace_scope` is 0 or 1.

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod measured {
    use std::env;
    use std::fs;
    use std::hint::black_box;
    use std::io::{self, BufRead, BufReader, Read, Write};
    use std::process::{Child, Command, Stdio};
    use std::thread;
    use std::time::{Duration, Instant};

    use probe_benches::{Scale, figure, median};
    use probe_inject::{CriticalCode, InjectError, Process, RemoteCall, maps};

    const THREADS: usize = 16;
    /// Calls in a process, after the first one.
    const CALLS: usize = 10;
    /// Makes this program the one in which functions are called.
    const SAMPLE: &str = "PROBE_BENCHES_INJECT";

    pub fn main() {
        if env::var_os(SAMPLE).is_some() {
            return works();
        }
        let (mut first, mut later, mut all, mut longest) = (Vec::new(), Vec::new(), Vec::new(), 0_f64);
        for _ in 0..Scale::from_args().of(51) {
            let mut child = started();
            match stops(child.id()) {
                Ok([one, other]) => {
                    first.push(one);
                    later.push(other);
                    longest = longest.max(one).max(other);
                    all.push(stopped_by_signal(child.id()));
                }
                Err(error @ InjectError::NotAllowed { .. }) => println!("nobody may trace here: {error}"),
                Err(error) => panic!("{error}"),
            }
            drop(child.stdin.take());
            assert!(child.wait().expect("it ends").success());
            if first.is_empty() {
                return;
            }
        }
        let all = median(all);
        for (name, ms) in [("first", median(first)), ("later", median(later)), ("longest", longest)] {
            let beside = format!("{all:.3} ms for all {} threads, by a signal", THREADS + 1);
            figure(&format!("inject/{name}"), format_args!("{ms:.3}"), "ms", ms / all, &beside);
        }
    }

    fn works() {
        for _ in 0..THREADS {
            thread::spawn(|| {
                loop {
                    black_box(0);
                }
            });
        }
        println!("ready");
        io::stdout().flush().expect("a pipe");
        let _ = io::stdin().read(&mut [0]);
    }

    fn started() -> Child {
        let mut command = Command::new(env::current_exe().expect("this program"));
        command.env(SAMPLE, "1").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("a line");
        assert_eq!(line, "ready\n");
        child
    }

    /// Returns the longest stops of the first call and of later ones, in milliseconds.
    fn stops(pid: u32) -> Result<[f64; 2], InjectError> {
        let base = |pid| {
            let maps = maps(pid).expect("mappings");
            maps.iter().find(|it| it.name.contains("/libc.so")).expect("the C library").start
        };
        let own = std::process::id();
        let function = libc::getpid as *const () as u64 - base(own) + base(pid);
        let call = RemoteCall { function, ..RemoteCall::default() };
        let of = |calls| {
            let mut process = Process::open(pid)?;
            for _ in 0..calls {
                let returned = process.call(&call, &CriticalCode::default())?;
                assert_eq!(returned.value, u64::from(pid));
            }
            Ok(process.longest_stop().as_secs_f64() * 1e3)
        };
        Ok([of(1)?, of(CALLS)?])
    }

    /// Returns the milliseconds for all threads to stop by a signal and to continue.
    fn stopped_by_signal(pid: u32) -> f64 {
        let states = || {
            let threads = fs::read_dir(format!("/proc/{pid}/task")).expect("threads").flatten();
            let stats = threads.filter_map(|it| fs::read_to_string(it.path().join("stat")).ok());
            stats.filter_map(|it| it.rsplit_once(") ")?.1.chars().next()).collect::<Vec<_>>()
        };
        let signal = |signal: &str| {
            let done = Command::new("kill").args([signal.to_owned(), pid.to_string()]).status();
            assert!(done.expect("there is `kill`").success());
        };
        signal("-STOP");
        let begun = Instant::now();
        while states().iter().any(|it| *it != 'T') {
            thread::sleep(Duration::from_micros(20));
        }
        let took = begun.elapsed();
        signal("-CONT");
        took.as_secs_f64() * 1e3
    }
}

fn main() {
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    measured::main();
    #[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
    println!("functions are called from outside on x86-64 Linux only");
}
