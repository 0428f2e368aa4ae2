//! `outside`: counting from outside (`probectl enable --ptrace`): the time to arm 10,000 sites of a
//! program without a runtime, the longest time for which its 16 working threads were stopped, and
//! the cost of a hit. Beside it, other tools arm the same functions from outside: breakpoints of
//! gdb that continue, uprobes of bpftrace that count, hooks of Frida in JavaScript that count.
//! Breakpoints and uprobes take minutes for 10,000, so these are compared at 1,000.
//!
//! A tool has armed a function once its first bytes in memory are others. The time is that of the
//! whole command, from its start. The bench leaves out tools that are not installed, and says so.
//! Frida is the Python package `frida`. All need the right to trace.

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod measured {
    use std::fmt::Write as _;
    use std::fs::{self, File};
    use std::io::{BufRead, BufReader, Write};
    use std::os::unix::fs::FileExt;
    use std::path::Path;
    use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
    use std::time::{Duration, Instant};

    use probe_benches::{Scale, figure, median};
    use probe_cli::args::{Arguments, Command as Asked, Disable, Enable, LiveCommand, Running};
    use probe_cli::commands;
    use probe_tests::{c_library, folder::Folder};

    const THREADS: usize = 16;
    /// The time limit for a tool to arm all functions.
    const LIMIT: Duration = Duration::from_secs(100);

    /// A function for each probe, 16 threads if asked for, and calls of the first one, whose time
    /// is printed in nanoseconds.
    fn source(functions: usize) -> String {
        let mut text = "#include <probe.h>\n#include <pthread.h>\n#include <stdio.h>\n#include <stdlib.h>\n\
            #include <time.h>\n"
            .to_owned();
        for at in 0..functions {
            let _ = writeln!(
                text,
                "__attribute__((noinline)) void f{at}(unsigned long x) {{ PROBE_U64(\"p{at}\", x); }}"
            );
        }
        text += "static void (*const all[])(unsigned long) = {";
        (0..functions).for_each(|at| write!(text, "f{at},").expect("a string"));
        text + "};
            static void *works(void *it) { for (volatile unsigned long x = 0;; x++) { } return it; }
            static double now(void) {
                struct timespec t;
                clock_gettime(CLOCK_MONOTONIC, &t);
                return t.tv_sec * 1e9 + t.tv_nsec;
            }
            int main(int count, char **arguments) {
                pthread_t thread;
                for (int at = count > 1 ? atoi(arguments[1]) : 0; at; at--) pthread_create(&thread, 0, works, 0);
                for (unsigned at = 0; at < sizeof all / sizeof *all; at++) printf(\"%p \", (void *)all[at]);
                puts(\"\");
                fflush(stdout);
                for (long calls; scanf(\"%ld\", &calls) == 1; fflush(stdout)) {
                    double begun = now();
                    for (long at = 0; at < calls; at++) f0(at);
                    printf(\"%f\\n\", (now() - begun) / calls);
                }
                _exit(0);
            }"
    }

    /// The running program.
    struct Target {
        child: Child,
        stdin: ChildStdin,
        stdout: BufReader<ChildStdout>,
        functions: Vec<u64>,
        memory: File,
    }

    impl Target {
        fn start(program: &Path, threads: usize) -> Self {
            let mut command = Command::new(program);
            command.arg(threads.to_string()).stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut child = command.spawn().expect("it starts");
            let stdin = child.stdin.take().expect("a pipe");
            let mut stdout = BufReader::new(child.stdout.take().expect("a pipe"));
            let mut line = String::new();
            stdout.read_line(&mut line).expect("addresses");
            let address = |it: &str| u64::from_str_radix(&it[2..], 16).expect("an address");
            let functions = line.split_whitespace().map(address).collect();
            let memory = File::open(format!("/proc/{}/mem", child.id())).expect("the right to trace");
            Self { child, stdin, stdout, functions, memory }
        }

        fn pid(&self) -> String {
            self.child.id().to_string()
        }

        fn beginnings(&self, count: usize) -> Vec<[u8; 16]> {
            let mut bytes = [0; 16];
            let mut read = |at: &u64| self.memory.read_exact_at(&mut bytes, *at).map(|()| bytes);
            self.functions[..count].iter().map(|at| read(at).expect("its code")).collect()
        }

        /// Returns the nanoseconds of a call.
        fn call(&mut self, calls: u64) -> f64 {
            writeln!(self.stdin, "{calls}").expect("a pipe");
            let mut line = String::new();
            self.stdout.read_line(&mut line).expect("a pipe");
            line.trim().parse().unwrap_or(f64::NAN)
        }

        /// Waits until a tool has armed this many functions. Returns its milliseconds.
        fn armed(&self, tool: &mut Child, before: &[[u8; 16]]) -> Option<f64> {
            let begun = Instant::now();
            while begun.elapsed() < LIMIT && tool.try_wait().ok()?.is_none() {
                let changed =
                    self.beginnings(before.len()).iter().zip(before).filter(|(a, b)| a != b).count();
                if changed == before.len() {
                    return Some(begun.elapsed().as_secs_f64() * 1e3);
                }
            }
            None
        }
    }

    impl Drop for Target {
        fn drop(&mut self) {
            // It may have ended.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }

    /// Runs `probectl`. Returns the milliseconds that it took, and its notes.
    fn probectl(command: Asked) -> (f64, Vec<String>) {
        let begun = Instant::now();
        let shown = commands::run(&Arguments { json: false, wide: false, command });
        let shown = shown.unwrap_or_else(|error| panic!("{error}"));
        (begun.elapsed().as_secs_f64() * 1e3, shown.notes)
    }

    /// Returns the milliseconds of "all threads stood for 8.01 ms at most at a time".
    fn stood(notes: &[String]) -> f64 {
        let note = notes.iter().find_map(|it| it.strip_prefix("all threads stood for ")).expect("a note");
        let mut words = note.split(' ');
        let number: f64 = words.next().and_then(|it| it.parse().ok()).expect("a number");
        match words.next() {
            Some("ms") => number,
            Some("µs") => number / 1e3,
            unit => panic!("{unit:?}"),
        }
    }

    /// Arms from outside. Returns the milliseconds, the longest time in milliseconds for which
    /// threads were stopped, and the nanoseconds of a call.
    fn ours(program: &Path, threads: usize, selector: &str) -> [f64; 3] {
        let mut target = Target::start(program, threads);
        let pid = Some(target.child.id());
        let running = Running { pid, name: None, no_inject: false };
        let before = target.beginnings(1);
        let spec = selector.to_owned();
        let enable = Enable { spec, running: running.clone(), keep: true, ptrace: true, list: None };
        let (took, notes) = probectl(Asked::Live(LiveCommand::Enable(enable)));
        assert_ne!(target.beginnings(1), before);
        let ns = if threads == 0 { target.call(1_000_000) } else { f64::NAN };
        let arming = stood(&notes);
        let disable = Disable { attachments: Vec::new(), running, ptrace: true, list: None };
        let (_, notes) = probectl(Asked::Live(LiveCommand::Disable(disable)));
        assert_eq!(target.beginnings(1), before);
        [took, arming.max(stood(&notes)), ns]
    }

    /// A tool's command line for this many functions of a program.
    type Tool = fn(&Target, &Path, usize, &Folder) -> Command;

    fn gdb(target: &Target, _: &Path, count: usize, folder: &Folder) -> Command {
        let mut script = "set pagination off\n".to_owned();
        for at in &target.functions[..count] {
            let _ = writeln!(script, "break *{at:#x}\ncommands\nsilent\ncontinue\nend");
        }
        fs::write(folder.join("gdb"), script + "continue\n").expect("a file");
        let mut command = Command::new("gdb");
        command.args(["-q", "-batch", "-p", &target.pid(), "-x"]).arg(folder.join("gdb"));
        command
    }

    fn bpftrace(target: &Target, program: &Path, count: usize, folder: &Folder) -> Command {
        let names: Vec<_> = (0..count).map(|at| format!("uprobe:{}:f{at}", program.display())).collect();
        fs::write(folder.join("bt"), format!("{} {{ @ = count(); }}", names.join(","))).expect("a file");
        let mut command = Command::new("bpftrace");
        command.args(["-p", &target.pid()]).arg(folder.join("bt")).env("BPFTRACE_MAX_PROBES", "20000");
        command
    }

    fn frida(target: &Target, _: &Path, count: usize, folder: &Folder) -> Command {
        let script = format!(
            "import frida, sys\nscript = frida.attach({}).create_script('''let n = 0;\nfor (const at of {:?})\n\
             Interceptor.attach(ptr(at), {{ onEnter(args) {{ n++; }} }});''')\nscript.load()\nsys.stdin.read()\n",
            target.pid(),
            target.functions[..count].iter().map(|at| format!("{at:#x}")).collect::<Vec<_>>(),
        );
        fs::write(folder.join("hooks.py"), script).expect("a file");
        let mut command = Command::new("python3");
        command.arg(folder.join("hooks.py"));
        command
    }

    /// Arms by a tool. Returns its milliseconds, and the nanoseconds of a call.
    fn theirs(program: &Path, tool: Tool, count: usize, calls: u64, folder: &Folder) -> Option<[f64; 2]> {
        let mut target = Target::start(program, 0);
        // Code that was never called is not in memory yet.
        let before = target.beginnings(count);
        let mut command = tool(&target, program, count, folder);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut running = command.spawn().ok()?;
        let armed = target.armed(&mut running, &before).map(|took| [took, target.call(calls)]);
        // It may have ended.
        let _ = running.kill();
        let _ = running.wait();
        armed
    }

    pub fn main() {
        let scale = Scale::from_args();
        let (many, some) = if scale == Scale::Full { (10_000, 1_000) } else { (100, 10) };
        let folder = Folder::new("outside");
        fs::create_dir_all(folder.join("")).expect("a folder");
        let (code, program) = (folder.join("ten.c"), folder.join("ten"));
        fs::write(&code, source(many)).expect("a file");
        let flags = ["-O1", "-w", "-pthread", "-D_GNU_SOURCE", "-include", "unistd.h"];
        let said = c_library::run("cc", &flags, &[&code], &program);
        assert!(said.is_done, "{}", said.messages);

        let latent = median((0..scale.of(11)).map(|_| Target::start(&program, 0).call(1_000_000)).collect());
        let idle: Vec<_> = (0..scale.of(11)).map(|_| ours(&program, 0, "**")).collect();
        let of = |at: usize| median(idle.iter().map(|it| it[at]).collect());
        let (arming, hit) = (of(0), of(2));
        let first = (0..some).map(|at| format!("p{at}")).collect::<Vec<_>>().join(", ");
        let fewer = median((0..scale.of(5)).map(|_| ours(&program, 0, &first)[0]).collect());
        let busy: Vec<_> = (0..scale.of(11)).map(|_| ours(&program, THREADS, "**")).collect();
        let busy_arming = median(busy.iter().map(|it| it[0]).collect());
        let stop = busy.iter().map(|it| it[1]).fold(0.0, f64::max);
        let beside = format!("the whole of {busy_arming:.1} ms, beside {THREADS} working threads");
        figure("outside/longest-stop", format_args!("{stop:.2}"), "ms", stop / busy_arming, &beside);
        let beside = format!("a latent one, {latent:.2} ns");
        figure("outside/hit", format_args!("{hit:.1}"), "ns", hit / latent, &beside);
        let tools: [(&str, Tool, usize, u64); 3] = [
            ("gdb's breakpoints", gdb, some, 1_000),
            ("bpftrace's uprobes", bpftrace, some, 100_000),
            ("Frida's hooks", frida, many, 100_000),
        ];
        for (name, tool, count, calls) in tools {
            let Some([took, ns]) = theirs(&program, tool, count, calls, &folder) else {
                println!("{name} are left out: the tool is not there, or took more than {LIMIT:?}");
                continue;
            };
            let (own, label) = if count == many { (arming, "arm-10k") } else { (fewer, "arm-1k") };
            let beside = format!("{name}, {took:.0} ms");
            figure(&format!("outside/{label}"), format_args!("{own:.1}"), "ms", own / took, &beside);
            let beside = format!("{name}, {ns:.0} ns");
            figure("outside/hit", format_args!("{hit:.1}"), "ns", hit / ns, &beside);
        }
    }
}

fn main() {
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    measured::main();
    #[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
    println!("sites are switched from outside on x86-64 Linux only");
}
