//! The list of probes, page by page: neither the control lock nor memory is taken for all at once.

use probe_protocol::{Body, Done, Probe, ProbeField};

use super::PART;
use super::answer::{Out, Stop, bounded, cut};
use crate::engine::control::{
    ids_outside_of_modules, infos_with_objects, module_probe_count, probe_count, select,
};
use crate::engine::registry::{FieldInfo, ProbeId, ProbeInfo};

/// Probes that are described at a time.
const PAGE: usize = 256;

/// The most bytes of a field's name.
const NAME: usize = 200;

/// Sends the probes of a selector, or all if it is empty.
pub(super) fn list(selector: &str, out: &Out<'_>) -> Result<Body, Stop> {
    let ids = match selector.trim() {
        "" => all(),
        selector => select(selector)?.ids().to_vec(),
    };
    let (mut part, mut bytes) = (Vec::new(), 0);
    for page in ids.chunks(PAGE) {
        for (info, object) in infos_with_objects(page) {
            let probe = probe(&info, object);
            bytes += size(&probe);
            part.push(probe);
            if bytes >= PART {
                bytes = 0;
                out.send(Body::Probes(std::mem::take(&mut part)))?;
            }
        }
    }
    if !part.is_empty() {
        out.send(Body::Probes(part))?;
    }
    Ok(Body::Done(Done::default()))
}

/// Returns all probes. Those of modules are among them if the environment has asked for them, or
/// if there are no others.
fn all() -> Vec<ProbeId> {
    let others = ids_outside_of_modules();
    if others.is_empty() || has_asked_for_modules() {
        return (0..probe_count()).map(ProbeId::new).collect();
    }
    others
}

/// Returns the number of probes, as a list of all has them.
pub(super) fn count() -> usize {
    let (all, of_modules) = (probe_count(), module_probe_count());
    if all == of_modules || has_asked_for_modules() { all } else { all - of_modules }
}

fn has_asked_for_modules() -> bool {
    #[cfg(feature = "modules")]
    return crate::modules::are_named();
    #[cfg(not(feature = "modules"))]
    false
}

fn probe(info: &ProbeInfo, object: String) -> Probe {
    let text = |it: &str| bounded(it.to_owned());
    let field = |it: &FieldInfo| ProbeField {
        name: cut(it.name().to_owned(), NAME),
        ty: it.ty().map(|ty| ty.name().to_owned()),
    };
    Probe {
        number: info.id().index().try_into().unwrap_or(u32::MAX),
        path: text(info.path()),
        kind: info.kind().name().to_owned(),
        file: text(info.file()),
        line: info.line(),
        fields: info.fields().iter().map(field).collect(),
        sites: info.sites().try_into().unwrap_or(u32::MAX),
        state: info.state().name().to_owned(),
        object: bounded(object),
        group: info.group().map(text),
        doc: info.doc().map(text),
        skipped: info.skipped().map(text),
    }
}

/// Returns no less than the bytes that a probe takes in a frame.
fn size(probe: &Probe) -> usize {
    /// A number of up to 32 bits, or a text's length.
    const NUMBER: usize = 5;
    let text = |it: &str| NUMBER + it.len();
    let maybe = |it: &Option<String>| 1 + it.as_deref().map_or(0, text);
    let texts = [&probe.path, &probe.kind, &probe.file, &probe.state, &probe.object];
    let fields = probe.fields.iter().map(|it| text(&it.name) + maybe(&it.ty)).sum::<usize>();
    let more = [&probe.group, &probe.doc, &probe.skipped].into_iter().map(maybe).sum::<usize>();
    4 * NUMBER + texts.into_iter().map(|it| text(it)).sum::<usize>() + fields + more
}

#[cfg(test)]
mod tests {
    use probe_protocol::{MAX_FRAME, Reply, encode_reply};

    use super::*;

    #[test]
    fn the_largest_probe_fits_behind_an_almost_full_part() {
        let most = || bounded("a".repeat(100_000));
        let largest = Probe {
            number: u32::MAX,
            path: most(),
            kind: "entry".to_owned(),
            file: most(),
            line: u32::MAX,
            fields: vec![
                ProbeField { name: cut("a".repeat(1000), NAME), ty: Some("format".to_owned()) };
                128
            ],
            sites: u32::MAX,
            state: "unloaded".to_owned(),
            object: most(),
            group: Some(most()),
            doc: Some(most()),
            skipped: None,
        };
        let encoded = |probes| encode_reply(&Reply { id: u32::MAX, body: Body::Probes(probes) }).len();
        assert!(size(&largest) >= encoded(vec![largest.clone()]) - 8);
        assert!(PART + size(&largest) + 16 <= MAX_FRAME);
    }
}
