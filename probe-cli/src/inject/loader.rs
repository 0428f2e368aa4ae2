//! The functions of a program that load a library, and the places in it where no thread may be
//! interrupted.

use probe_inject::CriticalCode;

use super::objects::Object;
use crate::elf::Dynamic;

/// Functions that hold locks of `malloc` while they run.
const ALLOCATE: [&str; 10] = [
    "malloc", "free", "calloc", "realloc", "reallocarray", "memalign", "aligned_alloc", "posix_memalign",
    "valloc", "malloc_trim",
];

/// Functions that wait for a lock or an event of their caller's, and hold none meanwhile.
const WAIT: [&str; 12] = [
    "syscall", "pthread_mutex_lock", "pthread_mutex_timedlock", "pthread_rwlock_rdlock",
    "pthread_rwlock_wrlock", "pthread_cond_wait", "pthread_cond_timedwait", "pthread_join",
    "pthread_barrier_wait", "sem_wait", "sem_timedwait", "mtx_lock",
];

/// Addresses of functions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Loader {
    /// `void *dlopen(const char *, int)`.
    pub opens: u64,
    /// `char *dlerror(void)`; 0 if there is none.
    pub explains: u64,
}

impl Loader {
    /// Finds them.
    ///
    /// # Errors
    /// The reason why there are none, as the rest of a sentence about the program.
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
        // Before glibc 2.34, `dlopen` is in a library that may be missing, and this one never is.
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

/// Returns the places where threads may hold locks that a call needs: the loader's, those of
/// whatever allocates memory, and those of a library with a runtime. Of an executable with a
/// runtime, all code may be taken that runs, but for one with an allocator of its own: a program of
/// one thread that works all the time would have no other place.
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
