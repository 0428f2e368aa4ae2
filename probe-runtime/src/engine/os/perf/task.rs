//! What `/proc/self/task` tells of a thread: its system call (`proc_pid_syscall(5)`), and how often
//! it got its turn (the kernel's sched-stats.rst). A process may read that of its own threads.

use std::{fs, process};

use crate::engine::os::thread;

/// A system call, in the words of a trace.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct SystemCall {
    /// The name's bytes, filled up with zeros.
    pub(crate) name: [u64; 2],
    pub(crate) argument: u64,
}

/// Names of the calls in which threads wait.
macro_rules! names {
    ($($number:ident $name:literal,)*) => {
        &[$((libc::$number, $name),)*]
    };
}

#[rustfmt::skip]
const NAMES: &[(libc::c_long, &str)] = names! {
    SYS_accept "accept", SYS_accept4 "accept4", SYS_clock_nanosleep "clock_nanosleep", SYS_clone "clone",
    SYS_close "close", SYS_connect "connect", SYS_copy_file_range "copy_file_range",
    SYS_epoll_pwait "epoll_pwait", SYS_execve "execve", SYS_fallocate "fallocate", SYS_fcntl "fcntl",
    SYS_fdatasync "fdatasync", SYS_flock "flock", SYS_fsync "fsync", SYS_ftruncate "ftruncate",
    SYS_futex "futex", SYS_getdents64 "getdents64", SYS_io_getevents "io_getevents",
    SYS_io_uring_enter "io_uring_enter", SYS_ioctl "ioctl", SYS_madvise "madvise", SYS_membarrier "membarrier",
    SYS_mmap "mmap", SYS_mprotect "mprotect", SYS_mq_timedreceive "mq_timedreceive",
    SYS_mq_timedsend "mq_timedsend", SYS_msgrcv "msgrcv", SYS_msgsnd "msgsnd", SYS_msync "msync",
    SYS_munmap "munmap", SYS_nanosleep "nanosleep", SYS_openat "openat", SYS_perf_event_open "perf_event_open",
    SYS_ppoll "ppoll", SYS_pread64 "pread64", SYS_preadv "preadv", SYS_pselect6 "pselect6",
    SYS_ptrace "ptrace", SYS_pwrite64 "pwrite64", SYS_pwritev "pwritev", SYS_read "read", SYS_readv "readv",
    SYS_recvfrom "recvfrom", SYS_recvmmsg "recvmmsg", SYS_recvmsg "recvmsg",
    SYS_rt_sigsuspend "rt_sigsuspend", SYS_rt_sigtimedwait "rt_sigtimedwait", SYS_semop "semop",
    SYS_semtimedop "semtimedop", SYS_sendfile "sendfile", SYS_sendmmsg "sendmmsg", SYS_sendmsg "sendmsg",
    SYS_sendto "sendto", SYS_splice "splice", SYS_sync "sync", SYS_syncfs "syncfs", SYS_wait4 "wait4",
    SYS_waitid "waitid", SYS_write "write", SYS_writev "writev",
};

/// Calls that this architecture alone has.
#[cfg(target_arch = "x86_64")]
#[rustfmt::skip]
const OWN_NAMES: &[(libc::c_long, &str)] = names! {
    SYS_epoll_wait "epoll_wait", SYS_fork "fork", SYS_open "open", SYS_pause "pause", SYS_poll "poll",
    SYS_rename "rename", SYS_select "select", SYS_stat "stat", SYS_unlink "unlink", SYS_vfork "vfork",
};
#[cfg(not(target_arch = "x86_64"))]
const OWN_NAMES: &[(libc::c_long, &str)] = &[];

/// Returns the system call in which the thread of this process waits that has this id. `None` if it
/// runs, if there is no such thread, or if `/proc` is that of other ids.
pub(crate) fn system_call(thread: u32) -> Option<SystemCall> {
    parse(&fs::read_to_string(format!("/proc/self/task/{thread}/syscall")).ok()?)
}

/// Returns how often the thread with this id was put on a processor. `None` if there is no such
/// thread, or the kernel does not count.
pub(crate) fn turns(thread: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/self/task/{thread}/schedstat")).ok()?;
    // A thread that exists has had a turn.
    text.split_ascii_whitespace().nth(2)?.parse().ok().filter(|turns| *turns != 0)
}

/// Returns whether `/proc` tells the system calls of this process's threads. That of another PID
/// namespace has other ids, and a process that may not be dumped can't read the file.
pub(crate) fn tells_calls() -> bool {
    let shown = fs::read_link("/proc/self").ok();
    let are_ids_ours = shown.is_some_and(|it| it.to_str() == Some(&process::id().to_string()));
    are_ids_ours && fs::read(format!("/proc/self/task/{}/syscall", thread::id())).is_ok()
}

/// Parses the file: the number of a call, then its arguments; `running`; or -1 and two addresses.
fn parse(text: &str) -> Option<SystemCall> {
    let mut words = text.split_ascii_whitespace();
    let number: i64 = words.next()?.parse().ok()?;
    if number < 0 {
        return Some(SystemCall { name: packed("no system call"), argument: 0 });
    }
    let argument = u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok()?;
    let known = NAMES.iter().chain(OWN_NAMES).find(|(known, _)| *known == number);
    let name = known.map_or_else(|| packed(&number.to_string()), |(_, name)| packed(name));
    Some(SystemCall { name, argument })
}

/// Returns the first 16 bytes of a name.
fn packed(name: &str) -> [u64; 2] {
    let mut bytes = [0; 16];
    bytes.iter_mut().zip(name.bytes()).for_each(|(place, byte)| *place = byte);
    let (words, _) = bytes.as_chunks::<8>();
    [words[0], words[1]].map(u64::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_a_call_or_none() {
        let shown = |text: &str| {
            let SystemCall { name, argument } = parse(text)?;
            let bytes: Vec<_> = name.iter().flat_map(|word| word.to_le_bytes()).collect();
            Some(format!("{} {argument:x}", String::from_utf8(bytes).unwrap().trim_end_matches('\0')))
        };
        let of = |number: libc::c_long| {
            shown(&format!("{number} 0x7f12 0x80 0x0 0x0 0x0 0xffffffffffffffff 0x7ffd 0x7f34\n"))
        };
        assert_eq!(of(libc::SYS_futex).as_deref(), Some("futex 7f12"));
        assert_eq!(of(libc::SYS_clock_nanosleep).as_deref(), Some("clock_nanosleep 7f12"));
        assert_eq!(of(99_999).as_deref(), Some("99999 7f12"));
        assert_eq!(shown("-1 0x7ffd 0x7f34\n").as_deref(), Some("no system call 0"));
        assert_eq!(["running\n", "", "7", "7 x", "0x1 0x2"].map(shown), [const { None }; 5]);
        assert!(NAMES.iter().chain(OWN_NAMES).all(|(_, name)| name.len() <= 16));
    }
}
