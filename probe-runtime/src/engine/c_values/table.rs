//! The values of C functions that one attachment reads, by probe and site.

use std::collections::HashMap;
use std::sync::Arc;

use probe_hooks::signatures::{
    Enumeration, INTEGERS, Kind as ValueKind, Parameter, Place, Position, Signature,
};

use super::WantedFields;
use crate::engine::by_probe::ByProbe;
use crate::engine::dispatch::{
    MOST_FIELDS, ProbeId, ReadAs, ReadFrom, Reading, SiteFields, SiteReadings, SiteValues, ValueNames,
};
use crate::engine::entry::backend::registers::StoredRegister;
use crate::engine::os::guarded_read;
use crate::engine::os::object_file::same_file;
use crate::engine::os::objects::{Frozen, Object, freeze};
use crate::engine::registry::provider::OwnValues;
use probe_core::abi::{Kind, Type};

/// A probe of C whose values are looked up.
pub(crate) struct CProbe {
    pub(crate) id: ProbeId,
    pub(crate) kind: Kind,
    /// Whether its sites are calls of hooks.
    pub(crate) is_hook: bool,
    pub(crate) sites: Vec<CSite>,
    /// The values of its only site, if that knows them.
    pub(crate) own: Option<OwnValues>,
}

/// A site of such a probe.
#[derive(Clone, Copy)]
pub(crate) struct CSite {
    pub(crate) addr: usize,
    /// The address after its CALL.
    pub(crate) after: usize,
}

/// The values that an attachment reads.
pub(crate) struct ValueTable {
    wanted: WantedFields,
    probes: ByProbe<SiteFields>,
}

impl SiteValues for ValueTable {
    #[inline(always)]
    fn of(&self, probe: ProbeId) -> Option<&SiteFields> {
        self.probes.get(probe)
    }

    fn forget(&self, probe: ProbeId) {
        if let Some(known) =
            self.probes.get(probe).filter(|known| !known.sites.is_empty() && !known.is_lasting)
        {
            // Expressions know the fields by their places.
            let fields = known.fields.iter().map(|(name, ty)| (name.clone(), *ty)).collect();
            self.probes.add([(probe, SiteFields { fields, sites: Box::default(), is_lasting: false })]);
        }
    }
}

impl ValueTable {
    /// Makes an empty table with this many numbers of probes.
    pub(crate) fn new(wanted: WantedFields, numbers: usize) -> Self {
        Self { wanted, probes: ByProbe::new(numbers) }
    }

    /// Looks up the values of these probes, unless the table has them.
    pub(crate) fn add(&self, probes: &[CProbe]) {
        let is_new = |probe: &&CProbe| self.wanted.concerns(probe.own.is_some()) && self.lacks(probe);
        let new: Vec<_> = probes.iter().filter(is_new).collect();
        if new.is_empty() {
            return;
        }
        let (own, new): (Vec<_>, Vec<_>) = new.into_iter().partition(|probe| probe.own.is_some());
        let own = own.into_iter().filter_map(|probe| Some((probe.id, self.own_fields(probe.own?)?)));
        let objects = if new.is_empty() { Vec::new() } else { freeze(Frozen::every) };
        let mut found: HashMap<ProbeId, (Fields, Vec<SiteReadings>)> = HashMap::new();
        for object in &objects {
            let sites = sites_in(object, &new);
            if sites.is_empty() {
                continue;
            }
            // Debug information of another build would lead to anything.
            let Some(file) = same_file(object) else { continue };
            let asked: Vec<_> = sites.iter().map(|(probe, site)| (site.addr, position(probe))).collect();
            let signatures = file.signatures(&asked);
            let undescribed = asked.iter().zip(&signatures).filter(|(_, signature)| signature.is_none());
            let undescribed: Vec<_> = undescribed.map(|((addr, _), _)| *addr).collect();
            let global =
                if self.wants_registers() { file.global_functions(&undescribed) } else { Vec::new() };
            let mut names = Names::default();
            for ((probe, site), signature) in sites.iter().zip(&signatures) {
                let values = self.values(probe, *site, signature.as_ref(), &global, &mut names);
                let (fields, sites) = found.entry(probe.id).or_default();
                sites.push(SiteReadings { after: site.after, readings: fields.add(values) });
            }
        }
        let fields = found.into_iter().filter_map(|(id, (fields, mut sites))| {
            sites.sort_unstable_by_key(|site| site.after);
            // Sites that were read before the last field was known lack it, which is absent there.
            let fields = SiteFields { fields: fields.0.into(), sites: sites.into(), is_lasting: false };
            (!fields.fields.is_empty()).then_some((id, fields))
        });
        let fields: Vec<_> = fields.chain(own).collect();
        let readings = fields.iter().flat_map(|(_, it)| &it.sites).flat_map(|site| &site.readings);
        if readings.into_iter().any(|it| it.kind == ReadAs::Text || it.from.may_fault()) {
            guarded_read::prepare();
        }
        self.probes.add(fields);
    }

