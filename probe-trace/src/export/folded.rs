//! Folded stacks: one line for each distinct stack, with its self time in nanoseconds, in the order
//! in which the trace has them first.
//!
//! ```text
//! server;main;app::main;app::read 1200
//! ```
//! Names are full paths, after those of program and thread. Semicolons and control characters of
//! names are escaped: `\x3b`. The stack of an outermost call comes before it. Calls that the trace
//! cuts off count to where they are cut.
//!
//! Memory: some words for each distinct stack. Its text is made when its line is written.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::iter::successors;

use super::sink::Sink;
use crate::calls::{Begin, End, Track};
use crate::item::{Thread, ThreadId};

/// The most bytes of a line's stack. The names of further calls are left out, and a mark ends the
/// line.
const MAX_STACK_BYTES: usize = 1 << 16;

pub(super) struct Folded<W> {
    writer: W,
    threads: HashMap<ThreadId, OpenCalls>,
    stacks: Stacks,
}

/// A thread's open calls.
struct OpenCalls {
    root: usize,
    open: Vec<OpenCall>,
}

struct OpenCall {
    node: usize,
    begin: u64,
    /// Time of the calls inside.
    children_time: u64,
}

/// All distinct stacks as a tree.
#[derive(Default)]
struct Stacks {
    /// Distinct names, and their numbers.
    names: Vec<String>,
    numbers: HashMap<String, usize>,
    /// Parents come before their children.
    nodes: Vec<Node>,
    /// Nodes by parent and name.
    children: HashMap<(Option<usize>, usize), usize>,
}

/// A distinct stack: its innermost call, and the stack around that. Programs and threads are the
/// outermost calls.
struct Node {
    parent: Option<usize>,
    name: usize,
    self_time: u64,
}

impl Stacks {
    /// Returns the node of a call inside of a stack.
    fn node(&mut self, parent: Option<usize>, name: &str) -> usize {
        let known = self.numbers.get(name).copied();
        let name = known.unwrap_or_else(|| {
            self.numbers.insert(name.to_owned(), self.names.len());
            self.names.push(escaped(name));
            self.names.len() - 1
        });
        *self.children.entry((parent, name)).or_insert_with(|| {
            self.nodes.push(Node { parent, name, self_time: 0 });
            self.nodes.len() - 1
        })
    }

    /// Returns the text of a node's stack.
    fn text(&self, node: &Node) -> String {
        let stack: Vec<_> = successors(Some(node), |node| Some(&self.nodes[node.parent?])).collect();
        let mut text = String::new();
        for node in stack.iter().rev() {
            if !text.is_empty() {
                text.push(';');
            }
            let name = &self.names[node.name];
            if text.len() + name.len() > MAX_STACK_BYTES {
                text.push('…');
                break;
            }
            text.push_str(name);
        }
        text
    }
}

impl<W: Write> Folded<W> {
    pub(super) fn new(writer: W) -> Self {
        Self { writer, threads: HashMap::new(), stacks: Stacks::default() }
    }
}

impl<W: Write> Sink for Folded<W> {
    fn thread(&mut self, thread: &Thread) -> io::Result<()> {
        let Thread { id, name, program } = thread;
        let process = format!("process {}", id.process);
        let program = self.stacks.node(None, if program.is_empty() { &process } else { program });
        let number = format!("thread {}", id.tid);
        let root = self.stacks.node(Some(program), if name.is_empty() { &number } else { name });
        self.threads.insert(*id, OpenCalls { root, open: Vec::new() });
        Ok(())
    }

    fn begin(&mut self, begin: &Begin) -> io::Result<()> {
        let Track::Thread(thread) = begin.track else { return Ok(()) };
        let Some(calls) = self.threads.get_mut(&thread) else { return Ok(()) };
        let around = match calls.open.last() {
            Some(call) => call.node,
            None => begin
                .fields
                .stack()
                .iter()
                .rev()
                .fold(calls.root, |around, name| self.stacks.node(Some(around), name)),
        };
        let node = self.stacks.node(Some(around), &begin.fields.definition().path);
        calls.open.push(OpenCall { node, begin: begin.time, children_time: 0 });
        Ok(())
    }

