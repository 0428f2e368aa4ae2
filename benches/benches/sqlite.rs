//! `sqlite`: SQLite with a probe in every function: its speed while they are latent, and while all
//! are counted; the time to switch all sites; the size of its code. The baseline is the compiler's
//! own code, with and without calls of hooks.

use probe_benches::{Case, IS_PATCHED, Medians, Scale, figure, interleave, pin};
use probe_runtime::patch::{TextPolicy, Visibility};
use probe_runtime::{Attachment, Count, Error, finstrument, probes, select};
use probe_tests::real::object_file::text_size;
use probe_tests::real::{Loaded, SQLITE, Way};

const ROOT: &str = env!("CARGO_TARGET_TMPDIR");

/// Number of rows to insert; each kind of query runs a tenth as often.
const ROWS: u64 = 100_000;

fn main() -> Result<(), Error> {
    if !IS_PATCHED {
        println!("sites are not patched in this build");
        return Ok(());
    }
    let scale = Scale::from_args();
    pin(0);
    let rows = if scale == Scale::Full { ROWS } else { 1_000 };
    let plain = SQLITE.load(ROOT, Way::Plain);
    let digest = plain.workload(rows);
    for way in Way::PROBED {
        // Only one at a time is in the process: the probes of both have the same names.
        let loaded = SQLITE.load(ROOT, way);
        switching(scale, way, TextPolicy::Open, Visibility::Eventual)?;
        switching(scale, way, TextPolicy::Sealed, Visibility::Synchronous)?;
        counting(scale, way, &plain, &loaded, (rows, digest))?;
        loaded.close();
    }
    latent(scale, &plain, (rows, digest));
    Ok(())
}

/// Returns a case that does all of the work, and checks the result.
fn case<'a>(name: &'static str, loaded: &'a Loaded, (rows, digest): (u64, u64)) -> Case<'a> {
    Case::new(name, 1, move |_| assert_eq!(loaded.workload(rows), digest, "{name}"))
}

fn milliseconds(name: &str, medians: &Medians, case: &str) {
    let (ms, ratio) = (medians.ns(case) / 1e6, medians.ratio(case, "plain"));
    figure(&format!("sqlite/{name}"), format_args!("{ms:.2}"), "ms", ratio, "plain");
}

/// Measures all ways while latent.
fn latent(scale: Scale, plain: &Loaded, work: (u64, u64)) {
    let again = plain.built.copy("again").load();
    let ways = [Way::EntryReturn, Way::InstrumentFunctions, Way::EmptyHooks, Way::Hooks];
    let [entry_return, hooks_removed, empty_hooks, discovered] = ways.map(|way| SQLITE.load(ROOT, way));
    finstrument::text_policy(TextPolicy::Open);
    assert_eq!(discovered.workload(work.0), work.1);
    // An operation finds the exit hooks that are reached by jumps.
    finstrument::start();
    let stats = finstrument::stats();
    assert_eq!((stats.patched + stats.unpatched, stats.lost), (stats.discovered, 0), "{stats:?}");
    println!(
        "{} calls of hooks were discovered, {} of them across two words, {} functions that jump there; {} stay real calls",
        stats.discovered, stats.split_calls, stats.tail_jumps, stats.unpatched
    );
    let cases = [
        ("plain", plain),
        ("plain-again", &again),
        ("entry-return-latent", &entry_return),
        ("instrument-functions-latent", &hooks_removed),
        ("empty-hooks", &empty_hooks),
        ("discovered-latent", &discovered),
    ];
    let medians = interleave(scale.of(31), &mut cases.map(|(name, loaded)| case(name, loaded, work)));
    let plain_size = text_size(&plain.built.library);
    for (name, loaded) in cases {
        milliseconds(name, &medians, name);
        let size = text_size(&loaded.built.library);
        figure(&format!("sqlite/{name}-text"), size, "bytes", ratio(size, plain_size), "plain");
    }
}

/// Activates and deactivates all sites.
fn switching(scale: Scale, way: Way, text: TextPolicy, visibility: Visibility) -> Result<(), Error> {
    let set = select("**")?.text_policy(text).visibility(visibility);
    let attachment = set.attach(Count::new())?;
    let sites = attachment.report().patched();
    assert_eq!(sites, probes().iter().map(probe_runtime::ProbeInfo::sites).sum::<usize>());
    let toggle = |attachment: &Attachment<Count>| {
        assert_eq!((attachment.pause().patched(), attachment.resume().patched()), (sites, sites));
    };
    let medians = interleave(
        scale.of(501),
        &mut [
            Case::prepared("on", 1, || drop(attachment.pause()), |_| drop(attachment.resume())),
            Case::prepared("off", 1, || drop(attachment.resume()), |_| drop(attachment.pause())),
        ],
    );
    let _ = attachment.resume();
    toggle(&attachment);
    let name = if text == TextPolicy::Open { "open-eventual" } else { "sealed-synchronous" };
    for (case, what) in [("on", "activate"), ("off", "deactivate")] {
        let us = medians.ns(case) / 1e3;
        let name = format!("sqlite/{}-{what}-all-{name}", way.name());
        figure(&name, format_args!("{us:.1}"), &format!("us for {sites} sites"), us / 1e3, "1 ms");
    }
    Ok(())
}

/// Measures the work while every function is counted.
fn counting(scale: Scale, way: Way, plain: &Loaded, loaded: &Loaded, work: (u64, u64)) -> Result<(), Error> {
    let attachment = select("**")?.attach(Count::new())?;
    let rounds = scale.of(11);
    let medians = interleave(rounds, &mut [case("plain", plain, work), case("counted", loaded, work)]);
    milliseconds(&format!("{}-counted", way.name()), &medians, "counted");
    let hits = attachment.total() / (rounds + 1);
    let ns = (medians.ns("counted") - medians.ns("plain")) / to_f64(hits);
    figure(
        &format!("sqlite/{}-hit", way.name()),
        format_args!("{ns:.2}"),
        &format!("ns a hit, {hits} hits"),
        1.0,
        "itself",
    );
    Ok(())
}

fn ratio(one: u64, other: u64) -> f64 {
    to_f64(one) / to_f64(other)
}

fn to_f64(number: u64) -> f64 {
    number as f64
}
