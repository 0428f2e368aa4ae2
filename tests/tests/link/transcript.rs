//! What a fixture program printed, see `link/transcript`.

use std::collections::BTreeMap;

use probe_tests::fixture::Built;
use probe_tests::fixture::site_table::SiteTable;

/// A probe's path and kind.
pub type Name = (String, String);

/// One stage of a program's output.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Transcript {
    /// Each probe's sites.
    pub sites: BTreeMap<Name, usize>,
    /// Each probe's hits.
    pub hits: BTreeMap<Name, u64>,
    /// All other lines.
    pub rest: Vec<String>,
}

impl Transcript {
    /// Parses what `transcript::run` printed.
    pub fn parse(output: &str) -> Self {
        let mut this = Self::default();
        for line in output.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            match words[..] {
                ["probe", path, kind, sites] => {
                    let sites = sites.parse().expect("a number of sites");
                    let old = this.sites.insert((path.into(), kind.into()), sites);
                    assert_eq!(old, None, "listed twice: {line}");
                }
                ["hits", path, kind, hits] => {
                    let hits = hits.parse().expect("a number of hits");
                    let old = this.hits.insert((path.into(), kind.into()), hits);
                    assert_eq!(old, None, "counted twice: {line}");
                }
                _ => this.rest.push(line.to_owned()),
            }
        }
        this
    }

    /// The stages of a program that prints `stage <name>` before each.
    pub fn stages(output: &str) -> Vec<(&str, Self)> {
        let stages = output.split("stage ").skip(1);
        stages
            .map(|stage| {
                let (name, output) = stage.split_once('\n').expect("a stage's name ends its line");
                (name, Self::parse(output))
            })
            .collect()
    }

    /// How many sites there are.
    pub fn total(&self) -> usize {
        self.sites.values().sum()
    }

    /// The listing must be exactly what the files hold: each record a site of the right probe, each NOP a record.
    pub fn must_match_files(&self, built: &Built, files: &[&str]) {
        let bytes: Vec<Vec<u8>> = files.iter().map(|file| built.bytes(file)).collect();
        let tables: Vec<SiteTable<'_>> = bytes.iter().map(|bytes| SiteTable::parse(bytes)).collect();
        let mut found = BTreeMap::new();
        for (file, table) in files.iter().zip(&tables) {
            assert_eq!(
                table.nops(),
                table.sites().len(),
                "NOPs and records of {file}, {}",
                built.description()
            );
            for (name, sites) in table.sites_by_probe(&tables) {
                *found.entry(name).or_default() += sites;
            }
        }
        let listed = self.sites.iter().filter(|(_, sites)| **sites != 0);
        let listed: BTreeMap<Name, usize> = listed.map(|(name, sites)| (name.clone(), *sites)).collect();
        assert_eq!(listed, found, "listed at run time, found in {files:?}, {}", built.description());
    }
}

/// How many sites a probe must have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sites {
    /// That many, in every build: it is not inlined, or always.
    Exactly(usize),
    /// That many or more: the optimiser decides how often code is copied.
    AtLeast(usize),
}

/// What is expected of one probe: path, kind, sites, hits.
pub type Expected = (&'static str, &'static str, Sites, u64);

/// The entry and the exit of one function. An exit may be copied to each way out.
pub const fn function(path: &'static str, copies: Sites, hits: u64) -> [Expected; 2] {
    let exits = match copies {
        Sites::Exactly(0) => Sites::Exactly(0),
        _ => Sites::AtLeast(1),
    };
    [(path, "entry", copies, hits), (path, "exit", exits, hits)]
}

/// Exactly these probes, these sites and these hits.
pub fn check(transcript: &Transcript, expected: &[Expected], description: &str) {
    let names = |list: &mut dyn Iterator<Item = (&str, &str)>| -> Vec<(String, String)> {
        list.map(|(path, kind)| (path.to_owned(), kind.to_owned())).collect()
    };
    let mut wanted = names(&mut expected.iter().map(|(path, kind, ..)| (*path, *kind)));
    wanted.sort();
    let listed: Vec<Name> = transcript.sites.keys().cloned().collect();
    assert_eq!(listed, wanted, "the probes listed, {description}");
    for (path, kind, sites, hits) in expected {
        let name = ((*path).to_owned(), (*kind).to_owned());
        let found = transcript.sites[&name];
        let is_right = match *sites {
            Sites::Exactly(sites) => found == sites,
            Sites::AtLeast(sites) => found >= sites,
        };
        assert!(is_right, "{path} {kind} has {found} sites, not {sites:?}, {description}");
        assert_eq!(transcript.hits.get(&name), Some(hits), "hits of {path} {kind}, {description}");
    }
}
