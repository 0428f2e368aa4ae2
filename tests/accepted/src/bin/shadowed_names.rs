//! A module whose names shadow all that an expansion could be tempted to use, or has inside.

#![allow(dead_code, non_camel_case_types, non_upper_case_globals, unused_macros)]

mod user {
    use ::probe_runtime::probe;

    pub mod core {}
    pub mod std {}
    pub mod alloc {}
    pub mod probe_runtime {}
    pub mod linkme {}
    pub struct Some;
    pub struct None;
    pub struct Ok;
    pub struct Err;
    pub struct Option;
    pub struct Result;
    pub struct String;
    pub struct Drop;
    pub struct Fn;
    pub struct Sync;
    pub struct u8;
    pub struct u32;
    pub struct u64;
    pub struct i32;
    pub struct usize;
    pub struct bool;
    pub struct str;
    pub struct Exit;
    pub const DEFINITION: i64 = 5;
    pub const values: i64 = 6;
    pub struct Definition;
    pub fn drop() {}
    pub fn stub() {}

    macro_rules! asm { ($($t:tt)*) => { compile_error!("the user's asm") } }
    macro_rules! line { ($($t:tt)*) => { compile_error!("the user's line") } }
    macro_rules! file { ($($t:tt)*) => { compile_error!("the user's file") } }
    macro_rules! column { ($($t:tt)*) => { compile_error!("the user's column") } }
    macro_rules! concat { ($($t:tt)*) => { compile_error!("the user's concat") } }
    macro_rules! module_path { ($($t:tt)*) => { compile_error!("the user's module_path") } }

    #[probe]
    pub fn f(stub: i64, site: &i64) -> i64 {
        let _probe_exit = 1;
        let value = 2;
        // Each must be the user's, of the user's type, even if an expansion uses the same name.
        probe!("here", stub = -stub, DEFINITION = -DEFINITION, values = -values, value, site = *site, ?_probe_exit);
        value + _probe_exit + stub
    }

    #[probe(args(*), ret(a = 1, b = 2, c = 3))]
    pub async fn g(n: i64, m: i64) -> i64 {
        n + m
    }

    #[probe(replace, args(*), ret)]
    pub fn h(n: i64) -> i64 {
        n
    }
}

fn main() {
    assert_eq!((user::f(0, &1), user::h(4)), (3, 4));
    drop(user::g(1, 2));
}
