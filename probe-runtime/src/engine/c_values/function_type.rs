//! Types of C functions, as Rust's pointers to functions have them, and as debug information has.

// Safety: relies on callers of `at`, who promise the type of the function.
#![expect(unsafe_code, reason = "see above")]

use probe_hooks::signatures::{Kind, Signature, stack_words};

use crate::engine::entry::backend::diversion::ResultIn;
use crate::engine::os::object_file::same_file;
use crate::engine::os::objects::{Frozen, freeze};

/// A pointer to a function of C: `extern "C" fn(…)`, also `unsafe`, with at most twelve parameters
/// that are integers, floating-point numbers, truth values or pointers. This crate alone implements
/// it.
///
/// ```
/// fn is_of_c<F: probe_runtime::control::CSignature>() {}
/// is_of_c::<extern "C" fn(*const std::ffi::c_char, u32) -> i32>();
/// ```
/// Structures are not passed in such ways:
/// ```compile_fail,E0277
/// fn is_of_c<F: probe_runtime::control::CSignature>() {}
/// #[repr(C)]
/// struct Pair(i32, i32);
/// is_of_c::<extern "C" fn(Pair)>();
/// ```
pub trait CSignature: Copy + sealed::Function {}

/// A type whose values are passed to functions of C in one register, or in one word of the stack.
///
/// ```
/// fn is_of_c<T: probe_runtime::control::CType>() {}
/// is_of_c::<*mut [u8; 64]>();
/// is_of_c::<f32>();
/// ```
pub trait CType: sealed::Value {}

pub(crate) mod sealed {
    use super::Kind;

    pub trait Value {
        const KIND: Option<Kind>;
    }

    pub trait Function {
        /// Returns the kinds of the parameters, and that of the result.
        fn kinds() -> (Vec<Kind>, Option<Kind>);

        fn addr(self) -> usize;

        /// # Safety
        /// There must be such a function.
        unsafe fn at(addr: usize) -> Self;
    }
}

macro_rules! values {
    ($($ty:ty => $kind:expr,)*) => {
        $(
            impl sealed::Value for $ty {
                const KIND: Option<Kind> = $kind;
            }
            impl CType for $ty {}
        )*
    };
}

values! {
    () => None,
    bool => Some(Kind::Bool),
    i8 => Some(Kind::Signed(1)),
    i16 => Some(Kind::Signed(2)),
    i32 => Some(Kind::Signed(4)),
    i64 => Some(Kind::Signed(8)),
    isize => Some(Kind::Signed(8)),
    u8 => Some(Kind::Unsigned(1)),
    u16 => Some(Kind::Unsigned(2)),
    u32 => Some(Kind::Unsigned(4)),
    u64 => Some(Kind::Unsigned(8)),
    usize => Some(Kind::Unsigned(8)),
    f32 => Some(Kind::Float(4)),
    f64 => Some(Kind::Float(8)),
}

impl<T> sealed::Value for *const T {
    const KIND: Option<Kind> = Some(Kind::Unsigned(8));
}
impl<T> CType for *const T {}

impl<T> sealed::Value for *mut T {
    const KIND: Option<Kind> = Some(Kind::Unsigned(8));
}
impl<T> CType for *mut T {}

impl<F: CSignature> sealed::Value for Option<F> {
    const KIND: Option<Kind> = Some(Kind::Unsigned(8));
}
impl<F: CSignature> CType for Option<F> {}

macro_rules! functions {
    ($([$($parameter:ident)*])*) => {
        $(
            functions! { extern "C" fn($($parameter,)*) -> R, $($parameter)* }
            functions! { unsafe extern "C" fn($($parameter,)*) -> R, $($parameter)* }
        )*
    };
    ($ty:ty, $($parameter:ident)*) => {
        impl<$($parameter: CType,)* R: CType> sealed::Function for $ty {
            fn kinds() -> (Vec<Kind>, Option<Kind>) {
                let parameters: &[Option<Kind>] = &[$($parameter::KIND,)*];
                (parameters.iter().flatten().cloned().collect(), R::KIND)
            }

            fn addr(self) -> usize {
                (self as *const ()).expose_provenance()
            }

            unsafe fn at(addr: usize) -> Self {
                // SAFETY: the caller's promise.
                unsafe { std::mem::transmute(std::ptr::with_exposed_provenance::<()>(addr)) }
            }
        }

        impl<$($parameter: CType,)* R: CType> CSignature for $ty {}
    };
}

