//! Files with calls of the compiler's hooks, damaged in code, symbols, unwind tables and debug
//! information.

use std::fs;
use std::path::{Path, PathBuf};

use probe_cli::elf::{HookCalls, Image};
use probe_cli::hook_probes::{CertainCalls, HookProbes};
use probe_coldpatch::{bytes_behind, linked};
use probe_hooks::ObjectFile;
use probe_tests::c_library;
use probe_tests::instrumented::{compilers, folder, without_sections};
use proptest::prelude::Rng;

use crate::bounds::peak;
use crate::mutated::{below, mutate, random, turns};

const SOURCE: &str = "\
static int twice(int n) { return n * 2; }
__attribute__((noinline)) void ends(int *n) { *n += 2; }
__attribute__((noinline)) int chosen(int n) {
    switch (n) { case 0: return 7; case 1: return twice(n); case 2: ends(&n); return n;
                 case 3: return n ^ 5; case 4: n = twice(n) + 1; break; default: n = 9; }
    return n * 3;
}
int main(int argc, char **argv) { (void)argv; return chosen(argc); }
";

/// Bytes of memory for each byte of a file, and in any case.
const FACTOR: usize = 200;
const ALWAYS: usize = 32 << 20;

fn made(folder: &Path, name: &str, flags: &[&str]) -> Vec<u8> {
    let (source, program) = (folder.join("code.c"), folder.join(name));
    fs::write(&source, SOURCE).unwrap();
    let all = [&["-finstrument-functions", "-O2"], flags].concat();
    let said = c_library::run(compilers()[0], &all, &[&source], &program);
    assert!(said.is_done, "{}", said.messages);
    fs::read(program).unwrap()
}

/// Reads a file; returns the number of probes-to-be, or the error, which is one line.
fn judge(path: &PathBuf, bytes: &[u8]) -> Result<usize, String> {
    fs::write(path, bytes).unwrap();
    let (memory, read) = peak(|| {
        let image = Image::open(path)?;
        HookProbes::of(path, &image)
    });
    assert!(memory <= FACTOR * bytes.len() + ALWAYS, "{memory} bytes for {}", bytes.len());
    let found = read.map_err(|error| error.to_string()).inspect_err(|error| {
        assert!(error.starts_with(path.to_str().unwrap()) && !error.contains('\n'), "{error}");
    })?;
    let Some(found) = found else { return Ok(0) };
    let sites = found.probes.iter().flat_map(|probe| &probe.sites);
    assert!(sites.clone().all(|site| (1..=15).contains(&site.len)), "{found:?}");
    assert!(sites.count() as u64 <= 2 * found.calls, "{found:?}");
    assert!(found.notes("it").iter().all(|note| !note.contains('\n')));
    Ok(found.probes.len())
}

/// Makes sites of a file's calls, also with a payload; `None` if it has none, or is refused.
fn coldpatched(path: &Path, bytes: &[u8]) -> Option<Vec<u8>> {
    let image = Image::open(path).ok()?;
    let symbols = ObjectFile::new(path.to_owned(), path.to_owned(), 0, true);
    let found = HookCalls::of(&image, &symbols).ok()??;
    let CertainCalls { probes, calls, .. } = CertainCalls::of(&image, &found, &symbols, |_| None).ok()?;
    let behind = [bytes, &[7; 100]].concat();
    let [out, longer] = [bytes, &behind].map(|it| linked(it, &probes, &calls).ok());
    // A damaged header may claim some of them.
    let is_whole = bytes_behind(&behind) == 100;
    assert!(longer.is_none_or(|it| !is_whole || it.ends_with(&[7; 100])));
    out
}

