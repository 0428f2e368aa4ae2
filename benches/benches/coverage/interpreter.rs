//! An interpreter: a tree of trait objects, some of them generic over their operation.

use std::marker::PhantomData;

use probe_runtime::probe;

/// The variables.
type Scope = [u64; 4];

trait Node {
    fn value(&self, scope: &mut Scope) -> u64;
}

type Tree = Box<dyn Node>;

struct Number(u64);
struct Variable(usize);
struct Assignment(usize, Tree);
struct LoopNode(Tree, Tree);
struct Choice(Tree, Tree, Tree);
struct Block(Vec<Tree>);
struct Binary<O>(Tree, Tree, PhantomData<O>);

trait Operator {
    fn apply(left: u64, right: u64) -> u64;
}

macro_rules! operators {
    ($($name:ident $apply:expr;)*) => {
        $(
            struct $name;
            #[probe(all)]
            impl Operator for $name {
                fn apply(left: u64, right: u64) -> u64 {
                    let apply: fn(u64, u64) -> u64 = $apply;
                    apply(left, right)
                }
            }
        )*
    };
}
operators! {
    Sum |left, right| left.wrapping_add(right);
    Product |left, right| left.wrapping_mul(right);
    Quotient |left, right| left / right.max(1);
    Remainder |left, right| left % right.max(1);
    Unequal |left, right| u64::from(left != right);
}

#[probe(all)]
impl Node for Number {
    fn value(&self, _: &mut Scope) -> u64 {
        self.0
    }
}

#[probe(all)]
impl Node for Variable {
    fn value(&self, scope: &mut Scope) -> u64 {
        scope[self.0]
    }
}

#[probe(all)]
impl Node for Assignment {
    fn value(&self, scope: &mut Scope) -> u64 {
        scope[self.0] = self.1.value(scope);
        scope[self.0]
    }
}

#[probe(all)]
impl Node for LoopNode {
    fn value(&self, scope: &mut Scope) -> u64 {
        let mut last = 0;
        while self.0.value(scope) != 0 {
            last = self.1.value(scope);
        }
        last
    }
}

#[probe(all)]
impl Node for Choice {
    fn value(&self, scope: &mut Scope) -> u64 {
        if self.0.value(scope) != 0 { self.1.value(scope) } else { self.2.value(scope) }
    }
}

#[probe(all)]
impl Node for Block {
    fn value(&self, scope: &mut Scope) -> u64 {
        self.0.iter().fold(0, |_, node| node.value(scope))
    }
}

#[probe(all)]
impl<O: Operator> Node for Binary<O> {
    fn value(&self, scope: &mut Scope) -> u64 {
        let left = self.0.value(scope);
        O::apply(left, self.1.value(scope))
    }
}

fn number(value: u64) -> Tree {
    Box::new(Number(value))
}

fn variable(of: usize) -> Tree {
    Box::new(Variable(of))
}

fn assignment(of: usize, value: Tree) -> Tree {
    Box::new(Assignment(of, value))
}

fn binary<O: Operator + 'static>(left: Tree, right: Tree) -> Tree {
    Box::new(Binary(left, right, PhantomData::<O>))
}

const START: usize = 0;
const AT: usize = 1;
const STEPS: usize = 2;

/// Counts the steps of Collatz's rule from `START` to 1.
fn collatz() -> Tree {
    let half = binary::<Quotient>(variable(AT), number(2));
    let more = binary::<Sum>(binary::<Product>(number(3), variable(AT)), number(1));
    let is_odd = binary::<Remainder>(variable(AT), number(2));
    let step = Box::new(Block(vec![
        assignment(AT, Box::new(Choice(is_odd, more, half))),
        assignment(STEPS, binary::<Sum>(variable(STEPS), number(1))),
    ]));
    Box::new(Block(vec![
        assignment(AT, variable(START)),
        assignment(STEPS, number(0)),
        Box::new(LoopNode(binary::<Unequal>(variable(AT), number(1)), step)),
        variable(STEPS),
    ]))
}

/// Counts the steps from each number up to `20 * work`.
#[probe]
pub fn run(work: u64) -> u64 {
    let tree = collatz();
    let steps = |start| tree.value(&mut [start, 0, 0, 0]);
    (1..=20 * work).map(steps).sum()
}