functions! {
    []
    [A]
    [A B]
    [A B C]
    [A B C D]
    [A B C D E]
    [A B C D E F]
    [A B C D E F G]
    [A B C D E F G H]
    [A B C D E F G H I]
    [A B C D E F G H I J]
    [A B C D E F G H I J K]
    [A B C D E F G H I J K L]
}

/// The type of a function, by the pointer's type `F`.
pub(crate) struct FunctionType {
    parameters: Vec<Kind>,
    result: Option<Kind>,
}

impl FunctionType {
    pub(crate) fn of<F: CSignature>() -> Self {
        let (parameters, result) = F::kinds();
        Self { parameters, result }
    }

    /// Returns the number of words of the stack that have parameters.
    pub(crate) fn stack_words(&self) -> usize {
        stack_words(&self.parameters).unwrap_or_default()
    }

    pub(crate) fn result_in(&self) -> ResultIn {
        match self.result {
            None => ResultIn::Nothing,
            Some(Kind::Float(_)) => ResultIn::Vector,
            Some(_) => ResultIn::Integer,
        }
    }

    /// Checks it against what the object's debug information says of the function whose entry is at
    /// this address, and that its callers follow the calling convention.
    ///
    /// # Errors
    /// What differs, or is not known.
    pub(crate) fn check_at(&self, site: usize) -> Result<(), String> {
        let objects = freeze(Frozen::every);
        let object = objects.iter().find(|object| object.holds(site));
        let Some(file) = object.and_then(same_file) else {
            return Err("the file that it was loaded from was replaced, so nothing tells its type".to_owned());
        };
        let signature = file.signatures(&[(site, probe_hooks::signatures::Position::Entry)]).pop().flatten();
        let is_global = || !file.global_functions(&[site]).is_empty();
        self.check(signature.as_ref(), is_global)
    }

    fn check(&self, signature: Option<&Signature>, is_global: impl FnOnce() -> bool) -> Result<(), String> {
        let Some(signature) = signature else {
            let problem = "there is neither debug information nor a global symbol that tells how it is called; \
                           compile it with -g";
            return if is_global() { Ok(()) } else { Err(problem.to_owned()) };
        };
        if signature.is_variadic {
            return Err("it takes a variable number of arguments".to_owned());
        }
        if !signature.follows_convention {
            let problem = "the compiler may have changed its parameters, since it is local to its file; compile \
                           it with -O0, or without `static`";
            return Err(problem.to_owned());
        }
        let (own, known) = (self.parameters.len(), signature.parameters.len());
        if own != known {
            return Err(format!("it has {known} parameters, and the given type has {own}"));
        }
        for (number, (own, known)) in (1..).zip(self.parameters.iter().zip(&signature.parameters)) {
            if Shape::of(own) != Shape::of(&known.kind) {
                let name = known.name.as_ref().map_or_else(String::new, |name| format!(" (`{name}`)"));
                return Err(format!(
                    "its parameter {number}{name} is {}, and that of the given type is {}",
                    Shape::of(&known.kind),
                    Shape::of(own)
                ));
            }
        }
        let known = signature.result.as_ref().map_or(Shape::Nothing, |(kind, _)| Shape::of(kind));
        let own = self.result.as_ref().map_or(Shape::Nothing, Shape::of);
        if own == known {
            Ok(())
        } else {
            Err(format!("its result is {known}, and that of the given type is {own}"))
        }
    }
}

/// The part of a type that two functions must have in common. Signs may differ, and so may the
/// targets of pointers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Shape {
    Nothing,
    Integer(u8),
    Float(u8),
    Other,
}

