//! Programs of 20,000 CALLs, and passes over them.

// Safety: relies on pages of this bench, which are writable and which no other thread executes.
#![expect(unsafe_code, reason = "see above")]

use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

use probe_benches::baseline::protect;
use probe_benches::{Case, Medians, Scale, figure, interleave, pin};
use probe_runtime::patch::call::CallOptions;
use probe_runtime::patch::{PatchError, TextPolicy};

const SITES: usize = 20_000;
/// Bytes of a page, and of a cache line.
const PAGE: usize = 4096;
const LINE: usize = 64;
const RET: u8 = 0xc3;
const INT3: u8 = 0xcc;

/// Prints all figures.
pub fn run() {
    let scale = Scale::from_args();
    pin(0);
    let tenth = CallProgram::new(10);
    assert_eq!((tenth.split_calls(), tenth.sites.len()), (SITES / 10, SITES));
    open(&tenth, scale, "");
    let all = CallProgram::new(1);
    assert_eq!((all.split_calls(), all.sites.len()), (SITES, SITES));
    println!("{} of {SITES} lie across cache lines", all.across_lines());
    open(&all, scale, "-split-calls");
    sealed(&tenth, scale);
}

/// Functions that each hold a CALL of the first one, which is a `ret`.
struct CallProgram {
    callee: usize,
    /// The CALLs, in ascending order.
    sites: Vec<usize>,
    /// The aligned word of each CALL that switching writes, with its value while the CALL is
    /// active.
    words: Vec<(usize, u64)>,
}

impl CallProgram {
    /// Creates a program. One CALL in `one_in` lies across aligned words, with the four splits in
    /// rotation. The others begin at the four other offsets in rotation. Before each lie 4 to 35
    /// bytes, in no order, and padding to its offset. A `ret` follows.
    fn new(one_in: usize) -> Self {
        let len = (PAGE + 64 * SITES).next_multiple_of(PAGE);
        let rights = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new private mapping overlaps nothing.
        let start = unsafe { libc::mmap(ptr::null_mut(), len, rights, flags, -1, 0) };
        assert_ne!(start, libc::MAP_FAILED, "no memory that may be written and executed");
        let callee = start as usize;
        // SAFETY: the new mapping, which is never unmapped.
        let code = unsafe { std::slice::from_raw_parts_mut(start.cast::<u8>(), len) };
        code.fill(INT3);
        code[0] = RET;
        let (mut sites, mut at, mut random) = (Vec::with_capacity(SITES), LINE, 1_u64);
        for n in 0..SITES {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            at += 4 + usize::try_from(random >> 59).unwrap_or_default();
            let offset = if n % one_in == 0 { 4 + n / one_in % 4 } else { n % 4 };
            at += (offset + 8 - at % 8) % 8;
            let distance = u32::try_from(at + 5).unwrap_or_default().wrapping_neg();
            code[at] = 0xe8;
            code[at + 1..at + 5].copy_from_slice(&distance.to_le_bytes());
            code[at + 5] = RET;
            sites.push(callee + at);
            at += 6;
        }
        let words =
            sites.iter().map(|&site| word(site)).map(|word| (word, read(word).load(Ordering::Relaxed)));
        let words = words.collect();
        Self { callee, sites, words }
    }

    fn split_calls(&self) -> usize {
        self.sites.iter().filter(|&site| site % 8 > 3).count()
    }

    fn across_lines(&self) -> usize {
        self.sites.iter().filter(|&site| site % LINE > LINE - 5).count()
    }

    fn activate(&self, sites: &[usize], options: CallOptions) -> Result<(), PatchError> {
        for &site in sites {
            // SAFETY: a CALL of this program, with the target that it had before.
            assert!(unsafe { options.activate_call(site, self.callee) }?);
        }
        Ok(())
    }
}

fn deactivate(sites: &[usize], options: CallOptions) -> Result<(), PatchError> {
    for &site in sites {
        // SAFETY: a CALL of a program, to a function that does nothing.
        assert!(unsafe { options.deactivate_call(site) }?);
    }
    Ok(())
}

