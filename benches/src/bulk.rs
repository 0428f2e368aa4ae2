//! The shared part of `bulk` and `bulk_million`: switching every generated site of the program, and
//! the bare stores.

// Safety: relies on generated functions being called at their entries' sites, and on open text
// while the attachment that opened it lives.
#![expect(unsafe_code, reason = "see above")]

use std::time::Instant;

use probe_runtime::patch::{TextPolicy, Visibility};
use probe_runtime::{Attachment, Count, Error, probes, select};

use crate::table::{SiteWord, exchange_all, sites, store_all};
use crate::{Case, IS_PATCHED, Medians, Scale, figure, interleave, pin};

const SELECTOR: &str = "generated::**";

/// Runs the bench for a program with `count` generated sites; each sample switches them `passes`
/// times.
///
/// # Errors
/// Errors of the runtime.
///
/// # Panics
/// If a count is wrong.
pub fn run(bench: &str, count: usize, rounds: u64, passes: u64) -> Result<(), Error> {
    if !IS_PATCHED {
        println!("sites are not patched in this build");
        return Ok(());
    }
    let scale = Scale::from_args();
    pin(0);
    let (rounds, passes) = (scale.of(rounds), scale.of(passes));
    let all = sites();
    assert_eq!(all.len(), count, "records in the table");
    let start = Instant::now();
    let found = select(SELECTOR)?.len();
    figure(
        &format!("{bench}/first-select"),
        format_args!("{:.2}", per_site(start, found)),
        "ns a probe",
        1.0,
        "itself",
    );
    assert_eq!(probes().iter().map(probe_runtime::ProbeInfo::sites).sum::<usize>(), count, "sites listed");

    let open = attach(bench, "open", TextPolicy::Open, Visibility::Eventual, count)?;
    check_counts(&open, &all);
    let medians = switch(rounds, passes, &open, count, true);
    report(bench, "open-eventual", &medians);
    drop(open);

    let sealed = attach(bench, "sealed", TextPolicy::Sealed, Visibility::Synchronous, count)?;
    check_counts(&sealed, &all);
    let sealed_medians = switch(rounds, passes, &sealed, count, false);
    let ns = sealed_medians.ns("pause and resume");
    figure(
        &format!("{bench}/sealed-synchronous"),
        format_args!("{ns:.2}"),
        "ns a site",
        ns / medians.ns("bare stores"),
        "bare stores",
    );
    let start = Instant::now();
    let detached = sealed.detach();
    assert_eq!(detached.patched(), count);
    let ns = per_site(start, count);
    figure(
        &format!("{bench}/detach"),
        format_args!("{ns:.2}"),
        "ns a site",
        ns / medians.ns("bare stores"),
        "bare stores",
    );
    Ok(())
}

fn attach(
    bench: &str,
    name: &str,
    text: TextPolicy,
    visibility: Visibility,
    count: usize,
) -> Result<Attachment<Count>, Error> {
    let set = select(SELECTOR)?.text_policy(text).visibility(visibility);
    let start = Instant::now();
    let attachment = set.attach(Count::new())?;
    let ns = per_site(start, count);
    assert_eq!(attachment.report().patched(), count, "{}", attachment.report());
    figure(&format!("{bench}/attach-{name}"), format_args!("{ns:.2}"), "ns a site", 1.0, "itself");
    Ok(attachment)
}

/// Calls the first, a middle and the last function. Checks that each of their hits is counted once,
/// and no others.
fn check_counts(attachment: &Attachment<Count>, sites: &[SiteWord]) {
    let functions = sites.len() / 2;
    for at in [0, functions / 2, functions - 1] {
        // SAFETY: a generated function is called at its entry's site, has the C calling convention,
        // and only computes.
        let function = unsafe { std::mem::transmute::<usize, extern "C" fn(u64) -> u64>(sites[2 * at].site) };
        std::hint::black_box(function)(7);
    }
    let hit: Vec<_> = attachment.counts().into_iter().filter(|count| count.hits != 0).collect();
    assert_eq!(hit.len(), 6, "three functions, entry and exit");
    assert!(hit.iter().all(|count| count.hits == 1));
}

/// Measures pauses and resumes, and if the text is open, bare stores to as many words.
fn switch(rounds: u64, passes: u64, attachment: &Attachment<Count>, count: usize, is_open: bool) -> Medians {
    let each = count as u64 * passes;
    // The words of the active sites: the words read earlier would switch the sites off.
    let active = sites();
    let mut cases = vec![Case::new("pause and resume", 2 * each, |_| {
        for _ in 0..passes {
            assert_eq!(attachment.pause().patched(), count);
            assert_eq!(attachment.resume().patched(), count);
        }
    })];
    if is_open {
        cases.push(Case::new("bare stores", each, |_| {
            for _ in 0..passes {
                // SAFETY: the attachment keeps the text open, and the stores do not change the
                // words.
                unsafe { store_all(&active) };
            }
        }));
        cases.push(Case::new("bare exchanges", each, |_| {
            for _ in 0..passes {
                // SAFETY: as above.
                unsafe { exchange_all(&active) };
            }
        }));
    }
    interleave(rounds, &mut cases)
}

fn report(bench: &str, name: &str, medians: &Medians) {
    for (case, shown) in
        [("bare stores", "bare-stores"), ("bare exchanges", "bare-exchanges"), ("pause and resume", name)]
    {
        figure(
            &format!("{bench}/{shown}"),
            format_args!("{:.2}", medians.ns(case)),
            "ns a site",
            medians.ratio(case, "bare stores"),
            "bare stores",
        );
    }
}

fn per_site(start: Instant, sites: usize) -> f64 {
    start.elapsed().as_nanos() as f64 / sites as f64
}
