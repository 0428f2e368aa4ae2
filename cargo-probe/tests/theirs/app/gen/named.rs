fn named(n: u32) -> String {
    let place = format!("{}:{}", file!(), line!());
    format!("{} {n}", &place[place.rfind("app/").unwrap()..])
}
