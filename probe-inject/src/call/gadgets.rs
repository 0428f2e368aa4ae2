//! Two short pieces of code that any program with the C library has, by which a thread makes a
//! system call and returns from one that is hijacked.

use crate::process::{Mapping, Memory};

/// The addresses of such code in a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gadgets {
    /// `mov rax, 15; syscall`: `rt_sigreturn`.
    pub restorer: u64,
    /// `syscall; ret`.
    pub syscall: u64,
}

/// The bytes of one read.
const BLOCK_BYTES: u64 = 1 << 20;
const RESTORER: &[u8] = b"\x48\xc7\xc0\x0f\0\0\0\x0f\x05";
const SYSCALL: &[u8] = b"\x0f\x05\xc3";

impl Gadgets {
    /// Finds both in the executable mappings of a process's files, a block at a time. A place
    /// inside of another instruction will do.
    pub fn find(memory: &Memory, maps: &[Mapping]) -> Option<Self> {
        let (mut restorer, mut syscall) = (None, None);
        let mut parts: Vec<_> = maps.iter().filter(|it| it.is_executable && it.file.1 != 0).collect();
        parts.sort_by_key(|it| !it.name.contains("/libc"));
        for part in parts {
            let mut start = part.start;
            while start < part.end {
                let length = BLOCK_BYTES.min(part.end - start);
                let Ok(bytes) = memory.bytes(start, usize::try_from(length).ok()?) else { break };
                let at = |pattern| find_pattern(&bytes, pattern).map(|at| start + at as u64);
                restorer = restorer.or_else(|| at(RESTORER));
                syscall = syscall.or_else(|| at(SYSCALL));
                if let (Some(restorer), Some(syscall)) = (restorer, syscall) {
                    return Some(Self { restorer, syscall });
                }
                if length < BLOCK_BYTES {
                    break;
                }
                // A pattern may lie across the end of a block.
                start += BLOCK_BYTES - RESTORER.len() as u64;
            }
        }
        None
    }
}

/// Finds a pattern that has the bytes of `syscall`, which are rare.
fn find_pattern(bytes: &[u8], pattern: &[u8]) -> Option<usize> {
    let before = pattern.len() - pattern.iter().rev().position(|byte| *byte == 0x0f)? - 1;
    let mut from = 0;
    loop {
        let at = from + bytes[from..].iter().position(|byte| *byte == 0x0f)?;
        let begin = at.checked_sub(before);
        if begin.is_some_and(|begin| bytes[begin..].starts_with(pattern)) {
            return begin;
        }
        from = at + 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_found_anywhere() {
        assert_eq!(find_pattern(b"\x0f\x05\xc3", SYSCALL), Some(0));
        assert_eq!(find_pattern(b"\x0f\x0f\x05\xc2\x0f\x05\xc3", SYSCALL), Some(4));
        assert_eq!(find_pattern(b"\x0f\x05", SYSCALL), None);
        assert_eq!(find_pattern(b"", SYSCALL), None);
        assert_eq!(find_pattern(b"\x0f\x05\x48\xc7\xc0\x0f\0\0\0\x0f\x05", RESTORER), Some(2));
        assert_eq!(find_pattern(b"\x0f\0\0\0\x0f\x05", RESTORER), None);
    }
}