/// Returns the aligned word that switching a site writes.
fn word(site: usize) -> usize {
    if site % 8 == 7 { site + 1 } else { site & !7 }
}

fn read(word: usize) -> &'static AtomicU64 {
    // SAFETY: an aligned word of a program, which is never unmapped.
    unsafe { AtomicU64::from_ptr(word as *mut u64) }
}

/// Makes all sites active or latent, whatever their state.
fn prepare(program: &CallProgram, sites: &[usize], options: CallOptions, active: bool) {
    for &site in sites {
        // SAFETY: a CALL of this program, with the target that it had before.
        let result = unsafe {
            if active { options.activate_call(site, program.callee) } else { options.deactivate_call(site) }
        };
        assert!(result.is_ok(), "{result:?}");
    }
}

/// Returns a pass over these sites in each direction; each follows an untimed pass in the other
/// direction.
fn passes<'a>(program: &'a CallProgram, sites: &'a [usize], options: CallOptions) -> [Case<'a>; 2] {
    let calls = sites.len() as u64;
    [("activate", true), ("deactivate", false)].map(|(name, active)| {
        Case::prepared(
            name,
            calls,
            move || prepare(program, sites, options, !active),
            move |_| {
                let result =
                    if active { program.activate(sites, options) } else { deactivate(sites, options) };
                assert!(result.is_ok(), "{result:?}");
            },
        )
    })
}

/// Measures passes over all sites and over their words, in memory that is always writable.
fn open(program: &CallProgram, scale: Scale, suffix: &str) {
    let options = CallOptions::new().text_policy(TextPolicy::Open);
    let calls = SITES as u64;
    let stores = Case::prepared(
        "plain stores",
        calls,
        || prepare(program, &program.sites, options, true),
        |_| {
            for &(word, active) in &program.words {
                read(word).store(active, Ordering::Relaxed);
            }
        },
    );
    let exchanges = Case::prepared(
        "bare lock cmpxchg",
        calls,
        || prepare(program, &program.sites, options, true),
        |_| {
            for &(word, active) in &program.words {
                let done = read(word).compare_exchange(active, active, Ordering::SeqCst, Ordering::Relaxed);
                assert!(done.is_ok());
            }
        },
    );
    let [activate, deactivate] = passes(program, &program.sites, options);
    let medians = interleave(scale.of(200), &mut [stores, exchanges, activate, deactivate]);
    print("plain-stores", "plain stores", suffix, &medians);
    print("cmpxchg", "bare lock cmpxchg", suffix, &medians);
    print("activate", "activate", suffix, &medians);
    print("deactivate", "deactivate", suffix, &medians);
}

/// Measures text that is opened and sealed for each site: one site in a hundred.
fn sealed(program: &CallProgram, scale: Scale) {
    let sites: Vec<usize> = program.sites.iter().copied().step_by(101).collect();
    let system_calls = Case::new("two system calls", sites.len() as u64, |_| {
        for &site in &sites {
            protect(site, true);
            protect(site, false);
        }
    });
    let [activate, deactivate] = passes(program, &sites, CallOptions::new());
    let medians = interleave(scale.of(200), &mut [system_calls, activate, deactivate]);
    for case in ["two system calls", "activate", "deactivate"] {
        let (ns, ratio) = (medians.ns(case), medians.ratio(case, "two system calls"));
        let name = format!("callpatch-{}-sealed", case.replace(' ', "-"));
        figure(&name, format_args!("{ns:.0}"), "ns", ratio, "two system calls");
    }
}

fn print(name: &str, case: &str, suffix: &str, medians: &Medians) {
    let (ns, ratio) = (medians.ns(case), medians.ratio(case, "bare lock cmpxchg"));
    figure(&format!("callpatch-{name}{suffix}"), format_args!("{ns:.2}"), "ns", ratio, "bare lock cmpxchg");
}