impl Shape {
    fn of(kind: &Kind) -> Self {
        match kind {
            Kind::Unsigned(bytes) | Kind::Signed(bytes) => Self::Integer(*bytes),
            Kind::Bool => Self::Integer(1),
            Kind::Text => Self::Integer(8),
            Kind::Enumeration(it) => Self::Integer(it.bytes),
            Kind::Float(bytes) => Self::Float(*bytes),
            Kind::Hidden => Self::Other,
        }
    }
}

impl std::fmt::Display for Shape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Nothing => f.write_str("nothing"),
            Self::Integer(8) => f.write_str("an integer or a pointer of 8 bytes"),
            Self::Integer(1) => f.write_str("an integer of 1 byte"),
            Self::Integer(bytes) => write!(f, "an integer of {bytes} bytes"),
            Self::Float(bytes) => write!(f, "a floating-point number of {bytes} bytes"),
            Self::Other => f.write_str("a structure, a vector or a number of more than 8 bytes"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use probe_hooks::signatures::{Parameter, Place};

    type Given = extern "C" fn(*const u8, i32, f64) -> u32;
    type Long = unsafe extern "C" fn(i8, u8, bool, u16, i64, usize, *mut i8, Option<Given>, f32);

    fn signature(kinds: &[Kind], result: Option<Kind>) -> Signature {
        let parameter =
            |kind: &Kind| Parameter { name: Some("x".to_owned()), kind: kind.clone(), place: Place::Absent };
        Signature {
            parameters: kinds.iter().map(parameter).collect(),
            result: result.map(|kind| (kind, Place::Absent)),
            is_variadic: false,
            follows_convention: true,
        }
    }

    fn check(signature: &Signature) -> Result<(), String> {
        FunctionType::of::<Given>().check(Some(signature), || false)
    }

    #[test]
    fn types_agree_in_number_class_and_size() {
        let fitting = signature(&[Kind::Text, Kind::Unsigned(4), Kind::Float(8)], Some(Kind::Signed(4)));
        assert_eq!(check(&fitting), Ok(()));
        let [text, int, float] = [Kind::Text, Kind::Signed(4), Kind::Float(8)];
        for (kinds, result, problem) in [
            (
                vec![text.clone(), int.clone()],
                Some(Kind::Signed(4)),
                "it has 2 parameters, and the given type has 3",
            ),
            (
                vec![text.clone(), Kind::Signed(8), float.clone()],
                Some(Kind::Signed(4)),
                "its parameter 2 (`x`) is an integer or a pointer of 8 bytes, and that of the given type is an \
                 integer of 4 bytes",
            ),
            (
                vec![text.clone(), int.clone(), Kind::Hidden],
                Some(Kind::Signed(4)),
                "its parameter 3 (`x`) is a structure, a vector or a number of more than 8 bytes, and that of the \
                 given type is a floating-point number of 8 bytes",
            ),
            (
                vec![text, int, float],
                None,
                "its result is nothing, and that of the given type is an integer of 4 bytes",
            ),
        ] {
            assert_eq!(check(&signature(&kinds, result)), Err(problem.to_owned()));
        }
        assert!(check(&Signature { is_variadic: true, ..fitting.clone() }).unwrap_err().contains("variable"));
        assert!(check(&Signature { follows_convention: false, ..fitting }).unwrap_err().contains("`static`"));
    }

    #[test]
    fn without_debug_information_a_global_symbol_is_needed() {
        let given = FunctionType::of::<Given>();
        assert_eq!(given.check(None, || true), Ok(()));
        assert!(given.check(None, || false).unwrap_err().contains("-g"));
    }

    #[test]
    fn the_pointers_type_tells_the_stack_and_the_result() {
        let given = FunctionType::of::<Given>();
        assert_eq!((given.stack_words(), given.result_in()), (0, ResultIn::Integer));
        let long = FunctionType::of::<Long>();
        assert_eq!((long.stack_words(), long.result_in()), (2, ResultIn::Nothing));
        assert_eq!(FunctionType::of::<extern "C" fn() -> f32>().result_in(), ResultIn::Vector);
    }
}
