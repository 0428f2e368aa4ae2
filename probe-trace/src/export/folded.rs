//! Folded stacks: one line for each distinct stack, with its self time in nanoseconds, in the order
//! in which the trace has them first.
//!
//! ```text
//! server;main;app::main;app::read 1200
//! ```
//! Names are full paths, after those of program and thread. Semicolons and control characters of
//! names are escaped: `\x3b`. Calls that the trace cuts off count to where they are cut.
//!
//! Memory: some words for each distinct stack. Its text is made when its line is written.

use std::{
    borrow::Cow,
    collections::HashMap,
    fmt::Write as _,
    io::{self, Write},
    iter::successors,
};

use super::sink::Sink;
use crate::calls::{Step, Track};
use crate::item::{Thread, ThreadId};

/// Bytes of a line's stack. The names of further calls are left out, and a mark ends the line.
const MAX_STACK_BYTES: usize = 1 << 16;
/// The parent of a root.
const NO_PARENT: usize = usize::MAX;

pub(super) struct Folded<W> {
    writer: W,
    threads: HashMap<ThreadId, OpenCalls>,
    names: Names,
    /// All distinct stacks as a tree; parents come before their children.
    nodes: Vec<Node>,
    /// Nodes by parent and name.
    children: HashMap<(usize, usize), usize>,
}

/// A distinct stack: its innermost call, and the stack around that. Programs and threads are the
/// outermost calls.
struct Node {
    parent: usize,
    name: usize,
    /// Self time.
    self_time: u64,
}

/// Distinct names, by number.
#[derive(Default)]
struct Names {
    numbers: HashMap<String, usize>,
    escaped: Vec<String>,
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

impl Names {
    fn number(&mut self, name: &str) -> usize {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        self.numbers.insert(name.to_owned(), self.escaped.len());
        self.escaped.push(escaped(name));
        self.escaped.len() - 1
    }
}

impl<W: Write> Folded<W> {
    pub(super) fn new(writer: W) -> Self {
        let (threads, children) = (HashMap::new(), HashMap::new());
        Self { writer, threads, names: Names::default(), nodes: Vec::new(), children }
    }

    /// Returns the node of a call inside of a stack.
    fn node(&mut self, parent: usize, name: &str) -> usize {
        let name = self.names.number(name);
        *self.children.entry((parent, name)).or_insert_with(|| {
            self.nodes.push(Node { parent, name, self_time: 0 });
            self.nodes.len() - 1
        })
    }

    /// Returns the text of a node's stack. `stack` is room for its nodes.
    fn text(&self, node: usize, stack: &mut Vec<usize>) -> String {
        stack.clear();
        stack.extend(successors(Some(node), |node| {
            Some(self.nodes[*node].parent).filter(|it| *it != NO_PARENT)
        }));
        let mut text = String::new();
        for node in stack.iter().rev() {
            if !text.is_empty() {
                text.push(';');
            }
            let name = &self.names.escaped[self.nodes[*node].name];
            if text.len() + name.len() > MAX_STACK_BYTES {
                text.push('…');
                break;
            }
            text.push_str(name);
        }
        text
    }
}

impl<W: Write> Sink for Folded<W> {
    fn step(&mut self, step: &Step) -> io::Result<()> {
        match step {
            Step::Thread(thread) => {
                let program = self.node(NO_PARENT, &program(thread));
                let root = self.node(program, &name(thread));
                self.threads.insert(thread.id, OpenCalls { root, open: Vec::new() });
            }
            Step::Begin(begin) => {
                let Track::Thread(thread) = begin.track else { return Ok(()) };
                let Some(stack) = self.threads.get(&thread) else { return Ok(()) };
                let around = stack.open.last().map_or(stack.root, |call| call.node);
                let node = self.node(around, &begin.fields.definition().path);
                if let Some(stack) = self.threads.get_mut(&thread) {
                    stack.open.push(OpenCall { node, begin: begin.time, children_time: 0 });
                }
            }
            Step::End(end) => {
                let Track::Thread(thread) = end.track else { return Ok(()) };
                let Some(stack) = self.threads.get_mut(&thread) else { return Ok(()) };
                let Some(open) = stack.open.pop() else { return Ok(()) };
                let whole = end.time.saturating_sub(open.begin);
                let self_time = &mut self.nodes[open.node].self_time;
                *self_time = self_time.saturating_add(whole.saturating_sub(open.children_time));
                if let Some(outer) = stack.open.last_mut() {
                    outer.children_time = outer.children_time.saturating_add(whole);
                }
            }
            Step::Instant(_) | Step::Gap(_) => {}
        }
        Ok(())
    }

    fn finish(&mut self) -> io::Result<()> {
        let mut stack = Vec::new();
        for (number, node) in self.nodes.iter().enumerate().filter(|(_, node)| node.self_time != 0) {
            let text = self.text(number, &mut stack);
            writeln!(self.writer, "{text} {}", node.self_time)?;
        }
        Ok(())
    }
}

/// Returns the name of the thread's program, or the id of its process.
fn program(thread: &Thread) -> Cow<'_, str> {
    match &*thread.program {
        "" => format!("process {}", thread.id.process).into(),
        program => program.into(),
    }
}

/// Returns the thread's name, or its id.
fn name(thread: &Thread) -> Cow<'_, str> {
    match &*thread.name {
        "" => format!("thread {}", thread.id.tid).into(),
        name => name.into(),
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
    use crate::fixtures::Fixture;

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
