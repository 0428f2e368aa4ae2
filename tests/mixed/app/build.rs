fn main() {
    probe_build::Build::new().cpp(true).files(["c/count.cpp", "c/words.cpp"]).compile("words");
}
