//! `coldpatch`: calls of hooks in a linked file ▸ NOPs, and the table or the list of their sites.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::fs;
use std::io::Write;
use std::path::Path;

use probe_coldpatch::{Call, HAS_PROBES, List, Probe, latent, linked};
use probe_hooks::{Description, Extents, Form, HookUse, ObjectFile, demangled_path};

use crate::args::Coldpatch;
use crate::elf::{HookCalls, Hooks, Image, Pointer, Problem, notes};
use crate::output::{Failure, NewFile, Output, document, object};
use crate::progress::Progress;
use crate::site_list::{build_id, read_file};
use crate::text::count;

pub(super) fn run(args: &Coldpatch, is_json: bool) -> Result<Output, Failure> {
    let progress = Progress::start(&format!("reading {}", args.file.display()), 0);
    if !args.force && is_same(&args.file, &args.output) {
        let problem = "OUT is FILE itself; give another name, or --force to replace it";
        return Err(Failure::Usage(problem.to_owned()));
    }
    let name = args.file.display().to_string();
    let bytes = read_file(&args.file)?;
    let image = Image::read(&name, Box::new(bytes.clone())).map_err(Failure::input)?;
    let failed = |problem| Failure::input(image.error(problem));
    if notes(&image).map_err(failed)?.probes.is_some() {
        return Err(Failure::Input(format!("{name} {HAS_PROBES}")));
    }
    let symbols = ObjectFile::new(args.file.clone(), args.file.clone(), 0, true);
    let Some(found) = HookCalls::of(&image, &symbols).map_err(failed)? else {
        return Err(Failure::NoMatch(format!(
            "{name} has no calls of the hooks of -finstrument-functions; build it with this flag"
        )));
    };
    if !symbols.extents().is_some_and(Extents::are_whole) {
        return Err(Failure::Input(format!(
            "{name} has no symbols, which tell its functions: coldpatch it before `strip`, or put its debug file beside it"
        )));
    }
    if found.are_one {
        return Err(Failure::Input(format!(
            "the two hooks of {name} are one function, so its entries can't be told from its exits: link it with two \
             different hooks of your own, or coldpatch its object files and archives"
        )));
    }
    let mut chosen = Chosen::default();
    chosen.take(&image, &found, &symbols, args.list.is_some()).map_err(failed)?;
    let refused = |error| Failure::Input(format!("{name} {error}"));
    if chosen.calls.is_empty() {
        return Err(Failure::NoMatch(format!(
            "{name} has no call that can become a site: {}",
            chosen.reasons()
        )));
    }
    let Chosen { probes, calls, .. } = &chosen;
    let (out, list) = if args.list.is_some() {
        let build_id = build_id(&image)?.ok_or_else(|| {
            Failure::Input(format!(
                "{name} has no build id, which tells its list from others: link it with -Wl,--build-id"
            ))
        })?;
        let list = List::new(&build_id, probes, calls).to_json().map_err(Failure::input)?;
        (latent(&bytes, calls).map_err(refused)?, Some(list))
    } else {
        (linked(&bytes, probes, calls).map_err(refused)?, None)
    };
    drop(progress);
    if let (Some(list), Some(path)) = (list, &args.list) {
        write(path, list.as_bytes(), None)?;
    }
    write(&args.output, &out, Some(&args.file))?;
    chosen.told(args, found.hooks, is_json)
}

/// Returns whether two paths lead to one file.
fn is_same(one: &Path, other: &Path) -> bool {
    let [one, other] = [one, other].map(fs::canonicalize);
    one.is_ok_and(|one| other.is_ok_and(|other| one == other))
}

/// Writes a file, whole or not at all, with the rights of another one.
fn write(path: &Path, bytes: &[u8], like: Option<&Path>) -> Result<(), Failure> {
    let write = || {
        let mut new = NewFile::create(path)?;
        new.file.write_all(bytes)?;
        if let Some(like) = like {
            new.file.set_permissions(fs::metadata(like)?.permissions())?;
        }
        new.finish()
    };
    write().map_err(|error| Failure::Input(format!("{} can't be written: {error}", path.display())))
}

/// The calls that become sites, and those that stay.
#[derive(Default)]
struct Chosen {
    probes: Vec<Probe>,
    calls: Vec<Call>,
    /// Addresses of calls that stay, by their reasons.
    kept: BTreeMap<&'static str, Vec<u64>>,
    /// Calls that stay, and are known by their number only.
    unclear: u64,
}

