//! A function with one instruction to patch, at a chosen position: in a word, across a cache line,
//! across a page.
//!
//! ```text
//!   function:  31 c0            xor eax, eax
//!   site:      .. .. .. .. ..   five bytes, patched           one ▸ mov eax, 1; ret
//!              c3               ret                           two ▸ mov eax, 2; ret
//! ```
//! The function has memory of its own that is always writable and executable, so patching needs no
//! system call. A mix of two instructions is distinct from both of them. The memory around the code
//! can't be executed. A mixed CALL goes there; a mixed MOV or SUB gives an unexpected value.

// Safety: relies on a mapping of its own. Only this module and, at the site, a patcher write to it.
#![expect(unsafe_code, reason = "see above")]

use std::mem::transmute;
use std::ptr;
use std::sync::atomic::AtomicU64;

const PAGE: usize = 4096;
const LINE: usize = 64;
const RESERVED: usize = 64 << 20;
/// Distance from the site's end to `one`. Its bytes differ from each other and from [`MOV`]'s.
const TO_ONE: u32 = 0x0123_4567;
/// Number of bytes of a site.
pub const LEN: usize = 5;

/// The operand of `mov eax, MOV`, which replaces an inactive call if mixes with a call must be
/// detected.
pub const MOV: u32 = 0x02b3_a291;
/// The value that [`sub`] subtracts from 0; it shares no byte with [`MOV`].
pub const SUB: u32 = 0x0354_76c8;

/// The position of the five bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// At the start of a cache line.
    Aligned,
    /// This many of the bytes, 1 to 4, before the end of a cache line, the rest after it.
    AcrossLines(usize),
    /// The same at the end of a page.
    AcrossPages(usize),
}

/// The function. Its memory is never unmapped.
#[derive(Clone, Copy, Debug)]
pub struct Patched {
    site: usize,
}

impl Patched {
    /// Returns a function with `instruction` at the site.
    ///
    /// # Panics
    /// If the system gives no memory that is writable and executable, or a split is not within 1 to
    /// 4.
    pub fn new(place: Place, instruction: impl FnOnce(&Self) -> [u8; LEN]) -> Self {
        let (boundary, before) = match place {
            Place::Aligned => (PAGE / 2, 0),
            Place::AcrossLines(split) => (PAGE / 2 + LINE, split),
            Place::AcrossPages(split) => (PAGE, split),
        };
        assert!(before < LEN && (place == Place::Aligned || before != 0), "{place:?} splits nothing");
        let base = reserve();
        let this = Self { site: base + boundary - before };
        open(base, 2 * PAGE);
        open(this.one() & !(PAGE - 1), 2 * PAGE);
        write(this.site - 2, &[0x31, 0xc0]);
        write(this.site, &instruction(&this));
        write(this.site + LEN, &[0xc3]);
        write(this.one(), &[0xb8, 1, 0, 0, 0, 0xc3]);
        write(this.two(), &[0xb8, 2, 0, 0, 0, 0xc3]);
        this
    }

    /// Returns the site's address.
    pub fn site(&self) -> usize {
        self.site
    }

    /// Returns the address of a function that sets the result to 1.
    pub fn one(&self) -> usize {
        self.site + LEN + TO_ONE as usize
    }

    /// Returns the address of a function that sets the result to 2.
    pub fn two(&self) -> usize {
        self.one() + LINE
    }

    /// Returns the function that executors call. It returns 0, or the value that the site sets.
    pub fn function(&self) -> extern "C" fn() -> u32 {
        // SAFETY: the code above, which has the C calling convention, and only changes `eax`.
        unsafe { transmute::<usize, extern "C" fn() -> u32>(self.site - 2) }
    }

    /// Returns the aligned words of the site's first and last byte.
    pub fn words(&self) -> [&'static AtomicU64; 2] {
        // SAFETY: aligned, and within the mapping, which is never unmapped and is only changed
        // atomically once it is executed.
        [self.site, self.site + LEN - 1].map(|byte| unsafe { AtomicU64::from_ptr((byte & !7) as *mut u64) })
    }
}

/// Returns a `call` from the site to `target`.
///
/// # Panics
/// If the distance is over 2 GiB.
pub fn call(site: usize, target: usize) -> [u8; LEN] {
    let distance = i32::try_from(target.wrapping_sub(site + LEN).cast_signed());
    with_operand(0xe8, distance.expect("a target within 2 GiB").cast_unsigned())
}

/// Returns `mov eax, value`.
pub fn mov(value: u32) -> [u8; LEN] {
    with_operand(0xb8, value)
}

