//! `replace`: the cost of calling a replaced function, beside a plain one and one with a
//! hand-written hook.

// Safety: relies on sections that hold code only.
#![expect(unsafe_code, reason = "see above")]

use std::hint::black_box;
use std::sync::{Arc, PoisonError, RwLock};

use probe_benches::{Scale, aligned, aligned_calls, interleave, pin, timing};
use probe_runtime::probe;

type Hook = Arc<dyn Fn(&dyn Fn()) + Send + Sync>;

static HOOK: RwLock<Option<Hook>> = RwLock::new(None);

#[inline(never)]
#[unsafe(link_section = ".text.replace.plain")]
fn plain() {
    black_box(());
}

/// The hand-written version.
#[inline(never)]
#[unsafe(link_section = ".text.replace.hooked")]
fn hooked() {
    let hook = HOOK.read().unwrap_or_else(PoisonError::into_inner).clone();
    match hook {
        Some(hook) => hook(&hooked_body),
        None => hooked_body(),
    }
}

#[inline(never)]
fn hooked_body() {
    black_box(());
}

/// Defines replaceable functions, each in a section of its own.
macro_rules! replaceable {
    ($($name:ident, $section:literal;)*) => { $(
        #[probe(replace)]
        #[inline(never)]
        #[unsafe(link_section = $section)]
        fn $name() {
            black_box(());
        }
    )* };
}

replaceable! {
    latent, ".text.replace.latent";
    passed_on, ".text.replace.passed_on";
    passed_twice, ".text.replace.passed_twice";
    left_out, ".text.replace.left_out";
}

aligned_calls!(call_plain, ".text.replace.plain", plain);
aligned_calls!(call_hooked, ".text.replace.hooked", hooked);
aligned_calls!(call_latent, ".text.replace.latent", latent);
aligned_calls!(call_passed_on, ".text.replace.passed_on", passed_on);
aligned_calls!(call_passed_twice, ".text.replace.passed_twice", passed_twice);
aligned_calls!(call_left_out, ".text.replace.left_out", left_out);

fn main() -> Result<(), probe_runtime::Error> {
    let scale = Scale::from_args();
    pin(0);
    let (calls, rounds) = (scale.of(20_000), scale.of(1_000));
    *HOOK.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(|original| original()));
    let _guards = [
        passed_on::install(|original| original())?,
        passed_twice::install(|original| original())?,
        passed_twice::install(|original| original())?,
        left_out::install(|_| black_box(()))?,
    ];
    let mut cases = [
        aligned("plain", calls, call_plain, plain),
        aligned("hook-by-hand", calls, call_hooked, hooked),
        aligned("latent", calls, call_latent, latent),
        aligned("passed-on", calls, call_passed_on, passed_on),
        aligned("passed-on-twice", calls, call_passed_twice, passed_twice),
        aligned("left-out", calls, call_left_out, left_out),
    ];
    let medians = interleave(rounds, &mut cases);
    for case in medians.names() {
        timing("replace", &medians, case, "hook-by-hand");
    }
    println!("passed-on by plain: {:.2}", medians.ratio("passed-on", "plain"));
    println!("latent by plain: {:.2}", medians.ratio("latent", "plain"));
    Ok(())
}
