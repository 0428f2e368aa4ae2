//! Finds the section of each line.
//!
//! Inline assembly is ignored: compilers themselves rely on it to restore the section. But clang's
//! integrated assembler tracks the section changes of a file's own assembly, and prints the next
//! section only if it differs.

use super::line::{self, Line, Statement, operands, statements, unquoted};
use std::collections::HashMap;

/// A section, as a number within the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Section(usize);

/// The sections of a file, line by line.
pub(super) struct Sections<'a> {
    of_line: Vec<Section>,
    names: Vec<&'a str>,
    /// The arguments of each section's first `.section`; `None` for `.text` and similar directives.
    arguments: Vec<Option<&'a str>>,
}

impl<'a> Sections<'a> {
    pub(super) fn read(lines: &[Line<'a>]) -> Self {
        let mut reader = SectionReader::default();
        let start = reader.number(vec![".text"], None);
        let (mut current, mut previous) = (start, start);
        let mut of_line = Vec::with_capacity(lines.len());
        let mut is_file_scope = false;
        for line in lines {
            match line.statement {
                Statement::App => is_file_scope = line.opens_file_scope(),
                Statement::Directive { name, arguments } => {
                    (current, previous) = reader.switch(name, arguments, current, previous);
                }
                Statement::Inline if is_file_scope => {
                    for text in statements(line.text).unwrap_or_default() {
                        if let Statement::Directive { name, arguments } = line::line(text).statement {
                            (current, previous) = reader.switch(name, arguments, current, previous);
                        }
                    }
                }
                _ => {}
            }
            of_line.push(current);
        }
        Self { of_line, names: reader.names, arguments: reader.arguments }
    }

    /// Returns the section of the line's definitions.
    pub(super) fn of(&self, line: usize) -> Section {
        self.of_line[line]
    }

    /// Returns the arguments of the line's `.section`; `None` if another directive opened the
    /// section.
    pub(super) fn arguments(&self, line: usize) -> Option<&'a str> {
        self.arguments[self.of_line[line].0]
    }

    pub(super) fn name(&self, section: Section) -> &'a str {
        self.names[section.0]
    }
}

#[derive(Default)]
struct SectionReader<'a> {
    known: HashMap<Vec<&'a str>, Section>,
    names: Vec<&'a str>,
    arguments: Vec<Option<&'a str>>,
    stack: Vec<(Section, Section)>,
}

impl<'a> SectionReader<'a> {
    fn number(&mut self, key: Vec<&'a str>, arguments: Option<&'a str>) -> Section {
        let name = key[0];
        *self.known.entry(key).or_insert_with(|| {
            self.names.push(name);
            self.arguments.push(arguments);
            Section(self.names.len() - 1)
        })
    }

    /// Updates the current and the previous section after a directive.
    fn switch(
        &mut self,
        name: &'a str,
        arguments: &'a str,
        current: Section,
        previous: Section,
    ) -> (Section, Section) {
        match name {
            ".text" | ".data" | ".bss" => {
                let mut key = vec![name];
                key.extend((!arguments.is_empty() && arguments != "0").then_some(arguments));
                (self.number(key, None), current)
            }
            ".section" => (self.named(arguments), current),
            ".pushsection" => {
                self.stack.push((current, previous));
                (self.named(arguments), current)
            }
            ".popsection" => self.stack.pop().unwrap_or((current, previous)),
            ".previous" => (previous, current),
            ".subsection" => {
                let key = vec![self.names[current.0], ".subsection", arguments];
                (self.number(key, None), current)
            }
            _ => (current, previous),
        }
    }

    /// Compilers omit flags and type in later directives, but repeat group and `unique` number.
    fn named(&mut self, arguments: &'a str) -> Section {
        self.number(key(arguments), Some(arguments))
    }
}

/// Returns the arguments of `.section` that identify a section.
fn key(arguments: &str) -> Vec<&str> {
    let mut all = operands(arguments).into_iter();
    let mut key = vec![unquoted(all.next().unwrap_or_default())];
    key.extend(all.skip(2));
    key
}

/// Returns whether the arguments of two `.section` directives name the same section.
pub(super) fn is_same(one: &str, other: &str) -> bool {
    key(one) == key(other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::asm::line::lines;

    #[test]
    fn each_line_has_the_section_it_is_in() {
        let lines = lines(concat!(
            "a:\n.section .rodata,\"a\"\nb:\n.text\nc:\n.section .text.f,\"axG\",@progbits,f,comdat\nd:\n",
            ".section .text.f,\"axG\",@progbits,g,comdat\ne:\n.previous\nf:\n.pushsection .text\ng:\n.popsection\nh:\n",
            ".section .text.u,\"ax\",@progbits\ni:\n.section .text.u\nj:\n.text 1\nk:\n",
        ));
        let sections = Sections::read(&lines);
        let of = |label: &str| {
            sections.of(lines.iter().position(|line| line.labels.first() == Some(&label)).expect("the label"))
        };
        assert_eq!(of("a"), of("c"));
        assert_eq!(sections.name(of("b")), ".rodata");
        assert_ne!(of("d"), of("e"));
        assert_eq!(of("d"), of("f"));
        assert_eq!(of("a"), of("g"));
        assert_eq!(of("d"), of("h"));
        assert_eq!(of("i"), of("j"));
        assert_ne!(of("a"), of("k"));
    }
}