    fn end(&mut self, end: &End) -> io::Result<()> {
        let Track::Thread(thread) = end.track else { return Ok(()) };
        let Some(calls) = self.threads.get_mut(&thread) else { return Ok(()) };
        let Some(call) = calls.open.pop() else { return Ok(()) };
        let time = end.time.saturating_sub(call.begin);
        let self_time = &mut self.stacks.nodes[call.node].self_time;
        *self_time = self_time.saturating_add(time.saturating_sub(call.children_time));
        if let Some(outer) = calls.open.last_mut() {
            outer.children_time = outer.children_time.saturating_add(time);
        }
        Ok(())
    }

    fn finish(&mut self) -> io::Result<()> {
        for node in self.stacks.nodes.iter().filter(|node| node.self_time != 0) {
            writeln!(self.writer, "{} {}", self.stacks.text(node), node.self_time)?;
        }
        Ok(())
    }
}

fn escaped(name: &str) -> String {
    let mut text = String::new();
    for c in name.chars() {
        if c == ';' || c.is_control() {
            // Writing to a string never fails.
            let _ = write!(text, "\\x{:02x}", u32::from(c));
        } else {
            text.push(c);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::MAX_STACK_BYTES;
    use crate::export::{Format, export};
    use crate::tests::{Fixture, stack};

    #[test]
    fn stacks_have_their_self_times() {
        let fixture = Fixture::new()
            .thread(1, "ma;in")
            .hit(1, 1000, "entry app::f")
            .hit(1, 1100, "entry app::g")
            .hit(1, 1150, "exit app::g")
            .hit(1, 1200, "entry app::g")
            .hit(1, 1250, "exit app::g")
            .hit(1, 1400, "exit app::f")
            .hit(2, 1410, "entry app::f")
            .hit(2, 1410, "exit app::f")
            .hit(2, 1420, "entry app::h 64")
            .hit(2, 1430, "entry app::g")
            .gap(2, 1440, 1450, 1);
        let mut text = Vec::new();
        export(Format::Folded, None, fixture.results(), &mut text).unwrap();
        let expected = "\
server;ma\\x3bin;app::f 300
server;ma\\x3bin;app::f;app::g 100
process 7;thread 102;app::h 10
process 7;thread 102;app::h;app::g 10
";
        assert_eq!(String::from_utf8(text).unwrap(), expected);
    }

    #[test]
    fn outermost_calls_are_inside_of_their_stacks() {
        let fixture = Fixture::new()
            .fields(1, 1000, "entry app::f", vec![("stack", stack(&["handle", "main"]))])
            .fields(1, 1100, "entry app::g", vec![("stack", stack(&["app::f", "handle", "main"]))])
            .hit(1, 1200, "exit app::g")
            .hit(1, 1300, "exit app::f");
        let mut text = Vec::new();
        export(Format::Folded, None, fixture.results(), &mut text).unwrap();
        let expected = "\
process 7;thread 101;main;handle;app::f 200
process 7;thread 101;main;handle;app::f;app::g 100
";
        assert_eq!(String::from_utf8(text).unwrap(), expected);
    }

    #[test]
    fn a_line_has_a_limit() {
        let path = format!("entry app::{}", "x".repeat(MAX_STACK_BYTES / 16));
        let fixture =
            (0..20).fold(Fixture::new(), |fixture, at| fixture.hit(1, at, &path)).hit(1, 30, "entry app::g");
        let mut text = Vec::new();
        export(Format::Folded, None, fixture.results(), &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 20, "a call that ends as it begins has no line");
        assert!(lines[14].ends_with("x 1") && lines[15].ends_with("x;… 1") && lines[19].ends_with("x;… 11"));
        assert!(lines.iter().all(|line| line.len() < MAX_STACK_BYTES + 16));
    }
}
