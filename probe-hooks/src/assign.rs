//! The functions that a use of a hook is a probe of.
//!
//! Inlined functions with like ends may share a call, and of some calls not all functions can be
//! told. Such a use belongs to each function that it may be made for, as far as another one is
//! surely made for that function.

use std::collections::HashMap;
use std::hash::Hash;

use crate::code::HookUse;

/// A use, and the functions whose addresses it may pass.
pub type ResolvedUse<'a, F> = (&'a HookUse, Vec<F>);

/// Returns each use with its functions, of which the first one owns the call: none if that is left
/// to the first hit. With each function comes the address of a use that is surely made for it, one
/// in the same code if there is such. `decoded` has the uses of functions, those in the code of one
/// together.
pub fn assign<F: Copy + Eq + Hash>(
    decoded: Vec<Vec<ResolvedUse<'_, F>>>,
) -> Vec<ResolvedUse<'_, (F, usize)>> {
    let places: HashMap<_, _> = decoded.iter().flat_map(|uses| certain(uses)).collect();
    let mut assigned = Vec::new();
    for uses in decoded {
        let nearer: HashMap<_, _> = certain(&uses).collect();
        let place = |it: &F| nearer.get(it).or(places.get(it)).copied();
        assigned.extend(uses.into_iter().map(|(hook_use, functions)| {
            (hook_use, functions.into_iter().filter_map(|it| Some((it, place(&it)?))).collect())
        }));
    }
    assigned
}

/// Returns the functions that certainly use a hook, each with the address of that call or jump.
fn certain<F: Copy>(uses: &[ResolvedUse<'_, F>]) -> impl Iterator<Item = (F, usize)> {
    uses.iter().filter_map(|(it, told)| if let [only] = told[..] { Some((only, it.at)) } else { None })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::{Form, Target};
    use probe_core::abi::Kind;

    #[test]
    fn a_shared_call_is_of_functions_that_surely_have_another_one() {
        let uses = [10, 20, 30, 40].map(|at| HookUse {
            kind: Kind::Exit,
            at,
            len: 5,
            form: Form::Call,
            target: Target::Direct(0),
            functions: Vec::new(),
            are_all: true,
        });
        let [one, two, shared, none] = &uses;
        let decoded = vec![vec![(one, vec!['a'])], vec![(two, vec!['b']), (shared, vec!['a', 'b', 'c'])]];
        let assigned: Vec<_> =
            assign(decoded).into_iter().map(|(it, functions)| (it.at, functions)).collect();
        let expected = [(10, vec![('a', 10)]), (20, vec![('b', 20)]), (30, vec![('a', 10), ('b', 20)])];
        assert_eq!(assigned, expected);
        assert_eq!(assign(vec![vec![(none, vec!['d', 'e'])]])[0].1, []);
    }
}