impl Chosen {
    fn take(
        &mut self,
        image: &Image,
        found: &HookCalls<'_>,
        symbols: &ObjectFile,
        is_list: bool,
    ) -> Result<(), Problem> {
        self.unclear = found.unclear;
        let mut functions = BTreeMap::<_, Description>::new();
        let mut known = HashMap::new();
        let mut uses: Vec<_> = found.functions.iter().flatten().collect();
        uses.sort_by_key(|it| it.at);
        for it in uses {
            let call = call(it);
            let mut reason = obstacle(it, is_list);
            if self.calls.last().is_some_and(|last| last.shares_word(&call)) && reason.is_none() {
                reason = Some("its site would share a word with the one before");
            }
            if let Some(reason) = reason {
                self.kept.entry(reason).or_default().push(call.addr);
                continue;
            }
            let function = it.functions[0];
            let described = match functions.get(&function) {
                Some(known) => known,
                None => {
                    let described = match found.function(function)? {
                        Some(Pointer::Here(addr)) if image.is_code(addr, 1) => {
                            symbols.describe(usize::try_from(addr).unwrap_or(usize::MAX))
                        }
                        Some(Pointer::Elsewhere(name)) => {
                            symbols.describe_site(it.at, Some(demangled_path(&name)))
                        }
                        _ => symbols.describe_site(it.at, None),
                    };
                    functions.entry(function).or_insert(described)
                }
            };
            let probe = Probe {
                kind: it.kind,
                path: described.path.clone(),
                file: described.file.clone(),
                line: described.line,
            };
            let number = *known.entry(probe).or_insert_with_key(|probe| {
                self.probes.push(probe.clone());
                self.probes.len() - 1
            });
            self.calls.push(Call { probe: number, ..call });
        }
        Ok(())
    }

    /// Returns the calls that stay, with their reasons.
    fn reasons(&self) -> String {
        let unclear = (self.unclear != 0).then(|| (UNCLEAR, self.unclear));
        let known = self.kept.iter().map(|(reason, all)| (*reason, all.len() as u64));
        let texts = known.chain(unclear).map(|(reason, many)| format!("{many} ({reason})"));
        texts.collect::<Vec<_>>().join(", ")
    }

    fn told(&self, args: &Coldpatch, hooks: Hooks, is_json: bool) -> Result<Output, Failure> {
        let (sites, probes) = (self.calls.len() as u64, self.probes.len() as u64);
        let out = args.output.display().to_string();
        let kept = self.kept.values().map(|it| it.len() as u64).sum::<u64>() + self.unclear;
        if is_json {
            let rows = self.kept.iter().flat_map(|(reason, all)| {
                all.iter().map(move |site| object! { call: site, reason: *reason })
            });
            let members = object! {
                file: args.file.display().to_string(),
                output: out,
                sites: sites,
                probes: probes,
                kept: kept,
                unclear: self.unclear,
            };
            return document("coldpatch", &members, rows).map(Output::text);
        }
        let mut text = format!("{out}: {} of {}\n", count(sites, "site"), count(probes, "probe"));
        if kept != 0 {
            let verb = if kept == 1 { "stays" } else { "stay" };
            let _ = writeln!(text, "{} of hooks {verb}: {}", count(kept, "call"), self.reasons());
        }
        if hooks == Hooks::Own || hooks == Hooks::Static {
            text.push_str("its own hooks no longer get the calls that are sites\n");
        }
        Ok(Output::text(text))
    }
}

const UNCLEAR: &str = "in code that is not understood";

/// Returns the call as the writer of files takes it, without its probe.
fn call(it: &HookUse) -> Call {
    let is_jump = matches!(it.form, Form::Jump | Form::JumpRegister | Form::ConditionalJump);
    Call { addr: it.at as u64, len: it.len, is_jump, probe: 0 }
}

/// Returns why a call stays a call.
fn obstacle(it: &HookUse, is_list: bool) -> Option<&'static str> {
    match it.form {
        Form::CallRegister | Form::JumpRegister => {
            Some("through a register, which leaves no room for a site")
        }
        Form::ConditionalJump => Some("a conditional jump"),
        Form::Jump if it.len < 5 => Some("a short jump, which leaves no room for a site"),
        _ if it.functions.len() > 1 => Some("for several functions"),
        _ if it.functions.is_empty() || !it.are_all => Some("the code does not tell the function"),
        Form::Jump if is_list && it.len <= 5 => Some("a jump, whose site would need code of its own"),
        Form::Call | Form::Jump => None,
    }
}
