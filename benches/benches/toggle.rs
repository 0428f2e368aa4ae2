//! `toggle`: switching one probe, beside the required instructions and system calls.

// Safety: relies on the site's text staying open while the attachment lives, on both words being
// the runtime's own states of the site, and on a section that holds code only.
#![expect(unsafe_code, reason = "see above")]

use std::arch::global_asm;
use std::hint::{self, black_box};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use probe_benches::baseline::{membarrier, protect};
use probe_benches::table::{SiteWord, sites};
use probe_benches::{Case, IS_PATCHED, Medians, Scale, figure, interleave, pin, timing};
use probe_runtime::patch::{TextPolicy, Visibility};
use probe_runtime::{Attachment, Count, Error, probe, select};

// The cache lines of this section contain nothing else.
global_asm!(".pushsection toggle_switched, \"ax\", @progbits", ".p2align 6", ".popsection");

/// One probe, since its exit is not selected. It has a cache line of its own: each toggle discards
/// the line to which it writes, and would take three times as long if that line held the toggling
/// code.
#[probe]
#[inline(never)]
#[unsafe(link_section = "toggle_switched")]
fn switched() {
    black_box(());
}

/// Number of calls by the other thread. It has cache lines of its own: a toggle reads statics of
/// the runtime, and the other thread's writes would evict them each time.
static CALLS: Alone = Alone(AtomicU64::new(0));

#[repr(align(128))]
struct Alone(AtomicU64);

fn main() -> Result<(), Error> {
    if !IS_PATCHED {
        println!("sites are not patched in this build");
        return Ok(());
    }
    let scale = Scale::from_args();
    pin(0);
    for busy in [false, true] {
        with_runner(busy, || -> Result<(), Error> {
            open(scale, busy)?;
            sealed(scale, busy)
        })?;
    }
    Ok(())
}

fn attach(text: TextPolicy, visibility: Visibility) -> Result<Attachment<Count>, Error> {
    select("**::switched kind=entry")?.text_policy(text).visibility(visibility).attach(Count::new())
}

/// Measures text that stays open, without system calls.
fn open(scale: Scale, busy: bool) -> Result<(), Error> {
    assert!((switched as fn() as usize).is_multiple_of(64), "it is not at the start of a cache line");
    let latent = sites();
    let attachment = attach(TextPolicy::Open, Visibility::Eventual)?;
    let active = sites();
    let (latent, active) = latent
        .into_iter()
        .zip(active)
        .find(|(before, now)| before.word != now.word)
        .expect("a site is active");
    let lock = Mutex::new(());
    let calls = scale.of(2_000);
    let medians = interleave(
        scale.of(1_000),
        &mut [
            case("site-and-lock", 2 * calls, busy, |calls| {
                for _ in 0..calls / 2 {
                    for (from, to) in [(active, latent), (latent, active)] {
                        let locked = black_box(&lock).lock();
                        exchange(from, to);
                        drop(locked);
                    }
                }
            }),
            case("open-eventual", 2 * calls, busy, |calls| toggle(&attachment, calls)),
        ],
    );
    report("open-eventual", &medians, "site-and-lock", busy);
    Ok(())
}

/// Writes the site's own word with one `lock cmpxchg`, the minimum for the runtime's switch.
fn exchange(from: SiteWord, to: SiteWord) {
    // SAFETY: an aligned word of text, which the attachment keeps open; each word is a state of the
    // site.
    let word = unsafe { AtomicU64::from_ptr((from.site & !7) as *mut u64) };
    let done = word.compare_exchange(from.word, to.word, Ordering::SeqCst, Ordering::Relaxed);
    assert!(done.is_ok(), "nobody else switches the site");
}

/// Measures text that is opened and sealed for each toggle, and a barrier.
fn sealed(scale: Scale, busy: bool) -> Result<(), Error> {
    let attachment = attach(TextPolicy::Sealed, Visibility::Synchronous)?;
    let site = switched as fn() as usize;
    let calls = scale.of(20);
    let medians = interleave(
        scale.of(1_000),
        &mut [
            case("bare-system-calls", calls, busy, |calls| {
                for _ in 0..calls {
                    protect(site, true);
                    protect(site, false);
                    membarrier();
                }
            }),
            case("sealed-synchronous", 2 * calls, busy, |calls| toggle(&attachment, calls)),
        ],
    );
    report("sealed-synchronous", &medians, "bare-system-calls", busy);
    Ok(())
}

/// Makes `calls` toggles, half of them in each direction; each changes one site.
fn toggle(attachment: &Attachment<Count>, calls: u64) {
    for _ in 0..calls / 2 {
        assert_eq!(attachment.pause().patched(), 1);
        assert_eq!(attachment.resume().patched(), 1);
    }
}

fn report(case: &str, medians: &Medians, baseline: &str, busy: bool) {
    if !busy {
        timing("toggle", medians, baseline, baseline);
        return timing("toggle", medians, case, baseline);
    }
    for name in [baseline, case] {
        let (ns, ratio) = (medians.ns(name), medians.ratio(name, baseline));
        figure(&format!("toggle/{name}-under-load"), format_args!("{ns:.2}"), "ns", ratio, baseline);
    }
}

/// Runs `work`, and if `busy`, another thread that executes the probe in a loop on another
/// processor.
fn with_runner<T>(busy: bool, work: impl FnOnce() -> T) -> T {
    let stop = AtomicBool::new(!busy);
    thread::scope(|scope| {
        scope.spawn(|| {
            pin(1);
            while !stop.load(Ordering::Relaxed) {
                switched();
                CALLS.0.fetch_add(1, Ordering::Relaxed);
            }
        });
        let done = work();
        stop.store(true, Ordering::Relaxed);
        done
    })
}

/// Returns a case whose samples begin while the other thread, if any, is running: that thread
/// shares its processor with other programs.
fn case<'a>(name: &'static str, calls: u64, busy: bool, run: impl FnMut(u64) + 'a) -> Case<'a> {
    Case::prepared(
        name,
        calls,
        move || {
            if busy {
                await_calls();
            }
        },
        run,
    )
}

fn await_calls() {
    let before = CALLS.0.load(Ordering::Relaxed);
    while CALLS.0.load(Ordering::Relaxed) < before + 10 {
        hint::spin_loop();
    }
}