/// Returns `sub eax, value`: the result is minus `value`.
pub fn sub(value: u32) -> [u8; LEN] {
    with_operand(0x2d, value)
}

/// A NOP of five bytes.
pub const NOP: [u8; LEN] = [0x0f, 0x1f, 0x44, 0, 0];

fn with_operand(opcode: u8, operand: u32) -> [u8; LEN] {
    let [a, b, c, d] = operand.to_le_bytes();
    [opcode, a, b, c, d]
}

/// Returns the addresses of `count` NOPs of five bytes, each across two cache lines, in text that
/// is always writable.
///
/// # Panics
/// If the system gives no memory that is writable and executable, or a split is not within 1 to 4.
pub fn straddlers(count: usize, split: usize) -> Vec<usize> {
    assert!((1..LEN).contains(&split) && count < RESERVED / LINE - 1, "{split}, {count}");
    let base = reserve();
    open(base, (count + 1) * LINE);
    let sites: Vec<_> = (1..=count).map(|line| base + line * LINE - split).collect();
    for site in &sites {
        write(*site, &NOP);
    }
    sites
}

fn reserve() -> usize {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a new private mapping overlaps nothing.
    let base = unsafe { libc::mmap(ptr::null_mut(), RESERVED, libc::PROT_NONE, flags, -1, 0) };
    assert_ne!(base, libc::MAP_FAILED, "no address space: {}", std::io::Error::last_os_error());
    base.addr()
}

fn open(start: usize, len: usize) {
    let rights = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
    // SAFETY: pages of the mapping above.
    let status = unsafe { libc::mprotect(start as *mut _, len, rights) };
    assert_eq!(status, 0, "no memory that may be written and executed: {}", std::io::Error::last_os_error());
}

fn write(addr: usize, bytes: &[u8]) {
    // SAFETY: opened above, and no thread executes it yet.
    unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), addr as *mut u8, bytes.len()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_instruction_gives_its_value() {
        for place in (1..LEN)
            .flat_map(|split| [Place::AcrossLines(split), Place::AcrossPages(split)])
            .chain([Place::Aligned])
        {
            let value =
                |instruction: fn(&Patched) -> [u8; LEN]| Patched::new(place, instruction).function()();
            assert_eq!(value(|_| NOP), 0);
            assert_eq!(value(|_| mov(MOV)), MOV);
            assert_eq!(value(|_| sub(SUB)), SUB.wrapping_neg());
            assert_eq!(value(|code| call(code.site(), code.one())), 1);
            assert_eq!(value(|code| call(code.site(), code.two())), 2);
        }
    }

    #[test]
    fn sites_lie_where_they_should() {
        let site = |place| Patched::new(place, |_| NOP).site();
        assert_eq!(site(Place::Aligned) % LINE, 0);
        assert_eq!(site(Place::AcrossLines(3)) % LINE, LINE - 3);
        assert_eq!(site(Place::AcrossPages(1)) % PAGE, PAGE - 1);
        let [first, last] = Patched::new(Place::AcrossLines(2), |_| NOP).words();
        assert_eq!(ptr::from_ref(last).addr() - ptr::from_ref(first).addr(), 8);
        let [first, last] = Patched::new(Place::Aligned, |_| NOP).words();
        assert_eq!(ptr::from_ref(last), ptr::from_ref(first));
    }

    #[test]
    fn each_straddler_has_a_line_of_its_own() {
        let sites = straddlers(1_000, 2);
        assert_eq!(sites.len(), 1_000);
        assert!(sites.iter().all(|site| site % LINE == LINE - 2));
        assert!(sites.windows(2).all(|pair| pair[1] - pair[0] == LINE));
    }

    #[test]
    fn mixed_instructions_differ_from_whole_ones() {
        let instructions = [call(0, LEN + TO_ONE as usize), mov(MOV), sub(SUB)];
        for (at, one) in instructions.iter().enumerate() {
            for other in &instructions[at + 1..] {
                assert!((0..LEN).all(|byte| one[byte] != other[byte]), "{one:x?} {other:x?}");
            }
        }
        // A CALL with any tail of the MOV goes to reserved memory without code.
        for split in 1..LEN {
            let mut mixed = instructions[0];
            mixed[split..].copy_from_slice(&instructions[1][split..]);
            let distance = u32::from_le_bytes([mixed[1], mixed[2], mixed[3], mixed[4]]) as usize;
            assert!((TO_ONE as usize + 2 * PAGE..RESERVED - 2 * PAGE).contains(&distance), "{mixed:x?}");
        }
    }
}
