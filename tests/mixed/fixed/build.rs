use probe_build::{Build, Sites};

fn main() {
    let clang = std::env::var_os("CARGO_FEATURE_CLANG").map(|_| "clang");
    for compiler in ["gcc"].into_iter().chain(clang) {
        let build = |file: &str, sites, level| {
            Build::new()
                .file(format!("c/{file}.c"))
                .compiler(compiler)
                .pic(false)
                .flag("-fno-pic")
                .flag(level)
                .define("NAME(it)", format!("{compiler}_##it").as_str())
                .sites(sites)
                .compile(&format!("{compiler}_{file}"));
        };
        build("entries", Sites::EntryReturn, "-O2");
        build("hooks", Sites::InstrumentFunctions, "-O1");
        build("points", Sites::None, "-O2");
    }
}