    /// Returns the fields that hits of a probe have.
    pub(crate) fn fields(&self, probe: ProbeId) -> &[(String, Option<Type>)] {
        self.probes.get(probe).map_or(&[], |fields| &fields.fields)
    }

    /// Returns the wanted values of a site that knows its own; `None` if there are none.
    fn own_fields(&self, own: OwnValues) -> Option<SiteFields> {
        let named = own.values.iter().map(|(name, reading)| (name.clone(), reading.clone()));
        let mut values: Vec<_> = named.filter(|(name, _)| self.wanted.has(name)).collect();
        values.truncate(MOST_FIELDS);
        let fields = values.iter().map(|(name, reading)| (name.clone(), Some(reading.kind.ty())));
        let fields: Box<[_]> = fields.collect();
        let readings = values.into_iter().map(|(_, reading)| reading).collect();
        let sites = Box::new([SiteReadings { after: own.after, readings }]);
        (!fields.is_empty()).then_some(SiteFields { fields, sites, is_lasting: true })
    }

    /// Returns the wanted values of a site, by their names.
    fn values(
        &self,
        probe: &CProbe,
        site: CSite,
        signature: Option<&Signature>,
        global: &[usize],
        names: &mut Names,
    ) -> Vec<(String, Option<Reading>)> {
        let mut values = Vec::new();
        match (probe.kind, signature) {
            (Kind::Exit, Some(Signature { result: Some((kind, place)), .. })) if self.wanted.has(RESULT) => {
                let place = if returns_after(site) { *place } else { Place::Absent };
                values.push((RESULT.to_owned(), names.reading(kind, place)));
            }
            (Kind::Exit, None) if self.wanted.names(RESULT) && !probe.is_hook && returns_after(site) => {
                values.push((RESULT.to_owned(), names.reading(&ValueKind::Unsigned(8), Place::Register(0))));
            }
            (Kind::Entry, Some(signature)) => {
                for (number, Parameter { name, kind, place }) in (1..).zip(&signature.parameters) {
                    let reading = names.reading(kind, *place);
                    let name = name.clone().unwrap_or_else(|| argument(number));
                    if self.wanted.has(&name) {
                        values.push((name, reading));
                    }
                }
                for (number, Parameter { kind, place, .. }) in (1..).zip(&signature.parameters) {
                    // Beside its name, since only one of both was asked for.
                    let name = argument(number);
                    if self.wanted.names(&name) && values.iter().all(|(known, _)| *known != name) {
                        values.push((name, names.reading(kind, *place)));
                    }
                }
            }
            (Kind::Entry, None) if !probe.is_hook && global.contains(&site.addr) => {
                for (number, register) in (1..).zip(INTEGERS) {
                    if self.wanted.names(&argument(number)) {
                        let reading = names.reading(&ValueKind::Unsigned(8), Place::Register(register));
                        values.push((argument(number), reading));
                    }
                }
            }
            _ => (),
        }
        // Those that were asked for come first.
        values.sort_by_key(|(name, _)| !self.wanted.names(name));
        values.truncate(MOST_FIELDS);
        values
    }

    /// Returns whether a probe has a site that was not looked up. One whose sites have gone is not
    /// looked up again: its expressions know the fields that it had.
    fn lacks(&self, probe: &CProbe) -> bool {
        let is_known = |fields: &SiteFields, site: CSite| {
            fields.sites.binary_search_by_key(&site.after, |it| it.after).is_ok()
        };
        let known = self.probes.get(probe.id);
        if probe.own.is_some() {
            return self.probes.has(probe.id) && known.is_none();
        }
        self.probes.has(probe.id)
            && known.is_none_or(|known| {
                !known.sites.is_empty() && probe.sites.iter().any(|site| !is_known(known, *site))
            })
    }

