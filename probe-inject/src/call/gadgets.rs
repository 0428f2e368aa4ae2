//! Two short pieces of code that any program with the C library has.

use crate::memory::Memory;
use crate::process::Mapping;

/// Addresses of code in a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Code {
    /// `mov rax, 15; syscall`: `rt_sigreturn`.
    pub restorer: u64,
    /// `syscall; ret`.
    pub call: u64,
}

/// Bytes that are read at a time.
const BLOCK: u64 = 1 << 20;
const RESTORER: &[u8] = b"\x48\xc7\xc0\x0f\0\0\0\x0f\x05";
const CALL: &[u8] = b"\x0f\x05\xc3";

impl Code {
    /// Looks for both in the executable parts of a process's files, a block at a time. Any place
    /// will do, also one inside of another instruction.
    pub fn find(memory: &Memory, maps: &[Mapping]) -> Option<Self> {
        let (mut restorer, mut call) = (None, None);
        let mut parts: Vec<_> = maps.iter().filter(|it| it.is_executable && it.file.1 != 0).collect();
        parts.sort_by_key(|it| !it.name.contains("/libc"));
        for part in parts {
            let mut start = part.start;
            while start < part.end {
                let length = BLOCK.min(part.end - start);
                let Ok(bytes) = memory.bytes(start, usize::try_from(length).ok()?) else { break };
                let at = |pattern| found(&bytes, pattern).map(|at| start + at as u64);
                restorer = restorer.or_else(|| at(RESTORER));
                call = call.or_else(|| at(CALL));
                if let (Some(restorer), Some(call)) = (restorer, call) {
                    return Some(Self { restorer, call });
                }
                if length < BLOCK {
                    break;
                }
                // One may lie across the end of a block.
                start += BLOCK - RESTORER.len() as u64;
            }
        }
        None
    }
}

/// Finds a text that has the bytes of a system call, which are rare.
fn found(bytes: &[u8], pattern: &[u8]) -> Option<usize> {
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
        assert_eq!(found(b"\x0f\x05\xc3", CALL), Some(0));
        assert_eq!(found(b"\x0f\x0f\x05\xc2\x0f\x05\xc3", CALL), Some(4));
        assert_eq!(found(b"\x0f\x05", CALL), None);
        assert_eq!(found(b"", CALL), None);
        assert_eq!(found(b"\x0f\x05\x48\xc7\xc0\x0f\0\0\0\x0f\x05", RESTORER), Some(2));
        assert_eq!(found(b"\x0f\0\0\0\x0f\x05", RESTORER), None);
    }
}
