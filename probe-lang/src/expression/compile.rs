//! Compiling an expression for one probe.

use super::check::{Mismatch, Scope, Source, condition, mistake, scalar};
use super::program::{Constant, Operand, Program, REGISTERS, Step, Target, Within};
use super::tree::{Arithmetic, Comparison, Node, Part};
use probe_core::abi::Type;

struct Compiler<'a> {
    scope: &'a Scope<'a>,
    steps: Vec<Step>,
    constants: Vec<Constant>,
    has_registers: bool,
    samples: u8,
}

impl Program {
    /// Compiles a condition for the probe of this scope.
    ///
    /// # Errors
    /// The expression does not fit the probe.
    pub fn condition(node: &Node, scope: &Scope<'_>) -> Result<Self, Mismatch> {
        condition(node, scope)?;
        let mut compiler = Compiler::new(scope);
        let begin = compiler.condition(node, Target::YES, Target::NO)?;
        Ok(compiler.program(begin, Operand::Thread))
    }

    /// Compiles a value for the probe of this scope.
    ///
    /// # Errors
    /// The expression does not fit the probe.
    pub fn of_value(node: &Node, scope: &Scope<'_>) -> Result<Self, Mismatch> {
        scalar(node, scope)?;
        let mut compiler = Compiler::new(scope);
        let result = compiler.operand(node, 0)?;
        let begin = compiler.calculate(node, 0, Target::YES)?;
        Ok(compiler.program(begin, result))
    }
}

fn too_deep<T>(at: usize) -> Result<T, Mismatch> {
    mistake(at, format!("at most {REGISTERS} numbers are calculated inside of each other"))
}

impl<'a> Compiler<'a> {
    fn new(scope: &'a Scope<'a>) -> Self {
        Self { scope, steps: Vec::new(), constants: Vec::new(), has_registers: false, samples: 0 }
    }

    fn program(self, begin: Target, result: Operand) -> Program {
        let first = match self.steps.last() {
            Some(Step::Within(within)) => *within,
            _ => Within::default(),
        };
        Program {
            first,
            steps: self.steps.into(),
            constants: self.constants.into(),
            begin,
            result,
            has_registers: self.has_registers,
        }
    }

    fn step(&mut self, step: Step) -> Target {
        self.steps.push(step);
        // An expression has far fewer parts.
        Target(u16::try_from(self.steps.len() + 1).unwrap_or(u16::MAX))
    }

    fn constant(&mut self, constant: Constant) -> Operand {
        self.constants.push(constant);
        Operand::Constant(u16::try_from(self.constants.len() - 1).unwrap_or(u16::MAX))
    }

    /// Returns where a part's value is once [`calculate`](Self::calculate) has run with the same
    /// register.
    fn operand(&mut self, node: &Node, register: u8) -> Result<Operand, Mismatch> {
        if let Some(number) = int(node) {
            return Ok(self.constant(Constant::Int(number)));
        }
        Ok(match &node.part {
            Part::Float(it) => self.constant(Constant::Float(*it)),
            Part::Bool(it) => self.constant(Constant::Bool(*it)),
            Part::Char(it) => self.constant(Constant::Char(*it)),
            Part::Text(it) => self.constant(Constant::Text(it.as_str().into())),
            Part::Name(name) => match self.scope.source(name) {
                Some((Source::Field(at), _)) => Operand::Field(at),
                Some((Source::Thread, _)) => Operand::Thread,
                Some((Source::Time, _)) => Operand::Time,
                Some((Source::Latency, _)) => Operand::Latency,
                None => return Err(Mismatch::Unknown { name: name.clone(), at: node.at }),
            },
            Part::Len(of) => match &of.part {
                Part::Name(name) => match self.scope.source(name) {
                    Some((Source::Field(at), _)) => Operand::Len(at),
                    _ => return Err(Mismatch::Unknown { name: name.clone(), at: of.at }),
                },
                _ => return too_deep(of.at),
            },
            Part::Negative(_) | Part::Calculate(..) if usize::from(register) < REGISTERS => {
                Operand::Register(register)
            }
            Part::Negative(_) | Part::Calculate(..) => return too_deep(node.at),
            _ => return mistake(node.at, "a value is needed here, and this is a condition".to_owned()),
        })
    }