    /// Returns whether arguments were asked for by their places.
    fn wants_registers(&self) -> bool {
        (1..=INTEGERS.len()).any(|number| self.wanted.names(&argument(number)))
    }
}

/// The name of results.
const RESULT: &str = "ret";

fn argument(number: usize) -> String {
    format!("arg{number}")
}

fn position(probe: &CProbe) -> Position {
    match probe.kind {
        _ if probe.is_hook => Position::Hook,
        Kind::Exit => Position::Exit,
        _ => Position::Entry,
    }
}

/// Returns the sites in an object, each with its probe.
fn sites_in<'a>(object: &Object, probes: &[&'a CProbe]) -> Vec<(&'a CProbe, CSite)> {
    let sites = probes.iter().flat_map(|probe| probe.sites.iter().map(|site| (*probe, *site)));
    sites.filter(|(_, site)| object.holds(site.addr)).collect()
}

/// Returns whether a return follows a site, so that the result is in its place. A latent sled is
/// the return itself.
fn returns_after(site: CSite) -> bool {
    /// `ret`, `ret imm16`, and `ret` behind a prefix.
    const RETURNS: [&[u8]; 4] = [&[0xc3], &[0xc2], &[0xf3, 0xc3], &[0xf2, 0xc3]];
    [site.after, site.addr].into_iter().any(|addr| {
        let mut code = [0; 2];
        guarded_read::peek(addr, &mut code) && RETURNS.iter().any(|it| code.starts_with(it))
    })
}

/// The fields of one probe so far.
#[derive(Default)]
struct Fields(Vec<(String, Option<Type>)>);

impl Fields {
    /// Adds a site's values. Returns its readings, in the order of the fields.
    fn add(&mut self, values: Vec<(String, Option<Reading>)>) -> Box<[Reading]> {
        let nowhere = || Reading { kind: ReadAs::Unsigned(8), from: ReadFrom::Nowhere };
        let mut readings: Vec<_> = self.0.iter().map(|_| nowhere()).collect();
        for (name, reading) in values {
            let ty = reading.as_ref().map_or(Type::Absent, |reading| reading.kind.ty());
            let at = match self.0.iter().position(|(known, _)| *known == name) {
                Some(at) => {
                    // Sites of a probe may disagree.
                    let known = &mut self.0[at].1;
                    *known = known.filter(|known| *known == ty);
                    at
                }
                None if self.0.len() < MOST_FIELDS => {
                    self.0.push((name, Some(ty)));
                    readings.push(nowhere());
                    self.0.len() - 1
                }
                None => continue,
            };
            readings[at] = reading.unwrap_or_else(nowhere);
        }
        readings.into()
    }
}

/// The names of enumerations, which many readings share, by addresses that live longer than this.
#[derive(Default)]
struct Names(HashMap<*const Enumeration, Arc<ValueNames>>);

impl Names {
    /// Returns how a value is read; `None` if it is never shown.
    fn reading(&mut self, kind: &ValueKind, place: Place) -> Option<Reading> {
        let kind = match kind {
            ValueKind::Unsigned(bytes) => ReadAs::Unsigned(*bytes),
            ValueKind::Signed(bytes) => ReadAs::Signed(*bytes),
            ValueKind::Bool => ReadAs::Bool,
            ValueKind::Float(4) => ReadAs::Single,
            ValueKind::Float(_) => ReadAs::Double,
            ValueKind::Text => ReadAs::Text,
            ValueKind::Enumeration(it) => {
                let names = || it.names.iter().map(|(value, name)| (*value, name.as_str().into())).collect();
                let names = Arc::clone(self.0.entry(Arc::as_ptr(it)).or_insert_with(names));
                ReadAs::Enumeration { bytes: it.bytes, is_signed: it.is_signed, names }
            }
            ValueKind::Hidden => return None,
        };
        let from = match place {
            Place::Absent => None,
            Place::Register(number) => StoredRegister::of(number).map(ReadFrom::Register),
            Place::Memory { base, offset } => {
                StoredRegister::of(base).map(|base| ReadFrom::memory(base, offset))
            }
        };
        Some(Reading { kind, from: from.unwrap_or(ReadFrom::Nowhere) })
    }
}
