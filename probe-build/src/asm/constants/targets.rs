//! The sources of control flow to labels, apart from jumps that name them.
//!
//! | named by | reached from |
//! |---|---|
//! | a row of an exception table, as its landing pad | the row's range |
//! | another table (of a switch, of a computed `goto`) | the function's indirect jumps |
//! | an instruction of the function's that is no jump | its indirect jumps and its calls (a non-local `goto`) |
//! | anything else | unknown |

use crate::asm::function::Extents;
use crate::asm::line::{Line, Statement, operands, symbolic, unquoted};
use crate::asm::section::Sections;
use crate::asm::statement::{is_data, is_jump};
use std::collections::{HashMap, HashSet};

/// The labels of a file that are named outside of jumps.
#[derive(Default)]
pub(in crate::asm) struct Targets<'a> {
    /// The first and last label of each range, and the landing pad of an exception within it; by
    /// the part of the first label.
    pub pads: HashMap<usize, Vec<[&'a str; 3]>>,
    pub by_table: HashSet<&'a str>,
    pub by_own: HashSet<&'a str>,
    pub by_other: HashSet<&'a str>,
}

impl<'a> Targets<'a> {
    pub(in crate::asm) fn read(lines: &[Line<'a>], sections: &Sections<'a>, extents: &Extents<'a>) -> Self {
        let functions = Functions::of(extents, lines.len());
        let mut targets = Self::default();
        let mut row: Vec<(&'a str, &'a str)> = Vec::new();
        for (at, line) in lines.iter().enumerate() {
            match &line.statement {
                Statement::Directive { name, arguments } => {
                    let section = sections.name(sections.of(at));
                    let is_data = is_data(name) && !section.starts_with(".debug_") && section != ".eh_frame";
                    if is_data && section.starts_with(".gcc_except_table") {
                        targets.exception(name, arguments, &mut row, extents);
                    } else if is_data || matches!(*name, ".set" | ".equ" | "=") {
                        targets.by_table.extend(labels_in(arguments));
                    }
                }
                Statement::Instruction(it) => {
                    let target = it.operands.first().copied().map_or("", unquoted);
                    let from = functions.of_line(at);
                    let is_own = |label: &str| from.is_some() && functions.of_label(label, extents) == from;
                    if is_jump(it) && is_own(target) {
                        continue;
                    }
                    for label in it.operands.iter().flat_map(|operand| labels_in(operand)) {
                        let direct = is_jump(it) || it.mnemonic.starts_with("call");
                        let by = if is_own(label) && !direct {
                            &mut targets.by_own
                        } else {
                            &mut targets.by_other
                        };
                        by.insert(label);
                    }
                }
                // `asm goto`.
                Statement::Inline => {
                    let from = functions.of_line(at);
                    let other = |label: &&str| from.is_none() || functions.of_label(label, extents) != from;
                    targets.by_other.extend(labels_in(line.text).filter(other));
                }
                Statement::Unclear(_) => targets.by_other.extend(labels_in(line.text)),
                Statement::Empty | Statement::Debug | Statement::App | Statement::NoApp => {}
            }
        }
        targets
    }

    /// Returns whether a label is named outside of jumps.
    pub(super) fn names(&self, label: &str) -> bool {
        [&self.by_table, &self.by_own, &self.by_other].iter().any(|by| by.contains(label))
    }

    /// Reads a directive of an exception table. A row has three differences: from the function's
    /// start to the first label, from that label to the last one, and from the function's start to
    /// the landing pad. The last is 0 if there is no landing pad.
    fn exception(
        &mut self,
        name: &str,
        arguments: &'a str,
        row: &mut Vec<(&'a str, &'a str)>,
        extents: &Extents<'a>,
    ) {
        let difference = (name == ".uleb128")
            .then(|| arguments.split_once('-'))
            .flatten()
            .map(|(to, from)| (to.trim(), from.trim()));
        if let Some(difference) = difference {
            row.push(difference);
            if let [.., (first, _), (last, from), (pad, _)] = row[..]
                && from == first
                && [first, last, pad].iter().all(|label| label.starts_with(".L"))
            {
                // A function that has the landing pad but not the range can't know when control
                // reaches the pad.
                let mut parts = [first, pad].map(|label| extents.labels.get(label));
                parts[1] = parts[1].filter(|part| parts[0] != Some(*part));
                for part in parts.into_iter().flatten() {
                    self.pads.entry(*part).or_default().push([first, last, pad]);
                }
                row.clear();
            }
            return;
        }
        // The rest of a row without a landing pad, perhaps after a header. Any other row means that
        // this is not an exception table.
        let is_plain = match row[..] {
            [.., (first, _), (_, from)] if row.len() <= 3 => from == first,
            _ => row.len() < 2,
        };
        if !is_plain {
            self.by_own.extend(row.iter().map(|(to, _)| *to));
        }
        row.clear();
        self.by_own.extend(operands(arguments).into_iter().flat_map(labels_in));
    }
}

/// The functions of lines and labels.
struct Functions {
    of_part: HashMap<usize, usize>,
    /// Indexed by line.
    of_line: Vec<Option<u32>>,
}

impl Functions {
    fn of(extents: &Extents<'_>, lines: usize) -> Self {
        let functions = extents.functions.iter().enumerate();
        let of_part: HashMap<usize, usize> = functions
            .flat_map(|(function, extent)| extent.parts.iter().map(move |part| (*part, function)))
            .collect();
        let mut of_line = vec![None; lines];
        for (number, part) in extents.parts.iter().enumerate() {
            let function = of_part.get(&number).and_then(|function| u32::try_from(*function).ok());
            part.lines.iter().for_each(|line| of_line[*line] = function);
        }
        Self { of_part, of_line }
    }

    fn of_line(&self, line: usize) -> Option<usize> {
        self.of_line[line].map(|function| function as usize)
    }

    fn of_label(&self, label: &str, extents: &Extents<'_>) -> Option<usize> {
        self.of_part.get(extents.labels.get(label)?).copied()
    }
}

/// Returns the words of a text that may be labels within functions. Labels of functions themselves
/// are excluded.
pub(super) fn labels_in(text: &str) -> impl Iterator<Item = &str> {
    let is_start = |label: &str| {
        label.ends_with("$local")
            || [".LFB", ".LFSB", ".LCOLDB", ".LHOTB", ".Lfunc_begin"].iter().any(|it| label.starts_with(it))
    };
    text.split(|c| !symbolic(c)).filter(move |word| word.starts_with(".L") && !is_start(word))
}