    /// Adds the steps that calculate a part's value, before the step `then`.
    fn calculate(&mut self, node: &Node, register: u8, then: Target) -> Result<Target, Mismatch> {
        let (operator, left, right) = match &node.part {
            _ if int(node).is_some() => return Ok(then),
            Part::Calculate(operator, left, right) => (*operator, Some(left), right),
            Part::Negative(of) => (Arithmetic::Subtract, None, of),
            _ => return Ok(then),
        };
        let from = match left {
            Some(left) => self.operand(left, register)?,
            None => self.constant(Constant::Int(0)),
        };
        let to = self.operand(right, register + 1)?;
        self.has_registers = true;
        let mut next = self.step(Step::Calculate { into: register, operator, left: from, right: to });
        next = self.calculate(right, register + 1, next)?;
        match left {
            Some(left) => self.calculate(left, register, next),
            None => Ok(next),
        }
    }

    /// Adds the steps of a condition, and returns the first.
    fn condition(&mut self, node: &Node, yes: Target, no: Target) -> Result<Target, Mismatch> {
        match &node.part {
            Part::Not(of) => self.condition(of, no, yes),
            Part::And(left, right) => {
                let then = self.condition(right, yes, no)?;
                self.condition(left, then, no)
            }
            Part::Or(left, right) => {
                let then = self.condition(right, yes, no)?;
                self.condition(left, yes, then)
            }
            Part::First(hits) => {
                let sample = self.sample();
                Ok(self.step(Step::First { sample, hits: *hits, yes, no }))
            }
            Part::OneIn(hits) => {
                let sample = self.sample();
                Ok(self.step(Step::OneIn { sample, hits: *hits, yes, no }))
            }
            Part::Compare(operator, left, right) => self.compare(*operator, left, right, yes, no),
            _ => {
                let of = self.operand(node, 0)?;
                let truth = self.step(Step::Truth { of, yes, no });
                self.calculate(node, 0, truth)
            }
        }
    }

    fn sample(&mut self) -> u8 {
        self.samples += 1;
        self.samples - 1
    }

    fn compare(
        &mut self,
        operator: Comparison,
        left: &Node,
        right: &Node,
        yes: Target,
        no: Target,
    ) -> Result<Target, Mismatch> {
        if let Some(step) = self.within(operator, left, right, yes, no) {
            return Ok(self.step(step));
        }
        let (a, b) = (self.operand(left, 0)?, self.operand(right, 1)?);
        let mut next = self.step(Step::Compare { operator, left: a, right: b, yes, no });
        next = self.calculate(right, 1, next)?;
        self.calculate(left, 0, next)
    }

    /// Returns the step of a comparison of a 64-bit field with a constant.
    fn within(
        &self,
        operator: Comparison,
        left: &Node,
        right: &Node,
        yes: Target,
        no: Target,
    ) -> Option<Step> {
        let (field, constant, operator) = match (int(left), int(right)) {
            (None, Some(constant)) => (left, constant, operator),
            (Some(constant), None) => (right, constant, operator.mirrored()),
            _ => return None,
        };
        let Part::Name(name) = &field.part else { return None };
        let (Source::Field(field), Some(ty)) = self.scope.source(name)? else { return None };
        let (least, most, flip) = match ty {
            Type::U64 => (0, i128::from(u64::MAX), 0),
            Type::I64 => (i128::from(i64::MIN), i128::from(i64::MAX), 1 << 63),
            _ => return None,
        };
        let (low, high) = match operator {
            Comparison::Equal | Comparison::NotEqual => (constant, constant),
            Comparison::Less => (least, constant.checked_sub(1)?),
            Comparison::LessOrEqual => (least, constant),
            Comparison::Greater => (constant.checked_add(1)?, most),
            Comparison::GreaterOrEqual => (constant, most),
            Comparison::Matches | Comparison::MatchesNot => return None,
        };
        let (low, high) = (low.max(least), high.min(most));
        let span = u64::try_from(high.checked_sub(low)?).ok()?;
        let low = u64::try_from(low - least).ok()?;
        let (yes, no) = if operator == Comparison::NotEqual { (no, yes) } else { (yes, no) };
        Some(Step::Within(Within { flip, low, span, ty: ty as u64, field, yes, no }))
    }
}

/// Returns a constant integer, also with a sign.
fn int(node: &Node) -> Option<i128> {
    match &node.part {
        Part::Int(number) => Some(*number),
        Part::Negative(of) => int(of)?.checked_neg(),
        _ => None,
    }
}
