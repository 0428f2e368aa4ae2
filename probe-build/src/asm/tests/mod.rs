//! Tests with whole files: exact text for assembly written here, and rules for the output of
//! compilers.

use super::entry_return::MARK;
use super::*;
use crate::outcome::Exclusion;

mod compiled;
mod constants;
mod left_out;
mod properties;
mod texts;

pub(super) fn request(sites: Sites, compiler: Family) -> Request<'static> {
    Request {
        sites,
        compiler,
        keep_debug: true,
        package: "package 1.0.0",
        folder: "",
        wants: &|_| Ok(()),
        without_hooks: &|| None,
    }
}

/// Returns a function with this body.
pub(super) fn function(body: &str) -> String {
    format!(
        "\t.text\n\t.type\tf, @function\nf:\t# @f\n.LFB0:\n\t.cfi_startproc\n{body}\t.cfi_endproc\n\t.size\tf, .-f\n"
    )
}

/// Restores the compiler's text: without head, sites and foot, and with the original conditional
/// tail calls.
pub(super) fn without_sites(text: &str, source: &str) -> String {
    let body = text.strip_prefix(output::HEAD).unwrap_or(text);
    let body: String = body.split_inclusive('\n').filter(|line| !line.ends_with(MARK)).collect();
    let mut kept = String::new();
    let mut lines = body.split_inclusive('\n').peekable();
    while let Some(line) = lines.next() {
        if line.contains(".Lprobe_skip_") && !line.ends_with(":\n") {
            // The rewriter replaces only this line; its position in the source identifies it.
            let original = source[kept.len()..].split_inclusive('\n').next().unwrap_or_default();
            let words: Vec<&str> = line.split_whitespace().collect();
            assert_eq!(
                statement::opposite(line::lines(original)[0].mnemonic()).as_ref(),
                words.first(),
                "{original}"
            );
            assert!(lines.next().is_some_and(|site| site.starts_with(output::SITE)));
            let jump = lines.next().expect("the tail call");
            assert!(
                original.contains(jump.trim().strip_prefix("jmp\t").expect("a jump")),
                "{original} {jump}"
            );
            assert!(lines.next().is_some_and(|label| label.starts_with(".Lprobe_skip_")));
            kept.push_str(original);
        } else if line.starts_with("\t.section .text.unlikely.__probe_stub_") {
            break;
        } else if !line.starts_with(output::SITE) {
            kept.push_str(line);
        }
    }
    // The rewriter adds a line feed to a last line without one.
    if !source.ends_with('\n') && text.len() > body.len() {
        kept.truncate(kept.len() - 1);
    }
    kept
}

impl Line<'_> {
    fn mnemonic(&self) -> &str {
        match &self.statement {
            Statement::Instruction(it) => it.mnemonic,
            _ => "",
        }
    }
}