/// A section and a function that claim more bytes than there are: an agent would read them, too.
#[test]
fn lengths_beyond_the_file() {
    let folder = folder("hostile-hooked-lengths");
    let (mut bytes, path) = (made(&folder, "own", &[]), folder.join("longer"));
    let all = judge(&path, &bytes).unwrap();
    let number = |bytes: &[u8], at: usize, len: usize| {
        bytes[at..at + len].iter().rev().fold(0, |number: usize, byte| number << 8 | usize::from(*byte))
    };
    let (start, sections) = (number(&bytes, 40, 8), number(&bytes, 60, 2));
    for header in (0..sections).map(|at| start + 64 * at) {
        let (offset, len) = (number(&bytes, header + 24, 8), number(&bytes, header + 32, 8));
        match number(&bytes, header + 4, 4) {
            // Of code.
            1 if number(&bytes, header + 8, 8) & 4 != 0 => {
                bytes[header + 32..header + 40].copy_from_slice(&(1_u64 << 46).to_le_bytes());
            }
            // The symbols.
            2 => {
                let symbols = bytes[offset..offset + len].chunks_exact_mut(24);
                // Others would share a part of its code.
                let functions = symbols.filter(|it| it[4] & 15 == 2 && it[16..] != [0; 8]);
                let last = functions.max_by_key(|it| it[8..16].iter().rev().copied().collect::<Vec<_>>());
                last.unwrap()[16..].copy_from_slice(&(1_u64 << 45).to_le_bytes());
            }
            _ => (),
        }
    }
    // All but the entry and the exit of the last function.
    assert_eq!(judge(&path, &bytes), Ok(all - 2));
}

#[test]
fn changed_bytes() {
    let folder = folder("hostile-hooked");
    let path = folder.join("changed");
    let (mut random, mut patched) = (random(), 0);
    for (flags, has_sections) in
        [(&["-g"][..], true), (&["-fno-plt", "-s"], true), (&["-static", "-g0"], true), (&["-s"], false)]
    {
        let mut good = made(&folder, "good", flags);
        if !has_sections {
            without_sections(&folder.join("good"));
            good = fs::read(folder.join("good")).unwrap();
        }
        assert_eq!(judge(&path, &good), Ok(8), "{flags:?}");
        let many = if has_sections { 4_000 } else { 1_000 };
        let (mut read, turns) = (0, if good.len() > 100_000 { turns(80) } else { turns(many) });
        for turn in 0..turns {
            let mut bytes = good.clone();
            let whole = 0..bytes.len();
            // The headers of the file, all of it, or the headers of its sections.
            let part = match below(&mut random, 4) {
                0 => 0..0x400,
                1 => bytes.len().saturating_sub(64 * 40)..bytes.len(),
                _ => whole,
            };
            mutate(&mut random, &mut bytes, part);
            read += usize::from(judge(&path, &bytes).is_ok_and(|probes| probes != 0));
            patched += usize::from(turn % 8 == 0 && coldpatched(&path, &bytes).is_some());
        }
        assert!(read > turns / 3, "{flags:?}: {read} of {turns}");
    }
    assert!(patched > 40, "{patched}");
    fs::remove_file(path).unwrap();
}

/// Puts other numbers into a whole table: of symbols, of names, of code, of lines.
#[test]
fn tables_of_anything() {
    let folder = folder("hostile-hooked-tables");
    let path = folder.join("changed");
    let good = made(&folder, "good", &["-g"]);
    let number =
        |at: usize| usize::try_from(u64::from_le_bytes(good[at..at + 8].try_into().unwrap())).unwrap();
    let sections = number(0x28);
    let many = usize::from(u16::from_le_bytes([good[0x3c], good[0x3d]]));
    let mut random = random();
    for section in 1..many {
        let header = sections + 64 * section;
        let (offset, size) = (number(header + 24), number(header + 32));
        // Sections of zeros take no room.
        if good[header + 4] == 8 || size == 0 {
            continue;
        }
        for _ in 0..turns(200) {
            let mut bytes = good.clone();
            match below(&mut random, 4) {
                0 => random.fill_bytes(&mut bytes[offset..offset + size]),
                1 => bytes[offset..offset + size].fill(u8::try_from(below(&mut random, 256)).unwrap()),
                2 => {
                    // One entry again and again.
                    let len = [8, 12, 16, 24][below(&mut random, 4)].min(size);
                    let from = offset + below(&mut random, size - len + 1);
                    let entry = bytes[from..from + len].to_vec();
                    bytes[offset..offset + size]
                        .chunks_mut(len)
                        .for_each(|it| it.copy_from_slice(&entry[..it.len()]));
                }
                _ => {
                    let len = u64::from(random.next_u32()) << below(&mut random, 32);
                    bytes[header + 24 + 8 * below(&mut random, 2)..][..8].copy_from_slice(&len.to_le_bytes());
                }
            }
            let _ = judge(&path, &bytes);
        }
    }
    fs::remove_file(path).unwrap();
}
