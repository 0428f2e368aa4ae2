//! `probes()` lists exactly this program's probes, each with its kind, place, fields and state.
//! A process of its own: the listing is compared whole, and states change while others attach.

use probe_runtime::losses::unreadable_records;
use probe_runtime::registry::ProbeState;
use probe_runtime::{Count, Kind, ProbeInfo, point, probe, probes, select};

const WITH_POINTS: u32 = line!() + 2;
#[probe]
fn with_points(bytes: &[u8]) -> usize {
    probe!("alone");
    probe!("with-fields", len = bytes.len(), head = ?bytes.first(), whole = bytes);
    bytes.len()
}

const RENAMED: u32 = line!() + 3;
#[probe(name = "other::name")]
#[inline(never)]
fn renamed() {}

const OUTSIDE: u32 = line!() + 2;
fn without_attribute(x: u32) -> u32 {
    point!("outside", x);
    x + 1
}

mod inner {
    pub(crate) struct Thing(pub(crate) u32);

    pub(crate) const METHOD: u32 = line!() + 3;
    impl Thing {
        #[probe_runtime::probe]
        pub(crate) fn method(&self) -> u32 {
            self.0
        }
    }
}

const NEVER_CALLED: u32 = line!() + 2;
#[probe]
#[allow(dead_code)]
fn never_called() {}

type Row = (String, Kind, u32, Vec<String>, ProbeState);

fn fields(probe: &ProbeInfo) -> Vec<String> {
    probe.fields().iter().map(|field| field.name().to_owned()).collect()
}

fn row(probe: &ProbeInfo) -> Row {
    (probe.path().to_owned(), probe.kind(), probe.line(), fields(probe), probe.state())
}

fn expected() -> Vec<Row> {
    let latent = |path: &str, kind, line, fields: &[&str]| {
        let fields = fields.iter().map(|field| (*field).to_owned()).collect();
        (format!("listing::{path}"), kind, line, fields, ProbeState::Latent)
    };
    vec![
        latent("alone", Kind::Point, WITH_POINTS + 1, &[]),
        latent("inner::method", Kind::Entry, inner::METHOD, &[]),
        latent("inner::method", Kind::Exit, inner::METHOD, &[]),
        latent("never_called", Kind::Entry, NEVER_CALLED + 1, &[]),
        latent("never_called", Kind::Exit, NEVER_CALLED + 1, &[]),
        latent("other::name", Kind::Entry, RENAMED, &[]),
        latent("other::name", Kind::Exit, RENAMED, &[]),
        latent("outside", Kind::Point, OUTSIDE, &["x"]),
        latent("with-fields", Kind::Point, WITH_POINTS + 2, &["len", "head", "whole"]),
        latent("with_points", Kind::Entry, WITH_POINTS, &[]),
        latent("with_points", Kind::Exit, WITH_POINTS, &[]),
    ]
}

fn states(selector: &str) -> Vec<ProbeState> {
    select(selector).unwrap().probes().iter().map(ProbeInfo::state).collect()
}

/// One test, since its steps change the listing.
#[test]
fn the_listing_is_exact_and_follows_the_states() {
    assert_eq!(with_points(b"abc"), 3);
    renamed();
    assert_eq!(without_attribute(1), 2);
    assert_eq!(inner::Thing(7).method(), 7);

    let list = probes();
    assert_eq!(list.iter().map(row).collect::<Vec<_>>(), expected());
    assert!(list.iter().all(|probe| probe.file().ends_with("tests/listing.rs")));
    assert_eq!(unreadable_records(), 0);
    for probe in &list {
        let name = probe.path();
        // Without a call, it has no code. In the portable backend a definition counts as one site.
        let is_dead = name == "listing::never_called" && cfg!(not(probe_portable));
        assert_eq!(probe.sites() == 0, is_dead, "{probe}");
        let shown = format!("{name} {} {}:{}", probe.kind().name(), probe.file(), probe.line());
        assert!(probe.to_string().starts_with(&shown), "{probe}");
    }
    let fields = list.iter().find(|probe| probe.path().ends_with("::with-fields")).unwrap();
    let plural = if fields.sites() == 1 { "" } else { "s" };
    let end = format!(" [len, head, whole] {} site{plural}, latent", fields.sites());
    assert!(fields.to_string().ends_with(&end), "{fields}");

    follows_the_states();
    assert_eq!(probes().iter().map(row).collect::<Vec<_>>(), expected());
    is_numbered(&list);
}

fn follows_the_states() {
    use ProbeState::{Active, Held, Latent};
    let set = select("**::with_points").unwrap();
    assert_eq!(set.len(), 2);
    let sites: usize = set.probes().iter().map(ProbeInfo::sites).sum();
    let attached = set.attach(Count::new()).unwrap();
    assert_eq!(attached.report().patched(), sites);
    assert_eq!(attached.report().unchanged(), 0);
    assert_eq!(states("**::with_points"), [Active, Active]);
    assert_eq!(attached.probes().iter().map(ProbeInfo::state).collect::<Vec<_>>(), [Active, Active]);
    assert_eq!(states("**::alone"), [Latent]);
    let hold = select("**::with_points kind=exit").unwrap().hold().unwrap();
    assert_eq!(states("**::with_points kind=entry"), [Active]);
    assert_eq!(states("**::with_points kind=exit"), [Held]);
    drop(hold);
    assert_eq!(states("**::with_points"), [Active, Active]);
    assert_eq!(attached.pause().patched(), sites);
    assert_eq!(states("**::with_points"), [Held, Held], "a pause is shown as held");
    assert_eq!(attached.resume().patched(), sites);
    assert_eq!(states("**::with_points"), [Active, Active]);
    assert_eq!(attached.detach().patched(), sites);
    assert_eq!(states("**::with_points"), [Latent, Latent]);
}

fn is_numbered(list: &[ProbeInfo]) {
    let mut numbers: Vec<_> = list.iter().map(|probe| probe.id().index()).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..list.len()).collect::<Vec<_>>());
    assert_eq!(select("**").unwrap().ids().len(), list.len());
}
