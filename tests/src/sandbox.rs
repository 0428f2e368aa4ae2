//! System calls that fail from some moment on, or end the process, as in a sandbox.

/// One instruction of a classic BPF program.
fn bpf(code: u32, jump: (u8, u8), k: u32) -> libc::sock_filter {
    libc::sock_filter { code: u16::try_from(code).expect("16 bits"), jt: jump.0, jf: jump.1, k }
}

/// From here on, `syscall` fails with `EPERM` where the argument at `offset` of `struct
/// seccomp_data`, masked, is `value`; on all threads, for the rest of the process's life.
///
/// # Panics
/// If the system refuses.
pub fn deny(syscall: libc::c_long, offset: u32, mask: u32, value: u32) {
    let load = |offset| bpf(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, (0, 0), offset);
    let is_equal = |k, jump| bpf(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, jump, k);
    let mut program = [
        load(0),
        is_equal(u32::try_from(syscall).expect("a number"), (0, 4)),
        load(offset),
        bpf(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, (0, 0), mask),
        is_equal(value, (0, 1)),
        bpf(libc::BPF_RET | libc::BPF_K, (0, 0), libc::SECCOMP_RET_ERRNO | libc::EPERM.unsigned_abs()),
        bpf(libc::BPF_RET | libc::BPF_K, (0, 0), libc::SECCOMP_RET_ALLOW),
    ];
    install(&mut program, libc::SECCOMP_FILTER_FLAG_TSYNC);
}

/// From here on, the kernel ends the process by `SIGSYS` at any system call of this thread but
/// `exit`, by which [`end_thread`] ends the thread.
///
/// # Panics
/// If the system refuses.
pub fn allow_only_the_threads_end() {
    let exit = u32::try_from(libc::SYS_exit).expect("a number");
    let mut program = [
        bpf(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, (0, 0), 0),
        bpf(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, (0, 1), exit),
        bpf(libc::BPF_RET | libc::BPF_K, (0, 0), libc::SECCOMP_RET_ALLOW),
        bpf(libc::BPF_RET | libc::BPF_K, (0, 0), libc::SECCOMP_RET_KILL_PROCESS),
    ];
    install(&mut program, 0);
}

/// Ends this thread at once, without destructors, as the C library would with more system calls.
/// Its stack stays.
pub fn end_thread() -> ! {
    loop {
        // SAFETY: no pointers; the thread's stack stays mapped, since nobody joins the thread.
        unsafe { libc::syscall(libc::SYS_exit, 0) };
    }
}

/// Installs a program of BPF as a filter of system calls.
fn install(program: &mut [libc::sock_filter], flags: libc::c_ulong) {
    let len = program.len().try_into().expect("a short program");
    let filter = libc::sock_fprog { len, filter: program.as_mut_ptr() };
    // SAFETY: no pointers.
    assert_eq!(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }, 0);
    // SAFETY: the program and its description are alive for the call, which copies them.
    let result =
        unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const filter) };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
}

/// Runs `body` while the process may have no more private memory that can be written: mapping some,
/// and making text writable, fail with `ENOMEM` meanwhile.
///
/// # Panics
/// If the system refuses.
pub fn without_memory<T>(body: impl FnOnce() -> T) -> T {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a place for the answer.
    assert_eq!(unsafe { libc::getrlimit(libc::RLIMIT_DATA, &raw mut limit) }, 0);
    // Linux takes a soft limit of 0 for none.
    let none = libc::rlimit { rlim_cur: 1, ..limit };
    // SAFETY: a limit, which is read.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_DATA, &raw const none) }, 0);
    let done = body();
    // SAFETY: as above.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_DATA, &raw const limit) }, 0);
    done
}

/// Returns the offset of an argument's low half in `struct seccomp_data`.
#[must_use]
pub const fn argument(index: u32) -> u32 {
    16 + 8 * index
}

/// The mask of a whole argument.
pub const ALL: u32 = u32::MAX;
