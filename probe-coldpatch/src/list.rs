//! The list of a file's sites beside the file: iProbe's probe list. The file has NOPs only, and may
//! be stripped of all names. Jumps to hooks stay jumps, which only `--ptrace` counts.
//!
//! JSON, with the build's id, so that a list is never applied to another build:
//!
//! ```text
//! {"latent_probes":1,"build_id":"58d0…","probes":[
//! {"kind":"exit","path":"work","file":"b.c","line":4,"sites":[4498],"jumps":[4567]}
//! ]}
//! ```

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::linked::with_tables;
use crate::patch::{Call, NOP, Probe, SITE_LEN};
use probe_core::abi::Kind;

/// The version that this crate reads and writes.
const VERSION: u32 = 1;

/// A list of sites.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct List {
    latent_probes: u32,
    build_id: String,
    probes: Vec<Listed>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Listed {
    kind: String,
    path: String,
    file: String,
    line: u32,
    sites: Vec<u64>,
    /// Jumps to the hook, which stay in the file: a site in place of one has no room for a `ret`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    jumps: Vec<u64>,
}

impl List {
    /// Makes the list of a file that [`latent`](crate::latent) has made. `build_id` is the file's,
    /// in hexadecimal.
    pub fn new(build_id: &str, probes: &[Probe], calls: &[Call]) -> Self {
        let listed = |probe: &Probe| Listed {
            kind: probe.kind.name().to_owned(),
            path: probe.path.clone(),
            file: probe.file.clone(),
            line: probe.line,
            sites: Vec::new(),
            jumps: Vec::new(),
        };
        let mut probes: Vec<_> = probes.iter().map(listed).collect();
        for call in calls {
            if let Some(probe) = probes.get_mut(call.probe) {
                if call.needs_thunk() { probe.jumps.push(call.addr) } else { probe.sites.push(call.site()) }
            }
        }
        Self { latent_probes: VERSION, build_id: build_id.to_owned(), probes }
    }

    /// Reads a list.
    ///
    /// # Errors
    /// If the text is no list, or one of a later version.
    pub fn read(text: &[u8]) -> Result<Self, Error> {
        let list: Self = serde_json::from_slice(text)
            .map_err(|error| Error::unsuitable(format!("is no list of probes: {error}")))?;
        if list.latent_probes != VERSION {
            let version = list.latent_probes;
            return Err(Error::unsuitable(format!(
                "is a list of version {version}, which is not known here: update probectl"
            )));
        }
        Ok(list)
    }

    /// Returns the list as JSON, a probe a line.
    ///
    /// # Errors
    /// None: its texts are UTF-8.
    pub fn to_json(&self) -> Result<String, Error> {
        let line = |it: &Listed| serde_json::to_string(it).map_err(Error::damaged);
        let lines = self.probes.iter().map(line).collect::<Result<Vec<_>, _>>()?.join(",\n");
        let head = format!("\"latent_probes\":{VERSION},\"build_id\":{:?}", self.build_id);
        Ok(format!("{{{head},\"probes\":[\n{lines}\n]}}\n"))
    }

    /// Returns the id of the build that it describes, in hexadecimal.
    pub fn build_id(&self) -> &str {
        &self.build_id
    }

    /// Returns the file as [`linked`](crate::linked) would have made it, for readers of tables.
    ///
    /// # Errors
    /// If `build_id`, the file's, is not the list's, if a site has other bytes, or the file can't
    /// have tables.
    pub fn applied(&self, file: &[u8], build_id: Option<&str>) -> Result<Vec<u8>, Error> {
        if build_id != Some(&*self.build_id) {
            let (own, other) = (&self.build_id, build_id.unwrap_or("none"));
            return Err(Error::unsuitable(format!(
                "has the build id {other}, and the list is of the build {own}"
            )));
        }
        // A probe that has jumps alone has no entry in the table.
        let with_sites = self.probes.iter().filter(|it| !it.sites.is_empty()).cloned().collect();
        let listed = Self { probes: with_sites, ..self.clone() };
        let probes = listed.probes()?;
        let calls: Vec<_> = listed.calls(false, |it| &it.sites).collect();
        with_tables(file, &probes, &calls, |call, bytes| {
            if bytes == NOP {
                return Ok(());
            }
            Err(Error::unsuitable(format!("has no site at {:#x}, where its list has one", call.addr)))
        })
    }

    /// Returns its probes, and the jumps to hooks that stay in the file, as far as the file has
    /// them. Each has the number of its probe.
    ///
    /// # Errors
    /// If a probe is of a kind that is not known here.
    pub fn jumps(&self) -> Result<(Vec<Probe>, Vec<Call>), Error> {
        Ok((self.probes()?, self.calls(true, |it| &it.jumps).collect()))
    }

    fn probes(&self) -> Result<Vec<Probe>, Error> {
        let probe = |it: &Listed| {
            let known = [Kind::Entry, Kind::Exit].into_iter().find(|kind| kind.name() == it.kind);
            let kind = known.ok_or_else(|| Error::unsuitable("has a list with a kind that is not known"))?;
            Ok(Probe { kind, path: it.path.clone(), file: it.file.clone(), line: it.line })
        };
        self.probes.iter().map(probe).collect()
    }

    fn calls(&self, is_jump: bool, of: impl Fn(&Listed) -> &[u64]) -> impl Iterator<Item = Call> {
        self.probes.iter().enumerate().flat_map(move |(probe, it)| {
            of(it).iter().map(move |addr| Call { addr: *addr, len: SITE_LEN, is_jump, probe })
        })
    }
}
