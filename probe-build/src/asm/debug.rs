//! A file's references to its source (`.file` and `.loc`), and the removal of debug information.
//!
//! The compiler prints line numbers (`-g1`) for the definitions. If the user did not ask for them,
//! they are removed together with the `.debug_*` sections, so that the object is the same as
//! without `-g1`.

use super::line::{Line, Statement};
use super::output::Edits;
use super::section::Sections;
use super::statement::{is_data, is_debug};
use std::collections::HashMap;

/// A place in the source. Line 0: unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SourceLine {
    pub file: String,
    pub line: u32,
}

/// The names of the source files.
pub(super) struct SourceFiles {
    by_number: HashMap<u32, String>,
    main: String,
}

impl SourceFiles {
    pub(super) fn read(lines: &[Line<'_>]) -> Self {
        let mut files = Self { by_number: HashMap::new(), main: String::new() };
        let mut root = None;
        for line in lines {
            let Statement::Directive { name: ".file", arguments } = line.statement else { continue };
            let strings = strings(arguments);
            let number =
                arguments.split(|c: char| !c.is_ascii_digit()).next().and_then(|it| it.parse::<u32>().ok());
            match (number, strings.as_slice()) {
                (Some(0), [folder, name, ..]) => {
                    root = Some(folder.clone());
                    files.by_number.insert(0, name.clone());
                }
                (Some(number), [name]) => {
                    files.by_number.insert(number, name.clone());
                }
                (Some(number), [folder, name, ..]) => {
                    let here = name.starts_with('/') || folder == "." || Some(folder) == root.as_ref();
                    files
                        .by_number
                        .insert(number, if here { name.clone() } else { format!("{folder}/{name}") });
                }
                (None, [name, ..]) => files.main.clone_from(name),
                (_, []) => {}
            }
        }
        files
    }

    /// Returns the place of a `.loc`, if it names a line.
    pub(super) fn place(&self, line: &Line<'_>) -> Option<SourceLine> {
        let Statement::Directive { name: ".loc", arguments } = line.statement else { return None };
        let mut numbers = arguments.split_whitespace().map_while(|word| word.parse::<u32>().ok());
        let (file, line) = (numbers.next()?, numbers.next()?);
        let file = self.by_number.get(&file)?.clone();
        (line > 0).then_some(SourceLine { file, line })
    }

    /// Returns the main file of the compilation.
    pub(super) fn main(&self) -> &str {
        if self.main.is_empty() { self.by_number.get(&0).map_or("", String::as_str) } else { &self.main }
    }
}

/// Returns the quoted strings of a directive.
fn strings(arguments: &str) -> Vec<String> {
    let mut all = Vec::new();
    let mut characters = arguments.chars();
    while characters.any(|c| c == '"') {
        let mut bytes = Vec::new();
        loop {
            match characters.next() {
                None | Some('"') => break,
                Some('\\') => escape(&mut characters, &mut bytes),
                Some(c) => bytes.extend(c.encode_utf8(&mut [0; 4]).bytes()),
            }
        }
        all.push(String::from_utf8_lossy(&bytes).into_owned());
    }
    all
}

/// Decodes the text after a backslash: an octal number of up to three digits, or a character.
fn escape(characters: &mut core::str::Chars<'_>, bytes: &mut Vec<u8>) {
    let mut value = None;
    for _ in 0..3 {
        let Some(digit) = characters.clone().next().and_then(|c| c.to_digit(8)) else { break };
        characters.next();
        value = Some(value.unwrap_or(0) * 8 + digit);
    }
    match value {
        Some(value) => bytes.push(u8::try_from(value & 0xff).unwrap_or_default()),
        None => bytes.extend(characters.next().into_iter().flat_map(|c| c.to_string().into_bytes())),
    }
}

/// Returns for each line whether it belongs to a procedure whose unwind table stays in the output.
pub(super) fn in_unwind_table(lines: &[Line<'_>], keep_debug: bool) -> Vec<bool> {
    let (mut inside, mut frames_only) = (false, false);
    let in_table = lines.iter().map(|line| {
        match &line.statement {
            Statement::Directive { name: ".cfi_sections", arguments } => {
                frames_only = *arguments == ".debug_frame";
            }
            Statement::Directive { name: ".cfi_startproc", .. } => inside = true,
            Statement::Directive { name: ".cfi_endproc", .. } => inside = false,
            _ => {}
        }
        inside && (keep_debug || !frames_only)
    });
    in_table.collect()
}

/// Removes the lines of debug information.
pub(super) fn strip(lines: &[Line<'_>], sections: &Sections<'_>, edits: &mut Edits) {
    // These unwind tables are for the debugger only: the compiler was not asked for tables that are
    // loaded.
    let mut frames_only = false;
    for (at, line) in lines.iter().enumerate() {
        let debug = is_debug(sections.name(sections.of(at)));
        match &line.statement {
            Statement::Directive { name, arguments } => {
                frames_only |= *name == ".cfi_sections" && *arguments == ".debug_frame";
                let loc = *name == ".loc"
                    || (*name == ".file" && arguments.starts_with(|c: char| c.is_ascii_digit()));
                let data =
                    debug && (matches!(*name, ".section" | ".text" | ".data" | ".bss") || is_data(name));
                if loc || data || (frames_only && name.starts_with(".cfi_")) {
                    edits.remove(at);
                }
            }
            Statement::Empty if debug && !line.labels.is_empty() => edits.remove(at),
            Statement::Debug => edits.remove(at),
            // gcc does not print `#NO_APP` for a `.loc` between two statements of inline assembly.
            Statement::Inline if line.text.trim_start().starts_with(".loc") => edits.remove(at),
            _ => {}
        }
    }
}
