//! Why the kernel counts no event.

use std::io;

// Linux's error numbers, on other systems as well.
const EPERM: i32 = 1;
const ENOENT: i32 = 2;
const ENOMEM: i32 = 12;
const EACCES: i32 = 13;
const EBUSY: i32 = 16;
const ENODEV: i32 = 19;
const EINVAL: i32 = 22;
const ENFILE: i32 = 23;
const EMFILE: i32 = 24;
const ENOSYS: i32 = 38;
const EOPNOTSUPP: i32 = 95;

/// Explains an error number of `perf_event_open(2)`, with a remedy if there is one. `paranoid` is
/// the setting `kernel.perf_event_paranoid`, if it can be read.
pub fn perf_failure(error: i32, paranoid: Option<i32>) -> String {
    match error {
        ENOENT | ENODEV | EOPNOTSUPP => "this machine has no counter for it".to_owned(),
        ENOSYS => "this system has no perf_event_open, or a filter of system calls hides it".to_owned(),
        EPERM | EACCES => match paranoid {
            Some(level) => format!(
                "not permitted: kernel.perf_event_paranoid is {level}; lower it, or give the program CAP_PERFMON"
            ),
            None => "not permitted, by a filter of system calls or the system's settings".to_owned(),
        },
        EINVAL => "the processor can't count it together with the others; ask for fewer".to_owned(),
        EBUSY => "another program has the processor's counters for itself".to_owned(),
        EMFILE | ENFILE => "there is no file descriptor left; raise RLIMIT_NOFILE".to_owned(),
        ENOMEM => "there is no memory for it".to_owned(),
        error => io::Error::from_raw_os_error(error).to_string(),
    }
}

/// Explains an error number of mapping an event's memory.
pub fn perf_memory_failure(error: i32) -> String {
    match error {
        EPERM => "locked memory is used up: raise kernel.perf_event_mlock_kb or RLIMIT_MEMLOCK".to_owned(),
        error => perf_failure(error, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_right_names_its_setting() {
        assert!(perf_failure(EACCES, Some(3)).contains("paranoid is 3; lower it"));
        assert!(perf_failure(EPERM, None).contains("a filter of system calls"));
        assert!(perf_failure(EMFILE, None).contains("RLIMIT_NOFILE"));
        assert!(perf_memory_failure(EPERM).contains("RLIMIT_MEMLOCK"));
        assert_eq!(perf_memory_failure(ENOMEM), perf_failure(ENOMEM, None));
    }
}
