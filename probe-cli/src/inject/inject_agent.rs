//! Injects an agent into a program that has none: the agent of the program's own runtime, or that
//! of the library, which the program's own `dlopen` loads.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use probe_inject::{CriticalCode, InjectError, MemoryFile, Process, RemoteCall};
use probe_report::Time;

use super::objects::{Object, objects};
use crate::elf::{Dynamic, Hooks, Image, Runtime};
use crate::output::Failure;
use crate::preload::library;
use crate::proc_files::status_field;
use crate::progress::Progress;

/// Most bytes that are allocated for a library before it is read.
const MAX_CAPACITY: usize = 1 << 26;

/// `RTLD_NOW | RTLD_NODELETE`.
const LOAD_FLAGS: u64 = 0x2 | 0x1000;

/// The time for an earlier agent to end before another one is started.
const AGENT_EXIT_TIMEOUT: Duration = Duration::from_secs(5);
const RETRY_INTERVAL: Duration = Duration::from_millis(10);

/// Injects an agent into a program. Returns a line that says how. With `plugins`, the program need
/// not have probes. The agent ends with its last client, unless it `stays`.
///
/// # Errors
/// If the program can't get an agent, and the reason.
pub fn inject(pid: u32, given: Option<&Path>, plugins: bool, stays: bool) -> Result<String, Failure> {
    let _progress = Progress::start(&format!("bringing an agent to process {pid}"), 0);
    let unable = |problem: String| Failure::Input(format!("process {pid} {problem}"));
    let mut process = Process::open(pid).map_err(failure)?;
    let memory = Arc::clone(process.memory());
    let all = || objects(pid, &memory).map_err(failure);
    let before = all()?;
    if !plugins && !before.iter().any(|it| it.has_probes) {
        // The program may call hooks that can't become probes.
        let image = Image::open(Path::new(&format!("/proc/{pid}/exe"))).ok();
        let hooks = image.and_then(|image| Hooks::of(&image).ok().flatten());
        if let Some(hooks) = hooks.filter(|hooks| *hooks != Hooks::Others) {
            return Err(unable(format!(
                "has no probes: it calls the hooks of -finstrument-functions; {}",
                hooks.fate()
            )));
        }
        return Err(unable("has no probes; if its plugins will, or for functions of libraries, use `probectl attach --plugins`".to_owned()));
    }
    process.check_filters().map_err(failure)?;
    if let Some((object, entry)) = entry(&before) {
        let socket = start(&mut process, &before, entry, stays)?;
        let of = if object.is_called("memfd:") { "the library".to_owned() } else { object.name.clone() };
        return Ok(line(&process, &format!("the agent of {of} serves {socket}")));
    }
    if let Some((object, runtime)) = before.iter().find_map(|it| Some((it, it.runtime?))) {
        let do_it = match runtime {
            Runtime { has_agent: true, .. } => "let its `main` hold the guard of `init_from_env`",
            _ => "build it with the feature `agent`, and let its `main` hold the guard of `init_from_env`",
        };
        return Err(unable(format!(
            "has a runtime of its own ({}), which owns its probes and has no agent to start; {do_it}",
            object.name
        )));
    }
    let loader = Loader::find(&before).map_err(unable)?;
    let file = library(given)?;
    let bytes = loaded_part(&file)?;
    let call = RemoteCall {
        function: loader.opens,
        arguments: [0, LOAD_FLAGS, 0],
        explains: loader.explains,
        file: Some(MemoryFile { name: "libprobe_agent.so", bytes: &bytes }),
        takes_text: false,
    };
    let result = process.call(&call, &critical_code(&before)).map_err(failure)?;
    if result.value == 0 {
        let why = if result.text.is_empty() { "no reason was given" } else { &result.text };
        return Err(unable(format!("can't load {}: {why}{}", file.display(), cause(pid))));
    }
    let after = all()?;
    let (_, entry) = entry(&after)
        .ok_or_else(|| unable(format!("has loaded {}, whose entry can't be found", file.display())))?;
    let socket = start(&mut process, &after, entry, stays)?;
    Ok(line(&process, &format!("loaded {}, which serves {socket}", file.display())))
}

/// Returns a possible reason why a process can't load a library; empty if none is known.
fn cause(pid: u32) -> &'static str {
    let is_filtered = || {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        status_field(&status, "Seccomp").is_some_and(|mode| mode != "0")
    };
    if !Path::new(&format!("/proc/{pid}/root/proc/self")).is_symlink() {
        "; its root folder (chroot) has no /proc, by which it would read the library: mount one there, or start it by \
         `probectl run`"
    } else if is_filtered() {
        "; it has a filter of system calls (seccomp), which may refuse that"
    } else {
        ""
    }
}

/// Returns the function that starts an agent, and its object.
fn entry(objects: &[Object]) -> Option<(&Object, u64)> {
    let mut entries = objects.iter().filter_map(|it| Some((it, it.bias.wrapping_add(it.runtime?.entry?))));
    entries.find(|(object, entry)| object.has_code(*entry))
}

/// Calls the function that starts an agent. Returns its socket's path.
fn start(process: &mut Process, objects: &[Object], entry: u64, stays: bool) -> Result<String, Failure> {
    /// An earlier agent is about to end.
    const AGAIN: u64 = 2;
    let arguments = [0, 0, stays.into()];
    let call = RemoteCall { function: entry, arguments, takes_text: true, ..RemoteCall::default() };
    let (critical, begun) = (critical_code(objects), Instant::now());
    loop {
        let result = process.call(&call, &critical).map_err(failure)?;
        match result.value {
            1 => return Ok(result.text),
            AGAIN if begun.elapsed() < AGENT_EXIT_TIMEOUT => thread::sleep(RETRY_INTERVAL),
            _ => {
                let (pid, why) = (process.pid(), result.text);
                return Err(Failure::Input(format!("process {pid} can't start its agent: {why}")));
            }
        }
    }
}

