use probe_build::{Build, Sites};

fn main() {
    for (compiler, name) in [("gcc", "gcc"), ("clang", "clang")] {
        let build = |file: &str, sites, level| {
            Build::new()
                .file(format!("c/{file}.c"))
                .compiler(compiler)
                .pic(false)
                .flag("-fno-pic")
                .flag(level)
                .define("NAME(it)", format!("{name}_##it").as_str())
                .sites(sites)
                .compile(&format!("{name}_{file}"));
        };
        build("entries", Sites::EntryReturn, "-O2");
        build("hooks", Sites::InstrumentFunctions, "-O1");
        build("points", Sites::None, "-O2");
    }
}
