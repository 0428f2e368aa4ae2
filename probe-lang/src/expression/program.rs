//! An expression as a flat program: steps that each lead to an earlier index, so it ends.
//!
//! The steps lie in the reverse order of their execution: the compiler knows where a condition
//! leads before it writes the condition.

use super::datum::{Datum, Fault};
use super::tree::{Arithmetic, Comparison};
use probe_core::abi::{Type, Value};

/// Values at once while numbers are calculated.
pub(super) const REGISTERS: usize = 8;

/// Where a step leads: to an end, or to another step.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Target(pub(super) u16);

impl Target {
    pub(super) const NO: Self = Self(0);
    pub(super) const YES: Self = Self(1);

    /// Returns the decision, if this is an end.
    #[inline(always)]
    fn decision(self) -> Option<bool> {
        (self.0 <= Self::YES.0).then_some(self == Self::YES)
    }

    /// Returns the index of the step.
    #[inline(always)]
    fn step(self) -> Option<usize> {
        self.0.checked_sub(2).map(usize::from)
    }
}

/// The source of a value.
#[derive(Clone, Copy, Debug)]
pub(super) enum Operand {
    Field(u8),
    /// The length of a field.
    Len(u8),
    Constant(u16),
    Register(u8),
    Thread,
    Time,
    Latency,
}

#[derive(Clone, Debug)]
pub(super) enum Constant {
    Int(i128),
    Float(f64),
    Bool(bool),
    Char(char),
    Text(Box<str>),
}

/// Whether a 64-bit integer lies in a range: the most frequent condition.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Within {
    pub(super) flip: u64,
    pub(super) low: u64,
    pub(super) span: u64,
    /// The number of the type that the value must have; 0 is that of none.
    pub(super) ty: u64,
    pub(super) field: u8,
    pub(super) yes: Target,
    pub(super) no: Target,
}

