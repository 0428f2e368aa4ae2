//! The rules that reading keeps, whatever the bytes are.

use probe_cli::audit::audit;
use probe_cli::elf::{FunctionStarts, Image, functions};
use probe_cli::probe_tables::ObjectProbes;

/// The numbers of a file's parts.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Seen {
    pub files: usize,
    pub probes: usize,
    pub sites: u64,
    pub findings: u64,
}

impl Seen {
    pub fn add(&mut self, other: Self) {
        self.files += other.files;
        self.probes += other.probes;
        self.sites += other.sites;
        self.findings += other.findings;
    }
}

/// Reads a file; returns the numbers of its parts, or the error.
pub fn read(file: Vec<u8>) -> Result<Seen, String> {
    let image = Image::read("it", Box::new(file)).map_err(|error| error.to_string())?;
    let object = ObjectProbes::of(&image).map_err(|error| error.to_string())?;
    let audit = audit(&image, &object).map_err(|error| error.to_string())?;
    let sites: u64 = object.probes.iter().map(|probe| probe.sites.len() as u64).sum();
    assert_eq!((object.sites, audit.sites.len() as u64), (sites, sites));
    assert!(audit.sites.windows(2).all(|pair| pair[0].site.addr <= pair[1].site.addr), "in order");
    assert!(audit.findings.shown.len() as u64 <= audit.findings.count);
    assert!(object.unread.shown.len() as u64 <= object.unread.count);
    assert!(object.unread.count == 0 || audit.findings.count != 0, "unread parts are findings");
    let functions = functions(&image).map_err(|problem| image.error(problem).to_string())?;
    let mut starts = FunctionStarts::new(&image, &functions);
    for site in &audit.sites {
        let start = starts.of(site.site.addr).map_err(|problem| image.error(problem).to_string())?;
        assert!(start.is_none_or(|start| start <= site.site.addr && functions.is_start(start)));
    }
    Ok(Seen { files: 1, probes: object.probes.len(), sites, findings: audit.findings.count })
}

/// Reads a file. An error names the file and is one line.
pub fn judge(file: Vec<u8>) -> Seen {
    match read(file) {
        Ok(seen) => seen,
        Err(error) => {
            assert!(error.starts_with("it ") && !error.contains('\n') && error.len() < 400, "{error}");
            Seen::default()
        }
    }
}