/// Adds the longest stop to a line.
fn line(process: &Process, done: &str) -> String {
    let longest = u64::try_from(process.longest_stop().as_nanos()).unwrap_or(u64::MAX);
    format!("{done}; one thread was stopped at a time, for {} at most", Time(longest))
}

/// Reads the parts of a library that are loaded, which leaves out the tables for debuggers.
fn loaded_part(file: &Path) -> Result<Vec<u8>, Failure> {
    let image = Image::open(file).map_err(|error| Failure::Input(error.to_string()))?;
    let length = image.loaded_length();
    // The headers may claim more than the file has.
    let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or(0).min(MAX_CAPACITY));
    let read = File::open(file).and_then(|it| it.take(length).read_to_end(&mut bytes));
    read.map_err(|error| Failure::Input(format!("{} can't be read: {error}", file.display())))?;
    Ok(bytes)
}

#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
fn failure(error: InjectError) -> Failure {
    let advice = match error {
        InjectError::NotAllowed { .. } => "; or start the program by `probectl run`",
        _ => "",
    };
    Failure::Input(format!("{error}{advice}"))
}

/// Functions that hold locks of `malloc` while they run.
const ALLOCATE: [&str; 10] = [
    "malloc", "free", "calloc", "realloc", "reallocarray", "memalign", "aligned_alloc", "posix_memalign",
    "valloc", "malloc_trim",
];

/// Functions that wait for a lock or an event of their caller, and hold no lock meanwhile.
const WAIT: [&str; 12] = [
    "syscall", "pthread_mutex_lock", "pthread_mutex_timedlock", "pthread_rwlock_rdlock",
    "pthread_rwlock_wrlock", "pthread_cond_wait", "pthread_cond_timedwait", "pthread_join",
    "pthread_barrier_wait", "sem_wait", "sem_timedwait", "mtx_lock",
];

/// Addresses of the functions that load a library.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Loader {
    /// `void *dlopen(const char *, int)`.
    pub opens: u64,
    /// `char *dlerror(void)`; 0 if there is none.
    pub explains: u64,
}

impl Loader {
    /// Finds the functions.
    ///
    /// # Errors
    /// The reason why there are none, as the end of a sentence about the program.
    pub fn find(objects: &[Object]) -> Result<Self, String> {
        if let Some(musl) = objects.iter().find(|it| it.is_called("ld-musl") || it.is_called("libc.musl")) {
            return Err(format!(
                "uses another C library ({}), and the library to load needs glibc; `count --ptrace` counts from outside",
                musl.name
            ));
        }
        let mut libraries: Vec<_> =
            objects.iter().filter(|it| is_libc(it) || it.is_called("libdl")).collect();
        if libraries.is_empty() {
            return Err(
                "is static, or has another C library than glibc, so no library can be loaded into it; \
                        `count --ptrace` counts from outside"
                    .to_owned(),
            );
        }
        libraries.sort_by_key(|it| !it.is_called("libdl"));
        // Before glibc 2.34, `dlopen` is in a library that may be missing. The second one never is.
        for (opens, explains) in [("dlopen", "dlerror"), ("__libc_dlopen_mode", "dlerror")] {
            let function = |name| libraries.iter().find_map(|it| function(it, name)).map(|it| it.0);
            if let Some(opens) = function(opens) {
                return Ok(Self { opens, explains: function(explains).unwrap_or(0) });
            }
        }
        Err("has a C library without `dlopen`".to_owned())
    }
}

fn is_libc(object: &Object) -> bool {
    object.is_called("libc.so") || object.is_called("libc-2.")
}

fn is_loader(object: &Object) -> bool {
    object.is_called("ld-linux") || object.is_called("ld-2.")
}

/// Returns a function's address in memory, and its size. `None` if there is no code.
fn function(object: &Object, name: &str) -> Option<(u64, u64)> {
    let dynamic = Dynamic::read(&object.image, object.bias).ok()?;
    let (address, size) = dynamic.function(name).ok().flatten()?;
    let address = object.bias.wrapping_add(address);
    object.has_code(address).then_some((address, size))
}

/// Returns the places where threads may hold locks that a call needs: the locks of the loader, of
/// allocators, and of a library with a runtime. A thread may be interrupted anywhere in an
/// executable with a runtime, unless it has an allocator of its own: a program with one busy thread
/// would have no other place.
pub fn critical_code(objects: &[Object]) -> CriticalCode {
    let mut critical = CriticalCode::default();
    for (at, object) in objects.iter().enumerate() {
        let has_malloc = function(object, "malloc").is_some();
        let is_first = at == 0;
        let has_runtime = object.runtime.is_some();
        let has_locks = has_runtime && !(is_first && object.imports("realloc"));
        if is_loader(object) || is_libc(object) || has_malloc || has_locks {
            critical.libraries.extend(object.code.iter().cloned());
        }
        if has_runtime {
            critical.futex_users.extend(object.code.iter().cloned());
        }
        if is_libc(object) {
            let functions = ALLOCATE.iter().filter_map(|name| function(object, name));
            critical
                .lock_holders
                .extend(functions.map(|(address, size)| address..address.saturating_add(size)));
            let functions = WAIT.iter().filter_map(|name| function(object, name));
            critical
                .lock_waiters
                .extend(functions.map(|(address, size)| address..address.saturating_add(size)));
        } else if is_loader(object) || (has_malloc && !is_first) {
            // The program's own functions are on each stack.
            critical.lock_holders.extend(object.code.iter().cloned());
        }
    }
    critical
}