impl Within {
    /// Returns where it leads; `None` if the value is missing or has another type.
    #[inline(always)]
    fn next(&self, values: &[Value<'_>]) -> Option<Target> {
        let value = values.get(usize::from(self.field)).filter(|value| value.ty_number() == self.ty)?;
        let is_within = (value.words()[0] ^ self.flip).wrapping_sub(self.low) <= self.span;
        Some(if is_within { self.yes } else { self.no })
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    Within(Within),
    Compare {
        operator: Comparison,
        left: Operand,
        right: Operand,
        yes: Target,
        no: Target,
    },
    Truth {
        of: Operand,
        yes: Target,
        no: Target,
    },
    /// Continues to the step before this one.
    Calculate {
        into: u8,
        operator: Arithmetic,
        left: Operand,
        right: Operand,
    },
    First {
        sample: u8,
        hits: u64,
        yes: Target,
        no: Target,
    },
    OneIn {
        sample: u8,
        hits: u64,
        yes: Target,
        no: Target,
    },
}

/// A compiled expression, for the hits of one probe.
#[derive(Clone, Debug)]
pub struct Program {
    pub(super) steps: Box<[Step]>,
    pub(super) constants: Box<[Constant]>,
    pub(super) begin: Target,
    /// The first step, or one of no type.
    pub(super) first: Within,
    /// The result of an expression that is a value; none for a condition.
    pub(super) result: Operand,
    pub(super) has_registers: bool,
}

/// The names of an expression besides the fields of a hit.
pub trait Surroundings {
    /// The thread's number.
    fn thread(&self) -> u64;
    /// Nanoseconds since the consumer was attached.
    fn time(&self) -> u64;
    /// Nanoseconds from the entry of the call to this hit.
    fn latency(&self) -> Option<u64>;
    /// Returns whether this is one of the first hits to ask. `sample` tells the terms apart.
    fn first(&self, sample: usize, hits: u64) -> bool;
    /// Returns whether this is the hit of this many, on its thread, that is taken.
    fn one_in(&self, sample: usize, hits: u64) -> bool;
}

impl Program {
    /// Evaluates a condition that compares 64-bit integers with constants. Returns `None` if it
    /// needs [`passes`](Self::passes).
    #[inline(always)]
    pub fn quick(&self, values: &[Value<'_>]) -> Option<bool> {
        let mut at = self.first.next(values)?;
        loop {
            match at.decision() {
                Some(decision) => return Some(decision),
                None => match self.steps.get(at.step()?)? {
                    Step::Within(within) => at = within.next(values)?,
                    _ => return None,
                },
            }
        }
    }

    /// Evaluates a condition.
    pub fn passes(&self, values: &[Value<'_>], around: &impl Surroundings) -> Result<bool, Fault> {
        if self.has_registers {
            let mut registers = [Datum::Bool(false); REGISTERS];
            return self.run(values, around, &mut registers);
        }
        self.run(values, around, &mut [])
    }

    /// Evaluates a value.
    #[inline]
    pub fn value<'a>(
        &'a self,
        values: &'a [Value<'a>],
        around: &impl Surroundings,
    ) -> Result<Datum<'a>, Fault> {
        if let Operand::Field(at) = self.result {
            return Datum::of(values.get(usize::from(at)).ok_or(Fault::Missing)?);
        }
        self.calculated(values, around)
    }

    /// Returns the number of the field that it is.
    pub fn field(&self) -> Option<usize> {
        if let Operand::Field(at) = self.result { Some(at.into()) } else { None }
    }

    #[inline(never)]
    fn calculated<'a>(
        &'a self,
        values: &'a [Value<'a>],
        around: &impl Surroundings,
    ) -> Result<Datum<'a>, Fault> {
        let mut registers = [Datum::Bool(false); REGISTERS];
        self.run(values, around, &mut registers)?;
        self.operand(self.result, values, around, &registers)
    }

    fn run<'a>(
        &'a self,
        values: &'a [Value<'a>],
        around: &impl Surroundings,
        registers: &mut [Datum<'a>],
    ) -> Result<bool, Fault> {
        let mut at = self.begin;
        loop {
            let Some(step) = at.step() else { return Ok(at == Target::YES) };
            let value = |operand, registers: &[Datum<'a>]| self.operand(operand, values, around, registers);
            let next = match self.steps[step] {
                Step::Within(within) => {
                    let wrong = |value| Datum::of(value).err().unwrap_or(Fault::OtherType);
                    let fault = || values.get(usize::from(within.field)).map_or(Fault::Missing, wrong);
                    within.next(values).ok_or_else(fault)?
                }
                Step::Compare { operator, left, right, yes, no } => {
                    let (left, right) = (value(left, registers)?, value(right, registers)?);
                    if left.compare(operator, right)? { yes } else { no }
                }
                Step::Truth { of, yes, no } => match value(of, registers)? {
                    Datum::Bool(true) => yes,
                    Datum::Bool(false) => no,
                    _ => return Err(Fault::OtherType),
                },
                Step::Calculate { into, operator, left, right } => {
                    let (left, right) = (value(left, registers)?, value(right, registers)?);
                    let result = left.calculate(operator, right)?;
                    *registers.get_mut(usize::from(into)).ok_or(Fault::Overflow)? = result;
                    Target(at.0 - 1)
                }
                Step::First { sample, hits, yes, no } => {
                    if around.first(sample.into(), hits) {
                        yes
                    } else {
                        no
                    }
                }
                Step::OneIn { sample, hits, yes, no } => {
                    if around.one_in(sample.into(), hits) {
                        yes
                    } else {
                        no
                    }
                }
            };
            debug_assert!(next.0 < at.0, "each step leads to an earlier one");
            at = next;
        }
    }

    fn operand<'a>(
        &'a self,
        operand: Operand,
        values: &'a [Value<'a>],
        around: &impl Surroundings,
        registers: &[Datum<'a>],
    ) -> Result<Datum<'a>, Fault> {
        let field = |at: u8| values.get(usize::from(at)).ok_or(Fault::Missing);
        Ok(match operand {
            Operand::Field(at) => Datum::of(field(at)?)?,
            Operand::Len(at) => {
                let value = field(at)?;
                match value.ty() {
                    // The length of a long text is known without reading it.
                    Some(Type::Str | Type::Bytes) => Datum::Int(value.words()[1].into()),
                    _ => match Datum::of(value)? {
                        Datum::Text(text) if text.is_whole => Datum::Int(text.bytes.len() as i128),
                        Datum::Text(_) => return Err(Fault::TooLong),
                        _ => return Err(Fault::OtherType),
                    },
                }
            }
            Operand::Constant(at) => match &self.constants[usize::from(at)] {
                Constant::Int(it) => Datum::Int(*it),
                Constant::Float(it) => Datum::Float(*it),
                Constant::Bool(it) => Datum::Bool(*it),
                Constant::Char(it) => Datum::Char(*it),
                Constant::Text(it) => Datum::text(it),
            },
            Operand::Register(at) => *registers.get(usize::from(at)).ok_or(Fault::Overflow)?,
            Operand::Thread => Datum::Int(around.thread().into()),
            Operand::Time => Datum::Int(around.time().into()),
            Operand::Latency => Datum::Int(around.latency().ok_or(Fault::Unpaired)?.into()),
        })
    }
}
